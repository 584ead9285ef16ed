"""Foreground F-measure of `visionnmf background` on clips with hand-drawn masks, beside its baselines.

    python benchmarks/background.py                 the table of `visionnmf evaluate background`, a row for each clip
    python benchmarks/background.py masks           filling and floor of the noise, chosen for each clip on the others
    python benchmarks/background.py live            live masks beside those of the batch model, all clips of 3 s or more
    python benchmarks/background.py fog             clips in made fog, with the usual threshold and a lower one
    python benchmarks/background.py robust          two clips that are spoilt on purpose
    python benchmarks/background.py small           all clips reduced to some tens of pixels
    python benchmarks/background.py frozen          frozen cameras that are noticed in compressed clips, and quiet ones
    python benchmarks/background.py events          events of objects in true masks, at even and uneven times

The clips are research data that the project does not ship: see datasets/README.md. Only mask values 0 and 50 (shadow)
as background and 255 as foreground are scored; pixels are pooled over a clip's frames, then clips averaged.

Peers of `robust` and `small`: the colour temporal median of 100 evenly spaced frames, largest channel above 25;
OpenCV's MOG2 and KNN, tuned as in the literature (MOG2: history 500, variance threshold 36; KNN: history 500, distance
400; no shadows). All masks, ours too, end with a 5 by 5 median. MOG2 and KNN see the frames once, in order, as they
are made to; the median and ours see the whole clip first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
from collections.abc import Callable, Iterator

import av
import cv2
import numpy as np
from _clips import CLIPS, Clip, load_clip
from _main import main
from numpy.typing import NDArray

from visionnmf.apps.background import BackgroundModel, OnlineBackgroundModel, Separated, tuning
from visionnmf.apps.background.event_tables import EventBuilder, MotionEvent, find_boxes
from visionnmf.apps.background.model.mask import median_mask
from visionnmf.apps.background.object_events import ObjectFinder
from visionnmf.apps.background.settings import EventSettings
from visionnmf.apps.background.watch import Watch
from visionnmf.apps.evaluate.background import Confusion, TrueClip, score_clip
from visionnmf.io.video.timeline import ROUNDING, Timeline

Frames = NDArray[np.uint8]
Counts = NDArray[np.int64]  # true positives, false positives, false negatives

COMPARED = ("ours", "median", "mog2", "knn", "mahnmf", "rpca", "godec")
EMPTY = "wallflower_movedobject"  # its one mask is empty: F is not defined
WITH_MASKS = [name for name in CLIPS if name != EMPTY]
LIVE = [name for name in CLIPS if not name.startswith("ucsd_") and name != EMPTY]  # those have 30 frames
LONG = 300  # frames
ROBUST = ["cdnet_highway", "sbi_highwayii"]
SMALL = (40, 80, 120)  # pixels of the longer side
SMALL_MASKS = 30  # a clip
FOG = (0.3, 0.5, 1)  # shares of the light of the scene that come through
FOG_MASKS = 12  # a clip
RATE = 25  # frames a second, of events and frozen clips
CRF, KEY_FRAMES = ("23", "35"), ("25", "50")  # of H.264


def temporal_median(video: Clip) -> Frames:
    picks = np.linspace(0, len(video.frames) - 1, min(100, len(video.frames))).round().astype(int)
    median = np.median(video.frames[picks], axis=0).round().astype(np.uint8)
    return np.stack([median_mask(frame, median) for frame in video.frames[video.gt_index]])


def opencv(video: Clip, make: Callable[[], cv2.BackgroundSubtractor]) -> Frames:
    subtractor = make()
    masks = []
    wanted = set(video.gt_index.tolist())
    for index, frame in enumerate(video.frames):
        mask = subtractor.apply(frame)
        if index in wanted:
            masks.append(cv2.medianBlur((mask == 255).astype(np.uint8) * 255, 5))
    return np.stack(masks)


def ours(video: Clip) -> Frames:
    model = BackgroundModel().fit(video.frames)
    return np.stack([part.mask for part in model.apply(video.frames[video.gt_index])])


METHODS: dict[str, Callable[[Clip], Frames]] = {
    "visionnmf": ours,
    "median": temporal_median,
    "MOG2 tuned": lambda video: opencv(video, lambda: cv2.createBackgroundSubtractorMOG2(500, 36, False)),
    "KNN tuned": lambda video: opencv(video, lambda: cv2.createBackgroundSubtractorKNN(500, 400, False)),
}


def count(masks: Frames, truth: Frames) -> Counts:
    found = masks > 0
    foreground = truth == 255
    background = (truth == 0) | (truth == 50)
    return np.array([(found & foreground).sum(), (found & background).sum(), (~found & foreground).sum()])


def f_measure(counts: Counts) -> float:
    hits, wrong, missed = counts.tolist()
    return 2 * hits / (2 * hits + wrong + missed) if hits else 0.0


def table() -> None:
    """Print F of each clip by the methods of `visionnmf evaluate background`."""
    print("\n| clip (masks) |", " | ".join(COMPARED), "|\n| --- |", "--- | " * len(COMPARED))
    rows = []
    for name in WITH_MASKS:
        clip = load_clip(name)
        masks = dict(zip(clip.gt_index.tolist(), clip.gt_masks, strict=True))
        numbers = list(range(1, len(clip.frames) + 1))
        true = TrueClip(name, "", numbers, clip.frames.__getitem__, masks, masks.__getitem__, clip.background)
        rows.append([score_clip(true, method)["f_measure"] for method in COMPARED])
        print(f"| {name} ({len(masks)}) |", " | ".join(f"{score:.3f}" for score in rows[-1]), "|", flush=True)
    print("| **mean** |", " | ".join(f"**{mean:.3f}**" for mean in np.mean(rows, axis=0)), "|")


@contextlib.contextmanager
def changed(name: str, value: float) -> Iterator[None]:
    """Set a tuning constant of the application, such as "noise.floor", for a while."""
    before, (part, constant) = tuning.TUNING, name.split(".")
    record = dataclasses.replace(getattr(before, part), **{constant: value})
    tuning.TUNING = dataclasses.replace(before, **{part: record})
    try:
        yield
    finally:
        tuning.TUNING = before


# What is chosen for each clip on the others. The first setting of the product is that without these parts.
CHOICES: dict[str, tuple[float, ...]] = {
    "noise.lowest": (6.0, 2.0, 3.0, 4.0),
    "noise.times_camera": (4.25, 2.0),
    "mask.gap": (0, 9, 11),
    "mask.gap_evidence": (0.0, 0.5),
    "mask.hole": (0.0, 0.01),
}
MASKS_A_CLIP = 25  # evenly spaced


def default_of(name: str) -> float:
    part, constant = name.split(".")
    return getattr(getattr(tuning.TUNING, part), constant)


def label(setting: dict[str, float]) -> str:
    return ", ".join(f"{value:g}" for value in setting.values())


def scores_of(video: Clip, settings: list[dict[str, float]]) -> list[float]:
    """Return F of a clip under each of several settings of constants, and under the defaults at last."""
    picks = np.unique(np.linspace(0, len(video.gt_index) - 1, MASKS_A_CLIP).round().astype(int))
    frames, truth = video.frames[video.gt_index[picks]], video.gt_masks[picks]
    scores = []
    learnt: dict[tuple[tuple[str, float], ...], BackgroundModel] = {}  # by the constants that learning reads
    for setting in [*settings, {}]:
        with contextlib.ExitStack() as stack:
            for constant, value in setting.items():
                stack.enter_context(changed(constant, value))
            key = tuple(item for item in setting.items() if not item[0].startswith("mask."))
            model = learnt[key] = learnt.get(key) or BackgroundModel().fit(video.frames)
            scores.append(f_measure(count(np.stack([part.mask for part in model.apply(frames)]), truth)))
    return scores


def masks() -> None:
    """Print F of each clip under the constants of `CHOICES` that are best in the mean of the other clips."""
    settings = [dict(zip(CHOICES, values, strict=True)) for values in itertools.product(*CHOICES.values())]
    table = np.array([scores_of(load_clip(name), settings) for name in WITH_MASKS])
    scores, default = table[:, :-1], table[:, -1]
    print(f"\n| clip | without | defaults | left out | chosen on the others: {', '.join(CHOICES)} |")
    print("| --- | --- | --- | --- | --- |")
    held_out = []
    for row, name in enumerate(WITH_MASKS):
        best = int(np.argmax(np.delete(scores, row, axis=0).mean(axis=0).round(6)))
        held_out.append(scores[row, best])
        found = (scores[row, 0], default[row], held_out[-1])
        print(f"| {name} |", " | ".join(f"{score:.3f}" for score in found), f"| {label(settings[best])} |")
    means = np.mean([scores[:, 0], default, held_out], axis=1)
    print("| **mean** |", " | ".join(f"**{mean:.4f}**" for mean in means), "| |")
    print("\n| constant | mean F of the clips, the others at their defaults |\n| --- | --- |")
    defaults = {name: default_of(name) for name in CHOICES}
    for name, values in CHOICES.items():
        cells = (f"{value:g}: {scores[:, settings.index(defaults | {name: value})].mean():.4f}" for value in values)
        print(f"| {name} (default {defaults[name]:g}) |", ", ".join(cells), "|")


def live() -> None:
    """Print F of masks that come with each frame, and of those that come when the whole clip is known."""
    print("\n| clip (frames) | live | batch |\n| --- | --- | --- |")
    rows = []
    for name in LIVE:
        clip = load_clip(name)
        truth = dict(zip(clip.gt_index.tolist(), clip.gt_masks, strict=True))
        found = []
        for parts in (
            OnlineBackgroundModel().follow(clip.frames),
            BackgroundModel().fit(clip.frames).apply(clip.frames),
        ):
            counts = Confusion()
            for part in parts:
                if part.index in truth:
                    counts.add(part.mask, truth[part.index])
            found.append(counts.metrics()["f_measure"])
        rows.append((len(clip.frames), *found))
        print(f"| {name} ({len(clip.frames)}) | {found[0]:.3f} | {found[1]:.3f} |", flush=True)
    for title, least in (("mean", 0), (f"mean of those of {LONG} frames or more", LONG)):
        kept = [row[1:] for row in rows if row[0] >= least]
        if kept:
            of_live, of_batch = np.mean(kept, axis=0)
            print(f"| **{title} ({len(kept)})** | **{of_live:.3f}** | **{of_batch:.3f}** |")


def in_fog(frames: Frames, left: float, rng: np.random.Generator) -> Frames:
    """Return frames of which the share `left` is seen through fog of grey level 130, with new noise of 1.5 levels."""
    fog = np.float32((1 - left) * 130 + 0.5)
    noise = rng.normal(0, 1.5, frames.shape).astype(np.float32)
    return np.clip(np.float32(left) * frames + fog + noise, 0, 255).astype(np.uint8)


def fog() -> None:
    """Print F of clips in fog, and of clear ones, with the usual threshold and with a lower one."""
    lower = tuning.TUNING.unseen.low_threshold
    heads = f"threshold {BackgroundModel().threshold:g} | threshold {lower:g}"
    print(f"\n| share seen | clip | {heads} |\n| --- | --- | --- | --- |")
    for left in FOG:
        rows = []
        for name in WITH_MASKS:
            clip = load_clip(name)
            picks = np.unique(np.linspace(0, len(clip.gt_index) - 1, FOG_MASKS).round().astype(int))
            frames = clip.frames if left == 1 else in_fog(clip.frames, left, np.random.default_rng(0))
            model, scores = BackgroundModel().fit(frames), []
            for threshold in (model.threshold, lower):
                parts = model.set_params(threshold=threshold).apply(frames[clip.gt_index[picks]])
                found = np.stack([part.mask for part in parts])
                scores.append(f_measure(count(found, clip.gt_masks[picks])))
            rows.append(scores)
            print(f"| {left} | {name} | {scores[0]:.3f} | {scores[1]:.3f} |", flush=True)
        usual, lower = np.mean(rows, axis=0)
        print(f"| **{left}** | **mean** | **{usual:.3f}** | **{lower:.3f}** |", flush=True)


def salted(frames: Frames, rng: np.random.Generator) -> Frames:
    """Return frames of whose pixels 5 % are black or white."""
    spoilt, chance = frames.copy(), rng.random(frames.shape[:3])
    spoilt[chance < 0.025] = 0
    spoilt[chance > 0.975] = 255
    return spoilt


def brightened(frames: Frames) -> Frames:
    """Return frames whose light goes from .6 to 1.4 over the clip."""
    light = np.linspace(0.6, 1.4, len(frames)).reshape(-1, *(1,) * (frames.ndim - 1))
    return np.clip(frames * light, 0, 255).astype(np.uint8)


def compressed(frames: Frames, **options: str) -> Frames:
    """Return frames as H.264 at CRF 35, or with other options, gives them."""
    memory, form = io.BytesIO(), "gray" if frames.ndim == 3 else "rgb24"
    with av.open(memory, "w", format="mp4") as output:
        stream = output.add_stream("libx264", rate=25, options={"crf": "35"} | options)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            output.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format=form)))
        output.mux(stream.encode())
    memory.seek(0)
    with av.open(memory) as given:
        return np.stack([frame.to_ndarray(format=form) for frame in given.decode(video=0)])


def shaded(video: Clip) -> Frames:
    """Return frames in which each object casts a shadow to the right, of half of the light and 1.5 times its height."""
    frames, (height, width) = video.frames.copy(), video.frames.shape[1:3]
    for index, truth in zip(video.gt_index, video.gt_masks, strict=True):
        objects, shadow = ((truth == 255) | (truth == 170)).astype(np.uint8), np.zeros((height, width), np.uint8)
        count, labels, statistics, _ = cv2.connectedComponentsWithStats(objects)
        for label in range(1, count):
            foot = statistics[label, cv2.CC_STAT_TOP] + statistics[label, cv2.CC_STAT_HEIGHT]
            lying = np.array([[1, -1.5, 1.5 * foot], [0, 0.35, 0.65 * foot]], np.float32)
            shadow |= cv2.warpAffine((labels == label).astype(np.uint8) * 255, lying, (width, height))
        light = 1 - cv2.GaussianBlur(shadow, (0, 0), 1) / 255 / 2
        light[objects > 0] = 1
        frames[index] = (frames[index] * light.reshape(height, width, *(1,) * (frames.ndim - 3)) + 0.5).astype(np.uint8)
    return frames


def shifted(pictures: Frames, shifts: NDArray[np.intp]) -> Frames:
    return np.stack([np.roll(picture, shift, (0, 1)) for picture, shift in zip(pictures, shifts, strict=True)])


def robust() -> None:
    """Print F on clips that are spoilt on purpose, ours and the temporal median's."""
    print("\n| clip | what | ours | median |\n| --- | --- | --- | --- |")
    for name in ROBUST:
        video, rng = load_clip(name), np.random.default_rng(0)
        shifts = rng.integers(-2, 3, (len(video.frames), 2))
        away = shifted(video.frames, shifts)
        with_masks = dataclasses.replace(video, frames=away, gt_masks=shifted(video.gt_masks, shifts[video.gt_index]))
        spoilt = {
            "clean": video,
            "5 % salt and pepper": dataclasses.replace(video, frames=salted(video.frames, rng)),
            "CRF 35": dataclasses.replace(video, frames=compressed(video.frames)),
            "light .6 to 1.4": dataclasses.replace(video, frames=brightened(video.frames)),
            "cast shadows": dataclasses.replace(video, frames=shaded(video)),
            "shifts of 2 pixels": with_masks,
            "shifts, masks of the clip as it was": dataclasses.replace(video, frames=away),
        }
        for what, clip in spoilt.items():
            scores = (f_measure(count(method(clip), clip.gt_masks)) for method in (ours, temporal_median))
            print(f"| {name} | {what} |", " | ".join(f"{score:.3f}" for score in scores), "|", flush=True)


