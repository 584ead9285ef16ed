"""Removing shadows and highlights from images of people under changing light."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array

from visionnmf import NMF, choices
from visionnmf._checks import check_count
from visionnmf._progress import Steps
from visionnmf._text import counted
from visionnmf.apps.drawing import grey_pictures, tiled
from visionnmf.apps.report import Report
from visionnmf.apps.settings import takes_records
from visionnmf.datasets import Faces
from visionnmf.exceptions import ParameterError
from visionnmf.io import check_outputs, check_outside, output_folder, write_image

from .images import check_images
from .reading import open_faces
from .settings import FaceReading, ShadowRemoval

Array = NDArray[Any]

MOST_SHOWN = 10  # images of the picture
BRIGHT = 0.95  # quantile of an image's pixels
CHANGED = 25.5  # grey levels, a tenth of white


def remove_shadows(
    X: ArrayLike, *, n_components: int = choices.FACE_SHADOW_COMPONENTS, random_state: Any = 0
) -> tuple[Array, Array]:
    """Split images of one person under different light into the face without shadows and the shadows.

    Images of a matt, convex object under distant lights lie near a subspace of few dimensions (Basri and Jacobs 2003);
    cast shadows and highlights are the outliers of the Manhattan loss (MahNMF, section 5.4.2). In an image that is more
    than half in shadow the light is the outlier: it is removed, and the image comes out dark.

    Parameters
    ----------
    X : array-like [shape=(n_images, n_pixels), >= 0]
        Images of one person as rows.
    n_components : int, default=3
        Dimensions of the subspace.
    random_state : int, default=0
        Seed of the start.

    Returns
    -------
    faces : ndarray [shape=(n_images, n_pixels), >= 0]
        ``W H``.
    shadows : ndarray [shape=(n_images, n_pixels)]
        ``X - W H``: negative in shadows, positive in highlights.

    Raises
    ------
    ValueError
        If `X` is not a matrix of finite, non-negative numbers, or has no more images than `n_components`.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.faces import remove_shadows
    >>> X = np.random.default_rng(0).uniform(50, 200, (8, 30))
    >>> [part.shape for part in remove_shadows(X)]
    [(8, 30), (8, 30)]
    """
    check_images(X)
    data = check_array(X, dtype=[np.float64, np.float32], ensure_non_negative=True, input_name="X")
    if len(data) <= check_count(n_components, "n_components"):
        raise ParameterError(
            f"X must have more than {n_components} images of one person under different light, because fewer have no "
            f"shadows in common that could be told from the face; got {len(data)}; give more images or a smaller "
            "n_components"
        )
    # in the Manhattan loss, the default, whose outliers are the shadows; always 200 iterations, which are enough here
    options = {"max_iter": 200, "tol": 0, "random_state": random_state, "measure_optimality": False}
    model = NMF(min(n_components, data.shape[1]), **options)
    faces = model.inverse_transform(model.fit_transform(data))
    return faces, data - faces


@takes_records
def unshadow(
    source: str | Path,
    out: str | Path,
    *,
    removal: ShadowRemoval = ShadowRemoval(),
    reading: FaceReading = FaceReading(),
    force: bool = False,
    progress: Steps | None = None,
) -> Report:
    """Remove shadows and highlights from images of people under changing light, person by person.

    Parameters
    ----------
    source : str or Path
        As for :func:`~visionnmf.apps.faces.train`. Images without names are taken for images of one person.
    out : str or Path
        Folder for ``NAME_unshadowed.png`` (in sub-folders like those of `source`, or numbered if it is not a folder)
        and for ``shadows.png``, which shows ten of the images, the same without shadows, and what was removed. It must
        not lie inside `source`.
    removal : ShadowRemoval
        How shadows are removed.
    reading : FaceReading
        How the images are read.
    force : bool, default=False
        Whether existing files may be replaced; the images themselves never are.
    progress : callable, optional
        Called as ``progress(done, total)`` after each person.

    Returns
    -------
    Report
        Its figures are ``images``, ``people``, ``changed`` (mean share of the pixels that changed by more than a tenth
        of white), and ``dark`` (number of images that lie mostly in shadow: their light counted as the outlier, and
        they lost half of it or more). People with no more images than dimensions are left out.

    Raises
    ------
    ParameterError
        If nobody has more images than dimensions, or `out` lies in `source`.
    MediaError
        If the images cannot be read, or a file cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.faces import unshadow
    >>> len(unshadow("people", "unshadowed", force=True).outputs)
    13
    """
    check_outside(out, source)
    faces, skipped = open_faces(source, reading=reading)
    people = _enough_images(faces, removal.n_components, source, skipped)
    kept = np.flatnonzero(np.isin(faces.labels, people))
    X, labels = faces.images[kept].reshape(len(kept), -1).astype(np.float32), faces.labels[kept]
    images, sheet = _outputs(Path(out), faces, kept), Path(out) / "shadows.png"
    inputs = [Path(source) / name for name in faces.files]
    check_outputs([*images, sheet], force, inputs=inputs)
    for folder in {path.parent for path in (*images, sheet)}:
        output_folder(folder)
    found = np.empty_like(X)
    for done, label in enumerate(people, 1):
        own = labels == label
        # the faces, without the shadows, which are the difference
        found[own] = remove_shadows(X[own], n_components=removal.n_components, random_state=removal.random_state)[0]
        if progress is not None:
            progress(done, len(people))
    shape = (faces.images.shape[1], faces.images.shape[2])
    for path, image in zip(images, np.clip(np.rint(found), 0, 255).astype(np.uint8).reshape(-1, *shape), strict=True):
        write_image(path, image, force=force)
    shown = np.linspace(0, len(X) - 1, min(MOST_SHOWN, len(X))).astype(int)
    panels = (X[shown], found[shown], 127.5 + (X[shown] - found[shown]) / 2)  # shadows are darker than middle grey
    write_image(sheet, tiled([list(grey_pictures(panel, shape)) for panel in panels]), force=force)
    # An image that lost half of the brightness of its lit pixels counts as dark.
    before, after = np.quantile(X, BRIGHT, axis=1), np.quantile(found, BRIGHT, axis=1)
    changed, dark = float((np.abs(found - X) > CHANGED).mean()), int((after < before / 2).sum())
    who = counted(len(people), "person", "people")
    lines = [f"{counted(len(X), 'image')} of {who}; {changed:.1%} of the pixels changed by more than a tenth of white"]
    lines += [f"mostly in shadow, and dark in the results: {counted(dark, 'image')}"] * (dark > 0)
    return Report(
        figures={"images": len(X), "people": len(people), "changed": changed, "dark": dark},
        lines=lines,
        inputs=[str(source)],
        outputs=[str(path) for path in (*images, sheet)],
        skipped=skipped,
    )


def _enough_images(faces: Faces, n_components: int, source: str | Path, skipped: list[str]) -> NDArray[np.integer]:
    """Return the labels of people with more images than dimensions; append a sentence about each other to `skipped`."""
    people, counts = np.unique(faces.labels, return_counts=True)
    for label, count in zip(people[counts <= n_components], counts[counts <= n_components], strict=True):
        who = f"{faces.names[label - 1]}: " if label and faces.names else ""
        skipped.append(
            f"{who}images: {count}; at least {n_components + 1} under different light are needed to find shadows"
        )
    if counts.max() <= n_components:
        raise ParameterError(
            f"source must have more than {n_components} images of a person under different light; got at most "
            f"{counts.max()} in {source}"
        )
    return people[counts > n_components]


def _outputs(out: Path, faces: Faces, rows: NDArray[np.intp]) -> list[Path]:
    """Return the path of a PNG file in `out` for each image in `rows`, after its file; suffixes keep names apart."""
    names = [faces.files[row] if faces.files else f"{row:04d}" for row in rows]
    stems = [Path(name).with_suffix("") for name in names]
    if len(set(stems)) < len(stems):
        stems = [Path(name) for name in names]
    return [out / stem.with_name(f"{stem.name}_unshadowed.png") for stem in stems]
