"""The inputs of a command as paths: found, checked before anything heavy is imported, and matched with result names."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from visionnmf.exceptions import MediaError, UnreadableError


class Input(NamedTuple):
    """An input of a batch: its source, and the sub-folder of the results that mirrors its place in a folder."""

    source: str
    place: str = ""


def check_exists(*paths: str | Path, known: Sequence[str] = ()) -> None:
    """Raise UnreadableError for the first path, if none leads to a file, before imports; names in `known` exist."""
    # So no seconds are spent on imports. Patterns, samples and ``-`` count as existing too.
    for path in map(str, paths):  # one that exists is enough: a batch reports the others
        if path in known or path == "-" or path.startswith("sample:") or glob.has_magic(path):
            return
        if os.path.lexists(path):
            return
    from visionnmf.io.inputs import check_is_path

    check_is_path(paths[0], "data")  # a URL gets a message of its own, with the advice to download it
    raise UnreadableError(f"{paths[0]}: no such file or folder")


def expanded(arguments: list[str]) -> list[str]:
    """Return the inputs that arguments mean: files, the matches of patterns, and sample pictures, ``sample:NAME``."""
    from visionnmf.io import expand_inputs

    return expand_inputs(arguments)


def find_inputs(argument: str, suffixes: Sequence[str], recursive: bool, out: Path | None) -> list[Input]:
    """Return the inputs that one argument means: a file, the files of a folder, a pattern's matches or a sample.

    Of a folder the files with one of the `suffixes` are taken, with `recursive` also those below. Without suffixes a
    folder is an input itself. `out`, the folder for the results, must not lie among them.
    """
    from visionnmf.io import expand_inputs, find_files

    if suffixes and os.path.isdir(argument):
        _check_outside(argument, out, recursive)
        names = find_files(argument, suffixes, recursive=recursive)
        return [Input(os.path.join(argument, name), os.path.dirname(name)) for name in names]
    return [Input(source) for source in expand_inputs([argument])]


def distinct(inputs: Iterator[Input]) -> Iterator[Input]:
    """Yield each file once, whatever name it was given by."""
    seen: set[str] = set()
    for found in inputs:
        file = found.source if found.source.startswith("sample:") else os.path.realpath(found.source)
        if file not in seen:
            seen.add(file)
            yield found


def make_folder(out: Path, option: str = "--out") -> None:
    """Make the folder for the results, or raise MediaError before any work is done; `option` names it in messages."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(out, os.W_OK | os.X_OK) else "cannot be written to"
    except FileExistsError:
        reason = "is a file, not a folder"
    except OSError as error:
        reason = f"cannot be made ({error.strerror})"
    if reason:
        raise MediaError(f"{option} {out}: {reason}; give another folder")


@contextmanager
def results_folder(out: Path) -> Iterator[None]:
    """Make the folder for the results as :func:`make_folder` does; take it away if nothing was written to it."""
    made = [path for path in (out, *out.parents) if not path.exists()]  # from the innermost, as they are taken away
    make_folder(out)
    try:
        yield
    finally:
        with suppress(OSError):  # a folder that holds something
            for path in made:
                path.rmdir()


def result_name(source: str, out: Path | None, used: dict[str, str]) -> str:
    """Return the common beginning of an input's result files; raise MediaError if another, in `used`, has it."""
    # `used` has inputs by the beginnings of their results' names; the caller adds this one.
    from visionnmf.io import stem_of

    stem = str((out or Path()) / stem_of(source))
    if stem in used:
        raise MediaError(
            f"{source}: its results would have the same names as those of {used[stem]}; "
            "run it separately, into another folder"
        )
    return stem


def _check_outside(folder: str, out: Path | None, recursive: bool) -> None:
    """Refuse to write results among the inputs, where the next run would take them for inputs."""
    if out is None:
        return
    inside, results = Path(folder).resolve(), out.resolve()
    if results == inside or (recursive and inside in results.parents):
        raise MediaError(f"--out {out}: lies in {folder}, where results would be taken for inputs; give another folder")
