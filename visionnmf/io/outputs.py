"""Write results whole or not at all.

Every writer of the package writes through :func:`output_file` to a temporary name in the folder of the output, which
`os.replace` turns into the final name when the file is complete. In a block of :func:`together` that waits for the end
of the block. The names of temporary files say which process writes them, so that the next process that writes into the
folder can remove those of killed ones.
"""

from __future__ import annotations

import atexit
import errno
import functools
import json
import math
import os
import platform
import re
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, unescape

from visionnmf.exceptions import PASS_FORCE, MediaError, OutdatedError, OutputExistsError, ParameterError

from .inputs import SAMPLE_PREFIX, check_is_path

FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}  # a full disk, a limit of file sizes, a quota
RECORDING = (".png", ".json", ".geojson", ".svg")  # files that can say how they were made
MOST_RECORD = 1 << 16  # bytes of a file that are read for that
PNG_HEADER = 33  # bytes of a PNG file before its second chunk
PNG_KEY, JSON_KEY = b"tEXtvisionnmf\0", b'{"visionnmf": '  # what stands before the record
SVG_KEY = b'<metadata id="visionnmf">'
TEMPORARY = re.compile(r"\.[0-9a-f]{12}\.([0-9]{1,9})-([0-9a-f]{8})\.part(\..*)?")  # process and machine, see _machine


class _Finished(NamedTuple):
    """A file that is complete and waits for its name."""

    temporary: Path
    path: Path
    force: bool


_together: ContextVar[list[_Finished] | None] = ContextVar("together", default=None)
_made: ContextVar[dict[str, Any] | None] = ContextVar("made", default=None)  # how the files of a block are made
_own_since: ContextVar[float] = ContextVar("own_since", default=math.inf)  # seconds since 1970


