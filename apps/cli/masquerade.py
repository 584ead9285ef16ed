"""``visionnmf masquerade``: train, score, evaluate."""

from __future__ import annotations

import re
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from visionnmf import choices

from .common import expanded, running
from .following import until_signal
from .options import Debug, Force, Json, Processes, Seed, one_of
from .paths import check_there
from .verdicts import Printed

__all__ = ["command"]

LONGEST_KEY = 1 << 16  # bytes of a key file

command = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@command.callback()
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
LogFormat = Annotated[str, typer.Option("--format", help=one_of(("auto", *choices.LOG_FORMATS)))]
User = Annotated[str | None, typer.Option("--user", help="Whose the logs are, where they do not say.")]
WholeLines = Annotated[bool, typer.Option("--whole-lines", help="Take lines as they are, not the programs in them.")]
FalseAlarms = Annotated[
    float, typer.Option("--false-alarms", metavar="RATE", min=0.0001, max=0.5, help="Rate that thresholds aim at.")
]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", metavar="FILE", help="File with the key that commands are hashed with.")
]


@command.command("train")
def train(
    histories: Annotated[list[str], typer.Argument(metavar="HISTORY...", help="Logs or patterns, oldest first.")],
    model: Annotated[Path, typer.Option("--model", metavar="M.npz", help="The model file to write.")],
    size: Size = choices.SESSION_SIZE,
    idle: Idle = None,
    format_: LogFormat = "auto",
    user: User = None,
    whole_lines: WholeLines = False,
    false_alarms: FalseAlarms = choices.FALSE_ALARM_RATE,
    hash_commands: Annotated[bool, typer.Option("--hash", help="Keep hashes of commands, not their names.")] = False,
    key_file: KeyFile = None,
    jobs: Processes = 1,
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
    with running(json_, debug) as run:
        check_there(*histories)
        from visionnmf.apps import masquerade

        report = masquerade.train(
            expanded(histories),
            model,
            size=size,
            idle=idle,
            format=format_,
            user=user,
            whole_lines=whole_lines,
            false_alarm_rate=false_alarms,
            hash_commands=hash_commands,
            key=_key(key_file),
            n_jobs=jobs,
            force=force,
        )
        run.report(report)


@command.command("score")
def score(
    model: Annotated[Path, typer.Argument(metavar="M.npz", help="A model that train has written.")],
    logs: Annotated[
        list[str], typer.Argument(metavar="LOG...", help="Logs or patterns, oldest first; - is standard input.")
    ],
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow one log from its end as it grows; Ctrl-C ends it.")
    ] = False,
    silence: Annotated[
        float, typer.Option("--silence", metavar="SECONDS", min=1, help="With --follow: silence that ends a session.")
    ] = choices.SILENCE,
    update: Annotated[bool, typer.Option("--update/--no-update", help="Learn on from accepted sessions.")] = True,
    keep: Annotated[
        bool, typer.Option("--keep", help="At the end, write what was learnt back into the model file.")
    ] = False,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", metavar="T", min=0, help="Deviations that are an alarm, for all users."),
    ] = None,
    alarms_only: Annotated[bool, typer.Option("--alarms-only", help="Print no other sessions.")] = False,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Print what ends later: 2026-03-01, 2026-03-01T12:00, 36h, 7d."),
    ] = None,
    top: Annotated[
        int | None, typer.Option("--top", metavar="N", min=1, help="Print the N highest scores, at the end.")
    ] = None,
    style: Annotated[
        str | None, typer.Option("--as", metavar="FORM", help="Lines for other programs: json, ecs or cef.")
    ] = None,
    fail_on_alarm: Annotated[bool, typer.Option("--fail-on-alarm", help="Exit with 3 if there is an alarm.")] = False,
    format_: LogFormat = "auto",
    user: User = None,
    key_file: KeyFile = None,
    jobs: Processes = 1,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object a session: --as json.")] = False,
    debug: Debug = False,
) -> None:
    """Score the sessions of logs: score, verdict, the commands that made it so and where they stand.

    \b
    Examples:
      visionnmf masquerade score users.npz today.log
      visionnmf masquerade score users.npz today.log --alarms-only --since 24h --fail-on-alarm
      visionnmf masquerade score users.npz archive/* --no-update --top 20 --jobs 4
      visionnmf masquerade score users.npz /var/log/audit/audit.log --follow --as ecs
      journalctl -f -o cat | visionnmf masquerade score users.npz -
    """
    if style not in (None, "json", "ecs", "cef"):
        raise typer.BadParameter(f"--as: {style} is none of json, ecs and cef")
    if top is not None and (follow or "-" in logs):
        raise typer.BadParameter("--top and --follow exclude each other")
    if jobs > 1 and (follow or "-" in logs):
        raise typer.BadParameter("--jobs and --follow exclude each other, as do --jobs and standard input")
    after = _moment(since)
    with running(json_ or style is not None, debug) as run:
        if not follow:  # a log that is followed is waited for
            check_there(*logs)
        check_there(model)
        from visionnmf.apps import masquerade

        known = masquerade.load(model, key=_key(key_file))
        printed = Printed(run, style, alarms_only=alarms_only, after=after, top=top)
        with until_signal() if follow or "-" in logs else nullcontext() as ending:
            results = masquerade.score(
                known,
                expanded(logs),
                following=follow,
                silence=silence,
                provisional=True,
                update=update,
                threshold=threshold,
                format=format_,
                user=user,
                stop=ending,
                on_error=run.fail,
                n_jobs=jobs,
            )
            try:
                for result in results:
                    printed.add(result)
            finally:
                printed.end()
                run.alarmed = fail_on_alarm and printed.alarms > 0
            if keep:
                masquerade.save(known, model, force=True)


