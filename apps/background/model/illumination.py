"""Illumination components: one scene under several smooth illuminations, ``h_k = scene * illumination_k``.

Components with a value of their own at each pixel would hold whatever stood there while the illumination was at one
end of its course. Illumination is smooth and objects are not. So each illumination is the median, in the cells of a
coarse grid, of what weighted medians find pixel by pixel. A cell whose illumination does not explain at least half of
what a single scene leaves unexplained keeps the factor of the whole frame. How much the other cells gain tells whether
the clip needs more than one component.
"""

from __future__ import annotations

from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.background import tuning

from .consensus_codes import CodePixels

__all__ = ["Illumination"]

Floats = NDArray[np.float32]


class Illumination:
    """Illumination components of a scene, and the codes of the learnt frames.

    `scene` (n_chosen, channels) is the scene at the pixels `chosen` (n_chosen,) of a picture of `shape`; `Wt` (1, n)
    are the codes of that scene alone.

    Attributes
    ----------
    Wt : ndarray of float32 (n_components, n)
        Codes of the learnt frames.
    explains : float, 0 to 1
        Share of the values that the components explain and a single one does not, in the cells that are believed.
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
        height, width = self._shape = shape[0], shape[1]
        cell = max(height, width) / tuning.TUNING.illumination.grid
        self._grid = max(1, round(height / cell)), max(1, round(width / cell))
        self._at = np.divmod(chosen, width)
        rows, columns = self._at
        self._cell = (rows * self._grid[0] // height) * self._grid[1] + columns * self._grid[1] // width
        self._scene = scene
        self.Wt = Wt
        self._learn(pixels, n_components)

    def _learn(self, pixels: CodePixels, n_components: int) -> None:
        """Alternate between fields and codes; stop early where the components are hopeless."""
        learning = tuning.TUNING.learning
        alone = pixels.residual(self._scene[None], self.Wt)
        self.Wt = self.Wt * _courses(alone, pixels, n_components - 1)
        H = np.repeat(self._scene[None], n_components, axis=0)
        for _ in range(learning.rounds):
            self._cells = self._in_cells(pixels.components(H, self.Wt, learning.illumination_sweeps))
            H = self._components()
            self.Wt = pixels.codes(H, self.Wt)
            believed, self.explains = self._believed(alone, pixels.residual(H, self.Wt), pixels)
            if self.explains < tuning.TUNING.illumination.hopeless:
                return
        doubtful = ~believed.reshape(self._grid)
        for cells in self._cells:
            cells[doubtful] = np.median(cells)
        self.Wt = pixels.codes(self._components(), self.Wt)

    def _in_cells(self, H: Floats) -> Floats:
        """Return the median ratios of components to scene, cell by cell (n_components, rows, columns)."""
        bright = self._scene > tuning.TUNING.illumination.dark
        cells = np.broadcast_to(self._cell[:, None], bright.shape)[bright]
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
        """Return the cells that are believed, and the share of all values that the components explain in these."""
        cells = np.repeat(self._cell, pixels.channels)
        size = self._grid[0] * self._grid[1]
        before, after = (
            np.bincount(cells, (pixels.weights * (np.abs(r) >= pixels.near)).sum(axis=0), size)
            for r in (alone, residual)
        )
        believed = after <= tuning.TUNING.illumination.kept * before
        return believed, float((before - after)[believed].sum() / pixels.weights.sum())

    def _fields(self) -> Floats:
        """Return the illuminations at all pixels (n_components, height, width)."""
        size = self._shape[::-1]
        return np.stack([cv2.resize(cells, size, interpolation=cv2.INTER_LINEAR) for cells in self._cells])

    def _components(self) -> Floats:
        rows, columns = self._at
        return self._scene * self._fields()[:, rows, columns, None]

    def components_of(self, scene: Floats) -> Floats:
        """Return the components (n_components, n_pixels, channels) of a scene (n_pixels, channels)."""
        components = np.empty((len(self._cells), *scene.shape), np.float32)
        for component, field in zip(components, self._fields(), strict=True):
            np.multiply(scene, field.reshape(-1, 1), out=component)
        return components


def _courses(residual: Floats, pixels: CodePixels, count: int) -> Floats:
    """Return how `count` changes of illumination run through the clip, as shares of ``count + 1`` components.

    The changes are the first principal courses of the residual of one scene, cut where it passes the noise, so that
    foreground counts little. Each runs from 0 to 1. Component 0 is where all are at 0 and component k where change k is
    at its end and beyond, so that the shares (count + 1, n) are never negative.
    """
    cut = np.clip(residual, -pixels.near, pixels.near) * np.sqrt(pixels.weights)
    n = len(cut)
    courses = np.full((count, n), 0.5)
    leading = np.linalg.eigh(cut @ cut.T)[1].T[::-1][:count]
    for course, vector in zip(courses, leading, strict=False):
        if np.ptp(vector) > 0:
            course[:] = (vector - vector.min()) / np.ptp(vector)
    courses /= count
    return np.vstack([1 - courses.sum(axis=0), courses]).clip(0).astype(np.float32)
