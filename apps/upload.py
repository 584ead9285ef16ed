"""The files of a job that travel to its worker, and those that travel back, for workers that see no files of ours.

A worker holds the files of a job in a private folder, under their absolute names here: ``/data/a.png`` is
``FOLDER/data/a.png`` there, and the job works in ``FOLDER`` and the current folder of this process. Relative names
therefore stay as they are. Absolute names get ``FOLDER`` on the way to the worker, and lose it on the way back, also in
messages and reports.
"""

from __future__ import annotations

import glob
import inspect
import io
import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from visionnmf.exceptions import TooLargeError
from visionnmf.io import expand_inputs, is_live, output_file, output_folder, stem_of, transaction

# Files that are sent may take 1 / 8 of a worker's memory: up to two copies each way leave half of it for the job.
PARTS_OF_MEMORY = 8


class Names(NamedTuple):
    """The names in the arguments of a job, as they were given: of inputs that are there, and of folders for results."""

    inputs: list[str]
    outs: list[str]
    stems: tuple[str, ...]  # how the names of its results begin


class Returned(NamedTuple):
    """What comes back from a worker: the packed result or error of a job, the files it wrote, and those it removed."""

    packed: bytes
    files: dict[str, bytes]
    removed: list[str]


@dataclass(frozen=True)
class Parcel:
    """What a job needs on its worker besides the content of files: see :func:`parcel`."""

    packed: bytes
    folder: str
    existing: dict[str, int]
    limit: float


def takes_files(function: Callable[..., Any]) -> bool:
    """Return whether the arguments of a function, or of what a partial function calls, name files."""
    return getattr(getattr(function, "func", function), "takes_files", False)


def names_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Names:
    """Return the names in the arguments of a function that takes files; see :func:`visionnmf.io.takes_files`."""
    # An argument called "source" is an input, perhaps a folder or a pattern, and "out" a folder for results; other
    # texts are inputs if they name a file. What is in `out` is a result of this job if its name begins with a stem.
    inputs: dict[str, None] = {}
    outs, stems = [], []
    for role, name in _texts(inspect.signature(function).bind(*args, **kwargs).arguments):
        if role == "out":
            outs.append(name)
            continue
        if role == "source":  # results are called NAME_..., after the file with or without its ending, or the sample
            stems += [f"{stem_of(name)}_", f"{Path(name).stem}_", f"{name.removeprefix('sample:')}_"]
        several = role == "source" and (os.path.isdir(name) or (glob.has_magic(name) and not is_live(name)))
        if several or os.path.isfile(name):
            inputs[name] = None
    return Names(list(inputs), outs, tuple(stems))


