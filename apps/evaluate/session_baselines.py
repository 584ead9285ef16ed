"""The model of Mex-Perera et al. exactly as published, and the detectors that it is compared with.

To detect masqueraders use :class:`~visionnmf.apps.masquerade.SessionScorer`. Parameters are those of the papers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import ParameterError, installed_by

Symbols = Sequence[Hashable]
Floats = NDArray[np.float64]

_FLOOR = 1e-12  # lower bound for the denominators of multiplicative updates (Lin 2007)


def _multiply_codes(A: Floats, W: Floats, H: Floats) -> Floats:
    """Update the codes H (r, m) of ``A ~ W H`` by equation (2) of Mex-Perera et al.; A is (n, m), basis W (n, r)."""
    return H * (W.T @ (A / np.maximum(W @ H, _FLOOR))) / np.maximum(W.sum(axis=0)[:, None], _FLOOR)


def _multiply_basis(A: Floats, W: Floats, H: Floats) -> Floats:
    """Update the basis W (n, r) by equations (3) and (4) of Mex-Perera et al.; (4) scales its columns to sum 1."""
    W = W * ((A / np.maximum(W @ H, _FLOOR)) @ H.T)
    return W / np.maximum(W.sum(axis=0), _FLOOR)


class _CountMatrix:
    """Counts of the commands in the training sessions, (n_commands, n_sessions); sessions can be added."""

    def __init__(self, sessions: Iterable[Symbols]) -> None:
        """Count the commands of each session, a sequence of hashable symbols."""
        self.rows: dict[Hashable, int] = {}  # row of each command, in the order of first occurrence
        self.columns: list[Counter[int]] = []  # for each session, the count of each row
        for session in sessions:
            self.add(session)

    def add(self, session: Symbols) -> None:
        """Append the counts of a session as a column; commands without a row get the next ones."""
        self.columns.append(Counter(self.rows.setdefault(command, len(self.rows)) for command in session))

    def matrix(self) -> Floats:
        """Return the counts as a dense matrix (n_commands, n_sessions)."""
        V = np.zeros((len(self.rows), len(self.columns)))
        for column, counts in enumerate(self.columns):
            V[list(counts.keys()), column] = list(counts.values())
        return V

    def vector(self, session: Symbols) -> tuple[Floats, int]:
        """Return the counts (n_commands,) of the known commands in a session, and the number of its other commands."""
        v = np.zeros(len(self.rows))
        unseen = 0
        for command, count in Counter(session).items():
            if command in self.rows:
                v[self.rows[command]] = count
            else:
                unseen += count
        return v, unseen


class _Baseline(ABC):
    """What the models share: sessions in, anomaly scores out, where a high score means an anomalous session."""

    def fit(self, X: Sequence[Symbols]) -> Self:
        """Learn one user's habits from sessions, which are sequences of hashable symbols."""
        if not len(X):
            raise ParameterError("X must hold at least one session; got none")
        self._sessions = [list(session) for session in X]
        self._learn(self._sessions)
        return self

    def update(self, session: Symbols) -> None:
        """Learn one more session, here by learning all of them again; it is known to be the user's."""
        self._sessions.append(list(session))
        self._learn(self._sessions)

    def anomaly_score(self, X: Sequence[Symbols]) -> Floats:
        """Return how anomalous each session is, (n_sessions,)."""
        return np.array([self._score(session) for session in X])

    @abstractmethod
    def _learn(self, sessions: Sequence[Symbols]) -> None:
        """Learn from these sessions alone."""

    @abstractmethod
    def _score(self, session: Symbols) -> float:
        """Return how anomalous one session is."""


class _CountFactors(_Baseline):
    """What the two NMF models share: ``A ~ basis_ codes_`` of weighted counts, (n_commands, n_sessions)."""

    n_components: ClassVar[int] = 2
    n_iterations: ClassVar[tuple[int, int, int]] = (50, 10, 2)  # in training, for a code, when a session is learnt

    def __init__(self, *, random_state: int = 0) -> None:
        """Keep the seed."""
        self.random_state = random_state

    def _factorise(self, A: Floats) -> None:
        """Factorise weighted counts from random factors; the columns of the basis sum to 1."""
        rng = np.random.default_rng(self.random_state)
        self.basis_ = rng.uniform(0.1, 1.0, (len(A), self.n_components))
        self.basis_ /= self.basis_.sum(axis=0)
        self.codes_ = rng.uniform(0.1, 1.0, (self.n_components, A.shape[1]))
        self._iterate(A, self.n_iterations[0])

    def _iterate(self, A: Floats, n: int) -> None:
        """Continue the factorisation with `n` multiplicative updates of codes and basis, one after the other."""
        for _ in range(n):
            self.codes_ = _multiply_codes(A, self.basis_, self.codes_)
            self.basis_ = _multiply_basis(A, self.basis_, self.codes_)

    def _code(self, a: Floats, total: float) -> Floats:
        """Return a session's code (n_components,); updates start from equal entries with the sum `total`."""
        h = np.full((self.n_components, 1), total / self.n_components)  # a column, as the updates take codes
        for _ in range(self.n_iterations[1]):
            h = _multiply_codes(a[:, None], self.basis_, h)
        return h[:, 0]


