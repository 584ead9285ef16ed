"""The settings of the masquerade application; imports nothing heavy."""

from __future__ import annotations

from typing import Annotated

from visionnmf import choices
from visionnmf.apps.settings import Option, comma_separated, settings
from visionnmf.exceptions import ParameterError


def _names(text: str) -> tuple[str, ...]:
    """Read names of methods with commas between, or "all"."""
    return choices.MASQUERADE_METHODS if text == "all" else comma_separated(text)


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


@settings
class DetectorComparison:
    """Which methods :func:`~visionnmf.apps.masquerade.evaluate` compares, and how."""

    methods: Annotated[
        tuple[str, ...],
        Option(
            f"Comma-separated methods: all, or some of {', '.join(choices.MASQUERADE_METHODS)}.",
            metavar="LIST",
            parse=_names,
        ),
    ] = choices.MASQUERADE_METHODS[:1]
    training_share: Annotated[float, Option("The share of each user's sessions used for training.", metavar="S")] = 0.5
    false_alarm_rate: FalseAlarmRate = choices.FALSE_ALARM_RATE
    random_state: Annotated[int, Option("Seed: the same seed gives the same result.", flag="--seed", low=0)] = (
        choices.RANDOM_STATE
    )

    def check(self) -> None:
        """Raise ParameterError for methods that do not exist and for a share of all or nothing."""
        known = choices.MASQUERADE_METHODS
        if not self.methods or not {*self.methods} <= {*known}:
            raise ParameterError(f"methods must be one of {sorted(known)}, or several; got {self.methods!r}")
        if not 0 < self.training_share < 1:
            raise ParameterError(f"training_share must be a number > 0 and < 1; got {self.training_share!r}")
