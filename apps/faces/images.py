"""Images of faces as rows of grey values: checks, copies, missing pixels, cleaning, and how unlike a face they are."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.ndimage import binary_propagation, gaussian_filter
from scipy.special import ndtri

from visionnmf import NMF, choices
from visionnmf._checks import brief, check_choice, check_image_shape, check_numbers, check_rows, shown
from visionnmf._pixel_range import BITS, bits_of, note_on
from visionnmf._text import counted
from visionnmf.exceptions import ParameterError
from visionnmf.models.data_checks import UnseenWarning

from .identities import Identity

Array = NDArray[Any]
Mask = NDArray[np.bool_]

FEW_PIXELS = 16  # no image is smaller than this
SHOWS_NOTHING = "shows nothing, because all its pixels are equal"  # of a file
MOST_NAMED = 5  # images that a warning names
WHITES = (1.0, *(2.0**bits - 1 for bits in BITS))  # the values of white that are known
ABOVE = 2.0  # times white: up to this, larger values come from scaling images, and beyond it white is another one
LEAST_BLOCK = 4  # pixels
# Share of the brightest value. Most of a patch stays this even after JPEG at quality 95, and so do deep shadows.
FLAT = 4.5 / 255
BLOCK_SHARE = 5  # the smallest block's side is the image's shorter side over this
# Share of the border pixels of a set that an even background covers: 0.39 to 0.47 for turning objects, at most 0.09 for
# faces, with or without patches.
BACKGROUND = 0.25
MOST_MISSING = 0.9  # if more of an image is missing, the search has failed and the image is left as it is
# One less the correlation of two smoothed images up to which they are copies. Chosen on ORL, whose photographs of one
# person differ by 0.0027 or more at 32 × 32, and by 0.0016 at 112 × 92; docs/decisions/faces.md has those of copies.
COPY = 0.0015
CLIPPED = 0.02  # the same up to which one may be a brighter, clipped copy; chosen on YALE and LFW, 15 % brighter
NEAREST = 5  # images that are compared again in this way, which takes a smoothing each
BATCH = 512  # images that are compared with all others of a person at a time
MANY_COPIES = 0.25  # share of the images that are copies from which on there is a warning
BLUR = 16  # the standard deviation of the smoothing is a side of the image over this
QUARTILE = 0.25  # of the absolute residuals; outliers do not move it while they are less than half of the pixels
SCALE_ROUNDS = 5
OUTLYING = 4.0  # standard deviations
MOST_OUTLYING = 0.6  # share of the pixels
JUDGED = 4.0  # a pixel is called corrupted beyond this many standard deviations of the noise ...
VISIBLE = 0.15  # ... and this share of white
QUERY_FACTOR = 2.0  # new images are cleaned less, because their errors do not spread to other images
FEW_MISSING = 0.02  # shares of missing pixels below this count as equal
# Of the unlikeness, chosen on ORL; docs/decisions/faces.md has the tables.
CELLS = 8  # along each side
TRUSTED = 0.8  # share of the cells whose residuals count: the smallest, because the others may lie under a block
LEAST_SHOWN = 0.3  # share of a cell's pixels; with fewer that are not missing, it does not count
LEAST_CONTRAST = 1e-3  # standard deviation of an even picture, as a share of white


# --- checks -----------------------------------------------------------------------------------------------------------


def check_images(X: Any, image_shape: tuple[int, int] | None = None) -> None:
    """Raise ParameterError for what is not images as rows, such as None, names of files, or a single image."""
    listed = isinstance(X, list | tuple) and len(X) > 0
    if X is None or isinstance(X[0] if listed else X, str | bytes | os.PathLike | dict):
        raise ParameterError(f"X must be an array with images as rows; got {shown(X)}; train and identify read files")
    check_rows(X, "images")
    cure = ""
    shape: tuple[int, ...] = np.shape(X) if hasattr(X, "shape") else ()
    if listed and np.ndim(X[0]) == 2:
        shape, cure = (len(X), *np.shape(X[0])), "; make rows of them by numpy.reshape(X, (len(X), -1))"
    elif len(shape) == 1:  # scikit-learn's own words, which its checks of estimators ask for, are among these
        cure = ". Reshape your data: one image is X.reshape(1, -1)"
    elif image_shape is not None and shape == tuple(image_shape) and shape[0] > 1:
        cure = ", which is that of one image; make a row of it by reshape(1, -1)"
    if cure:
        raise ParameterError(f"X must have images as rows; got an array of shape {shape}{cure}")


def image_rows(X: Any) -> Array:
    """Return images as rows, in an array of real numbers that has some; ParameterError for anything else."""
    if sparse.issparse(X):
        raise ParameterError(f"X must be a dense array with images as rows; got {shown(X)}; pass X.toarray()")
    check_images(X)
    data = check_numbers(X, "X", None)  # in a type of its own
    if data.dtype == object:  # Python's own numbers, perhaps
        data = check_numbers(data, "X", np.float64)
    if data.dtype.kind not in "buif":
        cure = "take its real part" if data.dtype.kind == "c" else "convert it by X.astype(float), if that is meant"
        raise ParameterError(f"X must hold real numbers; got {data.dtype}; {cure}")
    if data.ndim != 2 or not data.size:
        raise ParameterError(f"X must have images as rows, with a pixel at least; got an array of shape {data.shape}")
    return data


def masked(images: Array, mask: ArrayLike | None) -> tuple[Array, Mask]:
    """Return checked images with 0 under the caller's mask of missing pixels, and the mask in their shape."""
    # Whatever lies under the mask, even NaN, is gone before values are checked or measured.
    given = np.zeros(images.shape, bool) if mask is None else _checked_mask(mask, images.shape)
    images = hidden(images, given, 0)
    cure = "give a mask that is True for these pixels"
    for name, found in (("NaN", np.isnan(images)), ("infinity", np.isinf(images))):
        if found.any():
            raise ParameterError(f"X must not hold {name}; got {int(found.sum())} of them; {cure}")
    least = float(images.min(initial=0))
    if least < 0:  # scikit-learn's checks of estimators ask for the first words
        raise ParameterError(
            f"Negative values in data passed to X, which must hold grey values from 0 on; got {least:.3g}; add "
            f"{-least:.3g} to X, or clip it"
        )
    return images, given


