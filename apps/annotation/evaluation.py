"""How well the words of a model fit images whose words are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import check_count
from visionnmf.apps.report import Report
from visionnmf.io import write_csv

from .image_features import describe, files_of, names_of
from .labels import files_of_labels, find_labels
from .metrics import Scores, score_words
from .prediction import check_table
from .store import AnnotationModel

__all__ = ["AnnotationScores", "evaluate"]

Array = NDArray[Any]
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, kw_only=True)
class AnnotationScores(Report):
    """What :func:`evaluate` found, with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    images : int
        Number of images.
    top : int
        Number of words that each image got.
    scores : Scores
        The scores of the model.
    often : Scores
        The scores of a baseline that gives the most frequent words of the training images to all images.
    """

    images: int
    top: int
    scores: Scores
    often: Scores

    def _figures(self) -> dict[str, Any]:
        return {
            "images": self.images,
            "top": self.top,
            **_figures(self.scores),
            "most_frequent_words": _figures(self.often),
        }

    def summary(self) -> str:
        """Return the scores as text.

        Returns
        -------
        str
            A table of two lines: the model, and the baseline.
        """
        lines = [
            f"{self.images} images, {self.scores.n_words} words, {self.top} words each",
            f"{'':22}   AC   RC   NS |    P    R   F1   N+  mAP",
        ]
        for name, found in (("model", self.scores), ("most frequent words", self.often)):
            of_images = [found.accuracy, found.recall, found.normalized]
            of_words = [found.word_precision, found.word_recall, found.f1]
            lines.append(
                f"{name:22}{''.join(f'{100 * v:5.1f}' for v in of_images)} |"
                f"{''.join(f'{100 * v:5.1f}' for v in of_words)}{found.n_plus:5d}"
                f"{100 * found.mean_average_precision:5.1f}"
            )
        return "\n".join([*lines, *self._ending()])


def evaluate(
    model: AnnotationModel,
    source: str | Path | Sequence[str],
    *,
    labels: str | Path | None = None,
    top: int = choices.ANNOTATION_WORDS,
    table: str | Path | None = None,
    verbatim: bool = False,
    n_jobs: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> AnnotationScores:
    """Compare the words that a model gives with those that images have.

    Every image gets exactly `top` words. Words that no training image has cannot be given, and count as missed.

    Parameters
    ----------
    model : AnnotationModel
        The model.
    source : str, Path or sequence of str
        Images as in :func:`train`, but other ones than the training images.
    labels : str, Path or None, default=None
        The words, as in :func:`train`.
    top : int, default=5
        Number of words that each image gets.
    table : str or Path, optional
        A CSV file to write. It has for each word the numbers of images that have it and that got it, precision and
        recall.
    verbatim : bool, default=False
        Write words to the table as they are, even if a spreadsheet would take them for formulas.
    n_jobs : int or None, default=None
        Number of processes that extract features; -1 uses all processors.
    force : bool, default=False
        Whether an existing file may be replaced.
    progress : callable, optional
        Called with ("extracting", number of images done, number of all images).

    Returns
    -------
    AnnotationScores
        The scores.

    Raises
    ------
    ParameterError
        If an argument is not allowed.
    MediaError
        If nothing can be read, or no image has words.

    Examples
    --------
    >>> from visionnmf.apps.annotation import evaluate, load
    >>> evaluate(load("words.npz"), "photos", labels="words.csv", top=1).outputs
    []
    """
    check_count(top, "top")
    check_table(table, force, [*files_of(source), *files_of_labels(labels), *model.source])
    found = describe(source, model.extraction, views=model.annotator.views_, n_jobs=n_jobs, progress=progress)
    labelled = find_labels(labels, found.files, source if isinstance(source, str | Path) else None)
    known = model.annotator.words_.tolist()
    words = [*known, *sorted(set(labelled.words) - set(known))]
    column = {word: j for j, word in enumerate(words)}
    scores = model.annotator.predict_proba(found.X[labelled.found])
    truth = np.zeros((len(scores), len(words)), bool)
    truth[:, [column[word] for word in labelled.words]] = labelled.Y.toarray() > 0
    chosen = model.annotator.choose(scores, top)
    scores = np.pad(scores, ((0, 0), (0, len(words) - len(known))), constant_values=-1)
    often = np.pad(np.asarray(model.annotator.Y_.sum(axis=0)).ravel(), (0, len(words) - len(known)))
    first = np.tile(np.argsort(-often, kind="stable")[:top], (len(scores), 1))
    result = score_words(truth, _given(chosen, truth.shape), scores)
    notes = list(labelled.notes)
    if len(words) > len(known):
        notes.append(f"no training image has {len(words) - len(known)} of the words, such as {words[len(known)]!r}")
    if set(found.files) & set(model.files):
        notes.append("training images are among these, so the scores are too good")
    if table is not None:
        write_csv(table, _rows(words, result), force=force, verbatim=verbatim)
    return AnnotationScores(
        images=len(scores),
        top=top,
        scores=result,
        often=score_words(truth, _given(first, truth.shape), np.tile(often, (len(scores), 1))),
        inputs=names_of(source),
        outputs=[] if table is None else [str(table)],
        skipped=found.skipped,
        notes=notes,
    )


def _given(chosen: Array, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    given = np.zeros(shape, bool)
    np.put_along_axis(given, chosen, True, axis=1)
    return given


def _figures(found: Scores) -> dict[str, float | int]:
    figures = {
        "AC": found.accuracy,
        "RC": found.recall,
        "NS": found.normalized,
        "precision": found.word_precision,
        "recall": found.word_recall,
        "F1": found.f1,
        "mAP": found.mean_average_precision,
    }
    return {name: round(value, 4) for name, value in figures.items()} | {"N+": found.n_plus, "words": found.n_words}


def _rows(words: list[str], result: Scores) -> Iterator[list[Any]]:
    """Return the rows of the table; words that no image has or got are left out."""
    yield ["word", "images", "given", "precision", "recall"]
    for word, row in zip(words, result.table.tolist(), strict=True):
        if row[0] or row[1]:
            yield [word, int(row[0]), int(row[1]), f"{row[2]:.4f}", f"{row[3]:.4f}"]
