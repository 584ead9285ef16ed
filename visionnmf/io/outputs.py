"""What is written: which outputs may be, and how a half-written file is never left.

Every writer of the package writes through :func:`output_file`, once: to a temporary name in the folder of the output,
which gets its name in one step when all went well. In a :func:`transaction` that step waits for the end of the block,
so that several files appear together or not at all. What a killed process has left is removed by the next that writes
into the folder.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from visionnmf.exceptions import MediaError, OutputExistsError, ParameterError

from .inputs import SAMPLE_PREFIX

__all__ = ["check_outputs", "check_outside", "output_file", "output_folder", "transaction"]


FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}  # what a full disk, a limit and a quota raise
LEFTOVER = re.compile(r"\.[0-9a-f]{12}\.part(\..*)?")
MINUTE = 60.0


class _Finished(NamedTuple):
    """A file that is whole and waits for its name; `lock` is it, open."""

    temporary: Path
    path: Path
    force: bool
    lock: int


_waiting: ContextVar[list[_Finished] | None] = ContextVar("waiting", default=None)


@contextmanager
def output_file(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """Write a file whole or not at all.

    The block writes to a temporary name in the same folder, with the same suffix so that encoders recognise the
    format. When the block ends well the file gets its name in one step, in a :func:`transaction` at the end of that;
    after any exception, Ctrl-C included, the temporary file is removed and `path` is as it was.

    Parameters
    ----------
    path : str or Path
        The file to write.
    force : bool, default=False
        Whether an existing file may be replaced.

    Yields
    ------
    Path
        The temporary file: it exists and is empty.

    Raises
    ------
    OutputExistsError
        If `path` exists and `force` is false; looked at before and again after the block.
    MediaError
        If `path` is a folder, or its folder is missing or cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from visionnmf.io import output_file
    >>> with output_file("notes.txt", force=True) as temporary:
    ...     _ = temporary.write_text("whole, or not at all")
    >>> Path("notes.txt").read_text()
    'whole, or not at all'
    """
    path = Path(path)
    _check_free(path, force)
    temporary = path.with_name(f".{secrets.token_hex(6)}.part{path.suffix}")
    lock = -1
    try:
        lock = _create(temporary, path)
        yield temporary
        finished = _Finished(temporary, path, force, lock)
        waiting = _waiting.get()
        if waiting is not None:
            waiting.append(finished)
            lock = -1  # the transaction's, until its end
        else:
            _give_names([finished])
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in FULL and not isinstance(error, MediaError):
            raise MediaError(f"{path}: cannot be written ({os.strerror(error.errno)})") from error
        raise
    finally:
        if lock >= 0:
            os.close(lock)


@contextmanager
def transaction() -> Iterator[None]:
    """Give the files that are written in the block their names together, or none.

    Holds for every writer of the package that is called in the block by the same thread. After an exception, Ctrl-C
    included, none of the files is there. A transaction within another is part of it; where it ends early, only its own
    files are dropped.

    Raises
    ------
    OutputExistsError
        If an output that may not be replaced has appeared meanwhile.
    MediaError
        If a file cannot get its name; those that had theirs already are removed.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> from visionnmf.io.outputs import output_file, transaction
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with transaction(), output_file(f"{folder}/a.txt") as a, output_file(f"{folder}/b.txt") as b:
    ...         _ = a.write_text("one"), b.write_text("two")
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['a.txt', 'b.txt']
    """
    outer = _waiting.get()
    if outer is not None:
        before = len(outer)
        try:
            yield
        except BaseException:
            _drop(outer[before:])
            del outer[before:]
            raise
        return
    waiting: list[_Finished] = []
    token = _waiting.set(waiting)
    try:
        yield
        _give_names(waiting)
    finally:
        _waiting.reset(token)
        _drop(waiting)


def _drop(files: Iterable[_Finished]) -> None:
    for finished in files:
        finished.temporary.unlink(missing_ok=True)
        os.close(finished.lock)


def _create(temporary: Path, path: Path) -> int:
    """Make a temporary file; return it open and locked, so that others can tell that its writer lives."""
    try:
        _remove_leftovers(path.parent.absolute())
        # Not tempfile: its files may be read by their owner only, and the name must keep its suffix.
        file = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    except FileNotFoundError as error:
        raise MediaError(f"{path}: there is no folder {path.parent}; create it first") from error
    except OSError as error:
        raise MediaError(f"{path}: cannot be written ({error.strerror})") from error
    _locked(file)
    return file


def _locked(file: int) -> bool:
    """Lock an open file, and return whether that went well; false where another has it, or there are no locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except (ImportError, OSError):  # Windows, some network drives
        return False


@functools.cache
def _remove_leftovers(folder: Path) -> None:
    """Remove, once a process, the temporary files in a folder whose writers were killed."""
    for entry in os.scandir(folder):
        with suppress(OSError):
            # one that is younger may not be locked yet
            if LEFTOVER.fullmatch(entry.name) and time.time() - entry.stat().st_mtime > MINUTE:
                file = os.open(entry.path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    if _locked(file):
                        os.unlink(entry.path)
                finally:
                    os.close(file)


def _give_names(waiting: list[_Finished]) -> None:
    for finished in waiting:
        _check_free(finished.path, finished.force)
    before: dict[Path, Path] = {}  # output: what had its name
    begun = 0
    try:
        for temporary, path, force, _ in waiting:
            begun += 1
            try:
                if len(waiting) > 1 and path.exists():
                    before[path] = path.with_name(f".{secrets.token_hex(6)}.old{path.suffix}")
                    _keep(path, before[path])
                _rename(temporary, path, force)
            except MediaError:
                raise
            except OSError as error:
                raise MediaError(f"{path}: cannot be written ({error.strerror})") from error
    except BaseException:  # a signal may have come right after a file got its name: what there is tells, no list
        for temporary, path, _, _ in waiting[:begun]:
            if not temporary.exists() or _same_file(temporary, path):
                path.unlink(missing_ok=True)
        for path, old in before.items():
            with suppress(OSError):
                os.replace(old, path)
                old.unlink(missing_ok=True)  # where both are names of one file nothing is replaced
        raise
    for old in before.values():
        old.unlink(missing_ok=True)


def _keep(path: Path, old: Path) -> None:
    """Give an output that is to be replaced a second name, under which it can be had back."""
    try:
        os.link(path, old)
    except OSError:  # a drive without hard links
        os.replace(path, old)


def _rename(temporary: Path, path: Path, force: bool) -> None:
    """Give a file its name; without `force` never that of another, which may have appeared this very moment."""
    if not force:
        try:
            os.link(temporary, path)
        except FileExistsError:
            _check_free(path, force)
        except OSError:  # a drive without hard links
            pass
        else:
            temporary.unlink()
            return
    os.replace(temporary, path)


def _check_free(path: Path, force: bool) -> None:
    if path.is_dir():
        raise MediaError(f"{path}: is a folder; name a file to write")
    if not force and os.path.lexists(path):
        raise OutputExistsError(f"{path}: exists already; pass force=True to replace it")


def output_folder(path: str | Path) -> Path:
    """Make a folder for outputs, and those that it lies in.

    Parameters
    ----------
    path : str or Path
        It may exist.

    Returns
    -------
    Path
        The same path.

    Raises
    ------
    MediaError
        If it cannot be made.

    Examples
    --------
    >>> from visionnmf.io import output_folder
    >>> output_folder("results").name
    'results'
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MediaError(f"{folder}: cannot be written ({error.strerror})") from error
    return folder


def check_outputs(paths: Iterable[str | Path], force: bool, *, inputs: Iterable[str | Path] = ()) -> None:
    """Refuse outputs that must not be written, before long work starts.

    Parameters
    ----------
    paths : iterable of str or Path
        The files that will be written.
    force : bool
        Whether existing files may be overwritten.
    inputs : iterable of str or Path, default=()
        Files that are read; none of them is ever overwritten, even with `force`. ``sample:NAME`` entries are ignored.

    Raises
    ------
    OutputExistsError
        If an output is one of the inputs, or exists and `force` is false.
    ParameterError
        If two outputs have the same name.
    MediaError
        If an output is a folder.

    Examples
    --------
    >>> from visionnmf.io import check_outputs
    >>> check_outputs(["result.png"], force=False)  # raises where one exists
    """
    sources = {os.path.realpath(source): source for source in inputs if not str(source).startswith(SAMPLE_PREFIX)}
    seen: set[str] = set()
    for path in map(Path, paths):
        key = os.path.realpath(path)
        source = sources.get(key) or next((s for s in sources.values() if _same_file(path, s)), None)
        if source is not None:
            raise OutputExistsError(f"{path}: would overwrite the input {source}; choose another output folder or name")
        if key in seen:
            raise ParameterError(
                f"outputs must have different names; got {path} twice; write them to different folders"
            )
        seen.add(key)
        _check_free(path, force)


def check_outside(out: str | Path, source: str | Path) -> None:
    """Refuse to write pictures into a folder of faces: there they would be faces, or a person, the next time.

    Parameters
    ----------
    out, source : str or Path

    Raises
    ------
    ParameterError
        When `source` is a folder and `out` lies in it.

    Examples
    --------
    >>> from visionnmf.io import check_outside
    >>> check_outside("results", "photos")  # raises where results would lie among the inputs
    """
    if Path(source).is_dir() and Path(out).resolve().is_relative_to(Path(source).resolve()):
        raise ParameterError(
            f"out must lie outside {source}, where results would be taken for faces; got {out}; give another"
        )


def _same_file(first: str | Path, second: str | Path) -> bool:
    # Hard links and folders that ignore case: two different names, one file.
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):
        return False
