"""Made clips of leaves in the wind before a bright sky, with known masks.

A leaf over the sky differs from it with one sign, unlike leaves before leaves, whose differences cancel. Branches with
leaves of 4 to 14 pixels sway in a calm, a breeze or gusts, so that a pixel shows leaf and sky in turn, while people
or cars, some as dark as leaves, pass before the tree, behind it and beside it, or one person comes, rests and leaves.
"""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.datasets.local import MaskedVideo

Floats = NDArray[np.float32]
Course = Callable[[int], tuple[float, float] | None]  # the left upper corner of an object in a frame

HEIGHT, WIDTH, MARGIN = 240, 320, 40
FRAMES, RATE = 200, 25
FIRST, STRIDE = 6, 9  # of the masks that are scored
ROWS, COLUMNS = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
WINDS = {"calm": (1.5, 3.5, 0.0), "breeze": (4.0, 8.0, 0.3), "gusts": (8.0, 15.0, 0.8)}  # pixels, and how uneven
PASSING = ("people", "cars", "one rests", "traffic")
CLIPS = 2 * len(WINDS) * len(PASSING)  # even seeds choose constants, odd seeds report


def leafy_clip(seed: int, n_frames: int = FRAMES) -> MaskedVideo:
    """Return the clip of a seed from 0 to `CLIPS` - 1; seeds 2 k and 2 k + 1 have the same wind and passers-by."""
    wind = list(WINDS)[seed // 2 % len(WINDS)]
    passing = PASSING[seed // (2 * len(WINDS)) % len(PASSING)]
    rng = np.random.default_rng([26, seed])
    scene = _scene(rng)
    side = ("left", "right", "top", "everywhere")[rng.integers(4)]
    tree = [_branches(rng, side) for _ in range(3)]
    gusts = _Wind(rng, *WINDS[wind])
    before, behind = (_things(rng, passing, n_frames) for _ in range(2))
    if passing == "one rests":
        behind = []
    frames = np.empty((n_frames, HEIGHT, WIDTH, 3), np.uint8)
    masks = np.empty((n_frames, HEIGHT, WIDTH), np.uint8)
    for i in range(n_frames):
        frame, truth = scene.copy(), np.zeros((HEIGHT, WIDTH), np.float32)
        _paste_all(frame, truth, behind, i)
        for k, layer in enumerate(tree):
            shown = gusts.displaced(layer, i / RATE, k)
            frame = frame * (1 - shown[..., 3:]) + shown[..., :3]
            truth *= 1 - shown[..., 3]
        _paste_all(frame, truth, before, i)
        frame += 2.2 * rng.standard_normal((HEIGHT, WIDTH, 1)) + 1.6 * rng.standard_normal(frame.shape)
        coded = cv2.imencode(".jpg", np.clip(frame + 0.5, 0, 255).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, 85])[1]
        frames[i] = cv2.imdecode(coded, cv2.IMREAD_COLOR)
        masks[i] = np.select([truth > 0.6, truth > 0.1], [255, 170], 0)
    index = np.arange(FIRST, n_frames, STRIDE)
    return MaskedVideo(f"{wind}, {passing}, {side}, seed {seed}", frames, index, masks[index], None)


def _field(rng: np.random.Generator, smooth: float) -> Floats:
    """Return a smooth random field (height, width) of standard deviation 1."""
    values = cv2.GaussianBlur(rng.standard_normal((HEIGHT, WIDTH)).astype(np.float32), (0, 0), smooth)
    return np.asarray(values / values.std(), np.float32)


def _scene(rng: np.random.Generator) -> Floats:
    """Return a bright sky with a gradient and clouds, above a textured ground with a row of houses."""
    sky = rng.uniform(195, 235, 3) + np.sort(rng.uniform(0, 15, 3))
    scene = sky + (12 * ROWS / HEIGHT + rng.uniform(0, 5) * _field(rng, 30))[..., None]
    horizon = rng.uniform(0.6, 0.75) * HEIGHT
    for left in range(-10, WIDTH, 60):
        top = horizon - rng.uniform(0, 50)
        house = (ROWS > top) & (COLUMNS > left) & (COLUMNS < left + rng.uniform(40, 60))
        scene[house] = rng.uniform(90, 190) + rng.uniform(-15, 15, 3)
    ground = horizon < ROWS
    scene[ground] = (rng.uniform(90, 140) + rng.uniform(-10, 10, 3)) * np.ones((int(ground.sum()), 1))
    grain = 4 * _field(rng, 1) + 6 * _field(rng, 12)
    return np.asarray(np.clip(scene + (grain * (ROWS > horizon - 50))[..., None], 0, 252), np.float32)


def _branches(rng: np.random.Generator, side: str) -> Floats:
    """Return a layer of branches with leaves (height, width, 4), larger than the picture: colours and cover."""
    size = HEIGHT + 2 * MARGIN, WIDTH + 2 * MARGIN
    layer = np.zeros((*size, 4), np.uint8)
    base, spread = rng.uniform((25, 35, 25), (80, 95, 70)), rng.uniform(6, 18)
    begin = {"left": (0.0, 0.3), "right": (1.0, 0.3), "top": (0.5, 0.0), "everywhere": (0.5, 0.5)}[side]
    reach = 0.30 if side != "everywhere" else 0.5
    count, leaf = int(rng.uniform(14, 26)), rng.uniform(2.5, 6)  # half the length of a leaf
    for _ in range(count):
        x, y = (begin + reach * rng.uniform(-1, 1, 2) * (1.0, 0.9)) * (size[1], size[0])
        angle, colour = rng.uniform(0, 6.28), base * rng.uniform(0.7, 1.2)
        for _ in range(int(rng.uniform(15, 40))):
            angle += rng.normal(0, 0.3)
            at = x + 7 * np.cos(angle), y + 5 * np.sin(angle) + 1
            cv2.line(layer, (int(x), int(y)), (int(at[0]), int(at[1])), (40, 45, 50, 255), 1, cv2.LINE_AA)
            x, y = at
            for _ in range(3):
                place = (int(x + rng.normal(0, 6)), int(y + rng.normal(0, 6)))
                axes = (max(2, int(leaf * rng.uniform(0.7, 1.4))), max(1, int(leaf * rng.uniform(0.4, 0.8))))
                shade = np.clip(colour + rng.normal(0, spread) + rng.normal(0, 4, 3), 5, 160)
                cv2.ellipse(layer, place, axes, rng.uniform(0, 180), 0, 360, (*shade, 255), -1, cv2.LINE_AA)
    result = layer.astype(np.float32)
    result[..., 3] /= 255
    return result


class _Wind:
    """Displacements that differ from place to place, from branch to branch, and in time."""

    def __init__(self, rng: np.random.Generator, least: float, most: float, gusts: float) -> None:
        """Draw amplitudes between `least` and `most` pixels; `gusts`, from 0 to 1, says how uneven the wind is."""
        self._gusts, self._amplitude = gusts, rng.uniform(least, most)
        self._parts = [
            (rng.uniform(1.2, 4.0), rng.uniform(0, 6.28, 3), 0.8 * _field(rng, 60), 0.6 if k else 1.0) for k in range(4)
        ]  # period in seconds, phases of the branches, phases of the places, strength
        self._flutter = [(rng.uniform(0.25, 0.7), 3 * _field(rng, 6)) for _ in range(2)]
        self._gust = rng.uniform(3, 8), rng.uniform(0, 6.28), rng.uniform(1.1, 2.3), rng.uniform(0, 6.28)

    def displaced(self, layer: Floats, t: float, branch: int) -> Floats:
        """Return the part of a layer (height, width, 4) that is in the picture after `t` seconds."""
        long, begin, short, other = self._gust
        gust = 0.5 + 0.3 * np.sin(6.28 * t / long + begin) + 0.2 * np.sin(6.28 * t / short + other)
        now = self._amplitude * (1 - self._gusts * gust) / 1.5
        right, down = np.zeros((2, HEIGHT, WIDTH), np.float32)
        for period, phases, place, strength in self._parts:
            right += now * strength * np.sin(6.28 * t / period + phases[branch] + place)
            down += 0.35 * now * strength * np.sin(8 * t / period + phases[branch] + place + 1)
        for period, place in self._flutter:
            right += (0.3 + now / 8) * np.sin(6.28 * t / period + place + branch)
        return cv2.remap(layer, COLUMNS + MARGIN + right, ROWS + MARGIN + down, cv2.INTER_LINEAR)


def _person(rng: np.random.Generator, height: int) -> Floats:
    """Return a person (height, width, 4): colours and cover."""
    shape, paint = np.zeros((200, 84), np.uint8), np.zeros((200, 84, 3), np.float32)
    parts = np.clip(rng.choice([30, 55, 90, 150, 215], (2, 1)) + rng.normal(0, 18, (2, 3)), 8, 240)
    paint[:], paint[100:], paint[:34] = parts[0], parts[1], rng.uniform((90, 110, 140), (160, 180, 215))
    cv2.circle(shape, (42, 18), 16, 255, -1)
    cv2.ellipse(shape, (42, 78), (26, 48), 0, 0, 360, 255, -1)
    cv2.rectangle(shape, (22, 100), (40, 198), 255, -1)
    cv2.rectangle(shape, (46, 100), (64, 198), 255, -1)
    paint += 10 * _field(rng, 5)[:200, :84, None]
    return _resized(np.dstack([paint, shape / np.float32(255)]), height)


def _car(rng: np.random.Generator, height: int) -> Floats:
    """Return a car (height, width, 4): colours and cover."""
    shape = np.zeros((100, 210), np.uint8)
    cv2.rectangle(shape, (4, 42), (206, 85), 255, -1)
    cv2.fillPoly(shape, [np.array([(40, 45), (65, 8), (145, 8), (175, 45)])], 255)
    for wheel in (45, 165):
        cv2.circle(shape, (wheel, 84), 15, 255, -1)
    paint = rng.choice([30, 60, 110, 170, 225]) + rng.normal(0, 20, 3) + 8 * _field(rng, 6)[:100, :210, None]
    paint[12:38, 52:158] *= 0.35  # the windows
    return _resized(np.dstack([paint.clip(5, 245), shape / np.float32(255)]), height)


def _resized(thing: Floats, height: int) -> Floats:
    """Return a picture of an object at another height."""
    width = max(6, round(height * thing.shape[1] / thing.shape[0]))
    return cv2.resize(thing.astype(np.float32), (width, height), interpolation=cv2.INTER_AREA)


def _things(rng: np.random.Generator, passing: str, n_frames: int) -> list[tuple[Floats, Course]]:
    """Return what passes and where it is in each frame."""
    found: list[tuple[Floats, Course]] = []
    ground = rng.uniform(0.85, 0.98) * HEIGHT
    if passing == "one rests":
        height = int(rng.uniform(0.3, 0.6) * HEIGHT)
        found.append((_person(rng, height), _resting(ground - height, rng.uniform(0.2, 0.65) * WIDTH, n_frames)))
    begin = rng.uniform(-20, 30)
    while passing != "one rests" and begin < n_frames:
        people = passing == "people"
        share, lasts, pause = {
            "people": ((0.25, 0.6), (60, 110), (40, 100)),
            "cars": ((0.14, 0.35), (25, 60), (40, 90)),
            "traffic": ((0.14, 0.3), (30, 60), (8, 22)),
        }[passing]
        height = int(rng.uniform(*share) * HEIGHT)
        thing = (_person if people else _car)(rng, height)
        y, right = ground - height - rng.uniform(0, 25), rng.random() < 0.5
        found.append((thing, _crossing(begin, rng.uniform(*lasts), y, right, thing.shape[1])))
        begin += rng.uniform(*pause)
    return found


def _crossing(begin: float, lasts: float, y: float, right: bool, width: int) -> Course:
    """Return the course of an object that crosses the picture in `lasts` frames."""

    def course(i: int) -> tuple[float, float] | None:
        done = (i - begin) / lasts
        return ((done if right else 1 - done) * (WIDTH + width) - width, y) if 0 <= done <= 1 else None

    return course


def _resting(y: float, at: float, n_frames: int) -> Course:
    """Return the course of an object that comes from the left, rests for two fifths of the clip, and leaves."""

    def course(i: int) -> tuple[float, float] | None:
        done = i / n_frames
        if not 0.2 <= done <= 0.8:
            return None
        come, go = min(1, (done - 0.2) / 0.1), max(0, (done - 0.7) / 0.1)
        return (at + 80) * come - 80 + go * (WIDTH - at) + 0.8 * np.sin(0.15 * i), y

    return course


def _paste_all(frame: Floats, truth: Floats, things: list[tuple[Floats, Course]], i: int) -> None:
    """Paint the objects at their places in frame `i`, and raise `truth` to their covers."""
    for thing, course in things:
        at = course(i)
        if at is None:
            continue
        x, y = round(at[0]), round(at[1])
        rows, columns = slice(max(0, y), max(0, y + len(thing))), slice(max(0, x), max(0, x + thing.shape[1]))
        part = frame[rows, columns]
        seen = thing[max(0, -y) :, max(0, -x) :][: part.shape[0], : part.shape[1]]
        part += seen[..., 3:] * (seen[..., :3] - part)
        truth[rows, columns] = np.maximum(truth[rows, columns], seen[..., 3])
