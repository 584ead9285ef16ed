"""The model of Mex-Perera et al. exactly as published, and the models that it is compared with.

==========================  ==========================================================================================
:class:`MexPereraNMF`       Kullback-Leibler NMF of weighted counts, distance times unseen commands (their section 3)
:class:`WangNMF`            Kullback-Leibler NMF of frequencies, |sum of the codes - 1| (Wang, Guan, Zhang, CDC 2004)
:class:`EigenCooccurrence`  principal components of co-occurrence matrices (Oka, Oyama, Kato, RAID 2004), simplified
:class:`HiddenMarkov`       a hidden Markov model of the sequence of commands; needs hmmlearn
:class:`NaiveBayes`         multinomial, one class (Maxion, Townsend, DSN 2002, without the other users)
==========================  ==========================================================================================

They are here for comparison. To detect masqueraders use :class:`~visionnmf.apps.masquerade.SessionScorer`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from visionnmf._checks import RandomState, check_count, check_generator, check_number, shown
from visionnmf.exceptions import ParameterError, installed_by

Symbols = Sequence[Hashable]
Floats = NDArray[np.float64]

_FLOOR = 1e-12  # lower bound for the denominators of multiplicative updates (Lin 2007)


def _multiply_codes(A: Floats, W: Floats, H: Floats) -> Floats:
    """Update the codes H (r, m) of ``A ~ W H`` by equation (2) of Mex-Perera et al.; A is (n, m), basis W (n, r)."""
    # the multiplicative update of the Kullback-Leibler divergence
    return H * (W.T @ (A / np.maximum(W @ H, _FLOOR))) / np.maximum(W.sum(axis=0)[:, None], _FLOOR)


def _multiply_basis(A: Floats, W: Floats, H: Floats) -> Floats:
    """Update the basis W (n, r) by equations (3) and (4) of Mex-Perera et al.: A (n, m) ~ W H, codes H (r, m)."""
    # (4) scales its columns to sum 1
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
        # `columns` has for each session the counts by row, and `rows` the row of each command.
        V = np.zeros((len(self.rows), len(self.columns)))
        for column, counts in enumerate(self.columns):
            V[list(counts.keys()), column] = list(counts.values())
        return V

    def vector(self, session: Symbols) -> tuple[Floats, int]:
        """Return the counts (n_commands,) of the known commands in a session, and the number of its other commands."""
        # `rows` has the row of each command that was counted so far.
        v = np.zeros(len(self.rows))
        unseen = 0
        for command, count in Counter(session).items():
            if command in self.rows:
                v[self.rows[command]] = count
            else:
                unseen += count
        return v, unseen


class _Baseline(ABC, BaseEstimator):
    """What the models share: sessions in, anomaly scores out, where a high score means an anomalous session."""

    def fit(self, X: Sequence[Symbols]) -> Self:
        """Learn one user's habits from sessions, which are sequences of hashable symbols."""
        if not len(X):
            raise ParameterError("X must hold at least one session; got none")
        self._check_parameters()
        self._sessions = [list(session) for session in X]
        self._learn(self._sessions)
        return self

    def update(self, session: Symbols) -> None:
        """Learn one more session, here by learning all of them, `_sessions`, again; it is known to be the user's."""
        self._sessions.append(list(session))
        self._learn(self._sessions)

    def anomaly_score(self, X: Sequence[Symbols]) -> Floats:
        """Return how anomalous each session is, (n_sessions,)."""
        return np.array([self._score(session) for session in X])

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise ParameterError for a wrong parameter."""

    @abstractmethod
    def _learn(self, sessions: Sequence[Symbols]) -> None:
        """Learn from these sessions alone."""

    @abstractmethod
    def _score(self, session: Symbols) -> float:
        """Return how anomalous one session is."""


class _CountFactors(_Baseline):
    """What the two NMF models share: ``A ~ basis_ codes_`` of weighted counts, (n_commands, n_sessions).

    The factors minimise the Kullback-Leibler divergence by multiplicative updates from a random start. The columns of
    the basis (n_commands, n_components) sum to 1.
    """

    n_stages = 2  # for each of which `n_iterations` has a number: training, and coding a test session

    def __init__(
        self, n_components: int = 2, *, n_iterations: tuple[int, ...] = (50, 10), random_state: RandomState = 0
    ) -> None:
        """Keep the rank, the numbers of updates in training and for the code of a test session, and the seed."""
        self.n_components = n_components
        self.n_iterations = n_iterations
        self.random_state = random_state

    def _check_parameters(self) -> None:
        """Raise ParameterError for a wrong parameter; there is a number of iterations for each of `n_stages`."""
        check_count(self.n_components, "n_components")
        if not isinstance(self.n_iterations, tuple | list) or len(self.n_iterations) != self.n_stages:
            raise ParameterError(f"n_iterations must be {self.n_stages} whole numbers; got {shown(self.n_iterations)}")
        for count in self.n_iterations:
            check_count(count, "each of n_iterations", 0)
        check_generator(self.random_state)

    def _factorise(self, A: Floats) -> None:
        """Set `basis_` (n_commands, n_components) and `codes_` (n_components, n_sessions) with ``A ~ basis_ codes_``.

        `A` (n_commands, n_sessions) are weighted counts. `n_iterations[0]` updates start from random factors; the
        columns of the basis sum to 1.
        """
        rng = check_generator(self.random_state)
        self.basis_ = rng.uniform(0.1, 1.0, (len(A), self.n_components))
        self.basis_ /= self.basis_.sum(axis=0)
        self.codes_ = rng.uniform(0.1, 1.0, (self.n_components, A.shape[1]))
        self._iterate(A, self.n_iterations[0])

    def _iterate(self, A: Floats, n: int) -> None:
        """Continue the factorisation ``A ~ basis_ codes_`` with `n` updates of codes and basis, one after the other."""
        # `A` is (n_commands, n_sessions), weighted counts of commands.
        for _ in range(n):
            self.codes_ = _multiply_codes(A, self.basis_, self.codes_)
            self.basis_ = _multiply_basis(A, self.basis_, self.codes_)

    def _code(self, a: Floats, total: float) -> Floats:
        """Return a session's code (n_components,); updates start from equal entries with the sum `total`."""
        # `a` (n_commands,) are the session's weighted counts, and `basis_` (n_commands, n_components) the components.
        # `n_iterations` are the numbers of updates in training and for the code of a new session.
        h = np.full((self.n_components, 1), total / self.n_components)  # a column, as the updates take codes
        for _ in range(self.n_iterations[1]):
            h = _multiply_codes(a[:, None], self.basis_, h)
        return h[:, 0]


