"""What ``visionnmf background`` reports, and how it is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.report import Report

from .model import Separated
from .tables import time_code

__all__ = ["BackgroundReport", "Counts", "Masks"]

FrameArray = NDArray[np.uint8]

SHOWN_EVENTS = 20


@dataclass(frozen=True)
class Masks:
    """One way's masks, summed up over all frames.

    Attributes
    ----------
    foreground_share : float, 0 to 1
        Share of all pixels that are foreground.
    f_measure, precision, recall : float, 0 to 1, or None
        Against the true masks, where the clip has them.
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
    frames : int
        Frames that were separated.
    frames_read, declared_frames : int, int or None
        Frames decoded, those that `every` skips included; frames in the file according to its header.
    truncated : bool
        The file is cut off or damaged; the results cover what could be read.
    problem : str or None
        What is wrong with the file.
    method : str
        Which of `choices.BACKGROUND_METHODS`.
    n_components : int or None
        Components of the model; None of a method that has none.
    most_components : int or None
        How many it might have had: one is kept where more explain hardly more. None of other methods than "ours".
    learnt_frames, random_state : int
        How many frames it was learnt from, and the seed.
    noise : float or None
        Median over pixels of the noise scale, in grey levels; None of a method that has none.
    masks : Masks
        The result.
    temporal_median : Masks
        The baseline on the same frames: difference from the temporal median above 25, and the same cleaning.
    agreement : float, 0 to 1
        F-measure between the two: 1, they mark the same pixels; 0, none in common.
    frame_rate : float
        Of the video, in frames per second; the mean where it varies.
    variable_frame_rate : bool
        Frames do not follow each other evenly; in the results each keeps its time.
    events : list of dict or None
        For each event ``start`` and ``end`` (seconds from the beginning of the video, padding included), ``peak_time``,
        ``peak_area`` (share of the picture), the box ``x``, ``y``, ``width``, ``height``, ``frames`` with foreground
        and ``thumbnail``, and where they were cut out ``clip`` and where that begins, ``clip_start``; None where they
        were not asked for.
    frames_per_second : float
        Frames separated per second of `seconds`, the learning included.
    seconds : dict of str to float
        ``learning``, ``masking`` (encoding included) and ``total``.
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
    masks: Masks
    temporal_median: Masks
    agreement: float
    frame_rate: float
    variable_frame_rate: bool
    events: list[dict[str, Any]] | None
    frames_per_second: float
    seconds: dict[str, float]

    def _figures(self) -> dict[str, Any]:
        figures = super()._figures()
        # the words of the command line
        renamed = {"rank": figures.pop("n_components"), "seed": figures.pop("random_state")}
        renamed |= {"most_rank": figures.pop("most_components")}
        return {"input": self.inputs[0]} | figures | renamed

    def summary(self) -> str:
        """Return the report as text for a person.

        Returns
        -------
        str
            A few lines.
        """
        frames = "frame" if self.frames == 1 else "frames"
        lines = [
            f"{self.inputs[0]}: {self.frames} {frames} of {self.width}x{self.height} in {self.seconds['total']:.1f} s "
            f"({self.frames_per_second:.0f} frames/s)"
        ]
        if self.truncated:
            lines.append(f"  cut off: {self.problem}")
        if self.most_components is not None and self.most_components > 1:
            needed = "one factor a frame" if self.n_components == 1 else f"{self.n_components} smooth lights are needed"
            lines.append(f"  light: {needed} (rank {self.n_components} of at most {self.most_components})")
        ours, baseline = self.masks, self.temporal_median
        lines.append(f"  foreground: {ours.foreground_share:.2%} of all pixels")
        lines.append(
            f"  temporal median, for comparison: {baseline.foreground_share:.2%}; agreement (F) {self.agreement:.3f}"
        )
        if ours.f_measure is not None:
            lines.append(f"  against the truth (F): {ours.f_measure:.3f}; temporal median {baseline.f_measure:.3f}")
        lines += self._event_lines()
        return "\n".join([*lines, *(f"  {line}" for line in self._ending())])

    def _event_lines(self) -> list[str]:
        if self.events is None:
            return []
        lines = [f"  events: {len(self.events)}"]
        for event in self.events[:SHOWN_EVENTS]:
            span = f"{time_code(event['start'])} to {time_code(event['end'])}"
            lines.append(f"    {event['event']}: {span}, at most {event['peak_area']:.1%} of the picture")
        if len(self.events) > SHOWN_EVENTS:
            lines.append(f"    and {len(self.events) - SHOWN_EVENTS} more")
        return lines


class Counts:
    """Counts of pixels over all frames: ours, the temporal median's, the truth's, and what they share."""

    def __init__(self, truth: list[FrameArray] | None) -> None:
        self._truth = truth
        self.frames = 0
        self._pixels = self._true = self._shared = 0
        self._found = [0, 0]  # ours, the median's
        self._hits = [0, 0]

    def add(self, part: Separated, baseline: FrameArray) -> None:
        """Count one frame."""
        self._pixels += part.mask.size
        self._shared += cv2.countNonZero(part.mask & baseline)
        for way, mask in enumerate((part.mask, baseline)):
            self._found[way] += cv2.countNonZero(mask)
            if self._truth is not None:
                self._hits[way] += cv2.countNonZero(mask & self._truth[part.index])
        if self._truth is not None:
            self._true += cv2.countNonZero(self._truth[part.index])
        self.frames += 1

    def agreement(self) -> float:
        """Return the F-measure between the two ways; 1 where neither finds anything."""
        return _ratio(2 * self._shared, sum(self._found))

    def masks(self, *, ours: bool) -> Masks:
        """Return one way's sums."""
        way = 0 if ours else 1
        share = self._found[way] / self._pixels
        if self._truth is None:
            return Masks(share)
        hits, found, true = self._hits[way], self._found[way], self._true
        return Masks(share, _ratio(2 * hits, found + true), _ratio(hits, found), _ratio(hits, true))


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