def reduced(video: Clip, side: int) -> Clip:
    """Return a clip whose longer side has so many pixels, with evenly spaced masks."""
    height, width = video.frames.shape[1:3]
    size = round(width * side / max(height, width)), round(height * side / max(height, width))
    picks = slice(None, None, max(1, len(video.gt_index) // SMALL_MASKS))
    frames = np.stack([cv2.resize(frame, size, interpolation=cv2.INTER_AREA) for frame in video.frames])
    masks = [cv2.resize(mask, size, interpolation=cv2.INTER_NEAREST) for mask in video.gt_masks[picks]]
    return dataclasses.replace(video, frames=frames, gt_index=video.gt_index[picks], gt_masks=np.stack(masks))


def small() -> None:
    """Print F on clips that are reduced, with and without enlarging frames for learning, beside the peers."""
    peers = ("visionnmf", "median", "MOG2 tuned", "KNN tuned")
    print("\n| longer side | clip | not enlarged |", " | ".join(peers), "|\n| --- | --- |", "--- | " * (len(peers) + 1))
    for side in SMALL:
        rows = []
        for name in WITH_MASKS:
            clip = reduced(load_clip(name), side)
            with changed("small_frames.small", 0):
                scores = [f_measure(count(ours(clip), clip.gt_masks))]
            rows.append([*scores, *(f_measure(count(METHODS[peer](clip), clip.gt_masks)) for peer in peers)])
            print(f"| {side} | {name} |", " | ".join(f"{score:.3f}" for score in rows[-1]), "|", flush=True)
        print(f"| **{side}** | **mean** |", " | ".join(f"**{mean:.3f}**" for mean in np.mean(rows, axis=0)), "|")


def frozen() -> None:
    """Print in how many clips a freeze of 20 s is noticed, and in how many noise alone is taken for a freeze."""
    counts = {coding: np.zeros(2, int) for coding in itertools.product(CRF, KEY_FRAMES)}
    names = [name for name in CLIPS if not name.startswith("ucsd_")]  # those have 30 frames
    for number, name in enumerate(names):
        video, rng = reduced(load_clip(name), 160), np.random.default_rng(number)
        n, (height, width) = len(video.frames), video.frames.shape[1:3]
        picks = n - 1 - np.abs(np.arange(300) % (2 * n) - n + 0.5).astype(int)  # forwards and backwards
        moving = video.frames[picks, : height // 2 * 2, : width // 2 * 2]
        moving = moving if moving.ndim == 4 else moving[..., None].repeat(3, axis=-1)
        noise = rng.normal(0, 1.5, (500, *moving.shape[1:]))
        quiet = np.clip(np.median(moving[::8], axis=0) + noise, 0, 255).astype(np.uint8)
        for (crf, distance), found in counts.items():
            for kind, still in enumerate((moving[-1:].repeat(500, axis=0), quiet)):
                frames = compressed(np.concatenate([moving, still]), crf=crf, g=distance)
                watch, background = Watch(1 / RATE), np.median(frames[:300:8], axis=0).astype(np.uint8)
                for index, frame in enumerate(frames):
                    watch.add(Separated(index, frame, background, frame, index / RATE))
                # a stretch that begins while the clip moves is a false one
                found[kind] += any(row.reason == "frozen" and (kind or row.start > 290 / RATE) for row in watch.rows())
    print(f"\n| CRF | frames between key frames | frozen, of {len(names)} | quiet |\n| --- | --- | --- | --- |")
    for (crf, distance), (noticed, false) in counts.items():
        print(f"| {crf} | {distance} | {noticed} | {false} |", flush=True)


def spacings(n: int) -> dict[str, tuple[NDArray[np.float64], NDArray[np.intp]]]:
    """Return time stamps of n frames in seconds, and the frames that are left, by what was done to them."""
    even, every = np.arange(n) / RATE, np.arange(n)
    twice = np.where(every < n // 2, even / 2, even - even[n // 2] / 2)
    same = even.copy()
    same[5::10] = same[4::10][: len(same[5::10])]
    return {
        "even": (even, every),
        "0.1 % later": (1.001 * even, every),
        "jittered by 8 ms": (even + np.random.default_rng(0).uniform(-0.008, 0.008, n), every),
        "every tenth as the one before": (same, every),
        "every tenth dropped": (even, every[every % 10 != 7]),
        "twice the rate in the first half": (twice, every),
    }


def events_of(
    video: Clip, masks: Frames, stamps: NDArray[np.float64], picks: NDArray[np.intp], least: float
) -> tuple[list[MotionEvent], list[float]]:
    """Return the objects that move for so many seconds at least, and the times of the frames."""
    finder = ObjectFinder(EventBuilder(EventSettings(min_length=least), 1 / RATE))
    timeline, found = Timeline(1 / RATE), list[MotionEvent]()
    times = [timeline.add(float(stamps[i])) for i in picks]
    for i, time in zip(picks, times, strict=True):
        frame = video.frames[video.gt_index[i]]
        found += finder.add(Separated(int(i), frame, frame, masks[i], time), find_boxes(masks[i], 0.0005))
    return found + finder.end(), [*times, timeline.end]


def events() -> None:
    """Print how many events of objects true masks have, where their time stamps are not even.

    A cell has the events of half a second or more, those of the even times that last as long at these times, and all.
    """
    print("\n| clip (masks) |", " | ".join(spacings(2)), "|\n| --- |", " | ".join("---" for _ in spacings(2)), "|")
    for name in CLIPS:
        video, cells = load_clip(name), []
        masks, given = (video.gt_masks == 255).astype(np.uint8) * 255, spacings(len(video.gt_masks))
        spans = RATE * np.array([(one.first, one.until) for one in events_of(video, masks, *given["even"], 0)[0]])
        for stamps, picks in given.values():
            (half, times), (every, _) = (events_of(video, masks, stamps, picks, least) for least in (0.5, 0.0))
            lengths = np.diff(np.interp(spans, [*picks, len(masks)], times)) if len(spans) else spans
            due = np.count_nonzero(lengths >= 0.5 - ROUNDING)
            cells.append(f"{len(half)} of {due} ({len(every)})")
        print(f"| {name} ({len(masks)}) |", " | ".join(cells), "|", flush=True)


PARTS = {
    "events": events,
    "live": live,
    "masks": masks,
    "table": table,
    "fog": fog,
    "frozen": frozen,
    "robust": robust,
    "small": small,
}
QUICK = {
    "COMPARED": ("ours", "median"),
    "LIVE": ["sbi_snellen"],
    "CLIPS": ["sbi_snellen"],
    "WITH_MASKS": ["sbi_cavignal", "wallflower_camouflage"],
    "MASKS_A_CLIP": 3,
    "CHOICES": {"noise.lowest": (6.0, 3.0), "mask.gap": (0, 11)},
    "FOG": (0.5,),
    "CRF": ("35",),
    "ROBUST": ["sbi_cavignal"],
    "SMALL": (40,),
    "SMALL_MASKS": 3,
}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK, default=["table"])
