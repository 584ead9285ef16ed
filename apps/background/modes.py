"""What rests: the scene where the median of still values is not it.

The scene that :func:`~visionnmf.apps.background.fit.learn` finds is a weighted median, which something that hides a
pixel most of the time, or many things in turn, draws away from it. Two questions are asked of each pixel:

- **The densest level.** Under the capped loss ``sum_t m_t min(|y_t|, cap)`` the scene is where most still samples
  agree, however far away the others are. It replaces the median where it has much more support.
- **Which of two levels rests longer than it belongs.** Where samples have a second level, as before and after someone
  leaves, that level is the scene which continues the picture around it: an object has a contour, the scene behind none.
"""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._jit import kernel
from visionnmf.engine.blocks import blocks, map_blocks

from .frames import to_uint8
from .residuals import weigh_levels

__all__ = ["correct_scene"]

FrameArray = NDArray[np.uint8]
Floats = NDArray[np.float32]
Sides = NDArray[np.int8]

FRAMES = 60  # as many as are asked; more change nothing
FEWEST = 32  # of fewer frames a level says too little
LIGHT = 0.75, 4 / 3  # frames whose light is so near to the median's show levels of one scene
SHARE_IN_LIGHT = 0.8  # and so many of the frames must be
NEAR = 10.0  # grey levels: samples of one level
APART = 20.0  # grey levels between two levels
HELD = 0.55  # share of the support beyond which a level stays what it is
STRONGER = 1.3  # times the support of the present level, of one that replaces it
SECOND_SHARE = 0.1  # of the support, of a second level
SHARPEN = 9.0  # stillness as of a third of the noise
REGION_SHARE = 0.002  # of the picture: smaller regions have too short a contour
CONTOUR = 3  # pixels between the two sides of a contour
CONTOUR_PIXELS = 10
CONTRAST_CAP = 60.0  # grey levels
SMOOTHER = 0.6  # times the contrast at the contour, of a level that is the scene
FOLLOWS = 0.6  # of the frames, more with than against the others: a pixel that shows what the region shows
COURSE_PIXELS = 30_000  # of a region, evenly spaced, that tell when its pictures are seen
CHANGES = 4  # that something which rests comes or goes, and passers-by hide it
BLOCK_PIXELS = 2048


