"""Grouping images of faces by person, without names."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.cluster import SpectralClustering
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import normalize

from visionnmf import NMF
from visionnmf._checks import RandomState, check_callable, check_count, check_image_shape, check_seed
from visionnmf._progress import Progress
from visionnmf._text import counted
from visionnmf.apps.report import Report
from visionnmf.apps.settings import takes_records
from visionnmf.exceptions import ParameterError
from visionnmf.io import check_outputs, output_folder, write_csv
from visionnmf.metrics import clustering_accuracy, clustering_information

from .images import check_seen, flat_background, hidden, image_rows, masked, missing_pixels, white_of
from .reading import as_rows, open_faces
from .settings import FaceClustering, FaceReading

Array = NDArray[Any]

ITERATIONS = 100  # of the default model
# Both chosen on ORL and Extended Yale B; docs/decisions/faces.md has figures.
WHITENING = 1.0
NEIGHBOURS = 4  # of each image in the graph, fewer where the groups are smaller


def cluster_faces(
    X: ArrayLike,
    n_clusters: int,
    *,
    mask: ArrayLike | None = None,
    image_shape: tuple[int, int] | None = None,
    random_state: RandomState = 0,
    progress: Progress | None = None,
) -> NDArray[np.intp]:
    """Group images by spectral clustering of a graph in which each image is joined to those most like it.

    The images are compared by the codes of an NMF with the Manhattan loss, ``nuclear=1`` and up to 100 components,
    which are whitened, with their mean power added to each direction's, and scaled to unit norm. They are also compared
    as they are, by the cosine of their pixels, and the graph with the clearer groups counts: that of the larger
    modularity (Newman 2006). Codes suit faces, whose light and expression are common to all people, and pixels many
    sets of objects.

    Parameters
    ----------
    X : array-like [shape=(n_samples, n_pixels), >= 0]
        Images as rows.
    n_clusters : int
        Number of groups.
    mask : array-like of bool [shape=(n_samples, n_pixels)], optional
        Missing pixels. Their values, even NaN, do not matter.
    image_shape : tuple of (int, int), optional
        Height and width of the images. With it, opaque blocks are searched for and count as missing, too. Without it
        and without `mask`, images with blocks are grouped by the blocks.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the model and of the clustering.
    progress : callable, optional
        Called as ``progress("learning components", done, total)`` after each iteration of the model.

    Returns
    -------
    ndarray of int [shape=(n_samples,)]
        Groups from 0.

    Raises
    ------
    ParameterError
        If there are more groups than images, or an argument is not allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.faces import cluster_faces
    >>> people = np.repeat(np.random.default_rng(0).random((2, 30)), 4, axis=0)
    >>> labels = cluster_faces(people, 2, random_state=0)
    >>> len(set(labels[:4])), len(set(labels))
    (1, 2)
    """
    step = check_callable(progress, "progress")
    data, given = masked(image_rows(X), mask)
    check_seen(given)
    if image_shape is not None:
        check_image_shape(image_shape, n_pixels=data.shape[1])
        seen = hidden(data, given).reshape(-1, *image_shape)  # NaN under the mask
        white = white_of(float(np.nanmax(seen, initial=0)))
        given = given | _missing(seen, "blocks", white).reshape(data.shape)
        data = hidden(data, given, value=0)
    n_clusters = check_count(n_clusters, "n_clusters", 1, len(data))
    seed = check_seed(random_state)
    # Which of the images that differ each is, so that copies have one number.
    different = np.unique(data, axis=0, return_inverse=True)[1].ravel()
    n_different = int(different.max()) + 1
    if n_different < n_clusters:
        warnings.warn(
            f"X has only {counted(n_different, 'different image')}, and {n_clusters} groups were asked for; "
            "ask for fewer, or remove copies of images",
            UserWarning,
            stacklevel=2,
        )
    if n_different <= n_clusters:  # a group for each image that differs, with its copies
        return np.asarray(different, np.intp)
    model = NMF(
        min(100, *data.shape), nuclear=1.0, max_iter=ITERATIONS, tol=0, random_state=seed, measure_optimality=False
    )
    if step is not None:
        model.set_params(callback=lambda done, _: step("learning components", done, ITERATIONS))
    codes = model.fit_transform(data, weights=~given if given.any() else None)
    filled = np.where(given, codes @ model.components_, data)  # missing pixels are those of the model
    features = whitened_codes(codes, model.components_), normalize(filled)
    groupings = [_group_by_neighbours(rows, n_clusters, seed) for rows in features]
    return max(groupings, key=lambda grouping: grouping[1])[0]


def _missing(images: Array, kind: str, white: float) -> NDArray[np.bool_]:
    """Return the pixels of images (n_images, height, width) that are missing by the search `kind`, such as "blocks"."""
    brightest = float(np.nanmax(images, initial=0))
    return missing_pixels(images, kind, white, brightest, flat_background(images, brightest))


def whitened_codes(codes: Array, components: Array) -> Array:
    """Return `codes` (n_images, n_components) whitened and scaled to unit norm, to compare images by them."""
    # Codes are scaled as if the components had unit norm, so that their sizes can be compared.
    scaled = codes * np.linalg.norm(components, axis=1)
    return np.asarray(normalize(scaled @ whitening(scaled, WHITENING)))


def whitening(X: Array, share: float) -> Array:
    """Return the matrix (n, n) that whitens rows, learnt from `X`; a `share` of the mean power is added to each."""
    power, directions = np.linalg.eigh(X.T.astype(np.float64) @ X / len(X))
    least = np.finfo(X.dtype).tiny  # if all codes are 0, the root of its inverse is still finite in their type
    power = np.maximum(power, 0) + max(share * power.mean(), least)
    return np.asarray(directions / np.sqrt(power)).astype(X.dtype)


def _group_by_neighbours(rows: Array, n_clusters: int, seed: int) -> tuple[NDArray[np.intp], float]:
    """Return the groups of `rows` (n,) by their graph of nearest neighbours, and their modularity (Newman 2006)."""
    # At most the average size of a group less one, so that groups of that size need not be joined to others.
    n_neighbours = min(NEIGHBOURS, max(1, len(rows) // n_clusters - 1))
    near = kneighbors_graph(rows, n_neighbours)
    graph = (near + near.T) / 2  # 1 where both are near each other, and 1/2 where only one is
    clustering = SpectralClustering(n_clusters, affinity="precomputed", assign_labels="cluster_qr", random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Graph is not fully connected")  # so are groups that nothing joins
        groups = np.asarray(clustering.fit_predict(graph), np.intp)
    members = np.eye(n_clusters)[groups]  # (n, n_clusters), 1 in the column of each row's group
    shares = members.T @ (graph @ members) / graph.sum()  # (n_clusters, n_clusters), of the edges by what they join
    return groups, float(np.trace(shares) - np.square(shares.sum(0)).sum())


@takes_records
def cluster(
    source: str | Path,
    *,
    clustering: FaceClustering = FaceClustering(),
    reading: FaceReading = FaceReading(),
    out: str | Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Group a set of images by person, without names.

    Parameters
    ----------
    source : str or Path
        As for :func:`train`; a folder of images needs no sub-folders.
    clustering : FaceClustering
        The number of groups (by default the number of people, if they are known) and how they are found.
    reading : FaceReading
        How the images are read.
    out : str or Path, optional
        Folder for ``clusters.csv``.
    force : bool, default=False
        Whether existing files may be replaced.
    progress : callable, optional
        As for :func:`cluster_faces`.

    Returns
    -------
    Report
        Its figures are ``images`` (their names, or their numbers), ``clusters`` (ndarray, the group of each image, from
        0), and, None unless the people are known, ``accuracy``, that of the best matching of groups and people, and
        ``information``, the normalised mutual information.

    Raises
    ------
    ParameterError
        If the number of clusters is neither given nor known.

    Examples
    --------
    >>> from visionnmf.apps.faces import FaceClustering, cluster
    >>> cluster("people", clustering=FaceClustering(n_clusters=3, missing="none")).clusters.shape
    (12,)
    """
    path = None if out is None else Path(out) / "clusters.csv"
    if path is not None:
        check_outputs([path], force)
    faces, skipped = open_faces(source, reading=reading)
    known = bool(faces.labels.all())  # the label is 0 where it is not known who is on an image
    if clustering.n_clusters is None and not known:
        raise ParameterError("n_clusters must be the number of people, which is not known of these images; got none")
    wanted = len(np.unique(faces.labels)) if clustering.n_clusters is None else clustering.n_clusters
    mask = _missing(faces.images.astype(np.float32), clustering.missing, 255)  # images are of 8 bits
    found = cluster_faces(
        as_rows(faces.images),
        wanted,
        mask=mask.reshape(len(mask), -1),
        random_state=clustering.random_state,
        progress=progress,
    )
    names = faces.files or tuple(str(number) for number in range(len(found)))
    if path is not None:
        output_folder(path.parent)
        write_csv(path, [("file", "cluster"), *zip(names, found.tolist(), strict=True)], force=force)
    accuracy = clustering_accuracy(faces.labels, found) if known else None
    information = clustering_information(faces.labels, found) if known else None
    outputs = [] if path is None else [str(path)]
    sizes = np.unique(found, return_counts=True)[1]
    of = str(sizes.min()) if sizes.min() == sizes.max() else f"{sizes.min()} to {sizes.max()}"
    lines = [f"{counted(len(found), 'image')} in {counted(len(sizes), 'cluster')} of {of}"]
    if accuracy is not None:
        lines.append(f"against the people: accuracy {accuracy:.1%}, mutual information {information:.3f}")
    figures = {"images": names, "clusters": found, "accuracy": accuracy, "information": information}
    shown = {"images": faces.images}
    return Report(figures=figures, lines=lines, inputs=[str(source)], outputs=outputs, skipped=skipped, shown=shown)