class MexPereraNMF(_CountFactors):
    """The masquerade detector of Mex-Perera et al., section 3, exactly as published.

    ``V[i, m]`` is the count of command `i` in session `m` of length `L`, `N` is the number of commands of the session
    never seen in training, and ``p_i`` is the share of command `i` in the training data. With ``alpha = -log(p_i) /
    (L - N)`` and ``A = alpha * V``, training runs 50 multiplicative updates of ``A ~ WH`` in the Kullback-Leibler
    divergence from a random start. A test session is coded by 10 updates of its code `h`, and its score is ``||a - W
    h||_2 (N + 1)`` (equation 6). An accepted session joins the counts, which changes `p` and the known commands. Then
    two updates of both factors continue from the current factors.

    For a session that consists of unseen commands only, ``L = N`` and the weights are 0/0. The paper does not say what
    to do then; its distance is `unseen_distance`, and 0 is the literal reading.
    """

    def __init__(self, *, unseen_distance: float = 1.0, random_state: int = 0) -> None:
        """Keep the distance of a session of unseen commands alone, and the seed."""
        super().__init__(random_state=random_state)
        self.unseen_distance = unseen_distance

    def _learn(self, sessions: Sequence[Symbols]) -> None:
        """Count the commands of the sessions, and factorise the counts as weighted by `_weigh`."""
        self._counts = _CountMatrix(sessions)
        self._factorise(self._weigh(self._counts.matrix()))

    def _weigh(self, V: Floats) -> Floats:
        """Return the counts times ``-log(p) / L``; ``-log(p)`` is kept as `_information` for new sessions."""
        self._information = -np.log(V.sum(axis=1) / V.sum())
        return self._information[:, None] * V / np.maximum(V.sum(axis=0), 1.0)

    def _score(self, session: Symbols) -> float:
        """Return ``||a - W h||_2 (N + 1)``: `a` (n_commands,) weighted counts, `h` their code, `N` unseen commands."""
        v, unseen = self._counts.vector(session)
        if not v.any():
            return self.unseen_distance * (unseen + 1)
        a = self._information * v / v.sum()  # the sum is L - N
        code = self._code(a, total=max(a.sum(), _FLOOR))  # its updates start with the sum that the optimum has
        return float(np.linalg.norm(a - self.basis_ @ code) * (unseen + 1))

    def update(self, session: Symbols) -> None:
        """Learn one more session by a few updates from the present factors, which get its row and its commands."""
        self._counts.add(session)
        A = self._weigh(self._counts.matrix())
        # New commands start with an average weight in every component, and the new session with its own code.
        new = np.full((len(A) - len(self.basis_), self.n_components), self.basis_.mean())
        self.basis_ = np.vstack([self.basis_, new])
        self.basis_ /= self.basis_.sum(axis=0)
        own_code = self._code(A[:, -1], total=max(A[:, -1].sum(), _FLOOR))
        self.codes_ = np.column_stack([self.codes_, own_code])
        self._iterate(A, self.n_iterations[2])


class WangNMF(_CountFactors):
    """The detector of Wang, Guan and Zhang (CDC 2004) as Mex-Perera et al. describe it.

    It factorises command frequencies by Kullback-Leibler NMF. The score is ``|sum(h) - 1|`` (equation 5), where `h` is
    the code of the session. Because the columns of `W` sum to 1, the optimum has ``sum(h) = sum(v)`` over the known
    commands: in the limit the score is the share of unseen commands.
    """

    def _learn(self, sessions: Sequence[Symbols]) -> None:
        """Factorise the relative frequencies of the commands in each session, a column each."""
        self._counts = _CountMatrix(sessions)
        V = self._counts.matrix()
        self._factorise(V / np.maximum(V.sum(axis=0), 1.0))

    def _score(self, session: Symbols) -> float:
        """Return ``|sum(h) - 1|`` for the code `h` of the session's command frequencies."""
        v = self._counts.vector(session)[0] / max(len(session), 1)  # (n_commands,); unseen commands are left out
        # the code starts with sum 1, which is also its optimum if no command is unseen
        return float(abs(self._code(v, total=1.0).sum() - 1))


