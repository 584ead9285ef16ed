"""What is written: which outputs may be, and how a half-written file is never left.

Every writer of the package writes through :func:`output_file`, once: to a temporary name in the folder of the output,
which gets its name in one step when all went well. In a :func:`transaction` that step waits for the end of the block,
so that several files appear together or not at all. What a killed process has left is removed by the next that writes
into the folder.
"""

from __future__ import annotations

import atexit
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

from visionnmf.exceptions import PASS_FORCE, MediaError, OutputExistsError, ParameterError

from .inputs import SAMPLE_PREFIX

__all__ = ["check_outputs", "check_outside", "output_file", "output_folder", "transaction"]


FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}  # what a full disk, a limit and a quota raise
LEFTOVER = re.compile(r"\.([0-9a-f]{12})(\.[0-9a-f]{12})?\.part(\..*)?")  # the second: of a transaction's file
MINUTE = 60.0


class _Finished(NamedTuple):
    """A file that is whole and waits for its name."""

    temporary: Path
    path: Path
    force: bool


class _Waiting(NamedTuple):
    """The files of a transaction, and one in each of their folders, open and locked: it says that their writer lives.

    So many files may be open at once as a process is allowed to, and a transaction may have more.
    """

    files: list[_Finished]
    locks: dict[Path, tuple[str, int]]  # folder: what its temporary names begin with, the file


_waiting: ContextVar[_Waiting | None] = ContextVar("waiting", default=None)
_unfinished: set[Path] = set()  # temporary files of this process


@atexit.register
def _remove_unfinished() -> None:
    """Remove what a signal has kept from being removed: it may come as a block's clean-up begins, before any `try`."""
    for path in tuple(_unfinished):
        _remove(path)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unfinished.clear)  # they are those of the process that it was


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
    waiting = _waiting.get()
    name = secrets.token_hex(6) if waiting is None else f"{_lock_folder(waiting, path)}.{secrets.token_hex(6)}"
    temporary = path.with_name(f".{name}.part{path.suffix}")
    lock = -1
    try:
        lock = _create(temporary, path)
        yield temporary
        finished = _Finished(temporary, path, force)
        if waiting is not None:
            waiting.files.append(finished)
        else:
            _give_names([finished])
    except BaseException as error:
        _remove(temporary)
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
        before = len(outer.files)
        try:
            yield
        except BaseException:
            _drop(outer.files[before:])
            del outer.files[before:]
            raise
        return
    waiting = _Waiting([], {})
    before_it = _waiting.set(waiting)
    try:
        yield
        _give_names(waiting.files)
    finally:
        _waiting.reset(before_it)
        _clean_up(waiting)


def _clean_up(waiting: _Waiting) -> None:
    """Remove what a transaction leaves; an interrupt that comes meanwhile is raised when nothing is left."""
    interrupt: KeyboardInterrupt | None = None
    locks = [lock for _, lock in waiting.locks.values() if lock >= 0]
    try:
        while waiting.files or waiting.locks:
            try:
                _drop(waiting.files)
                waiting.files.clear()
                for folder, (token, _) in list(waiting.locks.items()):
                    for unfinished in folder.glob(f".{token}.*.part*"):  # a signal came before a `with` had its writer
                        _remove(unfinished)
                    _remove(_lock_file(folder, token))
                    del waiting.locks[folder]
            except KeyboardInterrupt as error:
                interrupt = error
    finally:
        for lock in locks:
            with suppress(OSError):
                os.close(lock)
    if interrupt is not None:
        raise interrupt


def _drop(files: Iterable[_Finished]) -> None:
    for finished in files:
        _remove(finished.temporary)


def _remove(path: Path) -> None:
    """Remove a file if that can be done; what went wrong before is what is told."""
    with suppress(OSError):
        path.unlink()
    _unfinished.discard(path)


def _lock_folder(waiting: _Waiting, path: Path) -> str:
    """Return what the temporary names of a transaction's files in one folder begin with; a locked file has it alone."""
    folder = path.parent.absolute()
    token, lock = waiting.locks.get(folder, (secrets.token_hex(6), -1))
    if lock < 0:
        waiting.locks[folder] = token, -1  # before there is a file: a signal at any moment leaves nothing
        waiting.locks[folder] = token, _create(_lock_file(folder, token), path)
    return token


def _lock_file(folder: Path, token: str) -> Path:
    return folder / f".{token}.part"


def _create(temporary: Path, path: Path) -> int:
    """Make a temporary file; return it open and locked, so that others can tell that its writer lives."""
    _unfinished.add(temporary)
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
            if (found := LEFTOVER.fullmatch(entry.name)) and time.time() - entry.stat().st_mtime > MINUTE:
                _remove_unless_locked(Path(entry.path), found[1] if found[2] else None)


def _remove_unless_locked(path: Path, transaction: str | None) -> None:
    """Remove a temporary file; one of a transaction whose own file is not there or not locked either."""
    lock = path if transaction is None else _lock_file(path.parent, transaction)
    for each in dict.fromkeys((lock, path)):
        try:
            file = os.open(each, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            continue
        try:
            if not _locked(file):
                return
        finally:
            os.close(file)
    path.unlink()


def _give_names(waiting: list[_Finished]) -> None:
    for finished in waiting:
        _check_free(finished.path, finished.force)
    before: dict[Path, Path] = {}  # output: what had its name
    begun = 0
    try:
        for temporary, path, force in waiting:
            begun += 1
            try:
                if len(waiting) > 1 and path.exists():
                    before[path] = path.with_name(f".{secrets.token_hex(6)}.old{path.suffix}")
                    _keep(path, before[path])
                _rename(temporary, path, force)
                _unfinished.discard(temporary)
            except MediaError:
                raise
            except OSError as error:
                raise MediaError(f"{path}: cannot be written ({error.strerror})") from error
        _unfinished.update(before.values())  # all have their names
    except BaseException:  # a signal may have come right after a file got its name: what there is tells, no list
        for temporary, path, _ in waiting[:begun]:
            if not temporary.exists() or _same_file(temporary, path):
                _remove(path)
        for path, old in before.items():
            with suppress(OSError):
                os.replace(old, path)
                old.unlink(missing_ok=True)  # where both are names of one file nothing is replaced
        raise
    for old in before.values():
        _remove(old)


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
    try:
        is_folder = path.is_dir()
    except OSError as error:  # a name that is too long
        raise MediaError(f"{path}: cannot be written ({error.strerror})") from error
    if is_folder:
        raise MediaError(f"{path}: is a folder; name a file to write")
    if not force and os.path.lexists(path):
        raise OutputExistsError(f"{path}: exists already; {PASS_FORCE}")


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
