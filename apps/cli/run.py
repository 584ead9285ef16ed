"""One run of a command: it prints reports and failures, and decides the exit code.

Exit codes: 0, all went well; 1, some inputs failed, or visionnmf itself is at fault; 2, bad usage, or no input could be
used, or the cluster was lost; 3, there are alarms and the command was asked to report them so; 128 and the number of
the signal, interrupted (Ctrl-C: 130). ``visionnmf --help`` imports this module, so it imports nothing heavy at its top.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import typer

from visionnmf import __version__
from visionnmf._progress import Progress, Steps
from visionnmf._text import one_line, printable, without_password
from visionnmf.apps import ClusterError, is_shared
from visionnmf.exceptions import PASS_FORCE, OutputExistsError, ParameterError, VisionNMFError

from .console import echo, is_quiet, is_verbose, progress_bar, say, spinner, verbosity, with_safe_names
from .input_paths import Input, distinct, find_inputs, result_name
from .records import flag_of, in_flags
from .signals import number_come
from .work import Outcome, Work, call, call_in_processes

GIVE_FORCE = "give --force to replace it"  # what PASS_FORCE is on the command line
PREPARED_TOGETHER = 100  # inputs that `prepare` gets at a time


class Result(Protocol):
    """What a command prints: a :class:`~visionnmf.apps.report.Report`, or one of many rows."""

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""

    def summary(self) -> str:
        """Return the result for a person."""


@dataclass
class Tally:
    """What became of the inputs of a run, or of its rows, from which the exit code follows."""

    done: int = 0  # worked on, printed or not
    failed: int = 0  # could not be used, or only in part
    existing: int = 0  # skipped because their results exist
    alarmed: bool = False  # there is an alarm, and the exit code should say so
    our_fault: bool = False  # one of the failures is a fault of visionnmf
    cluster_lost: bool = False

    def exit_code(self) -> int:
        """Return the exit code of a run that was not interrupted; the docstring of this module lists the codes.

        It is 3 if there are alarms and the user asked for a code that says so, and 0 if nothing failed. Otherwise 1
        says that some inputs were fine (done, or with results that exist already) or that visionnmf itself is at fault,
        and 2 that no input could be used or the cluster was lost.
        """
        if self.alarmed:
            return 3
        if not self.failed:
            return 0
        if self.cluster_lost:
            return 2
        return 1 if self.done or self.existing or self.our_fault else 2


@dataclass
class Batch:
    """The inputs of a run that are worked on one after another, and which one it is."""

    kind: str = ""  # what they are, such as "images"; empty for a command without a batch
    total: int = 0
    skip_existing: bool = False  # the user wants this, so no hint says how existing results are replaced
    number: int = 0  # of the input that is being worked on, from 1
    current: str = ""  # this input, which an interrupt would name

    def position(self) -> str:
        """Return which input is being worked on, as " (3/10)"; empty for a single input."""
        return f" ({self.number}/{self.total})" if self.total > 1 else ""


class Run:
    """One run of a command, which prints JSON (`as_json`) or text and lets exceptions through if asked to (`debug`)."""

    def __init__(self, as_json: bool, debug: bool) -> None:
        """Begin the run of a command that prints JSON (`as_json`) or text, and lets exceptions through if `debug`."""
        self.as_json, self.debug = as_json, debug
        self.tally = Tally()
        self._batch = Batch()
        self._entries: list[dict[str, Any]] = []  # of the JSON document, in the order of the inputs
        self._entry_of: dict[str, dict[str, Any]] = {}  # by input; each is empty until the work on its input has ended
        self._began = time.perf_counter()

    # --- printing -----------------------------------------------------------------------------------------------------

    def report(self, report: Any) -> None:
        """Print the one report of a command, as text or as JSON. Inputs that it skipped count as failed."""
        self.tally.done += 1
        self.tally.failed += len(report.skipped)
        if self.as_json:
            echo(json.dumps({"visionnmf": __version__, **report.as_dict()}, indent=2))
        else:
            self._print_summary(report)

    def remark(self, text: str) -> None:
        """Print a text for a person besides the reports."""
        if not self.as_json and not is_quiet():
            echo(printable(text, lines=True))

    def detail(self, text: str) -> None:
        """Print a line on standard error that only matters to somebody who asked for more."""
        if is_verbose():
            say(text)

    def line(self, line: str | dict[str, Any]) -> None:
        """Print one of many rows in a format of its own: a line of text, or of JSON."""
        self.tally.done += 1
        echo(printable(line) if isinstance(line, str) else json.dumps(line))

    def row(self, row: Result) -> None:
        """Print one of many rows as soon as it is there: a line of JSON, or text."""
        self.tally.done += 1
        if self.as_json:
            echo(json.dumps(row.as_dict()))
        else:
            self.remark(row.summary())

    def status(self, text: str) -> AbstractContextManager[None]:
        """Show on a terminal that the command is working, by a spinner with a text and the number of the input."""
        return spinner(f"{text}{self._batch.position()}")

    def progress(self, source: str, rate_of: str = "frames") -> AbstractContextManager[Progress | None]:
        """Show a progress bar with the name and number of an input; see :func:`~.console.progress_bar`.

        `rate_of` names what is counted in a second; an empty text shows no rate.
        """
        return progress_bar(f"{Path(without_password(source)).name}{self._batch.position()}", rate_of)

    @contextmanager
    def steps(self, source: str, stage: str) -> Iterator[Steps | None]:
        """Show progress of the work on `source`, of one named stage; yields a function of done and total, or None.

        No rate per second is shown (an empty `rate_of`), because steps are no frames.
        """
        with self.progress(source, rate_of="") as progress:
            yield None if progress is None else partial(progress, stage)

    def _print_summary(self, report: Any) -> None:
        """Print a report for a person; control characters in names cannot steer the terminal.

        Hints of the library name arguments of Python, such as ``force=True``, which become options, such as --force.
        """
        names = [str(name) for attribute in ("inputs", "outputs") for name in getattr(report, attribute, ())]
        self.remark(with_safe_names(_with_flags(report.summary().replace(PASS_FORCE, GIVE_FORCE)), names))

    # --- a batch of inputs --------------------------------------------------------------------------------------------

    def inputs(
        self, kind: str, arguments: Sequence[str], suffixes: Sequence[str], *, recursive: bool, out: Path | None = None
    ) -> list[Input]:
        """Find the files that arguments mean, each once, folders with files of `suffixes` included, before any work.

        What is not a file, and a pattern or folder without one, counts as a failure. `out` is refused if it lies among
        the inputs.
        """
        found = self._find(arguments, suffixes, recursive, out)
        return [given for given in found if self._is_file(given.source, kind.removesuffix("s"))]

    def batch(
        self,
        kind: str,
        inputs: Sequence[Input],
        process: Callable[..., Any],
        *,
        writes: bool = True,
        out: Path | None = None,
        jobs: int = 1,
        skip_existing: bool = False,
        prepare: Callable[[list[str], list[Path | None]], None] | None = None,
    ) -> list[Any]:
        """Process every input, go on after a failure, and return the reports in the order of the inputs.

        `kind` says what the inputs are ("images"). `process` is called with an input and returns a report; a
        :class:`~.work.Work`, which `jobs` of more than 1 and a cluster need, is imported after the paths were checked.
        `writes` says whether results are named after the inputs. With a folder `out`, `process` is called with
        ``out=``, this folder or one beneath it: results of a folder's files mirror the folder, and inputs of the same
        name get folders of their own. Inputs whose results exist are reported as skipped, not as failures; with
        `skip_existing` no hint says what replaces them. `prepare` is called beforehand with the next hundred inputs and
        the folders for their results (None for the default), if they are better looked at together.
        """
        self._batch = Batch(kind, len(inputs), skip_existing)
        sources = [found.source for found in inputs]
        folders: list[Path | None] = [None] * len(inputs)
        if out is not None:
            from visionnmf.io import place_results

            folders = [out / place for place in place_results(inputs)]
        if isinstance(process, Work) and is_shared(jobs, len(inputs)):
            return self._process_in_parallel(process, sources, folders, jobs)
        reports: list[Any] = []
        used: dict[str, str] = {}  # the input by the common beginning of its results' names
        # If an input fails, `_working_on` reports it, and the loop goes on with the next one.
        for index, (source, folder) in enumerate(zip(sources, folders, strict=True)):
            if prepare is not None and index % PREPARED_TOGETHER == 0:
                together = slice(index, index + PREPARED_TOGETHER)
                prepare(sources[together], folders[together])
                if number_come():  # a signal was received: a failure that `prepare` has put aside may be its interrupt
                    raise KeyboardInterrupt
            with self._working_on(source, index + 1) as entry:
                stem = result_name(source, folder, used) if writes else source
                with self._showing_progress(process, source) as progress_option:
                    outcome = call(process, source, _out_option(folder) | progress_option)
                used[stem] = source
                reports.append(self._print_report(outcome, entry))
        self._batch.current = ""
        return reports

    def _process_in_parallel(
        self, process: Work, sources: list[str], folders: list[Path | None], jobs: int
    ) -> list[Any]:
        """Process inputs in several processes or on a cluster; print their reports in the order of the inputs."""
        for source in sources:  # makes the input's part of the JSON document, which keeps this order
            self._json_entry(source)
        waiting: dict[int, Outcome] = {}  # outcomes of inputs that have ended, while an earlier input has not
        reports: list[Any] = []

        def report(index: int) -> None:
            """Print the outcome of input `index`, which no longer waits, or its failure, and add its report."""
            outcome = waiting.pop(index)
            with self._working_on(sources[index], index + 1) as entry:  # `entry` is the input's in the JSON document
                self._batch.current = ""  # the work has ended: an interrupt must not say that nothing was written
                if outcome.error is not None:
                    raise outcome.error  # `_working_on` reports it, and does not pass it on
                reports.append(self._print_report(outcome, entry))

        with self.steps(self._batch.kind, "done") as steps:
            ended = printed = 0

            def keep(key: str, outcome: Outcome) -> None:
                """Take the outcome of one input, by its index, and print all those that no earlier input holds back.

                `ended` inputs have ended, of which the first `printed` ones are printed and the others in `waiting`.
                """
                nonlocal ended, printed
                ended += 1
                waiting[int(key)] = outcome
                if steps is not None:
                    steps(ended, self._batch.total)
                while printed in waiting:
                    report(printed)  # also removes it from `waiting`
                    printed += 1

            try:
                calls = {str(i): (source, _out_option(folders[i])) for i, source in enumerate(sources)}
                call_in_processes(process, calls, jobs, keep)
            finally:
                # An interrupt may come while later inputs wait for an earlier one. Their results are written, so they
                # are reported; those that failed may have failed by the interrupt.
                for index in sorted(waiting):
                    if waiting[index].error is None:
                        report(index)
        return reports

    @contextmanager
    def _working_on(self, source: str, number: int) -> Iterator[dict[str, Any]]:
        """Work on input `number`; yield its JSON entry; errors become its failure, and existing results skip it."""
        self._batch.current, self._batch.number = source, number
        self.detail(f"{source}{self._batch.position()}")
        entry = self._json_entry(source)
        with self.attempt(source, entry):
            try:
                yield entry
            except OutputExistsError as error:
                if not str(error).endswith(PASS_FORCE):  # such as an input that would be overwritten
                    raise
                self._skip(source, one_line(error), entry)

    def _skip(self, source: str, reason: str, entry: dict[str, Any]) -> None:
        """Report that an input is left out because its results exist; for a single input hint at ``--force``."""
        self.tally.existing += 1
        # `reason` ends with how a call in Python replaces the results; on the command line it is ``--force``
        sentence = f"{source}: skipped; {reason.removesuffix(f'; {PASS_FORCE}')}"
        entry |= {"input": without_password(source), "skipped": [without_password(sentence)]}
        if self._batch.total == 1 and not self._batch.skip_existing:  # :meth:`end` gives the hint for several
            sentence += f"; {GIVE_FORCE}"
        if not (self._batch.skip_existing and is_quiet()):
            say(sentence)

    @contextmanager
    def _showing_progress(self, process: Callable[..., Any], source: str) -> Iterator[dict[str, Any]]:
        """Show progress or a status of `Work`, nothing of a plain function; yield keyword arguments for the call."""
        if isinstance(process, Work) and process.takes_progress:
            with self.progress(source) as progress:
                yield {"progress": progress}
        elif isinstance(process, Work):
            with self.status(source):
                yield {}
        else:
            yield {}

    def _print_report(self, outcome: Outcome, entry: dict[str, Any]) -> Any:
        """Print the report of an input, put it into `entry`, its entry of the JSON document, and return it."""
        for sentence in outcome.warnings:
            say(sentence)
        self.tally.done += 1
        self.tally.failed += len(outcome.report.skipped)
        self._print_summary(outcome.report)
        entry |= outcome.report.as_dict() | {"warnings": outcome.warnings}
        return outcome.report

    def _find(
        self, arguments: Sequence[str], suffixes: Sequence[str] = (), recursive: bool = False, out: Path | None = None
    ) -> Iterator[Input]:
        """Yield each input that arguments mean once; an argument that means none counts as a failure."""
        # `suffixes`, `recursive` and `out` say which files of folders are inputs; see :meth:`inputs`.

        def found() -> Iterator[Input]:
            """Yield the inputs of all arguments, twice if two name it; a failing argument does not stop the others.

            The folder for results, `out`, must not lie among the inputs, so an argument whose folder holds it fails.
            """
            for argument in arguments:
                inputs: list[Input] = []
                with self.attempt(argument):
                    inputs = find_inputs(argument, suffixes, recursive, out)
                yield from inputs

        return distinct(found())

    def _is_file(self, source: str, kind: str) -> bool:
        """Return whether an input is a sample or a readable file; if not, report the failure. `kind` names it."""
        from visionnmf.io import regular_file

        entry = self._json_entry(source)  # makes it now, so that entries stand in the order of the inputs
        if source.startswith("sample:"):
            return True
        with self.attempt(source, entry):
            regular_file(source, kind)
            return True
        # `attempt` has reported the error
        return False

    def _json_entry(self, source: str) -> dict[str, Any]:
        """Return the entry of an input in the JSON document; the first call makes it, so calls set the order."""
        if source not in self._entry_of:
            self._entry_of[source] = {}
            self._entries.append(self._entry_of[source])
        return self._entry_of[source]

    # --- failures and the end -----------------------------------------------------------------------------------------

    @contextmanager
    def attempt(self, source: str = "", entry: dict[str, Any] | None = None) -> Iterator[None]:
        """Turn an exception into the failure of an input (in its JSON `entry`), or of the run, except with --debug."""
        try:
            yield
        except BrokenPipeError:  # typer ends silently when a reader such as `head` has gone
            raise
        except Exception as error:
            if number_come():  # a signal was received: inside a compiler's callback it comes out as another exception
                raise KeyboardInterrupt from None
            if self.debug:
                from .versions import versions

                if versions() not in getattr(error, "__notes__", ()):  # an input's attempt lies within the run's
                    error.add_note(versions())
                raise
            self.tally.cluster_lost |= isinstance(error, ClusterError)
            self.tally.our_fault |= not (isinstance(error, VisionNMFError | OSError) or _is_out_of_memory(error))
            self.fail(error_line(error, source), source, entry)

    def fail(self, sentence: str, source: str = "", entry: dict[str, Any] | None = None) -> None:
        """Report what could not be used, and why, in a `sentence`, also in the JSON `entry`, by default a new one."""
        self.tally.failed += 1
        if entry is None:
            self._entries.append(entry := {})
        entry |= {"input": without_password(source), "error": without_password(sentence)}
        say(sentence)

    def end(self, interrupted: bool) -> None:
        """Print what is known only at the end: the JSON document of a batch, and how many inputs failed.

        `interrupted` says that a signal has ended the work on the current input.
        """
        batch, tally = self._batch, self.tally
        if interrupted and batch.current:
            say(f"interrupted during {batch.current}; nothing was written for it")
        entries = [entry for entry in self._entries if entry]  # without inputs that were never begun
        if batch.kind and self.as_json:
            document = {"visionnmf": __version__, batch.kind: entries, "failed": tally.failed}
            echo(json.dumps(document, indent=2))
        # a lost cluster also counts as a failure, although no input failed, so this line would be wrong then
        elif batch.kind and tally.failed and len(entries) > 1 and not tally.cluster_lost:
            say(f"{tally.failed} of {len(entries)} {batch.kind} failed")
        if tally.existing and batch.total > 1 and not batch.skip_existing:
            say(
                f"{tally.existing} of {len(entries)} {batch.kind} skipped, because their results exist; "
                "--force replaces these, --skip-existing says that they are wanted and leaves out this hint"
            )
        self.detail(f"{time.perf_counter() - self._began:.1f} s")


@contextmanager
def running(as_json: bool | None = None, debug: bool | None = None) -> Iterator[Run]:
    """Run a command inside this block, which reports failures and interrupts, and ends with the exit code.

    Whether it prints JSON and tracebacks is said by its options --json and --debug, if not here.
    """
    wanted = verbosity()
    run = Run(wanted.json_ if as_json is None else as_json, wanted.debug if debug is None else debug)
    interrupted = False
    try:
        with run.attempt():
            yield run
    except KeyboardInterrupt:
        interrupted = True
    with run.attempt():
        run.end(interrupted)
    # the number of the signal that was received, 0 if our handler has seen none
    code = 128 + (number_come() or signal.SIGINT) if interrupted else run.tally.exit_code()
    raise typer.Exit(code)


def _out_option(folder: Path | None) -> dict[str, Any]:
    """Return the keyword argument for the folder of an input's results; none for the default."""
    return {} if folder is None else {"out": folder}


