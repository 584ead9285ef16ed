"""``visionnmf features``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visionnmf import choices

from .common import running
from .options import Debug, Force, Json
from .paths import check_there

__all__ = ["command"]


def command(
    images: Annotated[list[str], typer.Argument(metavar="IMAGE|DIR...", help="Images, patterns, folders of images.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="F", help="The table: F.npz, F.csv or F.parquet.")],
    kind: Annotated[
        str,
        typer.Option("--kind", metavar="KIND,...", help="What to extract; docs/features.md has the table, all is all."),
    ] = ",".join(choices.FEATURE_KINDS),
    use: Annotated[
        Path | None,
        typer.Option("--use", metavar="E.npz", help="Extractors of an earlier run, so that features can be compared."),
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="E.npz", help="Write the extractors, with what they learnt.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option("--cache", metavar="C.sqlite", help="Keep features between runs in this file.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", metavar="N", min=-1, help="Processes; -1: all processors.")] = -1,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Describe images by features: one row an image, for a classifier or a factorisation.

    Dictionaries of words are learnt from the images, unless --use has them. What cannot be read is left out and named.

    \b
    Examples:
      visionnmf features photos/ --out features.npz
      visionnmf features photos/ --kind gist,dense-hue --out features.csv --save extractors.npz
      visionnmf features new/ --use extractors.npz --out new.parquet
    """
    with running(json_, debug) as run:
        check_there(*images)
        from visionnmf.apps.features import extract_features
        from visionnmf.features import KINDS

        kinds = list(KINDS) if kind == "all" else [name.strip() for name in kind.split(",")]
        with run.progress(str(out), rate_of="images") as progress:
            report = extract_features(
                images,
                out,
                kinds=kinds,
                use=use,
                save=save,
                n_jobs=jobs,
                cache=cache,
                force=force,
                progress=progress,
            )
        run.report(report)
