"""The widget Segment: the tree of a photograph, cut where a slider, a number or scribbles say."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from magicgui.widgets import ComboBox, Container, FileEdit, PushButton
from napari.layers import Image, Labels
from napari.utils.notifications import show_info
from numpy.typing import NDArray
from qtpy.QtWidgets import QMessageBox

from visionnmf import choices
from visionnmf._text import counted
from visionnmf.apps.made import LABELS, SCRIBBLES, made_of
from visionnmf.apps.segmentation.process import formatted, write_content
from visionnmf.apps.segmentation.regions import load_border_model
from visionnmf.apps.segmentation.segmenter import FEW, SegmentationResult, segment
from visionnmf.apps.segmentation.settings import FORMATS, Outputs, WantedSegments
from visionnmf.exceptions import ParameterError, VisionNMFError
from visionnmf.io import output_folder, record_of, recording, stem_of, together

from .layers import BY_HAND, OF, call, command, holds, photographs, place_of, read, source_of, write_labels
from .panel import FIRST, Panel, control, exchange

OUTPUT = "segments"
NOTHING = "No segments yet: press Segment, or draw a scribble on each thing, or draw on the layer of segments."
WAYS = {"scale": "scale", "number of segments": "n_segments", "scribbles alone": "markers"}


class Segment(Panel):
    """Segments of the chosen image, corrected by what is drawn on a layer of labels."""

    def __init__(self, napari_viewer: Any) -> None:
        """Show the controls in napari's window."""
        self.image = self.choice(napari_viewer, Image, "image", axes=2)
        self.start = PushButton(text="Segment", tooltip="Find the tree of regions; what follows then works at once.")
        self.way = ComboBox(label="by", choices=list(WAYS.items()), value="scale")
        self.scale = control(WantedSegments, "scale", load_border_model().scale, widget_type="FloatSlider", step=0.001)
        self.number = control(WantedSegments, "n_segments", 8, annotation=int, min=1, max=choices.MAX_SEGMENTS)
        self.markers = self.choice(napari_viewer, Labels, "scribbles", optional=True)
        self.draw = PushButton(text="New scribbles", tooltip="Draw with a label for each thing; M takes the next one.")
        self.folder = FileEdit(label="folder", mode="d", value=Path())
        self.formats = control(Outputs, "formats", (), widget_type="Select", choices=[*FORMATS])
        self.formats.max_height, self.formats.tooltip = 90, "Press Ctrl to choose several, or none again."
        self.save = PushButton(text="Save labels and scribbles")
        self.previous, self.following = turn = [PushButton(text=f"{each} photograph") for each in ("Previous", "Next")]
        turning = Container(layout="horizontal", widgets=turn, labels=False)
        turning.margins = 0, 0, 0, 0
        self._image: Any = None  # the array that was segmented
        self._trees: dict[int, SegmentationResult] = {}  # by the number of superpixels; 0: of regions
        self._source: str | None = None  # the file of that
        self._is_same = False  # whether that holds the same pixels
        self._found: Any = None  # what is shown: settings, scribbles or None, result
        self._labels: Any = None  # what was put into the layer of segments last
        self._drawn_on = self.later(self._repeat)
        self._kept: Any = (None, None, None)  # what was saved or opened last: its folder, labels and scribbles
        self._seen: dict[Path, Any] = {}  # by file that was saved or opened: the array that was segmented
        self._asked: list[Any] = []  # what a second press of Save replaces, or of Next or Previous leaves
        self._warned = ""  # what was said last of layers as they were then
        self._place = ""  # which photograph of its folder it is
        controls = [self.image, self.start, self.way, self.scale, self.number, self.markers, self.draw]
        super().__init__(napari_viewer, [*controls, self.folder, self.formats, self.save, turning])
        self.later(self._ask_before_closing)()
        napari_viewer.layers.events.removed.connect(self._drawn_on)
        self.start.changed.connect(self.grow)
        for each, step in zip(turn, (-1, 1), strict=True):
            each.changed.connect(lambda _, each=each, step=step: self._go(each.text, step))
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

        def work() -> tuple[Any, SegmentationResult, str | None, bool, str]:
            """Return the image, its result, its file, whether that holds the same pixels, and its place."""
            if image.ndim != 2 + rgb:
                raise ParameterError(f"image must be one picture; got the shape {image.shape}; choose another layer")
            whole = image if rgb else np.repeat(image[..., None], 3, axis=2)  # as grey is read here
            place = place_of(source) if source and rgb else ""
            return image, segment(np.asarray(image)), source, source is not None and holds(source, whole), place

        return self.work(f"Finding regions ... {FIRST}", work, self._grown)

    def _grown(self, found: tuple[Any, SegmentationResult, str | None, bool, str]) -> None:
        """Show the segments of a new tree."""
        is_new, (self._image, tree, self._source, self._is_same, self._place) = found[0] is not self._image, found
        self._trees, self._found, self.command.value, self.python.value = {0: tree}, None, "", ""
        self.beside(self._source)
        if self.markers.value is None:
            self._take()
        self._reopen() if is_new and not self._is_other() else self.cut()
        self.uncover(self.image, self.markers)

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
        is_ours = self._is_same and record.get("input") == made_of(self._source, {})["input"]
        is_ours = is_ours and labels.shape == self._image.shape[:2]
        settings = record["settings"] if is_ours and isinstance(record.get("settings"), dict) else {}
        with suppress(VisionNMFError):
            if "markers" in settings if is_ours else self._is_same and not files[0].exists():
                ((drawn, attributes, _),) = read(files[1])
                if drawn.shape == self._image.shape[:2]:
                    if self.markers.value is None:
                        self.markers.value = self._to_draw_on(drawn.copy(), **attributes)
                    elif not self.markers.value.data.any():
                        exchange(self.markers.value, drawn.copy())
        if is_ours:
            self.scale.value = load_border_model().scale
            for each in (self.formats, self.scale, self.number):
                try:
                    each.value = settings[each.name]
                except (KeyError, ValueError, TypeError, OverflowError):  # not there, or changed by others
                    settings.pop(each.name, None)
            with suppress(LookupError, ValueError, TypeError, OverflowError):
                labels = np.array([0, *settings["numbers"]], np.uint16)[labels]
            first = "markers" if "labels" in settings else "scale"  # drawn by hand from nothing, or as the command
            self.way.value = next((way for way in WAYS.values() if way in settings), first)

        def show() -> None:
            """Show the labels of the file, which may have been drawn by hand."""
            self._kept = self.folder.value, labels, drawn
            self._seen |= dict.fromkeys([*files, *self._formatted()], self._image)
            self.made(OUTPUT).data = labels.copy()  # because a person may draw on it
            self.done(self._count())
            self._repeat()

        marks = self._marks()  # which were drawn before, and are not what was saved
        is_drawn = marks is not None and (drawn is None or not np.array_equal(marks, drawn))
        self.cut(then=show if is_ours and not is_drawn else lambda: None)

    def _unsaved(self) -> str:
        """Return which layers are not what was saved or opened last, and how to save them; nothing if all are."""
        own = self.made(OUTPUT), self.markers.value
        aside = [each for each in self.viewer.layers if BY_HAND in each.metadata]
        there = dict.fromkeys(each for each in (*own, *aside) if each is not None and each.data.any())
        left = [each for each in there if not any(np.array_equal(each.data, kept) for kept in self._kept[1:])]
        cure = "press Save" if {*left} & {*own} else "select it and press File > Save"
        return f"Not saved: {', '.join(each.name for each in left)}; {cure}." if left else ""

    def _ask_before_closing(self) -> None:
        """Let napari's window ask if there is unsaved work; the cross only hides this widget, so that it still can."""
        window, dock = self.native.window(), self.native.parent()
        close, dock.destroyOnClose = window.closeEvent, dock.hide

        def ask(event: Any) -> None:
            """Close if nothing is unsaved, or a person leaves it."""
            unsaved, yes = self._unsaved() if self._is_open() else "", QMessageBox.StandardButton.Yes
            leaves = not unsaved or QMessageBox.question(window, "Segment", f"{unsaved} Close all the same?") == yes
            close(event) if leaves else event.ignore()

        window.closeEvent = ask

    def _warn(self, what: str, asked: list[Any]) -> None:
        """Say what is wrong with the layers as they are, and what a second press does all the same."""
        self._asked, self._warned = asked, what
        self.say(what)

    def _go(self, button: str, step: int) -> None:
        """Open the next (1) or previous (-1) photograph of the folder in place; unsaved work is left if asked twice."""
        image = self.image.value
        source = None if image is None or not image.rgb else source_of(image)
        if source is None or not os.path.exists(source):
            return self.say("Open a photograph by visionnmf view first.")
        if (unsaved := self._unsaved()) and self._asked != [source, step]:
            return self._warn(f"{unsaved} Or press {button} again to leave it.", [source, step])
        files = photographs(Path(source).parent)[::step]
        for file in (each for each in files if (each > source if step > 0 else each < source)):
            try:
                ((data, attributes, _),) = read(file)
            except VisionNMFError as error:
                self.say(error)
                continue
            # layers are used again, because napari 0.9 crashes where some go and others come
            exchange(image, data)
            image.name, image.metadata = attributes["name"], attributes["metadata"]
            self._labels, self._found = np.zeros(data.shape[:2], np.uint16), None
            marks, segments, selected = self.markers.value, self.made(OUTPUT), self.viewer.layers.selection
            for each in filter(None, (marks, segments)):
                each.brush_size = max(1, round(each.brush_size * min(data.shape[:2]) / min(each.data.shape)))
                exchange(each, self._labels.copy())
            for each in filter(None, self.markers.choices):  # what was drawn for the photograph before
                left = (OF, image.unique_id), (BY_HAND, True)
                each.metadata = dict(item for item in each.metadata.items() if item not in left)
            if marks is not None:
                marks.name, marks.metadata, marks.selected_label = "scribbles", {OF: image.unique_id}, 1
            drawn = segments if segments in selected and segments.mode != "pan_zoom" else marks
            if drawn is not None:
                selected.active, drawn.mode = drawn, "paint"
            self.viewer.reset_view()
            return self.grow()
        return self.done(f"{image.name} is the {'last' if step > 0 else 'first'} photograph of its folder.")

    def _marks(self) -> Any:
        """Return what is drawn, copied because drawing goes on, or None."""
        layer = self.markers.value
        return None if layer is None or not layer.data.any() else layer.data.copy()

    def cut(self, *_: Any, then: Callable[[], None] = lambda: None) -> None:
        """Show the segments that the tree has with the present settings and scribbles, and go on with `then`."""
        marks, way = self._marks(), self.way.value
        if not self._trees:
            return None if marks is None or self._worker is not None else self.grow()  # a scribble begins as well
        if self._is_other():
            return None
        if marks is not None and self.image.value is not None:
            self.markers.value.metadata.setdefault(OF, self.image.value.unique_id)
        given = {} if way == "markers" else {way: (self.scale if way == "scale" else self.number).value}
        wanted = WantedSegments(**given)
        image, trees, count = self._image, self._trees, wanted.n_segments

        def work() -> tuple[WantedSegments, NDArray[Any] | None, SegmentationResult, NDArray[np.uint16]]:
            """Return the settings, scribbles, segments, and labels for napari, whose 0 is no segment."""
            if not given and marks is None:  # nothing, on which a person may draw
                return wanted, None, trees[0], np.zeros(image.shape[:2], np.uint16)
            key = count if count is not None and count > max(FEW, trees[0].hierarchy.n_regions) else 0
            if key not in trees:  # superpixels, which need a finer tree
                trees[key] = segment(np.asarray(image), key)
            found = trees[key].recut(n_segments=count, scale=wanted.scale, markers=marks)
            return wanted, marks, found, found.labels.astype(np.uint16) + np.uint16(1)

        def show(found: Any) -> None:
            """Show segments, and how to repeat them."""
            if self._by_hand():
                if self._found and found[0] == self._found[0] and np.array_equal(found[1], self._found[1]):
                    self.done(self._count())
                    return self._repeat()  # nothing else was asked for
                kept = self.put(Labels, BY_HAND, self.made(OUTPUT).data, visible=False, metadata={BY_HAND: True})
                self._made.pop(BY_HAND)  # the next one gets a layer of its own
                self.markers.reset_choices()
                show_info(f"What was drawn by hand on the segments is in the layer {kept.name!r}.")
            self._found, self._labels = found[:3], found[3]
            if self._kept[1] is None:
                self._kept = None, self._labels, None
            data = self._labels.copy()  # because a person may draw on it
            layer = self.put(Labels, OUTPUT, data, above=self.image.value, opacity=0.5)
            for emitter in (layer.events.paint, layer.events.set_data):
                emitter.connect(self._drawn_on)  # once, however often
            self.done(self._count())
            self._repeat()
            return then()

        self.work("Cutting ...", work, show)

    def _by_hand(self) -> bool:
        """Return whether the segments were drawn on, which no command repeats."""
        layer = self.made(OUTPUT)
        return layer is not None and not np.array_equal(layer.data, self._labels)

    def _count(self) -> str:
        """Return how many segments are seen, of which photograph."""
        layer = self.made(OUTPUT)
        n_segments = 0 if layer is None else int(np.count_nonzero(np.bincount(layer.data.ravel())[1:]))
        asked = None if self._found is None or self._by_hand() else self._found[0].n_segments
        is_fewer = isinstance(asked, int) and 0 < n_segments < asked
        fewer = f", of {asked} asked for: a scribble joins some, or there is no more to tell apart" * is_fewer
        return (counted(n_segments, "segment") + fewer if n_segments else NOTHING) + self._place

    def _repeat(self) -> None:
        """Show how to repeat what is shown, or why no command does, and withdraw what was said before of the layers."""
        self._asked, was, said, shown = [], self._warned, "", self.made(OUTPUT)
        self.command.value = self.python.value = ""
        if self._found is not None and not self._is_other():
            if shown is None:
                said = "Press Segment: the segments were removed."
            elif self.image.value is None:
                said = "The image was removed: open it again for the command. Save writes the segments that are left."
            else:
                self._show_command()
                if self._by_hand() and not np.array_equal(self._kept[1], shown.data):
                    said = "The segments were drawn on, which is not saved yet."
        if said or (was and self.state.value == was):
            self.done(said or (self._count() if self._found else ""))
        self._warned = said

    def _show_command(self) -> None:
        """Show how to repeat the segments, or why no command does."""
        (wanted, marks, _), (folder, labels, drawn) = self._found, self._kept
        if self._by_hand():
            self.python.value = "# No command repeats what was drawn by hand on the segments; Save writes it."
        elif not self._labels.any():
            self.python.value = f"# {NOTHING}"
        elif self._source is None or not self._is_same:
            why = "changed, transparent, or not turned as the camera says; visionnmf view opens it right"
            self.python.value = f"# No command: the layer is not what a file holds, but {why}."
        elif marks is not None and not np.array_equal(marks, drawn):
            self.python.value = "# Press Save first: the scribbles are not in the file yet."
        else:
            wanted = wanted if marks is None else replace(wanted, markers=folder / self._file(SCRIBBLES).name)
            given = {"wanted": wanted, "outputs": Outputs(formats=tuple(self.formats.value) or None)}
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
        self.viewer.layers.selection.active, layer.mode, self.markers.value = layer, "paint", layer

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
        return {self._file(f"_{FORMATS[name].ending}"): name for name in self.formats.value}

    def _save(self) -> None:
        """Write the labels that are seen, scribbles, and formats; files that were not opened here when asked twice."""
        segments = self.made(OUTPUT)
        if segments is None or self._found is None or not segments.data.any():
            return self.say(NOTHING)
        if self._is_other():
            return None
        (wanted, marks, result), shown = self._found, segments.data
        if not np.array_equal(marks, self._marks()):  # drawn by code, or just now
            return self.cut(then=self._save)
        given = {"wanted": wanted, "outputs": Outputs(formats=tuple(self.formats.value) or None)}
        files, others = [self._file(LABELS), *([] if marks is None else [self._file(SCRIBBLES)])], self._formatted()
        if self._by_hand():
            given["labels"] = "drawn by hand"
            sizes = np.bincount(shown.ravel())
            sizes[0] = 0  # no segment
            numbers = np.flatnonzero(sizes).tolist()
            if others:  # which know no gaps between the numbers of segments
                shown = (np.cumsum(sizes > 0) * (sizes > 0))[shown].astype(np.uint16)
                given["numbers"] = numbers  # that the layer goes on with, and has another day
            named, alone = dict(enumerate(result.marker_names, 1)), wanted == WantedSegments()  # when all are painted
            names = tuple(named.get(number, str(number)) for number in numbers if alone or number in named)
            labels, sizes = shown.astype(np.uint16) - np.uint16(1), sizes[sizes > 0]
            result = replace(result, labels=labels, sizes=sizes, scale=None, marker_names=names)
        try:
            output_folder(self.folder.value)
            opened = None if marks is None else source_of(self.markers.value)
            taken = [file for file in (*files, *others) if file.exists() and os.path.abspath(file) != opened]
            taken = [file for file in taken if self._seen.get(file) is not self._image]
            if taken and taken != self._asked:
                return self._warn(f"{taken[0]}: exists already; choose another folder, or Save again", taken)
            for file in files[1:]:  # first, because the labels say from which scribbles they are
                write_labels(str(file), marks, {})
                given["wanted"] = replace(wanted, markers=file)
            with together(), recording(**made_of(self._source, given)) if self._is_same else nullcontext():
                write_labels(str(files[0]), shown, {})
                for file, name in others.items():
                    write_content(file, formatted(name, Path(self._source or "image").name, result), force=True)
        except VisionNMFError as error:
            return self.say(error)
        self._seen |= dict.fromkeys((*files, *others), self._image)
        self._kept = self.folder.value, segments.data.copy(), marks
        self._repeat()
        return self.done(f"Saved {', '.join(each.name for each in (*files, *others))}.")
