"""The settings of the masquerade application; imports nothing heavy."""

from __future__ import annotations

from typing import Annotated

from visionnmf import choices
from visionnmf.apps.settings import Option, settings

FalseAlarmRate = Annotated[
    float,
    Option("The false alarm rate that thresholds aim at.", flag="--false-alarms", metavar="RATE", low=0, high=0.5),
]


@settings
class LogSource:
    """What is known about the logs that are read."""

    format: Annotated[str, Option("The format of the logs.", choices=("auto", *choices.LOG_FORMATS))] = "auto"
    user: Annotated[str | None, Option("The user of logs that name no users.", metavar="NAME")] = None


@settings
class SessionCutting:
    """How commands are cut into sessions."""

    size: Annotated[int, Option("Number of commands in a session.", metavar="N", low=1)] = choices.SESSION_SIZE
    idle: Annotated[
        float | None,
        Option("End sessions after this silence instead of by count.", metavar="SECONDS", low=0, above=True),
    ] = None
    whole_lines: Annotated[bool, Option("Use whole command lines instead of the names of programs.")] = False


@settings
class ScorerSettings:
    """How the scorer of a user is made; see :class:`~visionnmf.apps.masquerade.SessionScorer`."""

    false_alarm_rate: FalseAlarmRate = choices.FALSE_ALARM_RATE
    method: Annotated[
        str,
        Option(
            "How habits are described: by counts of sessions, or by an NMF of them.", choices=choices.SCORER_METHODS
        ),
    ] = choices.SCORER_METHODS[0]
    loss: Annotated[str, Option("The loss of the factorisations.", choices=choices.SCORER_LOSSES)] = (
        choices.SCORER_LOSSES[0]
    )


@settings
class Judging:
    """How sessions are judged."""

    update: Annotated[bool, Option("Learn on from accepted sessions.", flag="--update/--no-update")] = True
    threshold: Annotated[
        float | None,
        Option("Threshold for all users, in deviations; by default each user has a threshold.", metavar="T", low=0),
    ] = None
    reasons: Annotated[int, Option("The largest number of reasons given for a session.", metavar="N", low=1)] = 5
