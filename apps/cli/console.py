"""What a command prints, and where: reports on standard output, everything else on standard error.

All text goes through :func:`visionnmf._text.printable`: names of files come from other people and may hold escape
sequences, line breaks and passwords of URLs.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import typer

from visionnmf._progress import Progress
from visionnmf._text import printable
from visionnmf.exceptions import MediaError

LINE_EVERY = 10.0  # seconds between two lines about progress where there is no terminal
ENOUGH_STEPS = 3  # at least, from which the remaining time is estimated, because steps differ in length
RECENT = 1 / 3  # share of the time, up to now, whose steps the remaining time is estimated from


@dataclass(frozen=True)
class Verbosity:
    """What this process prints: only failures (`quiet`), each step, JSON in place of text, tracebacks (`debug`).

    `page` opens the page about the run, where one is wanted.
    """

    quiet: bool = False
    verbose: bool = False
    json_: bool = False
    debug: bool = False
    page: Callable[[], Any] | None = None


_verbosity = Verbosity()


def set_verbosity(verbosity: Verbosity) -> None:
    """Print as the options of the command ask."""
    global _verbosity
    if verbosity.quiet and verbosity.verbose:
        raise typer.BadParameter("--quiet and --verbose exclude each other")
    _verbosity = verbosity


def verbosity() -> Verbosity:
    """Return what this process prints."""
    return _verbosity


def echo(text: str) -> None:
    """Print on standard output, and name it in the error if that fails, for example because its disk is full."""
    try:
        typer.echo(text)
    except BrokenPipeError:  # typer ends silently when a reader such as `head` has gone
        raise
    except OSError as error:
        raise MediaError(f"standard output: cannot be written ({error.strerror})") from error


def say(message: str) -> None:
    """Print one line on standard error. If that cannot be written, the exit code still reports the failure."""
    with suppress(OSError):
        typer.echo(f"visionnmf: {printable(message)}", err=True)


def on_terminal() -> bool:
    """Return whether somebody watches standard error and wants to see progress."""
    return not _verbosity.quiet and sys.stderr.isatty()


@contextmanager
def spinner(text: str) -> Iterator[None]:
    """Show that the command is working: on a terminal at once, elsewhere in a line every ten seconds."""
    if _verbosity.quiet:
        yield
    elif on_terminal():
        from rich.console import Console

        with Console(stderr=True).status(printable(text, markup=True)):
            yield
    else:
        ended = threading.Event()

        def report() -> None:
            """Print how long the work named `text` has taken, every ten seconds, until the event `ended` is set."""
            seconds = 0.0
            while not ended.wait(LINE_EVERY):
                seconds += LINE_EVERY
                say(f"{text}: working for {seconds:.0f} s")

        reporter = threading.Thread(target=report, daemon=True)
        reporter.start()
        try:
            yield
        finally:
            ended.set()
            reporter.join()


@contextmanager
def progress_bar(name: str, rate_of: str = "frames") -> Iterator[Progress | None]:
    """Show rate and remaining time on standard error; yields a function to call with stage, done and total, or None.

    On a terminal this is a bar for each stage, elsewhere a line every ten seconds. `rate_of` names what is counted; an
    empty text shows no rate. With ``--verbose`` a last line says how long each stage took.
    """
    with _shown_progress(name, rate_of) as update:
        if update is None or not _verbosity.verbose:
            yield update
            return
        seconds: dict[str, float] = {}  # of each stage
        last, since = "", time.perf_counter()  # the stage of the last report, and when that was

        def timed(stage: str, done: int = 0, total: int | None = None) -> None:
            """Add the time since the last report to its stage, and show progress by `update`."""
            nonlocal last, since
            now = time.perf_counter()
            seconds[last] = seconds.get(last, 0.0) + now - since
            last, since = stage, now
            if stage:
                update(stage, done, total)

        yield timed
        timed("")  # the end of the last stage
    del seconds[""]  # before the first stage
    if seconds:
        say(f"{name}: " + ", ".join(f"{stage} {took:.1f} s" for stage, took in seconds.items()))


@contextmanager
def _shown_progress(name: str, rate_of: str) -> Iterator[Progress | None]:
    """Show progress without the times of stages; yield a function (stage, done, total), None if nothing is shown."""
    if _verbosity.quiet:
        yield None
        return
    if not on_terminal():
        yield _progress_lines(name, rate_of)
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
    # rich would print what goes to standard output above the bars, so on standard error, even where it is redirected
    above = sys.stdout.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=above) as bars:
        tasks: dict[str, TaskID] = {}  # a bar for each stage of the work

        def update(stage: str, done: int, total: int | None) -> None:
            """Draw how much of a stage is done, of how much in all; a new stage gets a bar of its own."""
            if stage not in tasks:
                tasks[stage] = bars.add_task(printable(f"{name}: {stage}", markup=True), total=total, rate="")
            task = bars.tasks[bars.task_ids.index(tasks[stage])]
            rate = f"{task.speed:.0f} {rate_of}/s" if rate_of and task.speed else ""
            bars.update(tasks[stage], completed=done, total=total, rate=rate)

        yield update


def _progress_lines(name: str, rate_of: str) -> Progress:
    """Return a function that prints a line about the work at most every ten seconds."""
    last = time.monotonic()
    marks: dict[str, list[tuple[float, int]]] = {}  # of each stage: when its first step ended and lines were printed

    def update(stage: str, done: int, total: int | None) -> None:
        """Print how much of a stage is done, how fast, and how long the rest will take."""
        nonlocal last
        now = time.monotonic()
        own = marks.setdefault(stage, [])  # earlier times of this stage, and how much was done then, for the rate
        if done and not own:  # also if no line is printed now: the rate counts from the end of the first step
            own.append((now, done))
        if now - last < LINE_EVERY:
            return
        last = now
        rate = _recent_rate(own, now, done)
        if done:
            own.append((now, done))
        parts = [f"{stage} {done}" + (f" of {total}" if total is not None else "")]
        if rate_of and rate:
            parts.append(f"{rate:.3g} {rate_of}/s")
        if rate and total is not None and done < total:  # at the end the work that follows is not known
            parts.append(f"{_duration((total - done) / rate)} left")
        say(f"{name}: {', '.join(parts)}")

    return update


def _recent_rate(marks: list[tuple[float, int]], now: float, done: int) -> float:
    """Return the steps a second over the last third of the time since the first step; 0 where they are too few."""
    # Kernels are compiled in the first step, so the first of the `marks` (time, steps done) is the end of that.
    begin = now - (now - marks[0][0]) * RECENT if marks else now
    for then, before in reversed(marks):
        if then <= begin < now and done - before >= ENOUGH_STEPS:
            return (done - before) / (now - then)
    return 0.0


def _duration(seconds: float) -> str:
    """Return a duration for a person."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