def _checked_mask(mask: ArrayLike, shape: tuple[int, ...]) -> Mask:
    """Return a mask in the shape of the images."""
    given = np.asarray(mask)
    if given.dtype != bool and not (given.dtype.kind in "iuf" and np.isin(given, (0, 1)).all()):
        raise ParameterError(f"mask must hold True for missing pixels and False for others; got {shown(mask)}")
    try:
        return np.broadcast_to(given.astype(bool), shape)
    except ValueError:
        cure = "; make rows of it by reshape" if given.size in (shape[1], shape[0] * shape[1]) else ""
        raise ParameterError(f"mask must have the shape of X, {shape}; got {given.shape}{cure}") from None


def check_seen(given: Mask) -> None:
    """Raise ParameterError if the caller's mask leaves nothing of the images from which something is learnt."""
    if given.all():
        raise ParameterError("mask must leave pixels of the images; got True for all of them")


def white_of(brightest: float) -> float:
    """Return the value of white, one of `WHITES`, in images whose largest value is `brightest`."""
    return next((white for white in WHITES if brightest <= ABOVE * white), WHITES[-1])


def white_in(images: Array, X: Any) -> float:
    """Return the value of white in `images`, which came as `X`: 16-bit numbers tell it themselves."""
    brightest = float(images.max(initial=0))
    if getattr(X, "dtype", None) == np.uint16 and brightest > ABOVE:
        return float(2 ** bits_of(images) - 1)
    return white_of(brightest)


def warn_of_bits(images: Array) -> None:
    """Warn if the largest values of 16-bit numbers show that they have fewer bits."""
    if note := note_on(bits_of(images)):
        warnings.warn(f"X: {note}", UserWarning, stacklevel=5)


