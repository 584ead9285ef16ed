"""The settings of :func:`.process_video` and :func:`.follow_source`, which are also the options of the command.

Each field is declared, documented and checked here once. This module imports nothing heavy.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, ClassVar

from visionnmf import choices
from visionnmf.apps.settings import Option, settings
from visionnmf.exceptions import ParameterError


def _seconds(text: str) -> float:
    """Return the seconds that a text means: seconds, minutes:seconds or hours:minutes:seconds."""
    if not re.fullmatch(r"(\d+:){0,2}\d+(\.\d+)?", text):
        raise ValueError(f"{text} is not a time; give seconds, as in 90.5, or 1:30.5")
    parts = [float(part) for part in text.split(":")]
    return sum(part * 60**power for power, part in enumerate(reversed(parts)))


@settings
class VideoSettings:
    """Which frames of a source are read, and at which size."""

    PANEL: ClassVar = "Input"

    scale: Annotated[
        float, Option("Work at this share of the width and height.", metavar="F", low=0, above=True, high=1)
    ] = 1.0
    every: Annotated[int, Option("Take every N-th frame.", metavar="N", low=1)] = 1
    max_frames: Annotated[int | None, Option("Stop after N frames.", metavar="N", low=1)] = None
    start: Annotated[
        float, Option("Start here: seconds, or hours:minutes:seconds.", metavar="T", parse=_seconds, low=0)
    ] = 0.0
    end: Annotated[float | None, Option("Stop before this time.", metavar="T", parse=_seconds, low=0)] = None
    frame_rate: Annotated[float | None, Option("Frames per second of pictures [25].", flag="--fps", metavar="N")] = None


@settings
class RegionSettings:
    """Where foreground counts; see :mod:`.region` for the forms of a region."""

    PANEL: ClassVar = "Region"

    roi: Annotated[
        tuple[str, ...], Option("Foreground counts only here: X,Y,W,H, 'X,Y X,Y X,Y', or a picture.", metavar="REGION")
    ] = ()
    ignore: Annotated[
        tuple[str, ...], Option("Foreground does not count here. Both options can be repeated.", metavar="REGION")
    ] = ()


@settings
class ModelSettings:
    """How the background is modelled."""

    PANEL: ClassVar = "Advanced"

    method: Annotated[
        str, Option("The default method, or the plain NMF of the MahNMF paper.", choices=choices.BACKGROUND_METHODS)
    ] = choices.BACKGROUND_METHODS[0]
    n_components: Annotated[
        int, Option("Maximum number of illumination components.", flag="--rank", metavar="N", low=1, high=20)
    ] = choices.BACKGROUND_COMPONENTS
    threshold: Annotated[
        float | None, Option("Foreground deviates by this many times the noise [3].", metavar="X", low=0, above=True)
    ] = None
    random_state: Annotated[
        int, Option("Seed: the same seed gives the same result.", flag="--seed", metavar="N", low=0, high=2**32 - 1)
    ] = choices.RANDOM_STATE
    keep_model: Annotated[bool, Option("Also write the model, NAME_model.npz.")] = False
    reuse: Annotated[Path | None, Option("Use a model that was kept instead of learning one.", metavar="MODEL")] = None

    def check(self) -> None:
        """Refuse to keep or reuse the model of another method."""
        if self.method != choices.BACKGROUND_METHODS[0] and (self.keep_model or self.reuse is not None):
            raise ParameterError(f"method must be 'ours' where a model is kept or reused; got {self.method!r}")


@settings
class OutputSettings:
    """Which results are written."""

    PANEL: ClassVar = "Output"

    frame_table: Annotated[bool, Option("Also list all frames, with their boxes, as NAME_frames.csv.")] = False
    coco: Annotated[bool, Option("Also write all boxes as COCO annotations.")] = False
    masks: Annotated[
        str | None,
        Option(
            "Write masks as a lossless video, a video that browsers play, or a folder of pictures "
            "[ffv1; with --live none]",
            choices=choices.MASK_FORMATS,
        ),
    ] = None
    overlay: Annotated[bool, Option("Also write the video with its foreground coloured.")] = False
    force: Annotated[bool, Option("Overwrite results that exist already.")] = False
    events: Annotated[
        str | None,
        Option(
            "Also list when something moves, with thumbnails, in the whole scene or for each object",
            panel="Events",
            choices=choices.EVENT_UNITS,
        ),
    ] = None
    clips: Annotated[
        bool,
        Option(
            "Also cut the events out of the video, without encoding them again; those of pictures are encoded.",
            panel="Events",
        ),
    ] = False
    # False writes no video of background and preview, and masks only if `masks` is given; not an option of the command.
    videos: bool = True

    @property
    def finds_events(self) -> bool:
        """Whether events are looked for: to list them (`events`), or to cut them out of the video (`clips`)."""
        return self.events is not None or self.clips


@settings
class EventSettings:
    """What counts as an event, and as a box in the tables."""

    PANEL: ClassVar = "Events"

    min_length: Annotated[
        float, Option("Seconds that something must move.", flag="--min-event", metavar="S", low=0)
    ] = choices.EVENT_LENGTH
    padding: Annotated[float, Option("Seconds of an event before and after it.", metavar="S", low=0)] = (
        choices.EVENT_PADDING
    )
    min_area: Annotated[
        float, Option("Smallest share of the picture that counts as moving.", metavar="F", low=0, high=1)
    ] = choices.EVENT_AREA


@settings
class LiveSettings:
    """How a stream is followed."""

    PANEL: ClassVar = "Live"

    state: Annotated[Path | None, Option("With --live: resume from this file, and write it.", metavar="FILE")] = None
    forgetting: Annotated[
        float,
        Option("With --live: seconds in which the past is forgotten.", flag="--forget", metavar="S", low=0, above=True),
    ] = choices.LIVE_FORGETTING
    warm_up: Annotated[
        float, Option("With --live: seconds that are learnt before the first mask.", metavar="S", low=0)
    ] = choices.LIVE_WARM_UP
