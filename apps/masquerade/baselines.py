"""The model of Mex-Perera et al. to the letter, and the models it is measured against.

=========================  ===========================================================================================
:class:`MexPereraNMF`      weights, Kullback-Leibler NMF of rank 2, distance times new commands (their section 3)
:class:`WangNMF`           Kullback-Leibler NMF of frequencies, |sum of the codes - 1| (Wang, Guan, Zhang, CDC 2004)
:class:`EigenCooccurrence`  principal components of co-occurrence matrices (Oka, Oyama, Kato, RAID 2004), reduced
:class:`NaiveBayes`        multinomial, one class (Maxion, Townsend, DSN 2002, without the other users)
=========================  ===========================================================================================

All have ``fit(sessions)``, ``anomaly_score(sessions)`` (high means anomalous) and ``update(session)``, which learns a
session unconditionally: whoever calls it has accepted the session. They are yardsticks: use
:class:`~visionnmf.apps.masquerade.SessionScorer`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from visionnmf._checks import RandomState, check_count, check_generator, check_number, shown
from visionnmf.exceptions import ParameterError

__all__ = ["EigenCooccurrence", "MexPereraNMF", "NaiveBayes", "WangNMF"]

Symbols = Sequence[Hashable]
Floats = NDArray[np.float64]

_FLOOR = 1e-12  # under which no denominator of a multiplicative update falls (Lin 2007)


def _multiply_codes(A: Floats, W: Floats, H: Floats) -> Floats:
    """Equation (2) of the paper with WH for the printed VH, and with the sum of W that it leaves to (4)."""
    return H * (W.T @ (A / np.maximum(W @ H, _FLOOR))) / np.maximum(W.sum(axis=0)[:, None], _FLOOR)


def _multiply_basis(A: Floats, W: Floats, H: Floats) -> Floats:
    """Equations (3) and (4)."""
    W = W * ((A / np.maximum(W @ H, _FLOOR)) @ H.T)
    return W / np.maximum(W.sum(axis=0), _FLOOR)


def _check_iterations(value: tuple[int, ...], n: int) -> None:
    if not isinstance(value, tuple | list) or len(value) != n:
        raise ParameterError(f"n_iterations must be {n} whole numbers; got {shown(value)}")
    for count in value:
        check_count(count, "each of n_iterations", 0)


class _Counts:
    """Training sessions as a matrix (n_commands, n_sessions) of counts that grows."""

    def __init__(self, sessions: Iterable[Symbols]) -> None:
        self.rows: dict[Hashable, int] = {}
        self.columns: list[Counter[int]] = []
        for session in sessions:
            self.add(session)
        if not self.columns:
            raise ParameterError("X must hold at least one session; got none")

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


class MexPereraNMF(BaseEstimator):
    """The masquerade detector of Mex-Perera et al., section 3, to the letter.

    ``V[i, m]`` is the count of command `i` in session `m` of length `L`, `N` the number of commands of the session
    never seen in training, ``p_i`` the share of command `i` in the training data. With ``alpha = -log(p_i) / (L - N)``
    and ``A = alpha * V``, training is `n_iterations[0]` multiplicative updates of ``A ~ WH`` in the Kullback-Leibler
    divergence from a random start, columns of `W` summing to 1; a test session is coded by `n_iterations[1]` updates of
    its code; its score is ``||a - W h||_2 (N + 1)`` (6). An accepted session joins the counts, so that `p` and the
    known commands follow, then `n_iterations[2]` updates of both factors run from where they are.

    A session of unseen commands alone has ``L = N``: the weights are 0/0 and the paper does not say what then. Taken
    literally, no known command is there to be far from, the distance is 0, and the purest masquerade passes.

    Parameters
    ----------
    n_components : int, default=2
    n_iterations : tuple of three int, default=(50, 10, 2)
        Updates in training, for a test session, after an accepted session.
    unseen_distance : float, default=1.0
        The distance of a session of unseen commands alone; 0 for the literal reading.
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

    def fit(self, X: Sequence[Symbols]) -> MexPereraNMF:
        """Learn one user's habits.

        Parameters
        ----------
        X : sequence of sequences of hashable symbols
            The user's sessions.

        Returns
        -------
        MexPereraNMF
            The model itself.

        Raises
        ------
        ParameterError
            If there is no session, or a parameter is not allowed.
        """
        check_count(self.n_components, "n_components")
        _check_iterations(self.n_iterations, 3)
        check_number(self.unseen_distance, "unseen_distance")
        rng = check_generator(self.random_state)
        self._counts = _Counts(X)
        A = self._weigh(self._counts.matrix())
        self.basis_ = rng.uniform(0.1, 1.0, (len(A), self.n_components))
        self.basis_ /= self.basis_.sum(axis=0)
        self.codes_ = rng.uniform(0.1, 1.0, (self.n_components, A.shape[1]))
        self._iterate(A, self.n_iterations[0])
        return self

    def _weigh(self, V: Floats) -> Floats:
        p = V.sum(axis=1) / V.sum()
        self._information = -np.log(p)
        return self._information[:, None] * V / np.maximum(V.sum(axis=0), 1.0)

    def _iterate(self, A: Floats, n: int) -> None:
        for _ in range(n):
            self.codes_ = _multiply_codes(A, self.basis_, self.codes_)
            self.basis_ = _multiply_basis(A, self.basis_, self.codes_)

    def _code(self, a: Floats) -> Floats:
        h = np.full((self.n_components, 1), max(a.sum(), _FLOOR) / self.n_components)
        for _ in range(self.n_iterations[1]):
            h = _multiply_codes(a[:, None], self.basis_, h)
        return h[:, 0]

    def anomaly_score(self, X: Sequence[Symbols]) -> Floats:
        """Return how anomalous each session is: (6).

        Parameters
        ----------
        X : sequence of sequences of hashable symbols
            Sessions.

        Returns
        -------
        ndarray [shape=(n_sessions,), >= 0, float64]
            High means anomalous.
        """
        return np.array([self._score(session) for session in X])

    def _score(self, session: Symbols) -> float:
        v, unseen = self._counts.vector(session)
        if not v.any():
            return self.unseen_distance * (unseen + 1)
        a = self._information * v / v.sum()
        return float(np.linalg.norm(a - self.basis_ @ self._code(a)) * (unseen + 1))

    def update(self, session: Symbols) -> None:
        """Add an accepted session to the profile.

        Parameters
        ----------
        session : sequence of hashable symbols
            The session.
        """
        self._counts.add(session)
        A = self._weigh(self._counts.matrix())
        new = np.full((len(A) - len(self.basis_), self.n_components), self.basis_.mean())
        self.basis_ = np.vstack([self.basis_, new])
        self.basis_ /= self.basis_.sum(axis=0)
        self.codes_ = np.column_stack([self.codes_, self._code(A[:, -1])])
        self._iterate(A, self.n_iterations[2])


