"""``visionnmf segment``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from visionnmf import choices

from .common import make_folder, running
from .options import Debug, Force, Json, Out, Seed

__all__ = ["command"]


def command(
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Files, patterns or sample:NAME.")],
    segments: Annotated[int, typer.Option("--segments", min=1, max=1000, help="Segments an image.")] = (
        choices.SEGMENTS
    ),
    rank: Annotated[int, typer.Option("--rank", min=1, max=100, help="Components of the factorisation.")] = (
        choices.SEGMENT_COMPONENTS
    ),
    superpixels: Annotated[
        int,
        typer.Option("--superpixels", min=2, max=5000, help="Superpixels an image, about; slow above 2000 (cost N^3)."),
    ] = choices.SUPERPIXELS,
    out: Out = Path("."),
    seed: Seed = choices.RANDOM_STATE,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Segment images by symmetric Manhattan NMF of a superpixel affinity.

    Reads JPEG, PNG, TIFF and more; writes NAME_labels.png (the label of each pixel, 0 to K-1) and NAME_overlay.png.

    \b
    Examples:
      visionnmf segment photo.jpg
      visionnmf segment *.jpg --segments 8 --out results
      visionnmf segment sample:coffee --json
    """
    with running(json_, debug) as run:
        make_folder(out)
        from visionnmf.apps.segmentation import process_image

        def process(image: str) -> Any:
            with run.status(f"segmenting {image}"):
                return process_image(
                    image,
                    n_segments=segments,
                    n_components=rank,
                    n_superpixels=superpixels,
                    random_state=seed,
                    out=out,
                    force=force,
                )

        run.batch("images", images, process)
