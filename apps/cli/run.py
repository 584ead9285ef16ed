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


class Run:
    """One run of a command, which prints JSON (`as_json`) or text and lets exceptions through if asked to (`debug`)."""

    def __init__(self, as_json: bool, debug: bool) -> None:
        self.as_json, self.debug = as_json, debug  # print JSON instead of text; let exceptions through
        self.done = 0  # inputs or rows that were worked on, printed or not
        self.alarmed = False  # there is an alarm, and the exit code should say so
        self._failed = 0  # inputs that could not be used, or only in part
        self._existing = 0  # inputs that were skipped because their results exist
        self._skip_existing = False  # the user asked for that, so no hint says how to replace them
        self._ours = False  # one of the failures is a fault of visionnmf
        self._cut_short = False  # the cluster was lost, whatever it has done before
        self._kind = ""  # what the inputs of the batch are, such as "images"
        self._entries: list[dict[str, Any]] = []  # of the JSON document, in the order of the inputs
        self._entry_of: dict[str, dict[str, Any]] = {}  # by input; each is empty until the work on its input has ended
        self._current = ""  # the input that is being worked on
        self._number = self._total = 0  # which input of the batch that is, from 1, and how many there are
        self._began = time.perf_counter()

    # --- printing -----------------------------------------------------------------------------------------------------

    def report(self, report: Any) -> None:
        """Print the one report of a command, as text or as JSON. Inputs that it skipped count as failed."""
        # `done` and `_failed` count inputs, for the exit code.
        self.done += 1
        self._failed += len(report.skipped)
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
        self.done += 1
        echo(printable(line) if isinstance(line, str) else json.dumps(line))

    def row(self, row: Result) -> None:
        """Print one of many rows as soon as it is there: a line of JSON, or text."""
        self.done += 1
        if self.as_json:
            echo(json.dumps(row.as_dict()))
        else:
            self.remark(row.summary())

    def status(self, text: str) -> AbstractContextManager[None]:
        """Show on a terminal that the command is working."""
        return spinner(f"{text}{self._position()}")

    def progress(self, source: str, rate_of: str = "frames") -> AbstractContextManager[Progress | None]:
        """Show progress; see :func:`~.console.progress_bar`."""
        return progress_bar(f"{Path(without_password(source)).name}{self._position()}", rate_of)

    @contextmanager
    def steps(self, source: str, stage: str) -> Iterator[Steps | None]:
        """Show progress of work of a single stage; yields a function to call with done and total, or None."""
        with self.progress(source, rate_of="") as progress:
            yield None if progress is None else partial(progress, stage)

    def _print_summary(self, report: Any) -> None:
        """Print a report for a person, with options for the library's hints; names cannot steer the terminal."""
        # PASS_FORCE is the library's hint, and GIVE_FORCE the same in words of the command line.
        names = [str(name) for attribute in ("inputs", "outputs") for name in getattr(report, attribute, ())]
        self.remark(with_safe_names(_with_flags(report.summary().replace(PASS_FORCE, GIVE_FORCE)), names))

    def _position(self) -> str:
        """Return which input of a batch is being worked on, as " (3/10)"; empty for a single input."""
        # `_number` counts inputs from 1, and `_total` is how many there are.
        return f" ({self._number}/{self._total})" if self._total > 1 else ""

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
        arguments: Sequence[str] | Sequence[Input],
        process: Callable[..., Any],
        *,
        writes: bool = True,
        out: Path | None = None,
        jobs: int = 1,
        skip_existing: bool = False,
        prepare: Callable[[list[str], list[Path | None]], None] | None = None,
    ) -> list[Any]:
        """Process every input, go on after a failure, and return the reports in the order of the inputs.

        `kind` says what the inputs are ("images"), and `arguments` are files, patterns and samples, or what
        :meth:`inputs` has found. `process` is called with an input and returns a report; a :class:`~.work.Work`, which
        `jobs` of more than 1 and a cluster need, is imported after the paths were checked. `writes` says whether
        results are named after the inputs. With a folder `out`, `process` is called with ``out=``, this folder or one
        beneath it: results of a folder's files mirror the folder, and inputs of the same name get folders of their own.
        Inputs whose results exist are reported as skipped, not as failures; with `skip_existing` no hint says what
        replaces them. `prepare` is called beforehand with the next hundred inputs and the folders for their results
        (None for the default), if they are better looked at together.
        """
        self._kind, self._skip_existing = kind, skip_existing
        inputs = [found for found in arguments if isinstance(found, Input)]
        inputs += self._find([name for name in arguments if isinstance(name, str)])
        sources = [found.source for found in inputs]
        options: list[dict[str, Any]] = [{}] * len(inputs)
        if out is not None:
            from visionnmf.io import place_results

            options = [{"out": out / place} for place in place_results(inputs)]
        self._total = len(inputs)
        if isinstance(process, Work) and is_shared(jobs, len(inputs)):
            return self._process_in_parallel(process, sources, options, jobs)
        reports: list[Any] = []
        used: dict[str, str] = {}  # the input by the common beginning of its results' names
        # If an input fails, `_working_on` reports it, and the loop goes on with the next one.
        for index, source in enumerate(sources):
            if prepare is not None and index % PREPARED_TOGETHER == 0:
                together = slice(index, index + PREPARED_TOGETHER)
                prepare(sources[together], [each.get("out") for each in options[together]])
                if number_come():  # `prepare` may have put a failure aside that was an interrupt
                    raise KeyboardInterrupt
            with self._working_on(source, index + 1) as entry:
                stem = result_name(source, options[index].get("out"), used) if writes else source
                with self._shown(process, source) as more:
                    outcome = call(process, source, options[index] | more)
                used[stem] = source
                reports.append(self._finish(outcome, entry))
        self._current = ""
        return reports

    def _process_in_parallel(
        self, process: Work, sources: list[str], options: list[dict[str, Any]], jobs: int
    ) -> list[Any]:
        """Process inputs in several processes or on a cluster; print their reports in the order of the inputs."""
        # `options` has the keyword arguments for each input. `_number` is how many were printed, because `_working_on`
        # sets it to the number, from 1, of the input that it prints.
        for source in sources:  # the JSON document keeps this order
            self._entry(source)
        waiting: dict[int, Outcome] = {}  # outcomes of inputs that have ended, while an earlier input has not
        reports: list[Any] = []

        def report(index: int) -> None:
            """Print the outcome of input `index`, or its failure, and add its report.

            The work has ended, so `_current` is empty: an interrupt now must not say that nothing was written.
            """
            outcome = waiting.pop(index)
            with self._working_on(sources[index], index + 1) as entry:
                self._current = ""
                if outcome.error is not None:
                    raise outcome.error
                reports.append(self._finish(outcome, entry))

        with self.steps(self._kind, "done") as steps:
            ended = 0

            def keep(key: str, outcome: Outcome) -> None:
                """Take the outcome of one input, by its index, and print all those that no earlier input holds back."""
                nonlocal ended
                ended += 1
                waiting[int(key)] = outcome
                if steps is not None:
                    steps(ended, self._total)
                while self._number in waiting:  # the first input that has not been printed
                    report(self._number)

            try:
                work = {str(i): (source, options[i]) for i, source in enumerate(sources)}
                call_in_processes(process, work, jobs, keep)
            finally:  # an interrupt may come while the results of later inputs wait for an earlier one
                for index in sorted(waiting):
                    if waiting[index].error is None:
                        report(index)
        return reports

    @contextmanager
    def _working_on(self, source: str, number: int) -> Iterator[dict[str, Any]]:
        """Work on input `number`; yield its JSON entry; errors become its failure, and existing results skip it."""
        # `attempt` reports a failure, and `_skip` existing results. `_current` is the input that an interrupt would
        # name.
        self._current, self._number = source, number
        self.detail(f"{source}{self._position()}")
        entry = self._entry(source)
        with self.attempt(source, entry):
            try:
                yield entry
            except OutputExistsError as error:
                if not str(error).endswith(PASS_FORCE):  # such as an input that would be overwritten
                    raise
                self._skip(source, one_line(error), entry)

    def _skip(self, source: str, reason: str, entry: dict[str, Any]) -> None:
        """Report that an input is left out because its results exist; for a single input hint at ``--force``."""
        # `_existing` counts such inputs, `entry` is the input's part of the JSON document, and `_skip_existing` says
        # that the user asked for it. :meth:`end` gives the hint for a batch.
        self._existing += 1
        sentence = f"{source}: skipped; {reason.removesuffix(f'; {PASS_FORCE}')}"
        entry |= {"input": without_password(source), "skipped": [without_password(sentence)]}
        if self._total == 1 and not self._skip_existing:
            sentence += f"; {GIVE_FORCE}"
        if not (self._skip_existing and is_quiet()):
            say(sentence)

    @contextmanager
    def _shown(self, process: Callable[..., Any], source: str) -> Iterator[dict[str, Any]]:
        """Show progress or a status of `Work`, nothing of a plain function; yield keyword arguments for the call."""
        if isinstance(process, Work) and process.takes_progress:
            with self.progress(source) as progress:
                yield {"progress": progress}
        elif isinstance(process, Work):
            with self.status(source):
                yield {}
        else:
            yield {}

    def _finish(self, outcome: Outcome, entry: dict[str, Any]) -> Any:
        """Print the report of an input, put it into `entry`, its entry of the JSON document, and return it."""
        # `done` and `_failed` count inputs, for the exit code.
        for sentence in outcome.warnings:
            say(sentence)
        self.done += 1
        self._failed += len(outcome.report.skipped)
        self._print_summary(outcome.report)
        entry |= outcome.report.as_dict() | {"warnings": outcome.warnings}
        return outcome.report

    def _find(
        self, arguments: Sequence[str], suffixes: Sequence[str] = (), recursive: bool = False, out: Path | None = None
    ) -> Iterator[Input]:
        """Yield each input that arguments mean once; an argument that means none counts as a failure."""
        # `suffixes`, `recursive` and `out` say which files of folders are inputs; see :meth:`inputs`.

        def found() -> Iterator[Input]:
            """Yield the inputs of all arguments, perhaps repeatedly; a failing argument does not stop the others."""
            for argument in arguments:
                inputs: list[Input] = []
                with self.attempt(argument):
                    inputs = find_inputs(argument, suffixes, recursive, out)
                yield from inputs

        return distinct(found())

    def _is_file(self, source: str, kind: str) -> bool:
        """Return whether an input is a sample or a readable file; if not, report the failure. `kind` names it."""
        from visionnmf.io import regular_file

        if source.startswith("sample:"):
            self._entry(source)
            return True
        with self.attempt(source, self._entry(source)):
            regular_file(source, kind)
            return True
        return False  # `attempt` has reported the error

    def _entry(self, source: str) -> dict[str, Any]:
        """Return the entry of an input in the JSON document; the first call makes it, so calls set the order."""
        # `_entries` are those of the document, and `_entry_of` finds them by input.
        if source not in self._entry_of:
            self._entry_of[source] = {}
            self._entries.append(self._entry_of[source])
        return self._entry_of[source]

    # --- failures and the end -----------------------------------------------------------------------------------------

    @contextmanager
    def attempt(self, source: str = "", entry: dict[str, Any] | None = None) -> Iterator[None]:
        """Turn an exception into the failure of an input (in its JSON `entry`), or of the run, except with --debug."""
        # `_cut_short` says that the cluster was lost, and `_ours` that a failure is a fault of visionnmf, for the exit
        # code.
        try:
            yield
        except BrokenPipeError:  # typer ends silently when a reader such as `head` has gone
            raise
        except Exception as error:
            if number_come():  # an interrupt inside a compiler's callback comes out as another exception
                raise KeyboardInterrupt from None
            if self.debug:
                raise
            self._cut_short = self._cut_short or isinstance(error, ClusterError)
            self._ours = self._ours or not isinstance(error, VisionNMFError | OSError | MemoryError)
            self.fail(error_line(error, source), source, entry)

    def fail(self, sentence: str, source: str = "", entry: dict[str, Any] | None = None) -> None:
        """Report what could not be used, and why, in a `sentence`, also in the JSON `entry`, by default a new one."""
        # `_entries` are those of the JSON document.
        self._failed += 1
        if entry is None:
            self._entries.append(entry := {})
        entry |= {"input": without_password(source), "error": without_password(sentence)}
        say(sentence)

    def end(self, interrupted: bool) -> None:
        """Print what is known only at the end: the JSON document of a batch, and how many inputs failed.

        `interrupted` says that a signal has ended the work on the `_current` input. A command without a batch has no
        `_kind` of inputs. `_failed` and `_existing` count inputs that failed, and those that were skipped because their
        results exist.
        """
        if interrupted and self._current:
            say(f"interrupted during {self._current}; nothing was written for it")
        entries = [entry for entry in self._entries if entry]  # without inputs that were never begun
        if self._kind and self.as_json:
            document = {"visionnmf": __version__, self._kind: entries, "failed": self._failed}
            echo(json.dumps(document, indent=2))
        elif self._kind and self._failed and len(entries) > 1 and not self._cut_short:
            say(f"{self._failed} of {len(entries)} {self._kind} failed")
        if self._existing and self._total > 1 and not self._skip_existing:
            say(
                f"{self._existing} of {len(entries)} {self._kind} skipped, because their results exist; "
                "--force replaces these, --skip-existing says that they are wanted and leaves out this hint"
            )
        self.detail(f"{time.perf_counter() - self._began:.1f} s")

    def exit_code(self, interrupted: bool) -> int:
        """Return the exit code: 0 to 3, or 128 plus the number of the signal that has `interrupted` the run."""
        # `done`, `_failed` and `_existing` count inputs that were used, that failed, and that had results already.
        # `_cut_short` says that the cluster was lost, `_ours` that a failure is a fault of visionnmf.
        if interrupted:
            return 128 + (number_come() or signal.SIGINT)
        if self.alarmed:  # there was an alarm, and the command was asked to report that by its exit code
            return 3
        if not self._failed:
            return 0
        if self._cut_short:
            return 2
        # 1: some inputs were used, or a failure is a fault of visionnmf; 2: nothing could be used
        return 1 if self.done or self._existing or self._ours else 2


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
    raise typer.Exit(run.exit_code(interrupted))


def _with_flags(text: str) -> str:
    """Return a text with command-line options for ``name=True``; it may be an option of another command."""
    # An argument that the running command lacks belongs to another one, as in "train with detect=True".
    return re.sub(r"(?<!\()\b([a-z_]+)=True\b", lambda said: flag_of(said[1], f"--{said[1].replace('_', '-')}"), text)


def error_line(error: Exception, source: str = "") -> str:
    """Return an exception as one line that names the cure in options; one that is not ours is our fault."""
    # Messages of the library name arguments of Python, which become options here. `source` is the input, if known.
    where = f"{source}: " if source else ""
    message = one_line(error)
    if isinstance(error, MemoryError):
        return f"{where}not enough memory; try a smaller input"
    if isinstance(error, OutputExistsError):
        return message.replace(PASS_FORCE, GIVE_FORCE)
    if isinstance(error, ParameterError):
        return in_flags(message)
    if isinstance(error, VisionNMFError | OSError):
        return _with_flags(message)
    return f"{where}a fault of visionnmf ({type(error).__name__}: {message}); --debug shows where"