def in_units(images: Array, X: Any, white: float, brightest: float) -> Array:
    """Return new `images`, which came as `X`, with the `white` of the training images and their `brightest` value."""
    own, largest = white_in(images, X), float(images.max(initial=0))
    dtype = getattr(X, "dtype", None)  # lists have none
    # Numbers such as counts, which do not reach their white, say nothing about it.
    if own == white or not largest or (brightest <= white / 2 and own < white):
        return images
    if dtype in (np.uint8, np.uint16) or own == 1:
        if dtype == np.uint16:
            warn_of_bits(images)
        return np.minimum(images, own) * images.dtype.type(white / own)
    factor = f"{white:g} / {own:g}"
    if own > white:
        raise ParameterError(
            f"X must have grey values from 0 to {white:g}, as the training images; got {largest:g}; multiply X by "
            f"{factor}"
        )
    warnings.warn(
        f"X: the largest of its values is {largest:g}, which is dark where the training images have {white:g} for "
        f"white; if {own:g} is its white, multiply it by {factor}",
        UserWarning,
        stacklevel=4,
    )
    return images


# --- images that teach little -----------------------------------------------------------------------------------------


def empty_images(images: Array, missing: Mask) -> NDArray[np.intp]:
    """Return the numbers of images of 16 pixels or more whose visible pixels are all equal, or that have none."""
    if images.shape[1] < FEW_PIXELS:
        return np.zeros(0, np.intp)
    low, high = np.where(missing, math.inf, images).min(axis=1), np.where(missing, -math.inf, images).max(axis=1)
    return np.flatnonzero(low >= high)


def shared_images(images: Array, labels: Array) -> list[tuple[int, int]]:
    """Return the numbers of pairs of equal images (n_images, ...) that have different `labels` (n_images,)."""
    first: dict[bytes, int] = {}
    pairs = []
    for number, image in enumerate(images):
        before = first.setdefault(image.tobytes(), number)
        if labels[before] != labels[number]:
            pairs.append((before, number))
    return pairs


def digests(images: Array, white: float) -> NDArray[np.int64]:
    """Return a number for each image, which images share that are equal in eight bits."""
    levels = np.rint(images * (255 / white)).astype(np.float32)
    return np.array([int.from_bytes(blake2b(row, digest_size=8).digest(), "big", signed=True) for row in levels])


def doubts_of_training(
    images: Array, given: Mask, labels: Array, copies: NDArray[np.intp], names: Sequence[str] | None
) -> Iterator[str]:
    """Yield a sentence for each doubt: images that show nothing, that people share, and `copies`, if these are many."""
    named = _names(labels, names)
    empty = empty_images(images, given).tolist()
    yield from _nothing_on(empty, named)
    pairs = [(one, other) for one, other in shared_images(images, labels) if one not in empty]
    if pairs:
        shared = _listed([f"{named[one]} and {named[other]}" for one, other in pairs])
        yield f"the same image of two people: {shared}; keep each image for one person only"
    if len(copies) > MANY_COPIES * len(labels):
        yield (
            f"{len(copies)} of {len(labels)} images are copies of another one of their person: "
            f"{_listed([named[number] for number in copies])}; copies count as one image where images are left out to "
            "judge"
        )


def doubts_of_added(
    identities: list[Identity], before: list[Any], labels: Array, empty: list[int], names: Sequence[str] | None
) -> Iterator[str]:
    """Yield a sentence for each doubt: added images that show nothing, were learnt `before`, or are odd."""
    named = _names(labels, names)
    yield from _nothing_on(empty, named)
    doubts: dict[tuple[str, str], list[str]] = {}
    for number, (one, known) in enumerate(zip(identities, before, strict=True)):
        if number in empty:
            continue
        name = named[number]
        if known is not None:
            doubts.setdefault(("is", "are already there"), []).append(f"{name} (of {shown(known)})")
        elif one.reason == "unlike":
            doubts.setdefault(("is", "are unlike a face"), []).append(name)
        elif one.person not in (None, labels[number]):
            doubts.setdefault(("looks", "look like somebody else"), []).append(f"{name} (like {shown(one.person)})")
    for (verb, words), found in doubts.items():
        words = f"{verb} {words.partition(' ')[2]}" if len(found) == 1 else words
        count = counted(len(found), "added image")
        yield f"{count} {words}: {_listed(found)}; added nevertheless; check the names and the images"


def _names(labels: Array, names: Sequence[str] | None) -> Sequence[str]:
    """Return what sentences call each image: by default its number and its label."""
    numbered = enumerate(labels.tolist())
    return [f"{number} ({shown(label)})" for number, label in numbered] if names is None else names


