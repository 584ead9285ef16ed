"""How :class:`.BackgroundModel` learns: scene and codes in turn, at a few pixels; then the scene at all.

Illumination components are one scene under several smooth illuminations: free ones would hold whatever stood there
while the illumination was at one end of its course.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_saved, check_type
from visionnmf.apps.background import tuning
from visionnmf.apps.background.frame_arrays import (
    Floats,
    FrameArray,
    FrameSample,
    enlarged,
    enlargement,
    enlargement_of,
    frame_difference,
    temporal_median,
    to_uint8,
)
from visionnmf.apps.background.kernels import count_explained
from visionnmf.engine.blocks import blocks, map_blocks
from visionnmf.engine.solvers import rri

from .alternating_modes import correct_scene
from .camera_shake import Registration, find_camera_shake, shifted
from .dynamic_background import DynamicBackground, find_dynamic_background
from .mask import camera_floor


@dataclass(frozen=True)
class LearntBackground:
    """What :func:`learn_background` found; of small frames all but `median` and `registration` is of enlarged ones."""

    H: Floats  # (n_components, n_pixels, channels): the components
    Wt: Floats  # (n_components, n): codes of the learnt frames, one a column
    noise_scale: Floats  # (height, width): noise of each pixel in masks, in grey levels; half of them at the floor
    median: FrameArray  # (height * width of a frame as it came, channels): temporal median of the frames
    chosen: NDArray[np.intp]  # the pixels that determine codes
    dynamic: DynamicBackground | None = None  # where the background moves
    registration: Registration | None = None  # what frames are registered to where the camera shakes

    def check(self, frame_shape: tuple[int, ...], n_frames: int) -> None:
        """Raise ValueError unless what a file gave fits together, frames of a shape and the number of learnt ones."""
        shape = check_saved(self.noise_scale, "_learnt.noise_scale", (None, None), "float32", positive=True)
        enlargement_of(self.noise_scale, frame_shape)
        channels, n_pixels = math.prod(frame_shape[2:]), math.prod(shape)
        n_components = check_saved(self.H, "_learnt.H", (None, n_pixels, channels), "float32", low=0)[0]
        check_saved(self.Wt, "_learnt.Wt", (n_components, n_frames), "float32", low=0)
        check_saved(self.median, "_learnt.median", (math.prod(frame_shape[:2]), channels), "uint8")
        check_saved(self.chosen, "_learnt.chosen", (None,), "int64", low=0, high=n_pixels - 1)
        if self.dynamic is not None:
            check_type(self.dynamic, "_learnt.dynamic", DynamicBackground).check("_learnt.dynamic", shape)
        if self.registration is not None:
            name = "_learnt.registration"
            check_type(self.registration, name, Registration).check(name, frame_shape)

    def near(self) -> Floats:
        """Return twice the noise, at least its floor, at values that determine codes: less is explained."""
        scale = np.maximum(self.noise_scale.ravel()[self.chosen], tuning.TUNING.noise.floor)
        return 2 * np.repeat(scale, self.H.shape[2])


def learn_background(sample: FrameSample, *, n_components: int, rng: np.random.Generator) -> LearntBackground:
    """Learn the background of sampled frames; where the camera shakes, they are registered in place."""
    frames, _ = sample.taken()  # (n, n_pixels, channels); their positions in the clip are not needed
    changes = sample.hand_over_changes()  # (n, height, width): difference of each frame from its neighbours
    n, n_pixels, _ = frames.shape
    shape = changes.shape[1:]
    median = temporal_median(frames)
    baseline = to_uint8(median)  # kept as it is before any registration
    registration = find_camera_shake(frames.reshape(n, *shape, -1))
    if registration is not None:
        _register(registration, frames.reshape(n, *shape, -1))
        median = temporal_median(frames)
        _set_changes(changes, frames.reshape(n, *shape, -1))  # neighbouring frames differ by the shake
    times = enlargement(shape)
    if times > 1:  # the median of enlarged frames is the enlarged median, so it is not computed again
        frames = frames.reshape(n, *shape, -1).repeat(times, 1).repeat(times, 2)
        changes = changes.repeat(times, 1).repeat(times, 2)
        median = enlarged(median.reshape(*shape, -1), times)
        n_pixels, shape = changes[0].size, changes.shape[1:]
        frames, median = frames.reshape(n, n_pixels, -1), median.reshape(n_pixels, -1)
    bounds = tuning.TUNING.noise
    # (height, width), in grey levels; `normal_change` is the median difference from two neighbours for noise of 1
    noise = temporal_median(changes) / bounds.normal_change
    scale = np.clip(noise, bounds.floor, bounds.ceiling)
    # 1 to 255, more where a pixel changes less in a frame; in the memory of `changes`
    weights = _stillness(changes, scale).reshape(n, n_pixels)
    chosen = np.sort(rng.choice(n_pixels, min(n_pixels, tuning.TUNING.learning.code_pixels), replace=False))
    pixels = CodePixels(frames[:, chosen], weights[:, chosen], scale.ravel()[chosen])

    Wt = np.ones((1, n), np.float32)
    scene = median[None, chosen]
    for _ in range(tuning.TUNING.learning.rounds):  # at the chosen pixels, scene (1, n_chosen, channels) and codes
        scene = pixels.components(scene, Wt, tuning.TUNING.learning.scene_sweeps)
        Wt = pixels.codes(scene, Wt)
    H = _scene(frames, weights, Wt, median[None])
    del median  # frees much memory where pictures are large
    if n_components > 1:
        illumination = Illumination(pixels, chosen, shape, scene[0], Wt, n_components)
        if illumination.explains >= tuning.TUNING.illumination.needed:
            H = illumination.components_of(H[0])  # so far there is a single component, the scene
            Wt = illumination.Wt
    H = correct_scene(frames, weights, H, Wt, shape)
    del changes, weights
    dynamic = find_dynamic_background(frames, H, Wt, noise, scale)
    # For masks the floor of the noise is that of this camera, which is lower than the usual one if it has little noise.
    scale = np.clip(noise, camera_floor(noise), bounds.ceiling)
    return LearntBackground(H, Wt, scale, baseline, chosen, dynamic, registration)


def _set_changes(changes: FrameArray, frames: FrameArray) -> None:
    """Write to `changes` how much each frame differs from the one before or after, the larger of the two."""
    changes[0] = 0
    for t in range(1, len(frames)):
        changes[t] = frame_difference(frames[t], frames[t - 1]).reshape(changes.shape[1:])
        np.maximum(changes[t - 1], changes[t], out=changes[t - 1])


def _register(registration: Registration, frames: FrameArray) -> None:
    """Register frames (n, height, width, channels) to the scene of `registration`, in place."""

    def fill(block: tuple[int, int]) -> None:
        """Replace the frames from block[0] to block[1] by what they show once their displacement is undone."""
        for t in range(*block):
            frames[t] = shifted(frames[t], registration.shift(frames[t]))

    map_blocks(fill, blocks(len(frames), 8))


def _stillness(changes: FrameArray, scale: Floats) -> FrameArray:
    """Return the pixels' weights, 1 to 255 (128 at the noise `scale`), in the memory of their differences `changes`."""

    def fill(block: tuple[int, int]) -> None:
        """Replace the smoothed differences `d` of a block of frames by the weights ``255 / (1 + (d / s)^2)``, >= 1."""
        for t in range(*block):
            ratio = cv2.blur(changes[t], (5, 5)) / scale
            changes[t] = np.maximum(1, 255 / (1 + ratio * ratio))

    map_blocks(fill, blocks(len(changes), 8))
    return changes


