"""Methods of segmentation, compared on images that people segmented.

The scores are covering, probabilistic Rand index and variation of information at the best scale for all images (ODS)
and at the best scale of each (OIS).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, spectral_clustering
from sklearn.preprocessing import StandardScaler

from visionnmf import choices, io
from visionnmf._text import counted, sized
from visionnmf.apps.runner import Rows, settings_key
from visionnmf.apps.segmentation.network import load_network
from visionnmf.apps.segmentation.regions import load_border_model
from visionnmf.apps.segmentation.scores import score_segmentation
from visionnmf.apps.segmentation.segmenter import segment
from visionnmf.apps.segmentation.soft_parts import find_segments
from visionnmf.apps.settings import takes_records
from visionnmf.exceptions import MediaError, UnreadableError, UnsupportedError

from .harness import Study, chosen_methods, grouped
from .settings import Comparison

METRICS = ("covering", "pri", "voi")
COLUMNS = ("image", "method", "scale", "n_segments", *METRICS, "seconds")

OURS = "visionnmf"
DEFAULTS = {OURS: "tree", "nmf": "nmf"}  # method of ``segment``, also scored with its default number of segments
COUNTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24)  # segments that clustering is asked for

Scales = Iterator[tuple[float, NDArray[Any]]]
"""Label maps of a picture with their scales: the values of a method's own parameter, among which the best is sought."""


def _ours(image: NDArray[Any]) -> Scales:
    """Yield scales and segmentations by this package: one tree of regions, cut at each scale."""
    result = segment(image)  # `at` cuts its tree again, and returns the label map
    for scale in np.linspace(0.02, 0.7, 35).round(4):
        yield float(scale), result.at(scale=float(scale))


def _at_each(method: str, parameter: str, values: tuple[float, ...], **others: Any) -> Callable[[NDArray[Any]], Scales]:
    """Return a function that yields the segmentations by a method of scikit-image at some values of a parameter."""

    def find(image: NDArray[Any]) -> Scales:
        """Yield each value, and the label map (height, width) that the method gives with it."""
        from skimage import segmentation

        for value in values:
            yield value, getattr(segmentation, method)(image, **{parameter: value}, **others)

    return find


def _k_means(image: NDArray[Any]) -> Scales:
    """Yield counts and segmentations by k-means of colour and place, each scaled to unit variance."""
    from skimage.color import rgb2lab

    place = np.moveaxis(np.indices(image.shape[:2]), 0, -1)  # (height, width, 2)
    # (n_pixels, 5): L, a, b, row and column of each pixel
    values = StandardScaler().fit_transform(np.dstack([rgb2lab(image), place]).reshape(-1, 5).astype(np.float32))
    for count in COUNTS:
        yield count, KMeans(count, random_state=0).fit_predict(values).reshape(image.shape[:2])


def _superpixel_graph(image: NDArray[Any]) -> tuple[NDArray[Any], Any]:
    """Return a label map of about 200 SLIC superpixels, and the graph of those that touch, by how like they are."""
    from skimage.graph import rag_mean_color
    from skimage.segmentation import slic

    labels = slic(image, n_segments=200, compactness=10, start_label=1)
    return labels, rag_mean_color(image, labels, mode="similarity")


def _spectral(image: NDArray[Any]) -> Scales:
    """Yield counts and segmentations by spectral clustering of the graph of superpixels."""
    labels, graph = _superpixel_graph(image)
    names = np.unique(labels)  # ascending, so that `searchsorted` gives the place of a superpixel among them
    affinity = np.zeros((len(names), len(names)))
    for pair in graph.edges(data="weight"):
        first, second = np.searchsorted(names, pair[:2])
        affinity[first, second] = affinity[second, first] = pair[2]
    for count in COUNTS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about graphs in several parts, and images with few superpixels
            found = spectral_clustering(
                affinity, n_clusters=min(count, len(names)), assign_labels="cluster_qr", random_state=0
            )
        yield count, found[np.searchsorted(names, labels)]


