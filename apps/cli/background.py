"""``visionnmf background``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from visionnmf import choices

from .common import make_folder, running
from .options import Debug, Force, Json, Out, Seed

__all__ = ["command"]


def command(
    videos: Annotated[list[str], typer.Argument(metavar="VIDEO...", help="Files, patterns or sample:surveillance.")],
    rank: Annotated[int, typer.Option("--rank", min=1, max=20, help="Components of the background model.")] = (
        choices.BACKGROUND_COMPONENTS
    ),
    out: Out = Path("."),
    scale: Annotated[
        float, typer.Option("--scale", metavar="F", min=0.01, max=1, help="Work at this share of width and height.")
    ] = 1.0,
    every: Annotated[int, typer.Option("--every", metavar="N", min=1, help="Take every N-th frame.")] = 1,
    max_frames: Annotated[
        int | None, typer.Option("--max-frames", metavar="N", min=1, help="Stop after N frames.")
    ] = None,
    seed: Seed = choices.RANDOM_STATE,
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
    with running(json_, debug) as run:
        make_folder(out)
        from visionnmf.apps.background import process_video

        def process(video: str) -> Any:
            with run.progress(video) as progress:
                return process_video(
                    video,
                    n_components=rank,
                    out=out,
                    scale=scale,
                    every=every,
                    max_frames=max_frames,
                    random_state=seed,
                    force=force,
                    progress=progress,
                )

        run.batch("videos", videos, process)
