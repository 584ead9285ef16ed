"""Options that commands share; the defaults are in :mod:`visionnmf.choices`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Debug", "Force", "Jobs", "Json", "Out", "Processes", "Quiet", "Recursive", "Seed", "Verbose", "one_of"]

Out = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the results; made if missing.")]
Recursive = Annotated[
    bool, typer.Option("--recursive", "-r", help="Folders with all beneath them; results mirror these.")
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", metavar="N", min=1, max=256, help="Inputs at a time.")]
Processes = Annotated[int, typer.Option("--jobs", "-j", metavar="N", min=1, max=256, help="Processes.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed: the same seed, the same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output, nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite results that exist already.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
# Every command has these two; `apps/cli/__init__.py` adds them.
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but what failed.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say on standard error what is done, and how long.")]


def one_of(names: Sequence[str]) -> str:
    """Return names as a help text has them."""
    return f"{', '.join(names[:-1])} or {names[-1]}."
