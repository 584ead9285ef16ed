"""``visionnmf background``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from visionnmf import choices

from .common import Input, Run, make_folder, running
from .following import until_signal
from .groups import with_default
from .options import Debug, Force, Jobs, Json, Out, Recursive, Seed, one_of
from .work import Work

__all__ = ["command"]


command = typer.Typer(cls=with_default("videos"), rich_markup_mode=None)


@command.callback()
def _background() -> None:
    """Background and foreground of videos; compare methods on clips with true masks.

    \b
    Examples:
      visionnmf background video.mp4
      visionnmf background evaluate clips/
    """


@command.command("videos")
def separate_videos(
    context: typer.Context,
    videos: Annotated[
        list[str],
        typer.Argument(
            metavar="VIDEO...",
            help="Files, folders, patterns, also of pictures; - is standard input; addresses, camera:0.",
        ),
    ],
    rank: Annotated[int, typer.Option("--rank", min=1, max=20, help="Most components of the background model.")] = (
        choices.BACKGROUND_COMPONENTS
    ),
    method: Annotated[
        str, typer.Option("--method", help=f"Ours, or one to compare with: {one_of(choices.BACKGROUND_METHODS)}")
    ] = choices.BACKGROUND_METHODS[0],
    out: Out = Path("."),
    scale: Annotated[
        float, typer.Option("--scale", metavar="F", min=0.01, max=1, help="Work at this share of width and height.")
    ] = 1.0,
    full_size: Annotated[
        bool, typer.Option("--full-size", help="Of --scale: results of the size of the video, masks enlarged.")
    ] = False,
    every: Annotated[int, typer.Option("--every", metavar="N", min=1, help="Take every N-th frame.")] = 1,
    max_frames: Annotated[
        int | None, typer.Option("--max-frames", metavar="N", min=1, help="Stop after N frames.")
    ] = None,
    roi: Annotated[
        list[str] | None,
        typer.Option("--roi", metavar="REGION", help="Where foreground counts: X,Y,W,H, 'X,Y X,Y X,Y', or a picture."),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="REGION", help="Where it does not; several of each do.")
    ] = None,
    start: Annotated[
        str, typer.Option("--start", metavar="T", help="Begin here: seconds, or hours:minutes:seconds.")
    ] = "0",
    end: Annotated[str | None, typer.Option("--end", metavar="T", help="End before this.")] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", metavar="X", help="Times the noise that foreground deviates; 3.")
    ] = None,
    keep_model: Annotated[bool, typer.Option("--keep-model", help="Also write the model, NAME_model.npz.")] = False,
    reuse: Annotated[
        Path | None, typer.Option("--reuse", metavar="MODEL", help="Take a model that was kept instead of learning.")
    ] = None,
    events: Annotated[bool, typer.Option("--events", help="Also list when something moves, with thumbnails.")] = False,
    clips: Annotated[
        bool, typer.Option("--clips", help="Also cut events out of the video, without encoding it anew.")
    ] = False,
    min_event: Annotated[
        float, typer.Option("--min-event", metavar="S", min=0, help="Seconds that something must move.")
    ] = choices.EVENT_LENGTH,
    padding: Annotated[
        float, typer.Option("--padding", metavar="S", min=0, help="Seconds of an event before and after it.")
    ] = choices.EVENT_PADDING,
    min_area: Annotated[
        float, typer.Option("--min-area", metavar="F", min=0, max=1, help="Least share of the picture that moves.")
    ] = choices.EVENT_AREA,
    frame_table: Annotated[
        str | None, typer.Option("--frame-table", help="Also list all frames: csv or jsonl.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Mask each frame as it comes; any source, without end.")] = False,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FILE", help="Of --live: go on from this file, and write it.")
    ] = None,
    forget: Annotated[
        float, typer.Option("--forget", metavar="S", help="Of --live: seconds in which the past is forgotten.")
    ] = choices.LIVE_FORGETTING,
    warm_up: Annotated[
        float, typer.Option("--warm-up", metavar="S", min=0, help="Of --live: seconds learnt before the first mask.")
    ] = choices.LIVE_WARM_UP,
    masks: Annotated[
        str | None,
        typer.Option("--masks", help="Masks as png (a folder), ffv1 (lossless) or h264 (VP9 where a side is odd)."),
    ] = None,
    overlay: Annotated[bool, typer.Option("--overlay", help="Also write the video, its foreground coloured.")] = False,
    alpha: Annotated[
        float, typer.Option("--alpha", metavar="F", min=0, max=1, help="Share of colour in --overlay.")
    ] = choices.OVERLAY_ALPHA,
    coco: Annotated[bool, typer.Option("--coco", help="Also write all boxes as COCO's annotations.")] = False,
    background_every: Annotated[
        float | None, typer.Option("--background-every", metavar="S", help="Of --live: write the scene all S seconds.")
    ] = None,
    fps: Annotated[float | None, typer.Option("--fps", metavar="N", help="Of pictures and raw frames [25].")] = None,
    size: Annotated[str | None, typer.Option("--size", metavar="WxH", help="Of raw frames on standard input.")] = None,
    pixel_format: Annotated[
        str | None, typer.Option("--pixel-format", metavar="P", help="Of raw frames, as FFmpeg names it [rgb24].")
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
      visionnmf background video.mp4 --method rpca
      visionnmf background video.mp4 --roi 0,120,640,360 --ignore clock.png --start 1:30 --end 2:00
      visionnmf background video.mp4 --events --min-area 0.002 --frame-table csv
      visionnmf background rtsp://camera.local/1 --live --events --state yard.npz
      visionnmf background sample:surveillance --json
      visionnmf background evaluate --help
    """
    given = _given(context)
    if full_size and "scale" not in given:
        raise typer.BadParameter("--full-size is of --scale; give that, too")
    if "alpha" in given and not overlay:
        raise typer.BadParameter("--alpha is of --overlay")
    if "min_area" in given and not (events or clips or coco or frame_table or (live and json_)):
        raise typer.BadParameter("--min-area is of --events, --coco and --frame-table; give one of these, too")
    for name in ("min_event", "padding"):
        if name in given and not (events or clips):
            raise typer.BadParameter(f"--{name.replace('_', '-')} is of --events; give that, too")
    begin, last = _seconds(start, "--start"), None if end is None else _seconds(end, "--end")
    options: dict[str, Any] = {
        "scale": scale,
        "every": every,
        "max_frames": max_frames,
        "roi": tuple(roi or ()),
        "ignore": tuple(ignore or ()),
        "start": begin,
        "end": last,
        "threshold": threshold,
        "reuse": reuse,
        "frame_table": frame_table,
        "overlay": alpha if overlay else None,
        "coco": coco,
        "min_area": min_area,
        "frame_rate": fps,
        "size": None if size is None else _size(size),
        "pixel_format": pixel_format,
        "random_state": seed,
        "force": force,
    }
    if masks is not None:
        options["masks"] = masks
    if events or clips:
        options["events"] = {"min_length": min_event, "padding": padding, "min_area": min_area}
    if live:
        others = {"--clips": clips, "--keep-model": keep_model, "--recursive": recursive, "--jobs": jobs > 1}
        others |= {
            "--full-size": full_size,
            "--method": method != choices.BACKGROUND_METHODS[0],
            "--rank": "rank" in given,
        }
        refused = [name for name, wanted in others.items() if wanted]
        if refused or len(videos) != 1:
            reason = f"and {refused[0]} exclude each other" if refused else f"takes one source; got {len(videos)}"
            raise typer.BadParameter(f"--live {reason}")
        options |= {"state": state, "forgetting": forget, "warm_up": warm_up, "background_every": background_every}
        with running(json_, debug) as run:
            make_folder(out)
            _follow(run, videos[0], {**options, "out": out}, as_json=json_)
        return
    for name in ("state", "background_every", "forget", "warm_up"):
        if name in given:
            raise typer.BadParameter(f"--{name.replace('_', '-')} is of --live")
    with running(json_, debug) as run:
        make_folder(out)
        options |= {"method": method, "n_components": rank, "keep_model": keep_model, "clips": clips}
        options |= {"full_size": full_size}
        work = Work("visionnmf.apps.background", "process_video", options, takes_progress=True)
        run.batch("videos", _inputs(run, videos, recursive, out), work, out=out, jobs=jobs)


