"""When the frames of a source are shown, for how long, and what is missing; all that asks for times reads this."""

from __future__ import annotations

import math
import statistics
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_count, check_number
from visionnmf._text import counted
from visionnmf.exceptions import ParameterError

DAY = 86_400.0  # seconds; a later frame has a damaged time stamp
JUMP = 0.5  # seconds back, or ahead, by which stamps leave one piece of a file for another
PAUSE, TIMES_USUAL = 1.0, 3.0  # seconds and usual frames: where the next frame takes longer than both, it is a pause
RECENT = 3  # frames whose median duration is the usual one
CATCH_UP = 4  # times as fast as usual come frames whose stamps are behind
ROUNDING = 0.001  # seconds that containers round away: Matroska counts milliseconds
HOLES = 0.1  # share of intervals that are not the usual one, up to which these are losses of a constant rate
MIXED = 0.25  # share of single steps, and of longer ones that single ones follow, from which on frames may be missing
JITTER = 1 / 8  # of a step, by which an interval may be off a whole number of them
LONG = 1.5  # times the usual interval: something may be missing
SLOWEST, FASTEST = Fraction(1, 100), Fraction(1000)  # frames per second of results
SHOWN = 3  # holes that a note names
MOST_PIECES = 100_000
MOST_HOLES = 1000
ASKED_STEPS = 1000  # whose median is a frame, in shifts of time stamps


class TimedFrame(NamedTuple):
    """A frame with its time."""

    picture: Any  # ndarray of uint8 (height, width, 3)
    time: float  # when it is shown, in seconds from the beginning of the source
    is_doubtful: bool = False  # whether the frame, or one since the last key frame, came damaged


