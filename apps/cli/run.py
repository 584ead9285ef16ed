"""One run of a command: it prints reports as they come, and decides the exit code.

Exit codes: 0, all went well; 1, some inputs failed, or visionnmf itself is at fault; 2, bad usage, or no input could be
used, or the cluster was lost; 3, there are alarms and the command was asked to report them so; 128 and the number of
the signal, interrupted (Ctrl-C: 130). ``visionnmf --help`` imports this module, so it imports nothing heavy at its top.
"""

from __future__ import annotations

import glob
import json
import os
import re
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

import typer

from visionnmf._progress import Progress, Steps
from visionnmf._text import counted, one_line, printable, without_password
from visionnmf.apps import ClusterError, is_shared
from visionnmf.apps.report import Report
from visionnmf.exceptions import (
    PASS_FORCE,
    MediaError,
    OutdatedError,
    OutputExistsError,
    ParameterError,
    UnreadableError,
    VisionNMFError,
)
from visionnmf.io.inputs import check_is_path, expand_inputs, find_files, place_results, regular_file, takes_files

from .console import echo, progress_bar, say, spinner, verbosity
from .options import GIVE_FORCE, flag_of, in_flags, in_options
from .signals import number_come

if TYPE_CHECKING:
    from visionnmf.apps.pages import Page


class Input(NamedTuple):
    """An input of a command: its source, and the folder for its results, where it has one."""

    source: str
    place: str = ""
    apart: bool = False  # whether it has this folder because results of others would have the same names

    @property
    def file(self) -> str:
        """What its source is, whatever name it was given by."""
        return self.source if self.source.startswith("sample:") else os.path.realpath(self.source)


Process = Callable[..., Report]


