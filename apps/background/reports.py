"""What the application reports, and the statistics of masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2

from visionnmf._text import printable
from visionnmf.apps.report import Report

from .frame_arrays import FrameArray, Separated

__all__ = ["BackgroundReport", "LiveReport", "MaskCounts", "MaskStatistics", "event_sentence", "time_code"]

SHOWN_EVENTS = 20


@dataclass(frozen=True)
class MaskStatistics:
    """Statistics of masks, over all frames.

    Attributes
    ----------
    foreground_share : float, 0 to 1
        Share of all pixels that are foreground.
    f_measure, precision, recall : float, 0 to 1, or None
        Agreement with the true masks, where the clip has them.
    """

    foreground_share: float
    f_measure: float | None = None
    precision: float | None = None
    recall: float | None = None


@dataclass(frozen=True)
class BackgroundReport(Report):
    """What :func:`.process_video` did and found; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    width, height : int
        Size of the results, in pixels.
    frames, frames_read, declared_frames : int, int, int or None
        How many frames were separated, were decoded (those that `every` skips included), and stand in the header.
    truncated, problem : bool, str or None
        Whether the file is cut off or damaged, and what is wrong with it; the results cover what could be read.
    method, random_state : str, int
        The method, one of `choices.BACKGROUND_METHODS`, and the seed.
    n_components, most_components : int or None
        Components of the model, and the maximum that was asked for; None for a method that has none.
    learnt_frames, noise : int, float or None
        Number of frames that the model was learnt from, and the median over pixels of its noise in grey levels.
    masks, temporal_median : MaskStatistics
        The result, and the baseline on the same frames: a difference from the temporal median above 25.
    agreement : float, 0 to 1
        F-measure between the two: 1 where they mark the same pixels, 0 where they have none in common.
    frame_rate, variable_frame_rate : float, bool
        Frames per second of the video, the mean where it varies, and whether it does; each frame keeps its time.
    events : list of dict or None
        A row for each event, as in the table of events; None where none were asked for. Times are in seconds from the
        beginning of the video, and `peak_area` is a share of the picture.
    frames_per_second, seconds : float, dict of str to float
        The speed, and the time of ``learning``, ``masking`` (encoding included) and both together, ``total``.
    """

    width: int
    height: int
    frames: int
    frames_read: int
    declared_frames: int | None
    truncated: bool
    problem: str | None
    method: str
    n_components: int | None
    most_components: int | None
    learnt_frames: int
    random_state: int
    noise: float | None
    masks: MaskStatistics
    temporal_median: MaskStatistics
    agreement: float
    frame_rate: float
    variable_frame_rate: bool
    events: list[dict[str, Any]] | None
    frames_per_second: float
    seconds: dict[str, float]

    def _figures(self) -> dict[str, Any]:
        """Return the figures for JSON, by their names there."""
        figures = super()._figures()
        # The JSON file uses the names of the command-line options instead of those of the attributes.
        renamed = {"rank": figures.pop("n_components"), "seed": figures.pop("random_state")}
        renamed |= {"most_rank": figures.pop("most_components")}
        return {"input": self.inputs[0]} | figures | renamed

    def summary(self) -> str:
        """Return the report as a few lines of text to print.

        `masks` and `temporal_median` are the statistics of our masks and of the baseline's; F-measures are None if the
        truth is not known.
        """
        frames = "frame" if self.frames == 1 else "frames"
        lines = [
            f"{printable(self.inputs[0])}: {self.frames} {frames} of {self.width}x{self.height} in "
            f"{self.seconds['total']:.1f} s ({self.frames_per_second:.0f} frames/s)"
        ]
        if self.truncated:
            lines.append(f"  cut off: {self.problem}")
        if self.most_components is not None and self.most_components > 1:
            rank = f"rank {self.n_components} of at most {self.most_components}"
            needed = f"needs {self.n_components} components" if self.n_components != 1 else "needs one factor a frame"
            lines.append(f"  illumination: {needed} ({rank})")
        ours, baseline = self.masks, self.temporal_median
        lines.append(f"  foreground: {ours.foreground_share:.2%} of all pixels")
        lines.append(
            f"  temporal median, for comparison: {baseline.foreground_share:.2%}; agreement (F) {self.agreement:.3f}"
        )
        if ours.f_measure is not None:
            lines.append(f"  against the truth (F): {ours.f_measure:.3f}; temporal median {baseline.f_measure:.3f}")
        return "\n".join([*lines, *_event_lines(self.events), *(f"  {line}" for line in self._notes_and_outputs())])


@dataclass(frozen=True)
class LiveReport(Report):
    """What :func:`.follow_source` did; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    width, height : int
        Size of the frames, in pixels.
    frames, first_frame : int
        Number of frames of this run, and the number of its first one, which is above 0 if the run continued from a
        saved state. There are 0 frames if that state had already seen the whole source.
    seconds, frames_per_second : float
        How long it ran, and how fast.
    foreground_share : float, 0 to 1
        Share of all pixels that were foreground.
    damaged, reconnections : int
        How many frames came damaged and were left out, and how often the source was lost and found again.
    events : list of dict or None
        As those of :class:`.BackgroundReport`.
    """

    width: int
    height: int
    frames: int
    first_frame: int
    seconds: float
    frames_per_second: float
    foreground_share: float
    damaged: int
    reconnections: int
    events: list[dict[str, Any]] | None

    def summary(self) -> str:
        """Return the report as a few lines of text to print."""
        if not self.frames:  # the saved state had already seen the whole source, as a note says
            return "\n".join([f"{printable(self.inputs[0])}: {line}" for line in self._notes_and_outputs()])
        resumed = f", from frame {self.first_frame} on" if self.first_frame else ""
        lines = [
            f"{printable(self.inputs[0])}: {self.frames} frames of {self.width}x{self.height} in {self.seconds:.1f} s "
            f"({self.frames_per_second:.0f} frames/s){resumed}",
            f"  foreground: {self.foreground_share:.2%} of all pixels",
        ]
        return "\n".join([*lines, *_event_lines(self.events), *(f"  {line}" for line in self._notes_and_outputs())])


def _event_lines(events: list[dict[str, Any]] | None) -> list[str]:
    """Return the lines of a summary about events, of which the first 20 are listed; none where none were asked for."""
    if events is None:
        return []
    lines = [f"  events: {len(events)}", *(f"    {event_sentence(event)}" for event in events[:SHOWN_EVENTS])]
    return lines + [f"    and {len(events) - SHOWN_EVENTS} more"] * (len(events) > SHOWN_EVENTS)


def time_code(seconds: float) -> str:
    """Return a time as 00:01:02.345."""
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"


def event_sentence(event: dict[str, Any]) -> str:
    """Return what is printed about an event, a row of the table of events: its number, its times, its largest area."""
    span = f"{time_code(event['start'])} to {time_code(event['end'])}"
    return f"{event['event']}: {span}, at most {event['peak_area']:.1%} of the picture"


class MaskCounts:
    """Counts of pixels over all frames: of the masks, of the temporal median's, of the `truth`, and of both."""

    def __init__(self, truth: list[FrameArray] | None) -> None:
        self._truth = truth
        self.frames = 0
        self._pixels = self._true = self._shared = 0  # of all frames, of the truth, and where both find foreground
        # the foreground of each, and how much of it is true
        self._found = {"masks": 0, "temporal_median": 0}
        self._hits = {"masks": 0, "temporal_median": 0}

    def add(self, part: Separated, baseline: FrameArray) -> None:
        """Count the mask of one frame, and `baseline` (height, width), that of the temporal median, beside it."""
        # `_found` counts the foreground of both, `_hits` what of it is true, `_shared` what both have. `_truth` has the
        # true masks, or is None; `_pixels` and `_true` count all and true pixels.
        self.frames += 1
        self._pixels += part.mask.size
        self._shared += cv2.countNonZero(part.mask & baseline)
        for kind, mask in (("masks", part.mask), ("temporal_median", baseline)):
            self._found[kind] += cv2.countNonZero(mask)
            if self._truth is not None:
                self._hits[kind] += cv2.countNonZero(mask & self._truth[part.index])
        if self._truth is not None:
            self._true += cv2.countNonZero(self._truth[part.index])

    def agreement(self) -> float:
        """Return the F-measure between masks and temporal median; 1 where neither finds anything."""
        # `_shared` counts the pixels that both find, and `_found` those of each.
        return _ratio(2 * self._shared, sum(self._found.values()))

    def statistics(self, kind: str) -> MaskStatistics:
        """Return the statistics of the "masks" or the "temporal_median", without F-measure if no truth is known."""
        # `_found`, `_hits` and `_true` count foreground pixels: found, found rightly, and true; `_pixels` counts all.
        share = self._found[kind] / self._pixels
        if self._truth is None:
            return MaskStatistics(share)
        hits, found, true = self._hits[kind], self._found[kind], self._true
        return MaskStatistics(share, _ratio(2 * hits, found + true), _ratio(hits, found), _ratio(hits, true))


def _ratio(part: int, whole: int) -> float:
    """Return ``part / whole``, and 1 if `whole` is 0: two empty masks agree."""
    return part / whole if whole else 1.0
