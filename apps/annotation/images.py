"""Images with their features, extracted or from a table, and their words, from a table or the images' keywords."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from visionnmf._checks import brief
from visionnmf._progress import Progress
from visionnmf._text import counted
from visionnmf.apps.cluster import open_workers
from visionnmf.apps.feature_tables import FeatureTable, read_table
from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.features import Extractor, FeatureExtraction, make_extractor
from visionnmf.io import clean_words, expand_images
from visionnmf.io.inputs import names_of, read_text
from visionnmf.io.keywords import find_keywords
from visionnmf.io.tables import text_of_cell

Array = NDArray[Any]
Sources = str | Path | Sequence[str]  # a folder, images or patterns, or a table of features

WORD_KEYS = ("words", "keywords", "labels", "tags")
# Of the first and of the second column, without capitals.
NAMES = (
    *("file", "filename", "file name", "file_name", "image", "image_id"),
    *("photo", "photograph", "picture", "path", "name"),
)
OBJECTS = (".jsonl", ".ndjson")  # suffixes of tables with one JSON object on each line
WORDS = (*WORD_KEYS, "word", "keyword", "label", "tag", "annotation", "annotations", "caption", "class")

# What follows the first cell of a row, which is in quotes or has none of these characters.
_SEPARATOR = re.compile(r"(?:\"[^\"]*\"|[^,;\t\"]+)([,;\t])")
_BETWEEN_WORDS = re.compile(r"[,;|]")
_BETWEEN_PARTS = re.compile(r"[\s/#&+'\"]+")  # of what may be several words without commas
_NUMBER = re.compile(r"[+-]?\d+\.?\d*(e[+-]?\d+)?")
_LIST = re.compile(r"\s*[\[{](.*)[\]}]\s*")  # a cell that Python wrote: ['city', 'sky']

# A table of so many images, in which such a share of all words occurs once, probably has another form than was read.
FEW_IMAGES, ONCE = 20, 0.95


@dataclass(frozen=True)
class Described:
    """Features of images: a row of `X` for each of `files`, and the columns of each view."""

    X: Array
    files: list[str]
    views: dict[str, slice]
    extraction: FeatureExtraction | None  # the fitted extractors; None if the features come from a table
    skipped: list[str]  # what was not read
    notes: list[str] = field(default_factory=list)  # what was guessed

    __repr__ = brief


def describe(
    source: Sources,
    extraction: FeatureExtraction | None,
    *,
    fit: bool = False,
    views: Mapping[str, slice] | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Described:
    """Return the features of images, or those of a table; with `fit` the extraction learns from the images first."""
    if is_table(source):
        (name,) = names_of(source)
        table = read_table(name)
        found_views = _views(name, table)
        if views is not None and found_views != dict(views):
            raise ParameterError(f"source must have the features {_listed(views)}; got {_listed(found_views)}")
        return Described(table.X, table.files, found_views, None, [])
    images = expand_images(names_of(source))
    if extraction is None:
        raise ParameterError(
            f"source must be a table of features (.npz), as in training; got {len(images)} images; train on images"
        )
    extraction.set_params(n_jobs=n_jobs)
    with warnings.catch_warnings(), open_workers() as pool:
        warnings.simplefilter("ignore", UserWarning)  # about transparency, for each image
        found = extraction.extract(images, fit=fit, progress=progress, pool=pool)
    files = [images[i] for i in found.readable]
    return Described(found.X, files, extraction.views_, extraction, found.skipped, found.notes)


def usual_extractors() -> list[Extractor]:
    """Return the default extractors: colours and visual words in three bands, and whole images; not fitted."""
    bands = {"layout": (3, 1)}
    in_bands = {"dense-sift": {}, "dense-hue": {}, "rgb": {"n_bins": 8}, "lab": {"n_bins": 12}, "hsv": {"n_bins": 8}}
    made = [make_extractor(kind, **bands, **parameters) for kind, parameters in in_bands.items()]
    return [*made, *map(make_extractor, ("gist", "lbp", "centrist"))]


def files_of(source: Sources) -> list[str]:
    """Return the files that :func:`describe` reads; raises MediaError if there are none."""
    return names_of(source) if is_table(source) else expand_images(names_of(source))


def within_common_folder(files: Sequence[str]) -> list[str]:
    """Return names relative to the innermost folder that holds all files; as they are if there is none."""
    try:
        shared = os.path.commonpath([os.path.dirname(file) for file in files])
    except ValueError:  # no files, or absolute and relative names
        shared = ""
    return [os.path.relpath(file, shared) for file in files] if shared else list(files)


def is_table(source: Sources) -> bool:
    """Return whether a source is one table of features (``.npz``) instead of images."""
    sources = names_of(source)
    return len(sources) == 1 and Path(sources[0]).suffix.lower() == ".npz"


def _listed(views: Mapping[str, slice]) -> str:
    """Return the names of views and their numbers of columns, for messages."""
    return f"{', '.join(f'{view} {columns.stop - columns.start}' for view, columns in views.items()):.200}"


def _views(name: str, table: FeatureTable) -> dict[str, slice]:
    """Return the columns of each view of a table; raise UnreadableError unless they are next to each other."""
    if (np.diff(table.groups) < 0).any() or len(set(table.views)) < len(table.views):
        raise UnreadableError(f"{name}: the columns of a view are not next to each other")
    # `groups` holds the number of the view of each column, in rising order, so this is where each view begins.
    ends = np.searchsorted(table.groups, np.arange(len(table.views) + 1)).tolist()
    spans = zip(table.views, pairwise(ends), strict=True)
    return {view: slice(*span) for view, span in spans if span[0] < span[1]}


# --- words ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImagesWithWords(Described):
    """Images that have words, with their features."""

    notes: list[str]
    Y: Any  # (n_images, n_words), sparse: 1 for each word of an image
    words: list[str]  # the sorted vocabulary

    __repr__ = brief


def images_with_words(
    source: Sources,
    labels: str | Path | None,
    extraction: FeatureExtraction | None,
    *,
    fit: bool = False,
    views: Mapping[str, slice] | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> ImagesWithWords:
    """Return images with words, from the file `labels` or, for None, IPTC, XMP and sidecars, and their features."""
    root = source if isinstance(source, str | Path) else None
    notes: list[str] = []
    skipped: list[str] = []
    if is_table(source):  # its features have been computed, so there is nothing to fit; `views` are compared with its
        found = describe(source, extraction, views=views)
        words_of = _find_words(labels, found.files, root, notes, skipped)
    else:
        words_of = _find_words(labels, files_of(source), root, notes, skipped)
        found = describe(list(words_of), extraction, fit=fit, views=views, n_jobs=n_jobs, progress=progress)
    kept = [i for i, file in enumerate(found.files) if file in words_of]
    files = [found.files[i] for i in kept]
    vocabulary = sorted({word for file in files for word in words_of[file]})
    column = {word: j for j, word in enumerate(vocabulary)}
    rows = [sorted(column[word] for word in words_of[file]) for file in files]
    # Compressed sparse rows: the words of image i are indices[starts[i]:starts[i + 1]].
    starts = np.cumsum([0, *map(len, rows)])
    indices = np.array([j for row in rows for j in row], np.int64)
    Y = sp.csr_array((np.ones(len(indices), np.float32), indices, starts), shape=(len(files), len(vocabulary)))
    skipped += found.skipped
    notes += found.notes
    return ImagesWithWords(found.X[kept], files, found.views, found.extraction, skipped, notes, Y, vocabulary)


def _find_words(
    labels: str | Path | None, images: Sequence[str], root: str | Path | None, notes: list[str], skipped: list[str]
) -> dict[str, list[str]]:
    """Return the words of each image that has some, from `labels` by name or, if None, from the image's keywords."""
    if labels is None:
        of_images = _keywords(images, notes, skipped)
    else:
        of_images = _matched(read_words(labels), images, root, notes)
        if Path(labels).suffix.lower() not in OBJECTS:  # these files say where each word ends
            _check_words(labels, of_images)
    found = {image: words for image, words in zip(images, of_images, strict=True) if words}
    if not found and labels is None:
        raise ParameterError(
            "labels must be a CSV or JSON Lines file of words; got none, and there are no keywords (IPTC, XMP or a "
            f"sidecar) in {counted(len(images), 'image')}"
        )
    if not found:
        raise UnreadableError(f"{labels}: has no words for {counted(len(images), 'image')}")
    without = sum(not words for words in of_images)
    if without:
        notes.append(f"without words, and left out: {without} of {counted(len(images), 'image')}")
    return found


