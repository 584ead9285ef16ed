"""Words of images, read from a table or from the keywords in the images."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from visionnmf._checks import brief
from visionnmf.exceptions import UnreadableError
from visionnmf.io import clean_words
from visionnmf.io.inputs import read_text
from visionnmf.io.keywords import find_keywords
from visionnmf.io.tables import text_of_cell

__all__ = ["Labels", "find_labels", "read_labels"]

HEADINGS = ("file", "filename", "image", "path")  # of the first column
WORD_KEYS = ("words", "keywords", "labels", "tags")
SEPARATOR = ";"


@dataclass(frozen=True)
class Labels:
    """Words of images.

    `Y` (n_images, n_words) is a sparse array with 1 for each word of an image, and `words` is the sorted vocabulary.
    `found` names the images that have words, the rows of `Y`. `notes` has a sentence for each thing that did not fit.
    """

    Y: Any
    words: list[str]
    found: NDArray[np.intp]
    notes: list[str]

    __repr__ = brief


def find_labels(source: str | Path | None, images: Sequence[str], root: str | Path | None = None) -> Labels:
    """Find the words of images.

    `source` is a CSV or JSON Lines file, see :func:`read_labels`, with names relative to the folder `root`. None reads
    IPTC, XMP and sidecars, except sidecars written by visionnmf, whose words may be a model's guesses. Raises
    MediaError if the file cannot be read, or no image has a word.
    """
    notes: list[str] = []
    of_images = _keywords(images, notes) if source is None else _matched(read_labels(source), images, root, notes)
    found = [i for i, words in enumerate(of_images) if words]
    if not found:
        raise UnreadableError(f"{source or 'keywords'}: none of the {len(images)} images has words there")
    if len(found) < len(images):
        notes.append(f"{len(images) - len(found)} of {len(images)} images have no words and are left out")
    vocabulary = sorted({word for i in found for word in of_images[i]})
    column = {word: j for j, word in enumerate(vocabulary)}
    rows = [[column[word] for word in of_images[i]] for i in found]
    # Compressed sparse rows: the words of image i are indices[starts[i]:starts[i + 1]].
    starts = np.cumsum([0, *map(len, rows)])
    indices = np.array([j for row in rows for j in sorted(row)], np.int64)
    Y = sp.csr_array((np.ones(len(indices), np.float32), indices, starts), shape=(len(found), len(vocabulary)))
    return Labels(Y, vocabulary, np.array(found, np.intp), notes)


def read_labels(path: str | Path) -> dict[str, list[str]]:
    """Return the words of each file in a table, in a normalised form.

    ``.jsonl`` has on each line an object with ``file`` and a list ``words`` (or ``keywords``, ``labels``, ``tags``).
    Any other name is read as CSV in UTF-8: on each line a file, then its words in further columns or separated by
    semicolons. A file that occurs twice has the words of both lines. Raises MediaError for unreadable tables.
    """
    text = read_text(path, "table of words", "utf-8-sig")
    lines = _json_lines if Path(path).suffix.lower() in (".jsonl", ".ndjson") else _csv_lines
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
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row or not row[0].strip() or (number == 1 and row[0].strip().casefold() in HEADINGS):
            continue
        name, *words = map(text_of_cell, row)
        yield name.strip(), [word for cell in words for word in cell.split(SEPARATOR)]


def _keywords(images: Sequence[str], notes: list[str]) -> list[list[str]]:
    """Return the keywords in the metadata of each image; problems are added to `notes`."""
    of_images: list[list[str]] = []
    own = 0  # number of sidecars that visionnmf wrote
    for image in images:
        try:
            found = find_keywords(image, own=False)
        except UnreadableError as error:
            notes.append(str(error))
            of_images.append([])
        else:
            notes.extend(found.damaged)
            of_images.append(found.words)
            own += len(found.own)
    if own:
        notes.append(f"{own} sidecars that visionnmf wrote are left out: their words may be a model's guesses")
    return of_images


def _matched(
    table: dict[str, list[str]], images: Sequence[str], root: str | Path | None, notes: list[str]
) -> list[list[str]]:
    """Return the words of each image, found by its full name, its name relative to `root`, or its last part."""
    used: set[str] = set()
    found = []
    for image in images:
        path = PurePath(image)
        names = [image, path.as_posix(), path.name, path.stem]
        if root is not None and path.is_relative_to(root):
            # Before the bare name, which may occur in several folders.
            names.insert(2, path.relative_to(root).as_posix())
        name = next((name for name in names if name in table), None)
        used |= {name} if name is not None else set()
        found.append(table[name] if name is not None else [])
    if len(used) < len(table):
        absent = next(name for name in table if name not in used)
        count = f"{len(table) - len(used)} of {len(table)}"
        notes.append(f"{count} names in the table are not images here, such as {absent}")
    return found
