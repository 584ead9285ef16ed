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
    """An input of a command: its source, and the folder for its results, where it has one."""

    source: str
    place: str = ""

    @property
    def file(self) -> str:
        """What its source is, whatever name it was given by."""
        return self.source if self.source.startswith("sample:") else os.path.realpath(self.source)


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

    Of a folder the files with one of the `suffixes` are taken, with `recursive` also those below, each with its
    sub-folder as its place. `out`, the folder for the results, must not lie among them.
    """
    from visionnmf.io import expand_inputs, find_files

    if os.path.isdir(argument):
        _check_outside(argument, out, recursive)
        names = find_files(argument, suffixes, recursive=recursive)
        return [Input(os.path.join(argument, name), os.path.dirname(name)) for name in names]
    return [Input(source) for source in expand_inputs([argument])]


def placed(inputs: list[Input], out: Path | None) -> list[Input]:
    """Return inputs with the folders for their results in `out`, which mirror those of the inputs; no two clash."""
    if out is None:
        return [Input(given.source) for given in inputs]
    from visionnmf.io import place_results

    places = place_results(inputs)
    return [Input(given.source, str(out / place)) for given, place in zip(inputs, places, strict=True)]


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


def _check_outside(folder: str, out: Path | None, recursive: bool) -> None:
    """Refuse to write results among the inputs, where the next run would take them for inputs."""
    if out is None:
        return
    inside, results = Path(folder).resolve(), out.resolve()
    if results == inside or (recursive and inside in results.parents):
        raise MediaError(f"--out {out}: lies in {folder}, where results would be taken for inputs; give another folder")