class MexPereraNMF(_CountFactors):
    """The masquerade detector of Mex-Perera et al., section 3, exactly as published.

    ``V[i, m]`` is the count of command `i` in session `m` of length `L`, `N` is the number of commands of the session
    never seen in training, and ``p_i`` is the share of command `i` in the training data. With ``alpha = -log(p_i) /
    (L - N)`` and ``A = alpha * V``, training runs `n_iterations[0]` multiplicative updates of ``A ~ WH`` in the
    Kullback-Leibler divergence from a random start, with the columns of `W` summing to 1. A test session is coded by
    `n_iterations[1]` updates of its code `h`, and its score is ``||a - W h||_2 (N + 1)`` (equation 6). An accepted
    session joins the counts, which changes `p` and the known commands. Then `n_iterations[2]` updates of both factors
    continue from the current factors.

    For a session that consists of unseen commands only, ``L = N`` and the weights are 0/0. The paper does not say what
    to do then. Taken literally, the distance is 0 and the clearest masquerade passes.

    Parameters
    ----------
    n_components : int, default=2
        Rank of the factorisation.
    n_iterations : tuple of three int, default=(50, 10, 2)
        Updates in training, for a test session, and after an accepted session.
    unseen_distance : float, default=1.0
        The distance of a session that consists of unseen commands only; 0 is the literal reading.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the starts.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import MexPereraNMF
    >>> MexPereraNMF().fit([["ls", "cd", "make", "vi"] * 5] * 9).anomaly_score([["ls", "cd"] * 9]).shape
    (1,)
    """

    n_stages = 3  # the third is that after an accepted session

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_iterations: tuple[int, int, int] = (50, 10, 2),
        unseen_distance: float = 1.0,
        random_state: RandomState = 0,
    ) -> None:
        """Keep the rank, the distance of a session of unseen commands alone, the seed, and the numbers of updates.

        These are the updates in training, for the code of a new session, and when a session is learnt.
        """
        super().__init__(n_components, n_iterations=n_iterations, random_state=random_state)
        self.unseen_distance = unseen_distance

    def _check_parameters(self) -> None:
        """Raise ParameterError for a wrong parameter, also for a distance of unseen commands that is not a number."""
        super()._check_parameters()
        check_number(self.unseen_distance, "unseen_distance")

    def _learn(self, sessions: Sequence[Symbols]) -> None:
        """Count the commands of the sessions, and factorise the counts as weighted by `_weigh`."""
        self._counts = _CountMatrix(sessions)
        self._factorise(self._weigh(self._counts.matrix()))

    def _weigh(self, V: Floats) -> Floats:
        """Return the counts times ``-log(p) / L``: `p` is a command's share of all, `L` the session's length."""
        # `V` are the counts (n_commands, n_sessions). ``-log(p)``, (n_commands,), is kept as `_information` for new
        # sessions.
        self._information = -np.log(V.sum(axis=1) / V.sum())
        return self._information[:, None] * V / np.maximum(V.sum(axis=0), 1.0)

    def _score(self, session: Symbols) -> float:
        """Return ``||a - W h||_2 (N + 1)``: `a` (n_commands,) weighted counts, `h` their code, `N` unseen commands."""
        # `_counts` are those of the training sessions. v (n_commands,) are the session's counts of the commands in
        # them; their sum is L - N of Mex-Perera et al. `_information` is -log(p), with p the share of a command in
        # training.
        v, unseen = self._counts.vector(session)
        if not v.any():
            # no command is known: `a` would be 0/0, so the distance is a parameter
            return self.unseen_distance * (unseen + 1)
        a = self._information * v / v.sum()
        code = self._code(a, total=max(a.sum(), _FLOOR))  # its updates start with the sum that the optimum has
        return float(np.linalg.norm(a - self.basis_ @ code) * (unseen + 1))

    def update(self, session: Symbols) -> None:
        """Learn one more session by a few updates from the present factors of the weighted counts `A`.

        These are `basis_` (n_commands, n_components), which gets rows for new commands, and `codes_` (n_components,
        n_sessions), which gets a column for the session.
        """
        self._counts.add(session)
        A = self._weigh(self._counts.matrix())  # (n_commands, n_sessions), with the new commands and the new session
        # New commands start with an average weight in every component, and the new session with its own code.
        new = np.full((len(A) - len(self.basis_), self.n_components), self.basis_.mean())
        self.basis_ = np.vstack([self.basis_, new])
        self.basis_ /= self.basis_.sum(axis=0)
        # its updates start from a code with the sum of the session's counts, because components have the sum 1
        own_code = self._code(A[:, -1], total=max(A[:, -1].sum(), _FLOOR))
        self.codes_ = np.column_stack([self.codes_, own_code])
        _, _, after_session = self.n_iterations  # updates in training, for a code, and when a session is learnt
        self._iterate(A, after_session)


