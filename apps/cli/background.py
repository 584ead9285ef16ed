"""``visionnmf background``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visionnmf import choices

from .common import make_folder, running
from .options import Debug, Force, Jobs, Json, Out, Recursive, Seed
from .work import Work

__all__ = ["command"]


def command(
    videos: Annotated[
        list[str], typer.Argument(metavar="VIDEO...", help="Files, folders, patterns or sample:surveillance.")
    ],
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
    recursive: Recursive = False,
    jobs: Jobs = 1,
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
        options = {
            "n_components": rank,
            "scale": scale,
            "every": every,
            "max_frames": max_frames,
            "random_state": seed,
            "force": force,
        }
        work = Work("visionnmf.apps.background", "process_video", options, takes_progress=True)
        inputs = run.inputs("videos", videos, choices.VIDEO_SUFFIXES, recursive=recursive, out=out)
        run.batch("videos", inputs, work, out=out, jobs=jobs)