def _moment(text: str | None) -> float | None:
    """Return seconds since 1970 of a time, or of so many hours or days ago."""
    if text is None:
        return None
    if ago := re.fullmatch(r"(\d{1,6})([mhd])", text):
        return time.time() - int(ago[1]) * {"m": 60, "h": 3600, "d": 86400}[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"--since: {text} is no time; give 2026-03-01, 2026-03-01T12:00, 36h or 7d") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


@command.command("evaluate")
def evaluate(
    histories: Annotated[list[str], typer.Argument(metavar="HISTORY...", help="Logs of two users or more.")],
    size: Size = choices.SESSION_SIZE,
    idle: Idle = None,
    format_: LogFormat = "auto",
    whole_lines: WholeLines = False,
    false_alarms: FalseAlarms = choices.FALSE_ALARM_RATE,
    methods: Annotated[
        str, typer.Option("--methods", metavar="LIST", help="Comma-separated, or all; see below.")
    ] = choices.MASQUERADE_METHODS[0],
    roc: Annotated[
        Path | None, typer.Option("--roc", metavar="P.png", help="Draw the ROC curves (needs matplotlib).")
    ] = None,
    jobs: Processes = 1,
    seed: Seed = choices.RANDOM_STATE,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Find out how well users can be told apart here: later sessions of each against those of the others.

    Methods: scorer (ours), mex-perera and mex-perera-literal (NMF of weighted counts), wang (NMF of frequencies), ecm
    (eigen co-occurrence matrices), naive-bayes.

    \b
    Examples:
      visionnmf masquerade evaluate histories/*
      visionnmf masquerade evaluate histories/* --methods all --roc roc.png --jobs 4
    """
    with running(json_, debug) as run:
        check_there(*histories)
        from visionnmf.apps import masquerade

        named = choices.MASQUERADE_METHODS if methods == "all" else tuple(name.strip() for name in methods.split(","))
        with run.progress("histories", rate_of="") as bar:

            def progress(done: int, total: int) -> None:
                if bar is not None:
                    bar("users", done, total)

            report = masquerade.evaluate(
                expanded(histories),
                size=size,
                idle=idle,
                format=format_,
                whole_lines=whole_lines,
                false_alarm_rate=false_alarms,
                random_state=seed,
                methods=named,
                roc=roc,
                n_jobs=jobs,
                force=force,
                progress=progress,
            )
        run.report(report)


def _key(path: Path | None) -> str | None:
    from visionnmf.exceptions import UnreadableError
    from visionnmf.io import regular_file

    if path is None:
        return None
    if regular_file(path, "key").stat().st_size > LONGEST_KEY:
        raise UnreadableError(f"{path}: cannot be read as a key (it has more than {LONGEST_KEY} bytes)")
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{path}: cannot be read as a key ({error})") from error
