"""What tests of the widgets do in the real napari: open, draw, press buttons, and repeat what a widget shows."""

import os
import shlex
import shutil
import time
from importlib.util import find_spec

import numpy as np
import pytest
from helpers import run_command

from visionnmf.apps.viewer.layers import read
from visionnmf.io import read_image

needs_napari = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # napari and its libraries have some of their own
    pytest.mark.skipif(
        find_spec("napari") is None or shutil.which("Xvfb") is None,
        reason="no napari or no Xvfb; `make test-napari` runs these tests",
    ),
]
LONGEST = 300  # seconds that anything may take, on a busy machine
SAID = [[]]  # what the viewer of the test notified


def opened(viewer, source, widget):
    """Open a file as `visionnmf view` does, and a widget."""
    for data, attributes, kind in read(source):
        getattr(viewer, f"add_{kind}")(data, **attributes)
    return viewer.window.add_plugin_dock_widget("visionnmf", widget)[1]


def is_busy(widget):
    """Return whether the widget works on something, or has something to do."""
    return widget._worker is not None or bool(widget._waiting)


def wait(widget):
    """Let Qt work until the widget has nothing left to do."""
    from qtpy.QtWidgets import QApplication

    end = time.monotonic() + LONGEST
    QApplication.processEvents()
    while is_busy(widget):
        assert time.monotonic() < end
        QApplication.processEvents()
    QApplication.processEvents()


def click(button):
    """Press a button as the mouse does."""
    button.native.click()


def stroke(layer, label, row, columns):
    """Draw a line with the brush, one stroke of the mouse."""
    with layer.block_history():
        for column in np.linspace(*columns, 30):
            layer.paint((row, column), label)


def labels_of(folder, name="photo_labels.png"):
    """Read labels from a folder of results."""
    return read_image(folder / name)[..., 0].astype(int)


def run_shown(widget):
    """Run the command that a widget shows."""
    program, *words = shlex.split(widget.command.value)
    assert program == "visionnmf"
    run = run_command(*words)
    assert run.exit_code == 0, run.output


def repeated(widget, folder):
    """Run the command and the Python call that a widget shows; return their folders."""
    places = folder / "command", folder / "python"
    for place in places:
        place.mkdir()
        os.chdir(place)
        if hasattr(widget, "folder"):
            widget.folder.value = place
        if place.name == "python":
            exec(widget.python.value, {})
        else:
            run_shown(widget)
    return places


def save_a_stroke(widget):
    click(widget.start)
    click(widget.draw)
    wait(widget)
    stroke(widget.markers.value, 1, 60, (40, 400))
    wait(widget)
    click(widget.save)


def wait_for_next(widget, name):
    """Let Qt work until the next photograph is segmented."""
    end = time.monotonic() + LONGEST
    while widget.image.value is None or widget.image.value.name != name or is_busy(widget):
        assert time.monotonic() < end
        wait(widget)