def _texts(value: Any, role: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text and path in the arguments of a job with the name of its argument, key or field."""
    if isinstance(value, str | PurePath):
        yield role, str(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, key)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _texts(getattr(value, field.name), field.name)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, role)


def files_of(name: str) -> list[str]:
    """Return the files of an input: itself, all files of a folder and below it, or those that match a pattern."""
    if os.path.isdir(name):
        return [os.path.join(folder, file) for folder, _, files in os.walk(name) for file in files]
    return [name] if os.path.lexists(name) else expand_inputs([name])


def check_size(names: Iterable[str], limit: float) -> None:
    """Raise TooLargeError if inputs have more than `limit` bytes together."""
    names = list(names)
    size = sum(os.path.getsize(file) for name in names for file in files_of(name) if os.path.isfile(file))
    if size > limit:
        raise TooLargeError(f"{' and '.join(names)}: {_too_much(size, limit)}")


def _too_much(size: float, limit: float) -> str:
    """Return the end of a message about `size` bytes that a worker must not hold."""
    return (
        f"{size / 1e6:.1f} MB are more than the {limit / 1e6:.1f} MB that may be uploaded, 1/{PARTS_OF_MEMORY} of a "
        "worker's memory; use a shared path or workers with more memory"
    )


def content_of(name: str) -> dict[str, bytes]:
    """Return the content of the files of an input by their absolute names."""
    return {os.path.abspath(file): Path(file).read_bytes() for file in files_of(name) if os.path.isfile(file)}


def parcel(names: Names, args: tuple[Any, ...], kwargs: dict[str, Any], limit: float) -> Parcel:
    """Return what a job needs on its worker besides the content of its inputs.

    These are its arguments, the current folder, and `existing`, the results that are there already: on the worker they
    are empty files, so that it refuses or replaces them as usual. Results may have up to `limit` bytes.
    """
    # `outs` are the folders for results, and `stems` what the names of this job's results begin with
    existing = {}
    for out in names.outs:
        found = list(os.scandir(out)) if os.path.isdir(out) else []
        for entry in found:
            if entry.name.startswith(names.stems):
                for file in files_of(entry.path):
                    existing[os.path.abspath(file)] = os.lstat(file).st_mtime_ns
    return Parcel(_packed((args, kwargs)), os.getcwd(), existing, limit)


def work_in_private(
    function: Callable[..., Any], parcel: Parcel, contents: Iterable[Mapping[str, bytes]], within: str
) -> Returned:
    """Call a function on a worker, with `contents` as its files, in a temporary folder `within` another one.

    `parcel` has the packed arguments, the current folder of the process that submitted the job, files that exist in the
    folders for results, with their times, and how many bytes results may have. Absolute paths in the arguments are
    moved below the temporary folder, `root`, and lose it again in what is returned.
    """
    with tempfile.TemporaryDirectory(dir=within) as folder:
        root = os.path.realpath(folder)
        for path, time in parcel.existing.items():
            _write(root + path, b"")
            os.utime(root + path, ns=(time, time))
        for content in contents:
            for path, data in content.items():
                _write(root + path, data)
        os.makedirs(root + parcel.folder, exist_ok=True)
        before = _state(root)  # by path below `root`: file number, time and size of each file
        args, kwargs = unpacked(parcel.packed, root)
        result: tuple[Any, Exception | None]
        with chdir(root + parcel.folder):
            try:
                result = function(*args, **kwargs), None
            except Exception as error:
                result = None, error
        after = _state(root)
        written = [path for path, state in after.items() if before.get(path) != state]
        if (size := sum(after[path][-1] for path in written)) > parcel.limit:
            result, written = (None, TooLargeError(f"{_first(args)}: results of {_too_much(size, parcel.limit)}")), []
        # texts such as reports name the files that were read or written; in them `root` is taken out
        files = {path: _without(root, Path(root + path).read_bytes()) for path in written}
        return Returned(_packed(result, root), files, [path for path in before if path not in after])


def _first(args: tuple[Any, ...]) -> str:
    """Return the first of the texts in arguments that names an existing file or folder, or "", for a message."""
    return next((name for _, name in _texts(args) if os.path.lexists(name)), "")


def _write(path: str, content: bytes) -> None:
    """Write a file of a private folder."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_bytes(content)


def _state(root: str) -> dict[str, tuple[int, int, int]]:
    """Return the files below a folder by their names without it: what changes when one is written, its size last."""
    # That is the number of the file in the file system, its time, and its size.
    found = {}
    for folder, _, files in os.walk(root):
        for file in files:
            path = os.path.join(folder, file)
            stat = os.lstat(path)
            found[path.removeprefix(root)] = stat.st_ino, stat.st_mtime_ns, stat.st_size
    return found


def _without(root: str, content: bytes) -> bytes:
    """Return the content of a file; a text loses the private folder from the names in it."""
    return content if b"\0" in content else content.replace(os.fsencode(root), b"")


def take_back(returned: Returned) -> tuple[Any, Exception | None]:
    """Write what a job has written on its worker, all or none, and return its result, or None and its error."""
    # `returned` has the content of the files by their names here, the names of files that the job removed, and the
    # packed result.
    # The job knew which files exist, and has refused to replace what it must not, so `force` is right here.
    with transaction():
        for path, content in returned.files.items():
            output_folder(os.path.dirname(path))
            with output_file(path, force=True) as temporary:
                temporary.write_bytes(content)
    for path in returned.removed:
        Path(path).unlink(missing_ok=True)
    outcome: tuple[Any, Exception | None] = unpacked(returned.packed)
    return outcome


class _Packer(pickle.Pickler):
    """Packs values; absolute paths, or those below `root`, are marked, so that :func:`unpacked` can move them."""

    def __init__(self, file: io.BytesIO, root: str) -> None:
        """Pickle into `file`, and take the private folder `root` of a worker out of paths; it is empty elsewhere."""
        super().__init__(file)
        self._root = root

    def persistent_id(self, value: Any) -> bytes | None:
        """Return the mark of a path: a letter for its type, and the path without `_root`; None for anything else.

        Pickle calls this for each value, and writes the mark in its place. The unpickler of the other process puts its
        own `_root` before the path.
        """
        # On a worker `_root` is its private folder, and only paths with it are marked. In the process that submits jobs
        # it is empty, and all absolute paths are marked.
        if not isinstance(value, str | PurePath):
            return None
        text = str(value)
        moves = self._root in text if self._root else text.startswith("/")
        letter = b"t" if isinstance(value, str) else b"p"
        return letter + text.replace(self._root, "").encode("utf-8", "surrogatepass") if moves else None


class _Unpacker(pickle.Unpickler):
    """Unpacks what `_Packer` has packed; marked paths get the folder `root`."""

    def __init__(self, file: io.BytesIO, root: str) -> None:
        """Unpickle `file`, with its paths below `root`: the private folder of a worker, or empty elsewhere."""
        super().__init__(file)
        self._root = root

    def persistent_load(self, mark: bytes) -> str | Path:
        """Return the path that a mark of the pickler of another process stands for, below the folder `root`.

        A mark is a letter, ``t`` for text or ``p`` for a Path, and the path without the private folder of a worker.
        """
        text = self._root + mark[1:].decode("utf-8", "surrogatepass")
        return text if mark[:1] == b"t" else Path(text)


def _packed(value: Any, root: str = "") -> bytes:
    """Pickle a value; absolute paths in it are marked, so that the process that unpickles it can move them.

    On a worker only paths below its private folder, `root`, are marked, and they lose that folder.
    """
    file = io.BytesIO()
    _Packer(file, root).dump(value)
    return file.getvalue()


def unpacked(packed: bytes, root: str = "") -> Any:
    """Return the value that was packed; paths that were marked when it was packed now begin with `root`."""
    return _Unpacker(io.BytesIO(packed), root).load()
