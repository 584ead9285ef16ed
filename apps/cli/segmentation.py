"""``visionnmf segment``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from visionnmf import choices

from .common import make_folder, running
from .options import Debug, Force, Json, Out

__all__ = ["command"]


class _ImagesByDefault(TyperGroup):
    """A group whose command ``images`` need not be named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = ["images", *args]
        return super().parse_args(ctx, args)


command = typer.Typer(cls=_ImagesByDefault, rich_markup_mode=None)


@command.callback()
def _segment() -> None:
    """Divide images into segments; compare methods on images that people segmented.

    \b
    Examples:
      visionnmf segment photo.jpg
      visionnmf segment evaluate --images photographs --truth segmentations
    """


def _count(text: str) -> int | None:
    if text == "auto":
        return None
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= choices.MAX_SEGMENTS:
        raise typer.BadParameter(f"{text} is neither auto nor a whole number from 1 to {choices.MAX_SEGMENTS}")
    return number


@command.command("images")
def segment_images(
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Files, patterns or sample:NAME.")],
    segments: Annotated[
        str, typer.Option("--segments", metavar="K", help="Segments an image, or auto: as many as the picture has.")
    ] = "auto",
    scale: Annotated[
        float | None,
        typer.Option("--scale", min=0, max=1, help="In place of --segments: smaller values give more segments."),
    ] = None,
    out: Out = Path("."),
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Divide images into segments.

    Reads JPEG, PNG, TIFF and more; writes NAME_labels.png (the label of each pixel, 0 to K-1), NAME_overlay.png and
    NAME_boundaries.png (how strong the border at each pixel is).

    \b
    Examples:
      visionnmf segment photo.jpg
      visionnmf segment *.jpg --segments 8 --out results
      visionnmf segment photo.jpg --scale 0.2
      visionnmf segment sample:coffee --json
      visionnmf segment evaluate --help
    """
    n_segments = _count(segments)
    if n_segments is not None and scale is not None:
        raise typer.BadParameter("--segments and --scale exclude each other")
    with running(json_, debug) as run:
        make_folder(out)
        from visionnmf.apps.segmentation import process_image

        def process(image: str) -> Any:
            with run.status(f"segmenting {image}"):
                return process_image(image, n_segments=n_segments, scale=scale, out=out, force=force)

        run.batch("images", images, process)


@command.command("evaluate")
def evaluate(
    images: Annotated[Path, typer.Option("--images", metavar="DIR", help="Folder of images.")],
    truth: Annotated[
        Path,
        typer.Option("--truth", metavar="DIR", help="Folder of NAME.npz (segmentations), or NAME.png, NAME_1.png, ..."),
    ],
    methods: Annotated[str | None, typer.Option("--methods", help="Comma-separated; all of them if left out.")] = None,
    boundaries: Annotated[bool, typer.Option("--boundaries", help="Match boundaries, too; takes longer.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=256, help="Processes.")] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for results.csv; made if missing.")
    ] = None,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Compare methods on images that people segmented; an interrupted run goes on where it was.

    Prints covering, probabilistic Rand index and variation of information at the best scale for all images (ODS) and
    for each (OIS), and with --boundaries the F measure and average precision of boundaries.

    \b
    Examples:
      visionnmf segment evaluate --images photographs --truth segmentations
      visionnmf segment evaluate --images photographs --truth segmentations --methods visionnmf --boundaries --out out
    """
    with running(json_, debug) as run:
        if out is not None:
            make_folder(out)
        from visionnmf.apps import segmentation

        names = tuple(segmentation.METHODS) if methods is None else tuple(methods.split(","))
        with run.progress(str(images), rate_of="") as bar:

            def progress(done: int, total: int) -> None:
                if bar is not None:
                    bar("images", done, total)

            report = segmentation.evaluate(
                images,
                truth,
                methods=names,
                boundaries=boundaries,
                out=out,
                jobs=jobs,
                force=force,
                progress=progress,
            )
        run.report(report)