@contextmanager
def output_file(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """Write a file whole or not at all; the block gets the path of an empty temporary file to write to.

    The temporary file lies in the same folder and has the same suffix, so that encoders recognise the format. When the
    block ends without an error, the file gets its name in one step; inside a block of :func:`together`, at the end of
    that. After any exception, Ctrl-C included, the temporary file is removed and `path` is as it was.

    Raises OutputExistsError if `path` exists and `force` is false, which is checked before and again after the block,
    and MediaError if `path` is a folder, or its folder is missing or cannot be written to.
    """
    check_is_path(path, "path")
    path = Path(path)
    _check_free(path, force)
    others = _together.get()  # the files of the block of `together` that is open in this thread, or None
    temporary = path.with_name(f".{secrets.token_hex(6)}.{os.getpid()}-{_machine()}.part{path.suffix}")
    try:
        _create(temporary, path)
        yield temporary
        _write_record(temporary)
        finished = _Finished(temporary, path, force)
        if others is None:
            _give_names([finished])
        else:
            others.append(finished)
    except BaseException as error:
        _remove(temporary)
        if isinstance(error, OSError) and error.errno in FULL and not isinstance(error, MediaError):
            raise MediaError(f"{path}: cannot be written ({os.strerror(error.errno)})") from error
        raise


@contextmanager
def together() -> Iterator[None]:
    """Write all files of the block before the first of them gets its name, so that after an error none is there.

    This holds for every writer of the package that the block calls in the same thread. A block inside another one is
    part of it; if it ends early, only its own files are dropped. Raises OutputExistsError if an output that may not be
    replaced has appeared in the meantime, and MediaError if a file cannot get its name, when those before it keep
    theirs. An interrupt at that moment comes after the last name.
    """
    outer, finished = _together.get(), list[_Finished]()
    before = _together.set(finished)  # `output_file` adds its files
    try:
        yield
        if outer is None:
            _give_names(finished)
        else:
            outer += finished
    except BaseException:
        for each in finished:
            _remove(each.temporary)
        raise
    finally:
        _together.reset(before)


@contextmanager
def recording(**made: Any) -> Iterator[None]:
    """Write into each PNG, JSON and SVG file of the block how it was made, under the name "visionnmf".

    Videos have it as their comment.

    Where OutputExistsError is raised for such a file that says something else, or nothing, it is an OutdatedError; a
    ``version`` may differ.

    Examples
    --------
    >>> from visionnmf.io import output_file, record_of, recording
    >>> with recording(input="photo"), output_file("made.json", force=True) as temporary:
    ...     _ = temporary.write_text('{"segments": 3}')
    >>> record_of("made.json")["input"]
    'photo'
    """
    before = _made.set(json.loads(json.dumps(made, default=str)))
    try:
        yield
    finally:
        _made.reset(before)


def record_of(path: str | Path) -> dict[str, Any] | None:
    """Return how a file says that it was made, see :func:`recording`; None if it says nothing.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    dict or None
        What the block of `recording` was given.

    Examples
    --------
    >>> from visionnmf.io import record_of
    >>> record_of("nothing.png") is None
    True
    """
    try:
        with open(path, "rb") as file:
            head = file.read(MOST_RECORD)
        if b"<svg" in head and SVG_KEY in head:  # matplotlib's begin with a declaration
            head = JSON_KEY + unescape(head.split(SVG_KEY, 1)[1].split(b"</", 1)[0].decode("ascii", "replace")).encode()
        chunk = head[PNG_HEADER + 4 :]  # behind its length
        text = chunk.removeprefix(PNG_KEY) if chunk.startswith(PNG_KEY) else head.removeprefix(JSON_KEY)
        if len(text) in (len(chunk), len(head)):
            return None
        found = json.JSONDecoder().raw_decode(text.decode("ascii", "replace"))[0]
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def record_text() -> str:
    """Return how the files of this block of :func:`recording` are made, as JSON; empty outside of such a block."""
    made = _made.get()
    return "" if made is None else json.dumps(made)


def _write_record(file: Path) -> None:
    """Write into a complete PNG, JSON or SVG file how it was made, in a block of `recording`."""
    made = _made.get()
    if made is None or file.suffix not in RECORDING:
        return
    text = json.dumps(made).encode("ascii")
    content = file.read_bytes()
    if file.suffix == ".png":
        chunk = PNG_KEY + text
        whole = (len(chunk) - 4).to_bytes(4) + chunk + zlib.crc32(chunk).to_bytes(4)
        file.write_bytes(content[:PNG_HEADER] + whole + content[PNG_HEADER:])
    elif file.suffix == ".svg" and b"<svg" in content:
        end = content.index(b">", content.index(b"<svg")) + 1
        metadata = b"\n" + SVG_KEY + escape(text.decode()).encode() + b"</metadata>"
        file.write_bytes(content[:end] + metadata + content[end:])
    elif content.startswith(b"{"):
        file.write_bytes(JSON_KEY + text + b", " + content[1:])


def _outdated(path: Path) -> str:
    """Return how a file was made otherwise than the files of this block, as it says itself; "" if it was not."""
    made = _made.get()
    if made is None or path.suffix not in RECORDING:
        return ""
    found = record_of(path)
    if found is None:
        return "does not say how it was made"
    different = [name for name, value in made.items() if name != "version" and found.get(name) != value]
    if different != ["settings"]:
        return f"was made from an {different[0]} with other content" if different else ""
    before, now = (each if isinstance(each := one["settings"], dict) else {} for one in (found, made))
    changed = sorted(name for name in {**before, **now} if before.get(name) != now.get(name))
    theirs, ours = (", ".join(_argument(name, one[name]) for name in changed if name in one) for one in (before, now))
    return f"was made with {theirs or 'the usual settings':.100}, and not with {ours or 'the usual settings':.100}"


def _argument(name: str, value: Any) -> str:
    """Return an argument for a message, a list of several values with commas between them."""
    return f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"


@contextmanager
def replacing_since(moment: float) -> Iterator[None]:
    """Let the block also replace files that were written at `moment` (seconds since 1970) or later.

    These are results of the same run: a job that is done again need not know how far the lost one came.

    Examples
    --------
    >>> from visionnmf.io import output_file, replacing_since
    >>> with replacing_since(0), output_file("new.txt") as temporary:
    ...     _ = temporary.write_text("written again, without an error")
    """
    before = _own_since.set(moment)
    try:
        yield
    finally:
        _own_since.reset(before)


def _remove(path: Path) -> None:
    """Remove a temporary file if possible. An error is ignored, because the one that led here matters more."""
    with suppress(OSError):
        path.unlink()


def _create(temporary: Path, path: Path) -> None:
    """Create the empty temporary file of the output `path`, after removing what killed processes left there."""
    _clear(path.parent.absolute())
    try:
        # Not by tempfile, whose files only their owner may read.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileNotFoundError as error:
        raise MediaError(_no_folder(path)) from error
    except OSError as error:
        raise MediaError(f"{path}: cannot be written ({error.strerror})") from error


@functools.cache
def _machine() -> str:
    """Return 8 hexadecimal digits for this machine and its process namespace: containers number processes again."""
    try:
        numbers = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        numbers = 0
    return f"{zlib.crc32(f'{platform.node()} {numbers}'.encode()):08x}"


@functools.cache
def _clear(folder: Path) -> None:
    """Remove, once in each process, the temporary files of killed processes, and at its end those of its own."""
    _remove_temporaries(folder, lambda process: not _is_running(process))
    # what a signal has left that came before a `try` block was entered, or while a file was being removed
    atexit.register(_remove_temporaries, folder, lambda process: process == os.getpid())


def _remove_temporaries(folder: Path, chosen: Callable[[int], bool]) -> None:
    """Remove the temporary files in a folder whose process on this machine, a number, is chosen."""
    with suppress(OSError):  # the folder may be missing
        for entry in os.scandir(folder):
            found = TEMPORARY.fullmatch(entry.name)  # its groups are the number of the process and the machine
            if found and found[2] == _machine() and chosen(int(found[1])):
                _remove(Path(entry.path))


def _is_running(process: int) -> bool:
    """Return whether a process of this number runs; True if that cannot be found out."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it runs, but belongs to another user
        pass
    return True


def _give_names(finished: list[_Finished]) -> None:
    """Rename complete files one after the other, unless one of their names is taken."""
    for _, path, force in finished:
        _check_free(path, force)
    try:
        for temporary, path, _ in finished:
            os.replace(temporary, path)
    except OSError as error:
        raise MediaError(f"{path}: cannot be written ({error.strerror})") from error
    except BaseException:  # an interrupt: all files are complete, so the others get their names as well
        for temporary, path, _ in finished:
            with suppress(OSError):  # this one has its name already
                os.replace(temporary, path)
        raise


def _check_free(path: Path, force: bool) -> None:
    """Raise MediaError if the output is a folder, and OutputExistsError if it exists and must not be replaced."""
    try:
        is_folder = path.is_dir()
    except OSError as error:  # a name that is too long
        raise MediaError(f"{path}: cannot be written ({error.strerror})") from error
    if is_folder:
        raise MediaError(f"{path}: is a folder; name a file to write")
    if not force and _must_stay(path):
        if reason := _outdated(path):
            raise OutdatedError(f"{path}: {reason}; {PASS_FORCE}")
        raise OutputExistsError(f"{path}: exists already; {PASS_FORCE}")


def _must_stay(path: Path) -> bool:
    """Return whether there is a file that is not a result of this run; see :func:`replacing_since`."""
    try:
        return path.lstat().st_mtime < _own_since.get()
    except OSError:
        return False


def output_folder(path: str | Path) -> Path:
    """Create a folder for outputs, and its parents, if it is missing; return its path."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MediaError(f"{folder}: cannot be written ({error.strerror})") from error
    return folder


def check_outputs(paths: Iterable[str | Path], force: bool, *, inputs: Iterable[str | Path] = ()) -> None:
    """Refuse outputs that must not be written, before any work.

    None of the `inputs` is ever overwritten, even with `force`. Raises OutputExistsError if an output is one of them,
    or exists and `force` is false, ParameterError if two outputs have the same name, and MediaError if one is a folder.
    """
    # Links to one file have the same real path. Hard links do not, so `_same_file` asks the file system as well.
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


def check_parents(paths: Iterable[str | Path], *, created: bool = False) -> None:
    """Raise MediaError, before a long computation, if the folder of an output is missing or cannot be written to.

    A folder that is `created` with the output may be missing, so that a run which fails leaves none.
    """
    for path in map(Path, paths):
        folder = path.parent
        while created and not os.path.lexists(folder) and folder != folder.parent:
            folder = folder.parent
        if not folder.is_dir():
            raise MediaError(
                f"{path}: cannot be written ({os.strerror(errno.ENOTDIR)})" if created else _no_folder(path)
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise MediaError(f"{path}: cannot be written ({os.strerror(errno.EACCES)})")


def _no_folder(path: Path) -> str:
    """Return the message about an output whose folder is missing."""
    return f"{path}: there is no folder {path.parent}; create it first"


def check_outside(out: str | Path, source: str | Path) -> None:
    """Raise ParameterError if `out` lies in the folder `source` of faces: the next run would take it for faces."""
    check_is_path(source, "source")
    check_is_path(out, "out")
    if Path(source).is_dir() and Path(out).resolve().is_relative_to(Path(source).resolve()):
        raise ParameterError(
            f"out must lie outside {source}, where results would be taken for faces; got {out}; give another"
        )


def _same_file(first: str | Path, second: str | Path) -> bool:
    """Return whether two names are one file, as with hard links or in folders that ignore case."""
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):
        return False
