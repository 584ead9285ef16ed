"""From images with words to a model file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import stdtrit
from sklearn.base import clone

from visionnmf._progress import Progress
from visionnmf._text import counted
from visionnmf.apps.report import Report
from visionnmf.features import Extractor, FeatureExtraction
from visionnmf.io import check_outputs, check_parents
from visionnmf.io.inputs import names_of, table_names

from .annotator import ImageAnnotator
from .images import ImagesWithWords, Sources, files_of, images_with_words, usual_extractors
from .store import AnnotationModel, save

RISK = 0.05  # of calling words better than the most frequent ones that are not
FEW = 5  # images of a word, below which little can be learnt


def train(
    source: Sources,
    model: str | Path,
    *,
    labels: str | Path | None = None,
    kinds: Sequence[str | Extractor] | None = None,
    annotator: ImageAnnotator | None = None,
    n_jobs: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Learn words from images that have some, and write a model.

    Parameters
    ----------
    source : str, Path or sequence of str
        A folder of images, images, or a table of features (``.npz``) written by ``visionnmf features``.
    model : str or Path
        The file to write.
    labels : str, Path or None, default=None
        The words: a CSV or JSON Lines file. None reads them from the photographs.
    kinds : sequence of str or Extractor, optional
        Features of images, see :data:`visionnmf.features.KINDS`; by default those of :func:`usual_extractors`.
    annotator : ImageAnnotator, optional
        Unfitted, with the parameters of the model. It stays unfitted.
    n_jobs : int or None, default=None
        Number of processes that extract features; -1 uses all processors.
    force : bool, default=False
        Whether an existing file may be replaced.
    progress : callable, optional
        Called as ``progress(stage, done, total)``: with the images whose features are extracted, the views that are
        coded, and the steps that learn words.

    Returns
    -------
    Report
        With the ``model``; its figures are ``images``, ``words`` (both numbers), ``words_an_image``, ``rare_words``
        (those of fewer than 5 images), ``method``, ``weights`` (of each distance), ``index_bytes`` and ``seconds``.
        Images that cannot be read are in `skipped`.

    Raises
    ------
    MediaError
        If there are no images or no words, or the file cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.annotation import ImageAnnotator, train
    >>> options = {"kinds": ["lab"], "annotator": ImageAnnotator("jec", n_components=4), "force": True}
    >>> train("photos", "words.npz", labels="words.csv", **options).outputs
    ['words.npz']
    """
    start = time.perf_counter()
    annotator = ImageAnnotator() if annotator is None else clone(annotator)
    annotator.check_parameters()
    check_outputs([model], force, inputs=[*files_of(source), *([] if labels is None else [labels])])
    check_parents([model])
    extraction = FeatureExtraction(usual_extractors() if kinds is None else kinds)
    found = _without_copies(images_with_words(source, labels, extraction, fit=True, n_jobs=n_jobs, progress=progress))
    annotator.fit(found.X, found.Y, views=found.views, words=found.words, progress=progress)
    trained = AnnotationModel(annotator, found.files, found.extraction)
    save(trained, model, force=force)
    figures = _figures(annotator, time.perf_counter() - start)
    weights = ", ".join(f"{name}: {weight:.1f}" for name, weight in figures["weights"].items())
    return Report(
        figures=figures,
        lines=[
            f"{counted(figures['images'], 'image')}, {counted(figures['words'], 'word')}, "
            f"{figures['words_an_image']:.2g} per image; "
            f"{counted(len(figures['rare_words']), 'word')} with fewer than {FEW} images; {figures['seconds']:.1f} s",
            f"weights of the distances ({figures['method']}), by features and components: {weights}",
        ],
        model=trained,
        inputs=names_of(source),
        outputs=[str(model)],
        skipped=found.skipped,
        notes=[*found.notes, *no_better(annotator)],
        shown=_shown(found, table_names(found.files, names_of(source))),
    )


def _shown(found: ImagesWithWords, names: list[str]) -> dict[str, Any]:
    """Return how many images have each word, and images with their words; those of a table may be elsewhere."""
    counts, known = np.asarray(found.Y.sum(axis=0), int).ravel(), np.array(found.words)
    rows = [[found.words[j], int(counts[j])] for j in np.argsort(-counts, kind="stable")]
    words = (", ".join(known[found.Y[[i]].indices]) for i in range(len(names)))
    tiles = [
        (file, f"{name}: {own}")
        for file, name, own in zip(found.files, names, words, strict=True)
        if Path(file).is_file()
    ]
    return {
        "tables": {"How many images have each word": (("word", "images"), rows)},
        "sheets": {"Training images with their words": tiles},
    }


def no_better(known: ImageAnnotator) -> list[str]:
    """Return a sentence unless words of left-out images are better than the most frequent, by a one-sided t test."""
    ours, often = known.left_out_recall_.T
    gain, n = ours - often, len(ours)
    if n < 2:
        return ["only one image has words, so nothing shows whether words are right; train on more images"]
    if gain.mean() > stdtrit(n - 1, 1 - RISK) * gain.std(ddof=1) / np.sqrt(n):
        return []
    return [
        f"these images do not show that the words are better than the most frequent ones: {n} images that were left "
        f"out get {ours.mean():.0%} of their own words, and {often.mean():.0%} by frequency alone; train on more images"
    ]


def _figures(known: ImageAnnotator, seconds: float) -> dict[str, Any]:
    """Return the figures of the report about a fitted annotator."""
    counts = np.asarray(known.Y_.sum(axis=0)).ravel()
    sizes = [f"{block.view} {block.columns.stop - block.columns.start}" for block in known.blocks_]
    return {
        "images": len(known.index_),
        "words": len(known.words_),
        "words_an_image": float(known.Y_.sum() / len(known.index_)),
        "rare_words": known.words_[counts < FEW].tolist(),
        "method": known.method,
        "weights": dict(zip(sizes, known.weights_.tolist(), strict=True)),
        "index_bytes": known.index_.nbytes,
        "seconds": seconds,
    }


def _without_copies(found: ImagesWithWords) -> ImagesWithWords:
    """Merge the words of copies of an image, and keep one: a copy would confirm the other when weights are learnt."""
    first: dict[bytes, int] = {}
    of = np.array([first.setdefault(row.tobytes(), len(first)) for row in found.X])  # the original of each image
    if len(first) == len(of):
        return found
    # (n_originals, n_images): 1 where an image is the original or a copy of it; its product with Y joins their words
    groups = sp.csr_array((np.ones(len(of), np.float32), (of, np.arange(len(of)))))
    Y = sp.csr_array(groups @ found.Y)
    Y.data[:] = 1
    _, kept = np.unique(of, return_index=True)  # the first image of each group of copies
    note = f"copies of other images: {len(of) - len(first)}; their words were merged"
    files = [found.files[i] for i in kept]
    return replace(found, X=found.X[kept], files=files, Y=Y, notes=[*found.notes, note])
