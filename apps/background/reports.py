"""What the application reports, and the statistics of masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2

from visionnmf._text import counted

from .frame_arrays import FrameArray, Region, Separated
from .watch import OTHER

SHOWN_EVENTS = 20
DOUBTFUL_SHARE = 0.2  # of foreground: clips of a fixed camera seldom have so much
SMALLEST = 40  # pixels of the longer side: the least of `python benchmarks/background.py small`


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


def batch_lines(source: str, figures: dict[str, Any]) -> list[str]:
    """Return the figures of :func:`.process_video` in words."""
    lines = [
        f"{source}: {counted(figures['frames'], 'frame')} of {figures['width']}x{figures['height']} in "
        f"{figures['seconds']['total']:.1f} s ({figures['frames_per_second']:.0f} frames/s)"
    ]
    rank, most = figures["n_components"], figures["most_components"]
    if most is not None and most > 1:
        changes = "differently at different places" if rank != 1 else "everywhere alike, if at all"
        lines.append(f"  illumination: changes {changes} ({rank} of at most {most} components)")
    ours, baseline = figures["masks"], figures["temporal_median"]
    lines += _shake_line(figures["camera_shake"], ours.foreground_share)
    empty = ours.foreground_share == baseline.foreground_share == 0
    agreement = "neither finds anything" if empty else f"agreement (F) {figures['agreement']:.3f}"
    lines.append(f"  foreground: {ours.foreground_share:.2%} of all pixels")
    lines.append(f"  temporal median, for comparison: {baseline.foreground_share:.2%}; {agreement}")
    if ours.f_measure is not None:
        lines.append(f"  against the truth (F): {ours.f_measure:.3f}; temporal median {baseline.f_measure:.3f}")
    return [*lines, *_event_lines(figures["events"])]


def live_lines(source: str, figures: dict[str, Any]) -> list[str]:
    """Return the figures of :func:`.follow_source` in words."""
    if not figures["frames"]:
        return [f"{source}: no new frame"]
    resumed = f", from frame {figures['first_frame']} on" if figures["first_frame"] else ""
    size, speed = f"{figures['width']}x{figures['height']}", f"{figures['frames_per_second']:.0f} frames/s"
    return [
        f"{source}: {counted(figures['frames'], 'frame')} of {size} in {figures['seconds']:.1f} s ({speed}){resumed}",
        *_shake_line(figures["camera_shake"], figures["foreground_share"]),
        f"  foreground: {figures['foreground_share']:.2%} of all pixels",
        *_event_lines(figures["events"]),
    ]


def little_notes(
    figures: dict[str, Any], share: float, threshold: float | None, region: Region, why_no_event: str
) -> list[str]:
    """Return sentences where the result is doubtful, empty or rests on little; `why_no_event` goes on after a colon."""
    notes = []
    if share > DOUBTFUL_SHARE and all(row["reason"] not in OTHER for row in figures["unseen"]):
        notes.append(f"{share:.0%} of all pixels are foreground: does the camera move? (it must not)")
    if max(figures["width"], figures["height"]) < SMALLEST:
        notes.append(
            f"frames of {figures['width']}x{figures['height']} pixels hold little; masks were compared with true ones "
            f"from {SMALLEST} pixels on, for the longer side"
        )
    where = "" if region.mask is None else "in the region that counts, "
    if share == 0 and figures["frames"] > 1:
        cause = "" if threshold is None else f" with threshold={threshold:g}, which is 3 by default"
        notes.append(f"{where}no frame has any foreground{cause}")
    elif figures["events"] == []:
        notes.append(f"no event: {where}{why_no_event}")
    return notes


def _shake_line(most: float, share: float) -> list[str]:
    """Return a line about shake by up to `most` pixels; none without, or where the `share` of foreground doubts it."""
    return [f"  camera shake: compensated, up to {most:.1f} pixels"] * (most > 0 and share <= DOUBTFUL_SHARE)


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
    said = f"{event['event']}: {span}, at most {event['peak_area']:.1%} of the picture"
    return ", ".join(filter(None, (said, event["note"])))


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
        return _ratio(2 * self._shared, sum(self._found.values()))

    def statistics(self, kind: str) -> MaskStatistics:
        """Return the statistics of the "masks" or the "temporal_median", without F-measure if no truth is known."""
        share = self._found[kind] / self._pixels
        if self._truth is None:
            return MaskStatistics(share)
        hits, found, true = self._hits[kind], self._found[kind], self._true
        return MaskStatistics(share, _ratio(2 * hits, found + true), _ratio(hits, found), _ratio(hits, true))


def _ratio(part: int, whole: int) -> float:
    """Return ``part / whole``, and 1 if `whole` is 0: two empty masks agree."""
    return part / whole if whole else 1.0