class WangNMF(_CountFactors):
    """The detector of Wang, Guan and Zhang (CDC 2004) as Mex-Perera et al. describe it.

    It factorises command frequencies by Kullback-Leibler NMF, with `n_iterations` updates in training and for a test
    session. The score is ``|sum(h) - 1|`` (equation 5), where `h` is the code of the session. Because the columns of
    `W` sum to 1, the optimum has ``sum(h) = sum(v)`` over the known commands: in the limit the score is the share of
    unseen commands. `update` learns all sessions again.
    """

    def _learn(self, sessions: Sequence[Symbols]) -> None:
        """Factorise the relative frequencies of the commands in each session, a column each; `_counts` count them."""
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
    components, plus that to this space. `update` learns all sessions again.
    """

    def __init__(self, n_components: int = 20, *, scope: int = 6) -> None:
        """Keep the maximum number of principal components, and how far behind a command another one follows it."""
        self.n_components = n_components
        self.scope = scope

    def _check_parameters(self) -> None:
        """Raise ParameterError for a wrong parameter."""
        check_count(self.n_components, "n_components")
        check_count(self.scope, "scope")

    def _learn(self, sessions: Sequence[Symbols]) -> None:
        """Compute the principal components of the flattened co-occurrence matrices, and the sessions' coordinates."""
        # `_rows` gives each command its row in a matrix. `_mean` (n_pairs,) and `_components` (r, n_pairs) are of the
        # flattened matrices, and `_features` (n_sessions, r) the sessions' coordinates.
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
        # `_rows` has the row of each command seen in training; all others share the last row.
        n = len(self._rows) + 1
        ids = np.array([self._rows.get(command, n - 1) for command in session], np.intp)
        matrix = np.zeros((n, n))
        for distance in range(1, min(self.scope, len(ids) - 1) + 1):
            np.add.at(matrix, (ids[:-distance], ids[distance:]), 1.0)
        return matrix.ravel() / max(len(ids), 1)

    def _score(self, session: Symbols) -> float:
        """Return the distance to the nearest training session among the components, plus that to their space."""
        # `_matrix` counts for each pair of commands how often one follows the other closely. `_mean` (n_pairs,) and
        # `_components` (r, n_pairs) are of the flattened matrices of the training sessions, whose coordinates are
        # `_features` (n_sessions, r).
        x = self._matrix(session) - self._mean
        feature = self._components @ x
        # Pythagoras: the components are orthonormal; the difference may be slightly negative by rounding.
        outside = math.sqrt(max(0.0, x @ x - feature @ feature))
        return float(np.linalg.norm(self._features - feature, axis=1).min() + outside)


