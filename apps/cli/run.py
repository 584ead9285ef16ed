"""One run of a command: it prints reports as they come, and decides the exit code.

Exit codes: 0, all went well; 1, some inputs failed, or visionnmf itself is at fault; 2, bad usage, or no input could be
used, or the cluster was lost; 3, there are alarms and the command was asked to report them so; 128 and the number of
the signal, interrupted (Ctrl-C: 130). ``visionnmf --help`` imports this module, so it imports nothing heavy at its top.
"""

from __future__ import annotations

import json
import signal
import time
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import typer

from visionnmf._progress import Progress, Steps
from visionnmf._text import one_line, printable, without_password
from visionnmf.apps import ClusterError, is_shared
from visionnmf.apps.report import Report
from visionnmf.exceptions import PASS_FORCE, OutdatedError, OutputExistsError, ParameterError, VisionNMFError

from .console import echo, is_quiet, is_verbose, progress_bar, say, spinner, verbosity
from .input_paths import Input, find_inputs
from .records import GIVE_FORCE, flag_of, in_flags, in_options
from .signals import number_come
from .work import Process, attempt, attempt_in_processes

if TYPE_CHECKING:
    from visionnmf.apps.pages import Page


class Run:
    """One run of a command: it prints reports, as text or as lines of JSON, and counts what became of the inputs.

    `kind` says what the inputs are, such as "images", and `total` is their number, where there can be several.
    """

    def __init__(self, as_json: bool, debug: bool) -> None:
        self.as_json, self.debug = as_json, debug  # `debug` lets exceptions through
        self.kind, self.total = "", 0
        self.skip_existing = False  # the user wants this, so no hint says how existing results are replaced
        self.done = self.failed = self.existing = 0  # inputs
        self.left_out = 0  # parts of inputs
        self._warned: dict[str, None] = {}  # outside of the work on an input, as an ordered set
        self.alarmed = False  # there is an alarm, and the exit code should say so
        self._our_fault = self._cluster_lost = False  # the reason of a failure
        self._current = ""  # the input that is being worked on, which an interrupt would name
        self._began = time.perf_counter()
        self.page: Page | None = None  # about this run, where one is wanted

    # --- printing -----------------------------------------------------------------------------------------------------

    def show(self, report: Report, *, on_page: bool = True) -> None:
        """Print a report, and count what became of its input, and the parts that it skipped."""
        report, self._warned = replace(report, warnings=[*self._warned, *report.warnings]), {}
        # lines may quote the user's data
        named = (*report.inputs, *report.outputs)
        sentences: dict[str, Any] = {
            name: [in_options(sentence, *named) for sentence in getattr(report, name)]
            for name in ("skipped", "notes", "warnings")
        }
        report = replace(report, **sentences)
        self.done += report.state == "done"
        self.existing += report.state == "exists"
        self.failed += report.state == "failed"
        self.left_out += len(report.skipped)
        for sentence in filter(None, (*report.warnings, report.error)):
            say(sentence)
        if self.as_json:
            echo(json.dumps(report.as_dict()))
        several = self.total > 1 and not is_verbose()
        if report.state == "done":
            for line in report.as_lines(files=not several):
                self.remark(line)
        elif report.state == "exists" and not several and not (self.skip_existing and is_quiet()):
            hint = "" if self.skip_existing or self.total > 1 else f"; {GIVE_FORCE}"  # `end` gives it for several
            say(f"{report.inputs[0]}: skipped; {report.notes[0]}{hint}")
        if on_page:
            self.add_to_page(report)

    def add_to_page(self, report: Report) -> None:
        """Add a report to the page, if there is one; a page that cannot show it, by our fault, does not end the run."""
        if self.page is None:
            return
        try:
            self.page.add(report)
        except Exception as error:
            if self.debug:
                raise
            self._our_fault = True
            self.left_out += 1
            sentence = f"{', '.join(report.inputs) or report.error}: not on the page: {error_line(error)}"
            self.page.attention.setdefault("Left out", []).append((sentence, 0))
            say(sentence)

    def warn(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        """Keep a warning for the next report; takes the place of :func:`warnings.showwarning`."""
        if issubclass(category, UserWarning):
            self._warned[" ".join(str(message).split())] = None

    def show_all(self, reports: Generator[Report]) -> list[Report]:
        """Print reports as they come, and return them; the work on them ends if that fails."""
        shown = []
        with closing(reports):
            for report in reports:
                self.show(report)
                shown.append(replace(report, shown={}))  # what only the page shows may be large
        return shown

    def remark(self, text: str) -> None:
        """Print a line for a person."""
        if not self.as_json and not is_quiet():
            echo(printable(text))

    def detail(self, text: str) -> None:
        """Print a line on standard error that only matters to somebody who asked for more."""
        if is_verbose():
            say(text)

    def progress(self, source: str, rate_of: str = "frames") -> AbstractContextManager[Progress | None]:
        """Show a progress bar with the name and number of an input; see :func:`~.console.progress_bar`."""
        return progress_bar(f"{Path(without_password(source)).name}{self._position()}", rate_of)

    @contextmanager
    def steps(self, source: str, stage: str) -> Iterator[Steps | None]:
        """Show progress of the work on `source`, of one named stage; yields a function of done and total, or None."""
        with self.progress(source, rate_of="") as progress:
            yield None if progress is None else partial(progress, stage)

    def _position(self) -> str:
        """Return which of several inputs comes next, as " (3/10)"."""
        return f" ({self.done + self.failed + self.existing + 1}/{self.total})" if self.total > 1 else ""

    # --- inputs -------------------------------------------------------------------------------------------------------

    def inputs(
        self, kind: str, arguments: Sequence[str], suffixes: Sequence[str], *, recursive: bool, out: Path | None = None
    ) -> list[Input]:
        """Find the files that arguments mean, each once, folders with files of `suffixes` included, before any work.

        What is not a file, and a pattern or folder without one, is reported as a failure. `out` is refused if it lies
        among the inputs.
        """
        from visionnmf.io import regular_file

        self.kind = kind
        failed, found = self.failed, dict[str, Input | None]()  # by file; None of one that cannot be read
        for argument in arguments:
            with self.attempt(argument):
                for given in find_inputs(argument, suffixes, recursive, out):
                    if given.file in found:
                        continue
                    found[given.file] = None
                    with self.attempt(given.source):
                        if not given.source.startswith("sample:"):
                            regular_file(given.source, kind.removesuffix("s"))
                        found[given.file] = given
        usable = [given for given in found.values() if given is not None]
        self.total += len(usable) + self.failed - failed
        return usable

    def each(
        self,
        inputs: Iterable[Input],
        process: Process,
        *,
        jobs: int | None = None,
        progress: Literal["inputs", "process"] | None = "inputs",
    ) -> Generator[Report]:
        """Yield the report of each input, in their order; inputs that fail, or have results, do not stop the others.

        `process` is called with an input and, where it has a place among the results, ``out=``. Several `jobs`, or a
        cluster, call it in other processes; None never does. A bar counts the "inputs", or `process` itself is called
        with ``progress=``.
        """
        if jobs is not None and isinstance(inputs, list) and is_shared(jobs, len(inputs)):
            outcomes, progress = attempt_in_processes(process, inputs, jobs), "inputs"
        else:
            outcomes = ((given, self._attempt_here(process, given, progress)) for given in inputs)
        several = self.total > 1 and progress == "inputs"
        with progress_bar(self.kind, self.kind) if several else nullcontext() as bar:
            for number, (given, outcome) in enumerate(outcomes, 1):
                if isinstance(outcome, Report):
                    report = outcome
                elif _has_results(outcome):
                    reason = one_line(outcome).removesuffix(f"; {PASS_FORCE}")
                    report = Report(state="exists", notes=[reason], inputs=[without_password(given.source)])
                else:
                    report = self._failure(outcome, given.source)
                self._current = ""
                yield report
                if bar is not None:
                    bar("done", number, self.total)

    def _attempt_here(self, process: Process, given: Input, progress: str | None) -> Report | Exception:
        """Return what became of an input, while a bar or a spinner shows that the command is working."""
        self._current = given.source
        self.detail(f"{given.source}{self._position()}")
        if progress == "process":
            with self.progress(given.source) as update:
                return attempt(partial(process, progress=update), given)
        with spinner(given.source) if progress == "inputs" and self.total <= 1 else nullcontext():
            return attempt(process, given)

    # --- failures and the end -----------------------------------------------------------------------------------------

    @contextmanager
    def attempt(self, source: str = "") -> Iterator[None]:
        """Report an exception as the failure of an input, or of the run, except with --debug."""
        try:
            yield
        except BrokenPipeError:  # typer ends silently when a reader such as `head` has gone
            raise
        except Exception as error:
            self.show(self._failure(error, source))

    def fail(self, sentence: str, source: str = "") -> None:
        """Report what could not be used, and why, in a sentence."""
        inputs = [without_password(source)] if source else []
        self.show(Report(state="failed", error=without_password(sentence), inputs=inputs))

    def _failure(self, error: Exception, source: str) -> Report:
        """Return the report of an input that failed, if one is named; --debug lets the exception through."""
        if number_come():  # a signal was received: inside a compiler's callback it comes out as another exception
            raise KeyboardInterrupt from None
        if self.debug:
            from .versions import versions

            if versions() not in getattr(error, "__notes__", ()):  # an input's attempt lies within the run's
                error.add_note(versions())
            raise error
        self._cluster_lost |= isinstance(error, ClusterError)
        self._our_fault |= not (isinstance(error, VisionNMFError | OSError) or _is_out_of_memory(error))
        inputs = [without_password(source)] if source else []
        return Report(state="failed", error=without_password(error_line(error, source)), inputs=inputs)

    def end(self, interrupted: bool) -> None:
        """Print what is known only at the end: how many inputs failed or were skipped."""
        for sentence in self._warned:
            say(sentence)
        if interrupted and self._current:
            say(f"interrupted during {self._current}; nothing was written for it")
        if self.failed and self.total > 1 and not self._cluster_lost:
            say(f"{self.failed} of {self.total} {self.kind} failed")
        if self.existing and self.total > 1 and not (self.skip_existing and is_quiet()):
            hint = "" if self.skip_existing else "; --force replaces these, --skip-existing leaves out this hint"
            say(f"{self.existing} of {self.total} {self.kind} skipped, because their results exist{hint}")
        seconds = time.perf_counter() - self._began
        if self.page is not None:
            if interrupted:
                say(f"{self.page.file} was not written")
            elif self.done or self.failed or not self.page.file.exists():  # nothing new leaves an earlier run's page
                self.page.write(seconds)
                self.remark(f"wrote {self.page.file}")
        self.detail(f"{seconds:.1f} s")

    def exit_code(self) -> int:
        """Return the exit code of a run that was not interrupted; the docstring of this module lists the codes."""
        if self.alarmed:
            return 3
        if not (self.failed or self.left_out):
            return 0
        return 1 if (self.done or self.existing or self._our_fault) and not self._cluster_lost else 2


@contextmanager
def running(as_json: bool | None = None, debug: bool | None = None) -> Iterator[Run]:
    """Run a command inside this block, which reports failures and interrupts, and ends with the exit code.

    Whether it prints JSON and tracebacks is said by its options --json and --debug, if not here.
    """
    wanted = verbosity()
    run = Run(wanted.json_ if as_json is None else as_json, wanted.debug if debug is None else debug)
    interrupted = False
    if wanted.page is not None:
        with run.attempt():
            run.page = wanted.page()
        if run.failed:
            _end(run, interrupted)
    try:
        with run.attempt(), warnings.catch_warnings():
            warnings.showwarning = run.warn
            yield run
    except KeyboardInterrupt:
        interrupted = True
    _end(run, interrupted)


def _end(run: Run, interrupted: bool) -> NoReturn:
    """End the command with the exit code of its run."""
    with run.attempt():
        run.end(interrupted)
    # the number of the signal that was received, 0 if our handler has seen none
    code = 128 + (number_come() or signal.SIGINT) if interrupted else run.exit_code()
    raise typer.Exit(code)


def _has_results(error: Exception) -> bool:
    """Return whether an input failed because its results are there, and up to date."""
    exists = isinstance(error, OutputExistsError) and str(error).endswith(PASS_FORCE)
    return exists and not isinstance(error, OutdatedError)


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
    if isinstance(error, OutdatedError) and flag_of("out").startswith("--"):
        return f"{in_options(message, source)}, or another {flag_of('out')}"
    if isinstance(error, ParameterError):  # begins with the name of the argument, which becomes the option
        return in_flags(message, source)
    if isinstance(error, VisionNMFError | OSError):
        return in_options(message, source)
    from .versions import untried

    cause = f"; {found}, which may be the cause" if (found := untried()) else ""
    return f"{where}a fault of visionnmf ({type(error).__name__}: {message}){cause}; --debug shows where"