def _scene(frames: FrameArray, weights: FrameArray, Wt: Floats, start: Floats) -> Floats:
    """Return the scene (1, n_pixels, channels): weighted medians of the frames over their codes, from `start`."""
    H = np.empty((1, *frames.shape[1:]), np.float32)

    def fill(block: tuple[int, int]) -> None:
        """Find the scene at the pixels from block[0] to block[1], with contiguous values for the solver."""
        part = slice(*block)
        rows = np.ascontiguousarray(frames[:, part].transpose(1, 2, 0))
        row_weights = np.ascontiguousarray(weights[:, part].T)
        H[:, part] = improved_components(rows, row_weights, start[:, part], Wt, tuning.TUNING.learning.scene_sweeps)

    map_blocks(fill, blocks(frames.shape[1], tuning.TUNING.sample.block_pixels))
    return H


# --- Codes by consensus ----------------------------------------------------------------------------------------------


def find_codes(X: Floats, H: Floats, near: Floats, candidates: Floats) -> Floats:
    """Return the codes (r, n) of frames `X` (n, n_values), each improved from the best of some `candidates` (r, k)."""
    learning = tuning.TUNING.learning
    few = slice(None, None, learning.voting_share)  # one in `voting_share` values, which choose the start
    shown = _product(candidates, H[:, few])
    votes = np.empty((len(X), len(shown)), np.int64)
    count_explained(np.ascontiguousarray(X[:, few]), shown, np.ascontiguousarray(near[few]), votes)
    # votes (n, k): how many values of each frame each candidate explains; the best one is improved.
    start = np.ascontiguousarray(candidates[:, np.argmax(votes, axis=1)])
    Wt = start.copy()
    rri.plain_half(X, Wt, H, sweeps=learning.code_sweeps)  # improves the codes in place, in the Manhattan loss
    # A lower loss need not explain more values, because large objects can draw the codes; then the start is kept.
    worse = _explained(X, Wt, H, near) < _explained(X, start, H, near)
    Wt[:, worse] = start[:, worse]
    return Wt