class HiddenMarkov(_Baseline):
    """A hidden Markov model of a user's commands: the mean of ``-log p`` over a session, in nats.

    All commands that are unseen in training share one symbol. It needs hmmlearn. `update` learns all sessions again.
    """

    def __init__(self, n_components: int = 5, *, n_iterations: int = 30, random_state: int = 0) -> None:
        """Keep the number of states, the maximum number of steps of expectation maximisation, and the seed."""
        self.n_components = n_components
        self.n_iterations = n_iterations
        self.random_state = random_state

    def _check_parameters(self) -> None:
        """Raise ParameterError for a wrong parameter."""
        check_count(self.n_components, "n_components")
        check_count(self.n_iterations, "n_iterations")
        check_generator(self.random_state)

    def _learn(self, sessions: Sequence[Symbols]) -> None:
        """Fit the model to all sessions, and give each symbol a small probability in every state."""
        # `_ids` numbers the commands of the sessions in the order of their first occurrence.
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
            self.n_components,
            n_iter=self.n_iterations,
            random_state=self.random_state,
            n_features=n,
            emissionprob_prior=1.0,
        )
        self._model.fit(self._column(symbols), [len(session) for session in sessions])
        # So no session has probability 0. The probabilities of the n symbols still sum to 1 in each state.
        self._model.emissionprob_ = (self._model.emissionprob_ + 1e-4) / (1 + 1e-4 * n)

    def _column(self, session: Symbols) -> NDArray[np.int64]:
        """Return the numbers of a session's commands (n_commands, 1); unknown ones share the last number."""
        # `_ids` has the numbers of the commands seen in training. hmmlearn takes symbols as a column.
        return np.array([[self._ids.get(command, len(self._ids))] for command in session], np.int64)

    def _score(self, session: Symbols) -> float:
        """Return the mean of ``-log p`` over the commands by the fitted model, in nats; 0 for an empty session."""
        return float(-self._model.score(self._column(session)) / len(session)) if len(session) else 0.0


class NaiveBayes(_Baseline):
    """One-class multinomial naive Bayes: the mean of ``-log p`` over a session's commands, in nats."""

    def __init__(self, *, pseudo_count: float = 0.01, vocabulary: int = 1000) -> None:
        """Keep what is added to the count of every command, and the number of commands that a user might type."""
        self.pseudo_count = pseudo_count
        self.vocabulary = vocabulary

    def _check_parameters(self) -> None:
        """Raise ParameterError for a wrong parameter."""
        check_number(self.pseudo_count, "pseudo_count", without_low=True)  # > 0
        check_count(self.vocabulary, "vocabulary")

    def _learn(self, sessions: Sequence[Symbols]) -> None:
        """Count the commands of all sessions together."""
        self._counts = Counter(chain.from_iterable(sessions))

    def _score(self, session: Symbols) -> float:
        """Return the mean of ``-log p`` over the commands, in nats, with frequencies smoothed by `pseudo_count`."""
        # `_counts` has how often each command occurs in training. `vocabulary` is the number of commands that a user
        # might type, each of which counts `pseudo_count` more.
        total = self._counts.total() + self.pseudo_count * self.vocabulary
        information = -sum(math.log((self._counts[command] + self.pseudo_count) / total) for command in session)
        return information / max(len(session), 1)
