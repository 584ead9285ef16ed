"""The widget Segment: the tree of a photograph, cut where a slider, a number or scribbles say."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from magicgui.widgets import ComboBox, FileEdit, PushButton
from napari.layers import Image, Labels
from napari.utils.notifications import show_info
from numpy.typing import NDArray
from qtpy.QtCore import QEvent, QObject
from qtpy.QtWidgets import QMessageBox

from visionnmf import choices
from visionnmf._text import counted
from visionnmf.apps.made import made_of
from visionnmf.apps.segmentation.process import formatted, write_content
from visionnmf.apps.segmentation.regions import load_border_model
from visionnmf.apps.segmentation.segmenter import FEW, SegmentationResult, segment
from visionnmf.apps.segmentation.settings import FORMATS, Outputs, WantedSegments
from visionnmf.exceptions import OutputExistsError, ParameterError, VisionNMFError
from visionnmf.io import output_folder, record_of, recording, stem_of, together

from .layers import LABELS, OF, SCRIBBLES, call, command, holds, photographs, read, source_of, write_labels
from .panel import FIRST, Panel, control, exchange

OUTPUT, BY_HAND = "segments", "segments (by hand)"
WAYS = {"scale": "scale", "number of segments": "n_segments", "scribbles alone": "markers"}


class _Closing(QObject):
    """Asks before napari's window closes if there is unsaved work."""

    def eventFilter(self, window: Any, event: Any) -> bool:
        """Return whether the window stays open."""
        if event.type() != QEvent.Type.Close or not self.is_unsaved():
            return False
        answer = QMessageBox.question(window, "Segment", "Not everything in Segment is saved. Close all the same?")
        event.setAccepted(answer == QMessageBox.StandardButton.Yes)
        return not event.isAccepted()