def _explained(X: Floats, Wt: Floats, H: Floats, near: Floats) -> NDArray[np.intp]:
    """Return how many values of each frame of `X` (n, n_values) have a residual below `near` (n_values,), (n,)."""
    return np.count_nonzero(np.abs(X - _product(Wt, H)) < near, axis=1)


def _product(Wt: Floats, H: Floats) -> Floats:
    """Return ``W H`` (n, n_values), without the BLAS, whose own threads would compete with those over frames."""
    result = np.multiply.outer(Wt[0], H[0])
    for w, h in zip(Wt[1:], H[1:], strict=True):
        result += np.multiply.outer(w, h)
    return result


def with_median(Wt: Floats) -> Floats:
    """Return the candidates (n_components, n + 1) for the codes of a frame: the median code, then all codes `Wt`."""
    return np.column_stack([np.median(Wt, axis=1), Wt]).astype(np.float32)


def improved_components(rows: FrameArray, weights: FrameArray, H: Floats, Wt: Floats, sweeps: int) -> Floats:
    """Return better components than `H` for `rows` (n_pixels, channels, n) and `weights` (n_pixels, n)."""
    found = np.array(H, np.float32, order="C")
    n = rows.shape[2]
    factor = found.reshape(len(found), -1)  # a view: what the solver improves in place is `found`
    # in the Manhattan loss; the solver uses the weights of a pixel for each of its channels
    rri.weighted_half(rows.reshape(-1, n), weights, factor, Wt, sweeps=sweeps)
    return found


class CodePixels:
    """The learnt frames at the pixels that determine codes, few enough to go over again and again."""

    def __init__(self, frames: FrameArray, weights: FrameArray, scale: Floats) -> None:
        n, _, self.channels = frames.shape
        self.X = frames.reshape(n, -1).astype(np.float32)  # (n, n_values): pixels times channels
        self.near = 2 * np.repeat(scale, self.channels)  # (n_values,): smaller residuals count as explained
        self.weights = np.repeat(weights, self.channels, axis=1).astype(np.float32)  # in the shape of X
        # the same pixel by pixel, as the solver takes them: (n_chosen, channels, n) and (n_chosen, n)
        self._rows = np.ascontiguousarray(frames.transpose(1, 2, 0))
        self._row_weights = np.ascontiguousarray(weights.T)

    def components(self, H: Floats, Wt: Floats, sweeps: int) -> Floats:
        """Improve components (r, n_chosen, channels) for codes (r, n), in `sweeps` passes over them."""
        return improved_components(self._rows, self._row_weights, H, Wt, sweeps)

    def codes(self, H: Floats, Wt: Floats) -> Floats:
        """Find codes (r, n) for components (r, n_chosen, channels) and the frames `X` (n, n_chosen * channels)."""
        return find_codes(self.X, H.reshape(len(H), -1), self.near, with_median(Wt))

    def residual(self, H: Floats, Wt: Floats) -> Floats:
        """Return ``X - W H`` (n, n_values), what components and codes leave of the frames `X` at the chosen pixels."""
        return self.X - _product(Wt, H.reshape(len(H), -1))


# --- Illumination components -----------------------------------------------------------------------------------------


