"""Displays of pictures: segments over their photograph, foreground of a video, words of a photograph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from visionnmf._checks import brief, check_count, check_matplotlib, check_numbers, check_result, shown
from visionnmf._pixel_range import in_eight_bits
from visionnmf._text import counted
from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError
from visionnmf.features import check_image

from ._axes import figure_of, legend, panels, several, show, whole_numbers

SCALES = 200  # points of the curve over scales
MOST_WORDS, MOST_NEIGHBOURS = 10, 4


class SegmentationDisplay:
    """Segments over their picture, the strength of all borders, and how many segments there are at each scale.

    Parameters
    ----------
    result : SegmentationResult
        What :func:`~visionnmf.apps.segmentation.segment` returns.

    Attributes
    ----------
    images_ : list of matplotlib.image.AxesImage
        The overlay and the borders.
    line_ : matplotlib.lines.Line2D
        The number of segments over the scale.
    axes_ : ndarray of matplotlib.axes.Axes [shape=(3,)]
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from visionnmf.apps.segmentation import segment
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.plotting import SegmentationDisplay
    >>> display = SegmentationDisplay.from_result(segment(make_mosaic(48, 64, random_state=0).image, 4))
    >>> display.axes_[0].get_title()
    '4 segments'
    """

    def __init__(self, result: Any) -> None:
        self.result = result

    @classmethod
    def from_result(cls, result: Any, axes: Any = None) -> Self:
        """Draw what :func:`~visionnmf.apps.segmentation.segment` has found."""
        return cls(result).plot(axes)

    def plot(self, axes: Any = None) -> Self:
        """Draw into three axes or a new figure."""
        result = check_result(self.result, "result", "segment(image)", "hierarchy", "overlay", "scale")
        count = len(result.sizes)
        self.axes_ = panels(axes, 3, 3, (12, 3.6))
        titles = counted(count, "segment"), "strength of borders"
        pictures: list[tuple[Array, dict[str, Any]]] = [
            (result.overlay(), {}),
            (result.boundaries, {"cmap": "magma", "vmin": 0, "vmax": 1}),
        ]
        self.images_ = [
            show(ax, picture, title, **options)
            for ax, title, (picture, options) in zip(self.axes_[:2], titles, pictures, strict=True)
        ]
        curve = self.axes_[2]
        scales = np.linspace(0, 1, SCALES)
        # each merge lowers the number of segments by one, from the scale of its height on
        merged = np.searchsorted(np.sort(result.hierarchy.heights), scales, side="right")
        (self.line_,) = curve.plot(scales, result.hierarchy.n_regions - merged, drawstyle="steps-post")
        if result.scale is not None:
            curve.axvline(result.scale, linestyle="--", color="0.4", label=f"scale {result.scale:.3f}")
            legend(curve)
        curve.set_yscale("log")
        curve.set_xlabel("scale: borders up to it are removed")
        curve.set_ylabel("segments")
        self.figure_ = figure_of(self.axes_)
        return self


@dataclass(eq=False)
class ForegroundDisplay:
    """A frame of a video, its background and foreground, and the share of foreground over time.

    Parameters
    ----------
    parts : sequence of Separated
        Frames as a background model yields them.
    seconds : array-like [shape=(n_frames,)], optional
        When each is shown; frames are numbered without it.
    events : sequence of dict, optional
        Events with ``start`` and ``end`` in the same unit, such as the rows of an event table.

    Attributes
    ----------
    index_ : int
        The frame that is shown.
    shares_ : ndarray [shape=(n_frames,), in [0, 1]]
        Share of each frame that is foreground.
    images_ : list of matplotlib.image.AxesImage
        Frame, background and mask.
    line_ : matplotlib.lines.Line2D
        The shares, in per cent, over time.
    spans_ : list
        The events, as spans of the time axis.
    axes_ : ndarray of matplotlib.axes.Axes [shape=(4,)]
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from visionnmf.apps.background import BackgroundModel
    >>> from visionnmf.datasets import make_surveillance
    >>> from visionnmf.plotting import ForegroundDisplay
    >>> frames = make_surveillance(20, 48, 64, random_state=0).frames
    >>> parts = list(BackgroundModel(random_state=0).fit(frames).apply(frames))
    >>> len(ForegroundDisplay.from_result(parts).images_)
    3
    """

    parts: Sequence[Any]
    seconds: ArrayLike | None = None
    events: Sequence[Mapping[str, Any]] = ()

    __repr__ = brief

    @classmethod
    def from_result(
        cls,
        parts: Sequence[Any],
        *,
        seconds: ArrayLike | None = None,
        events: Sequence[Mapping[str, Any]] = (),
        index: int | None = None,
        axes: Any = None,
    ) -> Self:
        """Draw separated frames; the parameters are those of the class and of :meth:`plot`."""
        return cls(parts, seconds, events).plot(axes, index=index)

    def plot(self, axes: Any = None, *, index: int | None = None) -> Self:
        """Draw frame `index`, by default that with the most foreground, into four axes or a new figure."""
        parts = several(self.parts, "parts", "separated frames, such as list(model.apply(frames))")
        if not parts:
            raise ParameterError("parts must have at least one frame; got none")
        for part in parts:
            check_result(part, "each of parts", "model.apply(frames)", "frame", "background", "mask")
        events = several(self.events, "events", "dictionaries with start and end")
        if not all(isinstance(event, Mapping) and "start" in event and "end" in event for event in events):
            raise ParameterError(f"events must be dictionaries with start and end; got {shown(events)}")
        self.shares_ = np.array([np.count_nonzero(part.mask) / part.mask.size for part in parts])
        at = np.arange(len(parts)) if self.seconds is None else check_numbers(self.seconds, "seconds", float)
        if at.shape != (len(parts),):
            raise ParameterError(f"seconds must have {len(parts)} values; got shape {at.shape}")
        self.index_ = (
            int(self.shares_.argmax()) if index is None else check_count(index, "index", -len(parts), len(parts) - 1)
        )
        chosen = parts[self.index_]
        if axes is None:
            axes = _three_above_one()
        self.axes_ = panels(axes, 4)
        unit = "frame" if self.seconds is None else "seconds"
        titles = f"{unit} {at[self.index_]:g}", "background", f"foreground, {100 * self.shares_[self.index_]:.1f} %"
        pictures = chosen.frame, chosen.background, chosen.mask
        self.images_ = [
            show(ax, picture, title, vmin=0, vmax=255)
            for ax, picture, title in zip(self.axes_[:3], pictures, titles, strict=True)
        ]
        curve = self.axes_[3]
        (self.line_,) = curve.plot(at, 100 * self.shares_)
        self.spans_ = [curve.axvspan(event["start"], event["end"], alpha=0.2, color="C1") for event in events]
        curve.axvline(at[self.index_], linestyle="--", color="0.4")
        curve.set_xlabel(unit)
        if self.seconds is None:
            whole_numbers(curve.xaxis)
        curve.set_ylabel("foreground, %")
        self.figure_ = figure_of(self.axes_)
        return self


def _three_above_one() -> list[Any]:
    """Return the axes of a new figure: three pictures, and a curve of their whole width below."""
    check_matplotlib()
    from matplotlib import pyplot as plt

    axes = plt.figure(figsize=(10, 5), layout="constrained").subplot_mosaic("abc;ddd", height_ratios=(2, 1))
    return list(axes.values())


class AnnotationDisplay:
    """A photograph, its words, and the training images behind them.

    Parameters
    ----------
    image : array-like, str or Path
        The photograph, or its file.
    words : sequence of Word
        As :func:`~visionnmf.apps.annotation.annotate` gives them: word, score, and the images because of which.

    Attributes
    ----------
    images_ : list of matplotlib.image.AxesImage
        The photograph, and up to four training images, which the most words name first.
    bars_ : matplotlib.container.BarContainer
        The scores of up to ten words, the highest at the top.
    axes_ : ndarray of matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.plotting import AnnotationDisplay
    >>> display = AnnotationDisplay.from_result(np.zeros((8, 9, 3), np.uint8), [("sky", 0.9, []), ("sea", 0.4, [])])
    >>> len(display.bars_)
    2
    """

    def __init__(self, image: ArrayLike | str | Path, words: Sequence[Any]) -> None:
        self.image = image
        self.words = words

    @classmethod
    def from_result(cls, image: ArrayLike | str | Path, words: Sequence[Any], axes: Any = None) -> Self:
        """Draw a photograph and its words."""
        return cls(image, words).plot(axes)

    def plot(self, axes: Any = None) -> Self:
        """Draw into as many axes as there are pictures and one for the words, or a new figure."""
        words = several(self.words, "words", "(word, score, images because of which)")[:MOST_WORDS]
        if not all(isinstance(word, tuple | list) and len(word) == 3 for word in words):
            raise ParameterError(f"words must be (word, score, images because of which); got {shown(words)}")
        named: dict[str, int] = {}  # how many words are because of an image
        for _, _, because in words:
            for file in because:
                named[str(file)] = named.get(str(file), 0) + 1
        files = sorted(named, key=lambda file: -named[file])[:MOST_NEIGHBOURS]
        self.axes_ = panels(axes, 2 + len(files), 2 + len(files), (3.2 * (2 + len(files)), 3))
        self.images_ = [show(self.axes_[0], _pixels(self.image))]
        bars = self.axes_[1]
        self.bars_ = bars.barh(range(len(words)), [score for _, score, _ in words])
        bars.set_yticks(range(len(words)), [word for word, _, _ in words], parse_math=False)
        bars.invert_yaxis()
        bars.set_xlabel("score")
        for ax, file in zip(self.axes_[2:], files, strict=True):
            self.images_.append(show(ax, _pixels(file), f"{Path(file).name} ({named[file]})"))
        self.figure_ = figure_of(self.axes_)
        return self


def _pixels(image: ArrayLike | str | Path) -> Array:
    """Return a picture of three channels, read if it is a file."""
    if isinstance(image, str | Path):
        from visionnmf.io import read_image

        image = read_image(image)
    pixels = check_image(image)
    return in_eight_bits(pixels) if pixels.dtype == np.uint16 else pixels