def _with_flags(text: str) -> str:
    """Return a text with command-line options for ``name=True``; it may be an option of another command."""
    # An argument that the running command lacks belongs to another one, as in "train with detect=True". After a bracket
    # it is code for users of Python, as in "MinMaxScaler(clip=True)", and stays.
    return re.sub(r"(?<!\()\b([a-z_]+)=True\b", lambda said: flag_of(said[1], f"--{said[1].replace('_', '-')}"), text)


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether memory ran out, for which OpenCV raises an error of its own."""
    return isinstance(error, MemoryError) or "(-4:Insufficient memory)" in str(error)


def error_line(error: Exception, source: str = "") -> str:
    """Return an exception as one line that names the cure in options; one that is not ours is our fault."""
    # Messages of the library name arguments of Python, which become options here. `source` is the input, if known.
    where = f"{source}: " if source else ""
    message = one_line(error)
    if _is_out_of_memory(error):
        return f"{where}not enough memory; try a smaller input"
    if isinstance(error, OutputExistsError):
        return message.replace(PASS_FORCE, GIVE_FORCE)
    if isinstance(error, ParameterError):  # begins with the name of the argument, which becomes the option
        return in_flags(message)
    if isinstance(error, VisionNMFError | OSError):
        return _with_flags(message)
    from .versions import fault_of_a_library

    library = fault_of_a_library(error)
    cause = f"; {library}" if library else ""
    return f"{where}a fault of visionnmf ({type(error).__name__}: {message}){cause}; --debug shows where"
