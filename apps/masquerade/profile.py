"""One user's habits as counts: in how many sessions each command and each pair of successive commands occurred."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from visionnmf._checks import brief, shown
from visionnmf.exceptions import ParameterError

# Chosen on users 1 to 25 of the SEA data: on their own test sessions, and on streams made of their sessions alone.
PSEUDO_COUNT = 0.1  # a: sessions in which every command is assumed to have occurred
VOCABULARY = 1000  # V: commands that a user might type
CONTEXT_COUNT = 8.0  # l: weight, in sessions, of the command's own probability when a pair is predicted
NEW_COMMAND = 0.2  # nats for each new command in a session of a hundred

PAIRS_KEPT = 200_000  # bounds the memory of a profile, also of commands; the most frequent ones are kept
SESSIONS_KEPT = 1000  # of a user, by factorisations; older ones are forgotten


class CountedSession(NamedTuple):
    """How often each command and each pair of successive commands occurs in a session, and the session's length."""

    commands: Counter[Hashable]
    pairs: Counter[tuple[Hashable, Hashable]]
    length: int


def count_session(session: Sequence[Hashable]) -> CountedSession:
    """Count the commands and pairs of a session; ParameterError if it is not a sequence of hashable symbols."""
    check_sequence(session)
    symbols = session.tolist() if isinstance(session, np.ndarray) else list(session)
    try:
        return CountedSession(Counter(symbols), Counter(pairwise(symbols)), len(symbols))
    except TypeError as error:
        raise ParameterError(f"the commands of a session must be hashable; got others: {error}") from error


def check_sequence(session: Any) -> None:
    """Raise ParameterError for a text, and for what has no items."""
    if isinstance(session, str | bytes) or not isinstance(session, Iterable):
        raise ParameterError(f"a session must be a sequence of commands; got {shown(session)}")


@dataclass
class Profile:
    """In how many of a user's sessions each command, and each pair of successive commands, occurred."""

    # rejected sessions count little, so these are weights, not whole numbers
    commands: dict[Hashable, float] = field(default_factory=dict)
    pairs: dict[tuple[Hashable, Hashable], float] = field(default_factory=dict)
    context: dict[Hashable, float] = field(default_factory=dict)  # sums of the pairs that begin with a command
    total: float = 0.0  # of all commands

    __repr__ = brief

    def add(self, session: CountedSession, weight: float = 1.0, *, bounded: bool = True) -> None:
        """Count each command and pair of a session once, with a weight; if `bounded`, rare entries may be forgotten."""
        for command in session.commands:
            self.commands[command] = self.commands.get(command, 0.0) + weight
        self.total += weight * len(session.commands)
        for pair in session.pairs:
            self.pairs[pair] = self.pairs.get(pair, 0.0) + weight
            self.context[pair[0]] = self.context.get(pair[0], 0.0) + weight
        if bounded and max(len(self.pairs), len(self.commands)) > PAIRS_KEPT:
            self._forget()

    def _forget(self) -> None:
        """Keep the PAIRS_KEPT / 2 most frequent commands, or pairs, if there are too many, and sum up again."""
        if len(self.commands) > PAIRS_KEPT:
            self.commands = _heaviest(self.commands, PAIRS_KEPT // 2)
            self.total = sum(self.commands.values())
            known = self.commands
            self.pairs = {pair: w for pair, w in self.pairs.items() if pair[0] in known and pair[1] in known}
        if len(self.pairs) > PAIRS_KEPT:
            self.pairs = _heaviest(self.pairs, PAIRS_KEPT // 2)
        self.context = {}
        for (first, _), weight in self.pairs.items():
            self.context[first] = self.context.get(first, 0.0) + weight

    def cost(self, session: CountedSession, own: float = 0.0) -> tuple[float, dict[Hashable, float]]:
        """Return how unusual a session is, as a cost in nats per command, and the contribution of each command to it.

        :mod:`.session_scorer` has the formula. The session must not be empty. If it is in the profile itself, `own` is
        its weight there, which is subtracted.
        """
        pairs, context = self.pairs, self.context
        parts: dict[Hashable, float] = {}
        probability = self.probabilities(session, own)
        # The cost is a mean over commands plus one over pairs. A session of one command has no pair, so the cost of its
        # command counts twice, which keeps the scale.
        per_command = (1.0 if session.pairs else 2.0) / session.length
        per_new = NEW_COMMAND * 100.0 / session.length
        for command, count in session.commands.items():
            extra = per_new if self.is_new(command, own) else 0.0
            parts[command] = -count * per_command * math.log(probability[command]) + extra
        if session.pairs:
            per_pair = 1.0 / (session.length - 1)
            begun = Counter(first for first, _ in session.pairs) if own else {}  # the session's own part of `context`
            for pair, count in session.pairs.items():
                first, second = pair
                among = context.get(first, 0.0) - own * begun.get(first, 0) + CONTEXT_COUNT
                p = (pairs.get(pair, 0.0) - own + CONTEXT_COUNT * probability[second]) / among
                parts[second] -= count * per_pair * math.log(p)
        return sum(parts.values()), parts

    def is_new(self, command: Hashable, own: float = 0.0) -> bool:
        """Return whether no session of full weight holds a command: less than half a session counts as none."""
        # commands of rejected and doubtful sessions have small weights
        return self.commands.get(command, 0.0) - own < 0.5

    def probabilities(self, session: CountedSession, own: float = 0.0) -> dict[Hashable, float]:
        """Return the smoothed share of each command of a session: its sessions over those of all commands, summed."""
        total = self.total - own * len(session.commands) + PSEUDO_COUNT * VOCABULARY
        return {c: (self.commands.get(c, 0.0) - own + PSEUDO_COUNT) / total for c in session.commands}


def _heaviest(weights: dict[Any, float], n: int) -> dict[Any, float]:
    """Keep the `n` heaviest entries in their order; among equal weights, those that were added last."""
    kept = set(sorted(reversed(weights), key=weights.__getitem__, reverse=True)[:n])
    return {entry: weight for entry, weight in weights.items() if entry in kept}
