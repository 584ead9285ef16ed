"""``visionnmf features``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visionnmf import choices
from visionnmf.apps.features.settings import ExtractorFiles
from visionnmf.apps.settings import Option, comma_separated

from .options import Force, excludes, with_records
from .run import check_exists, running


@with_records
def command(
    images: Annotated[list[str], typer.Argument(metavar="IMAGE|DIR...", help="Images, patterns, folders of images.")],
    out: Annotated[Path, Option("The table: F.npz, F.csv or F.parquet.", short="-o", metavar="F")],
    files: ExtractorFiles,
    kind: Annotated[
        str, Option("Features to extract, all, or tagprop; see docs/features.md.", metavar="KIND,...")
    ] = ",".join(choices.FEATURE_KINDS),
    jobs: Annotated[int, Option("Processes; -1: all processors.", short="-j", metavar="N", low=-1)] = -1,
    force: Force = False,
) -> None:
    """Extract features from images into a table with one row for each image, for a classifier or a factorisation.

    Dictionaries of visual words are learnt from the images, unless --use names extractors that have them. Images that
    cannot be read are left out and named.

    \b
    Examples:
      visionnmf features photos/ --out features.npz
      visionnmf features photos/ --kind gist,dense-hue --out features.csv --save extractors.npz
      visionnmf features new/ --use extractors.npz --out new.parquet
    """
    excludes("kind", "--use", files.use)
    with running() as run:
        check_exists(*images)
        from visionnmf.apps.features import extract_features

        with run.progress(str(out), rate_of="images") as progress:
            report = extract_features(
                images, out, kinds=comma_separated(kind), files=files, n_jobs=jobs, force=force, progress=progress
            )
        run.show(report)