class Run:
    """One run of a command: it prints reports, as text or as lines of JSON, and counts what became of the inputs.

    `kind` says what the inputs are, such as "images", and `total` is their number, where there can be several.
    """

    def __init__(self) -> None:
        self.as_json, self.debug = verbosity().json_, verbosity().debug  # `debug` lets exceptions through
        self.kind, self.total = "", 0
        self.names_files = False  # whether each of several inputs has lines of the files written
        self.skip_existing = False  # the user wants this, so no hint says how existing results are replaced
        self.done = self.failed = self.existing = 0  # inputs
        self.broken = 0  # failures of the run itself, which `failed` counts as well
        self.left_out = 0  # parts of inputs
        self._warned: dict[str, None] = {}  # outside of the work on an input, as an ordered set
        self._noted: Counter[str] = Counter()  # for how many inputs each note holds
        self.alarmed = False  # there is an alarm, and the exit code should say so
        self._our_fault = self._cluster_lost = False  # the reason of a failure
        self._current = ""  # the input that is being worked on, which an interrupt would name
        self._began = time.perf_counter()
        self.page: Page | None = None  # about this run, where one is wanted

    # --- printing -----------------------------------------------------------------------------------------------------

    def show(self, report: Report) -> None:
        """Print a report, and count what became of its input, and the parts that it skipped."""
        said: dict[str, Any] = {
            "skipped": report.skipped,
            "notes": report.notes,
            "warnings": [*self._warned, *report.warnings],
        }
        named = (*report.inputs, *report.outputs)  # which the sentences may quote
        said = {name: [in_options(sentence, *named) for sentence in each] for name, each in said.items()}
        report, self._warned = replace(report, **said), {}
        self.done += report.state == "done"
        self.existing += report.state == "exists"
        self.failed += report.state == "failed"
        self.left_out += len(report.skipped)
        unsaid = report.skipped if verbosity().quiet and not self.as_json else []  # the lines below name them otherwise
        whose = f"{report.inputs[0]}: " if self.total > 1 and report.inputs else ""
        warned = [sentence if sentence.startswith(whose) else whose + sentence for sentence in report.warnings]
        for sentence in filter(None, (*warned, *unsaid, report.error)):
            say(sentence)
        if self.as_json:
            echo(json.dumps(report.as_dict()))
        several = self.total > 1 and not verbosity().verbose
        if report.state == "done":
            notes, lines = report.notes, report.lines
            if self.total > 1:  # the first input shows a note; others refer to it, and `end` counts them
                self._noted.update(dict.fromkeys(notes, 1))
                numbers = {note: f"[note {number}]" for number, note in enumerate(self._noted, 1)}
                marks = "".join(f" {numbers[note]}" for note in notes if self._noted[note] > 1)
                notes = [f"{numbers[note]} {note}" for note in notes if self._noted[note] == 1]
                lines = [line + marks for line in lines[:1]] + lines[1:]
            shown = replace(report, lines=lines, notes=notes, warnings=[])
            for line in shown.as_lines(files=self.names_files or not several):
                self.remark(line)
        elif report.state == "exists" and not several and not (self.skip_existing and verbosity().quiet):
            hint = "" if self.skip_existing or self.total > 1 else f"; {GIVE_FORCE}"  # `end` gives it for several
            say(f"{report.inputs[0]}: skipped; {report.notes[0]}{hint}")
        self.add_to_page(report)

    def add_to_page(self, report: Report) -> None:
        """Add a report to the page, if there is one; a page that cannot show it, by our fault, does not end the run."""
        if self.page is None:
            return
        try:
            with warnings.catch_warnings(action="ignore"):  # the work on the input has had those of its files
                self.page.add(report)
        except Exception as error:
            if self.debug:
                raise
            self._our_fault = True
            self.left_out += 1
            sentence = f"{', '.join(report.inputs) or report.error}: not on the page: {error_line(error)}"
            self.page.tell("Left out", sentence)
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
        if not self.as_json and not verbosity().quiet:
            echo(printable(text))

    def detail(self, text: str) -> None:
        """Print a line on standard error that only matters to somebody who asked for more."""
        if verbosity().verbose:
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
        """Return the files that arguments mean, each once, and report what cannot be read, before any work."""
        self.kind = kind
        failed, found = self.failed, dict[str, Input | None]()  # by file; None of one that cannot be read
        for argument in arguments:
            with self.attempt(argument):
                inputs = find_inputs(argument, suffixes, recursive, out)
                if os.path.isdir(argument):
                    from visionnmf.apps.made import without_results

                    kept = {*without_results([given.source for given in inputs])}
                    if n_results := len(inputs) - len(kept):
                        self.remark(f"{argument}: {counted(n_results, 'result')} beside the inputs left out")
                    inputs = [given for given in inputs if given.source in kept]
                for given in inputs:
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
            self.broken += not source
            self.show(self._failure(error, source))

    def fail(self, sentence: str) -> None:
        """Report what could not be used, and why, in a sentence of the library that begins with its name."""
        self.show(Report(state="failed", error=without_password(in_options(sentence, sentence.partition(": ")[0]))))

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
        for note, count in self._noted.items():
            if count > 1:
                self.remark(f"{count} of {self.done} {self.kind}: {note}")
        if self.failed > self.broken and self.total > 1 and not self._cluster_lost:
            say(f"{self.failed - self.broken} of {self.total} {self.kind} failed")
        if self.existing and self.total > 1 and not (self.skip_existing and verbosity().quiet):
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
def running() -> Iterator[Run]:
    """Run a command inside this block, which reports failures and interrupts, and ends with the exit code."""
    run, open_page = Run(), verbosity().page
    interrupted = False
    if open_page is not None:
        with run.attempt():
            run.page = open_page()
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


@takes_files
def attempt(process: Process, given: Input) -> Report | Exception:
    """Return the report of an input, with the warnings on the way, or the exception that ended the work on it."""
    out = {"out": Path(given.place)} if given.place else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            report = process(given.source, **out)
        except Exception as error:
            return error
    said = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
    # functions of arrays do not know the name, and call what they are given "image", "images" or "X"
    said = [re.sub("^(images?|X): ", "", without_password(sentence)) for sentence in said]
    name = without_password(given.source)
    sentences = dict.fromkeys(each if each.startswith(name) else f"{name}: {each}" for each in said)
    where = [f"{line}, results in {given.place}" for line in report.lines[:1] if given.apart]
    lines = [*where, *report.lines[len(where) :]]
    return replace(report, lines=lines, warnings=[*report.warnings, *sentences])


