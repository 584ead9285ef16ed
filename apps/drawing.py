"""Contact sheets of small grey images, and figures of matplotlib, as the applications draw them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_matplotlib
from visionnmf.io import output_file

Array = NDArray[Any]

GAP = 2  # white pixels between tiles
LEAST_TILE = 64  # pixels; smaller images are enlarged by a whole number
ACROSS = 10  # components in a row


def tiled(rows: Iterable[Iterable[Array]]) -> NDArray[np.uint8]:
    """Lay colour images (height, width, 3) of one size out in rows on a white sheet, with gaps of 2 pixels."""
    large = [[enlarged(picture, LEAST_TILE) for picture in row] for row in rows]
    height, width = large[0][0].shape[:2]
    tall, wide = height + GAP, width + GAP
    sheet = np.full((len(large) * tall - GAP, max(map(len, large)) * wide - GAP, 3), 255, np.uint8)
    for i, row in enumerate(large):
        for j, picture in enumerate(row):
            sheet[i * tall : i * tall + height, j * wide : j * wide + width] = picture
    return sheet


def enlarged(picture: Array, least: int) -> Array:
    """Return a picture enlarged by the smallest whole number with which its longer side has `least` pixels."""
    times = max(1, -(-least // max(picture.shape[:2])))  # the quotient, rounded up
    return picture.repeat(times, axis=0).repeat(times, axis=1)


def grey_pictures(values: Array, image_shape: tuple[int, int]) -> NDArray[np.uint8]:
    """Return rows of grey values, 0 to 255, as colour images of uint8 (n_images, height, width, 3)."""
    grey = np.clip(np.rint(values), 0, 255).astype(np.uint8).reshape(-1, *image_shape)
    return np.repeat(grey[..., None], 3, axis=-1)


def components_picture(
    components: Array, image_shape: tuple[int, int], *, most: int = 50, across: int = ACROSS
) -> NDArray[np.uint8]:
    """Show the components with the most contrast (standard deviation), each scaled so that its maximum is white.

    Parameters
    ----------
    components : ndarray [shape=(n_components, n_pixels), >= 0]
    image_shape : tuple of (int, int)
        Height and width.
    most : int, default=50
        The maximum number of components shown.
    across : int, default=10
        The number of components in a row.

    Returns
    -------
    ndarray of uint8 [shape=(rows, columns, 3)]

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.drawing import components_picture
    >>> components_picture(np.random.default_rng(0).random((4, 30)), (6, 5)).dtype
    dtype('uint8')
    """
    shown = components[np.argsort(-components.std(axis=1), kind="stable")[:most]]
    peaks = shown.max(axis=1, keepdims=True)
    grey = grey_pictures(255 * shown / np.where(peaks > 0, peaks, 1), image_shape)
    across = min(across, len(grey))
    return tiled([list(grey[start : start + across]) for start in range(0, len(grey), across)])


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of this size in inches; without pyplot, which would keep it in memory."""
    check_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, path: str | Path, *, force: bool = True) -> None:
    """Write a figure as PNG or, by the suffix, SVG; by default the caller has checked what may be replaced."""
    kind = Path(path).suffix[1:]
    with output_file(path, force=force) as temporary:
        # Without a date, and without a ground, which on a dark page would be white.
        options = {"metadata": {"Date": None}, "transparent": True} if kind == "svg" else {}
        figure.savefig(temporary, dpi=120, format=kind, **options)