def _normalised_cuts(image: NDArray[Any]) -> Scales:
    """Yield thresholds and segmentations by normalised cuts (Shi and Malik 2000) of the graph of superpixels."""
    from skimage.graph import cut_normalized

    labels, graph = _superpixel_graph(image)
    for threshold in (1e-4, 3e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a comparison does not print what scikit-image warns of
            yield threshold, cut_normalized(labels, graph, thresh=threshold, in_place=False, rng=0)


def _nmf(image: NDArray[Any]) -> Scales:
    """Yield counts and segmentations by symmetric NMF of the regions of the tree, with the Manhattan loss."""
    hierarchy = segment(image).hierarchy
    for count in COUNTS:
        # the segment of each region, taken for each pixel
        yield count, find_segments(hierarchy, count, "manhattan")[0][hierarchy.labels]


METHODS: dict[str, Callable[[NDArray[Any]], Scales]] = {
    OURS: _ours,
    "nmf": _nmf,
    "felzenszwalb": _at_each(
        "felzenszwalb",
        "scale",
        (50, 100, 150, 200, 300, 400, 500, 600, 800, 1000, 1300, 1700, 2200),
        sigma=0.8,
        min_size=50,
    ),
    "slic+ncut": _normalised_cuts,
    "k-means": _k_means,
    "spectral": _spectral,
    "quickshift": _at_each("quickshift", "max_dist", (10, 20, 40, 80), kernel_size=5, ratio=0.5, rng=0),
    "whole": lambda image: iter([(0, np.zeros(image.shape[:2], np.uint8))]),
}


@takes_records
def study(images: str | Path, truth: str | Path, comparison: Comparison = Comparison()) -> Study:
    """Return the comparison of methods on images that people segmented.

    The folder `truth` has the segmentations of each image NAME of the folder `images`: ``NAME.npz`` that holds
    `segmentations` (annotators, height, width), ``NAME.mat`` as in BSDS500, or label maps ``NAME.png``, ``NAME_1.png``,
    ``NAME_2.png``, ... Raises UnreadableError if there is no image with a segmentation.
    """
    methods = chosen_methods(comparison, tuple(METHODS), tuple(METHODS))
    files = sorted(path for path in Path(images).glob("*") if path.suffix.lower() in choices.IMAGE_SUFFIXES)
    pictures = {path.stem: path for path in files}
    known = {name: truth_files(Path(truth), name) for name in pictures}
    work = {name: (str(pictures[name]), known[name], methods) for name in pictures if known[name]}
    if not work:
        raise UnreadableError(f"{images}: no image with a segmentation in {truth}; give folders with equal names")
    # rows of an earlier run are used again only if this digest, which includes the learnt borders, is the same
    model = load_border_model()
    return Study(
        jobs=work,
        work=score_image,
        columns=COLUMNS,
        key=settings_key({"methods": methods}, *model.trees, *load_network().values()),
        lines=_lines,
        heading=f"{counted(len(work), 'image')}; best scale for all images, and for each (ois); perfect: 1, voi 0 bits",
        inputs=[str(images), str(truth)],
        skipped=[f"{pictures[name]}: no segmentation of that name in {truth}" for name in pictures if not known[name]],
    )


def _lines(rows: Rows) -> Rows:
    """Return the scores of each method over all images."""
    return [_summary(name, own) for (name,), own in grouped(rows, ("method",)).items()]


def truth_files(folder: Path, name: str) -> list[str]:
    """Return the files with the segmentations of image `name`: one .npz or .mat, or several .png; empty if none."""
    for archive in (folder / f"{name}.npz", folder / f"{name}.mat"):
        if archive.is_file():
            return [str(archive)]
    return [str(path) for path in sorted({*folder.glob(f"{name}.png"), *folder.glob(f"{name}_*.png")})]


def read_truth(files: list[str]) -> list[NDArray[Any]]:
    """Read the segmentations of an image: one label map (height, width) for each annotator.

    `files` are one .npz that holds `segmentations` (annotators, height, width), one .mat of BSDS500 (`groundTruth`, a
    cell with a structure for each annotator, whose `Segmentation` is a label map), or images, where equal colours are
    one segment. Raises MediaError if a file cannot be read or holds something else.
    """
    if files[0].endswith(".npz"):
        return list(io.read_arrays(Path(files[0]), ["segmentations"])["segmentations"])
    if files[0].endswith(".mat"):
        return _labels_in_mat(files[0])
    return [_as_labels(io.read_image(file)) for file in files]


def _labels_in_mat(file: str) -> list[NDArray[Any]]:
    """Return the label maps (height, width) of all annotators in a MATLAB file of the Berkeley data set."""
    cells = io.read_mat(Path(file), ["groundTruth"], nested=True)["groundTruth"]
    found = []
    for cell in cells if isinstance(cells, list) else [cells]:  # a structure alone, if there is one annotator
        labels = cell.get("Segmentation") if isinstance(cell, dict) else None
        if not isinstance(labels, np.ndarray) or labels.ndim != 2 or labels.size == 0:
            raise UnsupportedError(f"{file}: groundTruth must be a cell of structures with a Segmentation")
        found.append(labels.astype(np.int64))
    if not found:
        raise UnsupportedError(f"{file}: groundTruth holds no segmentation")
    return found


def _as_labels(picture: NDArray[Any]) -> NDArray[Any]:
    """Return a label map (height, width) in which each colour of a picture is one label."""
    flat = picture.reshape(-1, picture.shape[2]) if picture.ndim == 3 else picture.reshape(-1, 1)
    return np.unique(flat, axis=0, return_inverse=True)[1].reshape(picture.shape[:2])


@io.takes_files
def score_image(source: str, files: list[str], methods: tuple[str, ...]) -> Rows:
    """Return a row of scores of the image file `source` for each method and scale; `files` hold its segmentations."""
    image, truths = io.read_image(source), read_truth(files)
    for truth in truths:
        if truth.shape != image.shape[:2]:
            raise MediaError(
                f"{source}: {sized(image.shape)}, and its segmentation {sized(truth.shape)}; they must be equal"
            )
    rows: Rows = []
    for name in methods:
        found = {name: METHODS[name]}
        if name in DEFAULTS:
            found[f"{name}, default"] = partial(_default, DEFAULTS[name])
        for method, find in found.items():
            begin = time.perf_counter()
            scales = list(find(image))
            seconds = time.perf_counter() - begin
            for scale, labels in scales:
                scores = score_segmentation(labels, truths)
                row = {"image": Path(source).stem, "method": method, "scale": scale, "seconds": seconds}
                rows.append(row | {"n_segments": len(np.unique(labels)), **scores._asdict()})
    return rows


def _default(method: str, image: NDArray[Any]) -> Scales:
    """Yield the scale at which trees are cut by default, and the labels that :func:`.segment` gives without options."""
    yield load_border_model().scale, segment(image, method=method).labels


def _summary(name: str, rows: Rows) -> dict[str, Any]:
    """Return the scores of a method at the best scale for all images (ODS) and at the best scale of each (OIS)."""
    # each metric has a best scale of its own; ``scale`` is that of covering
    scales = sorted({row["scale"] for row in rows})
    pictures = sorted({row["image"] for row in rows})
    ordered = sorted(rows, key=lambda row: (row["image"], row["scale"]))

    def table(*columns: str) -> NDArray[np.float64]:
        """Return some columns of the rows, as (images, scales, columns)."""
        values = [[row[column] for column in columns] for row in ordered]
        return np.array(values, np.float64).reshape(len(pictures), len(scales), len(columns))

    # a small variation of information is good: with its sign changed, the largest value is the best in each column
    values = table(*METRICS) * (1, 1, -1)
    ods, ois = values.mean(axis=0), values.max(axis=1).mean(axis=0)
    found: dict[str, Any] = {"method": name, "scale": scales[int(ods[:, 0].argmax())]}
    for column, metric in enumerate(METRICS):  # `abs` takes the changed sign away again
        found[metric] = abs(float(ods[:, column].max()))
        found[metric + "_ois"] = abs(float(ois[column]))
    found["seconds"] = float(table("seconds")[:, 0].mean())  # all scales of an image have the same seconds
    return found