def _nothing_on(empty: list[int], named: Sequence[str]) -> Iterator[str]:
    """Yield a sentence about images on which nothing can be seen, if there are any."""
    if empty:
        listed = _listed([named[number] for number in empty])
        yield f"images that show nothing, because all pixels that are not masked are equal: {listed}; leave them out"


def _listed(found: list[str]) -> str:
    """Return the first of many names, and how many more there are."""
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return f"{', '.join(found[:MOST_NAMED])}{more}"


def different_images(
    images: Array, given: Mask, people: NDArray[np.intp], image_shape: tuple[int, int] | None
) -> NDArray[np.intp]:
    """Return the numbers of the images without those that are copies of an earlier image of the same person.

    Copies may have been encoded again, resized or brightened: smoothed images are compared by their correlation, or
    images as they are if their shape is not known. An image is compared again with the nearest ones without the
    pixels at the brightest value of either, which may be clipped. Of fewer than 16 pixels only equal images are copies.
    """
    rows = _coarse(images, given, image_shape)
    bright = given | (images >= images.max(axis=1, keepdims=True))
    kept = np.ones(len(rows), bool)
    for person in range(people.max() + 1):
        own = np.flatnonzero(people == person)
        for start in range(0, len(own), BATCH):
            some = own[start : start + BATCH]
            apart = 1 - rows[some] @ rows[own].T
            if images.shape[1] < FEW_PIXELS:
                apart = np.where((images[some, None] == images[own]).all(axis=2), 0.0, 1.0)
            for place, number in enumerate(some):
                before = own[: start + place]
                found = apart[place, : len(before)][kept[before]]
                order = np.argsort(found)[:NEAREST]
                near = before[kept[before]][order[found[order] <= CLIPPED]]
                kept[number] = not (found <= COPY).any()
                if kept[number] and len(near):
                    hidden = bright[near] | bright[number]
                    one, other = (_coarse(images[which], hidden, image_shape) for which in ([number], near))
                    kept[number] = not (1 - (one * other).sum(axis=1) <= COPY).any()
    return np.flatnonzero(kept)


def _coarse(images: Array, hidden: Mask, image_shape: tuple[int, int] | None) -> Array:
    """Return smoothed rows of unit length and mean 0, of images in which the mean replaces hidden pixels."""
    seen = np.maximum((~hidden).sum(axis=1, keepdims=True), 1)
    rows = np.where(hidden, 0.0, images)
    rows = np.where(hidden, rows.sum(axis=1, keepdims=True) / seen, rows)
    if image_shape is not None:
        pictures = as_images(rows, image_shape)
        rows = gaussian_filter(pictures, (0, image_shape[0] / BLUR, image_shape[1] / BLUR)).reshape(rows.shape)
    rows -= rows.mean(axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny))


# --- missing pixels ---------------------------------------------------------------------------------------------------


def as_images(data: Array, image_shape: tuple[int, int]) -> Array:
    """Return rows of pixels as images (n_images, height, width)."""
    return data.reshape(-1, *check_image_shape(image_shape, n_pixels=data.shape[1]))


def hidden(images: Array, mask: Mask, value: float = math.nan) -> Array:
    """Return images with `value` at the pixels of a mask; the images themselves if it is empty."""
    return np.where(mask, images.dtype.type(value), images) if mask.any() else images


def found_in_rows(
    data: Array, image_shape: tuple[int, int] | None, missing: str, white: float, brightest: float, background: float
) -> Mask:
    """Return :func:`missing_pixels` of images as rows (n_images, n_pixels); no blocks without an image shape."""
    if missing == "none" or (missing == "blocks" and image_shape is None):
        return np.zeros(data.shape, bool)
    images = data[:, None] if image_shape is None else as_images(data, image_shape)  # without a shape, one row each
    return missing_pixels(images, missing, white, brightest, background).reshape(data.shape)


