"""``visionnmf masquerade``: train, score, evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visionnmf import choices

from .common import Terminated, expanded, running
from .options import Debug, Force, Json, Seed, one_of

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
            force=force,
        )
        run.report(report)


@command.command("score")
def score(
    model: Annotated[Path, typer.Argument(metavar="M.npz", help="A model that train has written.")],
    logs: Annotated[list[str], typer.Argument(metavar="LOG...", help="Logs or patterns, oldest first.")],
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow one log from its end as it grows; Ctrl-C ends it.")
    ] = False,
    update: Annotated[bool, typer.Option("--update/--no-update", help="Learn on from accepted sessions.")] = True,
    keep: Annotated[
        bool, typer.Option("--keep", help="At the end, write what was learnt back into the model file.")
    ] = False,
    format_: LogFormat = "auto",
    user: User = None,
    key_file: KeyFile = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object a session (JSON Lines).")] = False,
    debug: Debug = False,
) -> None:
    """Score the sessions of logs: score, verdict, and the commands that made it so.

    \b
    Examples:
      visionnmf masquerade score users.npz today.log
      visionnmf masquerade score users.npz /var/log/audit/audit.log --follow --json
    """
    with running(json_, debug) as run:
        from visionnmf.apps import masquerade

        known = masquerade.load(model, key=_key(key_file))
        results = masquerade.score(
            known, expanded(logs), following=follow, update=update, format=format_, user=user, on_error=run.fail
        )
        ended: Terminated | None = None
        try:
            for result in results:
                run.row(result)
        except KeyboardInterrupt as stop:
            if not follow:
                raise
            ended = stop if isinstance(stop, Terminated) else None
        if keep:
            masquerade.save(known, model, force=True)
        if ended is not None:
            raise ended


@command.command("evaluate")
def evaluate(
    histories: Annotated[list[str], typer.Argument(metavar="HISTORY...", help="Logs of two users or more.")],
    size: Size = choices.SESSION_SIZE,
    idle: Idle = None,
    format_: LogFormat = "auto",
    whole_lines: WholeLines = False,
    false_alarms: FalseAlarms = choices.FALSE_ALARM_RATE,
    seed: Seed = choices.RANDOM_STATE,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Find out how well users can be told apart here: later sessions of each against those of the others.

    \b
    Example:
      visionnmf masquerade evaluate histories/*
    """
    with running(json_, debug) as run:
        from visionnmf.apps import masquerade

        report = masquerade.evaluate(
            expanded(histories),
            size=size,
            idle=idle,
            format=format_,
            whole_lines=whole_lines,
            false_alarm_rate=false_alarms,
            random_state=seed,
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