class EigenCooccurrence(_Baseline):
    """Eigen co-occurrence matrices (Oka, Oyama, Kato, RAID 2004), without their layered networks.

    A session is described by how often command `j` follows command `i` within `scope` places; unseen commands share one
    row. Its score is the distance to the nearest training session in the space of the first `n_components` principal
    components, plus that to this space.
    """

    n_components, scope = 20, 6

    def _learn(self, sessions: Sequence[Symbols]) -> None:
        """Compute the principal components of the flattened co-occurrence matrices, and the sessions' coordinates."""
        self._rows: dict[Hashable, int] = {}
        for command in chain.from_iterable(sessions):
            self._rows.setdefault(command, len(self._rows))
        data = np.array([self._matrix(session) for session in sessions])
        self._mean = data.mean(axis=0)
        _, _, components = np.linalg.svd(data - self._mean, full_matrices=False)
        self._components = components[: self.n_components]
        self._features = (data - self._mean) @ self._components.T

    def _matrix(self, session: Symbols) -> Floats:
        """Return how often commands follow each other within `scope` places, per command of the session, flattened."""
        n = len(self._rows) + 1
        ids = np.array([self._rows.get(command, n - 1) for command in session], np.intp)
        matrix = np.zeros((n, n))
        for distance in range(1, min(self.scope, len(ids) - 1) + 1):
            np.add.at(matrix, (ids[:-distance], ids[distance:]), 1.0)
        return matrix.ravel() / max(len(ids), 1)

    def _score(self, session: Symbols) -> float:
        """Return the distance to the nearest training session among the components, plus that to their space."""
        x = self._matrix(session) - self._mean
        feature = self._components @ x
        # Pythagoras: the components are orthonormal; the difference may be slightly negative by rounding.
        outside = math.sqrt(max(0.0, x @ x - feature @ feature))
        return float(np.linalg.norm(self._features - feature, axis=1).min() + outside)


class HiddenMarkov(_Baseline):
    """A hidden Markov model of a user's commands: the mean of ``-log p`` over a session, in nats. It needs hmmlearn.

    All commands that are unseen in training share one symbol.
    """

    n_components, n_iterations = 5, 30

    def _learn(self, sessions: Sequence[Symbols]) -> None:
        """Fit the model to all sessions, and give each symbol a small probability in every state."""
        try:
            from hmmlearn.hmm import CategoricalHMM
        except ImportError:
            raise ParameterError(
                f"hmmlearn must be installed for the hidden Markov model; got none; {installed_by('dev')}"
            ) from None
        self._ids: dict[Hashable, int] = {}
        symbols = list(chain.from_iterable(sessions))
        for command in symbols:
            self._ids.setdefault(command, len(self._ids))
        n = len(self._ids) + 1  # one more symbol stands for all unseen commands
        self._model = CategoricalHMM(
            self.n_components, n_iter=self.n_iterations, random_state=0, n_features=n, emissionprob_prior=1.0
        )
        self._model.fit(self._column(symbols), [len(session) for session in sessions])
        # So no session has probability 0. The probabilities of the n symbols still sum to 1 in each state.
        self._model.emissionprob_ = (self._model.emissionprob_ + 1e-4) / (1 + 1e-4 * n)

    def _column(self, session: Symbols) -> NDArray[np.int64]:
        """Return the numbers of a session's commands (n_commands, 1); unknown ones share the last number."""
        return np.array([[self._ids.get(command, len(self._ids))] for command in session], np.int64)

    def _score(self, session: Symbols) -> float:
        """Return the mean of ``-log p`` over the commands by the fitted model, in nats; 0 for an empty session."""
        return float(-self._model.score(self._column(session)) / len(session)) if len(session) else 0.0


class NaiveBayes(_Baseline):
    """Multinomial naive Bayes of one class (Maxion, Townsend, DSN 2002): the mean of ``-log p`` over a session."""

    pseudo_count, vocabulary = 0.01, 1000  # added to the count of each command; commands that a user might type

    def _learn(self, sessions: Sequence[Symbols]) -> None:
        """Count the commands of all sessions together."""
        self._counts = Counter(chain.from_iterable(sessions))

    def _score(self, session: Symbols) -> float:
        """Return the mean of ``-log p`` over the commands, in nats, with frequencies smoothed by `pseudo_count`."""
        total = self._counts.total() + self.pseudo_count * self.vocabulary
        information = -sum(math.log((self._counts[command] + self.pseudo_count) / total) for command in session)
        return information / max(len(session), 1)
