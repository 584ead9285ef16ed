"""From a model file and images to words."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from visionnmf import choices
from visionnmf._checks import check_count, check_number
from visionnmf.apps.report import Report
from visionnmf.exceptions import MediaError, OutputExistsError, ParameterError
from visionnmf.io import check_outputs, output_file, sidecar_of, write_sidecar
from visionnmf.io.keywords import is_own_sidecar

from .model import Neighbourhood
from .sources import describe, files_of
from .store import AnnotationModel

__all__ = ["AnnotatedImage", "Annotations", "Word", "annotate"]

Progress = Callable[[str, int, int | None], None]

REASONS = 3  # neighbours that are named for a word


class Word(NamedTuple):
    """A word of an image.

    Attributes
    ----------
    word : str
    score : float
        The probability, of a weighted model; of the others, high for the first.
    because : list of str
        The nearest training images that have it, those that count most.
    """

    word: str
    score: float
    because: list[str]


class AnnotatedImage(NamedTuple):
    """An image's words.

    Attributes
    ----------
    image : str
    words : list of Word
        The likeliest first.
    """

    image: str
    words: list[Word]


@dataclass(frozen=True, kw_only=True)
class Annotations(Report):
    """What :func:`annotate` found; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    images : list of AnnotatedImage
    """

    images: list[AnnotatedImage]

    def _figures(self) -> dict[str, Any]:
        return {
            "images": [
                {
                    "input": image,
                    "words": [{"word": w.word, "score": round(w.score, 4), "because": w.because} for w in words],
                }
                for image, words in self.images
            ]
        }

    def summary(self) -> str:
        """Return the words as text for a person.

        Returns
        -------
        str
            A line an image, then one a word.
        """
        lines = []
        for image, words in self.images:
            lines.append(f"{image}: {', '.join(word.word for word in words) or 'no word'}")
            for word in words:
                because = ", ".join(Path(file).name for file in word.because)
                lines.append(f"  {word.word} {word.score:.2f}" + (f", because of {because}" if because else ""))
        return "\n".join([*lines, *self._ending()])


def annotate(
    model: AnnotationModel,
    images: str | Path | Sequence[str],
    *,
    top: int = choices.ANNOTATION_WORDS,
    least: float = 0.0,
    table: str | Path | None = None,
    sidecars: bool = False,
    n_jobs: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Annotations:
    """Give words to images. The images are read, and never written to.

    Parameters
    ----------
    model : AnnotationModel
    images : str, Path or sequence of str
        Images, patterns, folders; or a table of features, for a model that was trained on one.
    top : int, default=5
        Words an image, at most.
    least : float, default=0
        Words of a lower score are left out.
    table : str or Path, optional
        A CSV file to write: image, word, score, and the neighbours because of which.
    sidecars : bool, default=False
        Whether to write ``NAME.jpg.xmp`` beside each image that gets words, for photo managers.
    n_jobs : int or None, default=None
        Processes that describe images; -1 takes as many as there are processors.
    force : bool, default=False
        Whether existing outputs of visionnmf may be replaced; sidecars of other programs never are.
    progress : callable, optional
        Called with ("extracting", images done, images in all).

    Returns
    -------
    Annotations
        Images that cannot be read are in `skipped`, and sidecars of other programs that are in the way.

    Raises
    ------
    ParameterError
        If an argument is not allowed; a table has no images that sidecars could lie beside.
    MediaError
        If nothing can be read, or an output cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.annotation import annotate, load
    >>> annotate(load("words.npz"), ["photos/0.png"], top=1).images[0].words[0].word
    'sea'
    """
    check_count(top, "top")
    check_number(least, "least")
    files = files_of(images)
    check_outputs([] if table is None else [table], force, inputs=[*files, *model.source])
    for path in [] if table is None else [Path(table)]:
        if not path.parent.is_dir():
            raise MediaError(f"{path}: there is no folder {path.parent}; create it first")
    if sidecars and model.extraction is None:
        raise ParameterError("sidecars must be False for a table of features; got True")
    if sidecars:
        check_outputs([path for path in map(sidecar_of, files) if not _is_foreign(path)], force)
    found = describe(images, model.extraction, views=model.annotator.views_, n_jobs=n_jobs, progress=progress)
    near = model.annotator.annotate(found.X)
    given = [
        AnnotatedImage(file, _words(model, near, i, top, least)) for i, file in enumerate(found.files)
    ]  # fmt: skip
    outputs, skipped = [], list(found.skipped)
    if table is not None:
        _write_table(Path(table), given, force)
        outputs.append(str(table))
    for image, words in (
        given if sidecars else []
    ):  # each for itself: thousands at once are more open files than allowed
        path = sidecar_of(image)
        if not words:
            continue
        try:
            write_sidecar(path, [word.word for word in words], force=force or _is_foreign(path))
        except OutputExistsError as error:
            skipped.append(str(error))
        else:
            outputs.append(str(path))
    inputs = [str(images)] if isinstance(images, str | Path) else [str(image) for image in images]
    return Annotations(images=given, inputs=inputs, outputs=outputs, skipped=skipped)


def _is_foreign(path: Path) -> bool:
    return path.is_file() and not is_own_sidecar(path)


def _words(model: AnnotationModel, near: Neighbourhood, i: int, top: int, least: float) -> list[Word]:
    known, scores = model.annotator, near.scores[i]
    has = known.Y_[near.neighbours[i]].toarray() > 0
    words = []
    for j in known.choose(scores[None], top)[0]:
        if scores[j] >= least:
            order = np.argsort(-near.counts[i] * has[:, j], kind="stable")[:REASONS]
            because = [model.files[near.neighbours[i, n]] for n in order if has[n, j]] if model.files else []
            words.append(Word(str(known.words_[j]), float(scores[j]), because))
    return words


def _write_table(path: Path, given: list[AnnotatedImage], force: bool) -> None:
    with (
        output_file(path, force=force) as temporary,
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(["file", "word", "score", "because"])
        for image, words in given:
            writer.writerows([image, w.word, f"{w.score:.4f}", ";".join(w.because)] for w in words)
