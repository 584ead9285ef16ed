"""Codes of frames by consensus, at a random sample of pixels.

For each frame the candidate code that explains most values is improved in the Manhattan loss. The improvement is kept
unless it explains fewer values. So an object that fills half the frame does not pass for a change of illumination, and
coordinate descent does not start far from where it has to go.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.background import tuning
from visionnmf.apps.background.kernels import count_explained
from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import NONNEGATIVE
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import rri

__all__ = ["CodePixels", "find_codes", "improved_components", "with_median"]

FrameArray = NDArray[np.uint8]
Floats = NDArray[np.float32]


def find_codes(X: Floats, H: Floats, near: Floats, candidates: Floats) -> Floats:
    """Return the codes (n_components, n) of frames `X` (n, n_values).

    `H` (n_components, n_values) are the components, `near` (n_values,) is the residual below which a value counts as
    explained, and `candidates` (n_components, k) are the codes to start from.
    """
    learning = tuning.TUNING.learning
    few = slice(None, None, learning.voting_share)
    shown = _product(candidates, H[:, few])
    votes = np.empty((len(X), len(shown)), np.int64)
    count_explained(np.ascontiguousarray(X[:, few]), shown, np.ascontiguousarray(near[few]), votes)
    start = np.ascontiguousarray(candidates[:, np.argmax(votes, axis=1)])
    Wt = start.copy()
    rri.half(Problem(X, Loss("manhattan")), Wt, H, sweeps=learning.code_sweeps)
    worse = _explained(X, Wt, H, near) < _explained(X, start, H, near)
    Wt[:, worse] = start[:, worse]
    return Wt


def _explained(X: Floats, Wt: Floats, H: Floats, near: Floats) -> NDArray[np.intp]:
    return np.count_nonzero(np.abs(X - _product(Wt, H)) < near, axis=1)


def _product(Wt: Floats, H: Floats) -> Floats:
    """Return ``W H`` without the BLAS, whose own threads would compete with those that work on frames."""
    result = np.multiply.outer(Wt[0], H[0])
    for w, h in zip(Wt[1:], H[1:], strict=True):
        result += np.multiply.outer(w, h)
    return result


def with_median(Wt: Floats) -> Floats:
    """Return the candidates for codes: the median code, then all codes."""
    return np.column_stack([np.median(Wt, axis=1), Wt]).astype(np.float32)


def improved_components(rows: FrameArray, weights: FrameArray, H: Floats, Wt: Floats, sweeps: int) -> Floats:
    """Return better components (r, n_pixels, channels) of `rows` (n_pixels, channels, n), weighted (n_pixels, n)."""
    found = np.array(H, np.float32, order="C")
    n = rows.shape[2]
    factor = found.reshape(len(found), -1)
    rri.weighted_half(rows.reshape(-1, n), weights, factor, Wt, penalty=NONNEGATIVE, sweeps=sweeps)
    return found


class CodePixels:
    """The learnt frames at the pixels that determine codes, few enough to go over again and again."""

    def __init__(self, frames: FrameArray, weights: FrameArray, scale: Floats) -> None:
        n, _, self.channels = frames.shape
        self.X = frames.reshape(n, -1).astype(np.float32)
        self.near = 2 * np.repeat(scale, self.channels)
        self.weights = np.repeat(weights, self.channels, axis=1).astype(np.float32)  # in the shape of X
        self._rows = np.ascontiguousarray(frames.transpose(1, 2, 0))
        self._row_weights = np.ascontiguousarray(weights.T)

    def components(self, H: Floats, Wt: Floats, sweeps: int) -> Floats:
        """Improve components (r, n_chosen, channels)."""
        return improved_components(self._rows, self._row_weights, H, Wt, sweeps)

    def codes(self, H: Floats, Wt: Floats) -> Floats:
        """Find codes (r, n), starting from the present ones."""
        return find_codes(self.X, H.reshape(len(H), -1), self.near, with_median(Wt))

    def residual(self, H: Floats, Wt: Floats) -> Floats:
        """Return ``X - W H``."""
        return self.X - _product(Wt, H.reshape(len(H), -1))
