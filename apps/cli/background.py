"""``visionnmf background``."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from visionnmf import choices
from visionnmf.apps import cluster_address
from visionnmf.apps.background.settings import (
    EventSettings,
    LiveSettings,
    ModelSettings,
    OutputSettings,
    RegionSettings,
    VideoSettings,
)
from visionnmf.apps.settings import Option, settings

from .console import echo, verbosity
from .options import OUT, RECURSIVE, SKIP_EXISTING, Jobs, excludes, flag_of, given, in_options, needs, with_records
from .run import Input, Run, placed, results_folder, running
from .signals import until_signal


@settings
class WorkSettings:
    """How the command works on its inputs."""

    PANEL: ClassVar = "Advanced"

    live: Annotated[bool, Option("Mask each frame of one source as it comes.", panel="Live")] = False
    out: Annotated[Path, replace(OUT, panel="Output")] = Path(".")
    recursive: Annotated[bool, replace(RECURSIVE, panel="Input")] = False
    jobs: Jobs = 1
    skip_existing: Annotated[bool, replace(SKIP_EXISTING, panel="Output")] = False


@with_records
def command(
    videos: Annotated[
        list[str],
        typer.Argument(
            metavar="VIDEO...",
            help="Files, folders, patterns, also of pictures; - for standard input; addresses; camera:0.",
        ),
    ],
    video: VideoSettings,
    region: RegionSettings,
    outputs: OutputSettings,
    events: EventSettings,
    stream: LiveSettings,
    model: ModelSettings,
    work: WorkSettings,
) -> None:
    """Model the background of a video from a fixed camera and mask what moves.

    Writes NAME_background.png, NAME_background.mp4, NAME_foreground.mkv (lossless masks) and NAME_preview.mp4
    (frame, background and mask side by side).

    \b
    Examples:
      visionnmf background video.mp4
      visionnmf background video.mp4 --events objects --report video.html
      visionnmf background video.mp4 --scale 0.5 --every 2 --out results
      visionnmf background video.mp4 --roi 0,120,640,360 --ignore clock.png --start 1:30 --end 2:00
      visionnmf background video.mp4 --events objects --min-area 0.002 --frame-table
      visionnmf background rtsp://camera.local/1 --live --events scene --state yard.npz
      visionnmf background sample:surveillance --json
    """
    # Options that would have no effect are refused, even with the value of their default.
    boxes = outputs.finds_events or outputs.coco or outputs.frame_table or (work.live and verbosity().json_)
    needs("min_length padding", "--events", outputs.finds_events)
    needs("min_area", "--events, --coco or --frame-table", boxes)
    needs("state forgetting warm_up", "--live", work.live)
    excludes("skip_existing", "--force", outputs.force)
    excludes("n_components", "--method mahnmf", model.method != choices.BACKGROUND_METHODS[0])
    excludes("warm_up" if work.live else "n_components random_state", "--reuse", model.reuse is not None)
    options: dict[str, Any] = {"video": video, "region": region, "model": model, "outputs": outputs, "events": events}
    if work.live:
        excluded = {"n_components": "n_components" in given, "method": model.method != choices.BACKGROUND_METHODS[0]}
        excluded |= {
            "clips": outputs.clips,
            "keep_model": model.keep_model,
            "recursive": work.recursive,
            "skip_existing": work.skip_existing,
            "jobs": work.jobs > 1,
            "scheduler": cluster_address() is not None,
        }
        refused = [flag_of(name, f"--{name}") for name, wanted in excluded.items() if wanted]
        if refused or len(videos) != 1:
            reason = f"and {refused[0]} exclude each other" if refused else f"takes one source; got {len(videos)}"
            raise typer.BadParameter(f"--live {reason}")
    with running() as run, results_folder(work.out):
        if work.live:
            _follow(run, videos[0], {**options, "live": stream, "out": work.out})
            return
        inputs = placed(_inputs(run, videos, work.recursive, work.out), work.out)
        if not inputs:
            return
        from visionnmf.apps.background import process_video

        run.skip_existing = work.skip_existing
        run.show_all(run.each(inputs, partial(process_video, **options), jobs=work.jobs, progress="process"))


def _inputs(run: Run, arguments: list[str], recursive: bool, out: Path) -> list[Input]:
    """Return the inputs: all pictures of a folder or a pattern are one input; an address is passed on unchanged."""
    from visionnmf.io import is_live, pictures_of

    run.kind = "videos"
    inputs: list[Input] = []
    for argument in arguments:
        with run.attempt(argument):
            if is_live(argument) or (not recursive and pictures_of(argument)):
                inputs.append(Input(argument))
                run.total += 1
            else:
                inputs += run.inputs("videos", [argument], choices.VIDEO_SUFFIXES, recursive=recursive, out=out)
    return list(dict.fromkeys(inputs))


def _follow(run: Run, source: str, options: dict[str, Any]) -> None:
    """Follow a source until it ends or a signal comes; print frames as JSON, or events."""
    from visionnmf.apps.background import LiveCallbacks, follow_source
    from visionnmf.apps.background.event_tables import frame_row
    from visionnmf.apps.background.reports import event_sentence
    from visionnmf.apps.background.watch import as_rows

    def print_frame(part: Any) -> None:
        """Print the boxes of one frame's foreground, at least of the smallest area, as a line of JSON."""
        echo(json.dumps(frame_row(part, options["events"].min_area)))

    def print_event(event: dict[str, Any]) -> None:
        """Print an event that has ended as a sentence, unless the run prints JSON or is quiet."""
        run.remark(f"event {event_sentence(event)}")

    def print_unseen(unseen: Any) -> None:
        """Print at once that the camera does not see its scene."""
        if run.as_json:
            echo(json.dumps({"unseen": as_rows([unseen])[0]}))
        else:
            run.remark(in_options(str(unseen)))

    printed: dict[str, Any] = {"on_frame": print_frame} if run.as_json else {"on_event": print_event}
    printed["on_unseen"] = print_unseen
    with until_signal() as ending, run.progress(source) as progress:
        callbacks = LiveCallbacks(**printed, until=ending)
        report = follow_source(source, **options, callbacks=callbacks, progress=progress)
    run.show(report)
    if options["outputs"].masks is None and report.frames:
        run.remark("  the masks were not kept; --masks png or --masks ffv1 keeps them")
