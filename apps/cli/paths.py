"""Whether paths lead somewhere, known before anything heavy is imported."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from visionnmf.exceptions import MediaError, UnreadableError

__all__ = ["check_beside", "check_there", "free_stem"]


def check_there(*paths: str | Path, known: Sequence[str] = ()) -> None:
    """Say so where none of some paths leads to anything: the work would find out after seconds of imports.

    Parameters
    ----------
    *paths : str or Path
        What the work is to read: files and folders. Patterns, samples and ``-`` pass; so does all if there is one thing
        to read.
    known : sequence of str, default=()
        Names that are no paths.

    Raises
    ------
    UnreadableError
        Of the first path.
    """
    for path in map(str, paths):
        if path in known or path == "-" or path.startswith("sample:") or glob.has_magic(path):
            return
        if os.path.lexists(path):
            return
    from visionnmf.io.inputs import check_is_path

    check_is_path(paths[0], "data")
    raise UnreadableError(f"{paths[0]}: no such file or folder")


def check_beside(folder: str, out: Path | None, recursive: bool) -> None:
    """Refuse results among the inputs."""
    if out is None:
        return
    inside, results = Path(folder).resolve(), out.resolve()
    if results == inside or (recursive and inside in results.parents):
        raise MediaError(f"--out {out}: lies in {folder}, where results would be taken for inputs; give another folder")


def free_stem(source: str, out: Path | None, stems: dict[str, str]) -> str:
    """Return the name of an input's results; refuse it when they are those of another input."""
    from visionnmf.io import stem_of

    stem = str((out or Path()) / stem_of(source))
    if stem in stems:
        raise MediaError(
            f"{source}: its results would have the names of those of {stems[stem]}; run it apart, into another folder"
        )
    return stem
