"""How well a model's words fit images whose words are known."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import check_count
from visionnmf.apps.report import Report
from visionnmf.exceptions import MediaError
from visionnmf.io import check_outputs, output_file

from .labels import files_of_labels, find_labels
from .metrics import Scores, score_words
from .sources import describe, files_of
from .store import AnnotationModel

__all__ = ["AnnotationScores", "evaluate"]

Array = NDArray[Any]
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, kw_only=True)
class AnnotationScores(Report):
    """What :func:`evaluate` found; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    images : int
    top : int
        Words that each image got.
    scores : Scores
    often : Scores
        Of the most frequent words of the training images, given to all: the baseline.
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
        """Return the scores as text for a person.

        Returns
        -------
        str
            A table of two lines: the model, and the most frequent words for all images.
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
    n_jobs: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> AnnotationScores:
    """Compare the words that a model gives with those that images have.

    Every image gets exactly `top` words. Words that no training image has cannot be given, and count as missed.

    Parameters
    ----------
    model : AnnotationModel
    source : str, Path or sequence of str
        As for :func:`train`; other images than those of the training.
    labels : str, Path or None, default=None
        The words, as for :func:`train`.
    top : int, default=5
    table : str or Path, optional
        A CSV file to write: of each word the images that have it and that got it, precision and recall.
    n_jobs : int or None, default=None
    force : bool, default=False
        Whether an existing file may be replaced.
    progress : callable, optional
        Called with ("extracting", images done, images in all).

    Returns
    -------
    AnnotationScores

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
    inputs = [*files_of(source), *files_of_labels(labels), *model.source]
    check_outputs([] if table is None else [table], force, inputs=inputs)
    for path in [] if table is None else [Path(table)]:
        if not path.parent.is_dir():
            raise MediaError(f"{path}: there is no folder {path.parent}; create it first")
    found = describe(source, model.extraction, views=model.annotator.views_, n_jobs=n_jobs, progress=progress)
    root = source if isinstance(source, str | Path) else None
    labelled = find_labels(labels, found.files, root)
    scores = model.annotator.predict_proba(found.X[labelled.found])
    chosen = model.annotator.choose(scores, top)
    known = model.annotator.words_.tolist()
    words = [*known, *sorted(set(labelled.words) - set(known))]
    column = {word: j for j, word in enumerate(words)}
    truth = np.zeros((len(scores), len(words)), bool)
    truth[:, [column[word] for word in labelled.words]] = labelled.Y.toarray() > 0
    scores = np.pad(scores, ((0, 0), (0, len(words) - len(known))), constant_values=-1)
    often = np.pad(np.asarray(model.annotator.Y_.sum(axis=0)).ravel(), (0, len(words) - len(known)))
    first = np.tile(np.argsort(-often, kind="stable")[:top], (len(scores), 1))
    result = score_words(truth, _given(chosen, truth.shape), scores)
    notes = list(labelled.notes)
    if len(words) > len(known):
        notes.append(f"{len(words) - len(known)} words, such as {words[len(known)]!r}, are of no training image")
    if set(found.files) & set(model.files):
        notes.append("training images are among these, so the scores are too good")
    if table is not None:
        _write_words(Path(table), words, result, force)
    return AnnotationScores(
        images=len(scores),
        top=top,
        scores=result,
        often=score_words(truth, _given(first, truth.shape), np.tile(often, (len(scores), 1))),
        inputs=[str(source)] if root is not None else [str(item) for item in source],  # type: ignore[union-attr]
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


def _write_words(path: Path, words: list[str], result: Scores, force: bool) -> None:
    with (
        output_file(path, force=force) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(["word", "images", "given", "precision", "recall"])
        for word, row in zip(words, result.table.tolist(), strict=True):
            if row[0] or row[1]:
                writer.writerow([word, int(row[0]), int(row[1]), f"{row[2]:.4f}", f"{row[3]:.4f}"])
