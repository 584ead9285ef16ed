"""From a model and images to words."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from visionnmf._checks import check_result
from visionnmf._progress import Progress
from visionnmf._text import counted
from visionnmf.apps.report import Report
from visionnmf.apps.settings import takes_records
from visionnmf.exceptions import PASS_FORCE, OutputExistsError, ParameterError
from visionnmf.io import check_outputs, check_parents, sidecar_of, write_csv, write_sidecar
from visionnmf.io.inputs import names_of, table_names
from visionnmf.io.keywords import is_own_sidecar

from .annotator import Neighbourhood
from .images import Sources, describe, files_of, within_common_folder
from .settings import WordOutputs
from .store import AnnotationModel

UNLIKE = "unlike the training photographs"
MAX_REASONS = 3  # training images that are named for a word


class Word(NamedTuple):
    """A word of an image.

    With the method "weighted" the score is its probability; with the others it is high for the first word. `because`
    names the training images with this word that have the largest weight.
    """

    word: str
    score: float
    because: list[str]


class AnnotatedImage(NamedTuple):
    """An image and its words, the most probable first; with an unlikeness above 1 they mean little, see the model."""

    image: str
    words: list[Word]
    unlikeness: float


@takes_records
def annotate(
    model: AnnotationModel,
    images: Sources,
    *,
    outputs: WordOutputs = WordOutputs(),
    n_jobs: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Give words to images. The images are only read.

    Parameters
    ----------
    model : AnnotationModel
    images : str, Path or sequence of str
        Images, patterns, folders; or a table of features, for a model that was trained on one.
    outputs : WordOutputs, optional
        How many words are given, and whether a table and sidecars are written.
    n_jobs : int or None, default=None
        Number of processes that extract features; -1 uses all processors.
    force : bool, default=False
        Whether existing outputs of visionnmf may be replaced; sidecars of other programs never are. Without it, images
        that have a sidecar of visionnmf are left out, and a note counts them.
    progress : callable, optional
        Called with ("extracting", number of images done, number of all images).

    Returns
    -------
    Report
        The figure ``images`` has an :class:`AnnotatedImage` for each image. `skipped` names images that cannot be
        read, and sidecars of other programs that are in the way.

    Raises
    ------
    ParameterError
        If ``outputs.least`` is above 1 although scores are probabilities.
    MediaError
        If nothing can be read, or an output cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.annotation import WordOutputs, annotate, load
    >>> annotate(load("words.npz"), ["photos/0.png"], outputs=WordOutputs(top=1)).images[0].words[0].word
    'sea'
    """
    check_result(model, "model", "train or load", "extraction", "annotator")
    probable = model.annotator.method == "weighted"
    if probable and outputs.least > 1:
        raise ParameterError(f"least must be at most 1, because scores are probabilities; got {outputs.least:g}")
    files = files_of(images)
    if outputs.table is not None:
        check_outputs([outputs.table], force, inputs=[*files, *model.source])
        check_parents([outputs.table])
    if outputs.sidecars and model.extraction is None:
        raise ParameterError("sidecars must be left out for a table of features, whose images are not read")
    notes: list[str] = []
    if outputs.sidecars:
        # Sidecars of other programs do not stop the run here: `_write_sidecars` leaves them out, each with a sentence.
        own = {file for file in files if (path := sidecar_of(file)).is_file() and is_own_sidecar(path)}
        left = [file for file in files if force or file not in own]
        check_outputs([path for path in map(sidecar_of, left) if not _is_foreign(path)], force)
        if len(left) < len(files):
            existing = len(files) - len(left)
            notes = [f"skipped, because sidecars exist: {existing} of {counted(len(files), 'image')}; {PASS_FORCE}"]
        if not left:
            return Report(figures={"images": []}, inputs=names_of(images), notes=notes)
        files = left
    found = describe(files, model.extraction, views=model.annotator.views_, n_jobs=n_jobs, progress=progress)
    near = model.annotator.annotate(found.X)
    pairs = zip(found.files, near.unlikeness.tolist(), strict=True)
    given = [AnnotatedImage(file, _words(model, near, i, outputs), unlike) for i, (file, unlike) in enumerate(pairs)]
    written, skipped = [], list(found.skipped)
    names = table_names(found.files, names_of(images))
    trained = dict(zip(model.files, within_common_folder(model.files), strict=True))
    rows = [["file", "word", "score", "because", "unlikeness"]]
    lines = []
    for name, (_, words, unlike) in zip(names, given, strict=True):
        mark = f" ({UNLIKE})" if unlike > 1 else ""
        lines.append(f"{name}: {', '.join(word.word for word in words) or 'no word'}{mark}")
        for word in words:
            because = [trained[file] for file in word.because]
            rows.append([name, word.word, f"{word.score:.4f}", ";".join(because), f"{unlike:.2f}".replace("nan", "")])
            lines.append(f"  {word.word} {word.score:.2f}" + (f", because of {', '.join(because)}" if because else ""))
    if outputs.table is not None:
        write_csv(outputs.table, rows, force=force)
        written.append(str(outputs.table))
    if outputs.sidecars:
        written += _write_sidecars(given, force, skipped)
    if count := sum(one.unlikeness > 1 for one in given):
        notes.append(f"{UNLIKE}, so that words and scores mean little: {count} of {counted(len(given), 'image')}")
    if given and not any(one.words for one in given):
        notes.append(f"no image has a word that reaches least={outputs.least:g}")
    return Report(
        figures={"images": given},
        lines=lines,
        inputs=names_of(images),
        outputs=written,
        skipped=skipped,
        notes=[*notes, *found.notes],
        shown={"whole": int(probable)},  # where bars of scores end; 0 is at the largest
    )


def _is_foreign(path: Path) -> bool:
    """Return whether a sidecar of another program is in the way."""
    return path.is_file() and not is_own_sidecar(path)


def _words(model: AnnotationModel, near: Neighbourhood, i: int, outputs: WordOutputs) -> list[Word]:
    """Return the words of image `i` that `outputs` wants, with the nearest training images that have them."""
    known, scores = model.annotator, near.scores[i]
    has = known.Y_[near.neighbours[i]].toarray() > 0  # (k, n_words): which words each neighbour has
    words = []
    for j in known.choose(scores[None], outputs.top)[0]:  # the columns of the chosen words
        if scores[j] >= outputs.least:
            order = np.argsort(-near.weights[i] * has[:, j], kind="stable")[:MAX_REASONS]
            because = [model.files[near.neighbours[i, n]] for n in order if has[n, j]] if model.files else []
            words.append(Word(str(known.words_[j]), float(scores[j]), because))
    return words


def _write_sidecars(given: list[AnnotatedImage], force: bool, skipped: list[str]) -> list[str]:
    """Write a sidecar beside each image with words, and return their names."""
    written = []
    for image, words, _ in given:
        if not words:
            continue
        path = sidecar_of(image)
        try:
            # `write_sidecar` never replaces a foreign one. `force` is set for it only because then the message says
            # that another program wrote it, and does not recommend --force.
            write_sidecar(path, [word.word for word in words], force=force or _is_foreign(path))
        except OutputExistsError as error:
            skipped.append(str(error))
        else:
            written.append(str(path))
    return written