def read_words(path: str | Path) -> dict[str, list[str]]:
    """Return the words of each file in a table, in a normalised form; raise MediaError for unreadable tables.

    ``.jsonl`` has on each line an object with ``file`` and a list ``words`` (or ``keywords``, ``labels``, ``tags``).
    Any other name is read as CSV in UTF-8: on each line a file, then its words in further columns, or in one cell with
    commas, semicolons or bars between them. A file that occurs twice has the words of both lines.
    """
    text = read_text(path, "table of words", "utf-8-sig")
    lines = _json_lines if Path(path).suffix.lower() in OBJECTS else _csv_lines
    found: dict[str, list[str]] = {}
    try:
        for name, words in lines(text):
            found[name] = clean_words([*found.get(name, []), *words])
    except (ValueError, KeyError, TypeError, csv.Error, RecursionError) as error:
        raise UnreadableError(f"{path}: {error}") from error
    return found


def _json_lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the file and the words of each JSON line; ValueError with the line's number if it is not of this form."""
    for number, line in enumerate(text.split("\n"), 1):  # `splitlines` cuts at characters that JSON allows
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            key = next(key for key in WORD_KEYS if key in item)
            name, words = item["file"], item[key]
        except (ValueError, KeyError, TypeError, StopIteration, RecursionError):
            raise ValueError(f"line {number} is not an object with 'file' and 'words'") from None
        if not isinstance(name, str) or not isinstance(words, list) or not all(isinstance(w, str) for w in words):
            raise ValueError(f"line {number} is not an object with 'file', a name, and 'words', a list of texts")
        yield name, words


