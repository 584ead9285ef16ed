"""Files of annotators: the index, the words, the models of the codes, and what describes images."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from visionnmf._checks import check_texts
from visionnmf.features import FeatureExtraction
from visionnmf.features.store import find_extractor, make_extraction, taken_apart
from visionnmf.io.model_file import ModelFile, check_model, class_finder
from visionnmf.models.model_files import find_class

from .annotator import ImageAnnotator
from .image_codes import Block
from .likeness import Likeness
from .word_probabilities import Regression, Sigmoids


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


def _check(state: Any) -> AnnotationModel:
    """Return the model of a file; raise an error if its parts are not possible or do not fit together."""
    annotator = check_model(ImageAnnotator)(state["annotator"])
    extraction = None if state["extraction"] is None else make_extraction(state["extraction"])
    if extraction is not None and extraction.views_ != annotator.views_:
        raise ValueError("extractors must have the views of the annotator")
    files = check_texts(state["files"], "files")
    if len(files) not in (0, len(annotator.index_)):
        raise ValueError("files must be one for each image")
    return AnnotationModel(annotator, files, extraction)


def _state(model: AnnotationModel) -> dict[str, Any]:
    """Return what a file holds of a model."""
    return {
        "annotator": model.annotator,
        "files": [name.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for name in model.files],
        "extraction": None if model.extraction is None else taken_apart(model.extraction),
    }


FILE = ModelFile(
    "annotation",
    version=8,
    title="a model of annotations",
    origin="make one with 'visionnmf annotate train'",
    smaller="train fewer images a model",
    find_class=class_finder(ImageAnnotator, Block, Likeness, Regression, Sigmoids, others=(find_class, find_extractor)),
    check=_check,
    taken_apart=_state,
)
save = FILE.save


def load(path: str | Path) -> AnnotationModel:
    """Read an annotator. Untrusted files are safe to read.

    Parameters
    ----------
    path : str or Path
        A file that `save` wrote.

    Returns
    -------
    AnnotationModel

    Raises
    ------
    MediaError
        If the file is missing, damaged, too large, not an annotator, or of another version of visionnmf.

    Examples
    --------
    >>> from visionnmf.apps.annotation import load, save
    >>> save(load("words.npz"), "copy.npz", force=True)
    >>> len(load("copy.npz").files)
    12
    """
    return replace(FILE.load(path), source=[str(path)])
