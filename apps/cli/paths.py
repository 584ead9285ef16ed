"""Whether paths lead somewhere, known before anything heavy is imported."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from visionnmf.exceptions import UnreadableError

__all__ = ["check_there"]


def check_there(*paths: str | Path, known: Sequence[str] = ()) -> None:
    """Say so where none of some paths leads to anything: the work would find out after seconds of imports.

    Parameters
    ----------
    *paths : str or Path
        What the work is to read. Patterns, samples and ``-`` pass; so does all if there is one thing to read.
    known : sequence of str, default=()
        Names that are no paths.

    Raises
    ------
    UnreadableError
        Of the first path.
    """
    for path in map(str, paths):
        if path in known or path == "-" or "://" in path or path.startswith("sample:") or glob.has_magic(path):
            return
        if os.path.lexists(path):
            return
    raise UnreadableError(f"{paths[0]}: no such file or folder")
