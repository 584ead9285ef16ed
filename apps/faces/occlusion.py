"""Distances of images from people that are robust to sunglasses, scarves and other things in front of a face."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.special import ndtri
from skimage.measure import block_reduce
from sklearn.base import BaseEstimator
from sklearn.preprocessing import normalize

from visionnmf._checks import check_image_shape
from visionnmf.engine.blocks import one_blas_thread

Array = NDArray[np.floating]
Labels = NDArray[np.intp]
Mask = NDArray[np.bool_]

# Chosen on split 0 of ORL, UMIST, Yale and LFW, with occlusions made of training photographs; docs/decisions/faces.md.
SIDE = 32  # images are averaged until their shorter side is less than twice this
SMOOTHING = 0.7  # pixels, of squared residuals: neighbours are mostly covered together, but dead pixels stand alone
LIMIT = 0.15  # of the root mean square of an image: residuals of that size count half
USUAL = 0.05  # of the same: the residual that costs as much as a difference of the usual size
CALM = 0.2  # of the same: the noise up to which both stay so; covered faces and dead pixels mostly stay below it
QUIET = 0.3  # share of the visible pixels with the smallest residuals, which tell the noise
NOISY = 2.0  # limits grow by so many times the further noise
DIFFERENCES = 30  # directions in which images of one person differ, whoever it is
OWN_DIFFERENCES = 16  # at most, directions in which images of this person differ
SHARE = 0.02  # of the pixels: with so many more that are not explained, the distance is e times as large
MOST_EXPONENT = 80.0  # the exponential function of more is infinite in float32
NEAREST = 8  # people by each of two rough distances who are compared; the others are as far as the furthest of these
ROUNDS = 8  # of reweighting, for one person
# Of the start: collaborative representation with logistic weights (Yang et al. 2013).
START_ROUNDS = 6
START_SHARE = 0.6  # share of the pixels that are taken for visible
START_SLOPE = 8.0
START_RIDGE = 0.01 / 700  # for each image of the gallery


class RobustResidual(BaseEstimator):
    """What a person's mean image and the differences within people leave unexplained of the visible pixels.

    An image is modelled as a multiple of one person's mean image, plus a combination of the directions in which images
    of this person differ, and of those in which images of anybody differ (Deng, Hu, Guo, "Extended SRC", 2012). Their
    coefficients have the variances of the gallery. The residuals have the bounded cost ``e^2 / (1 + e^2 / c^2)``
    (Geman and McClure 1985), where ``e^2`` is averaged over neighbours, so that covered pixels neither bend the fit nor
    decide.

    The cost over ``c^2`` is about the number of pixels that are not explained. The distance grows exponentially with
    their share: pixels that nobody explains multiply the distances from all people by one number, so they do not make
    people alike. The pixels that are visible at the start are those that all images together explain (Yang, Zhang,
    Yang, Zhang, "Regularized robust coding", 2013). The people who are compared are the nearest by this explanation,
    which things in front of a face hardly bend, and the nearest by all pixels, because dense noise spoils the former.

    `image_shape` is (height, width); with None, residuals are not averaged over neighbours and images not reduced.
    """

    def __init__(self, image_shape: tuple[int, int] | None = None) -> None:
        self.image_shape = image_shape  # (height, width) of the rows of X

    def fit(self, X: Array, y: Labels) -> RobustResidual:
        """Learn people `y`, numbered from 0 without gaps, from images as rows."""
        # `means_` (n_people, n_pixels) are mean images, `differences_` (n_differences, n_pixels) directions in which
        # images of anybody differ, with the variances `spread_`, and `own_` (n_people, n_own, n_pixels) those of each
        # person, with the variances `own_spread_`; rows of 0 fill up for those with few images.
        if self.image_shape is not None:
            check_image_shape(self.image_shape, n_pixels=X.shape[1])
        images = self._reduced(X)
        self.people_ = y
        self.means_ = np.array([images[y == person].mean(axis=0) for person in range(y.max() + 1)])
        deviations = images - self.means_[y]
        _, sizes, directions = np.linalg.svd(deviations, full_matrices=False)
        # Directions with less than a thousandth of the largest size are rounding errors.
        n_kept = min(DIFFERENCES, int((sizes > 1e-3 * max(sizes[0], 1e-6)).sum()))
        self.differences_ = directions[:n_kept]
        self.spread_ = sizes[:n_kept] ** 2 / max(len(images) - len(self.means_), 1)
        most = min(OWN_DIFFERENCES, int(np.bincount(y).max()) - 1)
        self.own_ = np.zeros((len(self.means_), most, images.shape[1]), images.dtype)
        self.own_spread_ = np.zeros((len(self.means_), most), images.dtype)
        for person in range(len(self.means_)):
            own = deviations[y == person]
            _, sizes, directions = np.linalg.svd(own, full_matrices=False)
            kept = directions[: min(most, len(own) - 1)]  # deviations from a mean have one direction less than images
            self.own_[person, : len(kept)] = kept
            self.own_spread_[person, : len(kept)] = sizes[: len(kept)] ** 2 / max(len(own) - 1, 1)
        # For collaborative representation: directions of the gallery (r, n_pixels), and the matrix (n_images, r) that
        # turns their coefficients into those of images. One ridge on all of the latter makes that of the coefficient of
        # a direction the ridge over the square of its size.
        left_side, sizes, self._directions = np.linalg.svd(images, full_matrices=False)
        ridge = START_RIDGE * len(images)
        kept = sizes**2 > ridge / 2  # of the others the ridge leaves less than a third
        self._directions = self._directions[kept]
        self._ridges = np.diag(ridge / sizes[kept] ** 2).astype(images.dtype)
        self._images, self._mixing = images, left_side[:, kept] / sizes[kept]
        return self

    @one_blas_thread()  # products and systems are so small that threads wait for each other most of the time
    def distances(self, X: Array, missing: Mask | None = None) -> Array:
        """Return the distance of each image from each person, (n_images, n_people); `missing` pixels are covered."""
        if missing is None:
            visible = np.ones_like(self._reduced(X))
        else:
            X = np.where(missing, 0, X)
            visible = (self._averaged(missing) == 0).astype(X.dtype)  # of reduced pixels, those with nothing missing
        pairs = zip(self._reduced(X) * visible, visible, strict=True)
        return np.array([self._of_image(*pair) for pair in pairs], X.dtype).reshape(len(X), len(self.means_))

    def _reduced(self, X: Array) -> Array:
        """Return the images as rows of unit norm, averaged over squares if they are large."""
        return normalize(self._averaged(X).astype(X.dtype, copy=False))

    def _averaged(self, X: Array | Mask) -> Array:
        """Return the means of rows of pixels over squares of pixels, if the images are large."""
        if self.image_shape is None:
            return np.asarray(X)
        factor, (height, width) = _reduction(self.image_shape)
        # what does not fill a square is cut off: block_reduce would add black pixels
        images = np.asarray(X).reshape(-1, *self.image_shape)[:, : height * factor, : width * factor]
        return np.asarray(block_reduce(images, (1, factor, factor), np.mean).reshape(len(images), -1))

    def _of_image(self, image: Array, visible: Array) -> Array:
        """Return the distances (n_people,) of an image of norm 1; `visible` is 0 at pixels that do not count."""
        # `weights` (n_pixels,) say which pixels seem visible, and `noise` is the variance of the pixels' noise over the
        # mean square of the image.
        by_gallery, weights, noise = self._start(image, visible)
        # The people who are among the nearest by one of two rough distances are compared.
        rough = by_gallery, self._unweighted(image, visible)
        near = np.unique([np.argsort(some, kind="stable")[:NEAREST] for some in rough])
        # `scale` is the square of the residual that counts half, and `usual` that of the residual that costs as much as
        # a difference of the usual size. Without noise they are LIMIT**2 and USUAL**2, and noise beyond CALM**2 raises
        # both. The constants are for images with a mean square of 1, and these have norm 1, hence the division.
        more = max(noise - CALM**2, 0)
        scale, usual = (LIMIT**2 + NOISY**2 * more) / len(image), (USUAL**2 + more) / len(image)
        # For each of these people, the mean image and the differences, (n_near, 1 + n_differences, n_pixels).
        n_common = len(self.differences_)
        basis = np.empty((len(near), 1 + n_common + self.own_.shape[1], len(image)), image.dtype)
        basis[:, 0], basis[:, 1 : 1 + n_common], basis[:, 1 + n_common :] = (
            self.means_[near], self.differences_, self.own_[near]
        )  # fmt: skip
        # The coefficient of the mean image is free; those of the differences cost more the further they are from usual.
        ridges = np.full(basis.shape[:2], 1e-6, image.dtype)
        ridges[:, 1 : 1 + n_common] = _ridge(self.spread_, usual)
        ridges[:, 1 + n_common :] = _ridge(self.own_spread_[near], usual)
        diagonals = ridges[:, :, None] * np.eye(basis.shape[1], dtype=image.dtype)
        # Iteratively reweighted least squares: pixels with large residuals, which are probably covered, count less.
        weights = np.repeat(weights[None], len(near), axis=0)
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
        # People who were not compared are as far as the furthest of those who were.
        everybody = np.full(len(self.means_), distances.max(), image.dtype)
        everybody[near] = distances
        return everybody

    def _unweighted(self, image: Array, visible: Array) -> Array:
        """Return squared distances from all people (n_people,): what the mean image and common differences leave."""
        # A difference of the usual size costs as much as a residual of USUAL times the root mean square of the image,
        # which has norm 1: that is what its ridge says.
        seen = self.differences_ * visible
        normal = seen @ seen.T + np.diag(_ridge(self.spread_, USUAL**2 / len(image)))
        images = np.concatenate([image[None], self.means_ * visible])
        # What the differences leave of each image: its product with the image is the least squared residual plus the
        # costs of the differences.
        left = images - np.linalg.solve(normal, seen @ images.T).T @ seen
        products, squares = left[1:] @ image, (left[1:] * images[1:]).sum(axis=1)
        # Each mean image gets its best multiple, which lowers the squared residual by products**2 / squares.
        return np.asarray(left[0] @ image - products**2 / np.maximum(squares, np.finfo(image.dtype).tiny))

    def _start(self, image: Array, visible: Array) -> tuple[Array, Array, float]:
        """Return distances from all people (n_people,), weights of pixels, and the noise, by all images together."""
        # Iteratively reweighted ridge regression on all images of the gallery; a person's distance is the residual of
        # that person's part over the norm of its coefficients. The noise is the sum of squares that noise alone would
        # have in the whole image. The first residuals are those of the best multiple of the mean of the gallery.
        mean = self._images.mean(axis=0) * visible
        residuals = image - mean * (image @ mean) / max(mean @ mean, np.finfo(image.dtype).tiny)
        for _ in range(START_ROUNDS):
            squares = residuals**2
            kept = squares[visible > 0] if visible.any() else squares
            # A logistic weight: near 1 for small residuals, 1/2 at the 0.6 quantile of the visible pixels, 0 far above.
            limit = max(float(np.quantile(kept, START_SHARE)), np.finfo(image.dtype).tiny)
            weights = visible / (1 + np.exp(np.clip(START_SLOPE * (squares / limit - 1), -50, 50)))
            weights = weights.astype(image.dtype)
            weighted = self._directions * weights
            coefficients = np.linalg.solve(weighted @ self._directions.T + self._ridges, weighted @ image)
            residuals = image - coefficients @ self._directions
        of_images = self._mixing @ coefficients  # of directions of the gallery, turned into those of its images
        far = np.empty(len(self.means_), image.dtype)
        for person in range(len(far)):
            own = of_images[self.people_ == person]
            left = image - own @ self._images[self.people_ == person]
            size = max(np.linalg.norm(own), np.finfo(image.dtype).eps)
            far[person] = np.sqrt((weights * left**2).sum()) / size
        # Of normal residuals the share `QUIET` is below `ndtri(...)` standard deviations.
        best = np.quantile(np.abs(residuals[visible > 0]), QUIET) if visible.any() else 0.0
        return far, weights, float(best / ndtri((1 + QUIET) / 2)) ** 2 * len(image)

    def _smoothed(self, squares: Array) -> Array:
        """Return squared residuals (n_near, n_pixels) averaged over neighbours, if these are known."""
        if self.image_shape is None:
            return squares
        pictures = squares.reshape(-1, *_reduction(self.image_shape)[1])  # the height and width of reduced images
        return np.asarray(gaussian_filter(pictures, (0, SMOOTHING, SMOOTHING), mode="nearest")).reshape(squares.shape)


def _ridge(spread: Array, usual: float) -> Array:
    """Return the costs of squared coefficients: one as large as its standard deviation costs `usual`."""
    # Directions without variance are rows of 0 that only fill up an array. Any positive cost, here 1, leaves them out.
    return np.asarray(usual / np.where(spread > 0, spread, usual), spread.dtype)


def _reduction(image_shape: tuple[int, int]) -> tuple[int, tuple[int, int]]:
    """Return the side of the squares of pixels that are averaged, and the height and width that are left."""
    factor = max(1, min(image_shape) // SIDE)
    return factor, (image_shape[0] // factor, image_shape[1] // factor)
