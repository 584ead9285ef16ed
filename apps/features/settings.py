"""The settings of the features application; imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from visionnmf.apps.settings import Option, settings


@settings
class ExtractorFiles:
    """Files that keep what the extractors have learnt."""

    use: Annotated[
        Path | None, Option("Use the extractors of an earlier run, for comparable features.", metavar="E.npz")
    ] = None
    save: Annotated[Path | None, Option("Write the extractors with what they have learnt.", metavar="E.npz")] = None
