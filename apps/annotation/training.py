"""From images with words to a model file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from visionnmf import choices
from visionnmf.apps.report import Report
from visionnmf.exceptions import MediaError
from visionnmf.features import Extractor, FeatureExtraction
from visionnmf.io import check_outputs

from .labels import Labels, files_of_labels, find_labels
from .model import ImageAnnotator
from .sources import Described, describe, files_of, usual_extractors
from .store import AnnotationModel, save

__all__ = ["AnnotatorTrained", "train"]

Progress = Callable[[str, int, int | None], None]

FEW = 5  # images of a word, below which nothing much can be learnt


@dataclass(frozen=True, kw_only=True)
class AnnotatorTrained(Report):
    """What :func:`train` did; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    model : AnnotationModel
    seconds : float
    """

    model: AnnotationModel
    seconds: float

    def _figures(self) -> dict[str, Any]:
        known = self.model.annotator
        counts = np.asarray(known.Y_.sum(axis=0)).ravel()
        return {
            "images": len(known.index_),
            "words": len(known.words_),
            "words_an_image": round(float(known.Y_.sum() / len(known.index_)), 2),
            "rare_words": known.words_[counts < FEW].tolist(),
            "method": known.method,
            "weights": {f"{b.view} {b.columns.stop - b.columns.start}": round(float(w), 3)
                        for b, w in zip(known.blocks_, known.weights_, strict=True)},
            "index_bytes": known.index_.nbytes,
            "seconds": round(self.seconds, 2),
        }  # fmt: skip

    def summary(self) -> str:
        """Say what was learnt.

        Returns
        -------
        str
            A few lines.
        """
        told = self._figures()
        weights = ", ".join(f"{name} {weight:.1f}" for name, weight in told["weights"].items())
        lines = [
            f"{told['images']} images, {told['words']} words, {told['words_an_image']} words an image; "
            f"{len(told['rare_words'])} words with less than {FEW} images; {self.seconds:.1f} s",
            f"what each distance counts ({told['method']}): {weights}",
        ]
        return "\n".join([*lines, *self._ending()])


def train(
    source: str | Path | Sequence[str],
    model: str | Path,
    *,
    labels: str | Path | None = None,
    kinds: Sequence[str | Extractor] | None = None,
    method: str = choices.ANNOTATION_METHOD,
    coder: Any = None,
    n_components: Any = choices.ANNOTATION_COMPONENTS,
    n_jobs: int | None = None,
    random_state: int = choices.RANDOM_STATE,
    force: bool = False,
    progress: Progress | None = None,
) -> AnnotatorTrained:
    """Learn words from images that have some, and write a model.

    Parameters
    ----------
    source : str, Path or sequence of str
        A folder of images, images, or a table of features (``.npz``) that ``visionnmf features`` has written.
    model : str or Path
        The file to write.
    labels : str, Path or None, default=None
        The words: a CSV or JSON Lines file; None or "keywords" reads them from the photographs.
    kinds : sequence of str or Extractor, optional
        Features of images, see :data:`visionnmf.features.KINDS`; those of :func:`usual_extractors` if left out.
    method : str, default="weighted"
        See :class:`ImageAnnotator`, and the next two.
    coder : estimator, None or "none", default=None
    n_components : int or sequence of int
    n_jobs : int or None, default=None
        Processes that describe images; -1 takes as many as there are processors.
    random_state : int, default=0
    force : bool, default=False
        Whether an existing file may be replaced.
    progress : callable, optional
        Called with ("extracting", images done, images in all).

    Returns
    -------
    AnnotatorTrained
        Images that cannot be read are in `skipped`.

    Raises
    ------
    ParameterError
        If an argument is not allowed.
    MediaError
        If there are no images, or no words, or the file cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.annotation import train
    >>> options = {"kinds": ["lab"], "method": "jec", "n_components": 4, "force": True}
    >>> train("photos", "words.npz", labels="words.csv", **options).outputs
    ['words.npz']
    """
    start = time.perf_counter()
    annotator = ImageAnnotator(method, coder=coder, n_components=n_components, random_state=random_state)
    annotator._check_parameters()
    check_outputs([model], force, inputs=[*files_of(source), *files_of_labels(labels)])
    if not Path(model).parent.is_dir():
        raise MediaError(f"{model}: there is no folder {Path(model).parent}; create it first")
    root = source if isinstance(source, str | Path) else None
    extraction = FeatureExtraction(usual_extractors() if kinds is None else kinds)
    found = describe(source, extraction, fit=True, n_jobs=n_jobs, progress=progress)
    labelled = find_labels(labels, found.files, root)
    X, files, labelled = _once(found, labelled)
    annotator.fit(X, labelled.Y, views=found.views, words=labelled.words)
    trained = AnnotationModel(annotator, files, found.extraction)
    save(trained, model, force=force)
    inputs = [str(source)] if root is not None else [str(item) for item in source]  # type: ignore[union-attr]
    return AnnotatorTrained(
        model=trained,
        seconds=time.perf_counter() - start,
        inputs=inputs,
        outputs=[str(model)],
        skipped=found.skipped,
        notes=labelled.notes,
    )


def _once(found: Described, labelled: Labels) -> tuple[Any, list[str], Labels]:
    """Return images with words, each once: a copy would vouch for its original when weights are learnt."""
    X = found.X[labelled.found]
    files = [found.files[i] for i in labelled.found]
    first: dict[bytes, int] = {}
    of = np.array([first.setdefault(row.tobytes(), len(first)) for row in X])
    if len(first) == len(X):
        return X, files, labelled
    groups = sp.csr_array((np.ones(len(of), np.float32), (of, np.arange(len(of)))))
    Y = sp.csr_array(groups @ labelled.Y)
    Y.data[:] = 1
    _, kept = np.unique(of, return_index=True)
    note = f"{len(X) - len(first)} images are copies of others; their words were put together"
    return X[kept], [files[i] for i in kept], replace(labelled, Y=Y, notes=[*labelled.notes, note])
