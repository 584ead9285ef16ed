"""What a camera could not see: stretches of a recording in which an empty mask does not mean a quiet scene."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._text import counted
from visionnmf.io.video.timeline import ROUNDING, Timeline

from . import tuning
from .frame_arrays import Floats, FrameArray, Separated, channel_mean

if TYPE_CHECKING:
    from .separators import Separator
    from .sources import Clip

FEW = 32, 24  # columns and rows of the pixels of each frame that are looked at
SIZE = 64, 48  # of what is compared with the scene; blocks of 8 by 8 of its pixels have details of their own
MOST = 1000  # stretches of each reason that are kept, so that memory does not grow
RENEWALS = 10  # of the picture, the latest, that tell how often it is renewed
SAID = 3  # of one reason have a sentence of their own
NO_PICTURE, FROZEN, CHANGED, PAUSE, NO_COLOUR = "no picture", "frozen", "changed", "pause", "no colour"
TOO_DARK = "too dark"
LOSSES = "short losses"  # of the picture, which are too short to be stretches of their own
MARKS = {NO_PICTURE: "the camera saw no picture", FROZEN: "the camera was frozen"}  # of events in such stretches
MARKS |= {CHANGED: "the whole picture was another one", PAUSE: "the recording paused", TOO_DARK: "it was too dark"}
OTHER = NO_PICTURE, CHANGED  # after which foreground and background say little about the scene


@dataclass(frozen=True)
class Unseen:
    """A stretch in which the camera does not see its scene; `end` is None where it lasts, times are in seconds."""

    reason: str
    start: float
    end: float | None
    frames: int
    what: str = ""  # how the sentence goes on

    def __str__(self) -> str:
        frames, at = counted(self.frames, "frame"), f"{self.start:.1f} s"
        if self.reason == CHANGED:
            when = self.what or f"changed at {at} and did not come back"
            if self.end is not None:
                when = f"was another one from {self.start:.1f} to {self.end:.1f} s"
                when = f"changed at {self.end:.1f} s; before, it was another one" if self.what else when
            why = "was the camera covered or moved, or did the light change? Where the background is that of another"
            return f"the whole picture {when}: {why} scene, masks do not show what moves"
        sentences = {
            NO_PICTURE: f"no picture: {frames} from {at} on {'is' if self.frames == 1 else 'are'} {self.what}",
            FROZEN: f"{frames} from {at} on equal the one before: is the camera frozen?",
            PAUSE: f"the recording pauses for {(self.end or 0.0) - self.start:.1f} s from {at} on",
            TOO_DARK: f"too dark from {at} {'on' if self.end is None else f'to {self.end:.1f} s'}: {self.what}",
        }
        return sentences.get(self.reason, self.what)


class Watch:
    """Takes separated frames as they come; :meth:`add` returns a stretch when it becomes certain that there is one."""

    def __init__(self, step: float, *, adopts: bool = False, threshold: float | None = None) -> None:
        """Take the declared seconds between frames, whether another picture becomes the scene, and the threshold."""
        self._timeline, self._adopts, self._threshold = Timeline(step), adopts, threshold
        self._found: list[Unseen] = []  # those that are over
        self._open: dict[str, Unseen] = {}  # those that may go on, certain or not
        self._certain: set[str] = set()  # the reasons of open ones that are long enough
        self._short: deque[Unseen] = deque(maxlen=MOST)  # losses of the picture that are not long enough
        self._losses = 0, 0, 0.0  # the number of these, their frames and seconds in all
        self.jumped = 0.0  # when the picture may have become another one
        self.cuts: deque[float] = deque(maxlen=MOST)  # when it did
        self._sample: FrameArray | None = None  # the frame before, at some pixels
        self._anchor: FrameArray | None = None  # the first frame of those that may be frozen
        self._restless = 0.0  # frames among these that differ from the one before, less a part of those that do not
        self._kinds: Counter[str] = Counter()  # of these frames: equal to the one before, or much or all of it new
        self._changed = 0.0, 0.0  # the share of the values that differ, of the two frames before
        self._renewed = np.inf  # when a key frame last changed most of a calm picture
        self._stirred = 0.0  # when more than a little of it last changed
        self._periods: deque[float] = deque(maxlen=RENEWALS)  # seconds between such key frames
        self._noise: Counter[bool] = Counter()  # of the frames that are not frozen: whether much differs in them
        self._quiet: deque[Unseen] = deque(maxlen=MOST)  # stretches that may be frozen, or of a scene without noise
        self._scene: Floats | None = None  # (48, 64), what the camera has seen, which follows slowly
        self._before: Floats | None = None  # the latest details that were compared with it
        self._due = -np.inf  # when the next comparison is
        self._jump = 0.0, 0.0, 0  # the largest difference of two frames since the latest one, its time and number
        self._checks: Counter[str] = Counter()  # comparisons of the stretch that differs, and how many were steady
        self._colour: Counter[str] = Counter()  # frames without any, the others, and sums of the median pixel's
        self._grey_from = 0.0

    def add(self, part: Separated) -> list[Unseen]:
        """Take the next frame; return the stretches that are certain from now on."""
        timeline, limits, found = self._timeline, tuning.TUNING.unseen, list[Unseen]()
        before = timeline.time + timeline.usual
        time = timeline.add(part.time)
        if timeline.pause:
            found = [Unseen(PAUSE, time - timeline.pause, time, 0)]
            self._keep(found[0])
        sample, mean, is_blank = few_pixels(part.frame)
        if is_blank:
            self._extend(NO_PICTURE, time, "black" if mean.max() < limits.black else "of one colour")
            self._end(FROZEN, before)
            if self._is_certain(NO_PICTURE, self._open[NO_PICTURE]):  # single frames of a night may be of one colour
                self._end(TOO_DARK, self._open[NO_PICTURE].start)
            self._sample = self._anchor = None
        else:
            self._end(NO_PICTURE, before)
            self._follow(sample, time, before)
            self._count_colour(sample, mean, time)
            if time >= self._due:
                self._due = time + limits.check
                self._compare(part, time)
        for reason in self._open.keys() & {CHANGED, TOO_DARK}:
            self._extend(reason, time)
        new = {reason: each for reason, each in self._open.items() if reason not in self._certain}
        new = {reason: each for reason, each in new.items() if self._is_certain(reason, each)}
        self._certain.update(new)
        self.cuts += [each.start for each in new.values() if each.reason == CHANGED]
        return [*found, *new.values()]

    @property
    def frames(self) -> int:
        """How many frames have come."""
        return self._timeline.count

    @property
    def doubt(self) -> list[float]:
        """When the picture changed, if it has just become another one, but not for long enough to be certain."""
        each, longest = self._open.get(CHANGED), 2 * tuning.TUNING.unseen.changed_seconds
        is_new = each is not None and self._timeline.time - each.start <= longest
        return [each.start] if each is not None and is_new and CHANGED not in self._certain else []

    def rows(self) -> list[Unseen]:
        """Return all stretches so far, those that last included, in their order."""
        last = [each for reason, each in self._open.items() if self._is_certain(reason, each)]
        found = sorted([*self._found, *last], key=lambda each: each.start)
        counts, others = self._colour, self._colour["others"]
        if counts["grey"] and others and counts["median"] >= tuning.TUNING.unseen.coloured * counts["asked"]:
            what = (
                f"{counts['grey']} of {counts['grey'] + others} frames have no colour, unlike the others, as at night: "
                "much of them may be taken for foreground, so separate them on their own, by start and end"
            )
            found.append(Unseen(NO_COLOUR, self._grey_from, None, counts["grey"], what))
        return found

    def doubts(self) -> list[str]:
        """Return a sentence if the picture stood still for long, where this is as likely a scene without noise."""
        last = self._open.get(FROZEN)
        is_open = last is not None and self._is_long(last, None) and not self._is_certain(FROZEN, last)
        quiet = [*self._quiet, *([replace(last, end=self._timeline.end)] if last is not None and is_open else [])]
        found = [((each.end or each.start) - each.start, each) for each in quiet]
        if not found:
            return []
        longest, each = max(found, key=lambda one: one[0])
        whole = f", {sum(one[0] for one in found):.1f} s in all" * (len(found) > 1)
        return [
            f"hardly any pixel changes for {longest:.1f} s from {each.start:.1f} s on{whole}: a quiet scene without "
            "noise, as after compression, or a frozen camera"
        ]

    def stretches(self) -> list[Unseen]:
        """Return all stretches so far, and each short loss of the picture if these add up to a row."""
        rows = self.rows()
        return rows + [*self._short] * any(each.reason == LOSSES for each in rows)

    # --- stretches ----------------------------------------------------------------------------------------------------

    def _extend(self, reason: str, time: float, what: str = "") -> None:
        """Begin a stretch with this frame, or let it go on."""
        now = self._open.get(reason) or Unseen(reason, time, None, 0, what)
        self._open[reason] = replace(now, frames=now.frames + 1)

    def _end(self, reason: str, time: float | None) -> None:
        """End a stretch, if there is one; it is kept if it is certain."""
        each = self._open.pop(reason, None)
        if each is not None and self._is_certain(reason, each, time):
            self._keep(replace(each, end=time))
            self.cuts += [each.start, *([] if time is None else [time])] if reason == CHANGED else []
        elif each is not None and reason == NO_PICTURE:
            self._lose(replace(each, end=time))
        elif each is not None and reason == FROZEN and self._is_long(each, time):
            self._quiet.append(replace(each, end=time))
        self._certain.discard(reason)

    def _is_long(self, each: Unseen, until: float | None) -> bool:
        """Return whether a stretch lasts as long as the picture of a frozen camera at least."""
        limits, end = tuning.TUNING.unseen, self._timeline.end if until is None else until
        return end - each.start >= limits.frozen_seconds and each.frames >= limits.frozen_frames

    def _keep(self, each: Unseen) -> None:
        if sum(other.reason == each.reason for other in self._found) < MOST:
            self._found.append(each)

    def _lose(self, each: Unseen) -> None:
        """Add a loss of the picture that is too short to be a stretch of its own to those before."""
        (times, frames, seconds), end = self._losses, each.end or each.start
        self._short.append(each)
        self._losses = times, frames, seconds = times + 1, frames + each.frames, seconds + end - each.start
        start, limit = self._open.get(LOSSES, each).start, tuning.TUNING.unseen.blank_seconds
        what = f"no picture {times} times for less than {limit:g} s, {seconds:.1f} s in all, "
        what += f"from {start:.1f} to {end:.1f} s: is a cable loose?"
        self._open[LOSSES] = Unseen(LOSSES, start, end, frames, what)

    def _is_certain(self, reason: str, each: Unseen, until: float | None = None) -> bool:
        """Return whether an open stretch has lasted long enough, and is what it seems to be."""
        until = self._timeline.end if until is None else until
        limits, seconds = tuning.TUNING.unseen, until - each.start
        if reason == NO_PICTURE:
            return seconds >= limits.blank_seconds
        if reason == TOO_DARK:
            return seconds >= limits.dark_seconds
        if reason == LOSSES:
            return self._losses[0] >= limits.losses and self._losses[2] >= limits.lost_seconds
        if reason == CHANGED:
            n_checks, long = self._checks["all"], seconds >= limits.changed_seconds
            steady = self._checks["steady"] >= limits.steady_checks * n_checks
            return reason in self._certain or (long and steady and n_checks >= limits.changed_checks)
        if len(self._periods) >= limits.periods:
            return self._is_calm(each, until) and CHANGED not in self._certain
        # A picture in which hardly anything changes at any time may be one of a screen, or without noise after strong
        # compression. One that has noise at other times, or none from the first frame to the last, is doubtful.
        kinds = self._kinds
        if kinds["equal"] < (limits.equal if kinds["much"] else limits.all_equal) * each.frames:
            return False
        noisy = self._noise[True] >= max(limits.fewest_noisy, limits.noisy_frames * self._noise.total())
        whole = each.frames >= limits.whole * self._timeline.count
        return self._is_long(each, until) and (noisy or whole) and CHANGED not in self._certain

    def _is_calm(self, each: Unseen | None, until: float) -> bool:
        """Return whether no key frame has renewed the picture, as it does unless this is frozen, for far too long."""
        limits, periods = tuning.TUNING.unseen, self._periods
        if each is None or len(periods) < limits.periods:
            return False
        return until - max(each.start, self._stirred) >= max(limits.calm_seconds, limits.calm_periods * max(periods))

    # --- what is looked at --------------------------------------------------------------------------------------------

    def _follow(self, sample: FrameArray, time: float, before: float) -> None:
        """Compare a frame with the one before, and with the first of those that may be frozen."""
        limits, last = tuning.TUNING.unseen, self._sample
        self._sample = sample
        if last is None or self._anchor is None:
            self._anchor, self._restless, self.jumped = sample, 0.0, time
            self._kinds.clear()
            if self._timeline.count > 1:  # no change is larger than that from no picture to one
                self._jump = np.inf, time, self._timeline.count
            return
        changed = float(np.count_nonzero(cv2.absdiff(sample, last))) / sample.size
        jump = cv2.norm(sample, last, cv2.NORM_L1)
        if jump > self._jump[0]:
            self._jump, self.jumped = (jump, time, self._timeline.count), time
        earlier, latest = self._changed
        is_renewed = latest > limits.renewed and max(earlier, changed) < latest / 2
        self._changed = latest, changed
        self._restless = self._restless + 1 if changed > limits.still else max(0.0, self._restless - limits.calms)
        away = np.count_nonzero(cv2.absdiff(sample, self._anchor) > limits.other_level)
        # Where a frozen picture is compressed, its second key frame changes less than its first, and later ones hardly
        # anything. Each key frame of a camera without visible noise changes nearly all of the picture.
        kind = "" if changed else "equal"
        if changed > limits.much_new:
            kind = "all" if changed > limits.all_new else "much"
        each = self._open.get(FROZEN)
        is_calm = self._is_calm(each, before)
        is_other = (kind == "all" and self._kinds["all"] == 1) or (changed > limits.renewed and is_calm)
        if is_other or self._restless > limits.restless or away > limits.other_pixels * sample.size:
            self._noise[False] += 0 if each is None or self._is_certain(FROZEN, each) else each.frames
            self._end(FROZEN, before)
            self._anchor, self._restless, kind = sample, 0.0, ""
            self._kinds.clear()
            self._renewed, is_calm = np.inf if is_calm else self._renewed, False  # the time in between is not usual
        if changed > limits.stirred and not is_calm:
            self._stirred = time
        if is_renewed:
            self._periods += [time - self._renewed] if self._renewed < time else []
            self._renewed = time
        self._kinds[kind] += 1
        if FROZEN in self._open or changed <= limits.still:
            self._extend(FROZEN, time)
        else:
            self._noise[changed > limits.noisy] += 1

    def _count_colour(self, sample: FrameArray, mean: NDArray[Any], time: float) -> None:
        """Count frames without colour, such as those of a camera at night, beside those that have some."""
        counts, limit, is_due = self._colour, tuning.TUNING.unseen.grey, time >= self._due
        if not is_due and mean.max() - mean.min() >= limit:  # pixels differ by at least as much between the channels
            counts["others"] += 1
            return
        red, green, blue = cv2.split(sample)
        colour = cv2.subtract(cv2.max(cv2.max(red, green), blue), cv2.min(cv2.min(red, green), blue))
        is_grey = cv2.mean(colour)[0] < limit
        self._grey_from = time if is_grey and not counts["grey"] else self._grey_from
        counts["grey" if is_grey else "others"] += 1
        if not is_grey and is_due:  # an object of colour makes no scene of colour
            counts["asked"] += 1
            counts["median"] += int(np.median(colour))

    def _compare(self, part: Separated, time: float) -> None:
        """Compare the details of a frame with those of the scene, whatever its illumination."""
        limits = tuning.TUNING.unseen
        small = _reduced(part.frame)
        bright = float(np.percentile(small, 98))
        if bright >= limits.too_dark:
            self._end(TOO_DARK, time)
        elif TOO_DARK not in self._open:
            self._open[TOO_DARK] = Unseen(TOO_DARK, time, None, 0, darkness(bright, self._threshold))
        if self._scene is None:
            self._scene = _reduced(part.background)
        scene, details = _details(self._scene), _details(small)
        share = _alike(details, scene, either=False)
        steady = self._before is not None and _alike(details, self._before, either=True) > limits.steady
        self._before = details
        if share < limits.other:
            if CHANGED not in self._open:
                _, since, number = self._jump
                n_before = self._timeline.count - number if number else 0
                what = "" if number or self._timeline.count > 1 else "is not the background from the first frame on"
                self._open[CHANGED] = Unseen(CHANGED, since if number else time, None, n_before, what)
                self._checks.clear()
            self._checks.update({"all": 1, "steady": int(steady)})
            # from now on, later frames are compared with what is seen now
            if self._adopts and time - self._open[CHANGED].start > limits.adopted:
                self._end(CHANGED, None)
                self._scene = small
        else:
            self._end(CHANGED, self._jump[1] or time)
            self._scene += min(1.0, limits.check / limits.follows) * (small - self._scene)
        self._jump = 0.0, 0.0, 0


def few_pixels(frame: FrameArray) -> tuple[FrameArray, NDArray[Any], bool]:
    """Return some pixels of a frame, the mean of their channels, and whether it is no picture."""
    sample = np.asarray(cv2.resize(frame, FEW, interpolation=cv2.INTER_NEAREST), np.uint8)
    mean, deviation = cv2.meanStdDev(sample)
    return sample, np.ravel(mean), bool(deviation.max() < tuning.TUNING.unseen.blank)


def fit_pictures(model: Separator, frames: Callable[[], Iterable[FrameArray]]) -> int:
    """Learn from frames without those that are black or of one colour, if others differ; return how many are left."""
    seen: dict[bool, FrameArray] = {}  # some pixels of the first frame without a picture, and of the first other one
    counts: Counter[bool] = Counter()

    def pictures() -> Iterator[FrameArray]:
        """Yield what is learnt."""
        for frame in frames():
            sample, _, is_blank = few_pixels(frame)
            seen.setdefault(is_blank, sample)
            counts[is_blank] += 1
            if not is_blank:
                yield frame
        if False not in seen:
            yield from frames()

    model.fit(pictures())
    # a made scene may have one colour itself, on which objects come and go
    if len(seen) == 2 and np.median(np.ptp([*seen.values()], axis=0)) < tuning.TUNING.unseen.blank:
        model.fit(frames())
        return counts.total()
    return counts[False] or counts.total()


def unseen_in(clip: Clip, watch: Watch, background: FrameArray, threshold: float | None) -> list[Unseen]:
    """Return all reasons why the camera could not see, once the clip is read; `threshold` is None for the default."""
    rows = watch.rows()
    said = {each.reason for each in rows}
    contrast = [] if said & {*OTHER} else contrast_of(background, threshold, watch.frames)
    return [*faults_of(clip), *(each for each in contrast if each.reason not in said), *rows]


def faults_of(clip: Clip) -> list[Unseen]:
    """Return what is cut off or damaged in a source that was read to its end."""
    what = clip.problem or (clip.notes[0] if clip.damaged else None)
    reason, start = ("damaged", 0.0) if clip.damaged else ("cut off", clip.time)
    return [] if what is None else [Unseen(reason, start, None, clip.damaged, what)]


def contrast_of(background: FrameArray, threshold: float | None, frames: int) -> list[Unseen]:
    """Return that the scene is too dark or has too little contrast for the default threshold, if so."""
    limits = tuning.TUNING.unseen
    dark, bright = np.percentile(channel_mean(background), (2, 98))
    if frames > 1 and bright < limits.too_dark:
        return [Unseen(TOO_DARK, 0.0, None, frames, darkness(bright, threshold))]
    if frames > 1 and threshold is None and dark > limits.fog_black and bright - dark < limits.fog_range:
        lower = f"threshold={limits.low_threshold:g}"
        what = f"the background has little contrast and nothing dark, as in fog, where {lower} finds more"
        return [Unseen("low contrast", 0.0, None, frames, what)]
    return []


def darkness(bright: float, threshold: float | None) -> str:
    """Return what is not seen where the brightest pixels have this level."""
    lower, lowest = tuning.TUNING.unseen.low_threshold, tuning.TUNING.noise.lowest
    what = f"the brightest pixels have {bright:.0f} of 255: differences below {(threshold or 3) * lowest:g} are never"
    return what + " seen" + f", with threshold={lower:g} those below {lower * lowest:g}" * (threshold is None)


def sentences_of(rows: list[Unseen]) -> list[str]:
    """Return a sentence for each stretch, but for many of one reason how many there are."""
    said, counts = list[str](), Counter(each.reason for each in rows)
    seen: Counter[str] = Counter()
    for each in rows:
        seen[each.reason] += 1
        if seen[each.reason] <= SAID:
            said.append(str(each))
        elif seen[each.reason] == counts[each.reason]:
            more = counted(counts[each.reason] - SAID, "more time")
            said.append(f"{each.reason}: {more}, the last from {each.start:.1f} s on")
    return said


def marks_of(rows: list[Unseen], first: float, until: float, *, is_live: bool) -> list[str]:
    """Return what to note on an event between two times; live, another picture becomes the background."""
    lasts = {CHANGED: tuning.TUNING.unseen.adopted} if is_live else {}
    marks = []
    for each in rows:
        end = each.start + lasts.get(each.reason, np.inf) if each.end is None else each.end
        if each.reason not in MARKS or each.start > until + ROUNDING or end < first - ROUNDING:
            continue
        touches = "until " if each.start > until - ROUNDING else "after " if end < first + ROUNDING else ""
        if not (touches and each.reason == CHANGED):  # where an event ends, and the next begins, by a note of its own
            marks.append(touches + MARKS[each.reason])
    return [*dict.fromkeys(marks)]


def as_rows(rows: list[Unseen]) -> list[dict[str, Any]]:
    """Return stretches as a report has them."""
    return [{name: value for name, value in asdict(each).items() if name != "what"} for each in rows]


def _reduced(frame: FrameArray) -> Floats:
    """Return the grey levels of a frame in the size that details are compared in, means of a part of its pixels."""
    step = max(1, min(frame.shape[0] // (2 * SIZE[1]), frame.shape[1] // (2 * SIZE[0])))
    small = cv2.resize(frame[::step, ::step], SIZE, interpolation=cv2.INTER_AREA)
    return np.asarray(small if small.ndim == 2 else cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), np.float32)


def _details(small: Floats) -> Floats:
    """Return the blocks of a reduced frame (48, 64), each without its mean."""
    blocks = small.reshape(6, 8, 8, 8).swapaxes(1, 2).reshape(48, 64)
    return np.asarray(blocks - blocks.mean(axis=1, keepdims=True))


def _alike(details: Floats, others: Floats, *, either: bool) -> float:
    """Return the share of the blocks with details of `others` that look alike, or of all blocks; 1 for too few."""
    limits = tuning.TUNING.unseen
    pairs = (details, details), (others, others), (details, others)
    seen, needed, common = (np.einsum("ij,ij->i", *pair) / details.shape[1] for pair in pairs)
    least = limits.detail**2  # variances
    agree = (common > limits.alike * np.sqrt(seen * needed)) & (seen > least / 4)
    rich = needed > least
    if either:  # two blocks without details are alike
        return float((agree | ~(rich | (seen > least))).mean())
    return float(agree[rich].mean()) if np.count_nonzero(rich) >= limits.fewest_blocks else 1.0