def attempt_in_processes(
    process: Process, inputs: Sequence[Input], processes: int
) -> Iterator[tuple[Input, Report | Exception]]:
    """Yield what became of each input, in their order, from processes of one thread each or from a cluster."""
    from visionnmf.apps.cluster import LostJobError
    from visionnmf.apps.pool import open_pool

    with open_pool(min(processes, len(inputs))) as pool:
        waiting = {given: pool.submit(attempt, process, given) for given in inputs}
        try:
            for given in inputs:
                try:
                    outcome = waiting[given].result()
                except LostJobError as error:  # it has ended several workers of the cluster, or its file is gone
                    outcome = error
                del waiting[given]
                yield given, outcome
        except KeyboardInterrupt:  # the results of inputs that have ended are written, so they are reported
            for given, future in waiting.items():
                ended = future.done() and not future.cancelled() and future.exception() is None
                if ended and isinstance(report := future.result(), Report):
                    yield given, report
            raise


# --- inputs, and the folder for results -------------------------------------------------------------------------------


def check_exists(*paths: str | Path, known: Sequence[str] = ()) -> None:
    """Raise UnreadableError for the first path, if none leads to a file, before imports; names in `known` exist."""
    # So no seconds are spent on imports. Patterns, samples and ``-`` count as existing too.
    for path in map(str, paths):  # one that exists is enough: a batch reports the others
        if path in known or path == "-" or path.startswith("sample:") or glob.has_magic(path):
            return
        if os.path.lexists(path):
            return
    check_is_path(paths[0], "data")  # a URL gets a message of its own, with the advice to download it
    raise UnreadableError(f"{paths[0]}: no such file or folder")


def find_inputs(argument: str, suffixes: Sequence[str], recursive: bool, out: Path | None) -> list[Input]:
    """Return what one argument means: files, each with its place below a folder, a pattern's matches or a sample."""
    if os.path.isdir(argument):
        _check_outside(argument, out, recursive)
        names = find_files(argument, suffixes, recursive=recursive)
        return [Input(os.path.join(argument, name), os.path.dirname(name)) for name in names]
    return [Input(source) for source in expand_inputs([argument])]


def placed(inputs: list[Input], out: Path | None) -> list[Input]:
    """Return inputs with the folders for their results in `out`, which mirror those of the inputs; no two clash."""
    if out is None:
        return [Input(given.source) for given in inputs]
    places = place_results([(given.source, given.place) for given in inputs])
    return [
        Input(given.source, str(out / place), place != given.place) for given, place in zip(inputs, places, strict=True)
    ]


@contextmanager
def results_folder(out: Path | None, option: str = "--out") -> Iterator[None]:
    """Make the folder for the results, if one is given; take it away again if nothing was written to it."""
    if out is None:
        yield
        return
    made = [path for path in (out, *out.parents) if not path.exists()]  # from the innermost, as they are taken away
    try:
        out.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(out, os.W_OK | os.X_OK) else "cannot be written to"
    except FileExistsError:
        reason = "is a file, not a folder"
    except OSError as error:
        reason = f"cannot be made ({error.strerror})"
    if reason:
        raise MediaError(f"{option} {out}: {reason}; give another folder")
    try:
        yield
    finally:
        with suppress(OSError):  # a folder that holds something
            for path in made:
                path.rmdir()


def _check_outside(folder: str, out: Path | None, recursive: bool) -> None:
    """Refuse to write results among the inputs, where the next run would take them for inputs."""
    if out is None:
        return
    inside, results = Path(folder).resolve(), out.resolve()
    if results == inside or (recursive and inside in results.parents):
        raise MediaError(f"--out {out}: lies in {folder}, where results would be taken for inputs; give another folder")


# --- errors -----------------------------------------------------------------------------------------------------------


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
