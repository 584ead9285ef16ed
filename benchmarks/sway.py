"""Foreground F-measure on clips that are made of photographs: trees that sway near the camera, water, sprays, traffic.

    python benchmarks/sway.py              the table (about three minutes)
    python benchmarks/sway.py pictures DIR frame | mask | truth of three frames of each clip

On these clips, whose masks are known, what comes back (apps/background/recurring.py) was developed; they are no
evidence for it. Scenes and leaves are training photographs of BSDS500, 320 by 240, 25 frames a second, with noise and
JPEG. A "tree" is a layer of leaves with holes, displaced by a few oscillations of smooth phase before the scene;
"foliage" displaces a part of the photograph itself; "water" reflects it in waves; a "fountain" throws drops. People
with the texture of photographs walk, or come, stand for some two fifths of the clip and leave; cars pass now and
then, or as dense traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
from _main import data_file, main
from background import count, f_measure, opencv, ours, temporal_median
from numpy.typing import NDArray

from visionnmf.datasets.local import MaskedVideo
from visionnmf.io import read_image

Floats = NDArray[np.float32]
Thing = tuple[Floats, Floats]  # its colours, and how much of each pixel it covers
Course = Callable[[int], tuple[float, float] | None]  # where it is in a frame: its left upper corner

HEIGHT, WIDTH = 240, 320
FRAMES, RATE = 240, 25
STRIDE = 9  # of the masks that are scored
TEXTURES = ("388016", "65019", "55075", "372047", "181079", "8049", "170054")
ROWS, COLUMNS = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
# name: kind, photograph, that of the leaves, their side, amplitude in pixels, seconds, gusts, things, behind the leaves
CLIPS: dict[str, tuple[str, str, str, str, float, float, float, str, bool]] = {
    "tree, 8 pixels, people": ("tree", "385028", "249087", "left", 8, 2, 0, "walk", False),
    "tree, 12 pixels, cars behind": ("tree", "97017", "16052", "top", 12, 3, 0, "cars", True),
    "tree, 15 pixels, one rests": ("tree", "24063", "311068", "right", 15, 3, 0, "rest", False),
    "tree, 10 pixels, traffic": ("tree", "374067", "249087", "left", 10, 2.5, 0, "traffic", False),
    "tree, 6 pixels, gusts, people": ("tree", "374020", "20008", "top", 6, 4, 0.8, "walk", True),
    "foliage, 8 pixels, people": ("foliage", "249087", "", "", 8, 2.5, 0, "walk", False),
    "foliage, 12 pixels, gusts, cars": ("foliage", "274007", "", "", 12, 3, 0.6, "cars", False),
    "foliage, 7 pixels, one rests": ("foliage", "301007", "", "", 7, 1.5, 0.3, "rest", False),
    "water, people": ("water", "147021", "", "", 4, 0, 0, "walk", False),
    "water, cars": ("water", "65010", "", "", 8, 0, 0, "cars", False),
    "fountain, people": ("fountain", "239007", "", "", 0, 0, 0, "walk", False),
    "fountain, one rests": ("fountain", "216053", "", "", 0, 0, 0, "rest", False),
    "still, traffic": ("still", "33066", "", "", 0, 0, 0, "traffic", False),
    "still, one rests": ("still", "277095", "", "", 0, 0, 0, "rest", False),
}


def photograph(name: str, height: int = HEIGHT, width: int = WIDTH) -> Floats:
    image = read_image(data_file(f"bsds_train/{name}.jpg"))
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA).astype(np.float32)


def field(rng: np.random.Generator, smooth: float) -> Floats:
    """Return a smooth random field of standard deviation 1."""
    values = cv2.GaussianBlur(rng.standard_normal((HEIGHT, WIDTH)).astype(np.float32), (0, 0), smooth)
    return values / values.std()


def wind(rng: np.random.Generator, amplitude: float, period: float, gusts: float) -> Callable[[float], Floats]:
    """Return a function of time: displacements (2, height, width), right and down."""
    parts = []
    for k in range(3):
        strength = amplitude * (0.55 if k else 1) * (0.75 + 0.25 * field(rng, 80)).clip(0.3, 1.3)
        parts.append((period * rng.uniform(0.6, 1.6), rng.uniform(0, 6.28) + field(rng, 60), strength))
    leaves = [(rng.uniform(0.25, 0.7), 3 * field(rng, 6)) for _ in range(2)]
    gust, begin = rng.uniform(6, 12), rng.uniform(0, 6)

    def away(t: float) -> Floats:
        now = 1 - gusts * (0.5 + 0.5 * np.sin(2 * np.pi * t / gust + begin))
        right = sum(strength * np.sin(2 * np.pi * t / T + phase) / 1.5 for T, phase, strength in parts)
        down = sum(strength * np.sin(2.6 * np.pi * t / T + phase + 1) / 4.3 for T, phase, strength in parts)
        right = right + sum(np.sin(2 * np.pi * t / T + phase) for T, phase in leaves)
        return np.stack([now * right, now * down]).astype(np.float32)

    return away


def displaced(image: Floats, away: Floats) -> Floats:
    return cv2.remap(image, COLUMNS + away[0], ROWS + away[1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)


def person(texture: Floats, height: int) -> Thing:
    shape = np.zeros((200, 84), np.uint8)
    cv2.circle(shape, (42, 18), 16, 255, -1)
    cv2.ellipse(shape, (42, 78), (26, 48), 0, 0, 360, 255, -1)
    cv2.rectangle(shape, (22, 100), (40, 198), 255, -1)
    cv2.rectangle(shape, (46, 100), (64, 198), 255, -1)
    size = max(6, int(height * 0.42)), height
    cover = cv2.resize(shape, size, interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    return cv2.resize(texture[25:, 50:150], size, interpolation=cv2.INTER_AREA), cover


def car(rng: np.random.Generator, texture: Floats, height: int) -> Thing:
    shape = np.zeros((100, 210), np.uint8)
    cv2.rectangle(shape, (4, 42), (206, 85), 255, -1)
    cv2.fillPoly(shape, [np.array([(40, 45), (65, 8), (145, 8), (175, 45)])], 255)
    for wheel in (45, 165):
        cv2.circle(shape, (wheel, 84), 15, 255, -1)
    size = int(height * 2.1), height
    cover = cv2.resize(shape, size, interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    grey = np.full(3, rng.choice([30, 70, 120, 190, 225]))
    paint = rng.choice([25, 60, 110, 170, 220], 3) if rng.random() < 0.4 else grey
    colours = paint + 0.15 * (cv2.resize(texture, size) - 128)
    colours[int(height * 0.12) : int(height * 0.38), size[0] // 4 : size[0] * 3 // 4] *= 0.35  # windows
    return colours.clip(0, 255).astype(np.float32), cover


def crossing(begin: float, lasts: float, y: float, right: bool, width: int) -> Course:
    def course(i: int) -> tuple[float, float] | None:
        done = (i - begin) / lasts
        return ((done if right else 1 - done) * (WIDTH + width) - width, y) if 0 <= done <= 1 else None

    return course


def resting(y: float, at: float) -> Course:
    def course(i: int) -> tuple[float, float] | None:
        done = i / FRAMES
        if not 0.15 <= done <= 0.82:
            return None
        come, go = min(1, (done - 0.15) / 0.12), max(0, (done - 0.7) / 0.12)
        return (at + 45) * come - 45 + go * (WIDTH - at) + 0.8 * np.sin(0.15 * i), y

    return course


def things(rng: np.random.Generator, kind: str, ground: int) -> list[tuple[Thing, Course]]:
    """Return what passes and where it is in each frame."""
    textures = [photograph(name, 200, 200) for name in TEXTURES]

    def texture() -> Floats:
        return textures[rng.integers(len(textures))]

    found: list[tuple[Thing, Course]] = []
    for i in range({"walk": 2, "rest": 1}.get(kind, 0)):
        height = int(rng.uniform(0.28, 0.42) * HEIGHT)
        begin, y = (rng.uniform(0.08, 0.3) + 0.35 * i) * FRAMES, ground - height + rng.uniform(-15, 15)
        course = crossing(begin, rng.uniform(0.3, 0.4) * FRAMES, y, rng.random() < 0.5, 50)
        found.append((person(texture(), height), course))
    if kind == "rest":
        height = int(0.4 * HEIGHT)
        found.append((person(texture(), height), resting(ground - height, rng.uniform(0.25, 0.6) * WIDTH)))
    begin = -20.0
    while kind in ("cars", "traffic") and begin < FRAMES:
        height, right = int(rng.uniform(0.16, 0.24) * HEIGHT), rng.random() < 0.5
        y = ground - height + rng.uniform(-6, 6) - (0 if right else 25)
        course = crossing(begin, rng.uniform(35, 60), y, right, 120)
        found.append((car(rng, texture(), height), course))
        begin += rng.uniform(50, 90) if kind == "cars" else rng.uniform(6, 16)
    return found


def paste(frame: Floats, truth: Floats, thing: Thing, at: tuple[float, float]) -> None:
    colours, cover = thing
    x, y = round(at[0]), round(at[1])
    rows, columns = slice(max(0, y), y + cover.shape[0]), slice(max(0, x), max(0, x + cover.shape[1]))
    part = frame[rows, columns]
    seen = slice(max(0, -y), max(0, -y) + part.shape[0]), slice(max(0, -x), max(0, -x) + part.shape[1])
    part += cover[seen][..., None] * (colours[seen] - part)
    truth[rows, columns] = np.maximum(truth[rows, columns], cover[seen])


def swaying_leaves(rng: np.random.Generator, name: str, side: str, away: Callable[[float], Floats]) -> Callable:
    """Return a function of time: a layer (height, width, 4), colours and cover."""
    holes = sum((field(rng, smooth) * smooth**0.35 for smooth in (1.5, 3, 7, 14)), np.zeros((HEIGHT, WIDTH)))
    place = {"left": 1.5 - 4.2 * COLUMNS / WIDTH, "right": 4 * COLUMNS / WIDTH - 2.8, "top": 1.6 - 3.6 * ROWS / HEIGHT}
    cover = (holes / holes.std() + 1.6 * place[side] > 0).astype(np.float32)
    layer = np.dstack([photograph(name), cv2.GaussianBlur(cover, (0, 0), 0.7)])
    return lambda t: displaced(layer, away(t))


def scenes(
    rng: np.random.Generator, kind: str, still: Floats, away: Callable[[float], Floats], amplitude: float
) -> Iterator[Floats]:
    """Yield the scene of each frame."""
    waves = [rng.uniform((0.05, -0.08, 1.2, 0), (0.35, 0.08, 5, 6.28)) for _ in range(9)]
    jets = [rng.uniform((0.2 * WIDTH, 0.5 * HEIGHT, 70, -0.25), (0.8 * WIDTH, 0.75 * HEIGHT, 110, 0.25))
            for _ in range(5)]  # fmt: skip
    bushes = cv2.GaussianBlur((field(rng, 40) + 1.3 - 2.2 * ROWS / HEIGHT > 0).astype(np.float32), (0, 0), 6)
    lake = cv2.GaussianBlur((ROWS > 0.3 * HEIGHT).astype(np.float32), (0, 0), 4)
    drops = np.zeros((0, 4))  # x, y and their speeds
    for i in range(FRAMES):
        t = i / RATE
        if kind == "foliage":
            yield displaced(still, away(t) * bushes)
        elif kind == "water":
            phases = [1.2 * ky * ROWS / (0.35 + 1.3 * ROWS / HEIGHT) + kx * COLUMNS + 2 * speed * t + begin
                      for ky, kx, speed, begin in waves]  # fmt: skip
            height, slope = sum(map(np.sin, phases)) * lake, sum(map(np.cos, phases)) * lake
            reflected = displaced(still, amplitude / 4.4 * np.stack([height, 2 * height]).astype(np.float32))
            yield reflected * (1 + 0.1 * slope)[..., None] + 45 * np.maximum(0, slope - 2.6)[..., None]
        elif kind == "fountain":
            x, y, strength, lean = np.array(jets)[rng.integers(0, 5, 60)].T
            up = -1.6 * strength * (1 + 0.1 * rng.normal(size=60))
            new = np.stack([x + 3 * rng.normal(size=60), y, 30 * (lean + 0.22 * rng.normal(size=60)), up], axis=1)
            drops = np.concatenate([drops, new])
            veil = np.zeros((HEIGHT, WIDTH), np.float32)
            for _ in range(2):
                drops[:, :2] += drops[:, 2:] / (2 * RATE)
                drops[:, 3] += 80 / RATE
                drops = drops[(drops[:, 1] < 0.8 * HEIGHT) & (drops[:, 1] > 0) & (abs(drops[:, 0] - 160) < 158)]
                for x, y in drops[:, :2].astype(int):
                    veil[y : y + 3, x - 1 : x + 1] += 0.5
            veil = cv2.GaussianBlur(veil, (0, 0), 1.2).clip(0, 0.8)
            yield still + veil[..., None] * (235 - still)
        else:
            yield still.copy()


def made(name: str) -> MaskedVideo:
    """Make a clip."""
    kind, scene, leaves, side, amplitude, period, gusts, passing, behind = CLIPS[name]
    rng = np.random.default_rng(list(CLIPS).index(name) + 1)
    away = wind(rng, amplitude, period or 1.0, gusts)
    layer = swaying_leaves(rng, leaves, side, away) if kind == "tree" else None
    moving = things(rng, passing, 190 if kind == "water" else 225)
    frames, masks = np.empty((FRAMES, HEIGHT, WIDTH, 3), np.uint8), np.empty((FRAMES, HEIGHT, WIDTH), np.uint8)
    for i, frame in enumerate(scenes(rng, kind, photograph(scene), away, amplitude)):
        truth = np.zeros((HEIGHT, WIDTH), np.float32)
        for before in (True, False):
            if layer is not None and not before:
                shown = layer(i / RATE)
                frame += shown[..., 3:] * (shown[..., :3] - frame)
                truth *= 1 - shown[..., 3]
            for thing, course in moving if before == (behind or layer is None) else ():
                at = course(i)
                if at is not None:
                    paste(frame, truth, thing, at)
        frame += 2.4 * rng.standard_normal((HEIGHT, WIDTH, 1)) + 1.8 * rng.standard_normal(frame.shape)
        coded = cv2.imencode(".jpg", np.clip(frame + 0.5, 0, 255).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, 80])[1]
        frames[i] = cv2.imdecode(coded, cv2.IMREAD_COLOR)
        masks[i] = np.select([truth > 0.6, truth > 0.1], [255, 170], 0)
    picks = np.arange(min(6, FRAMES - 1), FRAMES, STRIDE)
    return MaskedVideo(name, frames, picks, masks[picks], None)


def mog2() -> cv2.BackgroundSubtractor:
    return cv2.createBackgroundSubtractorMOG2(history=500, varThreshold=36, detectShadows=False)


def table() -> None:
    """Print F of each clip."""
    rows = []
    print("\n| clip | ours | temporal median | MOG2 tuned |\n| --- | --- | --- | --- |")
    for name in CLIPS:
        video = made(name)
        found = ours(video), temporal_median(video), opencv(video, mog2)
        rows.append([f_measure(count(masks, video.gt_masks)) for masks in found])
        print(f"| {name} | " + " | ".join(f"{f:.3f}" for f in rows[-1]) + " |", flush=True)
    print("| **mean** | " + " | ".join(f"{f:.3f}" for f in np.mean(rows, axis=0)) + " |")


def pictures(folder: str = "out/sway") -> None:
    """Write a picture a clip."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in CLIPS:
        video = made(name)
        masks = ours(video)
        parts = []
        for k in np.linspace(0, len(masks) - 1, 3).round().astype(int):
            parts += [video.frames[video.gt_index[k]], *(np.dstack([m] * 3) for m in (masks[k], video.gt_masks[k]))]
        path = Path(folder) / f"{name.replace(', ', '_').replace(' ', '_')}.png"
        cv2.imwrite(str(path), np.hstack(parts)[..., ::-1])


PARTS = {"table": table, "pictures": pictures}
QUICK = {"FRAMES": 30, "CLIPS": {name: CLIPS[name] for name in list(CLIPS)[:1]}}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK, default=["table"])
