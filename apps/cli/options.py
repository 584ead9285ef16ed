"""Options that commands share; the defaults are in :mod:`visionnmf.choices`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Debug", "Force", "Json", "Out", "Seed", "one_of"]

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the results; made if missing.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed: the same seed, the same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output, nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite results that exist already.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def one_of(names: Sequence[str]) -> str:
    """Return names as a help text has them."""
    return f"{', '.join(names[:-1])} or {names[-1]}."