class Segment(Panel):
    """Segments of the chosen image, corrected by what is drawn on a layer of labels."""

    def __init__(self, napari_viewer: Any) -> None:
        """Show the controls in napari's window."""
        self.image = self.choice(napari_viewer, Image, "image")
        self.start = PushButton(text="Segment", tooltip="Find the tree of regions; what follows then works at once.")
        self.way = ComboBox(label="by", choices=list(WAYS.items()), value="scale")
        self.scale = control(WantedSegments, "scale", load_border_model().scale, widget_type="FloatSlider", step=0.001)
        self.number = control(WantedSegments, "n_segments", 8, annotation=int, min=1, max=choices.MAX_SEGMENTS)
        self.markers = self.choice(napari_viewer, Labels, "scribbles", optional=True)
        self.draw = PushButton(text="New scribbles", tooltip="Draw with a label for each thing; M takes the next one.")
        self.folder = FileEdit(label="folder", mode="d", value=Path())
        formats = [("none", ()), ("all", (*FORMATS,)), *((name, (name,)) for name in FORMATS)]
        self.formats = control(Outputs, "formats", (), widget_type="ComboBox", choices=formats)
        self.save = PushButton(text="Save labels and scribbles")
        self.following = PushButton(text="Next photograph", tooltip="Go on to the next one of the folder.")
        self._image: Any = None  # the array that was segmented
        self._trees: dict[int, SegmentationResult] = {}  # by the number of superpixels; 0: of regions
        self._source: str | None = None  # the file that holds the same pixels
        self._found: Any = None  # what is shown: settings, scribbles or None, result
        self._labels: Any = None  # what was put into the layer of segments last
        self._drawn_on = self.later(self._repeat)
        self._kept: Any = (None, None, None)  # what was saved or opened last: its folder, labels and scribbles
        self._seen: dict[Path, Any] = {}  # by file that was saved or opened: the array that was segmented
        self._asked: list[Path] = []  # what a second press of Save replaces, or one of Next photograph leaves
        self._parent = Path()  # the folder that is chosen until the user chooses another
        controls = [self.image, self.start, self.way, self.scale, self.number, self.markers, self.draw]
        super().__init__(napari_viewer, [*controls, self.folder, self.formats, self.save, self.following])
        closing = _Closing(self.native)
        closing.is_unsaved = self._is_unsaved
        self.later(lambda: self.native.window().installEventFilter(closing))()
        self.start.changed.connect(self.grow)
        self.following.changed.connect(self._next)
        self.image.changed.connect(self._take)
        for each in (self.way, self.scale, self.number):
            each.changed.connect(self.cut)
        self.follow(self.markers, ("paint", "set_data"), self.cut)  # the latter comes when a stroke is undone
        self.draw.changed.connect(self._new_scribbles)
        self.save.changed.connect(self._save)
        for each in (self.folder, self.formats):
            each.changed.connect(lambda: self._repeat())

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
            return image, segment(np.asarray(image)), source if source and holds(source, image) else None

        return self.work(f"Finding regions ... {FIRST}", work, self._grown)

    def _grown(self, found: tuple[Any, SegmentationResult, str | None]) -> None:
        """Show the segments of a new tree."""
        is_new, (self._image, tree, self._source) = found[0] is not self._image, found
        self._trees, self._found, self.command.value, self.python.value = {0: tree}, None, "", ""
        if self._source is not None and os.path.exists(self._source) and self.folder.value == self._parent:
            self.folder.value = self._parent = Path(self._source).parent
        if self.markers.value is None:
            self._take()
        self._reopen() if is_new and not self._is_other() else self.cut()
        image = self.image.value  # other pictures, and what was drawn for them, would hide this one
        for each in (*self.image.choices, *filter(None, self.markers.choices)):
            if each.visible != (each in (image, self.markers.value)):  # else napari would take the brush away
                each.visible = not each.visible

    def _take(self) -> None:
        """Choose the chosen image's own scribbles, or none, and cut."""
        image, marks = self.image.value, self.markers.value
        if image is not None:
            whose = image.unique_id, stem_of(source_of(image) or image.name)
            marks = [each for each in self.markers.choices if each is None or each.metadata.get(OF) in whose][-1]
        if marks is self.markers.value:
            self.cut()
        self.markers.value = marks  # which cuts if these are others

    def _reopen(self) -> None:
        """Open what was saved of the image: scribbles, how it was cut, and labels that were drawn by hand."""
        self._kept, files = (None, None, None), [self._file(ending) for ending in (LABELS, SCRIBBLES)]
        record, labels, drawn = record_of(files[0]) or {}, np.zeros(0), None
        with suppress(VisionNMFError):
            ((labels, *_),) = read(files[0])
        is_ours = self._source is not None and record.get("input") == made_of(self._source, {})["input"]
        is_ours = is_ours and labels.shape == self._image.shape[:2]
        settings = record["settings"] if is_ours and isinstance(record.get("settings"), dict) else {}
        # there may be no files, or those of others, who may have changed them
        with suppress(VisionNMFError, ValueError, TypeError, OverflowError):
            if "markers" in settings if is_ours else self._source is not None and not files[0].exists():
                ((drawn, attributes, _),) = read(files[1])
                if drawn.shape == self._image.shape[:2]:
                    if self.markers.value is None:
                        self.markers.value = self._to_draw_on(drawn.copy(), **attributes)
                    elif not self.markers.value.data.any():
                        exchange(self.markers.value, drawn.copy())
            if is_ours:
                self.formats.value = tuple(settings.get("formats", self.formats.value))
                self.scale.value = settings.get("scale", load_border_model().scale)
                self.number.value = settings.get("n_segments", self.number.value)
                self.way.value = next((way for way in WAYS.values() if way in settings), "scale")

        def show() -> None:
            """Show the labels of the file, which may have been drawn by hand."""
            self._kept = self.folder.value, labels, drawn
            self._seen |= dict.fromkeys([*files, *self._formatted()], self._image)
            self.made(OUTPUT).data = labels
            self._repeat()

        self.cut(then=show if is_ours else lambda: None)

    def _is_unsaved(self) -> bool:
        """Return whether something was drawn, or cut in another way, since it was saved or opened."""
        layer, (_, labels, marks) = self.made(OUTPUT), self._kept
        aside = any(each.metadata.get(BY_HAND, self) is self._image for each in self.viewer.layers)
        is_same = (layer is None or np.array_equal(layer.data, labels)) and np.array_equal(self._marks(), marks)
        return self.image.value is not None and (aside or not is_same)

    def _next(self) -> None:
        """Open the next photograph of the folder in place of this one; unsaved work is left when asked twice."""
        image = self.image.value
        source = None if image is None or not image.rgb else source_of(image)
        if source is None or not os.path.exists(source):
            return self.say("Open a photograph by visionnmf view first.")
        if self._is_unsaved() and self._asked != [Path(source)]:
            self._asked = [Path(source)]
            return self.say("Not everything here is saved; press Save, or Next photograph again to leave it.")
        for file in (each for each in photographs(Path(source).parent) if each > source):
            try:
                ((data, attributes, _),) = read(file)
            except VisionNMFError as error:
                self.say(error)
                continue
            # layers are used again, because napari 0.9 crashes where some go and others come
            image.data, image.name, image.metadata = data, attributes["name"], attributes["metadata"]
            self._labels, self._found = np.zeros(data.shape[:2], np.uint16), None
            self._kept = None, self._labels, None
            marks = self.markers.value
            for each in filter(None, (marks, self.made(OUTPUT))):
                exchange(each, self._labels.copy())
            for each in filter(None, self.markers.choices):  # what was drawn for the photograph before
                each.metadata = dict(item for item in each.metadata.items() if item != (OF, image.unique_id))
            if marks is not None:
                marks.name, marks.metadata, marks.selected_label = "scribbles", {OF: image.unique_id}, 1
            self.viewer.reset_view()
            return self.grow()
        return self.done(f"{image.name} is the last photograph of its folder.")

    def _marks(self) -> Any:
        """Return what is drawn, copied because drawing goes on, or None."""
        layer = self.markers.value
        return None if layer is None or not layer.data.any() else layer.data.copy()

    def cut(self, *_: Any, then: Callable[[], None] = lambda: None) -> None:
        """Show the segments that the tree has with the present settings and scribbles, and go on with `then`."""
        if not self._trees or self._is_other():
            return
        marks, way = self._marks(), self.way.value
        if marks is not None and self.image.value is not None:
            self.markers.value.metadata.setdefault(OF, self.image.value.unique_id)
        if marks is None and way == "markers":
            return self.say("Draw a scribble on each thing first.")
        given = {} if way == "markers" else {way: (self.scale if way == "scale" else self.number).value}
        wanted = WantedSegments(**given)
        image, trees, count = self._image, self._trees, wanted.n_segments

        def work() -> tuple[WantedSegments, NDArray[Any] | None, SegmentationResult, NDArray[np.uint16]]:
            """Return the settings, scribbles, segments, and labels for napari, whose 0 is no segment."""
            key = count if count is not None and count > max(FEW, trees[0].hierarchy.n_regions) else 0
            if key not in trees:  # superpixels, which need a finer tree
                trees[key] = segment(np.asarray(image), key)
            found = trees[key].recut(n_segments=count, scale=wanted.scale, markers=marks)
            return wanted, marks, found, found.labels.astype(np.uint16) + np.uint16(1)

        def show(found: Any) -> None:
            """Show segments, and how to repeat them."""
            self.done(counted(len(found[2].sizes), "segment"))
            if self._by_hand():
                if self._found and found[0] == self._found[0] and np.array_equal(found[1], self._found[1]):
                    return self._repeat()  # nothing else was asked for
                data, about = self.made(OUTPUT).data, {BY_HAND: self._image}
                kept = self.put(Labels, BY_HAND, data, visible=False, metadata=about)
                self._made.pop(BY_HAND)  # the next one gets a layer of its own
                show_info(f"What was drawn by hand on the segments is in the layer {kept.name!r}.")
            self._found, self._labels = found[:3], found[3]
            if self._kept[1] is None:
                self._kept = None, self._labels, None
            layer = self.put(Labels, OUTPUT, self._labels.copy(), opacity=0.5)  # copied: a person may draw on it
            layers, picture = self.viewer.layers, self.image.value
            if picture is not None and layers.index(layer) < layers.index(picture):
                layers.move(layers.index(layer), layers.index(picture) + 1)
            for emitter in (layer.events.paint, layer.events.set_data):
                emitter.connect(self._drawn_on)  # once, however often
            self._repeat()
            return then()

        self.work("Cutting ...", work, show)

    def _by_hand(self) -> bool:
        """Return whether the segments were drawn on, which no command repeats."""
        layer = self.made(OUTPUT)
        return layer is not None and not np.array_equal(layer.data, self._labels)

    def _repeat(self) -> None:
        """Show how to repeat what is shown, or why no command does."""
        self._asked = []
        if self._found is None or self._is_other():
            return
        (wanted, marks, _), (folder, labels, drawn), self.command.value = self._found, self._kept, ""
        if self._by_hand():
            self.python.value = "# No command repeats what was drawn by hand on the segments; Save writes it."
            if not np.array_equal(labels, self.made(OUTPUT).data):
                self.done("The segments were drawn on, which is not saved yet.")
        elif self._source is None:
            self.python.value = "# The layer is not what a file holds; save it first, and open the file."
        elif marks is not None and not np.array_equal(marks, drawn):
            self.python.value = "# Press Save first: the scribbles are not in the file yet."
        else:
            wanted = wanted if marks is None else replace(wanted, markers=folder / self._file(SCRIBBLES).name)
            given = {"wanted": wanted, "outputs": Outputs(formats=self.formats.value or None)}
            same = folder == self.folder.value and np.array_equal(labels, self._labels)
            given |= {"out": str(self.folder.value), "force": same}
            self.command.value = command("segment", self._source, **given)
            self.python.value = call("visionnmf.apps.segmentation", "process_image", self._source, **given)

    def _is_other(self) -> bool:
        """Say so if another image is chosen than the segmented one, and return whether one is."""
        other = self.image.value is not None and self.image.value.data is not self._image
        if other:
            self.command.value = self.python.value = ""
            self.done("Press Segment: another image is chosen.")
        return other

    def _new_scribbles(self) -> None:
        """Add an empty layer to draw on."""
        image = self.image.value
        if image is None:
            return self.say("Open an image first.")
        layer, empty = self.markers.value, np.zeros(image.data.shape[:2], np.uint16)
        if layer is None or not np.array_equal(layer.data, empty):
            layer = self._to_draw_on(empty, name="scribbles", metadata={OF: image.unique_id})
        return self.choose(self.markers, layer, "paint")

    def _to_draw_on(self, data: Any, **attributes: Any) -> Any:
        """Return a new layer of scribbles, with a brush that fits."""
        layer = self.viewer.add_labels(data, opacity=1, **attributes)
        layer.brush_size = max(3, round(min(data.shape) / 60))
        return layer

    def _file(self, ending: str) -> Path:
        """Return the name of a result in the chosen folder."""
        return self.folder.value / f"{stem_of(self._source or 'image')}{ending}"

    def _formatted(self) -> dict[Path, str]:
        """Return the names of the chosen formats by their files."""
        names = Outputs(formats=self.formats.value or None).names
        return {self._file(f"_{FORMATS[name].ending}"): name for name in names}

    def _save(self) -> None:
        """Write the labels that are seen, scribbles, and formats; files that were not opened here when asked twice."""
        segments = self.made(OUTPUT)
        if segments is None or self._found is None:
            return self.say("Press Segment first.")
        if self._is_other():
            return None
        wanted, marks, result = self._found
        if not np.array_equal(marks, self._marks()):  # drawn by code, or just now
            return self.cut(then=self._save)
        given = {"wanted": wanted, "outputs": Outputs(formats=self.formats.value or None)}
        files = [self._file(LABELS), *([] if marks is None else [self._file(SCRIBBLES)])]
        others = self._formatted()
        if self._by_hand():
            given["labels"] = "drawn by hand"
            sizes = np.bincount(segments.data.ravel())
            sizes[0] = 0  # no segment
            if others:  # which know no gaps between the numbers of segments
                segments.data = (np.cumsum(sizes > 0) * (sizes > 0))[segments.data].astype(np.uint16)
            names = tuple(name for name, size in zip(result.marker_names, sizes[1:], strict=False) if size)
            labels, sizes = segments.data.astype(np.uint16) - np.uint16(1), sizes[sizes > 0]
            result = replace(result, labels=labels, sizes=sizes, scale=None, marker_names=names)
        try:
            output_folder(self.folder.value)
            opened = None if marks is None else source_of(self.markers.value)
            taken = [file for file in (*files, *others) if file.exists() and os.path.abspath(file) != opened]
            taken = [file for file in taken if self._seen.get(file) is not self._image]
            if taken and taken != self._asked:
                self._asked = taken
                raise OutputExistsError(f"{taken[0]}: exists already; choose another folder, or Save again")
            for file in files[1:]:  # first, because the labels say from which scribbles they are
                write_labels(str(file), marks, {})
                given["wanted"] = replace(wanted, markers=file)
            with together(), nullcontext() if self._source is None else recording(**made_of(self._source, given)):
                write_labels(str(files[0]), segments.data, {})
                for file, name in others.items():
                    write_content(file, formatted(name, Path(self._source or "image").name, result), force=True)
        except VisionNMFError as error:
            return self.say(error)
        self._seen |= dict.fromkeys((*files, *others), self._image)
        self._kept = self.folder.value, segments.data.copy(), marks
        self.done(f"Saved {', '.join(each.name for each in (*files, *others))}.")
        return self._repeat()
