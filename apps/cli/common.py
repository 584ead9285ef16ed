"""What all commands share: a run, which prints reports and failures, and decides the exit code.

Exit codes: 0 all is well; 1 some inputs failed, or the fault is ours; 2 bad usage, or no input could be used; 3 there
are alarms, where that was asked for; 130 interrupted (128 and the number of the signal). Whatever is imported at the
top of this file is paid for by ``visionnmf --help``.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import typer

from visionnmf import __version__
from visionnmf._text import without_password
from visionnmf.exceptions import MediaError, VisionNMFError

from .paths import check_beside, free_stem
from .signals import number_come
from .work import Outcome, Work, call, call_in_processes

# What arguments of Python are called on the command line, where that is not the same name.
OPTIONS = {
    "n_components": "--rank",
    "random_state": "--seed",
    "n_segments": "--segments",
    "n_clusters": "--clusters",
    "unknown_rate": "--strangers",
    "all_faces": "--all-faces",
    "detect=True": "--detect",
    "per_person": "--train",
    "batch_size": "--batch",
    "n_jobs": "--jobs",
    "frame_rate": "--fps",
    "forgetting": "--forget",
    "background_every": "--background-every",
    "end or max_frames": "--end or --max-frames",
    "max_frames": "--max-frames",
    "pixel_format": "--pixel-format",
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


class Input(NamedTuple):
    """An input of a batch: what it is called, and where its results go beneath the folder of all results."""

    source: str
    place: str = ""


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
        self.done = self._failed = 0  # inputs, or rows, printed or not
        self._ours = False  # a failure was
        self.alarmed = False  # there is an alarm, and the exit code is to say so
        self._batch = ""  # what its inputs are
        self._entries: list[dict[str, Any]] = []  # of the batch's document, in the order of the inputs
        self._entry_of: dict[str, dict[str, Any]] = {}  # by input; empty until its work has ended
        self._current = ""  # the input that is worked on
        self._number = self._total = 0  # of the batch's inputs
        self._began = time.perf_counter()

    def exit_code(self, interrupted: bool) -> int:
        """Decide."""
        if interrupted:
            return 128 + (number_come() or signal.SIGINT)
        if self.alarmed:
            return 3
        if not self._failed:
            return 0
        return 1 if self.done or self._ours else 2

    def report(self, report: Any) -> None:
        """Print the one report of a command; what it has left out counts as failed."""
        self.done += 1
        self._failed += len(report.skipped)
        document = {"visionnmf": __version__, **report.as_dict()}
        if self.as_json:
            typer.echo(json.dumps(document, indent=2))
        else:
            self.remark(report.summary())

    def remark(self, text: str) -> None:
        """Tell a person something beside the reports."""
        if not self.as_json and not _talk.quiet:
            typer.echo(printable(text))

    def detail(self, text: str) -> None:
        """Tell on standard error what is only of interest to who asked for more."""
        if _talk.verbose:
            say(text)

    def line(self, line: str | dict[str, Any]) -> None:
        """Print one of many rows in a form of its own: a line of text, or of JSON."""
        self.done += 1
        typer.echo(printable(line) if isinstance(line, str) else json.dumps(line))

    def row(self, row: Result) -> None:
        """Print one of many rows as it comes: a line of JSON, or text."""
        self.done += 1
        if self.as_json:
            typer.echo(json.dumps(row.as_dict()))
        else:
            self.remark(row.summary())

    def batch(
        self,
        kind: str,
        arguments: Sequence[str] | Sequence[Input],
        process: Callable[..., Any],
        *,
        writes: bool = True,
        out: Path | None = None,
        jobs: int = 1,
        prepare: Callable[[list[str]], None] | None = None,
    ) -> list[Any]:
        """Process every input, go on after one that fails.

        Parameters
        ----------
        kind : str
            What the inputs are: "images".
        arguments : sequence of str or Input
            Files, patterns, samples; or what :meth:`inputs` has found.
        process : callable
            Of an input; returns a report. A :class:`~.work.Work` loads its numerics after the paths were checked.
        writes : bool, default=True
            Whether results are named after the inputs.
        out : Path, optional
            Folder for the results: then `process` is called with ``out=``, this folder or one beneath it. Results of
            a folder's files mirror it, and inputs of one name get folders of their own.
        jobs : int, default=1
            Inputs at a time, each in a process of its own; `process` must be a :class:`~.work.Work` for more than one.
        prepare : callable, optional
            Called with the next hundred inputs beforehand, where they are better looked at together.

        Returns
        -------
        list
            The reports, in the order of the inputs.
        """
        self._batch = kind
        inputs = [found for found in arguments if isinstance(found, Input)]
        inputs += self._meant([name for name in arguments if isinstance(name, str)])
        options: list[dict[str, Any]] = [{}] * len(inputs)
        if out is not None:
            from visionnmf.io import place_results

            options = [{"out": out / place} for place in place_results(inputs)]
        self._total = len(inputs)
        if jobs > 1 and isinstance(process, Work) and len(inputs) > 1:
            return self._process_together(process, [found.source for found in inputs], options, jobs)
        reports = []
        stems: dict[str, str] = {}
        for number, (source, _) in enumerate(inputs):
            if prepare is not None and number % TOGETHER == 0:
                prepare([found.source for found in inputs[number : number + TOGETHER]])
                if number_come():  # what is left for later may have been an interrupt
                    raise KeyboardInterrupt
            self._current, self._number = source, number + 1
            self.detail(f"{source}{self._position()}")
            entry = self._entry(source)
            with self.attempt(source, entry):
                stem = free_stem(source, options[number].get("out"), stems) if writes else source
                with self._shown(process, source) as more:
                    outcome = call(process, source, options[number] | more)
                stems[stem] = source
                entry |= self._finish(outcome)
                reports.append(outcome.report)
        self._current = ""
        return reports

    def _process_together(
        self, process: Work, sources: list[str], options: list[dict[str, Any]], jobs: int
    ) -> list[Any]:
        """Process inputs in several processes, and tell of them in their order."""
        entries = [self._entry(source) for source in sources]
        ended: dict[int, Outcome] = {}  # and not told yet
        reports = []

        def tell(index: int) -> None:
            outcome = ended.pop(index)
            self._number = index + 1
            self.detail(f"{sources[index]}{self._position()}")
            with self.attempt(sources[index], entries[index]):
                if outcome.error is not None:
                    raise outcome.error
                entries[index] |= self._finish(outcome)
                reports.append(outcome.report)

        with self.progress(self._batch, rate_of="") as bar:
            done = 0

            def keep(key: str, outcome: Outcome) -> None:
                nonlocal done
                done += 1
                ended[int(key)] = outcome
                if bar is not None:
                    bar("done", done, self._total)
                while self._number in ended:
                    tell(self._number)

            try:
                work = {str(i): (source, options[i]) for i, source in enumerate(sources)}
                call_in_processes(process, work, jobs, keep)
            finally:  # an interrupt may come while earlier ones are waited for
                for index in sorted(ended):
                    if ended[index].error is None:
                        tell(index)
        return reports

    @contextmanager
    def _shown(self, process: Callable[..., Any], source: str) -> Iterator[dict[str, Any]]:
        """Show what is worked on; yields what the work is called with for that."""
        if isinstance(process, Work) and process.takes_progress:
            with self.progress(source) as progress:
                yield {"progress": progress}
        elif isinstance(process, Work):
            with self.status(source):
                yield {}
        else:
            yield {}

    def _finish(self, outcome: Outcome) -> dict[str, Any]:
        """Print the report of an input; returns its entry of the document."""
        for sentence in outcome.said:
            say(sentence)
        self.done += 1
        self._failed += len(outcome.report.skipped)
        self.remark(outcome.report.summary())
        return dict(outcome.report.as_dict() | {"warnings": outcome.said})

    def _position(self) -> str:
        return f" ({self._number}/{self._total})" if self._total > 1 else ""

    def inputs(
        self, kind: str, arguments: Sequence[str], suffixes: Sequence[str], *, recursive: bool, out: Path | None = None
    ) -> list[Input]:
        """Find the inputs of a batch, folders among them, and check that they are files, before any work.

        Parameters
        ----------
        kind : str
            What the inputs are: "images".
        arguments : sequence of str
            Files, folders, patterns, samples.
        suffixes : sequence of str
            Which files of a folder are meant.
        recursive : bool
            Whether folders in folders are meant, too.
        out : Path, optional
            Folder for the results, which must not lie among the inputs.

        Returns
        -------
        list of Input
            Each once. What is no file, and a pattern or a folder without one, is a failure.
        """
        meant = self._meant(arguments, suffixes, recursive, out)
        return [found for found in meant if self._is_file(found.source, kind.removesuffix("s"))]

    def _meant(
        self,
        arguments: Sequence[str],
        suffixes: Sequence[str] = (),
        recursive: bool = False,
        out: Path | None = None,
    ) -> Iterator[Input]:
        from visionnmf.io import expand_inputs, find_files

        done: set[str] = set()
        for argument in arguments:
            inputs: list[Input] = []
            with self.attempt(argument):
                if suffixes and os.path.isdir(argument):
                    check_beside(argument, out, recursive)
                    names = find_files(argument, suffixes, recursive=recursive)
                    inputs = [Input(os.path.join(argument, name), os.path.dirname(name)) for name in names]
                else:
                    inputs = [Input(source) for source in expand_inputs([argument])]
            for found in inputs:
                file = found.source if found.source.startswith("sample:") else os.path.realpath(found.source)
                if file not in done:
                    done.add(file)
                    yield found

    def _is_file(self, source: str, kind: str) -> bool:
        from visionnmf.io import regular_file

        if source.startswith("sample:"):
            self._entry(source)
            return True
        with self.attempt(source, self._entry(source)):
            regular_file(source, kind)
            return True
        return False

    def _entry(self, source: str) -> dict[str, Any]:
        """Return the entry of an input in the document, which keeps the order of the inputs."""
        if source not in self._entry_of:
            self._entry_of[source] = {}
            self._entries.append(self._entry_of[source])
        return self._entry_of[source]

    @contextmanager
    def attempt(self, source: str = "", entry: dict[str, Any] | None = None) -> Iterator[None]:
        """Turn an error into a failure of an input, or of the whole run, unless the traceback was asked for.

        The failure stands in `entry`, or in a new one of the document.
        """
        try:
            yield
        except BrokenPipeError:  # typer ends in silence when a reader like `head` has gone
            raise
        except Exception as error:
            if number_come():  # an interrupt within a compiler's callback comes out as some other error
                raise KeyboardInterrupt from None
            if self.debug:
                raise
            self._ours = self._ours or not isinstance(error, VisionNMFError | OSError | MemoryError)
            self.fail(sentence_of(error, source), source, entry)

    def fail(self, sentence: str, source: str = "", entry: dict[str, Any] | None = None) -> None:
        """Say what could not be used, and why."""
        self._failed += 1
        if entry is None:
            self._entries.append(entry := {})
        entry |= {"input": without_password(source), "error": without_password(sentence)}
        say(sentence)

    def end(self, interrupted: bool) -> None:
        """Print what is known at the end alone."""
        if interrupted and self._current:
            say(f"interrupted during {self._current}; nothing was written for it")
        entries = [entry for entry in self._entries if entry]
        if self._batch and self.as_json:
            document = {"visionnmf": __version__, self._batch: entries, "failed": self._failed}
            typer.echo(json.dumps(document, indent=2))
        elif self._batch and self._failed and len(entries) > 1:
            say(f"{self._failed} of {len(entries)} {self._batch} failed")
        self.detail(f"{time.perf_counter() - self._began:.1f} s")

    @property
    def interactive(self) -> bool:
        """Whether somebody looks on."""
        return not self.as_json and not _talk.quiet and sys.stderr.isatty()

    @contextmanager
    def status(self, text: str) -> Iterator[None]:
        """Show on a terminal that work goes on."""
        if not self.interactive:
            yield
            return
        from rich.console import Console

        with Console(stderr=True).status(f"{text}{self._position()}"):
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
            name = f"{Path(without_password(source)).name}{self._position()}"

            def update(stage: str, done: int, total: int | None) -> None:
                if stage not in tasks:
                    tasks[stage] = bars.add_task(f"{name}: {stage}", total=total, rate="")
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


def printable(text: str) -> str:
    """Take out passwords, and what could steer a terminal: names of files come from strangers."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in without_password(text))


def say(message: str) -> None:
    """Print one line on standard error; where it is full, the exit code tells."""
    with suppress(OSError):
        typer.echo(f"visionnmf: {printable(message).replace(chr(10), ' ')}", err=True)


@dataclass
class _Talk:
    """How much is said."""

    quiet: bool = False
    verbose: bool = False


_talk = _Talk()


def talk(quiet: bool, verbose: bool) -> None:
    """Say how much the next run says: `quiet`, what failed alone; `verbose`, on standard error what it does."""
    if quiet and verbose:
        raise typer.BadParameter("--quiet and --verbose exclude each other")
    _talk.quiet, _talk.verbose = quiet, verbose
