"""Points with a scale at which local descriptors are taken: a dense grid, and Harris-Laplace corners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_number, check_numbers, shown
from visionnmf.exceptions import ParameterError

MOST_SCALES = 10  # of a dense grid
STEP = 3.0  # in scales; a quarter of a patch

HARRIS_SCALES = 1.2 * 1.4 ** np.arange(8)  # of the windows, in pixels; the first and the last only serve as neighbours
DIFFERENTIATION = 0.7  # the scale of derivatives, as a share of the window's scale
KAPPA = 0.04  # weight of the squared trace in the Harris measure, the usual value
CORNER = 0.005  # least strength, as a share of the strongest corner of the image
FLAT = 1e-9  # cornerness below this is rounding, for brightness from 0 to 1


def check_grid(scales: Any, step: Any) -> None:
    """Raise ParameterError unless `scales`, in pixels, and `step`, in scales, can make a :func:`dense_grid`."""
    if not isinstance(scales, tuple | list) or not 1 <= len(scales) <= MOST_SCALES:
        raise ParameterError(f"scales must be 1 to {MOST_SCALES} numbers from 0.8 to 100; got {shown(scales)}")
    for scale in scales:
        check_number(scale, "scales", 0.8, 100)
    check_number(step, "step", 1, 100)


def grid_size(height: int, width: int, scales: Sequence[float], step: float) -> list[tuple[int, int]]:
    """Return the rows and columns of :func:`dense_grid` for each scale."""
    return [(max(1, int(height / (step * scale))), max(1, int(width / (step * scale)))) for scale in scales]


def dense_grid(height: int, width: int, scales: Sequence[float], step: float) -> NDArray[np.float32]:
    """Return the points of a centred regular grid for each scale: row, column and scale (n, 3), `step` scales apart."""
    found = []
    for scale, shape in zip(scales, grid_size(height, width, scales, step), strict=True):
        rows, columns = (
            _centred(size, step * scale, count) for size, count in zip((height, width), shape, strict=True)
        )
        grid = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)
        found.append(np.column_stack([grid, np.full(len(grid), scale)]))
    return np.concatenate(found).astype(np.float32)


def _centred(size: int, step: float, count: int) -> NDArray[np.float64]:
    """Return `count` positions that are `step` apart, centred in an axis of `size` pixels."""
    offsets = np.arange(count) - (count - 1) / 2
    return np.asarray((size - 1) / 2 + step * offsets, np.float64)


def harris_laplace(grey: NDArray[Any]) -> NDArray[np.float32]:
    """Find corners and the scale of each, by the simplified method of the paper.

    Corners are local maxima of the scale-adapted Harris measure ``det(M) - 0.04 trace(M)^2`` above 0.5 % of the
    strongest. A corner is kept if the Laplacian, multiplied by the square of the scale, is larger there than at the
    two neighbouring scales.

    Parameters
    ----------
    grey : ndarray [shape=(height, width), from 0 to 1]

    Returns
    -------
    ndarray of float32 [shape=(n, 3)]
        Row, column and scale, in pixels, ordered by scale; n can be 0.

    Raises
    ------
    ParameterError
        If `grey` is not a grey image.

    References
    ----------
    K. Mikolajczyk, C. Schmid, "Scale & affine invariant interest point detectors", IJCV 60(1), 2004, section 3.2.

    Examples
    --------
    >>> from skimage.data import camera
    >>> from visionnmf.features import harris_laplace
    >>> harris_laplace(camera()[::4, ::4]).shape[1]
    3
    """
    image = check_numbers(grey, "grey", np.float32)
    if image.ndim != 2 or not image.size:
        raise ParameterError(f"grey must have shape (height, width); got {image.shape}; to_grey8 makes RGB grey")
    laplacians = [_laplacian(image, scale) for scale in HARRIS_SCALES]
    corners = [_cornerness(image, scale) for scale in HARRIS_SCALES[1:-1]]
    # `corners` lacks the first and the last scale, so its level k is level k + 1 of `laplacians`
    least = max(FLAT, CORNER * max(float(corner.max()) for corner in corners))
    found = [np.empty((0, 3))]
    for level, corner in enumerate(corners):
        below, here, above = laplacians[level : level + 3]
        # a pixel equal to the largest value in the 3 x 3 pixels around it is a local maximum
        peak = (corner > least) & (corner == cv2.dilate(corner, np.ones((3, 3), np.uint8)))
        rows, columns = np.nonzero(peak & (here > below) & (here > above))
        found.append(np.column_stack([rows, columns, np.full(len(rows), HARRIS_SCALES[level + 1])]))
    return np.concatenate(found).astype(np.float32)


def _blurred(image: NDArray[Any], scale: float) -> NDArray[Any]:
    """Return an image blurred by a Gaussian whose standard deviation is `scale` pixels."""
    return np.asarray(cv2.GaussianBlur(image, (0, 0), scale, borderType=cv2.BORDER_REPLICATE))


def _laplacian(image: NDArray[Any], scale: float) -> NDArray[Any]:
    """Return the magnitude of the Laplacian of a Gaussian, normalised so that it does not depend on the scale."""
    return np.abs(cv2.Laplacian(_blurred(image, scale), cv2.CV_32F, borderType=cv2.BORDER_REPLICATE)) * scale**2


def _cornerness(image: NDArray[Any], scale: float) -> NDArray[Any]:
    """Return the scale-adapted Harris measure ``det(M) - 0.04 trace(M)^2`` of each pixel, large at corners."""
    fine = DIFFERENTIATION * scale
    smooth = _blurred(image, fine)
    # With ksize 1 and a factor of 0.5 these are central differences. The factor `fine` makes scales comparable.
    dx, dy = (
        cv2.Sobel(smooth, cv2.CV_32F, *order, ksize=1, scale=0.5 * fine, borderType=cv2.BORDER_REPLICATE)
        for order in ((1, 0), (0, 1))
    )
    xx, yy, xy = (_blurred(product, scale) for product in (dx * dx, dy * dy, dx * dy))
    return np.asarray(xx * yy - xy**2 - KAPPA * (xx + yy) ** 2)