def missing_pixels(images: Array, missing: str, white: float, brightest: float, background: float = math.nan) -> Mask:
    """Return the pixels of images (n_images, height, width) that are missing: "none", "saturated" or "blocks".

    `brightest` is the largest value in the set, by which evenness is judged. Pixels of an even `background` (NaN if
    there is none) are never missing, and neither is any pixel of an image of which nearly everything would be, nor one
    that is NaN, because the caller's mask hides it.
    """
    check_choice(missing, "missing", choices.FACE_MISSING)
    if missing == "none":
        return np.zeros(images.shape, bool)
    blocks = flat_blocks(images, brightest)
    mask = blocks
    if missing == "saturated":  # black (0) or white
        mask = ((images <= 0) | (images >= white)) & ~_walls(images, blocks, white)
    if not math.isnan(background):
        mask &= np.abs(images - background) > FLAT * brightest
    seen = (~np.isnan(images)).sum(axis=(1, 2))
    mask[mask.sum(axis=(1, 2)) > MOST_MISSING * seen] = False
    return mask


def _walls(images: Array, blocks: Mask, white: float) -> Mask:
    """Return the pixels of even `blocks` that are white and reach the border: a wall behind a face is not missing."""
    areas = blocks & (images >= white)
    inner = np.zeros(images.shape[1:], bool)
    inner[1:-1, 1:-1] = True
    within = np.array([[[0, 0, 0]] * 3, [[0, 1, 0], [1, 1, 1], [0, 1, 0]], [[0, 0, 0]] * 3], bool)  # not across images
    return np.asarray(binary_propagation(areas & ~inner, within, areas)) if areas.any() else areas


def flat_blocks(images: Array, brightest: float) -> Mask:
    """Return the pixels of opaque blocks: squares whose values differ by at most 4.5/255 of the brightest value."""
    height, width = images.shape[1:]
    side = max(LEAST_BLOCK, round(min(height, width) / BLOCK_SHARE))
    mask = np.zeros(images.shape, bool)
    if side > min(height, width):
        return mask
    low = high = images  # become the least and the largest value in the square that begins at each pixel
    for axis in (1, 2):
        low = np.lib.stride_tricks.sliding_window_view(low, side, axis=axis).min(axis=-1)
        high = np.lib.stride_tricks.sliding_window_view(high, side, axis=axis).max(axis=-1)
    flat = high - low <= FLAT * brightest  # indexed by the square's upper left corner
    for row in range(side):
        for column in range(side):
            mask[:, row : row + flat.shape[1], column : column + flat.shape[2]] |= flat
    return mask


def flat_background(images: Array, brightest: float) -> float:
    """Return the value of an even background: blocks that cover much of the images' borders; NaN if there is none."""
    border = np.ones(images.shape[1:], bool)
    border[1:-1, 1:-1] = False
    values, even = images[:, border], flat_blocks(images, brightest)[:, border]
    if not even.any():
        return math.nan
    value = float(np.median(values[even]))
    share = (even & (np.abs(values - value) <= FLAT * brightest)).sum() / (~np.isnan(values)).sum()  # of those seen
    return value if share > BACKGROUND else math.nan


# --- cleaning ---------------------------------------------------------------------------------------------------------


class Decomposition(NamedTuple):
    """Images split into what the model explains and what it does not; arrays (n_samples, n_pixels).

    In `cleaned`, outlying pixels are pulled towards the model's `reconstructions`, and missing ones replaced by them.
    `corrupted` are the pixels that are judged corrupted; see :class:`FaceRecognizer`. Of undamaged images 4 to 8 % of
    the pixels are, on average, because the model does not know what is peculiar to an image: compare a share with
    ``corrupted_rate_`` of the recogniser, that of left-out training images. `noise` (n_samples, n_measures) holds the
    noise scale over white, the shares of outlying and of missing pixels, and, if the height and width of the images are
    known, the scale of the finest detail over white.
    """

    reconstructions: Array
    cleaned: Array
    corrupted: Mask
    noise: Array

    def __repr__(self) -> str:
        return brief(self)