@kernel(allocates=True)
def find_levels(  # type: ignore[no-untyped-def]
    frames, weights, picks, H, codes, near, apart, held, stronger, second, first, other, share, pixels
):
    """Find the levels of some pixels, as differences from the modelled background.

    Parameters
    ----------
    frames : ndarray of uint8 (n, n_pixels, n_channels)
    weights : ndarray of float32 (k, len(pixels))
        Of the frames that are asked, at these pixels.
    picks : ndarray of int (k,)
        The frames that are asked.
    H : ndarray of float32 (r, n_pixels, n_channels)
    codes : ndarray of float32 (r, n)
    near, apart, held, stronger, second : float
        NEAR, APART, HELD, STRONGER and SECOND_SHARE.
    first : ndarray of float32 (len(pixels), n_channels)
        Gets the level that replaces the present one, 0 where none does.
    other : ndarray of float32 (len(pixels), n_channels)
        Gets a second level, 0 where there is none.
    share : ndarray of float32 (len(pixels),)
        Gets its share of the support.
    pixels : ndarray of int
    """
    k, n_channels = len(picks), frames.shape[2]
    y = np.empty((k, n_channels), np.float32)
    grey = np.empty(k, np.float32)
    w = np.empty(k, np.float32)
    order = np.empty(k, np.int64)
    level = np.empty(n_channels, np.float32)
    for at in range(len(pixels)):
        pixel = pixels[at]
        total = np.float32(0)
        present = np.float32(0)
        for i in range(k):
            t = picks[i]
            inside = True
            mean = np.float32(0)
            for c in range(n_channels):
                b = np.float32(0)
                for component in range(codes.shape[0]):
                    b += codes[component, t] * H[component, pixel, c]
                y[i, c] = np.float32(frames[t, pixel, c]) - min(b, np.float32(255))
                inside = inside and abs(y[i, c]) <= near
                mean += y[i, c]
            grey[i] = mean / np.float32(n_channels)
            w[i] = weights[i, at]
            total += w[i]
            if inside:
                present += w[i]
        share[at] = 0
        for c in range(n_channels):
            first[at, c] = 0
            other[at, c] = 0
        if present >= (1 - second) * total:
            continue
        for i in range(k):  # insertion: k is small
            j = i
            while j > 0 and grey[order[j - 1]] > grey[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
        if present < held * total:
            support = _densest(y, grey, w, order, near, level, first[at], -1.0)
            if support > stronger * present:
                for c in range(n_channels):
                    first[at, c] = level[c]
        support = _densest(y, grey, w, order, near, level, first[at], apart)
        if support >= second * total:
            share[at] = support / total
            for c in range(n_channels):
                other[at, c] = level[c]


@kernel
def tell_levels(frames, picks, H, codes, typical, first, other, apart, pixels, sides):  # type: ignore[no-untyped-def]
    """Tell which of two levels some pixels show: -1 the first, 1 the second, 0 neither.

    Parameters
    ----------
    frames : ndarray of uint8 (n, n_pixels, n_channels)
    picks : ndarray of int (k,)
        The frames that are asked.
    H : ndarray of float32 (r, n_pixels, n_channels)
    codes : ndarray of float32 (r, n)
    typical : ndarray of float32 (r,)
        Codes of the light that the levels are seen in.
    first, other : ndarray of uint8 (n_pixels, n_channels)
    apart : float
        APART: what is as far from both shows neither.
    pixels : ndarray of int (m,)
    sides : ndarray of int8 (k, m)
        Gets the answers.
    """
    n_channels = frames.shape[2]
    apart = np.float32(apart)
    for i in range(len(picks)):
        t = picks[i]
        for at in range(len(pixels)):
            pixel = pixels[at]
            to_first = to_other = np.float32(0)
            for c in range(n_channels):
                y = np.float32(frames[t, pixel, c])
                for component in range(codes.shape[0]):
                    y += (typical[component] - codes[component, t]) * H[component, pixel, c]
                to_first = max(to_first, abs(y - np.float32(first[pixel, c])))
                to_other = max(to_other, abs(y - np.float32(other[pixel, c])))
            near = min(to_first, to_other) < apart
            sides[i, at] = np.int8(near & (to_other < to_first)) - np.int8(near & (to_first < to_other))


@kernel(part=True)
def _densest(y, grey, w, order, near, level, away, apart):  # type: ignore[no-untyped-def]
    """Write to `level` where samples further than `apart` from `away` are densest; return their weight."""
    k, n_channels = y.shape
    best = np.float32(0)
    low = high = 0
    i = 0
    inside = np.float32(0)
    for j in range(k):
        if _is_far(y[order[j]], away, apart):
            inside += w[order[j]]
        while grey[order[j]] - grey[order[i]] > 2 * near:
            if _is_far(y[order[i]], away, apart):
                inside -= w[order[i]]
            i += 1
        if inside > best:
            best, low, high = inside, i, j + 1
    if best <= 0:
        return best
    for c in range(n_channels):
        level[c] = 0
        for at in range(low, high):
            if _is_far(y[order[at]], away, apart):
                level[c] += w[order[at]] * y[order[at], c]
        level[c] /= best
    support = np.float32(0)
    for at in range(low, high):
        belongs = _is_far(y[order[at]], away, apart)
        for c in range(n_channels):
            belongs = belongs and abs(y[order[at], c] - level[c]) <= 1.5 * near
        if belongs:
            support += w[order[at]]
    return support


@kernel(part=True)
def _is_far(sample, away, apart):  # type: ignore[no-untyped-def]
    far = False
    for c in range(len(sample)):
        far = far or abs(sample[c] - away[c]) > apart
    return far


def correct_scene(frames: FrameArray, weights: FrameArray, H: Floats, Wt: Floats, shape: tuple[int, ...]) -> Floats:
    """Return the components with the scene where it rests.

    Parameters
    ----------
    frames : ndarray of uint8 (n, n_pixels, channels)
    weights : ndarray of uint8 (n, n_pixels)
        How still each pixel is, 1 to 255.
    H : ndarray of float32 (n_components, n_pixels, channels)
        Changed in place; as it was where the frames are too few or of too different light to say.
    Wt : ndarray of float32 (n_components, n)
    shape : (int, int)
        Height and width.

    Returns
    -------
    ndarray of float32 (n_components, n_pixels, channels)
        `H` itself.
    """
    light = Wt.sum(axis=0)
    low, high = (bound * float(np.median(light)) for bound in LIGHT)
    picks = np.flatnonzero((light >= low) & (light <= high))
    if len(picks) < max(FEWEST, SHARE_IN_LIGHT * len(light)):
        return H
    picks = picks[np.linspace(0, len(picks) - 1, min(len(picks), FRAMES)).round().astype(int)]
    n_pixels, channels = frames.shape[1:]
    typical = np.median(Wt[:, picks], axis=1).astype(np.float32)
    # bytes, and everything else in blocks: large pictures are large
    first, other = np.empty((2, n_pixels, channels), np.uint8)
    replaced, found = np.zeros((2, n_pixels), np.bool_)
    still = np.arange(256, dtype=np.float32) / 255
    sharp = still / (SHARPEN - (SHARPEN - 1) * still)

    def fill(block: tuple[int, int]) -> None:
        start, stop = block
        first[start:stop] = other[start:stop] = to_uint8(_shown(H[:, start:stop], typical))
        w = np.asarray(cv2.LUT(weights[picks, start:stop], sharp), np.float32)
        distances, support = np.empty((stop - start) * channels, np.float32), np.empty((4, stop - start), np.float32)
        asked = np.empty(stop - start, np.bool_)
        weigh_levels(frames, w, picks, H, Wt, NEAR, APART, HELD, SECOND_SHARE, distances, support, asked, start)
        at = np.flatnonzero(asked)
        if not len(at):
            return
        w = np.ascontiguousarray(w[:, at])  # of one pixel it is, of more it is not: the kernel would be compiled twice
        levels, share = np.empty((2, len(at), channels), np.float32), np.empty(len(at), np.float32)
        at += start
        find_levels(frames, w, picks, H, Wt, NEAR, APART, HELD, STRONGER, SECOND_SHARE, levels[0], levels[1], share, at)
        replaced[at], found[at] = (levels[0] != 0).any(axis=1), share > 0
        first[at], other[at] = to_uint8(levels + _shown(H[:, at], typical))

    map_blocks(fill, blocks(n_pixels, BLOCK_PIXELS))
    alone = np.flatnonzero(replaced)
    replaced = cv2.medianBlur(replaced.reshape(shape).astype(np.uint8), 5).ravel() > 0
    alone = alone[~replaced[alone]]

    def put_back(block: tuple[int, int]) -> None:
        at = alone[slice(*block)]
        first[at] = to_uint8(_shown(H[:, at], typical))

    map_blocks(put_back, blocks(len(alone), BLOCK_PIXELS))

    def sides(pixels: NDArray[np.intp]) -> Sides:
        """Return which level the frames show at some pixels: -1 the first, 1 the second, 0 neither."""
        result = np.empty((len(picks), len(pixels)), np.int8)
        tell_levels(frames, picks, H, Wt, typical, first, other, APART, pixels, result)
        return result

    resting = _resting(first, other, found, shape, sides)
    first[resting] = other[resting]
    changed = np.flatnonzero(replaced | resting)
    if len(changed):
        _show(H, first, typical, changed, shape)
    return H


def _shown(H: Floats, codes: Floats) -> Floats:
    """Return what components (n_components, n_pixels, channels) show in one light."""
    return np.asarray(np.tensordot(codes, H, 1), np.float32)


def _show(H: Floats, scene: FrameArray, typical: Floats, pixels: NDArray[np.intp], shape: tuple[int, ...]) -> None:
    """Make the components show a scene (n_pixels, channels) at some pixels.

    Each is the scene times its light: the component over what is typical, over neighbourhoods, so that it is known
    also where the present scene is black.
    """
    side = max(shape) // 8 | 1

    def blurred(picture: Floats) -> Floats:
        return np.asarray(cv2.blur(picture.reshape(shape), (side, side)), np.float32).ravel()[pixels]

    means = H.mean(axis=(1, 2))
    overall = max(float(typical @ means), 1e-6)
    for c in range(H.shape[2]):  # one by one: large pictures are large
        usual = _shown(H[..., c], typical)
        below = blurred(usual)
        for component, mean in zip(H, means, strict=True):
            ratio = np.full_like(below, mean / overall)
            np.divide(blurred(np.ascontiguousarray(component[:, c])), below, ratio, where=below > 1)
            component[pixels, c] = scene[pixels, c] * ratio


def _resting(
    scene: FrameArray,
    other: FrameArray,
    found: NDArray[np.bool_],
    shape: tuple[int, ...],
    sides: Callable[[NDArray[np.intp]], Sides],
) -> NDArray[np.bool_]:
    """Return the pixels whose second level is the scene (n_pixels,).

    Each region in which there are two levels shows two pictures, as somebody was there or not; which level belongs to
    which picture is read off from when they are seen. The picture with the weaker contour is the scene, unless neither
    is much weaker, or they take turns too often for something that rests.
    """
    height, width = shape
    found = found.reshape(shape)
    count, labels, statistics, _ = cv2.connectedComponentsWithStats(_closed(found).astype(np.uint8))
    levels = scene.reshape(height, width, -1), other.reshape(height, width, -1)
    resting = np.zeros(shape, bool)
    margin = 2 * CONTOUR + 6
    for region in range(1, count):
        x, y, w, h, area = statistics[region]
        if area < REGION_SHARE * height * width:
            continue
        inside = (labels == region) & found
        if not inside.any():  # in small pictures: a pixel that closing alone has found
            continue
        turned, follows, changes = _pictures(np.flatnonzero(inside), sides)
        if changes > CHANGES:
            continue
        swap = np.zeros(shape, bool)
        swap[inside] = turned
        inside[inside] = follows
        box = slice(max(0, y - margin), y + h + margin), slice(max(0, x - margin), x + w + margin)
        inner, outer = _contour(_closed(inside[box]))
        counts = inside[box][inner] & ~inside[box][outer]
        if np.count_nonzero(counts) < CONTOUR_PIXELS:
            continue
        around, here, beside = (level[box][at][counts].astype(np.float32) for level, at in
                                ((levels[0], outer), (levels[0], inner), (levels[1], inner)))  # fmt: skip
        swapped = swap[box][inner][counts][:, None]
        present, absent = (
            np.minimum(np.abs(picture - around).mean(axis=1), CONTRAST_CAP).mean()
            for picture in (np.where(swapped, beside, here), np.where(swapped, here, beside))
        )
        if min(present, absent) < SMOOTHER * max(present, absent):
            resting |= inside & (swap if present < absent else ~swap)
    return resting.ravel()


def _closed(found: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return found pixels without single ones and small gaps (height, width)."""
    clean = cv2.medianBlur(found.astype(np.uint8), 5)
    return cv2.morphologyEx(clean, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8)) > 0


def _pictures(
    pixels: NDArray[np.intp], sides: Callable[[NDArray[np.intp]], Sides]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], int]:
    """Tell which levels of a region's pixels are seen together.

    Returns
    -------
    ndarray of bool (n_pixels,)
        Where the second level belongs to the one picture, the first to the other.
    ndarray of bool (n_pixels,)
        Which pixels show the one or the other picture, as most do, and nothing of their own.
    int
        How often the pictures change.
    """
    few = sides(pixels[:: -(-len(pixels) // COURSE_PIXELS)]).astype(np.float32)
    centred = few - few.mean(axis=0)
    course = np.linalg.eigh(centred @ centred.T)[1][:, -1]
    few *= np.where(course @ few < 0, -1, 1)
    together = np.where(few.sum(axis=1) > 0, 1, -1).astype(np.float32)
    turned, follows = np.empty((2, len(pixels)), np.bool_)

    def fill(block: tuple[int, int]) -> None:
        part = slice(*block)
        shown = sides(pixels[part]).astype(np.float32)
        turned[part] = course @ shown < 0
        follows[part] = np.where(turned[part], -1, 1) * (together @ shown) >= FOLLOWS * np.abs(shown).sum(axis=0)

    map_blocks(fill, blocks(len(pixels), BLOCK_PIXELS))
    return turned, follows, int(np.count_nonzero(together[1:] != together[:-1]))


def _contour(within: NDArray[np.bool_]) -> tuple[tuple[NDArray[np.intp], ...], tuple[NDArray[np.intp], ...]]:
    """Return the pixels on either side of a region's contour, pair by pair; none near the border of the picture."""
    height, width = within.shape
    if not within.any() or within.all():
        nothing = np.empty(0, np.intp)
        return (nothing, nothing), (nothing, nothing)
    inside = within.astype(np.uint8)
    depth = cv2.distanceTransform(inside, cv2.DIST_L2, 5)
    signed = cv2.GaussianBlur(depth - cv2.distanceTransform(1 - inside, cv2.DIST_L2, 5), (0, 0), 2)
    rows, columns = np.nonzero((depth > 0) & (depth <= 1.5))
    above, below = np.maximum(rows - 1, 0), np.minimum(rows + 1, height - 1)
    before, after = np.maximum(columns - 1, 0), np.minimum(columns + 1, width - 1)
    down = (signed[below, columns] - signed[above, columns]) / np.maximum(below - above, 1)
    right = (signed[rows, after] - signed[rows, before]) / np.maximum(after - before, 1)
    step = CONTOUR / (np.hypot(down, right) + 1e-6)
    move = (step * down).round().astype(int), (step * right).round().astype(int)
    ends = (rows + move[0], columns + move[1]), (rows - move[0], columns - move[1])
    inner, outer = ends
    seen = np.ones(len(rows), bool)
    for y, x in ends:
        seen &= (y >= 0) & (y < height) & (x >= 0) & (x < width)
    return (inner[0][seen], inner[1][seen]), (outer[0][seen], outer[1][seen])
