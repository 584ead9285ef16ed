"""The widget Segment: the tree of a photograph, cut where a slider, a number or scribbles say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from magicgui.widgets import FileEdit, PushButton, RadioButtons
from napari.layers import Image, Labels
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf.apps.segmentation.regions import load_border_model
from visionnmf.apps.segmentation.segmenter import FEW, SegmentationResult, segment
from visionnmf.apps.segmentation.settings import WantedSegments
from visionnmf.exceptions import OutputExistsError, ParameterError, VisionNMFError
from visionnmf.io import output_folder, read_image, stem_of, together

from .layers import LABELS, source_of, write_labels
from .panel import Panel, control
from .repeating import call, command

OUTPUT = "segments"
WAYS = {"scale": "scale", "number of segments": "n_segments", "scribbles alone": "markers"}


class Segment(Panel):
    """Segments of the chosen image, corrected by what is drawn on a layer of labels."""

    def __init__(self, napari_viewer: Any) -> None:
        """Show the controls in napari's window."""
        self.image = self.choice(napari_viewer, Image, "image")
        self.start = PushButton(text="Segment", tooltip="Find the tree of regions; what follows then works at once.")
        self.way = RadioButtons(label="by", choices=list(WAYS.items()), value="scale")
        self.scale = control(WantedSegments, "scale", load_border_model().scale, widget_type="FloatSlider", step=0.001)
        self.number = control(WantedSegments, "n_segments", 8, annotation=int, min=1, max=choices.MAX_SEGMENTS)
        self.markers = self.choice(napari_viewer, Labels, "scribbles", optional=True)
        self.draw = PushButton(text="New scribbles", tooltip="Draw with a label for each thing; M takes the next one.")
        self.folder = FileEdit(label="folder", mode="d", value=Path())
        self.save = PushButton(text="Save labels and scribbles")
        self._image: Any = None  # the array that was segmented
        self._trees: dict[int, SegmentationResult] = {}  # by the number of superpixels; 0: of regions
        self._source: str | None = None  # the file that holds the same pixels
        self._saved: set[Path] = set()
        controls = [self.image, self.start, self.way, self.scale, self.number, self.markers, self.draw]
        super().__init__(napari_viewer, [*controls, self.folder, self.save])
        self.start.changed.connect(self.grow)
        for each in (self.way, self.scale, self.number):
            each.changed.connect(self.cut)
        self.follow(self.markers, ("paint", "set_data"), self.cut)  # the latter comes when a stroke is undone
        self.draw.changed.connect(self._new_scribbles)
        self.save.changed.connect(self._save)

    def grow(self) -> None:
        """Find the tree of the chosen image."""
        layer = self.image.value
        if layer is None:
            return self.say("Open an image first.")
        image, rgb, source = layer.data, layer.rgb, source_of(layer)

        def work() -> tuple[Any, SegmentationResult, str | None]:
            """Return the image, its result, and its file if that holds the same pixels."""
            if image.ndim != 2 + rgb:
                raise ParameterError(f"image must be one picture; got the shape {image.shape}; choose another layer")
            return image, segment(np.asarray(image)), source if source and _holds(source, image) else None

        return self.work("Finding regions ...", work, self._grown)

    def _grown(self, found: tuple[Any, SegmentationResult, str | None]) -> None:
        """Show the segments of a new tree."""
        self._image, tree, self._source = found
        self._trees = {0: tree}
        if self._source is not None and not self._source.startswith("sample:"):
            self.folder.value = Path(self._source).parent
        self.cut()

    def cut(self, *_: Any) -> None:
        """Show the segments that the tree has with the present settings and scribbles."""
        if not self._trees:
            return
        layer, way = self.markers.value, self.way.value
        marks = None if layer is None or not layer.data.any() else layer.data.copy()  # copied: drawing goes on
        if marks is None and way == "markers":
            return self.say("Draw a scribble on each thing first.")
        given = {} if way == "markers" else {way: (self.scale if way == "scale" else self.number).value}
        # scribbles stand for the file as which they are saved
        wanted = WantedSegments(**given, markers=None if marks is None else self._file("_scribbles.png"))
        image, trees, count = self._image, self._trees, wanted.n_segments

        def work() -> tuple[WantedSegments, NDArray[np.uint16]]:
            """Return the settings and labels for napari, whose 0 is no segment."""
            key = count if count is not None and count > max(FEW, trees[0].hierarchy.n_regions) else 0
            if key not in trees:  # superpixels, which need a finer tree
                trees[key] = segment(np.asarray(image), key)
            found = trees[key].at(n_segments=count, scale=wanted.scale, markers=marks)
            return wanted, found.astype(np.uint16) + np.uint16(1)

        self.work("Cutting ...", work, self._cut)

    def _cut(self, found: tuple[WantedSegments, NDArray[np.uint16]]) -> None:
        """Show segments, and how to repeat them."""
        wanted, labels = found
        self.put(Labels, OUTPUT, labels, opacity=0.5)
        if self._source is None:
            self.command.value = ""
            self.python.value = "# The layer is not what a file holds; save it first, and open the file."
            return
        self.command.value = command("segment", self._source, wanted=wanted)
        self.python.value = call("visionnmf.apps.segmentation", "process_image", self._source, wanted=wanted)

    def _new_scribbles(self) -> None:
        """Add an empty layer to draw on."""
        image = self.image.value
        if image is None:
            return self.say("Open an image first.")
        shape = image.data.shape[:2]
        layer = self.viewer.add_labels(np.zeros(shape, np.uint16), name="scribbles", opacity=1)
        layer.brush_size = max(3, round(min(shape) / 60))
        return self.choose(self.markers, layer, "paint")

    def _file(self, ending: str) -> Path:
        """Return the name of a result in the chosen folder."""
        return self.folder.value / f"{stem_of(self._source or 'image')}{ending}"

    def _save(self) -> None:
        """Write the labels, and the scribbles that the command takes; a file of somebody else is kept."""
        segments = self.made(OUTPUT)
        if segments is None:
            return self.say("Press Segment first.")
        files = {self._file(LABELS): segments}
        if self.markers.value is not None:
            files[self._file("_scribbles.png")] = self.markers.value
        try:
            output_folder(self.folder.value)
            for file in files:
                if file.exists() and file not in self._saved:
                    raise OutputExistsError(f"{file}: exists already; choose another folder")
            with together():
                for file, layer in files.items():
                    write_labels(str(file), layer.data, {})
        except VisionNMFError as error:
            return self.say(error)
        self._saved |= {*files}
        self.state.value = f"Saved {' and '.join(file.name for file in files)}."
        return None


def _holds(source: str, image: Any) -> bool:
    """Return whether a file has the pixels of a layer, which may have been changed or read in another way."""
    try:
        return np.array_equal(read_image(source), image)
    except VisionNMFError:
        return False
