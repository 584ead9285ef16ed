"""Files of annotators: the index, the words, the models of the codes, and what describes images."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from visionnmf import choices
from visionnmf.features import FeatureExtraction
from visionnmf.features.store import EXTRACTION
from visionnmf.io.model_file import ModelFile
from visionnmf.io.model_state import Array, List, Maybe, Record, Text, Value
from visionnmf.models.model_files import ESTIMATOR

from .annotator import ImageAnnotator
from .image_codes import PLAIN, Block
from .word_probabilities import MIN_WIDTH, Regression, Sigmoids

MAX_VOTE = 1e6  # ten times the root of the number of landmarks of any real file; means are shares
MIN_COMPONENT = 1e-12  # of the largest entry of a component that is not 0: codes of smaller ones overflow
MAX_CODE = 1e30  # so that sums over columns are finite


@dataclass(frozen=True)
class AnnotationModel:
    """A fitted annotator, the training images that it knows, and the extractors that describe others.

    `extraction` is None if the annotator takes tables of features. `source` is the file that the model was read from,
    if it was; no output may replace it.
    """

    annotator: ImageAnnotator
    files: list[str] = field(default_factory=list)
    extraction: FeatureExtraction | None = None
    source: list[str] = field(default_factory=list)


def _restored(
    parameters: dict[str, Any],
    words: list[str],
    words_of: Any,
    words_start: Any,
    files: list[str],
    extraction: FeatureExtraction | None,
    fitted: dict[str, Any],
) -> AnnotationModel:
    """Return the model of a file, after checks that the fields do not make; ValueError if its parts do not fit.

    `words_of` holds the words of all images as columns of `words`, those of image i from words_start[i] to
    words_start[i + 1]. `fitted` are the fitted attributes of the annotator by name. Among them `index_` (n_images,
    n_columns) holds the codes of the training images, and each of `blocks_` the columns of one model's codes of a view.
    """
    # A coder that was given as an estimator is None among the parameters of the file; a fitted one has its settings.
    learnt = next((block.coder for block in fitted["blocks_"] if block.coder is not None), None)
    if (parameters["coder"] == PLAIN) != (learnt is None):
        raise ValueError("coder must be 'none' for features as they are, and for nothing else")
    known = ImageAnnotator(**parameters)
    if known.coder is None:
        known.coder = clone(learnt)
    known.check_parameters()
    for name, value in fitted.items():
        setattr(known, name, value)
    known.n_features_in_ = _count_columns(list(known.views_.values()))
    known.words_ = np.array(words, object)
    shape = n_images, n_words = len(known.index_), len(words)
    # This comes first because SciPy takes more memory for a matrix than the file has.
    if len(words_start) != n_images + 1 or not len(words_of) == words_start[-1] <= n_images * n_words:
        raise ValueError("words_of and words_start must be the words of the images")
    known.Y_ = sp.csr_array((np.ones(len(words_of), np.float32), words_of, words_start), shape=shape)
    known.Y_.check_format(full_check=True)
    if _count_columns([block.columns for block in known.blocks_]) != known.index_.shape[1]:
        raise ValueError("blocks must have the columns of the index")
    for block in known.blocks_:
        _check_block(block, known)
    weighted = known.method == "weighted"
    if (known.sigmoids_ is None) == weighted or (known.regression_ is None) == weighted:
        raise ValueError("sigmoids and a regression must be there for the method 'weighted' alone")
    if known.index_.min() < 0 and not known.pseudo_inverse:
        raise ValueError("codes must not be negative")
    if len(files) not in (0, n_images):
        raise ValueError("files must be one for each image")
    if extraction is not None and extraction.views_ != known.views_:
        raise ValueError("extractors must have the views of the annotator")
    return AnnotationModel(known, files, extraction)


def _count_columns(slices: list[slice]) -> int:
    """Return the number of columns that slices cover one after the other; ValueError if they do not follow so."""
    end = 0
    for each in slices:
        if not isinstance(each, slice) or each.step is not None or each.start != end or not each.stop > end:
            raise ValueError("columns must follow one another")
        end = each.stop
    return end


def _check_block(block: Block, known: ImageAnnotator) -> None:
    """Raise ValueError if the coder of a block does not fit its view in `known`, the annotator, or has wild scales."""
    # A block has the codes of one view by one model; `known.views_` has the columns of each view's features.
    columns, view = block.columns, known.views_[block.view]
    n_codes, n_features = columns.stop - columns.start, view.stop - view.start
    # The features themselves (no coder) give a code for each column of the view, a coder one for each component.
    shape = (n_features, n_features) if block.coder is None else block.coder.components_.shape
    if shape != (n_codes, n_features):
        raise ValueError("codes must be of their view")
    if block.coder is not None:
        largest = block.coder.components_.max(axis=1)
        if not ((largest == 0) | ((largest >= MIN_COMPONENT) & (largest <= 1 / MIN_COMPONENT))).all():
            raise ValueError("components must be neither tiny nor enormous")


SIGMOIDS = {"slope": Array("float32", "2 words", low=0), "offset": Array("float32", "words")}
REGRESSION = {
    "rows": Array("int32", "landmarks", low=0, below="images"),
    "votes": Array("float32", "landmarks words", low=-MAX_VOTE, high=MAX_VOTE),
    "mean": Array("float32", "words", low=-MAX_VOTE, high=MAX_VOTE),
    "width": Array("float32", "1", low=float(MIN_WIDTH)),
}
FITTED = {
    "views_": Value(),
    "blocks_": List(Record({"view": Text(), "coder": Maybe(ESTIMATOR), "columns": Value()}, Block), size="blocks"),
    "index_": Array("float32", "images columns", low=-MAX_CODE, high=MAX_CODE),
    "columns_": Array("float32", "columns", low=0, high=MAX_CODE),
    "weights_": Array("float64", "blocks", low=0),
    "sigmoids_": Maybe(Record(SIGMOIDS, Sigmoids)),
    "regression_": Maybe(Record(REGRESSION, Regression)),
}
PARAMETERS = ("method", "pseudo_inverse", "metrics", "n_components", "hellinger", "n_neighbors", "n_words", "balance")

FILE = ModelFile(
    "visionnmf-annotation",
    version=5,
    title="a model of annotations",
    origin="make one with 'visionnmf annotate train'",
    smaller="train fewer images a model",
    state=Record(
        {
            "parameters": Record(
                {name: Value() for name in PARAMETERS} | {"coder": Maybe(Text(choices.ANNOTATION_CODERS))}
            ),
            "words": List(Text(), size="words"),
            "fitted": Record(FITTED),
            "words_of": Array("int32", "pairs", low=0, below="words", empty=True),
            "words_start": Array("int64", "starts", low=0),
            "files": List(Text(), empty=True),
            "extraction": Maybe(EXTRACTION),
        },
        _restored,
    ),
)


def save(model: AnnotationModel, path: str | Path, *, force: bool = False) -> None:
    """Write an annotator.

    Parameters
    ----------
    model : AnnotationModel
    path : str or Path
        Usually ``*.npz``. The file is written completely or not at all.
    force : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    ParameterError
        If the codes are learnt by an estimator that is not one of visionnmf's own.
    MediaError
        If there are more images and words than `load` would read, or `path` exists or cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.annotation import load, save
    >>> save(load("words.npz"), "copy.npz", force=True)
    """
    known = model.annotator
    state = {
        # a coder that was given as an estimator is not written; the fitted ones in `blocks_` have its settings
        "parameters": {name: getattr(known, name) for name in PARAMETERS}
        | {"coder": known.coder if isinstance(known.coder, str) else None},
        "words": known.words_.tolist(),
        "fitted": {name: getattr(known, name) for name in FITTED},
        "words_of": known.Y_.indices.astype(np.int32),
        "words_start": known.Y_.indptr.astype(np.int64),
        "files": [name.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for name in model.files],
        "extraction": model.extraction,
    }
    FILE.save(state, path, force=force)


def load(path: str | Path) -> AnnotationModel:
    """Read an annotator. Untrusted files are safe to read.

    Parameters
    ----------
    path : str or Path
        A file that :func:`save` wrote.

    Returns
    -------
    AnnotationModel

    Raises
    ------
    MediaError
        If the file is missing, damaged, too large, not an annotator, or of another version of visionnmf.

    Examples
    --------
    >>> from visionnmf.apps.annotation import load
    >>> len(load("words.npz").files)
    12
    """
    return replace(FILE.load(path), source=[str(path)])
