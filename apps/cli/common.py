"""What all commands share: a run, which prints reports and failures, and decides the exit code.

Exit codes: 0 all is well; 1 some inputs failed, or the fault is ours; 2 bad usage, or no input could be used; 130
interrupted (128 and the number of the signal). Whatever is imported at the top of this file is paid for by
``visionnmf --help``.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import typer

from visionnmf import __version__
from visionnmf.exceptions import MediaError, VisionNMFError

# What arguments of Python are called on the command line, where that is not the same name.
OPTIONS = {
    "n_components": "--rank",
    "random_state": "--seed",
    "n_segments": "--segments",
    "n_clusters": "--clusters",
    "unknown_rate": "--strangers",
    "per_person": "--train",
    "batch_size": "--batch",
    "picture_shape": "--shape",
    "resume=False": "--restart",
    "false_alarm_rate": "--false-alarms",
    "hash_commands=True": "--hash",
    "size=(height, width)": "--size N",
    "force=True": "--force",
}
TOGETHER = 100  # inputs that are looked at together, where that is faster
_ARGUMENT = re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, OPTIONS))})(?![\w./-])")


class Result(Protocol):
    """What a command prints: a :class:`~visionnmf.apps.report.Report`, or one of many rows."""

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""

    def summary(self) -> str:
        """Return it for a person."""


class Run:
    """One run of a command.

    Parameters
    ----------
    as_json : bool
        Print JSON.
    debug : bool
        Let errors through.
    """

    def __init__(self, as_json: bool, debug: bool) -> None:
        self.as_json, self.debug = as_json, debug
        self._done = self._failed = 0
        self._ours = False  # a failure was
        self._batch = ""  # what its inputs are
        self._entries: list[dict[str, Any]] = []  # of the batch's document
        self._current = ""  # the input that is worked on

    def exit_code(self, interrupted: bool) -> int:
        """Decide."""
        if interrupted:
            return 128 + (_signal or signal.SIGINT)
        if not self._failed:
            return 0
        return 1 if self._done or self._ours else 2

    def report(self, report: Any) -> None:
        """Print the one report of a command; what it has left out counts as failed."""
        self._done += 1
        self._failed += len(report.skipped)
        document = {"visionnmf": __version__, **report.as_dict()}
        typer.echo(json.dumps(document, indent=2) if self.as_json else printable(report.summary()))

    def remark(self, text: str) -> None:
        """Tell a person something beside the reports."""
        if not self.as_json:
            typer.echo(printable(text))

    def row(self, row: Result) -> None:
        """Print one of many rows as it comes: a line of JSON, or text."""
        self._done += 1
        typer.echo(json.dumps(row.as_dict()) if self.as_json else printable(row.summary()))

    def batch(
        self,
        kind: str,
        arguments: list[str],
        process: Callable[[str], Any],
        *,
        writes: bool = True,
        prepare: Callable[[list[str]], None] | None = None,
    ) -> None:
        """Process every input, go on after one that fails.

        Inputs of one name are refused where results are named after them (`writes`). Where inputs are better looked at
        together, `prepare` is called with the next of them beforehand.
        """
        self._batch = kind
        stems: dict[str, str] = {}
        sources = self._sources(arguments)
        for source in sources if prepare is None else _prepared(sources, prepare):
            self._current = source
            with self.attempt(source):
                stem = _free_stem(source, stems) if writes else source
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always", UserWarning)
                    report = process(source)
                said = list(dict.fromkeys(str(w.message) for w in caught if w.category is UserWarning))
                for sentence in said:
                    say(sentence)
                stems[stem] = source
                self._done += 1
                self._failed += len(report.skipped)
                self._entries.append(report.as_dict() | {"warnings": said})
                if not self.as_json:
                    typer.echo(printable(report.summary()))
        self._current = ""

    def _sources(self, arguments: list[str]) -> Iterator[str]:
        """Yield the inputs that arguments mean, each once; a pattern without a file is a failure."""
        from visionnmf.io import expand_inputs

        done: set[str] = set()
        for argument in arguments:
            inputs: list[str] = []
            with self.attempt(argument):
                inputs = expand_inputs([argument])
            for source in inputs:
                file = source if source.startswith("sample:") else os.path.realpath(source)
                if file not in done:
                    done.add(file)
                    yield source

    @contextmanager
    def attempt(self, source: str = "") -> Iterator[None]:
        """Turn an error into a failure of an input, or of the whole run, unless the traceback was asked for."""
        try:
            yield
        except BrokenPipeError:  # typer ends in silence when a reader like `head` has gone
            raise
        except Exception as error:
            if _signal:  # an interrupt within a compiler's callback comes out as some other error
                raise KeyboardInterrupt from None
            if self.debug:
                raise
            self._ours = self._ours or not isinstance(error, VisionNMFError | OSError | MemoryError)
            self.fail(sentence_of(error, source), source)

    def fail(self, sentence: str, source: str = "") -> None:
        """Say what could not be used, and why."""
        self._failed += 1
        self._entries.append({"input": source, "error": sentence})
        say(sentence)

    def end(self, interrupted: bool) -> None:
        """Print what is known at the end alone."""
        if interrupted and self._current:
            say(f"interrupted during {self._current}; nothing was written for it")
        if self._batch and self.as_json:
            document = {"visionnmf": __version__, self._batch: self._entries, "failed": self._failed}
            typer.echo(json.dumps(document, indent=2))
        elif self._batch and self._failed and len(self._entries) > 1:
            say(f"{self._failed} of {len(self._entries)} {self._batch} failed")

    @property
    def interactive(self) -> bool:
        """Whether somebody looks on."""
        return not self.as_json and sys.stderr.isatty()

    @contextmanager
    def status(self, text: str) -> Iterator[None]:
        """Show on a terminal that work goes on."""
        if not self.interactive:
            yield
            return
        from rich.console import Console

        with Console(stderr=True).status(text):
            yield

    @contextmanager
    def progress(self, source: str, rate_of: str = "frames") -> Iterator[Callable[[str, int, int | None], None] | None]:
        """Draw a bar with a rate and the time left; yields what the work calls with (stage, done, total)."""
        if not self.interactive:
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


@contextmanager
def running(as_json: bool, debug: bool) -> Iterator[Run]:
    """Run a command: all that it does stands inside, and ends here with its exit code."""
    run = Run(as_json, debug)
    interrupted = False
    try:
        with run.attempt():
            yield run
    except KeyboardInterrupt:
        interrupted = True
    with run.attempt():
        run.end(interrupted)
    raise typer.Exit(run.exit_code(interrupted))


def sentence_of(error: Exception, source: str = "") -> str:
    """Return an error as one line in the words of the command line, with its cure there."""
    message = " ".join(str(error).splitlines()) or type(error).__name__
    where = f"{source}: " if source else ""
    if isinstance(error, MemoryError):
        return f"{where}not enough memory; try a smaller input"
    if not isinstance(error, VisionNMFError | OSError):
        return f"{where}a fault of visionnmf's ({type(error).__name__}: {message}); --debug shows where"
    return _ARGUMENT.sub(lambda found: OPTIONS[found[0]], message) if isinstance(error, VisionNMFError) else message


def expanded(arguments: list[str]) -> list[str]:
    """Return the files that arguments mean: files, patterns, samples."""
    from visionnmf.io import expand_inputs

    return expand_inputs(arguments)


def make_folder(out: Path, option: str = "--out") -> None:
    """Make the folder for the results, or say before the work why there can be none."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(out, os.W_OK | os.X_OK) else "cannot be written to"
    except FileExistsError:
        reason = "is a file, not a folder"
    except OSError as error:
        reason = f"cannot be made ({error.strerror})"
    if reason:
        raise MediaError(f"{option} {out}: {reason}; give another folder")


def _prepared(sources: Iterator[str], prepare: Callable[[list[str]], None]) -> Iterator[str]:
    while group := list(islice(sources, TOGETHER)):
        prepare(group)
        yield from group


def _free_stem(source: str, stems: dict[str, str]) -> str:
    """Return the name of an input's results; refuse it when they are those of another input."""
    stem = source.removeprefix("sample:") if source.startswith("sample:") else Path(source).stem
    if stem in stems:
        raise MediaError(
            f"{source}: its results would have the names of those of {stems[stem]}; run it apart, into another folder"
        )
    return stem


def printable(text: str) -> str:
    """Take out what could steer a terminal: names of files come from strangers."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


def say(message: str) -> None:
    """Print one line on standard error."""
    typer.echo(f"visionnmf: {printable(message).replace(chr(10), ' ')}", err=True)


_signal = 0  # that has come: within a compiler's callback it comes out as some other error, or not at all


class Terminated(KeyboardInterrupt):
    """Another signal than Ctrl-C's wants an end."""


def on_signal(number: int, _frame: object) -> None:
    """End at a signal by an exception, so that half-written files are removed."""
    global _signal
    _signal = number
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated
