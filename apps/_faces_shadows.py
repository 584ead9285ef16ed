"""Faces under changing light, without their shadows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf import NMF, _options
from visionnmf.exceptions import ParameterError

from ._faces_pictures import shadows_picture
from ._faces_runs import open_faces
from ._files import check_outputs
from ._images import write_image

__all__ = ["Unshadowed", "remove_shadows", "unshadow"]

Array = NDArray[Any]

DIMENSIONS = 3  # of images of a matt, convex object without shadows (Shashua 1997)
MOST_SHOWN = 10  # images of the picture


@dataclass(frozen=True)
class Unshadowed:
    """What :func:`unshadow` did.

    Attributes
    ----------
    images, people : int
    changed : float
        Mean share of the pixels that changed by more than a tenth of white.
    files : list of str
        What was written.
    skipped : list of str
        A sentence for each picture that was left out.
    """

    images: int
    people: int
    changed: float
    files: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return what a JSON report has.

        Returns
        -------
        dict
            Only what JSON knows.
        """
        return {
            "images": self.images,
            "people": self.people,
            "changed": round(self.changed, 4),
            "files": self.files,
            "skipped": self.skipped,
        }

    def summary(self) -> str:
        """Say what was done.

        Returns
        -------
        str
            A few lines.
        """
        people = f"{self.people} people" if self.people > 1 else "one person"
        lines = [
            f"{self.images} images of {people}; {self.changed:.1%} of the pixels changed by more than a tenth of white",
            f"wrote {len(self.files)} files, {self.files[0]} the first",
        ]
        return "\n".join(lines + [f"left out: {sentence}" for sentence in self.skipped])


def remove_shadows(X: ArrayLike, *, n_components: int = 3, seed: int = 0) -> tuple[Array, Array]:
    """Split images of one person under different light into the face without shadows, and what remains.

    Images of a matt, convex object under distant lights lie near a subspace of few dimensions (Basri and Jacobs 2003);
    cast shadows and highlights are the outliers of the Manhattan loss (MahNMF, section 5.4.2).

    Parameters
    ----------
    X : array-like [shape=(n_images, n_pixels), >= 0]
        Images of one person as rows.
    n_components : int, default=3
        Dimensions of the subspace.
    seed : int, default=0
        Of the start.

    Returns
    -------
    faces : ndarray [shape=(n_images, n_pixels), >= 0]
        ``W H``.
    shadows : ndarray [shape=(n_images, n_pixels)]
        ``X - W H``: negative in shadows, positive in highlights.
    """
    data = np.asarray(X)
    model = NMF(min(n_components, *data.shape), max_iter=200, tol=0, random_state=seed)
    faces = model.inverse_transform(model.fit_transform(data))
    return faces, data - faces


def unshadow(
    source: str | Path,
    out: str | Path,
    *,
    rank: int = DIMENSIONS,
    size: int | None = None,
    detect: bool = False,
    seed: int = _options.SEED,
    force: bool = False,
) -> Unshadowed:
    """Remove shadows and highlights from images of people under changing light, person by person.

    Parameters
    ----------
    source : str or Path
        See :func:`~visionnmf.apps.faces.open_faces`; images without names are taken for one person's.
    out : str or Path
        Folder for ``NAME_unshadowed.png``, in sub-folders as in `source`, and for ``shadows.png``: ten of the images,
        the same without shadows, what was removed. Not `source` itself.
    rank : int, default=3
        Dimensions of a person's images.
    size : int or None, default=None
        See :func:`~visionnmf.apps.faces.open_faces`.
    detect : bool, default=False
        See :func:`~visionnmf.apps.faces.open_faces`.
    seed : int, default=0
    force : bool, default=False
        Whether existing files may be replaced.

    Returns
    -------
    Unshadowed

    Raises
    ------
    ParameterError
        When somebody has no more images than dimensions, or `out` is `source`.
    MediaError
        When the images cannot be read, or a file not be written.
    """
    if Path(source).exists() and Path(out).resolve() == Path(source).resolve():
        raise ParameterError(f"{out}: is where the images lie; give another folder with --out")
    faces, skipped = open_faces(source, size=size, detect=detect)
    height, width = faces.images.shape[1:]
    X = faces.images.reshape(len(faces.images), -1).astype(np.float32)
    people = np.unique(faces.labels)
    fewest = min(people, key=lambda label: (faces.labels == label).sum())
    count = int((faces.labels == fewest).sum())
    if count <= rank:
        who = f"{faces.names[fewest - 1]} has" if fewest and faces.names else "there are"
        raise ParameterError(
            f"{source}: {who} {count} images; {rank + 1} at least under different light are needed to tell shadows"
        )
    names = faces.files or tuple(f"{number:04d}" for number in range(len(X)))
    images = _outputs(Path(out), names)
    sheet = Path(out) / "shadows.png"
    check_outputs([*images, sheet], force)
    found = np.empty_like(X)
    for label in people:
        own = faces.labels == label
        found[own] = remove_shadows(X[own], n_components=rank, seed=seed)[0]
    grey = np.clip(np.rint(found), 0, 255).astype(np.uint8).reshape(-1, height, width)
    for path, image in zip(images, grey, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_image(path, image, force=force)
    shown = np.linspace(0, len(X) - 1, min(MOST_SHOWN, len(X))).astype(int)
    picture = shadows_picture(X[shown], found[shown], X[shown] - found[shown], (height, width))
    write_image(sheet, picture, force=force)
    changed = float((np.abs(found - X) > 25.5).mean())
    return Unshadowed(len(X), len(people), changed, [str(path) for path in (*images, sheet)], skipped)


def _outputs(out: Path, names: tuple[str, ...]) -> list[Path]:
    """Return a PNG file for each image; the suffix stays in the name where two would be one otherwise."""
    stems = [Path(name).with_suffix("") for name in names]
    if len(set(stems)) < len(stems):
        stems = [Path(name) for name in names]
    return [out / stem.with_name(f"{stem.name}_unshadowed.png") for stem in stems]
