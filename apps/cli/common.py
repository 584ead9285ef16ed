"""What all commands share: options, how errors become one line and an exit code, batches, progress.

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
from typing import Annotated, Any

import typer

from visionnmf import __version__
from visionnmf.exceptions import VisionNMFError

EXIT_SOME_FAILED = 1
EXIT_NOTHING_DONE = 2
EXIT_INTERRUPTED = 130

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the results; made if missing.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed: the same seed, the same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output, nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite results that exist already.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def expanded(arguments: list[str]) -> list[str]:
    """Return the files that arguments mean: files, patterns, samples."""
    from visionnmf.io import expand_inputs

    return expand_inputs(arguments)


def tell(report: Any, json_: bool) -> None:
    """Print a report: one JSON document, or text for a person."""
    document = {"visionnmf": __version__, **report.as_dict()}
    typer.echo(json.dumps(document, indent=2) if json_ else printable(report.summary()))


@contextmanager
def one_line(debug: bool) -> Iterator[None]:
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
        say(str(error).replace("\n", " "))
        raise typer.Exit(EXIT_NOTHING_DONE) from None
    except Exception as error:
        if _interrupted:
            raise typer.Exit(EXIT_INTERRUPTED) from None
        if debug:
            raise
        say(f"a fault of visionnmf's ({type(error).__name__}: {error}); --debug shows where")
        raise typer.Exit(EXIT_SOME_FAILED) from None


def batch(
    kind: str, arguments: list[str], process: Callable[[str], Any], *, json_: bool, debug: bool, writes: bool = True
) -> None:
    """Process every input, go on after one that fails, report at the end, and exit.

    Inputs of one name are refused where results are named after them (`writes`).
    """
    import warnings

    from visionnmf.io import expand_inputs

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
                stem = _free_stem(source, stems) if writes else source
                with warnings.catch_warnings(record=True) as notes:
                    warnings.simplefilter("always", UserWarning)
                    report = process(source)
                told = list(dict.fromkeys(str(note.message) for note in notes if note.category is UserWarning))
                for sentence in told:
                    say(sentence)
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
                    typer.echo(printable(report.summary()))
        if interrupted:
            say(f"interrupted during {source}; nothing was written for it")
            break
    if json_:
        typer.echo(json.dumps({"visionnmf": __version__, kind: results, "failed": failed}, indent=2))
    elif failed and len(results) > 1:
        say(f"{failed} of {len(results)} {kind} failed")
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
            f"{source}: its results would have the names of those of {stems[stem]}; run it apart, into another folder"
        )
    return stem


def folder(out: Path, option: str = "--out") -> None:
    """Make the folder for the results, or say before the work why there can be none."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(out, os.W_OK | os.X_OK) else "cannot be written to"
    except FileExistsError:
        reason = "is a file, not a folder"
    except OSError as error:
        reason = f"cannot be made ({error.strerror})"
    if reason:
        say(f"{option} {out}: {reason}; give another folder")
        raise typer.Exit(EXIT_NOTHING_DONE)


def _failure(source: str, error: BaseException, *, ours: bool = False) -> dict[str, Any]:
    message = str(error).replace("\n", " ") or type(error).__name__
    if isinstance(error, MemoryError):
        message = f"{source}: not enough memory; try a smaller input or --scale"
    if ours:
        message = f"{source}: a fault of visionnmf's ({type(error).__name__}: {message}); --debug shows where"
    say(message)
    return {"input": source, "error": message}


def printable(text: str) -> str:
    """Take out what could steer a terminal: names of files come from strangers."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


def say(message: str) -> None:
    """Print one line on standard error."""
    typer.echo(f"visionnmf: {printable(message).replace(chr(10), ' ')}", err=True)


def _interactive(json_: bool) -> bool:
    return not json_ and sys.stderr.isatty()


@contextmanager
def status(text: str, json_: bool) -> Iterator[None]:
    """Show on a terminal that work goes on."""
    if not _interactive(json_):
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


@contextmanager
def progress_bar(
    source: str, json_: bool, rate_of: str = "frames"
) -> Iterator[Callable[[str, int, int | None], None] | None]:
    """Draw a bar with a rate and the time left; yields what the work calls with (stage, done, total)."""
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
                tasks[stage] = bars.add_task(f"{Path(source).name}: {stage}", total=total, rate="")
            task = bars.tasks[bars.task_ids.index(tasks[stage])]
            rate = f"{task.speed:.0f} {rate_of}/s" if rate_of and task.speed else ""
            bars.update(tasks[stage], completed=done, total=total, rate=rate)

        yield update


_interrupted = False  # an interrupt within a compiler's callback comes out as some other error, or not at all


def on_interrupt(number: int, _frame: object) -> None:
    """End at a signal by an exception, so that half-written files are removed."""
    global _interrupted
    _interrupted = True
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)
