"""Parts of small patches, learnt by online non-negative matrix factorisation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from visionnmf._checks import RandomState, check_choice, check_count, check_generator, check_saved, check_seed
from visionnmf._typing import Array

from .extractor import (
    MAX_PIXELS,
    Extractor,
    Images,
    PreparedImage,
    check_descriptor_count,
    check_layout,
    named_in_cells,
    sample_rows,
)

LEARNERS = ("surrogate", "manhattan")
PASSES = 3  # over the patches
CONTRAST = 0.1  # a patch with this root mean square counts half


@dataclass(eq=False, repr=False)
class PatchNMF(Extractor):
    """How much of each learnt part the patches of an image have, on average in each of its cells.

    Patches are colours minus their mean, split into what is above the mean and what is below it
    (:func:`split_patches`), so that they are non-negative. Online NMF learns their parts ``H``: edges, bars, colours.
    The codes of a patch are ``max(0, x H^+)`` with the pseudo-inverse, which takes one product for an image.

    Parameters
    ----------
    n_components : int, default=64
        The number of parts, and of features in each cell.
    patch : int, default=8
        The side of a patch in pixels.
    step : int, default=4
        The distance of two patches in pixels.
    layout : tuple of two ints, default=(2, 2)
        Rows and columns of cells.
    method : {"surrogate", "manhattan"}, default="surrogate"
        The method of :class:`.OnlineNMF`: least squares, or robust. Most entries of a patch are 0, and the Manhattan
        loss finds few parts in such data.
    n_samples : int, default=20_000
        The number of patches from which parts are learnt, taken from at most a thousand images.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many pixels.
    random_state : int, RandomState, Generator or None, default=0

    Attributes
    ----------
    components_ : ndarray of float32 [shape=(n_components, 6 * patch**2), >= 0]
        Parts of unit norm: what is above the mean, then what is below it, each (patch, patch, 3).
    encoder_ : ndarray of float32 [shape=(6 * patch**2, n_components)]
        The pseudo-inverse.

    References
    ----------
    P. O. Hoyer, "Non-negative sparse coding", IEEE Workshop on Neural Networks for Signal Processing, 2002.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import PatchNMF
    >>> PatchNMF(8).fit_transform([make_mosaic(64, 64).image]).shape
    (1, 32)
    """

    saved_attributes = ("components_", "encoder_", "n_features_out_")

    kind = "patch-nmf"

    n_components: int = 64
    _: KW_ONLY
    patch: int = 8
    step: int = 4
    layout: tuple[int, int] = (2, 2)
    method: str = "surrogate"
    n_samples: int = 20_000
    max_pixels: int | None = MAX_PIXELS
    random_state: RandomState = 0

    def _check_parameters(self) -> None:
        """Raise ParameterError if a parameter is not allowed; there must be at least as many patches as parts."""
        super()._check_parameters()
        check_count(self.n_components, "n_components", 1, 4096)
        check_count(self.patch, "patch", 2, 64)
        check_count(self.step, "step", 1, 64)
        check_layout(self.layout)
        check_choice(self.method, "method", LEARNERS)
        check_count(self.n_samples, "n_samples", self.n_components)

    def _learn(self, images: Images) -> None:
        """Learn the parts from patches of randomly chosen, reduced images by online NMF."""
        rng = check_generator(self.random_state)
        patches = sample_rows(images, self.max_pixels, self.n_samples, rng, self._patches)
        from visionnmf.models import OnlineNMF  # fitted extractors do not need it

        model = OnlineNMF(self.n_components, method=self.method, max_iter=PASSES, random_state=check_seed(rng))
        self.components_ = np.asarray(model.fit(patches).components_, np.float32)
        self.encoder_ = np.ascontiguousarray(np.linalg.pinv(self.components_.astype(np.float64)), np.float32)

    def _patches(self, image: PreparedImage) -> Array:
        """Return all patches of an image as rows (n, 6 * patch**2): what is above the mean, and what is below."""
        patches = split_patches(image.floats, self.patch, self.step)
        return patches.reshape(-1, patches.shape[-1])

    def _check_learnt(self) -> None:
        """Raise ValueError if components from a file do not fit the parameters: 3 colours, above and below the mean."""
        shape = (self.n_components, 6 * self.patch**2)
        check_saved(self.components_, "components_", shape, "float32", low=0)
        check_saved(self.encoder_, "encoder_", shape[::-1], "float32")

    def _names(self) -> Iterator[str]:
        return named_in_cells([f"part{i}" for i in range(self.n_components)], self.layout)

    def _describe(self, image: PreparedImage) -> Array:
        """Return the mean codes of the patches of each cell; a strip of patches is encoded at a time to save memory."""
        # `last` is the first row of the last strip; a smaller image gives one patch, extended by its border
        rgb, last = image.floats, max(0, image.rgb.shape[0] - self.patch)
        rows, columns = ((max(0, size - self.patch)) // self.step + 1 for size in rgb.shape[:2])
        check_descriptor_count("patch and step", rows * columns, self.n_components)
        # for one strip; each of the 3 channels of a pixel has a part above and a part below the patch's mean
        check_descriptor_count("patch", columns, 6 * self.patch**2)
        strips = (rgb[row : row + self.patch] for row in range(0, last + 1, self.step))
        codes = np.stack(  # (rows, columns, n_components)
            # a strip has one row of patches
            [np.maximum(split_patches(strip, self.patch, self.step)[0] @ self.encoder_, 0) for strip in strips]
        )
        cells = [
            codes[down][:, across].mean(axis=(0, 1))
            for down in _divide_evenly(rows, self.layout[0])
            for across in _divide_evenly(columns, self.layout[1])
        ]
        return np.concatenate(cells)


def split_patches(rgb: NDArray[np.float32], patch: int, step: int) -> NDArray[np.float32]:
    """Cut an image (0 to 1) into patches, split each at its mean, and normalise its contrast.

    Returns (n_rows, n_columns, 6 * patch**2): what is above the mean of each patch, then what is below it, of norm
    below 1.
    """
    missing = [(0, max(0, patch - size)) for size in rgb.shape[:2]]
    padded = np.pad(rgb, [*missing, (0, 0)], mode="edge")
    windows = sliding_window_view(padded, (patch, patch), axis=(0, 1))[::step, ::step]
    flat = windows.transpose(0, 1, 3, 4, 2).reshape(*windows.shape[:2], -1)
    flat = flat - flat.mean(axis=-1, keepdims=True)
    # The constant added to the norm keeps patches without contrast from being amplified to full noise.
    norm = np.linalg.norm(flat, axis=-1, keepdims=True)
    flat /= norm + np.float32(CONTRAST * math.sqrt(flat.shape[-1]))
    return np.concatenate([np.maximum(flat, 0), np.maximum(-flat, 0)], axis=-1)


def _divide_evenly(size: int, parts: int) -> list[slice]:
    """Return `parts` slices that divide an axis of `size` places; they share places if there are too few."""
    edges = [i * size // parts for i in range(parts + 1)]
    return [slice(low, max(high, low + 1)) for low, high in pairwise(edges)]
