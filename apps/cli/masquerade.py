"""``visionnmf masquerade``: train, score."""

from __future__ import annotations

import re
import time
from collections import Counter
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visionnmf import choices
from visionnmf._text import counted
from visionnmf.apps import is_shared
from visionnmf.apps.masquerade.settings import Judging, LogSource, ScorerSettings, SessionCutting
from visionnmf.apps.settings import Option, settings
from visionnmf.io.inputs import expand_inputs

from .console import echo, verbosity
from .options import Force, Processes, excludes, given, needs, with_records
from .run import Run, check_exists, running
from .signals import until_signal

if TYPE_CHECKING:
    from visionnmf.apps.masquerade import SessionResult

MAX_COUNTED_USERS = 100_000

command = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


def _moment(text: str) -> float:
    """Return a time, or a number of minutes, hours or days ago, as seconds since 1970."""
    if ago := re.fullmatch(r"(\d{1,6})([mhd])", text):
        return time.time() - int(ago[1]) * {"m": 60, "h": 3600, "d": 86400}[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text} is not a time; give 2026-03-01, 2026-03-01T12:00, 36h or 7d") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


@settings
class ScoreOutput:
    """What is done with the results of ``visionnmf masquerade score``."""

    alarms_only: Annotated[bool, Option("Print alarms only.")] = False
    since: Annotated[
        float | None,
        Option(
            "Print sessions that end later: 2026-03-01, 2026-03-01T12:00, 36h, 7d. Earlier ones are judged and learnt.",
            metavar="TIME",
            parse=_moment,
        ),
    ] = None
    fail_on_alarm: Annotated[bool, Option("Exit with code 3 if there is an alarm.")] = False
    keep: Annotated[bool, Option("At the end, write what was learnt to the model file. It is learnt once.")] = False


@command.command("train")
@with_records
def train(
    histories: Annotated[list[str], typer.Argument(metavar="HISTORY...", help="Logs or patterns, oldest first.")],
    model: Annotated[Path, Option("The model file to write.", metavar="M.npz")],
    cutting: SessionCutting,
    source: LogSource,
    scorer: ScorerSettings,
    jobs: Processes = 1,
    force: Force = False,
) -> None:
    """Learn every user's habits from command histories.

    \b
    Examples:
      visionnmf masquerade train histories/* --model users.npz
      visionnmf masquerade train ~/.bash_history --user me --model me.npz
      visionnmf masquerade train histories/* --model users.npz --method nmf
    """
    needs("loss", "--method nmf", scorer.method == "nmf")
    with running() as run:
        check_exists(*histories)
        from visionnmf.apps import masquerade

        report = masquerade.train(
            expand_inputs(histories), model, cutting=cutting, source=source, scorer=scorer, n_jobs=jobs, force=force
        )
        run.show(report)


@command.command("score")
@with_records
def score(
    model: Annotated[Path, typer.Argument(metavar="M.npz", help="A model written by train.")],
    logs: Annotated[
        list[str], typer.Argument(metavar="LOG...", help="Logs or patterns, oldest first; - is standard input.")
    ],
    judging: Judging,
    source: LogSource,
    output: ScoreOutput,
    jobs: Processes = 1,
    force: Force = False,
) -> None:
    """Score the sessions of logs: score, verdict, and the commands behind it with their lines in the log.

    \b
    Examples:
      visionnmf masquerade score users.npz today.log
      visionnmf masquerade score users.npz today.log --alarms-only --since 24h --fail-on-alarm
      visionnmf masquerade score users.npz archive/* --no-update --jobs 4 --json
      tail -F today.log | visionnmf masquerade score users.npz - --user ann --json
    """
    excludes("keep", "--no-update", not judging.update)
    needs("force", "--report", "report" in given)
    live = "-" in logs
    if live and is_shared(jobs, jobs):  # among several processes (--jobs), or workers of a cluster (--scheduler)
        option = "--jobs" if jobs > 1 else "--scheduler"
        raise typer.BadParameter(f"{option} and standard input exclude each other")
    with running() as run:
        check_exists(*logs)
        check_exists(model)
        from visionnmf.apps import masquerade

        known = masquerade.load(model)
        printer = _ResultPrinter(run, output, "judged and learnt" if judging.update else "judged")
        with until_signal() if live else nullcontext() as ending:
            results = masquerade.score(
                known, expand_inputs(logs), judging=judging, source=source, stop=ending, on_error=run.fail, n_jobs=jobs
            )
            try:
                for result in results:
                    printer.add(result)
            finally:
                printer.end()
                run.alarmed = output.fail_on_alarm and printer.alarms > 0
            if output.keep:  # the model has learnt from the sessions while they were scored
                masquerade.save(known, model, force=True)


class _ResultPrinter:
    """Prints the results of a run as they come, and counts verdicts."""

    def __init__(self, run: Run, output: ScoreOutput, work: str) -> None:
        """Begin without results of scored sessions; `work` says what becomes of each."""
        self.work = work
        self.earlier = self.before = 0  # sessions that end too early to be printed; those that were learnt before
        self.run, self.output = run, output  # what prints, and what is asked for, such as alarms only
        self.verdicts: Counter[str] = Counter()  # how often each verdict was given to a session
        self.users: set[str] = set()  # whose sessions came
        self.judged = self.alarms = 0  # sessions of users whom the model knows, and those with the verdict "alarm"

    def add(self, result: SessionResult) -> None:
        """Count a session, and print it if it is wanted, an alarm also if the run is quiet; its user may be unknown."""
        unknown = result.verdict == "unknown user"
        self.judged += not unknown
        self.before += result.learnt_before
        if self.output.since is not None and result.end is not None and result.end < self.output.since:
            self.earlier += 1
            return
        self.verdicts[result.verdict] += 1
        self.alarms += result.verdict == "alarm"
        if len(self.users) < MAX_COUNTED_USERS:  # a log can name any number of users, and memory is limited
            if unknown and result.user not in self.users:  # an input that was not judged, whatever is printed
                if result.source == "-" and result.user == choices.NAMELESS:
                    who = "-: standard input names no user whom the model knows; give --user NAME"
                else:
                    who = (
                        f"{result.source}: the model does not know the user {result.user}; train this user, or give "
                        "--user NAME if the log is another user's"
                    )
                self.run.fail(who)
            self.users.add(result.user)
        report = result.report()
        if self.output.alarms_only and result.verdict != "alarm":
            self.run.add_to_page(report)  # which has all sessions
            return
        self.run.show(report)
        if verbosity().quiet and not self.run.as_json and result.verdict == "alarm":
            echo("\n".join(report.as_lines()))

    def end(self) -> None:
        """Print the number of sessions."""
        self.run.done = self.judged  # and not all that were printed
        if self.verdicts:
            counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self.verdicts.items()))
            sessions, users = counted(self.verdicts.total(), "session"), counted(len(self.users), "user")
            self.run.remark(f"{sessions} of {users}: {counts}")
        if self.earlier:
            self.run.remark(f"{counted(self.earlier, 'earlier session')} {self.work}, but not printed (--since)")
        if self.before:
            known = "learnt before, or older than the last one learnt; not learnt again"
            self.run.remark(f"{counted(self.before, 'session')} {known}")
