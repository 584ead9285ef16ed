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
    """Robust non-negative matrix factorisation for images, video and command logs.

    \b
    Examples:
      visionnmf segment photo.jpg
      visionnmf background video.mp4
      visionnmf segment sample:coffee --out out
      visionnmf background sample:surveillance --out out
      visionnmf masquerade train histories/* --model users.npz
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
    _folder(out)

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
    _folder(out)

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


masquerade = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(masquerade, name="masquerade")


@masquerade.callback()
def _masquerade() -> None:
    """Find masqueraders in command logs: train on histories, score logs, evaluate.

    \b
    Examples:
      visionnmf masquerade train histories/* --model users.npz
      visionnmf masquerade score users.npz today.log
      visionnmf masquerade evaluate histories/*
    """


Size = Annotated[int, typer.Option("--size", metavar="N", min=1, help="Commands a session.")]
Idle = Annotated[
    float | None, typer.Option("--idle", metavar="SECONDS", min=0, help="Cut sessions by silence instead of by count.")
]
LogFormat = Annotated[str, typer.Option("--format", help="auto, plain, bash, zsh, acct, audit, csv or jsonl.")]
User = Annotated[str | None, typer.Option("--user", help="Whose the logs are, where they do not say.")]
WholeLines = Annotated[bool, typer.Option("--whole-lines", help="Take lines as they are, not the programs in them.")]
FalseAlarms = Annotated[
    float, typer.Option("--false-alarms", metavar="RATE", min=0.0001, max=0.5, help="Rate that thresholds aim at.")
]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", metavar="FILE", help="File with the key that commands are hashed with.")
]


@masquerade.command("train")
def masquerade_train(
    histories: Annotated[list[str], typer.Argument(metavar="HISTORY...", help="Logs or patterns, oldest first.")],
    model: Annotated[Path, typer.Option("--model", metavar="M.npz", help="The model file to write.")],
    size: Size = _options.SESSION_SIZE,
    idle: Idle = None,
    format_: LogFormat = "auto",
    user: User = None,
    whole_lines: WholeLines = False,
    false_alarms: FalseAlarms = _options.FALSE_ALARM_RATE,
    hash_commands: Annotated[bool, typer.Option("--hash", help="Keep hashes of commands, not their names.")] = False,
    key_file: KeyFile = None,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Learn every user's habits from command histories.

    \b
    Examples:
      visionnmf masquerade train histories/* --model users.npz
      visionnmf masquerade train ~/.bash_history --user me --model me.npz
    """
    from visionnmf.apps.masquerade import train

    with _one_line(debug):
        done = train(
            _expanded(histories),
            model,
            size=size,
            idle=idle,
            format=format_,
            user=user,
            whole_lines=whole_lines,
            false_alarm_rate=false_alarms,
            hash_commands=hash_commands,
            key=_key(key_file),
            force=force,
        )
        _tell(done, json_)
    if done.skipped:
        raise typer.Exit(EXIT_SOME_FAILED)


@masquerade.command("score")
def masquerade_score(
    model: Annotated[Path, typer.Argument(metavar="M.npz", help="A model that train has written.")],
    logs: Annotated[list[str], typer.Argument(metavar="LOG...", help="Logs or patterns, oldest first.")],
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow one log from its end as it grows; Ctrl-C ends it.")
    ] = False,
    update: Annotated[bool, typer.Option("--update/--no-update", help="Learn on from accepted sessions.")] = True,
    keep: Annotated[
        bool, typer.Option("--keep", help="At the end, write what was learnt back into the model file.")
    ] = False,
    format_: LogFormat = "auto",
    user: User = None,
    key_file: KeyFile = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object a session (JSON Lines).")] = False,
    debug: Debug = False,
) -> None:
    """Score the sessions of logs: score, verdict, and the commands that made it so.

    \b
    Examples:
      visionnmf masquerade score users.npz today.log
      visionnmf masquerade score users.npz /var/log/audit/audit.log --follow --json
    """
    from visionnmf.apps.masquerade import load, save, score

    skipped: list[str] = []
    with _one_line(debug):
        known = load(model, key=_key(key_file))
        paths = _expanded(logs)
        results = score(
            known, paths, following=follow, update=update, format=format_, user=user, on_error=skipped.append
        )
        try:
            for result in results:
                print(json.dumps(result.as_dict()) if json_ else _printable(result.summary()), flush=True)
        except KeyboardInterrupt:
            if not follow:
                raise
        if keep:
            save(known, model, force=True)
    for sentence in skipped:
        _say(sentence)
    if skipped:
        raise typer.Exit(EXIT_NOTHING_DONE if len(skipped) == len(paths) else EXIT_SOME_FAILED)


@masquerade.command("evaluate")
def masquerade_evaluate(
    histories: Annotated[list[str], typer.Argument(metavar="HISTORY...", help="Logs of two users or more.")],
    size: Size = _options.SESSION_SIZE,
    idle: Idle = None,
    format_: LogFormat = "auto",
    whole_lines: WholeLines = False,
    false_alarms: FalseAlarms = _options.FALSE_ALARM_RATE,
    seed: Seed = _options.SEED,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Find out how well users can be told apart here: later sessions of each against those of the others.

    \b
    Example:
      visionnmf masquerade evaluate histories/*
    """
    from visionnmf.apps.masquerade import evaluate

    with _one_line(debug):
        found = evaluate(
            _expanded(histories),
            size=size,
            idle=idle,
            format=format_,
            whole_lines=whole_lines,
            false_alarm_rate=false_alarms,
            seed=seed,
        )
        _tell(found, json_)
    if found.skipped:
        raise typer.Exit(EXIT_SOME_FAILED)


# --- what the commands share ------------------------------------------------------------------------------------------


def _expanded(arguments: list[str]) -> list[str]:
    from visionnmf.apps.media import expand_inputs

    return expand_inputs(arguments)


def _tell(report: Any, json_: bool) -> None:
    """Print a report: one JSON document, or text for a person."""
    document = {"visionnmf": __version__, **report.as_dict()}
    typer.echo(json.dumps(document, indent=2) if json_ else _printable(report.summary()))


def _key(path: Path | None) -> str | None:
    from visionnmf.exceptions import UnreadableError

    if path is None:
        return None
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{path}: cannot be read as a key ({error})") from error


@contextmanager
def _one_line(debug: bool) -> Iterator[None]:
    """Turn an error into one line and an exit code, unless the traceback was asked for."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except (typer.Exit, BrokenPipeError):  # typer ends in silence when a reader like `head` has gone
        raise
    except (VisionNMFError, OSError) as error:
        if debug:
            raise
        _say(str(error).replace("\n", " "))
        raise typer.Exit(EXIT_NOTHING_DONE) from None
    except Exception as error:
        if _interrupted:
            raise typer.Exit(EXIT_INTERRUPTED) from None
        if debug:
            raise
        _say(f"a fault of visionnmf's ({type(error).__name__}: {error}); --debug shows where")
        raise typer.Exit(EXIT_SOME_FAILED) from None


def _batch(kind: str, arguments: list[str], process: Callable[[str], Any], *, json_: bool, debug: bool) -> None:
    """Process every input, go on after one that fails, report at the end, and exit."""
    import warnings

    from visionnmf.apps.media import expand_inputs

    results: list[dict[str, Any]] = []
    done: set[str] = set()
    stems: dict[str, str] = {}
    failed = 0
    ours = interrupted = False
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
            file = source if source.startswith("sample:") else os.path.realpath(source)
            if file in done:
                continue
            done.add(file)
            try:
                stem = _free_stem(source, stems)
                with warnings.catch_warnings(record=True) as notes:
                    warnings.simplefilter("always", UserWarning)
                    report = process(source)
                told = list(dict.fromkeys(str(note.message) for note in notes if note.category is UserWarning))
                for sentence in told:
                    _say(sentence)
                results.append(report.as_dict() | {"warnings": told})
                stems[stem] = source
            except BrokenPipeError:
                raise
            except (KeyboardInterrupt, Exception) as error:
                interrupted = _interrupted or isinstance(error, KeyboardInterrupt)
                if debug and not interrupted:
                    raise
                if interrupted:
                    break
                fault = not isinstance(error, VisionNMFError | OSError | MemoryError)
                ours |= fault
                results.append(_failure(source, error, ours=fault))
                failed += 1
            else:
                if not json_:
                    typer.echo(_printable(report.summary()))
        if interrupted:
            _say(f"interrupted during {source}; nothing was written for it")
            break
    if json_:
        typer.echo(json.dumps({"visionnmf": __version__, kind: results, "failed": failed}, indent=2))
    elif failed and len(results) > 1:
        _say(f"{failed} of {len(results)} {kind} failed")
    if interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if failed:
        raise typer.Exit(EXIT_NOTHING_DONE if failed == len(results) and not ours else EXIT_SOME_FAILED)


def _free_stem(source: str, stems: dict[str, str]) -> str:
    """Return the name of an input's results; refuse it when they are those of another input."""
    from visionnmf.exceptions import OutputExistsError

    stem = source.removeprefix("sample:") if source.startswith("sample:") else Path(source).stem
    if stem in stems:
        raise OutputExistsError(
            f"{source}: its results would have the names of those of {stems[stem]}; run it apart, with another --out"
        )
    return stem


def _folder(out: Path) -> None:
    """Make the folder for the results, or say before the work why there can be none."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(out, os.W_OK | os.X_OK) else "cannot be written to"
    except FileExistsError:
        reason = "is a file, not a folder"
    except OSError as error:
        reason = f"cannot be made ({error.strerror})"
    if reason:
        _say(f"--out {out}: {reason}; give another folder")
        raise typer.Exit(EXIT_NOTHING_DONE)


def _failure(source: str, error: BaseException, *, ours: bool = False) -> dict[str, Any]:
    message = str(error).replace("\n", " ") or type(error).__name__
    if isinstance(error, MemoryError):
        message = f"{source}: not enough memory; try a smaller input or --scale"
    if ours:
        message = f"{source}: a fault of visionnmf's ({type(error).__name__}: {message}); --debug shows where"
    _say(message)
    return {"input": source, "error": message}


def _printable(text: str) -> str:
    """Take out what could steer a terminal: names of files come from strangers."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


def _say(message: str) -> None:
    typer.echo(f"visionnmf: {_printable(message).replace(chr(10), ' ')}", err=True)


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


_interrupted = False  # an interrupt within a compiler's callback comes out as some other error, or not at all


def _on_interrupt(number: int, _frame: object) -> None:
    global _interrupted
    _interrupted = True
    # as exceptions, so that half-written files are removed
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def main() -> NoReturn:
    """Run the command line; the entry point of the ``visionnmf`` command."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _on_interrupt)
    try:
        app()
    except VisionNMFError as error:  # with --debug the traceback is what was asked for
        if "--debug" in sys.argv:
            raise
        _say(str(error))
        raise SystemExit(EXIT_NOTHING_DONE) from None
    except OSError as error:  # standard output on a full disk
        if "--debug" in sys.argv:
            raise
        raise SystemExit(f"visionnmf: {error}") from None
    raise SystemExit(0)


if __name__ == "__main__":
    main()
