"""Files in and out: which inputs are meant, and which outputs may be written."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from visionnmf.exceptions import OutputExistsError, ParameterError, UnreadableError

from .files import check_free, output_file, regular_file

__all__ = ["SAMPLE_PREFIX", "check_outputs", "check_outside", "expand_inputs", "output_file", "regular_file"]

SAMPLE_PREFIX = "sample:"


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
        check_free(path, force)


def check_outside(out: str | Path, source: str | Path) -> None:
    """Refuse to write pictures into a folder of faces: there they would be faces, or a person, the next time.

    Parameters
    ----------
    out, source : str or Path

    Raises
    ------
    ParameterError
        When `source` is a folder and `out` lies in it.
    """
    if Path(source).is_dir() and Path(out).resolve().is_relative_to(Path(source).resolve()):
        raise ParameterError(f"{out}: lies in {source}, where results would be taken for faces; give another folder")


def _same_file(first: str | Path, second: str | Path) -> bool:
    # Hard links and folders that ignore case: two different names, one file.
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):
        return False
