"""Annotators in files: the index, the words, the models of the codes, and the extractors."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from visionnmf.features import FeatureExtraction, pack_extraction, unpack_extraction
from visionnmf.io.archive import Archive, Format
from visionnmf.models._store import pack_model, unpack_model

from .annotator import ImageAnnotator
from .distance_weights import Sigmoids
from .image_codes import PLAIN, Block
from .kernel_regression import MIN_WIDTH, Regression

__all__ = ["AnnotationModel", "load", "save"]

Array = NDArray[Any]

FORMAT = Format(
    "visionnmf-annotation",
    version=2,
    title="a model of annotations",
    origin="make one with 'visionnmf annotate train'",
    smaller="train fewer images a model",
    header_bytes=32 << 20,
)
PARAMETERS = ("method", "n_components", "hellinger", "n_neighbors", "n_words", "balance")
SIGMOIDS = ("slope", "offset")
REGRESSION = ("landmarks", "votes", "mean", "width")
LARGEST_VOTE = 1e6  # of an honest file ten times the root of the number of landmarks, and means are shares
LEAST_COMPONENT = 1e-12  # its largest entry, if it is not 0: codes of smaller ones overflow, honest ones have norm 1
LARGEST_CODE = 1e30  # so that sums over columns are finite


@dataclass(frozen=True)
class AnnotationModel:
    """An annotator, the images that it knows, and how to describe others.

    Attributes
    ----------
    annotator : ImageAnnotator
        Fitted.
    files : list of str
        The training images.
    extraction : FeatureExtraction or None
        None: it takes tables of features.
    source : list of str
        The file that it was read from, if it was: no output may replace it.
    """

    annotator: ImageAnnotator
    files: list[str] = field(default_factory=list)
    extraction: FeatureExtraction | None = None
    source: list[str] = field(default_factory=list)


def save(model: AnnotationModel, path: str | Path, *, force: bool = False) -> None:
    """Write an annotator.

    Parameters
    ----------
    model : AnnotationModel
    path : str or Path
        As a rule ``*.npz``; written whole or not at all.
    force : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    ParameterError
        If the codes are learnt by another estimator than visionnmf's own.
    TooLargeError
        If there are more images and words than `load` would read.
    OutputExistsError
        If `path` exists and `force` is false.
    MediaError
        If `path` cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.annotation import load, save
    >>> save(load("words.npz"), "copy.npz", force=True)
    """
    known = model.annotator
    Y = known.Y_
    arrays: dict[str, Array] = {
        "index": known.index_,
        "columns": known.columns_,
        "weights": known.weights_,
        "words_of": Y.indices.astype(np.int32),
        "words_start": Y.indptr.astype(np.int64),
    }
    if known.sigmoids_ is not None:
        arrays |= dict(zip(SIGMOIDS, known.sigmoids_, strict=True))
    if known.regression_ is not None:
        arrays |= dict(zip(REGRESSION, known.regression_, strict=True))
    blocks = []
    for i, block in enumerate(known.blocks_):
        coder = None if block.coder is None else pack_model(block.coder, arrays, f"coder{i}.")
        blocks.append({"view": block.view, "end": block.columns.stop, "coder": coder})
    parameters = {name: getattr(known, name) for name in PARAMETERS}
    if isinstance(parameters["n_components"], tuple):
        parameters["n_components"] = list(parameters["n_components"])
    header = {
        "parameters": parameters,
        "words": known.words_.tolist(),
        "files": [name.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for name in model.files],
        "views": [[view, columns.stop] for view, columns in known.views_.items()],
        "blocks": blocks,
        "regression": known.regression_ is not None,
        "extraction": None if model.extraction is None else pack_extraction(model.extraction, arrays, "extraction."),
    }
    FORMAT.write(path, header, arrays, force=force)


def load(path: str | Path) -> AnnotationModel:
    """Read an annotator; files of strangers are safe to read.

    Parameters
    ----------
    path : str or Path
        A file that :func:`save` wrote.

    Returns
    -------
    AnnotationModel

    Raises
    ------
    UnreadableError
        If the file is missing, damaged or no annotator.
    UnsupportedError
        If a later version of visionnmf wrote it.
    TooLargeError
        If its header holds more values than are read.

    Examples
    --------
    >>> from visionnmf.apps.annotation import load
    >>> len(load("words.npz").files)
    12
    """
    with FORMAT.read(path) as archive:
        header = archive.header
        parameters = header["parameters"]
        if archive.version == 1:  # before there was a regression, the likeliest words were given
            parameters["balance"] = 0.0
        _require(set(parameters) == set(PARAMETERS), "parameters")
        known = ImageAnnotator(**parameters)
        known.check_parameters()
        known.views_ = _slices([(view, end) for view, end in header["views"]])
        known.n_features_in_ = header["views"][-1][1]
        known.blocks_ = _blocks(header["blocks"], known, archive)
        if all(block.coder is None for block in known.blocks_):
            known.coder = PLAIN
        _restore(known, header, archive)
        files = header["files"]
        _require(_texts(files) and len(files) in (0, len(known.index_)), "files")
        extraction = header["extraction"]
        unpacked = None if extraction is None else unpack_extraction(extraction, archive, "extraction.")
        _require(unpacked is None or dict(unpacked.views_) == known.views_, "extractors")
        return AnnotationModel(known, files, unpacked, [str(path)])


def _blocks(sections: list[dict[str, Any]], known: ImageAnnotator, archive: Archive) -> list[Block]:
    blocks = []
    spans = list(_slices([(str(i), section["end"]) for i, section in enumerate(sections)]).values())
    for section, span in zip(sections, spans, strict=True):
        view = section["view"]
        _require(view in known.views_, "views")
        coder = None if section["coder"] is None else unpack_model(section["coder"], archive)
        columns = known.views_[view]
        size, made = columns.stop - columns.start, span.stop - span.start
        shape = (size, size) if coder is None else coder.components_.shape
        _require(shape == (made, size), "codes")
        if coder is not None:
            largest = coder.components_.max(axis=1)
            fits = (largest == 0) | ((largest >= LEAST_COMPONENT) & (largest <= 1 / LEAST_COMPONENT))
            _require(fits.all(), "components")
        blocks.append(Block(view, coder, span))
    return blocks


def _restore(known: ImageAnnotator, header: dict[str, Any], archive: Archive) -> None:
    """Set what a fit leaves, checked."""
    words, n_blocks, width = header["words"], len(known.blocks_), known.blocks_[-1].columns.stop
    _require(_texts(words) and len(words) > 0, "words")
    known.words_ = np.array(words, object)
    known.index_ = _finite(archive.array("index"), (-1, width))
    n_images = len(known.index_)
    known.columns_ = _finite(archive.array("columns"), (width,))
    known.weights_ = _finite(archive.array("weights"), (n_blocks,), "float64")
    _require(max(known.index_.max(), known.columns_.max()) <= LARGEST_CODE, "index")
    _require((known.index_ >= 0).all() and (known.columns_ >= 0).all() and (known.weights_ >= 0).all(), "index")
    of, start = archive.array("words_of"), archive.array("words_start")
    # before SciPy makes four bytes of each shorter number
    _require(of.dtype == np.int32 and start.dtype == np.int64 and start.shape == (n_images + 1,), "words of images")
    _require(of.ndim == 1 and len(of) == start[-1] <= n_images * len(words), "words of images")
    Y = sp.csr_array((np.ones(len(of), np.float32), of, start), shape=(n_images, len(words)))
    Y.check_format(full_check=True)
    known.Y_ = Y
    known.sigmoids_, known.regression_ = None, None
    if known.method == "weighted":
        slope, offset = (archive.array(name) for name in SIGMOIDS)
        if archive.version == 1:
            slope = slope[np.newaxis]
        if header.get("regression"):
            known.regression_ = _regression(known, archive)
        n_terms = 1 if known.regression_ is None else 2
        known.sigmoids_ = Sigmoids(_finite(slope, (n_terms, len(words))), _finite(offset, (len(words),)))
        _require((slope >= 0).all(), "sigmoids")


def _regression(known: ImageAnnotator, archive: Archive) -> Regression:
    rows, votes, mean, width = (archive.array(name) for name in REGRESSION)
    _require(rows.ndim == 1 and rows.dtype == np.int32 and len(rows) > 0, "landmarks")
    _require(rows.min() >= 0 and rows.max() < len(known.index_) and len(rows) <= len(known.index_), "landmarks")
    n_words = len(known.words_)
    found = Regression(rows, _finite(votes, (len(rows), n_words)), _finite(mean, (n_words,)), _finite(width, (1,)))
    _require(np.abs(votes).max() <= LARGEST_VOTE and np.abs(mean).max() <= LARGEST_VOTE, "votes")
    _require(width[0] >= MIN_WIDTH, "width")
    return found


def _slices(ends: list[tuple[str, int]]) -> dict[str, slice]:
    _require(
        len(ends) > 0 and _texts([name for name, _ in ends]) and len({name for name, _ in ends}) == len(ends), "views"
    )
    bounds = [0, *(end for _, end in ends)]
    _require(all(isinstance(end, int) for end in bounds) and all(a < b for a, b in pairwise(bounds)), "views")
    return {name: slice(*pair) for (name, _), pair in zip(ends, pairwise(bounds), strict=True)}


def _finite(array: Array, shape: tuple[int, ...], dtype: str = "float32") -> Array:
    fits = array.ndim == len(shape) and all(want in (-1, have) for want, have in zip(shape, array.shape, strict=True))
    _require(fits and array.size > 0 and array.dtype.name == dtype and np.isfinite(array).all(), "index")
    return array


def _texts(items: Any) -> bool:
    return isinstance(items, list) and all(isinstance(item, str) for item in items)


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"its {what} cannot be")
