"""``visionnmf view``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from visionnmf import choices
from visionnmf.exceptions import MediaError, installed_by

from .run import running

NAPARI = "napari"
# Qt ends the process that cannot open a window, so that another one tries.
TRIAL = "from qtpy.QtWidgets import QApplication; QApplication([])"


def command(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Photographs, labels, videos, models; sample:NAME.")
    ],
) -> None:
    """Open files in napari, with widgets to segment, to model a background and to factorise.

    Photographs, NAME_labels.png, NAME_scribbles.png, videos, and models (NAME.npz) become layers. The widget Segment
    opens beside photographs, and Background beside videos; these and Components are in napari's menu Plugins. Each
    shows the command that repeats what it did. Of a folder with photographs the first one without labels is opened.

    \b
    Examples:
      visionnmf view photo.jpg
      visionnmf view folder
      visionnmf view video.mp4 video_model.npz
    """
    with running() as run:
        if find_spec(NAPARI) is None:
            raise MediaError(f"napari is needed to view files; {installed_by(NAPARI)}")
        from visionnmf.apps.report import Report
        from visionnmf.apps.viewer.layers import Layer, has_labels, photographs, read

        for number, folder in enumerate(files):  # its first photograph without labels, or the first one
            photos = photographs(folder) if os.path.isdir(folder) else []
            files[number] = next((file for file in photos if not has_labels(file)), [*photos, folder][0])
        suffixes = (*choices.IMAGE_SUFFIXES, *choices.VIDEO_SUFFIXES, ".npz")
        sources = [given.source for given in run.inputs("files", files, suffixes, recursive=False)]
        if not sources:
            return
        trial = subprocess.Popen([sys.executable, "-c", TRIAL], stderr=subprocess.PIPE, text=True, errors="replace")
        said = [line for line in trial.communicate()[1].splitlines() if line.strip()]
        if trial.returncode:
            reason = next((line for line in said if line.startswith("qt.")), said[-1] if said else "no reason given")
            raise MediaError(f"no window can be opened ({reason.strip()}); run this on a desktop, or under xvfb-run")
        layers: list[Layer] = []
        for source in sources:
            with run.attempt(source):
                found = read(source)
                shapes = (f"{kind} {' x '.join(map(str, data.shape))}" for data, _, kind in found)
                run.show(Report(lines=[f"{source}: {', '.join(shapes)}"], inputs=[source]))
                layers += found
        if layers:
            import napari
            from qtpy.QtCore import QTimer

            viewer = napari.Viewer()
            for data, attributes, kind in layers:
                getattr(viewer, f"add_{kind}")(data, **attributes)
            pictures = [data for data, given, _ in layers if "rgb" in given]
            for widget in sorted({"Background" if data.ndim > 3 else "Segment" for data in pictures}):
                panel: Any = viewer.window.add_plugin_dock_widget("visionnmf", widget, tabify=True)[1]
                if widget == "Segment" and any(has_labels(source) for source in sources):
                    QTimer.singleShot(0, panel.grow)  # which brings back what was saved
            QTimer.singleShot(0, viewer.reset_view)  # once the widgets have taken their room
            # Python would see signals only after Qt has ended
            before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGTERM)}
            napari.run()
            for number, handler in before.items():
                signal.signal(number, handler)
