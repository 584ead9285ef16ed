"""How well words fit images: the three scores of the OR-NMF paper, and the usual ones for each word.

A model's words are compared with those that images have, beside a baseline that gives the most frequent words of the
training images to all images. Every image gets equally many words. Words that no training image has cannot be given,
and count as missed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import check_count
from visionnmf._progress import Progress
from visionnmf._text import counted
from visionnmf.apps.annotation import AnnotationModel
from visionnmf.apps.annotation.annotator import as_marks
from visionnmf.apps.annotation.images import Sources, images_with_words
from visionnmf.apps.runner import Rows, settings_key
from visionnmf.apps.settings import takes_records
from visionnmf.io.inputs import names_of

from .harness import Study, averages, chosen_methods
from .settings import Comparison

Array = NDArray[Any]

METHODS = ("model", "most frequent words")
FIGURES = ("AC", "RC", "NS", "precision", "recall", "F1", "N+", "mAP")


@takes_records
def study(
    model: AnnotationModel,
    source: Sources,
    comparison: Comparison = Comparison(),
    *,
    labels: str | Path | None = None,
    top: int = choices.ANNOTATION_WORDS,
    progress: Progress | None = None,
) -> Study:
    """Return the comparison of the words that a model gives with those that images have, for which see ``train``."""
    check_count(top, "top")
    methods = chosen_methods(comparison, METHODS, METHODS)
    found = images_with_words(
        source, labels, model.extraction, views=model.annotator.views_, n_jobs=comparison.jobs, progress=progress
    )
    known = model.annotator.words_.tolist()
    words = [*known, *sorted(set(found.words) - set(known))]
    column = {word: j for j, word in enumerate(words)}
    scores = model.annotator.predict_proba(found.X)
    truth = np.zeros((len(scores), len(words)), bool)
    truth[:, [column[word] for word in found.words]] = found.Y.toarray() > 0
    chosen = model.annotator.choose(scores, top)
    # The model cannot give words that it does not know: their scores are below all others, and their frequency is 0.
    scores = np.pad(scores, ((0, 0), (0, len(words) - len(known))), constant_values=-1)
    often = np.pad(np.asarray(model.annotator.Y_.sum(axis=0)).ravel(), (0, len(words) - len(known)))
    # The baseline gives the same most frequent words to every image.
    first = np.tile(np.argsort(-often, kind="stable")[:top], (len(scores), 1))
    given = {METHODS[0]: (chosen, scores), METHODS[1]: (first, np.tile(often, (len(scores), 1)))}
    notes = list(found.notes)
    if len(words) > len(known):
        notes.append(f"no training image has {len(words) - len(known)} of the words, such as {words[len(known)]!r}")
    own, learnt = ({Path(file).name for file in files} for files in (found.files, model.files))
    if set(found.files) & set(model.files):
        notes.append("training images are among these, so the scores are too good")
    elif found.extraction is None and own & learnt:  # the names in a table lack the folder that was read
        notes.append(
            "some of these images have the names of training images; if they are the same, the scores are too good"
        )
    return Study(
        jobs={method: (method,) for method in methods},
        work=partial(score_method, truth, given),
        columns=("method", *FIGURES),
        key=settings_key({"top": top}, truth, scores, first),
        lines=partial(averages, by=("method",), scores=FIGURES),
        heading=(
            f"{counted(len(scores), 'image')}, {counted(int(truth.any(axis=0).sum()), 'word')}, {top} each; AC, RC and "
            "NS: accuracy, recall and normalised score of images; others are means of words, N+ those rightly given"
        ),
        inputs=names_of(source),
        skipped=found.skipped,
        notes=notes,
    )


def score_method(truth: Array, given: Mapping[str, tuple[Array, Array]], method: str) -> Rows:
    """Return the row of a method: `given` has the words of each image, as columns of `truth`, and all their scores."""
    words, scores = given[method]
    found = score_words(truth, as_marks(words, truth.shape), scores)
    return [{"method": method} | dict(zip(FIGURES, found, strict=False))]  # without the number of words


class Scores(NamedTuple):
    """Scores of annotated images.

    The first three are means over images: ``AC = r / (r + w)``, ``RC = r / n`` and ``NS = r / n - w / (N - n)`` of Guan
    et al. (2012, section V.C), with the numbers r and w of right and wrong words of an image with n words, and the size
    N of the vocabulary. The others are about the words that some image has.
    """

    accuracy: float
    recall: float
    normalized: float
    word_precision: float  # mean over the words; a word that was never given has precision 0
    word_recall: float
    f1: float  # harmonic mean of the two
    n_plus: int  # number of words that were given rightly at least once
    mean_average_precision: float  # of the images ranked by the word's score; NaN without scores
    n_words: int


def score_words(truth: Array, given: Array, scores: Array | None = None) -> Scores:
    """Score the words `given` to images by those that they have, `truth`: boolean, (n_images, n_words)."""
    hits = truth & given
    labelled = truth.any(axis=1)  # images with words
    n_words, n_right = truth[labelled].sum(1), hits[labelled].sum(1)
    n_wrong = given[labelled].sum(1) - n_right
    n_others = np.maximum(truth.shape[1] - n_words, 1)  # words that an image lacks
    have, got, right = truth.sum(0), given.sum(0), hits.sum(0)  # images of each word: that have it, got it, and both
    occurs = have > 0
    precision = _mean((right / np.maximum(got, 1))[occurs])
    recall = _mean((right / np.maximum(have, 1))[occurs])
    average = float("nan") if scores is None else _mean(_average_precisions(truth[:, occurs], scores[:, occurs]))
    return Scores(
        accuracy=_mean(n_right / np.maximum(n_right + n_wrong, 1)),
        recall=_mean(n_right / n_words),
        normalized=_mean(n_right / n_words - n_wrong / n_others),
        word_precision=precision,
        word_recall=recall,
        f1=2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        n_plus=int((right[occurs] > 0).sum()),
        mean_average_precision=average,
        n_words=int(occurs.sum()),
    )


def _average_precisions(truth: Array, scores: Array) -> Array:
    """Return the average precision of each column of `truth`, which needs a true entry, with images ranked by score."""
    order = np.argsort(-scores, axis=0, kind="stable")
    found = np.take_along_axis(truth, order, axis=0)
    # The precision among the first 1, 2, ... images; its mean over the places of true images is the result.
    precision = np.cumsum(found, axis=0) / np.arange(1, len(found) + 1)[:, None]
    return np.asarray((precision * found).sum(0) / found.sum(0))


def _mean(values: Array) -> float:
    """Return the mean, or 0 if there are no values."""
    return float(values.mean()) if values.size else 0.0
