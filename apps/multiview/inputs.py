"""Views out of files and folders of images, with their rows matched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from visionnmf._checks import shown
from visionnmf._text import counted
from visionnmf.exceptions import MediaError, ParameterError, UnreadableError
from visionnmf.io import find_files
from visionnmf.io.tables import Table, read_column, read_tables

Array = NDArray[Any]

MOST_NAMED = 5  # keys of missing rows that are named
MOST_LETTERS = 60  # of each of these keys
MOST_QUOTED = 2  # keys of each view that are named if views have none in common
IMAGES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp")
DEEPER = "its sub-folders are not read; put the images of a view into one folder"


@dataclass
class ViewSet:
    """Views of the same samples."""

    views: dict[str, Array]  # (n_samples, n_features): NaN where an entry is missing, or the sample lacks the view
    keys: list[str]  # of the samples, or their numbers
    labels: Array | None = None  # of a file that has some
    columns: dict[str, list[str]] = field(default_factory=dict)  # names of features, of views whose files have them
    notes: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # images that could not be used
    extraction: Any = None  # has described the images
    key: str | None = None  # by which rows were matched


def read_views(
    sources: Sequence[str | Path],
    *,
    key: str | None = None,
    extraction: Any = None,
    kinds: Sequence[str] | None = None,
    usual_key: str | None = None,
) -> ViewSet:
    """Read views, each a ``PATH`` or ``NAME=PATH`` of arrays, a table or a folder of images, and match their rows.

    Without a `key`, rows are matched by the `usual_key`, that of training, if all files have keys.
    """
    _check_paths(sources)
    folders = [path for _, path in map(named, sources) if Path(path).is_dir()]
    if len(folders) > 1:  # because a model keeps a single description of images
        raise UnreadableError(
            f"{folders[1]}: a second folder of images, after {folders[0]}; give its features in a file"
        )
    # first what takes no time and may be wrong: describing images takes minutes
    paths = [path for _, path in map(named, sources) if not Path(path).is_dir()]
    wanted = usual_key if key is None else key
    read = {path: _read_by(path, wanted, needed=key is not None) for path in paths}
    if all(table.keys is not None for found in read.values() for table in found):
        key = wanted
    match = _match_by_position if key is None else _match_by_key
    if folders and read:
        images = [Path(image).stem for image in _images(folders[0])]
        images = images if key is None else list(dict.fromkeys(images))  # one of two may be damaged
        bare = Table(Path(folders[0]).name, np.empty((len(images), 0)), images)
        match([bare, *(table for found in read.values() for table in found)], ViewSet({}, []))
    tables: list[Table] = []
    result = ViewSet({}, [], key=key)
    for source in sources:
        name, path = named(source)
        if Path(path).is_dir():
            # with a `key` rows are matched by the names of the files, otherwise by their order
            found, result.extraction, described = _describe(path, extraction, kinds, by_name=key is not None)
            result.skipped += described.skipped
            result.notes += described.notes
        else:
            found = read[path]
            result.notes += [table.note for table in found if table.note]
        # A name given by the user, NAME=PATH, replaces that of a single table; a file of several keeps its own names.
        tables += [replace(table, name=name) if name and len(found) == 1 else table for table in found]
    names = [table.name for table in tables]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UnreadableError(f"{twice}: two views have this name; give them names: NAME=PATH")
    result.columns = {table.name: table.columns for table in tables if table.columns is not None}
    labels = [table.labels for table in tables if table.labels is not None]
    match(tables, result)
    if key is None and usual_key is not None and len(tables) > 1:
        result.notes.append(f"rows are matched by position, because not all files have the key {usual_key} of training")
    if key is None:
        result.labels = labels[0] if labels and len(labels[0]) == len(result.keys) else None
    return result


def _read_by(path: str, key: str | None, *, needed: bool) -> list[Table]:
    """Return the tables of a file, with keys if it has the `key`, which may be missing unless it is `needed`."""
    try:
        return read_tables(path, key=key)
    except UnreadableError as error:
        if needed or key is None:
            raise
        try:
            return read_tables(path)
        except MediaError:
            raise error from None


def read_labels(path: str, views: ViewSet, *, column: str | None = None, by_key: bool = False) -> Array:
    """Return the labels of samples, from a text file or a column of a ``.csv`` file, matched by its keys or rows."""
    values, keys = read_column(path, column)
    if by_key and keys is not None:
        known = dict(zip(_in_known_spelling(keys, views.keys), values, strict=True))
        absent = [name for name in views.keys if name not in known]
        if absent:
            raise UnreadableError(
                f"{path}: has no label for {counted(len(absent), 'sample')}, such as {absent[0]!r:.60}"
            )
        return np.array([known[name] for name in views.keys])
    if len(values) != len(views.keys):
        raise UnreadableError(f"{path}: must have {len(views.keys)} labels, one for each sample; got {len(values)}")
    return np.array(values)


def read_files(sources: Sequence[str | Path]) -> list[str]:
    """Return the files that :func:`read_views` would read, including the images of folders."""
    _check_paths(sources)
    paths = [named(source)[1] for source in sources]
    return [file for path in paths for file in (_images(path) if Path(path).is_dir() else [str(path)])]


def _check_paths(sources: Any) -> None:
    """Raise ParameterError if `sources` are not a list of paths."""
    if isinstance(sources, str | Path) or not all(isinstance(source, str | Path) for source in sources):
        cure = f"pass [{shown(sources)}]" if isinstance(sources, str | Path) else "visionnmf.MultiviewNMF takes arrays"
        raise ParameterError(f"sources must be a list of paths; got {shown(sources)}; {cure}")


def named(source: str | Path) -> tuple[str, str]:
    """Return the name and the path of ``NAME=PATH``; the name is empty for a path, also if it has an = and exists."""
    source = str(source)
    name, sign, path = source.partition("=")
    return (name, path) if sign and name and not Path(source).exists() else ("", source)


def _match_by_position(tables: Sequence[Table], result: ViewSet) -> None:
    """Set the views and keys of `result` from tables whose equal rows are the same sample; the sizes must agree."""
    sizes = {table.name: len(table.X) for table in tables}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise UnreadableError(f"views must have the same number of rows; got {listed}; match them by a key column")
    result.views = {table.name: table.X for table in tables}
    keys = None
    for table in tables:
        keys = keys or table.keys
        if keys and table.keys and keys != table.keys and set(keys) == set(table.keys):
            cure = "match them by a key column; if that is an index without a name, give it one"
            raise UnreadableError(f"{table.name}: has the rows of an earlier view in another order; {cure}")
    result.keys = keys or [str(i) for i in range(next(iter(sizes.values())))]


def _match_by_key(tables: Sequence[Table], result: ViewSet) -> None:
    """Set the views and keys of `result` from tables whose rows are matched by their keys."""
    order: dict[str, int] = {}
    rows: list[list[int]] = []  # for each table the numbers of the samples of its rows
    for table in tables:
        if table.keys is None:
            raise UnreadableError(f"{table.name}: has no keys; a matrix without keys is matched by position")
        twice = [name for name, count in Counter(table.keys).items() if count > 1]
        if twice:
            raise UnreadableError(f"{table.name}: the key {twice[0]!r:.60} stands in two rows")
        # A key that differs from one of an earlier table only by an image's extension is taken for that one.
        rows.append([order.setdefault(name, len(order)) for name in _in_known_spelling(table.keys, order)])
    result.keys = list(order)
    there = np.zeros((len(order), len(tables)), bool)  # which samples have which views
    for v, table in enumerate(tables):
        there[rows[v], v] = True
        full = np.full((len(order), table.X.shape[1]), np.nan, table.X.dtype)
        full[rows[v]] = table.X
        result.views[table.name] = full
    _check_joined(tables, there)
    result.notes += _gap_notes(list(result.views), result.keys, there)


def _in_known_spelling(keys: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return for each key the known one that equals it, or that alone does so without an image's extension."""
    exact = set(known)
    # a key stays as it is if it is known, or if its stem, without the extension, fits no known key, or several keys
    counts, own = Counter(map(_without_extension, exact)), Counter(map(_without_extension, keys))
    stems = {_without_extension(key): key for key in exact}
    return [
        key if key in exact or counts[stem] != 1 or own[stem] > 1 else stems[stem]
        for key, stem in zip(keys, map(_without_extension, keys), strict=True)
    ]