class FrameReader(ABC):
    """What all readers share: the ``with`` block closes the source, and a ``for`` loop goes over its pictures."""

    begins_anew = True
    has_sound = truncated = False
    frames_read = damaged = reconnections = 0
    time = 0.0
    problem: str | None = None
    declared_frames: int | None = None

    @abstractmethod
    def timed(self) -> Iterator[TimedFrame]:
        """Begin a loop over the frames with their times."""

    @abstractmethod
    def close(self) -> None:
        """Close the source."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return (frame.picture for frame in self.timed())


class Timeline:
    """When each frame is shown, for how long, and what is missing; all in seconds.

    A frame is shown until the next one comes. Only where that takes more than a second and three times as long as
    usual, the frame is shown as long as usual and a pause follows.

    Parameters
    ----------
    step : float
        Declared seconds between two frames.
    zero : float or None
        The stamp that counts as time 0; the first one if None, or if that is earlier.

    Attributes
    ----------
    count, first, time : int, float, float
        Number of frames so far, and the times of the first and the latest.
    shown, pause : float, float
        For how long the frame before the latest was shown, and how long nothing was then.
    varies : bool
        Whether a frame was off the declared rate by more than containers round.
    late : str or None
        A sentence on the latest jump ahead that was taken back, by which later times are wrong.

    Examples
    --------
    >>> from visionnmf.io.video.timeline import Timeline
    >>> timeline = Timeline(0.04)
    >>> [timeline.add(stamp) for stamp in (0.0, 0.04, 0.04, 9.0)]
    [0.0, 0.04, 0.08, 9.0]
    """

    def __init__(self, step: float, zero: float | None = 0.0) -> None:
        self.step = step
        self.count = 0
        self.first = self.time = self.shown = self.pause = 0.0
        self.varies = False
        self.late: str | None = None
        self._zero = zero
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._stamp: float | None = None  # of the latest frame
        self._left: float | None = None  # the zero before stamps jumped
        self._wait: float | None = None  # from the latest frame to the next, which another connection brings
        self._pairs: Counter[tuple[int, int]] = Counter()  # intervals, each after the one before, in milliseconds
        self._before = 0  # the latest of them
        self._long: list[tuple[float, float]] = []  # times before long intervals, and these

    @property
    def usual(self) -> float:
        """For how long a frame is usually shown at present."""
        return statistics.median(self._recent) if self._recent else self.step

    @property
    def end(self) -> float:
        """Until when the latest frame is shown, if no pause follows."""
        return self.time + self.usual

    @property
    def frame_rate(self) -> Fraction:
        """The declared rate, or the mean rate where it varies, in frames per second."""
        rate = Fraction(1 / self.step)
        if self.varies:
            rate = Fraction((self.count - 1) / (self.time - self.first))
        # The rates of television, such as 30000/1001, have this denominator.
        return min(max(rate.limit_denominator(1001), SLOWEST), FASTEST)

    def add(self, stamp: float | None) -> float:
        """Take the time stamp of the next frame; return its time, which is later than that of the frame before.

        Frames without a stamp, or with that of the frame before, come as usual, and those that are behind more quickly.
        Stamps that jump back, or ahead by a day, are those of another recording, which goes on from here.
        """
        before, usual = self.time, self.usual
        if self.count == 0:
            if stamp is not None:
                self._zero = stamp if self._zero is None else min(stamp, self._zero)
            time = 0.0 if stamp is None or stamp - (self._zero or 0.0) > DAY else stamp - (self._zero or 0.0)
            self.first = time
        else:
            time = before + usual if stamp is None else stamp - (self._zero or 0.0)
            if self._left is not None and stamp is not None and time > before + JUMP:
                # one stamp was wrong if those before it go on
                due = stamp - self._left
                self._zero, time = (self._left, due) if abs(due - before - usual) <= JUMP else (self._zero, time)
            at, hole = self._long[-1] if self._long else (0.0, 0.0)
            behind = before + usual - time
            if self._wait is None and at < time < before - JUMP and abs(behind - hole) <= JUMP:
                self.late = f"times after {at:.2f} s are {behind:.2f} s late: time stamps jumped ahead and back"
            if self._wait is not None or time < before - JUMP or time > before + DAY:
                time = before + (usual if self._wait is None else self._wait)
                self._left, self._zero, self._wait = self._zero, (stamp or 0.0) - time, None
            elif time <= before:
                time = before + (usual if stamp == self._stamp else usual / CATCH_UP)
            self._measure(time, usual)
        self.count += 1
        self.time, self._stamp = time, stamp
        return time

    def _measure(self, time: float, usual: float) -> None:
        """Decide what of the time since the frame before was a pause."""
        interval = time - self.time
        if abs(interval - self.step) <= ROUNDING:
            interval = self.step
        self.varies = self.varies or abs(time - self.first - self.count * self.step) > ROUNDING
        self.pause = interval - usual if interval > max(PAUSE, TIMES_USUAL * usual) else 0.0
        self.shown = interval - self.pause
        self._recent.append(interval)
        before, self._before = self._before, max(1, round(1000 * interval))
        self._pairs[before, self._before] += 1
        if interval > LONG * usual and len(self._long) < MOST_HOLES:
            self._long.append((self.time, interval))

    @property
    def hole_note(self) -> str | None:
        """How many frames are missing, or could be, and where; None if none is, or the rate varies."""
        intervals: Counter[int] = Counter()
        for (_, interval), n in self._pairs.items():
            intervals[interval] += n
        if not intervals:
            return None
        usual = intervals.most_common(1)[0][0] / 1000
        step = self.step if abs(usual - self.step) <= ROUNDING else usual
        even = sum(n for interval, n in intervals.items() if abs(interval - 1000 * step) <= 1000 * ROUNDING)
        if even < (1 - HOLES) * (self.count - 1):
            return self._note_on_steps(intervals)
        holes = [(at, round(interval / step) - 1) for at, interval in self._long if interval > LONG * step]
        more = ", ..." if len(holes) > SHOWN else ""
        places = ", ".join(f"{n} after {at:.2f} s" for at, n in holes[:SHOWN])
        large = ((n, interval / 1000) for interval, n in intervals.items() if interval / 1000 > LONG * step)
        lost = sum(n * (round(interval / step) - 1) for n, interval in large)
        return f"{counted(lost, 'frame')} {'is' if lost == 1 else 'are'} missing: {places}{more}" if holes else None

    def _note_on_steps(self, intervals: Counter[int]) -> str | None:
        """Return how many frames could be missing where single and longer steps alternate, as after regular losses."""
        below = accumulate(n for _, n in sorted(intervals.items()))
        # nine tenths of the intervals are as long, or longer
        least = next(each for each, n in zip(sorted(intervals), below, strict=True) if n > HOLES * (self.count - 1))
        counts = {each: n for each, n in intervals.items() if each <= max(1000 * PAUSE, TIMES_USUAL * least)}
        n_single = sum(n for each, n in counts.items() if each <= LONG * least)
        if self.count <= 1 / HOLES or n_single < MIXED * self.count:
            return None
        step = sum(each * n for each, n in counts.items() if each <= LONG * least) / n_single
        steps = {each: max(1, round(each / step)) for each in counts}
        n_even = sum(n for each, n in counts.items() if abs(each - steps[each] * step) <= step * JITTER)
        n_left = sum(n for (before, now), n in self._pairs.items() if steps.get(now) == 1 < steps.get(before, 0))
        lost, most = sum(n * (steps[each] - 1) for each, n in counts.items()), max(steps.values())
        n_long = sum(counts.values()) - n_single
        pause = f", with pauses of up to {max(intervals) / 1000:.3g} s" if max(intervals) not in counts else ""
        if not lost or n_even < (1 - HOLES) * sum(counts.values()) or n_left < MIXED * n_long:
            return None
        return (
            f"{lost} of {lost + self.count} frames may be missing, or the rate varies: frames come 1 "
            f"{'or 2' if most == 2 else f'to {most}'} steps of {step / 1000:.3g} s apart{pause}"
        )

    def resume(self, seconds: float) -> None:
        """Say that the next stamp, of another connection, comes so many seconds after the latest frame."""
        self._wait = seconds


@dataclass(frozen=True)
class FramesWanted:
    """Which frames of a source are delivered, and by what factor they are scaled; see :class:`.VideoReader`."""

    every: int = 1
    max_frames: int | None = None
    scale: float = 1.0
    start: float = 0.0
    end: float | None = None

    def __post_init__(self) -> None:
        check_number(self.start, "start")
        if self.end is not None:
            check_number(self.end, "end", self.start, without_low=True)  # later than `start`
        check_number(self.scale, "scale", 0, 1, without_low=True)  # above 0, at most 1
        check_count(self.every, "every")
        if self.max_frames is not None:
            check_count(self.max_frames, "max_frames")

    def scaled(self, size: tuple[int, ...]) -> tuple[int, int]:
        """Return the size, (width, height), in which frames are delivered: both sides times `scale`, >= 1."""
        width, height = size
        return max(1, round(width * self.scale)), max(1, round(height * self.scale))

    def choose(
        self, frames: Iterable[TimedFrame], *, counting: bool = True, may_be_none: Callable[[], bool] = lambda: False
    ) -> Iterator[TimedFrame]:
        """Yield those frames that are wanted; with `counting` false the caller counts them.

        Raises ParameterError if there is none, unless `may_be_none` returns True then.
        """
        passed = delivered = 0  # frames between start and end, and those of them that were yielded
        time = 0.0
        for frame in frames:
            time = frame.time
            if time < self.start:
                continue
            if self.end is not None and time >= self.end:
                break
            passed += 1
            if (passed - 1) % self.every == 0:
                delivered += 1
                yield frame
                if counting and delivered == self.max_frames:
                    return
        if not passed and not may_be_none():
            if self.end is not None and time >= self.end:
                raise ParameterError(
                    f"end must be later than {time:.3f} s, when the next frame from start on is shown; got {self.end:g}"
                )
            latest = math.floor(1000 * time) / 1000  # rounded up, it would be too late
            raise ParameterError(
                f"start must be at most {latest:.3f} s, when the last frame of the video is shown; got {self.start:g}"
            )


class _Piece(NamedTuple):
    """Packets whose time stamps follow each other; stamps are in ticks, `shift` included."""

    number: int  # of the first packet
    first: int
    last: int
    shift: int = 0

    def moved(self, ticks: int) -> _Piece:
        """Return the piece later by some ticks."""
        return _Piece(self.number, self.first + ticks, self.last + ticks, self.shift + ticks)


def shifts_of(stamps: Iterable[int | None], second: float, zero: int) -> tuple[list[tuple[int, int]], int]:
    """Return what must be added to the time stamps of a file, as pairs: from which packet on, and how many ticks.

    Also return the longest time between two packets, in ticks, after this correction.

    `stamps` are the decoding times of the packets of pictures, `second` is a second in ticks, and `zero` the beginning.
    Pieces of the file that were stamped too late, because later ones fit before them, are moved
    back; where stamps begin again, as in files that were joined, they go on.
    """
    pieces: list[_Piece] = []
    longest = 1
    steps: list[int] = []  # between some packets
    jump, day = JUMP * second, DAY * second
    for number, stamp in enumerate(stamps):
        if stamp is None:
            continue
        if not pieces or (abs(stamp - pieces[-1].last) > jump and len(pieces) < MOST_PIECES):
            pieces.append(_Piece(number, stamp, stamp))
        elif stamp > pieces[-1].last:
            longest = max(longest, stamp - pieces[-1].last)
            if len(steps) < ASKED_STEPS:
                steps.append(stamp - pieces[-1].last)
            pieces[-1] = pieces[-1]._replace(last=stamp)
    step = round(statistics.median(steps)) if steps else 1
    placed: list[_Piece] = []
    shift, shifts = 0, {0}
    for raw in pieces:
        due = placed[-1].last + step if placed else raw.first
        # The clock that was left before may go on, or the one before that.
        shift = next((each for each in sorted(shifts) if abs(raw.first + each - due) <= jump), shift)
        piece = raw.moved(shift)
        if piece.first > due + day:
            piece = raw.moved(due - raw.first)
        elif placed and piece.first <= placed[-1].last:
            # What fits before this piece is kept, and the rest was stamped too late.
            at = bisect_left(placed, piece.first, key=lambda each: each.last)
            begin = placed[at - 1].last + step if at else zero
            if begin + sum(each.last - each.first + step for each in placed[at:]) <= piece.first + step // 2:
                for i in range(at, len(placed)):
                    placed[i] = placed[i].moved(begin - placed[i].first)
                    begin = placed[i].last + step
            else:
                shift = due - raw.first
                shifts.add(shift)
                piece = raw.moved(shift)
        placed.append(piece)
    changes = [piece for before, piece in pairwise([_Piece(0, 0, 0), *placed]) if piece.shift != before.shift]
    gaps = (piece.first - before.last for before, piece in pairwise(placed))
    return [(piece.number, piece.shift) for piece in changes], max(longest, *gaps, 1)
