"""The command line: parse, import inside, call, print, exit codes (:mod:`._cli_common` says which)."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from visionnmf import __version__, _options
from visionnmf.exceptions import VisionNMFError

from ._cli_common import (
    EXIT_NOTHING_DONE,
    Debug,
    Force,
    Json,
    Out,
    Seed,
    batch,
    folder,
    on_interrupt,
    progress_bar,
    say,
    status,
)
from ._cli_faces import faces
from ._cli_masquerade import masquerade

__all__ = ["app", "main"]

app = typer.Typer(
    name="visionnmf",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(masquerade, name="masquerade")
app.add_typer(faces, name="faces")


def _version(value: bool) -> None:
    if value:
        typer.echo(f"visionnmf {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Robust non-negative matrix factorisation for images, video and command logs.

    \b
    Examples:
      visionnmf segment photo.jpg
      visionnmf background video.mp4
      visionnmf segment sample:coffee --out out
      visionnmf background sample:surveillance --out out
      visionnmf masquerade train histories/* --model users.npz
      visionnmf faces train people/ --model people.npz
    """


@app.command()
def segment(
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Files, patterns or sample:NAME.")],
    segments: Annotated[int, typer.Option("--segments", min=1, max=1000, help="Segments an image.")] = (
        _options.SEGMENTS
    ),
    rank: Annotated[int, typer.Option("--rank", min=1, max=100, help="Components of the factorisation.")] = (
        _options.SEGMENT_RANK
    ),
    superpixels: Annotated[
        int,
        typer.Option("--superpixels", min=2, max=5000, help="Superpixels an image, about; slow above 2000 (cost N^3)."),
    ] = _options.SUPERPIXELS,
    out: Out = Path("."),
    seed: Seed = _options.SEED,
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
    folder(out)

    def process(image: str) -> Any:
        from visionnmf.apps.segmentation import process_image

        with status(f"segmenting {image}", json_):
            return process_image(
                image, n_segments=segments, rank=rank, n_superpixels=superpixels, seed=seed, out=out, force=force
            )

    batch("images", images, process, json_=json_, debug=debug)


@app.command()
def background(
    videos: Annotated[list[str], typer.Argument(metavar="VIDEO...", help="Files, patterns or sample:surveillance.")],
    rank: Annotated[int, typer.Option("--rank", min=1, max=20, help="Components of the background model.")] = (
        _options.BACKGROUND_RANK
    ),
    out: Out = Path("."),
    scale: Annotated[
        float, typer.Option("--scale", metavar="F", min=0.01, max=1, help="Work at this share of width and height.")
    ] = 1.0,
    every: Annotated[int, typer.Option("--every", metavar="N", min=1, help="Take every N-th frame.")] = 1,
    max_frames: Annotated[
        int | None, typer.Option("--max-frames", metavar="N", min=1, help="Stop after N frames.")
    ] = None,
    seed: Seed = _options.SEED,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Model the background of a video from a fixed camera and mask what moves.

    Writes NAME_background.png, NAME_background.mp4, NAME_foreground.mkv (lossless masks) and NAME_preview.mp4
    (frame, background and mask side by side).

    \b
    Examples:
      visionnmf background video.mp4
      visionnmf background video.mp4 --scale 0.5 --every 2 --out results
      visionnmf background sample:surveillance --json
    """
    folder(out)

    def process(video: str) -> Any:
        from visionnmf.apps.background import process_video

        with progress_bar(video, json_) as progress:
            return process_video(
                video,
                rank=rank,
                out=out,
                scale=scale,
                every=every,
                max_frames=max_frames,
                seed=seed,
                force=force,
                progress=progress,
            )

    batch("videos", videos, process, json_=json_, debug=debug)


def main() -> NoReturn:
    """Run the command line; the entry point of the ``visionnmf`` command."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, on_interrupt)
    try:
        app()
    except VisionNMFError as error:  # with --debug the traceback is what was asked for
        if "--debug" in sys.argv:
            raise
        say(str(error))
        raise SystemExit(EXIT_NOTHING_DONE) from None
    except OSError as error:  # standard output on a full disk
        if "--debug" in sys.argv:
            raise
        raise SystemExit(f"visionnmf: {error}") from None
    raise SystemExit(0)


if __name__ == "__main__":
    main()