class Illumination:
    """Illumination components of a scene, and the codes of the learnt frames.

    `explains` is the share of the values that the components explain and a single one does not, in the cells that are
    believed.
    """

    def __init__(
        self,
        pixels: CodePixels,
        chosen: NDArray[np.intp],
        shape: tuple[int, ...],
        scene: Floats,
        Wt: Floats,
        n_components: int,
    ) -> None:
        # an illumination has a value for each cell of a coarse grid
        height, width = self._shape = shape[0], shape[1]
        cell = max(height, width) / tuning.TUNING.illumination.grid
        self._grid = max(1, round(height / cell)), max(1, round(width / cell))  # rows and columns of cells
        self._at = np.divmod(chosen, width)  # rows and columns of the chosen pixels
        rows, columns = self._at
        # (n_chosen,): the cell of each pixel
        self._cell = (rows * self._grid[0] // height) * self._grid[1] + columns * self._grid[1] // width
        self._scene = scene  # (n_chosen, channels)
        self.Wt = Wt  # replaced by `_learn`, which also sets `explains` and `_cells`, the illuminations of the cells
        self._learn(pixels, n_components)

    def _learn(self, pixels: CodePixels, n_components: int) -> None:
        """Alternate between illumination fields and codes; stop early where the components are hopeless."""
        learning = tuning.TUNING.learning
        alone = pixels.residual(self._scene[None], self.Wt)  # (n, n_values), of a single component, the scene
        # Each frame is a mixture of illuminations: its one code is divided among the components by the shares
        # (n_components, n) that the main changes in `alone` have over the clip.
        self.Wt = self.Wt * _courses(alone, pixels, n_components - 1)
        H = np.repeat(self._scene[None], n_components, axis=0)
        for _ in range(learning.rounds):
            self._cells = self._in_cells(pixels.components(H, self.Wt, learning.illumination_sweeps))
            H = self._components()
            self.Wt = pixels.codes(H, self.Wt)
            # (n_cells,): where the components explain much more than the scene alone
            believed, self.explains = self._believed(alone, pixels.residual(H, self.Wt), pixels)
            if self.explains < tuning.TUNING.illumination.hopeless:
                return
        doubtful = ~believed.reshape(self._grid)  # these cells take the median illumination of the whole frame
        for cells in self._cells:
            cells[doubtful] = np.median(cells)
        self.Wt = pixels.codes(self._components(), self.Wt)

    def _in_cells(self, H: Floats) -> Floats:
        """Return the median ratios of components to the scene, cell by cell; dark cells take the picture's median."""
        bright = self._scene > tuning.TUNING.illumination.dark
        cells = np.broadcast_to(self._cell[:, None], bright.shape)[bright]
        # Once sorted by cell, the values of cell c are those from bounds[c] to bounds[c + 1].
        bounds = np.searchsorted(np.sort(cells), np.arange(self._grid[0] * self._grid[1] + 1))
        found = np.ones((len(H), self._grid[0] * self._grid[1]), np.float32)
        for k, h in enumerate(H):
            ratios = h[bright] / self._scene[bright]
            found[k] = np.median(ratios) if ratios.size else 1
            ratios = ratios[np.lexsort((ratios, cells))]  # those of a cell together, in order
            for c, (start, stop) in enumerate(pairwise(bounds)):
                if stop - start >= tuning.TUNING.illumination.cell_pixels:
                    found[k, c] = (ratios[(start + stop - 1) // 2] + ratios[(start + stop) // 2]) / 2
        return found.reshape(len(H), *self._grid)

    def _believed(self, alone: Floats, residual: Floats, pixels: CodePixels) -> tuple[NDArray[np.bool_], float]:
        """Return which cells are believed, and the share of all values that the components explain in these."""
        cells = np.repeat(self._cell, pixels.channels)
        size = self._grid[0] * self._grid[1]  # the number of cells: rows times columns
        # (n_cells,): weight of the unexplained values in each cell, over all frames
        before, after = (
            np.bincount(cells, (pixels.weights * (np.abs(r) >= pixels.near)).sum(axis=0), size)
            for r in (alone, residual)
        )
        believed = after <= tuning.TUNING.illumination.kept * before
        return believed, float((before - after)[believed].sum() / pixels.weights.sum())

    def _fields(self) -> Floats:
        """Return the illuminations at all pixels (n_components, height, width), interpolated between the cells."""
        size = self._shape[::-1]  # (width, height) of the picture, as OpenCV takes them
        return np.stack([cv2.resize(cells, size, interpolation=cv2.INTER_LINEAR) for cells in self._cells])

    def _components(self) -> Floats:
        """Return the components (n_components, n_chosen, channels) at the chosen pixels: scene times illumination."""
        rows, columns = self._at  # of the chosen pixels, whose scene `_scene` (n_chosen, channels) is
        return self._scene * self._fields()[:, rows, columns, None]

    def components_of(self, scene: Floats) -> Floats:
        """Return components (r, n_pixels, channels): a scene (n_pixels, channels) times each illumination."""
        return scene * self._fields().reshape(len(self._cells), -1, 1)


def _courses(residual: Floats, pixels: CodePixels, count: int) -> Floats:
    """Return how `count` changes of illumination run through the clip, as shares (count + 1, n) of components."""
    # (n, n_values); its Gram matrix has the courses, the principal components over frames, as eigenvectors
    cut = np.clip(residual, -pixels.near, pixels.near) * np.sqrt(pixels.weights)
    n = len(cut)
    courses = np.full((count, n), 0.5)
    leading = np.linalg.eigh(cut @ cut.T)[1].T[::-1][:count]  # (count, n), the strongest first
    for course, vector in zip(courses, leading, strict=False):
        if np.ptp(vector) > 0:
            course[:] = (vector - vector.min()) / np.ptp(vector)
    courses /= count
    return np.vstack([1 - courses.sum(axis=0), courses]).clip(0).astype(np.float32)
