"""How :class:`.BackgroundModel` learns; see :mod:`.model` for the model in words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.blocks import blocks, map_blocks
from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import NONNEGATIVE
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import rri

from .frames import to_uint8
from .medians import temporal_median
from .modes import correct_scene
from .recurring import Recurring, find_recurring
from .score import count_near, mean_change
from .shake import Anchors, measure_shake, moved_by
from .sway import Sway, find_sway

__all__ = ["Learnt", "Sample", "find_codes", "learn", "with_median"]

FrameArray = NDArray[np.uint8]
Floats = NDArray[np.float32]

# Bounds of the noise scale, in grey levels. Differences of neighbouring frames show sensor noise, not compression that
# skips quiet blocks, soft shadows or reflections: 6 stands for those. They show foreground, too, where it passes all
# the time: hence the upper bound. Noise above it does no harm where it is independent, as scores are smoothed.
NOISE_FLOOR = 6.0
NOISE_CEILING = 7.0

# Median of max(|x - a|, |x - b|) for independent normal x, a, b of standard deviation 1.
NORMAL_CHANGE = 1.418

SAMPLE_BYTES = 340 << 20  # of frames held while fitting
BLOCK_PIXELS = 2048
CODE_PIXELS = 2048  # pixels that determine the codes; more do no better
VOTING_SHARE = 8  # one in so many of their values chooses the code to start from
ROUNDS = 3  # alternations of components and codes; more change nothing
SCENE_SWEEPS = 1  # of one component: a sweep finds its medians
LIGHT_SWEEPS = 10
CODE_SWEEPS = 5
GRID = 8  # cells of light along the longer side
CELL_PIXELS = 8  # a cell with fewer bright pixels among the chosen ones takes the factor of the whole frame
DARK = 16  # grey levels: pixels as dark as this say little about the light
KEPT = 0.5  # a cell's light is believed when it leaves at most this share of what one scene leaves unexplained
NEEDED = 0.0005  # of all values: lights that explain fewer beyond one light, where they are believed, are not kept
HOPELESS = 0.00005  # of all values: lights that explain fewer after the first round will not be needed


class Sample:
    """Evenly spaced frames of a stream of unknown length, in bounded memory.

    One of every `step` frames is kept; when the room is full every other one is dropped and `step` doubles. It is the
    first or the second of them, by the Thue-Morse sequence: in clips whose frames alternate, as those of interlaced
    cameras and of encoders do, both kinds are seen. With each goes its difference from the frames before and after, the
    mean over channels, the larger of the two: so that a video with doubled frames still shows what moves.

    Parameters
    ----------
    room : int, >= 2
        Keep at most so many frames, fewer where they would take more than 340 MiB.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._step = 1
        self._held = 0
        self._positions: list[int] = []
        self._before: FrameArray | None = None
        self._due = True  # the next frame
        self.seen = 0

    def add(self, frame: FrameArray) -> None:
        """Take the next frame of the stream."""
        if self.seen == 0:
            self._allocate(frame)
        if self._held and self._positions[-1] == self.seen - 1:
            last = self._moved[self._held - 1]
            np.maximum(last, _difference(frame, self._kept[self._held - 1]), out=last)
        due = self._due
        if due and self._held == self._room:
            self._halve()
            due = self._is_due(self.seen)  # it may no longer be
        if due:
            self._kept[self._held] = frame
            self._moved[self._held] = 0 if self._before is None else _difference(frame, self._before)
            self._held += 1
            self._positions.append(self.seen)
        self.seen += 1
        self._due = self._is_due(self.seen)
        # a caller may use one buffer for all frames
        self._before = frame.copy() if self._due else None

    def _is_due(self, position: int) -> bool:
        return _taken_of(position // self._step * self._step, self._step) == position

    def _allocate(self, frame: FrameArray) -> None:
        self.frame_shape = frame.shape
        pixels = frame.shape[0] * frame.shape[1]
        self._room = max(2, min(self._room, SAMPLE_BYTES // (frame.size + pixels)))
        # the operating system gives memory when it is first written to: a short clip takes little
        self._kept = np.empty((self._room, *frame.shape), np.uint8)
        self._moved = np.empty((self._room, *frame.shape[:2]), np.uint8)

    def _halve(self) -> None:
        self._step *= 2
        wanted = {_taken_of(start, self._step) for start in range(0, self.seen, self._step)}
        stay = [i for i, position in enumerate(self._positions) if position in wanted]
        for to, i in enumerate(stay):
            self._kept[to] = self._kept[i]
            self._moved[to] = self._moved[i]
        self._positions = [self._positions[i] for i in stay]
        self._held = len(stay)

    def taken(self) -> tuple[FrameArray, NDArray[np.intp]]:
        """Return frames (n, n_pixels, channels) and positions (n,)."""
        height, width = self.frame_shape[:2]
        frames = self._kept[: self._held].reshape(self._held, height * width, -1)
        return frames, np.array(self._positions, np.intp)

    def hand_over_changes(self) -> FrameArray:
        """Return the differences (n, height, width), and forget them: large pictures are large."""
        moved = self._moved[: self._held]
        del self._moved
        return moved


def _taken_of(start: int, step: int) -> int:
    """Return which of `step` frames from `start` on is taken."""
    return start + (start.bit_count() % 2 if step > 1 else 0)


def _difference(frame: FrameArray, before: FrameArray) -> FrameArray:
    """Return the mean over channels of the absolute difference, rounded (height, width)."""
    change = np.asarray(cv2.absdiff(frame, before), np.uint8)
    if change.ndim == 2 or change.shape[2] == 1:
        return change
    result = np.empty(change.shape[:2], np.uint8)
    mean_change(change.reshape(-1), result.reshape(-1))
    return result


@dataclass(frozen=True)
class Learnt:
    """What :func:`learn` found.

    Attributes
    ----------
    H : ndarray of float32 (n_components, n_pixels, channels), >= 0
    Wt : ndarray of float32 (n_components, n), >= 0
        Codes of the learnt frames, one a column.
    noise_scale : ndarray of float32 (height, width)
    median : ndarray of uint8 (n_pixels, channels)
        Temporal median of the frames.
    chosen : ndarray of int
        The pixels that determine codes.
    sway : Sway or None
        Where the scene sways.
    anchors : Anchors or None
        What frames are laid upon where the camera shakes.
    recurring : Recurring or None
        What comes back where the scene sways far.
    """

    H: Floats
    Wt: Floats
    noise_scale: Floats
    median: FrameArray
    chosen: NDArray[np.intp]
    sway: Sway | None = None
    anchors: Anchors | None = None
    recurring: Recurring | None = None

    def near(self) -> Floats:
        """Return twice the noise at the chosen pixels' values: a residual below is explained."""
        return 2 * np.repeat(self.noise_scale.ravel()[self.chosen], self.H.shape[2])


def learn(sample: Sample, *, n_components: int, rng: np.random.Generator) -> Learnt:
    """Fit the background to sampled frames.

    Parameters
    ----------
    sample : Sample
        Its frames are laid upon the scene, in place, where the camera shakes; its differences are handed over.
    n_components : int
        At most; one where more lights explain hardly more.
    rng : numpy.random.Generator
        Chooses the pixels that determine codes.

    Returns
    -------
    Learnt
    """
    frames, _ = sample.taken()
    moved = sample.hand_over_changes()
    n, n_pixels, _ = frames.shape
    shape = moved.shape[1:]
    median = temporal_median(frames)
    baseline = to_uint8(median)
    anchors = measure_shake(frames.reshape(n, *shape, -1))
    if anchors is not None:
        _lay_upon(anchors, frames.reshape(n, *shape, -1))
        median = temporal_median(frames)
        _set_changes(moved, frames.reshape(n, *shape, -1))  # neighbouring frames differ by the shaking
    noise = temporal_median(moved) / NORMAL_CHANGE
    scale = np.clip(noise, NOISE_FLOOR, NOISE_CEILING)
    weights = _stillness(moved, scale).reshape(n, n_pixels)
    chosen = np.sort(rng.choice(n_pixels, min(n_pixels, CODE_PIXELS), replace=False))
    few = _Few(frames[:, chosen], weights[:, chosen], scale.ravel()[chosen])

    Wt = np.ones((1, n), np.float32)
    scene = median[None, chosen]
    for _ in range(ROUNDS):
        scene = few.components(scene, Wt, SCENE_SWEEPS)
        Wt = few.codes(scene, Wt)
    H = _scene(frames, weights, Wt, median[None])
    del median  # large pictures are large
    if n_components > 1:
        light = _Light(few, chosen, shape, scene[0], Wt, n_components)
        if light.explains >= NEEDED:
            H = light.of(H[0])
            Wt = light.Wt
    H = correct_scene(frames, weights, H, Wt, shape)
    del moved, weights
    sway = find_sway(frames, H, Wt, noise, scale)
    recurring = find_recurring(frames, H, Wt, shape)
    return Learnt(H, Wt, scale, baseline, chosen, sway, anchors, recurring)


def _set_changes(moved: FrameArray, frames: FrameArray) -> None:
    """Write the larger of the differences of frames (n, height, width, channels) from the one before and after."""
    moved[0] = 0
    for t in range(1, len(frames)):
        moved[t] = _difference(frames[t], frames[t - 1]).reshape(moved.shape[1:])
        np.maximum(moved[t - 1], moved[t], out=moved[t - 1])


def _lay_upon(anchors: Anchors, frames: FrameArray) -> None:
    def lay(block: tuple[int, int]) -> None:
        for t in range(*block):
            frames[t] = moved_by(frames[t], anchors.shift(frames[t]))

    map_blocks(lay, blocks(len(frames), 8))


def find_codes(X: Floats, H: Floats, near: Floats, candidates: Floats) -> Floats:
    """Find codes by consensus.

    For each frame the candidate that explains most values within `near` is improved in the Manhattan loss; the
    improvement is kept unless it explains fewer. So an object that fills half the frame does not pass for light, and
    coordinate descent does not start far from where it has to go.

    Parameters
    ----------
    X : ndarray of float32 (n, n_values)
        Frames at the chosen pixels.
    H : ndarray of float32 (n_components, n_values)
    near : ndarray of float32 (n_values,)
    candidates : ndarray of float32 (n_components, k)

    Returns
    -------
    ndarray of float32 (n_components, n)
    """
    few = slice(None, None, VOTING_SHARE)
    shown = _product(candidates, H[:, few])
    votes = np.empty((len(X), len(shown)), np.int64)
    count_near(np.ascontiguousarray(X[:, few]), shown, np.ascontiguousarray(near[few]), votes)
    start = np.ascontiguousarray(candidates[:, np.argmax(votes, axis=1)])
    Wt = start.copy()
    rri.half(Problem(X, Loss("manhattan")), Wt, H, sweeps=CODE_SWEEPS)
    worse = _explained(X, Wt, H, near) < _explained(X, start, H, near)
    Wt[:, worse] = start[:, worse]
    return Wt


def _explained(X: Floats, Wt: Floats, H: Floats, near: Floats) -> NDArray[np.intp]:
    return np.count_nonzero(np.abs(X - _product(Wt, H)) < near, axis=1)


def _product(Wt: Floats, H: Floats) -> Floats:
    """Return ``W H``. Not by the BLAS: frames are worked on in threads, and its own threads beside those cost more."""
    result = np.multiply.outer(Wt[0], H[0])
    for w, h in zip(Wt[1:], H[1:], strict=True):
        result += np.multiply.outer(w, h)
    return result


def with_median(Wt: Floats) -> Floats:
    """Return the candidates: the median code, then all codes."""
    return np.column_stack([np.median(Wt, axis=1), Wt]).astype(np.float32)


class _Few:
    """The learnt frames at the chosen pixels: small enough to go over again and again."""

    def __init__(self, frames: FrameArray, weights: FrameArray, scale: Floats) -> None:
        n, _, self.channels = frames.shape
        self.X = frames.reshape(n, -1).astype(np.float32)
        self.near = 2 * np.repeat(scale, self.channels)
        self.weights = np.repeat(weights, self.channels, axis=1).astype(np.float32)  # as X
        self._rows = np.ascontiguousarray(frames.transpose(1, 2, 0))
        self._row_weights = np.ascontiguousarray(weights.T)

    def components(self, H: Floats, Wt: Floats, sweeps: int) -> Floats:
        """Improve components (r, n_chosen, channels)."""
        return _improved(self._rows, self._row_weights, H, Wt, sweeps)

    def codes(self, H: Floats, Wt: Floats) -> Floats:
        """Find codes (r, n), the present ones being the candidates."""
        return find_codes(self.X, H.reshape(len(H), -1), self.near, with_median(Wt))

    def residual(self, H: Floats, Wt: Floats) -> Floats:
        """Return ``X - W H``."""
        return self.X - _product(Wt, H.reshape(len(H), -1))


class _Light:
    """The components as one scene under several lights: ``h_k = scene * light_k``, the lights smooth over the frame.

    Components with a value of their own at each pixel would hold whatever stood there while the light was at one end
    of its course: a line fitted to few frames at its end follows them. Light is smooth, objects are not: each light is
    the median, in the cells of a coarse grid, of what weighted medians find pixel by pixel; and a cell whose light
    does not explain at least half of what one scene leaves unexplained keeps the factor of the whole frame. How much
    the other cells gain tells whether the clip needs more than one light.

    Parameters
    ----------
    few : _Few
    chosen : ndarray of int (n_chosen,)
    shape : (int, int)
        Height and width.
    scene : ndarray of float32 (n_chosen, channels)
    Wt : ndarray of float32 (1, n)
        Codes of the one scene.
    n_components : int, >= 2

    Attributes
    ----------
    Wt : ndarray of float32 (n_components, n)
        Codes of the learnt frames.
    explains : float, 0 to 1
        Share of the values that the lights explain and one light does not, in the cells where they are believed.
    """

    def __init__(
        self, few: _Few, chosen: NDArray[np.intp], shape: tuple[int, ...], scene: Floats, Wt: Floats, n_components: int
    ) -> None:
        height, width = self._shape = shape[0], shape[1]
        cell = max(height, width) / GRID
        self._grid = max(1, round(height / cell)), max(1, round(width / cell))
        self._at = np.divmod(chosen, width)
        rows, columns = self._at
        self._cell = (rows * self._grid[0] // height) * self._grid[1] + columns * self._grid[1] // width
        self._scene = scene

        alone = few.residual(scene[None], Wt)
        self.Wt = Wt * _courses(alone, few, n_components - 1)
        H = np.repeat(scene[None], n_components, axis=0)
        for _ in range(ROUNDS):
            self._lights = self._in_cells(few.components(H, self.Wt, LIGHT_SWEEPS))
            H = self._components()
            self.Wt = few.codes(H, self.Wt)
            believed, self.explains = self._believed(alone, few.residual(H, self.Wt), few)
            if self.explains < HOPELESS:
                return
        doubtful = ~believed.reshape(self._grid)
        for light in self._lights:
            light[doubtful] = np.median(light)
        self.Wt = few.codes(self._components(), self.Wt)

    def _in_cells(self, H: Floats) -> Floats:
        """Return the median ratios of components to scene, cell by cell (n_components, rows, columns)."""
        bright = self._scene > DARK
        cells = np.broadcast_to(self._cell[:, None], bright.shape)[bright]
        bounds = np.searchsorted(np.sort(cells), np.arange(self._grid[0] * self._grid[1] + 1))
        lights = np.ones((len(H), self._grid[0] * self._grid[1]), np.float32)
        for k, h in enumerate(H):
            ratios = h[bright] / self._scene[bright]
            lights[k] = np.median(ratios) if ratios.size else 1
            ratios = ratios[np.lexsort((ratios, cells))]  # those of a cell together, in order
            for c, (start, stop) in enumerate(pairwise(bounds)):
                if stop - start >= CELL_PIXELS:
                    lights[k, c] = (ratios[(start + stop - 1) // 2] + ratios[(start + stop) // 2]) / 2
        return lights.reshape(len(H), *self._grid)

    def _believed(self, alone: Floats, residual: Floats, few: _Few) -> tuple[NDArray[np.bool_], float]:
        """Return the cells whose light is believed, and the share of all values that lights explain in these."""
        cells = np.repeat(self._cell, few.channels)
        size = self._grid[0] * self._grid[1]
        before, after = (
            np.bincount(cells, (few.weights * (np.abs(r) >= few.near)).sum(axis=0), size) for r in (alone, residual)
        )
        believed = after <= KEPT * before
        return believed, float((before - after)[believed].sum() / few.weights.sum())

    def _fields(self) -> Floats:
        """Return the lights at all pixels (n_components, height, width)."""
        height, width = self._shape
        return np.stack([cv2.resize(light, (width, height), interpolation=cv2.INTER_LINEAR) for light in self._lights])

    def _components(self) -> Floats:
        rows, columns = self._at
        return self._scene * self._fields()[:, rows, columns, None]

    def of(self, scene: Floats) -> Floats:
        """Return the components of a scene (n_pixels, channels)."""
        components = np.empty((len(self._lights), *scene.shape), np.float32)
        for component, field in zip(components, self._fields(), strict=True):
            np.multiply(scene, field.reshape(-1, 1), out=component)
        return components


def _courses(residual: Floats, few: _Few, count: int) -> Floats:
    """Return how `count` changes of light run through the clip, as shares of ``count + 1`` lights (count + 1, n).

    The changes are the first principal courses of the residual of one scene, cut where it passes the noise, so that
    foreground counts little. Each runs from 0 to 1; light 0 is where all are at 0, light k where change k is at its
    end and beyond, so that shares are never negative.
    """
    cut = np.clip(residual, -few.near, few.near) * np.sqrt(few.weights)
    n = len(cut)
    courses = np.full((count, n), 0.5)
    leading = np.linalg.eigh(cut @ cut.T)[1].T[::-1][:count]
    for course, vector in zip(courses, leading, strict=False):
        if np.ptp(vector) > 0:
            course[:] = (vector - vector.min()) / np.ptp(vector)
    courses /= count
    return np.vstack([1 - courses.sum(axis=0), courses]).clip(0).astype(np.float32)


def _stillness(moved: FrameArray, scale: Floats) -> FrameArray:
    """Return the weights of the learnt frames' pixels, 1 to 255, in the memory of their differences."""

    def fill(block: tuple[int, int]) -> None:
        for t in range(*block):
            ratio = cv2.blur(moved[t], (5, 5)) / scale
            moved[t] = np.maximum(1, 255 / (1 + ratio * ratio))

    map_blocks(fill, blocks(len(moved), 8))
    return moved


def _improved(rows: FrameArray, weights: FrameArray, H: Floats, Wt: Floats, sweeps: int) -> Floats:
    """Improve components (r, n_pixels, channels) of `rows` (n_pixels, channels, n) with weights (n_pixels, n)."""
    found = np.array(H, np.float32, order="C")
    n = rows.shape[2]
    factor = found.reshape(len(found), -1)
    rri.weighted_half(rows.reshape(-1, n), weights, factor, Wt, penalty=NONNEGATIVE, sweeps=sweeps)
    return found


def _scene(frames: FrameArray, weights: FrameArray, Wt: Floats, start: Floats) -> Floats:
    """Improve one component (1, n_pixels, channels) at all pixels."""
    H = np.empty((1, *frames.shape[1:]), np.float32)

    def fill(block: tuple[int, int]) -> None:
        part = slice(*block)
        rows = np.ascontiguousarray(frames[:, part].transpose(1, 2, 0))
        H[:, part] = _improved(rows, np.ascontiguousarray(weights[:, part].T), start[:, part], Wt, SCENE_SWEEPS)

    map_blocks(fill, blocks(frames.shape[1], BLOCK_PIXELS))
    return H