def _without_extension(key: str) -> str:
    """Return a key without the extension of an image file, if it has one."""
    stem, dot, extension = key.rpartition(".")
    return stem if stem and f"{dot}{extension}".lower() in IMAGES else key


def _check_joined(tables: Sequence[Table], there: Array) -> None:
    """Raise UnreadableError if no chain of samples in common, `there`, leads from the first table to some other."""
    # two tables are connected if they have a sample in common; `part` numbers the connected parts from 0
    part = connected_components(there.T.astype(np.int64) @ there, directed=False)[1]
    if not part.any():
        return
    pair = tables[0], tables[int(np.flatnonzero(part)[0])]
    quoted = [", ".join(map(_short_key, (table.keys or [])[:MOST_QUOTED])) for table in pair]
    raise UnreadableError(
        f"{pair[0].name} and {pair[1].name} have no key in common: one has keys such as {quoted[0]}, the other such as "
        f"{quoted[1]}; write the same keys into both (the key of an image in a folder is its file name), or match the "
        "rows by position"
    )


def _gap_notes(names: Sequence[str], keys: Sequence[str], there: Array) -> list[str]:
    """Return how many samples have all views, and a sentence, with keys, for each view that `there` lacks."""
    if there.all():
        return []
    every = "both" if len(names) == 2 else f"all {len(names)}"
    alone = there & (there.sum(axis=1, keepdims=True) == 1)
    only = [f"{count} have only {name}" for name, count in zip(names, alone.sum(axis=0), strict=True) if count]
    notes = [", ".join([f"{there.all(axis=1).sum()} of {len(keys)} samples have {every} views", *only])]
    for v, name in enumerate(names):
        absent = np.flatnonzero(~there[:, v])
        if len(absent):
            shown = [_short_key(keys[i]) for i in absent[:MOST_NAMED]]
            listed = ", ".join(shown) + (", ..." if len(absent) > MOST_NAMED else "")
            notes.append(f"{name} is missing for {len(absent)} of {len(keys)} samples: {listed}")
    return notes


def _short_key(key: str) -> str:
    """Return a key for a message, on one line and shortened."""
    return f"{' '.join(key.split()):.{MOST_LETTERS}}"


def _images(folder: str) -> list[str]:
    """Return the image files of a folder."""
    return [str(Path(folder) / name) for name in find_files(folder, IMAGES, deeper=DEEPER)]


def _describe(
    folder: str, extraction: Any, kinds: Sequence[str] | None, *, by_name: bool
) -> tuple[list[Table], Any, Any]:
    """Return a table for each kind of features of a folder's images, the extraction, and all that it returned."""
    from visionnmf.features import FeatureExtraction

    images = _images(folder)
    if extraction is None:
        extraction = FeatureExtraction() if kinds is None else FeatureExtraction(list(kinds))
        found = extraction.extract(images, fit=True)
    else:
        found = extraction.extract(images)
    if found.skipped and not by_name:
        raise UnreadableError(f"{found.skipped[0]}; with a key column the other images can be matched by name")
    keys = [Path(images[i]).stem for i in found.readable]
    tables = [Table(name, found.X[:, columns], keys) for name, columns in extraction.views_.items()]
    return tables, extraction, found
