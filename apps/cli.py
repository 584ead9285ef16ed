"""The command line: parse, import inside, call, print, exit codes.

Exit codes: 0 all is well; 1 some inputs of a batch failed, or the fault is ours; 2 bad usage, or no input could be
used; 130 interrupted. Whatever is imported at the top of this file is paid for by ``visionnmf --help``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from visionnmf import __version__, _options
from visionnmf.exceptions import VisionNMFError

__all__ = ["app", "main"]

app = typer.Typer(
    name="visionnmf",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

EXIT_SOME_FAILED = 1
EXIT_NOTHING_DONE = 2
EXIT_INTERRUPTED = 130

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the results; made if missing.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed: the same seed, the same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output, nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite results that exist already.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


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
    """Robust non-negative matrix factorisation for images and video.

    \b
    Examples:
      visionnmf segment photo.jpg
      visionnmf background video.mp4
      visionnmf segment sample:coffee --out out
      visionnmf background sample:surveillance --out out
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
        int, typer.Option("--superpixels", min=2, max=5000, help="Superpixels an image, about.")
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

    def process(image: str) -> Any:
        from visionnmf.apps.segmentation import process_image

        with _status(f"segmenting {image}", json_):
            return process_image(
                image, n_segments=segments, rank=rank, n_superpixels=superpixels, seed=seed, out=out, force=force
            )

    _batch("images", images, process, json_=json_, debug=debug)


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

    def process(video: str) -> Any:
        from visionnmf.apps.background import process_video

        with _progress_bar(video, json_) as progress:
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

    _batch("videos", videos, process, json_=json_, debug=debug)


# --- what the commands share ------------------------------------------------------------------------------------------


def _batch(kind: str, arguments: list[str], process: Callable[[str], Any], *, json_: bool, debug: bool) -> None:
    """Process every input, go on after one that fails, report at the end, and exit."""
    from visionnmf.apps.media import expand_inputs

    results: list[dict[str, Any]] = []
    stems: dict[str, str] = {}
    failed = 0
    ours = False
    for argument in arguments:
        try:
            inputs = expand_inputs([argument])
        except VisionNMFError as error:
            if debug:
                raise
            results.append(_failure(argument, error))
            failed += 1
            continue
        for source in inputs:
            try:
                _check_stem(source, stems)
                report = process(source)
            except KeyboardInterrupt:
                _say(f"interrupted during {source}; nothing was written for it")
                raise typer.Exit(EXIT_INTERRUPTED) from None
            except (VisionNMFError, OSError, MemoryError) as error:
                if debug:
                    raise
                results.append(_failure(source, error))
                failed += 1
            except Exception as error:  # ours: one line for the user, the traceback on request
                if debug:
                    raise
                ours = True
                results.append(_failure(source, error, ours=True))
                failed += 1
            else:
                results.append(report.as_dict())
                if not json_:
                    typer.echo(report.summary())
    if json_:
        typer.echo(json.dumps({"visionnmf": __version__, kind: results, "failed": failed}, indent=2))
    elif failed and len(results) > 1:
        _say(f"{failed} of {len(results)} {kind} failed")
    if failed:
        raise typer.Exit(EXIT_NOTHING_DONE if failed == len(results) and not ours else EXIT_SOME_FAILED)


def _check_stem(source: str, stems: dict[str, str]) -> None:
    """Refuse a second input whose results would have the names of the first one's."""
    from visionnmf.exceptions import OutputExistsError

    stem = source.removeprefix("sample:") if source.startswith("sample:") else Path(source).stem
    first = stems.setdefault(stem, source)
    if first != source:
        raise OutputExistsError(
            f"{source}: its results would have the names of those of {first}; run it apart, with another --out"
        )


def _failure(source: str, error: BaseException, *, ours: bool = False) -> dict[str, Any]:
    message = str(error).replace("\n", " ") or type(error).__name__
    if isinstance(error, MemoryError):
        message = f"{source}: not enough memory; try a smaller input or --scale"
    if ours:
        message = f"{source}: a fault of visionnmf's ({type(error).__name__}: {message}); --debug shows where"
    _say(message)
    return {"input": source, "error": message}


def _say(message: str) -> None:
    typer.echo(f"visionnmf: {message}", err=True)


def _interactive(json_: bool) -> bool:
    return not json_ and sys.stderr.isatty()


@contextmanager
def _status(text: str, json_: bool) -> Iterator[None]:
    if not _interactive(json_):
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


@contextmanager
def _progress_bar(video: str, json_: bool) -> Iterator[Callable[[str, int, int | None], None] | None]:
    """Draw a bar with the frame rate and the time left; yields what the work calls with (stage, done, total)."""
    if not _interactive(json_):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def update(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(f"{Path(video).name}: {stage}", total=total, rate="")
            task = bars.tasks[bars.task_ids.index(tasks[stage])]
            rate = f"{task.speed:.0f} frames/s" if task.speed else ""
            bars.update(tasks[stage], completed=done, total=total, rate=rate)

        yield update


def main() -> NoReturn:
    """Run the command line; the entry point of the ``visionnmf`` command."""
    # as an exception, so that half-written files are removed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        app()
    except VisionNMFError as error:  # with --debug the traceback is what was asked for
        if os.environ.get("VISIONNMF_DEBUG") or "--debug" in sys.argv:
            raise
        _say(str(error))
        raise SystemExit(EXIT_NOTHING_DONE) from None
    raise SystemExit(0)


if __name__ == "__main__":
    main()
