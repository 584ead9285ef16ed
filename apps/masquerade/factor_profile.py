"""One user's habits as a non-negative matrix factorisation of the user's sessions, by :class:`visionnmf.NMF`.

The rows of the matrix are sessions and its columns are commands. A session is approximated by ``h H``, with the
components `H` of the user and the codes `h` of the session. The methods differ in rows and in cost:

==============  ======================================================================================================
``nmf``         A row says which commands occur. ``h H``, with sum 1 and mixed with FLOOR_SHARE equally likely
                commands, takes the place of ``p(c)`` in the cost of :mod:`visionnmf.apps.masquerade.session_scorer`.
``mex-perera``  A row has the counts times ``-log(p) / (L - N)``, where `p` is the share of a command in the training
                sessions, `L` is the length of the session, and `N` is its number of commands that are new. The cost is
                the logarithm of the distance from ``h H`` times ``N + 1`` (Mex-Perera et al., equation 6).
``wang``        A row has the frequencies of commands. The cost is ``|sum(h) - 1|`` (Wang, Guan and Zhang, CDC 2004).
==============  ======================================================================================================

The factorisation minimises the Kullback-Leibler divergence, as published, or the Manhattan distance. Sessions count by
their weights. After an accepted session, ONLINE_ITERATIONS iterations continue from the current components. Codes are
those of the minimum. A session of new commands alone has distance 1, where Mex-Perera et al. have 0/0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from visionnmf import NMF
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import solve_codes

from .profile import PAIRS_KEPT, SESSIONS_KEPT, VOCABULARY, CountedSession, Profile

Floats = NDArray[np.float64]

# Chosen on the training sessions of the SEA data, the first 50 of each user.
RANKS = {"nmf": 4, "mex-perera": 2, "wang": 2}
FLOOR_SHARE = 0.3
ITERATIONS = 50  # of training, as Mex-Perera et al. have it
ONLINE_ITERATIONS = 2  # after an accepted session, the same
ONLINE_SHARE = 0.1  # more new sessions than this share of the old ones are learnt from the beginning
# Weight of the commands that a session does not hold, in the Manhattan loss, which would prefer a model of 0.
ZERO_WEIGHT = 0.01
MIN_DISTANCE = 1e-3


@dataclass
class FactorProfile(Profile):
    """Components of a user's sessions, beside the counts, which name usual and new commands."""

    method: str = "nmf"
    loss: str = "kullback-leibler"
    sessions: list[tuple[Counter[Hashable], float]] = field(default_factory=list)  # counts of commands, and a weight
    components: Floats | None = None  # (n_components, n_commands), in the order of `commands`
    n_learnt: int = 0  # sessions, the first ones, whose components these are
    _columns: dict[Hashable, int] = field(default_factory=dict)

    def add(self, session: CountedSession, weight: float = 1.0, *, bounded: bool = True) -> None:
        """Count a session with a weight, and keep it for the next factorisation; the oldest are forgotten."""
        self.sessions.append((session.commands, weight))
        super().add(session, weight, bounded=bounded)
        # limits on the number of sessions and of their different commands; the newest session always stays
        while len(self.sessions) > SESSIONS_KEPT or sum(len(counts) for counts, _ in self.sessions[:-1]) > PAIRS_KEPT:
            del self.sessions[0]
            self.n_learnt = max(0, self.n_learnt - 1)

    def _forget(self) -> None:
        """Forget rare commands, also in the sessions, and the components; the next factorisation starts again."""
        super()._forget()
        self.sessions = [(Counter({c: n for c, n in s.items() if c in self.commands}), w) for s, w in self.sessions]
        self.components, self.n_learnt = None, 0  # no session has entered the components

    def learn(self) -> Floats:
        """Return the components (r, n_commands) of all sessions, learning those that are new."""
        n_new = len(self.sessions) - self.n_learnt
        if n_new or not self._columns:
            self._columns = {command: column for column, command in enumerate(self.commands)}
            self._information = self._weigh_commands()
        if self.components is not None and not n_new:
            return self.components
        # only the components are used
        options: dict[str, Any] = {"max_iter": ITERATIONS, "exact_codes": False, "measure_optimality": False}
        if self.components is not None and n_new <= ONLINE_SHARE * self.n_learnt:
            # commands that are new have the mean weight in each component
            new = np.full((len(self.components), len(self.commands) - self.components.shape[1]), self.components.mean())
            options |= {"max_iter": ONLINE_ITERATIONS, "components_init": np.hstack([self.components, new])}
        rows = self._rows([counts for counts, _ in self.sessions])  # the matrix to factorise, (n_sessions, n_commands)
        rank = min(RANKS[self.method], *rows.shape)
        model = NMF(rank, loss=self.loss, zero_weight=self._zero_weight, tol=0.0, random_state=0, **options)
        model.fit(rows, sample_weight=[weight for _, weight in self.sessions])
        sums = model.components_.sum(axis=1, keepdims=True)  # components are scaled to sum 1, if they are not all 0
        self.components, self.n_learnt = model.components_ / np.where(sums, sums, 1.0), len(self.sessions)
        return self.components

    @property
    def _zero_weight(self) -> float:
        """The weight of commands that a session does not hold; the Manhattan loss would otherwise fit only these."""
        return ZERO_WEIGHT if self.loss == "manhattan" else 1.0

    def _weigh_commands(self) -> Floats:
        """Return ``-log(p)`` for each command, `p` its share of the commands of all sessions, by their weights."""
        counts = np.zeros(len(self.commands))
        for session, weight in self.sessions:
            for command, count in session.items():
                counts[self._columns[command]] += weight * count
        return -np.log(np.maximum(counts, MIN_DISTANCE) / counts.sum())

    def _rows(self, sessions: list[Counter[Hashable]]) -> sp.csr_array:
        """Return rows (n_sessions, n_commands) of counted sessions, without new commands."""
        # a sparse matrix row by row: where each row ends, and the columns and values of its entries
        ends, columns, values = [0], [], []
        for counts in sessions:
            known = [command for command in counts if not self.is_new(command)]
            row = np.array([counts[command] for command in known], float)
            places = [self._columns[command] for command in known]
            if self.method == "nmf":
                row = np.ones(len(row))
            elif self.method == "wang":
                row /= counts.total()
            elif len(row):
                row *= self._information[places] / row.sum()
            ends.append(ends[-1] + len(row))
            columns += places
            values.append(row)
        shape = len(sessions), len(self._columns)
        return sp.csr_array((np.concatenate(values), np.array(columns, np.int64), ends), shape=shape)

    def _approximate(self, session: CountedSession) -> tuple[Floats, Floats, float]:
        """Return a session's row and its approximation ``h H``, both (n_commands,), and the sum of the codes `h`."""
        components = self.learn()  # of all sessions so far, (n_components, n_commands)
        row = self._rows([session.commands])
        if not row.nnz:  # all of its commands are new
            return np.zeros(row.shape[1]), np.zeros(row.shape[1]), 0.0
        codes = solve_codes(Problem(row, Loss(self.loss), zero_weight=self._zero_weight), components)[:, 0]
        return row.toarray()[0], codes @ components, float(codes.sum())

    def probabilities(self, session: CountedSession, own: float = 0.0) -> dict[Hashable, float]:
        """Return the probability of each command of a session: its share of the approximation, mixed with a floor."""
        # the floor makes each of VOCABULARY commands possible, also new ones, which have no column
        _, approximation, _ = self._approximate(session)
        share = (1 - FLOOR_SHARE) * approximation / max(approximation.sum(), MIN_DISTANCE)
        floor = FLOOR_SHARE / VOCABULARY
        return {c: (float(share[self._columns[c]]) if c in self._columns else 0.0) + floor for c in session.commands}

    def cost(self, session: CountedSession, own: float = 0.0) -> tuple[float, dict[Hashable, float]]:
        """Return how unusual a session is, and the contribution of each command to that, as the module says."""
        if self.method == "nmf":
            return super().cost(session, own)
        row, approximation, sum_of_codes = self._approximate(session)
        residual = row - approximation
        # by command: how far it is from the approximation; and how often it occurs, if it is new
        unusual = {c: float(abs(residual[self._columns[c]])) for c in session.commands if c in self._columns}
        new = {c: n for c, n in session.commands.items() if self.is_new(c)}
        if self.method == "wang":
            cost = abs(sum_of_codes - 1)
            # new commands, if any, have the whole cost, because they are what lowers the sum of the codes
            unusual = {c: float(n) for c, n in new.items()} or unusual
        else:
            # 1 if all commands are new: the row is 0, and a distance of 0 would call the session usual
            distance = float(np.linalg.norm(residual)) if row.any() else 1.0
            cost = math.log((distance + MIN_DISTANCE) * (sum(new.values()) + 1))
            largest = max(sum(unusual.values()), MIN_DISTANCE)
            unusual = {c: unusual.get(c, 0.0) / largest + new.get(c, 0) for c in session.commands}
        whole = sum(unusual.values())
        return cost, {c: cost * unusual.get(c, 0.0) / whole if whole else 0.0 for c in session.commands}
