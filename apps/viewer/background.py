"""The widget Background: the background of a few seconds of video, and the foreground while settings change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from magicgui.widgets import FileEdit, PushButton
from napari.layers import Image, Labels, Shapes
from numpy.typing import NDArray

from visionnmf._text import counted
from visionnmf.apps.background import BackgroundModel, VideoSettings
from visionnmf.apps.background.region import read_region
from visionnmf.apps.background.settings import EventSettings, ModelSettings, OutputSettings, RegionSettings
from visionnmf.apps.background.sources import open_clip
from visionnmf.apps.background.watch import fit_pictures
from visionnmf.exceptions import TooLargeError

from .layers import call, command, source_of
from .panel import FIRST, Panel, control

OUTPUT, SCENE = "foreground", "background"
COUNTS, TOO_SMALL = 1, 2  # labels of foreground
KEPT = 1 << 30  # bytes of frames that are held
SECONDS = 5.0  # that are looked at first
CORNERS = 32  # of an ellipse
COLOURS = {"roi": "lime", "ignore": "orange"}


class Learnt(NamedTuple):
    """Frames (n, height, width, 3) of a clip, the number of the first in the video, their model, and what was lost."""

    source: str
    video: VideoSettings
    first: int
    frames: NDArray[np.uint8]
    model: BackgroundModel
    notes: list[str]


class Background(Panel):
    """The background of a part of a video, and what stands out from it in the regions that are drawn."""

    def __init__(self, napari_viewer: Any) -> None:
        """Show the controls in napari's window."""
        self.video = self.choice(napari_viewer, Image, "video", axes=3, has="times")
        self.read = [control(VideoSettings, "start", step=0.5), control(VideoSettings, "end", SECONDS, step=0.5)]
        self.read += [control(VideoSettings, "scale", step=0.05), control(VideoSettings, "every")]
        self.n_components = control(ModelSettings, "n_components")
        self.learn = PushButton(text="Learn the background")
        self.threshold = control(ModelSettings, "threshold", BackgroundModel().threshold, step=0.1)
        self.min_area = control(EventSettings, "min_area", step=0.0001)
        self.regions = {name: self.choice(napari_viewer, Shapes, name, optional=True) for name in COLOURS}
        self.draw = {name: PushButton(text=f"New region: {name}") for name in COLOURS}
        self.folder = FileEdit(label="folder", mode="d", value=Path(), tooltip="Where the command writes.")
        self._learnt: Learnt | None = None
        self._raw: dict[float, dict[int, NDArray[np.uint8]]] = {}  # masks of the whole picture, by threshold and frame
        drawn = [each for name in COLOURS for each in (self.regions[name], self.draw[name])]
        controls = [self.video, *self.read, self.n_components, self.learn, self.threshold, self.min_area, *drawn]
        super().__init__(napari_viewer, [*controls, self.folder])
        self.learn.changed.connect(self._learn)
        for each in (self.video, self.threshold, self.min_area):
            each.changed.connect(self.mask)
        for name in COLOURS:
            self.follow(self.regions[name], ("data",), self.mask)
            self.draw[name].changed.connect(lambda _, name=name: self._new_region(name))
        self.folder.changed.connect(self._repeat)
        napari_viewer.layers.events.removed.connect(self.later(self._repeat))
        after, events = self.later(self._say_time), (napari_viewer.dims.events, napari_viewer.layers.events)
        for event in (events[0].current_step, events[1].removed, self.video.changed):
            event.connect(after)
        after()

    def _learn(self) -> None:
        """Read the chosen seconds and learn their background."""
        layer = self.video.value
        source = None if layer is None else source_of(layer)
        if source is None:
            return self.say("Open a video first, by visionnmf view FILE or in the menu File.")
        video = VideoSettings(**{each.name: each.value for each in self.read})
        n_components = self.n_components.value
        self.command.value = self.python.value = ""

        def work() -> Iterator[Any]:
            """Yield what is going on, then what was learnt."""
            clip, frames, first = open_clip(source, video), list[NDArray[np.uint8]](), 0
            for frame in clip:
                first = first if frames else clip.frames_read - 1
                frames.append(frame)
                if len(frames) * frame.nbytes > KEPT:
                    what = f"{source}: more than {KEPT >> 30} GiB until {video.end:g} s"
                    raise TooLargeError(f"{what}; choose a smaller scale or fewer seconds")
                if not len(frames) % 10:
                    yield f"Read {len(frames)} frames ..."
            yield f"Learning from {len(frames)} frames ... {FIRST}"
            model = BackgroundModel(n_components)
            n_blank = len(frames) - fit_pictures(model, lambda: frames)
            said = [f"not learnt: {counted(n_blank, 'frame')} without a picture, black or of one colour"] * (
                n_blank > 0
            )
            yield Learnt(source, video, first, np.stack(frames), model, [*clip.notes, *said])

        return self.work("Reading ...", work, self._show_learnt)

    def _show_learnt(self, found: Any) -> None:
        """Show what is going on, or the background."""
        if isinstance(found, str):
            self.state.value = found
            return
        self._learnt, self._raw = found, {}
        size = 1 / found.video.scale
        self.put(Image, SCENE, found.model.background_, scale=(size, size), visible=False)
        place = {"scale": (found.video.every, size, size), "translate": (found.first, 0, 0)}
        layer = self.put(Labels, OUTPUT, np.zeros(found.frames.shape[:3], np.uint8), above=self.video.value, **place)
        layer.colormap = {COUNTS: "red", TOO_SMALL: "yellow", None: "transparent"}
        self.viewer.dims.set_current_step(0, found.first + self._shown()[0] * found.video.every)
        self.uncover(self.video)
        self._say_time()
        self.beside(found.source)
        self.mask()

    def _shown(self) -> tuple[int, int]:
        """Return the learnt frame that is next to the one that napari shows, and how far behind it that one is."""
        assert self._learnt is not None
        at = round((self.viewer.dims.point[0] - self._learnt.first) / self._learnt.video.every)
        shown = min(max(at, 0), len(self._learnt.frames) - 1)
        return shown, at - shown

    def _say_time(self) -> None:
        """Say in the picture when it is shown, and if it was not learnt, so that nothing is known of its foreground."""
        frame, layer = round(self.viewer.dims.point[0]), self.video.value
        times = getattr(layer.data, "times", ()) if layer is not None and layer.visible else ()
        said = [f"{times[frame]:.2f} s"] if 0 <= frame < len(times) else []
        if self._learnt is not None and self.made(OUTPUT) is not None and (beyond := self._shown()[1]):
            side = f"before {self._learnt.video.start:g} s" if beyond < 0 else f"after {self._learnt.video.end:g} s"
            said.append(f"Frames {side} were not learnt: their foreground is not known.")
        self.viewer.canvas.overlays.text.update({"text": "\n".join(said), "visible": bool(said)})

    def mask(self, *_: Any) -> None:
        """Show the foreground with the present settings, of the frame that is looked at first."""
        records, learnt = self._repeat(), self._learnt
        if learnt is None or not records:
            return None
        masks, shown, area = self.made(OUTPUT).data, self._shown()[0], self.min_area.value
        raw = self._raw.get(self.threshold.value, {})
        self._raw = {self.threshold.value: raw}  # of one threshold, because each takes a third of the frames' memory

        def work() -> Iterator[int]:
            """Yield the number of each frame whose mask is done."""
            region = read_region(records["region"], masks.shape[1:], learnt.video.scale)
            learnt.model.set_params(threshold=records["model"].threshold)
            for numbers in ([shown], range(len(masks))):
                missing = [number for number in numbers if number not in raw]
                parts = iter(learnt.model.apply(learnt.frames[number] for number in missing)) if missing else iter(())
                for number in numbers:
                    if number not in raw:
                        raw[number] = next(parts).mask
                    masks[number] = _counted(region.inside(raw[number]), area)
                    yield number

        return self.work("Masking ...", work, self._masked)

    def _repeat(self, *_: Any) -> dict[str, Any]:
        """Show how to repeat what is shown, and return the settings; none if nothing is, and say why."""
        self.command.value = self.python.value = ""
        learnt, video = self._learnt, self.video.value
        if learnt is None:
            return {}
        what = "Press Learn: another video is chosen." if video else "Open the video again: it was removed."
        if self.made(OUTPUT) is None:
            self._learnt, self._raw, what = None, {}, "Press Learn: the foreground was removed."  # with its frames
        if self._learnt is None or video is None or source_of(video) != learnt.source:
            self.done(what)
            return {}
        records: dict[str, Any] = {
            "video": learnt.video,
            "region": RegionSettings(**{name: _texts(choice.value) for name, choice in self.regions.items()}),
            "model": ModelSettings(n_components=learnt.model.n_components, threshold=self.threshold.value),
            "outputs": OutputSettings(masks="png", events="scene"),
            "events": EventSettings(min_area=self.min_area.value),
            "out": str(self.folder.value),
        }
        self.command.value = command("background", learnt.source, **records)
        self.python.value = call("visionnmf.apps.background", "process_video", learnt.source, **records)
        return records

    def _masked(self, number: int) -> None:
        """Show the masks again if that of the frame that is looked at has changed."""
        layer = self.made(OUTPUT)  # None if it was removed in the meantime
        if self._learnt is None or layer is None or not self.command.value:  # or another video was chosen
            return
        if number == self._shown()[0]:
            layer.refresh()
        notes = "".join(f"\nNote: {note}." for note in self._learnt.notes)
        self.done(f"{number + 1} of {len(self._learnt.frames)} frames are masked.{notes}")

    def _new_region(self, name: str) -> None:
        """Add a layer to draw a region on."""
        look = {"edge_color": COLOURS[name], "face_color": "transparent", "edge_width": 2}
        layer = self.viewer.add_shapes(name=name, ndim=2, **look)
        self.viewer.layers.selection.active, layer.mode, self.regions[name].value = layer, "add_polygon", layer


