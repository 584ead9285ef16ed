"""Files in and out: which inputs are meant, which outputs may be written, and how a half-written file is never left."""

from __future__ import annotations

import glob
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from visionnmf.exceptions import MediaError, OutputExistsError, ParameterError, UnreadableError

__all__ = ["SAMPLE_PREFIX", "check_outputs", "expand_inputs", "output_file", "regular_file"]

SAMPLE_PREFIX = "sample:"


def regular_file(path: str | Path, kind: str) -> Path:
    """Make sure that a path is a readable, non-empty, regular file.

    Parameters
    ----------
    path : str or Path
        The file.
    kind : str
        What the file should be, for the messages: ``"image"`` or ``"video"``.

    Returns
    -------
    Path
        The same path.

    Raises
    ------
    UnreadableError
        If it is missing, a folder, not a regular file (a pipe could block for ever), empty, or may not be read.
    """
    path = Path(path)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise UnreadableError(f"{path}: a folder, not a file; name the files in it, for instance {path}/*")
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError(f"{path}: not a regular file; copy the {kind} into a file first")
        if status.st_size == 0:
            raise UnreadableError(f"{path}: the file is empty (0 bytes)")
        with path.open("rb"):
            return path
    except FileNotFoundError as error:
        raise UnreadableError(f"{path}: no such file") from error
    except PermissionError as error:
        raise UnreadableError(f"{path}: permission to read the file is denied") from error
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise UnreadableError(f"{str(path)!r}: cannot be opened ({error})") from error


def expand_inputs(arguments: Sequence[str]) -> list[str]:
    """Turn the arguments of a command into the list of inputs.

    Parameters
    ----------
    arguments : sequence of str
        Files, patterns (``*``, ``?``, ``[...]``, ``**``, for shells that do not expand them) and ``sample:NAME``.

    Returns
    -------
    list of str
        One entry for each input. The order of the arguments is kept, matches of one pattern are sorted, and a file
        that is named twice stays only at its first place. A file whose name contains pattern characters is taken as
        that file. A missing file without pattern characters passes, so that whoever reads it reports it and a batch
        goes on.

    Raises
    ------
    UnreadableError
        If a pattern matches no file.
    """
    inputs: dict[str, str] = {}
    for argument in arguments:
        if argument.startswith(SAMPLE_PREFIX) or os.path.lexists(argument) or not glob.has_magic(argument):
            found = [argument]
        else:
            found = sorted(match for match in glob.glob(argument, recursive=True) if not os.path.isdir(match))
            if not found:
                raise UnreadableError(f"{argument}: no file matches this pattern")
        for name in found:
            key = name if name.startswith(SAMPLE_PREFIX) else os.path.realpath(name)
            inputs.setdefault(key, name)
    return list(inputs.values())


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
    """
    sources = {os.path.realpath(source): source for source in inputs if not str(source).startswith(SAMPLE_PREFIX)}
    seen: set[str] = set()
    for path in map(Path, paths):
        key = os.path.realpath(path)
        source = sources.get(key) or next((s for s in sources.values() if _same_file(path, s)), None)
        if source is not None:
            raise OutputExistsError(f"{path}: would overwrite the input {source}; choose another output folder or name")
        if key in seen:
            raise ParameterError(f"{path}: two outputs would have this name; write them to different folders")
        seen.add(key)
        _check_free(path, force)


def _same_file(first: str | Path, second: str | Path) -> bool:
    # Hard links and folders that ignore case: two different names, one file.
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):
        return False


def _check_free(path: Path, force: bool) -> None:
    if path.is_dir():
        raise MediaError(f"{path}: is a folder; name a file to write")
    if not force and os.path.lexists(path):
        raise OutputExistsError(f"{path}: exists already; use --force to overwrite")


@contextmanager
def output_file(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """Write a file whole or not at all.

    The block writes to a temporary name in the same folder, with the same suffix so that encoders recognise the
    format. When the block ends well the file gets its name in one step; after any exception, Ctrl-C included, the
    temporary file is removed and `path` is as it was.

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
    """
    path = Path(path)
    _check_free(path, force)
    temporary = path.with_name(f".{secrets.token_hex(6)}.part{path.suffix}")
    try:
        try:
            # Not tempfile: its files may be read by their owner only, and the name must keep its suffix.
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileNotFoundError as error:
            raise MediaError(f"{path}: there is no folder {path.parent}; create it first") from error
        except OSError as error:
            raise MediaError(f"{path}: cannot be written ({error.strerror})") from error
        yield temporary
        _check_free(path, force)
        try:
            os.replace(temporary, path)
        except OSError as error:
            raise MediaError(f"{path}: cannot be written ({error.strerror})") from error
    finally:
        temporary.unlink(missing_ok=True)
