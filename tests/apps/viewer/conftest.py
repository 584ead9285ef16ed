"""A virtual screen with the real napari, for tests of the widgets."""

import gc
import os
import subprocess
import sys

import cv2
import pytest
from real_viewer import SAID

from visionnmf.apps.cli.view import TRIAL
from visionnmf.io import read_image, write_image


@pytest.fixture(scope="session")
def screen():
    """A virtual screen, in place of one that a person looks at."""
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", "1", "-screen", "0", "1280x900x24"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    before = os.environ.get("DISPLAY")
    os.environ["DISPLAY"] = f":{server.stdout.readline().decode().strip()}"
    trial = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, text=True)
    assert trial.returncode == 0, f"Qt cannot open a window; docs/view.md lists what Debian needs\n{trial.stderr}"
    yield
    gc.collect()  # windows, which would miss their screen
    if before is None:
        del os.environ["DISPLAY"]
    else:
        os.environ["DISPLAY"] = before
    server.terminate()
    server.wait()


@pytest.fixture
def viewer(screen, tmp_path, monkeypatch):
    """An empty viewer, in a folder of its own; what it notifies is in `SAID[0]`."""
    import napari
    from napari.utils.notifications import notification_manager

    monkeypatch.chdir(tmp_path)
    shown = napari.Viewer()
    said = []
    notification_manager.notification_ready.connect(lambda notice: said.append(notice.message))
    SAID[:] = [said]
    yield shown
    notification_manager.notification_ready.disconnect()
    shown.close()


@pytest.fixture
def photo(tmp_path):
    """A photograph of 481 x 321 pixels."""
    write_image(tmp_path / "photo.png", cv2.resize(read_image("sample:coffee"), (481, 321)))
    return tmp_path / "photo.png"
