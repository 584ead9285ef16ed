"""Files in and out: which inputs are meant, and how a half-written file is never left."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from visionnmf.exceptions import MediaError, OutputExistsError, UnreadableError

__all__ = ["check_free", "output_file", "regular_file", "temporary_folder"]

CURE = "pass force=True to replace it"


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


def check_free(path: Path, force: bool, cure: str = CURE) -> None:
    """Raise OutputExistsError where a file would be overwritten, and MediaError where a folder is in the way."""
    if path.is_dir():
        raise MediaError(f"{path}: is a folder; name a file to write")
    if not force and os.path.lexists(path):
        raise OutputExistsError(f"{path}: exists already; {cure}")


@contextmanager
def output_file(path: str | Path, *, force: bool = False, cure: str = CURE) -> Iterator[Path]:
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
    cure : str
        What the error says to do about an existing file.

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
    check_free(path, force, cure)
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
        check_free(path, force, cure)
        try:
            os.replace(temporary, path)
        except OSError as error:
            raise MediaError(f"{path}: cannot be written ({error.strerror})") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Make a folder for unfinished files, and remove it with what is left in it, after Ctrl-C, too.

    Not tempfile's: a signal right after that has made its folder leaves it behind.

    Parameters
    ----------
    parent : Path
        Made if missing.

    Yields
    ------
    Path

    Raises
    ------
    MediaError
        If `parent` cannot be made or written.
    """
    folder = parent / f".visionnmf-{secrets.token_hex(6)}"
    try:
        try:
            parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
        except OSError as error:
            raise MediaError(f"{parent}: cannot be written ({error.strerror})") from error
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