def _given(context: typer.Context) -> set[str]:
    """Return the options that stand on the command line, be it with their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def _inputs(run: Run, arguments: list[str], recursive: bool, out: Path) -> list[Input]:
    """Find the inputs: pictures of a folder or a pattern are one, and what is no file is taken as it is."""
    from visionnmf.io import is_live, pictures_of

    inputs: list[Input] = []
    for argument in arguments:
        with run.attempt(argument):
            if is_live(argument) or (not recursive and pictures_of(argument)):
                inputs.append(Input(argument))
            else:
                inputs += run.inputs("videos", [argument], choices.VIDEO_SUFFIXES, recursive=recursive, out=out)
    return list(dict.fromkeys(inputs))


def _follow(run: Run, source: str, options: dict[str, Any], *, as_json: bool) -> None:
    """Follow a source until it ends or a signal comes; prints frames as JSON, or events."""
    from visionnmf.apps.background import follow_source
    from visionnmf.apps.background.tables import frame_row, time_code

    min_area = options["min_area"]

    def tell_frame(part: Any, at: float) -> None:
        typer.echo(json.dumps(frame_row(part, at, min_area)))  # no input, which the exit code would count

    def tell_event(event: dict[str, Any]) -> None:
        span = f"{time_code(event['start'])} to {time_code(event['end'])}"
        run.remark(f"event {event['event']}: {span}, at most {event['peak_area']:.1%} of the picture")

    told: dict[str, Any] = {"on_frame": tell_frame} if as_json else {"on_event": tell_event}
    with until_signal() as ending, run.progress(source) as progress:
        report = follow_source(source, **options, **told, until=ending, progress=progress)
    if as_json:
        run.line(report.as_dict())
        for sentence in report.skipped:
            run.fail(sentence, source)
    else:
        run.report(report)


def _size(text: str) -> tuple[int, int]:
    """Read a width and a height."""
    found = re.fullmatch(r"(\d{1,5})x(\d{1,5})", text)
    if not found:
        raise typer.BadParameter(f"--size: {text} is no size; give width and height, as in 640x480")
    return int(found[1]), int(found[2])


def _seconds(text: str, option: str) -> float:
    """Read seconds, minutes:seconds or hours:minutes:seconds."""
    if not re.fullmatch(r"(\d+:){0,2}\d+(\.\d+)?", text):
        raise typer.BadParameter(f"{option}: {text} is no time; give seconds, as in 90.5, or 1:30.5")
    parts = [float(part) for part in text.split(":")]
    return sum(part * 60**power for power, part in enumerate(reversed(parts)))


@command.command("evaluate")
def evaluate_methods(
    clips: Annotated[
        list[str], typer.Argument(metavar="CLIP...", help="Folders with input and groundtruth, or folders of such.")
    ],
    methods: Annotated[
        str, typer.Option("--methods", help=f"Comma-separated: {one_of(choices.BACKGROUND_METHODS)}")
    ] = choices.BACKGROUND_METHODS[0],
    masks: Annotated[bool, typer.Option("--masks", help="Write the masks too, as CDnet's tools expect them.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder for results.csv; made if missing.")
    ] = None,
    jobs: Jobs = 1,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Compare methods on clips with true masks; an interrupted run goes on where it was.

    Prints CDnet's seven metrics, errors of the background where the true one is known, processor time, frames per
    second and memory, for each method and for the temporal median, MOG2 and KNN beside it.

    \b
    Examples:
      visionnmf background evaluate dataset2014/dataset --out scores
      visionnmf background evaluate clip/ --methods ours,rpca --masks --out scores
    """
    if masks and out is None:
        raise typer.BadParameter("--masks needs --out, the folder to write them to")
    with running(json_, debug) as run:
        if out is not None:
            make_folder(out)
        from visionnmf.apps.background import evaluate

        with run.progress("evaluation", rate_of="") as bar:

            def progress(done: int, total: int) -> None:
                if bar is not None:
                    bar("clips and methods", done, total)

            report = evaluate(
                clips, methods=methods.split(","), out=out, masks=masks, jobs=jobs, force=force, progress=progress
            )
        run.report(report)