def noise_scale(residuals: Array, axis: int | None = None) -> Any:
    """Estimate the standard deviation of the residuals that are not outliers; `axis` is kept with length 1.

    The lower quartile of the absolute residuals holds while up to half of the pixels are corrupted. It is a higher
    quantile of the others, whose share is therefore estimated in turn.
    """
    sizes = np.abs(residuals)
    quartile = np.quantile(sizes, QUARTILE, axis=axis, keepdims=axis is not None)
    outlying: Any = 0.0
    for _ in range(SCALE_ROUNDS):
        # The quantile p of the size of a standard normal variable is the quantile (1 + p) / 2 of the variable itself.
        # The share of outlying pixels is at most 0.6, so that p, that of the quartile among the others, stays below 1.
        scale = quartile / ndtri((1 + QUARTILE / (1 - outlying)) / 2)
        outlying = np.minimum((sizes > OUTLYING * scale).mean(axis=axis, keepdims=axis is not None), MOST_OUTLYING)
    return scale


def noise_scales(residuals: Array, missing: Mask) -> Array:
    """Return :func:`noise_scale` of each image (n_images, 1), of pixels that are not missing; 0 if all are."""
    scales = np.asarray(noise_scale(residuals, axis=1))  # and again, one by one, for images with missing pixels
    for row in np.flatnonzero(missing.any(axis=1)):
        seen = residuals[row, ~missing[row]]
        scales[row] = noise_scale(seen) if len(seen) else 0
    return scales


def grain(data: Array, image_shape: tuple[int, int] | None) -> Array:
    """Estimate the noise of images from their finest detail, (n_images, 1); (n_images, 0) without 3 × 3 pixels."""
    if image_shape is None or min(image_shape) < 3:
        return np.empty((len(data), 0), data.dtype)
    # The difference of second differences is 0 on planes and ridges (Immerkær, "Fast noise variance estimation", 1996).
    detail = as_images(data, image_shape)
    for axis in (1, 2):
        low, middle, high = (np.take(detail, np.arange(k, detail.shape[axis] - 2 + k), axis=axis) for k in range(3))
        detail = low - 2 * middle + high
    # The weights of this difference, 1, -2, 1 along both axes, have the root of their sum of squares 6.
    return np.asarray(noise_scale(detail.reshape(len(data), -1) / 6, axis=1))


def corruption_limit(scale: Any, white: float) -> Any:
    """Return the residual beyond which a pixel is corrupted: visible, and an outlier of noise with this `scale`."""
    return np.maximum(JUDGED * scale, VISIBLE * white)


def winsorise(images: Array, reconstructions: Array, outliers: float, scale: Any, missing: Mask) -> Array:
    """Return images within `outliers` times `scale` of reconstructions, as Huber's pseudo-values; these fill gaps."""
    # The product would be NaN for infinity and a scale of 0.
    limit = outliers * scale if 0 < outliers < math.inf else np.full_like(scale, outliers)
    residuals = np.clip(images - reconstructions, -limit, limit)
    residuals[missing] = 0
    residuals += reconstructions
    return residuals.astype(images.dtype, copy=False)


def fitted_to(model: NMF, data: Array, missing: Mask) -> tuple[Array, float]:
    """Fit a model to training images; return their reconstructions, and the scale of the noise."""
    codes = _shown_codes(model.fit_transform, data, missing)
    reconstructions = (codes @ model.components_).astype(data.dtype, copy=False)
    residuals = (data - reconstructions)[~missing]
    return reconstructions, float(noise_scale(residuals)) if len(residuals) else 0.0


