"""The NMF models of Mex-Perera et al. (exactly as published) and of Wang, Guan and Zhang, for comparison.

To detect masqueraders use :class:`~visionnmf.apps.masquerade.SessionScorer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from visionnmf._checks import RandomState, check_count, check_generator, check_number, shown
from visionnmf.exceptions import ParameterError

__all__ = ["MexPereraNMF", "WangNMF"]

Symbols = Sequence[Hashable]
Floats = NDArray[np.float64]

_FLOOR = 1e-12  # lower bound for the denominators of multiplicative updates (Lin 2007)


def _multiply_codes(A: Floats, W: Floats, H: Floats) -> Floats:
    """Update the codes by equation (2) of the paper.

    The paper prints VH where WH is meant, and leaves the division by the sums of W to equation (4).
    """
    return H * (W.T @ (A / np.maximum(W @ H, _FLOOR))) / np.maximum(W.sum(axis=0)[:, None], _FLOOR)


def _multiply_basis(A: Floats, W: Floats, H: Floats) -> Floats:
    """Update the basis by equations (3) and (4)."""
    W = W * ((A / np.maximum(W @ H, _FLOOR)) @ H.T)
    return W / np.maximum(W.sum(axis=0), _FLOOR)


def _check_iterations(value: tuple[int, ...], n: int) -> None:
    """Raise ParameterError unless `value` holds `n` numbers of iterations."""
    if not isinstance(value, tuple | list) or len(value) != n:
        raise ParameterError(f"n_iterations must be {n} whole numbers; got {shown(value)}")
    for count in value:
        check_count(count, "each of n_iterations", 0)


class _CountMatrix:
    """Counts of the commands in the training sessions, (n_commands, n_sessions); sessions can be added."""

    def __init__(self, sessions: Iterable[Symbols]) -> None:
        self.rows: dict[Hashable, int] = {}
        self.columns: list[Counter[int]] = []
        for session in sessions:
            self.add(session)

    def add(self, session: Symbols) -> None:
        self.columns.append(Counter(self.rows.setdefault(command, len(self.rows)) for command in session))

    def matrix(self) -> Floats:
        V = np.zeros((len(self.rows), len(self.columns)))
        for column, counts in enumerate(self.columns):
            V[list(counts.keys()), column] = list(counts.values())
        return V

    def vector(self, session: Symbols) -> tuple[Floats, int]:
        """Return the counts of the known commands, and the number of commands never seen in training."""
        v = np.zeros(len(self.rows))
        unseen = 0
        for command, count in Counter(session).items():
            if command in self.rows:
                v[self.rows[command]] = count
            else:
                unseen += count
        return v, unseen


class _Detector(ABC, BaseEstimator):
    """What the two models share: sessions in, anomaly scores out, where a high score means an anomalous session."""

    def fit(self, X: Sequence[Symbols]) -> Self:
        """Learn one user's habits from sessions, which are sequences of hashable symbols."""
        self._check_parameters()
        if not len(X):
            raise ParameterError("X must hold at least one session; got none")
        self._counts = _CountMatrix(X)
        self._learn()
        return self

    def anomaly_score(self, X: Sequence[Symbols]) -> Floats:
        """Return how anomalous each session is, (n_sessions,)."""
        return np.array([self._score(session) for session in X])

    def update(self, session: Symbols) -> None:
        """Learn one more session; the caller has decided that it is the user's."""
        self._counts.add(session)
        self._learn_on()

    @abstractmethod
    def _check_parameters(self) -> None: ...

    @abstractmethod
    def _learn(self) -> None:
        """Learn the sessions in `_counts`."""

    @abstractmethod
    def _learn_on(self) -> None:
        """Learn that a session has joined `_counts`."""

    @abstractmethod
    def _score(self, session: Symbols) -> float: ...