def _csv_lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the file and the words of each row; a cell may hold several words."""
    separators = Counter(match[1] for line in text.split("\n") if (match := _SEPARATOR.match(line)))
    delimiter = separators.most_common(1)[0][0] if separators else ","
    for number, row in enumerate(csv.reader(io.StringIO(text), delimiter=delimiter), 1):
        name, *words = map(text_of_cell, row or [""])  # without the quote that keeps spreadsheets from seeing formulas
        name = name.strip()
        headings = [cell.strip().casefold() for cell in (name, *words)]
        if not name or (number == 1 and (headings[0] in NAMES or (headings[1:2] and headings[1] in WORDS))):
            continue
        cells = [_LIST.sub(lambda found: re.sub(r"(['\"])(.*?)\1", r"\2", found[1]), cell) for cell in words]
        yield name, [word for cell in cells for word in _BETWEEN_WORDS.split(cell)]


def _check_words(labels: str | Path, of_images: list[list[str]]) -> None:
    """Raise UnreadableError if what was read as words is hardly that: numbers, lists, or texts that occur once."""
    counts = Counter(word for words in of_images for word in words)
    flags = {word.casefold() for word in counts} <= {"0", "1", "0.0", "1.0", "true", "false"}
    if flags and any(len(words) > 1 for words in of_images):
        raise UnreadableError(f"{labels}: holds {', '.join(sorted(counts))} in columns; write the words of each image")
    some = [words for words in of_images if words]
    if len(some) < FEW_IMAGES:
        return
    numbers = [word for words in some if len(words) > 1 for word in words if _NUMBER.fullmatch(word)]
    if 2 * len(numbers) >= len(some):
        raise UnreadableError(f"{labels}: holds numbers beside words, such as {numbers[0]}; leave out their column")
    lists = [words[0] for words in some if len(words) == 1 and _BETWEEN_PARTS.search(words[0])]
    parts = Counter(part for word in counts for part in {*_BETWEEN_PARTS.split(word)} - {""})
    if 2 * len(lists) >= len(some) == sum(map(len, some)) and 2 * sum(n > 1 for n in parts.values()) >= len(parts):
        raise UnreadableError(
            f"{labels}: holds one text for each image, such as {lists[0]!r}, whose parts occur in others; put commas "
            "or semicolons between words, or write JSON Lines"
        )
    once = sum(count == 1 for count in counts.values())
    if once >= ONCE * len(counts):
        example = next(word for word, count in counts.items() if count == 1)
        raise UnreadableError(
            f"{labels}: {once} of {len(counts)} words occur only once, such as {example!r}; put each word into a cell "
            "of its own, or commas or semicolons between them, or write JSON Lines"
        )


def _keywords(images: Sequence[str], notes: list[str], skipped: list[str]) -> list[list[str]]:
    """Return the keywords of each image; damage is added to `notes`, and unreadable images to `skipped`."""
    of_images: list[list[str]] = []
    own = 0  # number of sidecars that visionnmf wrote
    for image in images:
        try:
            found = find_keywords(image, own=False)  # without the words of such sidecars
        except UnreadableError as error:
            skipped.append(str(error))
            of_images.append([])
        else:
            notes.extend(found.damaged)
            of_images.append(found.words)
            own += len(found.own)
    if own:
        notes.append(f"{counted(own, 'sidecar')} of visionnmf left out: the words may be a model's guesses")
    return of_images


def _matched(
    table: dict[str, list[str]], images: Sequence[str], root: str | Path | None, notes: list[str]
) -> list[list[str]]:
    """Return the words of each image, found by its full name, its name relative to `root`, or its last part."""
    used: set[str] = set()
    # A table of features has names within a folder, of which the table of words may have the folder, too.
    within = dict(zip(within_common_folder(list(table)), table, strict=True))
    found = []
    for image in images:
        path = PurePath(image)
        names = [image, path.as_posix(), path.name, path.stem]
        if root is not None and path.is_relative_to(root):
            # Before the bare name, which may occur in several folders.
            names.insert(2, path.relative_to(root).as_posix())
        name = next((name for name in names if name in table), within.get(path.as_posix()))
        used |= {name} if name is not None else set()
        found.append(table[name] if name is not None else [])
    if len(used) < len(table):
        absent = next(name for name in table if name not in used)
        count = f"{len(table) - len(used)} of {len(table)}"
        notes.append(f"names in the table that are not images here: {count}, such as {absent}")
    return found
