"""From images without names to groups of them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import brief
from visionnmf.apps.report import Report
from visionnmf.exceptions import ParameterError
from visionnmf.io import check_outputs, output_file
from visionnmf.metrics import clustering_accuracy, clustering_information

from .clusters import cluster_faces
from .pixels import flat_background, missing_pixels
from .sources import as_rows, open_faces

__all__ = ["Clustered", "cluster"]


@dataclass(frozen=True)
class Clustered(Report):
    """What :func:`cluster` found; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    images : tuple of str
        The names of the images, or their numbers.
    clusters : ndarray of int
        The group of each, from 0.
    accuracy, information : float or None
        Hungarian accuracy and normalised mutual information, where the people are known.
    """

    images: tuple[str, ...]
    clusters: NDArray[np.intp]
    accuracy: float | None
    information: float | None

    __repr__ = brief

    def _figures(self) -> dict[str, Any]:
        groups = [{"file": name, "cluster": int(c)} for name, c in zip(self.images, self.clusters, strict=True)]
        found = {"clusters": groups, "accuracy": self.accuracy, "information": self.information}
        return found | {"files": self.outputs}

    def summary(self) -> str:
        """Say what was found.

        Returns
        -------
        str
            A few lines.
        """
        sizes = np.unique(self.clusters, return_counts=True)[1]
        lines = [f"{len(self.clusters)} images in {len(sizes)} cluster{'s' * (len(sizes) > 1)} of {_range(sizes)}"]
        if self.accuracy is not None:
            lines.append(f"against the people: accuracy {self.accuracy:.1%}, mutual information {self.information:.3f}")
        return "\n".join([*lines, *self._ending()])


def cluster(
    source: str | Path,
    *,
    n_clusters: int | None = None,
    by: str = choices.FACE_CLUSTERING_DEFAULT,
    missing: str = choices.FACE_MISSING_DEFAULT,
    size: int | None = None,
    detect: bool = False,
    out: str | Path | None = None,
    random_state: int = choices.RANDOM_STATE,
    force: bool = False,
) -> Clustered:
    """Group images by person, without names.

    Parameters
    ----------
    source : str or Path
        See :func:`open_faces`; may be a folder of images, without sub-folders.
    n_clusters : int or None, default=None
        Groups; None takes the number of people, where they are known.
    by : {"k-means", "largest"}, default="k-means"
        See :func:`cluster_faces`.
    missing : str, default="blocks"
        See :class:`FaceRecognizer`.
    size : int or None, default=None
        See :func:`open_faces`.
    detect : bool, default=False
        See :func:`open_faces`.
    out : str or Path, optional
        Folder for ``clusters.csv``.
    random_state : int, default=0
    force : bool, default=False
        Whether existing files may be replaced.

    Returns
    -------
    Clustered

    Raises
    ------
    ParameterError
        When the number of clusters is neither given nor known.

    Examples
    --------
    >>> from visionnmf.apps.faces import cluster
    >>> cluster("people", n_clusters=3, missing="none").clusters.shape
    (12,)
    """
    path = None if out is None else Path(out) / "clusters.csv"
    if path is not None:
        check_outputs([path], force)
    faces, skipped = open_faces(source, size=size, detect=detect)
    known = bool(faces.labels.all())
    if n_clusters is None and not known:
        raise ParameterError("n_clusters must be given where the people are not known; got None")
    wanted = len(np.unique(faces.labels)) if n_clusters is None else n_clusters
    images, brightest = faces.images.astype(np.float32), float(faces.images.max())
    mask = missing_pixels(images, missing, 255, brightest, flat_background(images, brightest))
    found = cluster_faces(
        as_rows(faces.images), wanted, by=by, mask=mask.reshape(len(images), -1), random_state=random_state
    )
    names = faces.files or tuple(str(number) for number in range(len(found)))
    if path is not None:
        with output_file(path, force=force) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("file", "cluster"), *zip(names, found.tolist(), strict=True)])
    accuracy = clustering_accuracy(faces.labels, found) if known else None
    information = clustering_information(faces.labels, found) if known else None
    return Clustered(
        names,
        found,
        accuracy,
        information,
        inputs=[str(source)],
        outputs=[] if path is None else [str(path)],
        skipped=skipped,
    )


def _range(sizes: NDArray[np.intp]) -> str:
    return str(sizes.min()) if sizes.min() == sizes.max() else f"{sizes.min()} to {sizes.max()}"
