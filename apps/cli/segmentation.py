"""``visionnmf segment``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from visionnmf import choices
from visionnmf.exceptions import ParameterError

from .common import make_folder, running
from .groups import with_default
from .options import Debug, Force, Jobs, Json, Out, Processes, Recursive, one_of
from .paths import check_there
from .work import Work

__all__ = ["command"]


command = typer.Typer(cls=with_default("images"), rich_markup_mode=None)


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
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Files, folders, patterns or sample:NAME.")],
    segments: Annotated[
        str | None,
        typer.Option("--segments", metavar="K", help="Segments an image, or auto, the default: as many as it has."),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option("--scale", min=0, max=1, help="In place of --segments: smaller values give more segments."),
    ] = None,
    markers: Annotated[
        Path | None,
        typer.Option("--markers", metavar="FILE", help="Scribbles on a picture of the image's size; see below."),
    ] = None,
    formats: Annotated[
        str | None,
        typer.Option(
            "--formats",
            metavar="LIST",
            help=f"Written besides, comma-separated: {one_of(choices.SEGMENT_FORMATS).removesuffix('.')}, or all.",
        ),
    ] = None,
    cutouts: Annotated[
        bool, typer.Option("--cutouts", help="Also each segment alone, as NAME_cutouts/NAME_0.png and so on.")
    ] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="The recipe of the MahNMF paper, beside normalised and spectral cuts.")
    ] = False,
    recursive: Recursive = False,
    jobs: Jobs = 1,
    out: Out = Path("."),
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Divide images into segments.

    Reads JPEG, PNG, TIFF and more; writes NAME_labels.png (the label of each pixel, 0 to K-1, in 16 bits),
    NAME_segments.png (each in a colour of its own), NAME_overlay.png (drawn over the image) and NAME_boundaries.png
    (how strong the border at each pixel is).

    On the picture of --markers the most frequent colour is where nothing is marked; pixels of each other colour become
    one segment. Alone it divides all of the image among the markers; with --scale or --segments, auto among them, the
    segments found so are corrected, and those without a marker stay.

    --paper writes NAME_paper.png, three methods on a thumbnail side by side, and the labels of each.

    \b
    Examples:
      visionnmf segment photo.jpg
      visionnmf segment *.jpg --segments 8 --out results
      visionnmf segment photographs --out results
      visionnmf segment photo.jpg --scale 0.2
      visionnmf segment photo.jpg --formats coco,svg --cutouts
      visionnmf segment photo.jpg --markers scribbles.png --segments auto
      visionnmf segment sample:coffee --json
      visionnmf segment evaluate --help
    """
    n_segments = _count(segments or "auto")
    if n_segments is not None and scale is not None:
        raise typer.BadParameter("--segments and --scale exclude each other")
    if paper and (scale is not None or markers is not None or formats is not None or cutouts):
        raise typer.BadParameter("--paper goes with --segments alone")
    wanted = _formats(formats)
    with running(json_, debug) as run:
        make_folder(out)
        inputs = run.inputs("images", images, choices.IMAGE_SUFFIXES, recursive=recursive, out=out)
        if markers is not None and len(inputs) > 1:
            raise ParameterError(f"markers must be given with one image; got {len(inputs)} images")
        options: dict[str, Any] = {"n_segments": n_segments, "force": force}
        if not paper:
            options |= {
                "scale": scale,
                "markers": markers,
                "correct": segments == "auto",
                "formats": wanted,
                "cutouts": cutouts,
            }
        work = Work("visionnmf.apps.segmentation", "process_paper" if paper else "process_image", options)
        if len(inputs) < 2 or not wanted:
            run.batch("images", inputs, work, out=out, jobs=jobs)
            return
        from visionnmf import io
        from visionnmf.apps import segmentation

        io.check_outputs(segmentation.joined_files(wanted, out), force, inputs=[found.source for found in inputs])
        reports = run.batch("images", inputs, work, out=out, jobs=jobs)
        with run.attempt():
            for file in segmentation.join_coco(reports, wanted, out, force=force):
                run.remark(f"wrote {file}")


def _formats(text: str | None) -> list[str]:
    if text == "all":
        return list(choices.SEGMENT_FORMATS)
    names = [] if text is None else text.split(",")
    for name in names:
        if name not in choices.SEGMENT_FORMATS:
            raise typer.BadParameter(f"--formats: {name} is none of all, {one_of(choices.SEGMENT_FORMATS)}")
    return names


@command.command("evaluate")
def evaluate(
    images: Annotated[Path, typer.Option("--images", metavar="DIR", help="Folder of images.")],
    truth: Annotated[
        Path,
        typer.Option(
            "--truth", metavar="DIR", help="Folder of NAME.npz, BSDS500's NAME.mat, or NAME.png, NAME_1.png, ..."
        ),
    ],
    methods: Annotated[str | None, typer.Option("--methods", help="Comma-separated; all of them if left out.")] = None,
    boundaries: Annotated[bool, typer.Option("--boundaries", help="Match boundaries, too; takes longer.")] = False,
    jobs: Processes = 1,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder for results.csv; made if missing.")
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
        check_there(images)
        check_there(truth)
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
