"""Distances from people of images whose faces may be covered: by sunglasses, scarves, hands and other things."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from skimage.measure import block_reduce
from sklearn.preprocessing import normalize

from visionnmf.engine.blocks import one_blas_thread

from .distances import Discriminant, Mixture, Weights, relative_distances

Array = NDArray[np.floating]
Labels = NDArray[np.intp]
Mask = NDArray[np.bool_]

# Chosen on splits 0 and 1 of ORL, UMIST, Yale and LFW, with occlusions made of photographs; docs/decisions/faces.md.
PARTS = ((0.5, 1, 0, 1), (0.2, 0.52, 0, 1), (0, 1, 0, 0.5), (0, 1, 0.5, 1))  # top, bottom, left, right, as shares
LEAST_SIDE = 16  # pixels; digits of 8 x 8 with noise lose by being divided, made faces of 16 x 16 gain
CLEAR = 0.45  # mean ratio of the nearest distance and the others, below which a person is named without looking further
CANDIDATES = 2  # people nearest by each part who are compared
WEIGHT = 0.4  # of the logarithm of robust distances, beside that of discriminants
SCALE = 0.65  # of the logarithm of both, which makes those of unknown people as small as by all pixels
# Of robust residuals, chosen on split 0
SIDE = 32  # images are averaged until their shorter side is less than twice this
SMOOTHING = 0.7  # pixels, of squared residuals: neighbours are mostly covered together, but dead pixels stand alone
LIMIT = 0.15  # of the root mean square of an image: residuals of that size count half
USUAL = 0.05  # of the same: the residual that costs as much as a difference of the usual size
CALM = 0.2  # of the same: the noise up to which both stay so; covered faces and dead pixels mostly stay below it
NOISY = 2.0  # limits grow by so many times the further noise
DIFFERENCES = 20  # directions in which images of one person differ, whoever it is
OWN_DIFFERENCES = 4  # at most, directions in which images of this person differ
SHARE = 0.02  # of the pixels: with so many more that are not explained, the distance is e times as large
MOST_EXPONENT = 80.0  # the exponential function of more is infinite in float32
ROUNDS = 4  # of reweighting


class CoveredFaces:
    """The distance of a :class:`.Mixture`, and where it is not clear, distances by what is left of a covered face.

    A face may have its lower half, its eyes, its left or its right half covered, or nothing. Without each of these
    parts, linear discriminants of the other pixels give a relative distance from each person. Unknown people have about
    the same ones whatever is left out, so these distances can be compared, and the least is taken. It is multiplied by
    a power of the relative distance of :class:`RobustResidual`, the smaller one with nothing left out and without the
    part by which somebody is nearest.
    """

    def __init__(self, weights: Weights, image_shape: tuple[int, int]) -> None:
        self.weights, self.image_shape = weights, image_shape

    def fit(self, X: Array, y: Labels) -> CoveredFaces:
        """Learn people `y`, numbered from 0 without gaps, from images as rows."""
        self.whole_ = Mixture(self.weights).fit(X, y)
        (height, width), everything = self.image_shape, np.ones(self.image_shape, bool)
        seen = [everything]
        for top, bottom, left, right in PARTS:
            seen.append(everything.copy())
            seen[-1][round(top * height) : round(bottom * height), round(left * width) : round(right * width)] = False
        self.seen_ = np.array(seen).reshape(len(seen), -1)  # (1 + n_parts, n_pixels); of the first, all pixels
        whole = next((part for part in self.whole_.parts_ if isinstance(part, Discriminant)), None)
        self.discriminants_ = [whole or Discriminant().fit(X, y)]
        self.discriminants_ += [Discriminant().fit(X[:, pixels], y) for pixels in self.seen_[1:]]
        self.robust_ = RobustResidual(self.image_shape).fit(X, y)
        self.seen_reduced_ = (self.robust_.averaged(self.seen_) == 1).astype(X.dtype)  # with nothing left out
        return self

    @one_blas_thread()  # products and systems are so small that threads wait for each other most of the time
    def distances(self, cleaned: Array, images: Array, noise: Array) -> Array:
        """Return the distance of each image from each person, (n_images, n_people).

        `cleaned` are images as :class:`.Mixture` compares them, `images` the same with only their missing pixels
        replaced, and `noise` (n_images,) is the standard deviation of the noise of their pixels.
        """
        relative = relative_distances(self.whole_.distances(cleaned))
        n_people = relative.shape[1]
        ratios = (relative.min(axis=1) * n_people - 1) / max(n_people - 1, 1)
        unclear = np.flatnonzero(ratios >= CLEAR)
        if len(unclear):
            relative[unclear] = self._of_covered(images[unclear], noise[unclear], relative[unclear])
        return relative

    def _of_covered(self, images: Array, noise: Array, relative: Array) -> Array:
        """Return the distances of images, of which all pixels together give the `relative` ones."""
        parts = zip(self.discriminants_, self.seen_, strict=True)
        found = np.array([relative_distances(one.distances(images[:, seen])) for one, seen in parts])
        best = found[1:].min(axis=2).argmin(axis=0) + 1  # the part without which somebody is nearest
        # People who are among the nearest by one of these or by all pixels, (n_images, n_compared), are compared.
        near = np.concatenate([found, relative[None]]).argsort(axis=2)[..., :CANDIDATES].transpose(1, 0, 2)
        reduced, powers = self.robust_.reduced(images), (images**2).mean(axis=1)
        robust = np.empty_like(relative)
        for row, image in enumerate(reduced):
            share = noise[row] ** 2 / max(powers[row], np.finfo(image.dtype).tiny)
            people, seen = np.unique(near[row]), self.seen_reduced_[[0, best[row]]]
            by_all, by_rest = (self.robust_.distances(image, visible, people, share) for visible in seen)
            robust[row] = np.minimum(by_all, by_rest)
        return np.asarray((found.min(axis=0) * robust**WEIGHT) ** SCALE, images.dtype)


class RobustResidual:
    """What a person's mean image and the differences within people leave unexplained of the visible pixels.

    An image is modelled as a multiple of one person's mean image, plus a combination of the directions in which images
    of this person differ, and of those in which images of anybody differ (Deng, Hu, Guo, "Extended SRC", 2012). Their
    coefficients have the variances of the gallery. The residuals have the bounded cost ``e^2 / (1 + e^2 / c^2)``
    (Geman and McClure 1985), where ``e^2`` is averaged over neighbours, so that covered pixels neither bend the fit nor
    decide.

    The cost over ``c^2`` is about the number of pixels that are not explained. The distance grows exponentially with
    their share: pixels that nobody explains multiply the distances from all people by one number, so they do not make
    people alike. `image_shape` is (height, width).
    """

    def __init__(self, image_shape: tuple[int, int]) -> None:
        self.image_shape = image_shape

    def fit(self, X: Array, y: Labels) -> RobustResidual:
        """Learn people `y`, numbered from 0 without gaps, from images as rows."""
        # `means_` (n_people, n_pixels) are mean images, `common_` (n_common, n_pixels) the directions in which images
        # of anybody differ, and `own_` (n_people, n_own, n_pixels) those of a person, with rows of 0 for people with
        # few images; `spread_` and `own_spread_` are the variances.
        images = self.reduced(X)
        self.means_ = np.array([images[y == person].mean(axis=0) for person in range(y.max() + 1)])
        deviations = images - self.means_[y]
        self.common_, self.spread_ = _directions(deviations, DIFFERENCES, len(images) - len(self.means_))
        most = min(OWN_DIFFERENCES, int(np.bincount(y).max()) - 1)
        self.own_ = np.zeros((len(self.means_), most, images.shape[1]), images.dtype)
        self.own_spread_ = np.zeros(self.own_.shape[:2], images.dtype)
        for person in range(len(self.means_)):
            own = deviations[y == person]
            # deviations from a mean have one direction less than images
            kept, sizes = _directions(own, min(most, len(own) - 1), len(own) - 1)
            self.own_[person, : len(kept)], self.own_spread_[person, : len(kept)] = kept, sizes
        return self

    def reduced(self, X: Array) -> Array:
        """Return the images as rows of unit norm, averaged over squares if they are large."""
        return normalize(self.averaged(X).astype(X.dtype, copy=False))

    def averaged(self, X: Array | Mask) -> Array:
        """Return the means of rows of pixels over squares of pixels, if the images are large."""
        factor, (height, width) = _reduction(self.image_shape)
        # what does not fill a square is cut off: block_reduce would add black pixels
        images = np.asarray(X).reshape(-1, *self.image_shape)[:, : height * factor, : width * factor]
        return np.asarray(block_reduce(images, (1, factor, factor), np.mean).reshape(len(images), -1))

    def distances(self, image: Array, visible: Array, people: Labels, noise: float) -> Array:
        """Return relative distances from all people (n_people,) of a reduced image; some `people` are compared.

        The others are as far as the furthest of these. `visible` is 0 at pixels that do not count, and `noise` the
        variance of the pixels' noise over the mean square of the image.
        """
        # `scale` is the square of the residual that counts half, and `usual` that of the residual that costs as much as
        # a difference of the usual size. Without noise they are LIMIT**2 and USUAL**2, and noise beyond CALM**2 raises
        # both. The constants are for images with a mean square of 1, and these have norm 1, hence the division.
        more = max(float(noise) - CALM**2, 0)
        scale, usual = (LIMIT**2 + NOISY**2 * more) / len(image), (USUAL**2 + more) / len(image)
        common = np.broadcast_to(self.common_, (len(people), *self.common_.shape))
        basis = np.concatenate([self.means_[people, None], common, self.own_[people]], axis=1)
        spread = np.concatenate([np.broadcast_to(self.spread_, common.shape[:2]), self.own_spread_[people]], axis=1)
        # The coefficient of the mean image is free; those of the differences cost more the further they are from usual.
        # Directions without variance are rows of 0 that only fill up an array; any positive cost leaves them out.
        ridges = np.full(basis.shape[:2], 1e-6, image.dtype)
        ridges[:, 1:] = usual / np.where(spread > 0, spread, usual)
        diagonals = ridges[:, :, None] * np.eye(basis.shape[1], dtype=image.dtype)
        # Iteratively reweighted least squares: pixels with large residuals, which are probably covered, count less.
        weights = np.repeat(visible[None], len(people), axis=0)
        for _ in range(ROUNDS):
            weighted = basis * weights[:, None]
            normal = weighted @ basis.transpose(0, 2, 1) + diagonals
            coefficients = np.linalg.solve(normal, (weighted @ image)[..., None])[..., 0]
            # averaged over neighbours, because covers are connected
            squares = self._smoothed((image - (coefficients[:, None] @ basis)[:, 0]) ** 2 * visible)
            weights = visible / (1 + squares / scale) ** 2  # half the derivative of the cost by the square
        costs = (visible * squares / (1 + squares / scale)).sum(axis=1)
        costs += (coefficients[:, 1:] ** 2 * ridges[:, 1:]).sum(axis=1)
        # The cost over `scale` is about the number of unexplained pixels.
        distances = np.exp(np.minimum(costs / scale / len(image) / SHARE, MOST_EXPONENT))
        everybody = np.full((1, len(self.means_)), distances.max(), image.dtype)
        everybody[0, people] = distances
        return relative_distances(everybody)[0]

    def _smoothed(self, squares: Array) -> Array:
        """Return squared residuals (n_compared, n_pixels) averaged over neighbours."""
        pictures = squares.reshape(-1, *_reduction(self.image_shape)[1])  # the height and width of reduced images
        return np.asarray(gaussian_filter(pictures, (0, SMOOTHING, SMOOTHING), mode="nearest")).reshape(squares.shape)


def _directions(deviations: Array, most: int, freedom: int) -> tuple[Array, Array]:
    """Return the directions of largest variance, at most so many, and the variances."""
    _, sizes, directions = np.linalg.svd(deviations, full_matrices=False)
    # Directions with less than a thousandth of the largest size are rounding errors.
    kept = min(most, int((sizes > 1e-3 * max(sizes.max(initial=0), 1e-6)).sum()))
    return directions[:kept], sizes[:kept] ** 2 / max(freedom, 1)


def _reduction(image_shape: tuple[int, int]) -> tuple[int, tuple[int, int]]:
    """Return the side of the squares of pixels that are averaged, and the height and width that are left."""
    factor = max(1, min(image_shape) // SIDE)
    return factor, (image_shape[0] // factor, image_shape[1] // factor)