class MexPereraNMF(_Detector):
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

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_iterations: tuple[int, int, int] = (50, 10, 2),
        unseen_distance: float = 1.0,
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.n_iterations = n_iterations
        self.unseen_distance = unseen_distance
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_count(self.n_components, "n_components")
        _check_iterations(self.n_iterations, 3)
        check_number(self.unseen_distance, "unseen_distance")
        check_generator(self.random_state)

    def _learn(self) -> None:
        rng = check_generator(self.random_state)
        A = self._weigh(self._counts.matrix())
        self.basis_ = rng.uniform(0.1, 1.0, (len(A), self.n_components))
        self.basis_ /= self.basis_.sum(axis=0)
        self.codes_ = rng.uniform(0.1, 1.0, (self.n_components, A.shape[1]))
        self._iterate(A, self.n_iterations[0])

    def _weigh(self, V: Floats) -> Floats:
        """Return the counts (n_commands, n_sessions) times ``-log(p) / L``, and keep ``-log(p)``."""
        self._information = -np.log(V.sum(axis=1) / V.sum())
        return self._information[:, None] * V / np.maximum(V.sum(axis=0), 1.0)

    def _iterate(self, A: Floats, n: int) -> None:
        for _ in range(n):
            self.codes_ = _multiply_codes(A, self.basis_, self.codes_)
            self.basis_ = _multiply_basis(A, self.basis_, self.codes_)

    def _code(self, a: Floats) -> Floats:
        """Return the code (n_components,) of a session's weighted counts (n_commands,), from an even start."""
        h = np.full((self.n_components, 1), max(a.sum(), _FLOOR) / self.n_components)
        for _ in range(self.n_iterations[1]):
            h = _multiply_codes(a[:, None], self.basis_, h)
        return h[:, 0]

    def _score(self, session: Symbols) -> float:
        v, unseen = self._counts.vector(session)
        if not v.any():
            return self.unseen_distance * (unseen + 1)
        a = self._information * v / v.sum()
        return float(np.linalg.norm(a - self.basis_ @ self._code(a)) * (unseen + 1))

    def _learn_on(self) -> None:
        # New commands start with an average weight in every component, and the new session with its own code.
        A = self._weigh(self._counts.matrix())
        new = np.full((len(A) - len(self.basis_), self.n_components), self.basis_.mean())
        self.basis_ = np.vstack([self.basis_, new])
        self.basis_ /= self.basis_.sum(axis=0)
        self.codes_ = np.column_stack([self.codes_, self._code(A[:, -1])])
        self._iterate(A, self.n_iterations[2])


class WangNMF(_Detector):
    """The detector of Wang, Guan and Zhang (CDC 2004) as Mex-Perera et al. describe it.

    It factorises command frequencies by Kullback-Leibler NMF. The score is ``|sum(h) - 1|`` (equation 5), where `h` is
    the code of the session. Because the columns of `W` sum to 1, the optimum has ``sum(h) = sum(v)`` over the known
    commands: in the limit the score is the share of unseen commands. `update` learns all sessions again.

    Parameters
    ----------
    n_components : int, default=2
        Rank of the factorisation.
    n_iterations : tuple of two int, default=(50, 10)
        Updates in training and for a test session.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the start.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import WangNMF
    >>> WangNMF().fit([["ls", "cd", "make", "vi"] * 5] * 9).anomaly_score([["ls", "cd"] * 9]).shape
    (1,)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_iterations: tuple[int, int] = (50, 10),
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.n_iterations = n_iterations
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_count(self.n_components, "n_components")
        _check_iterations(self.n_iterations, 2)
        check_generator(self.random_state)

    def _learn(self) -> None:
        """Factorise the relative frequencies of commands (n_commands, n_sessions) from a random start; set `basis_`."""
        rng = check_generator(self.random_state)
        V = self._counts.matrix()
        V /= np.maximum(V.sum(axis=0), 1.0)
        W = rng.uniform(0.1, 1.0, (len(V), self.n_components))
        W /= W.sum(axis=0)
        H = rng.uniform(0.1, 1.0, (self.n_components, V.shape[1]))
        for _ in range(self.n_iterations[0]):
            H = _multiply_codes(V, W, H)
            W = _multiply_basis(V, W, H)
        self.basis_ = W

    def _score(self, session: Symbols) -> float:
        v = self._counts.vector(session)[0][:, None] / max(len(session), 1)
        h = np.full((self.n_components, 1), 1.0 / self.n_components)
        for _ in range(self.n_iterations[1]):
            h = _multiply_codes(v, self.basis_, h)
        return float(abs(h.sum() - 1))

    def _learn_on(self) -> None:
        self._learn()