def _shown_codes(find: Callable[..., Array], data: Array, missing: Mask) -> Array:
    """Return the codes that `find` finds of the pixels that are not missing; images without any are reported apart."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenWarning)
        return find(data, weights=~missing if missing.any() else None)


def decomposed(
    model: NMF, data: Array, missing: Mask, scale: float, outliers: float, white: float,
    image_shape: tuple[int, int] | None,
) -> Decomposition:  # fmt: skip
    """Return what a fitted `model` makes of new images; `scale` and `outliers` are those of the training images."""
    codes = _shown_codes(model.transform, data, missing)
    reconstructions = (codes @ model.components_).astype(data.dtype, copy=False)
    residuals = np.abs(data - reconstructions)
    own = noise_scales(residuals, missing)
    outlying = ((residuals > corruption_limit(own, white)) & ~missing).mean(axis=1)
    larger = np.maximum(own, scale).astype(data.dtype)  # so that an image that fits well is left alone
    cleaned = winsorise(data, reconstructions, QUERY_FACTOR * outliers, larger, missing)
    corrupted = missing | (residuals > corruption_limit(larger, white))
    detail = grain(np.where(missing, reconstructions, data), image_shape) / white
    noise = [own / white, outlying[:, None], np.maximum(missing.mean(axis=1, keepdims=True), FEW_MISSING)]
    return Decomposition(reconstructions, cleaned, corrupted, np.hstack([*noise, detail]))


# --- unlikeness: a landscape, say, or a face upside down --------------------------------------------------------------


def cells_of(image_shape: tuple[int, int]) -> NDArray[np.intp]:
    """Return the number of the cell that each pixel (n_pixels,) belongs to, in a grid of 8 × 8 cells over the image."""
    height, width = image_shape
    rows, columns = np.divmod(np.arange(height * width), width)
    return np.asarray(rows * CELLS // height * CELLS + columns * CELLS // width)


def unlikeness(
    images: Array, missing: Mask, reconstructions: Array, cells: NDArray[np.intp], noise: Array, white: float
) -> tuple[Array, Array]:
    """Return the coarse residual of each image by the model, as a share of the image's coarse contrast, in two ways.

    Noise, with the standard deviation `noise` (n_images,), cancels out in the medians of `cells`. In the first result,
    what it still contributes is subtracted, so that it hardly depends on noise, single bad pixels and blocks; but
    nothing is left of an image that is noise alone. The second result subtracts nothing, and is near 1 for such an
    image. Both are NaN for an image of which nothing is seen.
    """
    residuals = images - reconstructions
    present = np.unique(cells)
    coarse = np.full((len(present), len(images)), np.nan, images.dtype)
    squares, variance = np.full_like(coarse, np.nan), np.full(coarse.shape, np.nan)
    for place, cell in enumerate(present):
        own = np.flatnonzero(cells == cell)
        seen = (~missing[:, own]).sum(axis=1)
        shown = np.flatnonzero(seen >= LEAST_SHOWN * len(own))  # on other images the cell does not count
        last = seen[shown] - 1  # the place of the largest visible value among sorted ones
        for values, medians in ((images, coarse), (residuals, squares)):
            visible = np.where(missing[np.ix_(shown, own)], np.nan, values[np.ix_(shown, own)])
            ordered = np.sort(visible, axis=1)  # NaN are sorted to the end
            # The median is the mean of the two middle values, which are one if the number of values is odd.
            low, high = (np.take_along_axis(ordered, half[:, None], axis=1) for half in (last // 2, -(-last // 2)))
            medians[place, shown] = (low + high)[:, 0] / 2
        # The variance of a median of n normal values is pi / 2n times theirs.
        variance[place, shown] = math.pi / 2 * noise[shown] ** 2 / seen[shown]
    squares **= 2
    known = np.flatnonzero((~np.isnan(coarse)).sum(axis=0))
    results = np.full((2, len(images)), np.nan)
    coarse, squares, variance = coarse[:, known], squares[:, known], variance[:, known]
    # The cells with the largest residuals may lie under a block. The other 80 % count.
    least = squares <= np.nanquantile(squares, TRUSTED, axis=0)
    for row, noisy in enumerate((variance, 0 * variance)):  # what is subtracted for each of the two results
        left = np.nanmean(np.where(least, squares - noisy, np.nan), axis=0)
        contrast = np.maximum(np.nanvar(coarse, axis=0) - np.nanmean(noisy, axis=0), (LEAST_CONTRAST * white) ** 2)
        results[row, known] = np.sqrt(np.maximum(left, 0) / contrast)
    return results[0], results[1]


def unlikeness_of(
    images: Array, missing: Mask, reconstructions: Array, detail: Array, white: float,
    image_shape: tuple[int, int] | None, pixels: Any = slice(None),
) -> tuple[Array, Array]:  # fmt: skip
    """Return :func:`unlikeness` of images with some of the `pixels` of a whole one, and :func:`grain` over white."""
    if image_shape is None or not detail.shape[1]:
        return np.full(len(images), np.nan), np.full(len(images), np.nan)
    return unlikeness(images, missing, reconstructions, cells_of(image_shape)[pixels], detail[:, 0] * white, white)