class WangNMF(BaseEstimator):
    """The detector of Wang, Guan and Zhang (CDC 2004) as Mex-Perera et al. describe it.

    Kullback-Leibler NMF of command frequencies; the score is ``|sum(h) - 1|`` (5), `h` the code of the session. With
    columns of `W` that sum to 1, the optimum has ``sum(h) = sum(v)`` over the known commands: in the limit the score is
    the share of unseen commands.

    Parameters
    ----------
    n_components : int, default=2
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

    def fit(self, X: Sequence[Symbols]) -> WangNMF:
        """Learn one user's habits.

        Parameters
        ----------
        X : sequence of sequences of hashable symbols
            The user's sessions.

        Returns
        -------
        WangNMF
            The model itself.

        Raises
        ------
        ParameterError
            If there is no session, or a parameter is not allowed.
        """
        check_count(self.n_components, "n_components")
        _check_iterations(self.n_iterations, 2)
        check_generator(self.random_state)
        self._counts = _Counts(X)
        self._fit()
        return self

    def _fit(self) -> None:
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

    def anomaly_score(self, X: Sequence[Symbols]) -> Floats:
        """Return how anomalous each session is: (5).

        Parameters
        ----------
        X : sequence of sequences of hashable symbols
            Sessions.

        Returns
        -------
        ndarray [shape=(n_sessions,), >= 0, float64]
            High means anomalous.
        """
        scores = []
        for session in X:
            v = self._counts.vector(session)[0][:, None] / max(len(session), 1)
            h = np.full((self.n_components, 1), 1.0 / self.n_components)
            for _ in range(self.n_iterations[1]):
                h = _multiply_codes(v, self.basis_, h)
            scores.append(abs(h.sum() - 1))
        return np.array(scores)

    def update(self, session: Symbols) -> None:
        """Add an accepted session and learn anew.

        Parameters
        ----------
        session : sequence of hashable symbols
            The session.
        """
        self._counts.add(session)
        self._fit()


class EigenCooccurrence(BaseEstimator):
    """Eigen co-occurrence matrices (Oka, Oyama, Kato, RAID 2004), without their layered networks.

    A session is the matrix of how often command `j` follows command `i` within `scope` places; unseen commands share
    one row. Its score is the distance to the nearest training session in the space of the `n_components` principal
    components of the training matrices, plus its distance to that space. The networks with which the authors compare
    sessions in that space are not reproduced.

    Parameters
    ----------
    n_components : int, default=20
        Principal components.
    scope : int, default=6
        Places, the authors' value.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import EigenCooccurrence
    >>> EigenCooccurrence().fit([["ls", "cd", "make", "vi"] * 5] * 9).anomaly_score([["ls", "cd"] * 9]).shape
    (1,)
    """

    def __init__(self, n_components: int = 20, *, scope: int = 6) -> None:
        self.n_components = n_components
        self.scope = scope

    def fit(self, X: Sequence[Symbols]) -> EigenCooccurrence:
        """Learn one user's habits.

        Parameters
        ----------
        X : sequence of sequences of hashable symbols
            The user's sessions.

        Returns
        -------
        EigenCooccurrence
            The model itself.

        Raises
        ------
        ParameterError
            If there is no session, or a parameter is not allowed.
        """
        check_count(self.n_components, "n_components")
        check_count(self.scope, "scope")
        self._sessions = [list(session) for session in X]
        if not self._sessions:
            raise ParameterError("X must hold at least one session; got none")
        self._fit()
        return self

    def _fit(self) -> None:
        self._rows: dict[Hashable, int] = {}
        for session in self._sessions:
            for command in session:
                self._rows.setdefault(command, len(self._rows))
        data = np.array([self._matrix(session) for session in self._sessions])
        self._mean = data.mean(axis=0)
        _, _, components = np.linalg.svd(data - self._mean, full_matrices=False)
        self._components = components[: self.n_components]
        self._features = (data - self._mean) @ self._components.T

    def _matrix(self, session: Symbols) -> Floats:
        n = len(self._rows) + 1
        ids = np.array([self._rows.get(command, n - 1) for command in session], np.intp)
        matrix = np.zeros((n, n))
        for distance in range(1, min(self.scope, len(ids) - 1) + 1):
            np.add.at(matrix, (ids[:-distance], ids[distance:]), 1.0)
        return matrix.ravel() / max(len(ids), 1)

    def anomaly_score(self, X: Sequence[Symbols]) -> Floats:
        """Return how anomalous each session is: the distances.

        Parameters
        ----------
        X : sequence of sequences of hashable symbols
            Sessions.

        Returns
        -------
        ndarray [shape=(n_sessions,), >= 0, float64]
            High means anomalous.
        """
        scores = []
        for session in X:
            x = self._matrix(session) - self._mean
            feature = self._components @ x
            outside = math.sqrt(max(0.0, x @ x - feature @ feature))
            scores.append(np.linalg.norm(self._features - feature, axis=1).min() + outside)
        return np.array(scores)

    def update(self, session: Symbols) -> None:
        """Add an accepted session and learn anew.

        Parameters
        ----------
        session : sequence of hashable symbols
            The session.
        """
        self._sessions.append(list(session))
        self._fit()


class NaiveBayes(BaseEstimator):
    """One-class multinomial naive Bayes: the mean of ``-log p`` over a session's commands.

    Parameters
    ----------
    pseudo_count : float, default=0.01
        Added to every command's count.
    vocabulary : int, default=1000
        Commands that a user might type.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import NaiveBayes
    >>> NaiveBayes().fit([["ls", "cd", "make", "vi"] * 5] * 9).anomaly_score([["ls", "cd"] * 9]).shape
    (1,)
    """

    def __init__(self, *, pseudo_count: float = 0.01, vocabulary: int = 1000) -> None:
        self.pseudo_count = pseudo_count
        self.vocabulary = vocabulary

    def fit(self, X: Sequence[Symbols]) -> NaiveBayes:
        """Learn one user's habits.

        Parameters
        ----------
        X : sequence of sequences of hashable symbols
            The user's sessions.

        Returns
        -------
        NaiveBayes
            The model itself.

        Raises
        ------
        ParameterError
            If there is no session, or a parameter is not allowed.
        """
        check_number(self.pseudo_count, "pseudo_count", without_low=True)
        check_count(self.vocabulary, "vocabulary")
        if not len(X):
            raise ParameterError("X must hold at least one session; got none")
        self._counts: Counter[Hashable] = Counter()
        for session in X:
            self.update(session)
        return self

    def anomaly_score(self, X: Sequence[Symbols]) -> Floats:
        """Return how anomalous each session is: the mean code length in nats.

        Parameters
        ----------
        X : sequence of sequences of hashable symbols
            Sessions.

        Returns
        -------
        ndarray [shape=(n_sessions,), >= 0, float64]
            High means anomalous.
        """
        total = self._counts.total() + self.pseudo_count * self.vocabulary
        return np.array(
            [
                -sum(math.log((self._counts[command] + self.pseudo_count) / total) for command in session)
                / max(len(session), 1)
                for session in X
            ]
        )

    def update(self, session: Symbols) -> None:
        """Add an accepted session.

        Parameters
        ----------
        session : sequence of hashable symbols
            The session.
        """
        self._counts.update(session)