def _counted(mask: NDArray[np.uint8], min_area: float) -> NDArray[np.uint8]:
    """Return labels of foreground: whether each connected part covers the share `min_area` of the picture."""
    _, parts, statistics, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    enough = statistics[:, cv2.CC_STAT_AREA] >= max(1, min_area * mask.size)
    found = np.where(enough, COUNTS, TOO_SMALL).astype(np.uint8)
    found[0] = 0  # not foreground
    return np.asarray(found[parts])


def _texts(layer: Any) -> tuple[str, ...]:
    """Return the shapes of a layer as regions, in whole pixels; an ellipse becomes a polygon."""
    texts = []
    for corners, kind in () if layer is None else zip(layer.data, layer.shape_type, strict=True):
        points = np.asarray(corners, float)[:, -2:]
        if kind == "ellipse":  # of which the corners of its box are known
            turn = 2 * np.pi * np.arange(CORNERS)[:, None] / CORNERS
            across, down = (points[1] - points[0]) / 2, (points[3] - points[0]) / 2
            points = points.mean(axis=0) + np.cos(turn) * across + np.sin(turn) * down
        if len(np.unique(points.round(), axis=0)) < 3:  # which is still being drawn
            continue
        texts.append(" ".join(f"{round(x)},{round(y)}" for y, x in points.tolist()))
    return tuple(texts)
