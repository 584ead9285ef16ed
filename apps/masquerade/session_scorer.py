"""The anomaly score of a session, from one user's habits as counts.

**Score.** Let ``d(c)`` be the number of training sessions that contain command `c`, ``d(b, c)`` the number of those
that contain `c` right after `b`, and let dots stand for sums. With

    p(c) = (d(c) + a) / (d(.) + a V),        p(c | b) = (d(b, c) + l p(c)) / (d(b, .) + l)

the cost of a session is the mean of ``-log p(c)`` over its commands, plus the mean of ``-log p(c | b)`` over its pairs
of successive commands, plus 0.2 for each new command in a hundred (counted once however often it is repeated). Sessions
are counted instead of commands, because a command that is repeated a hundred times in one afternoon is one habit. The
anomaly score is the difference of the cost from the user's usual cost, in deviations. The constants are named in
:mod:`visionnmf.apps.masquerade.profile` and below.

**Calibration.** The usual cost and its deviation come from forward chaining: the first third of the training sessions
scores the second, and the first two thirds score the last, so that the drift of habits is included. Both are shrunk
towards constants, half-way with 50 training sessions. The alarm threshold is the Student quantile of the chosen false
alarm rate. Training sessions far from all others may be another person's: they have a quarter of the weight in the
profile and none in the calibration.

**Learning on** (:meth:`SessionScorer.update`). A session below the threshold joins the profile, and one above it joins
with a weight of 3 %. So a lasting change of habits is learnt in the end, and so is a masquerader who stays. Because
masquerades seldom come alone, a fifth of the previous session's score is added to the next one's.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass
from heapq import nlargest
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from visionnmf import choices
from visionnmf._checks import check_choice, check_count, check_flag, check_number
from visionnmf._text import counted
from visionnmf.apps.saving import SaveableEstimator
from visionnmf.exceptions import ParameterError

from .profile import CountedSession, Profile, check_sequence, count_session

Symbols = Sequence[Hashable]

# Chosen on users 1 to 25 of the SEA data: on their own test sessions, and on streams made of their sessions alone.
CARRY = 0.2  # share of the previous session's score that is added
CARRY_LIMIT = 4.0  # deviations: bound of the score that is carried over
REJECTED_WEIGHT = 0.03  # weight with which a session above the threshold joins the profile
PRIOR_SESSIONS = 33  # number of sessions that the priors count as; also the window in which the usual cost is updated
FOLDS = 3  # of the forward chaining
DOUBTFUL = 2.5  # robust deviations above the median from which a training session is doubtful
DOUBTFUL_SHARE = 0.1  # the largest share of doubtful training sessions
DOUBTFUL_WEIGHT = 0.25
# Of the usual length: shorter sessions can raise an alarm but clear nobody, because half of the masquerades are missed
# by the first commands alone: 50 % at 7 of 100 commands and 47 % at 10, on users 1 to 25 of the SEA data.
LEAST_SHARE = 0.1


class Prior(NamedTuple):
    """What is usual among users: the cost of a session, its deviation, and what is added to each deviation."""

    cost: float
    deviation: float
    min_deviation: float


COUNTS = Prior(7.3, 0.8, 0.3)  # nats
# Of the factorisations, whose costs have other units; chosen on the training sessions of all SEA users.
PRIORS = {"counts": COUNTS, "nmf": COUNTS, "mex-perera": Prior(0.8, 1.3, 0.05), "wang": Prior(0.06, 0.09, 0.01)}

MAX_NUMBER = 1e6  # of costs, deviations and thresholds in a file; scores of larger ones could overflow
LEARNING_SESSIONS = 10  # with fewer sessions a user is still being learnt, and there are no alarms


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason for the score of a session: the contribution of one command, which occurs `count` times in it.

    `share` is its share of the cost above the usual; those of all commands of a session sum to 1. `sentence` is the
    reason in words. `origins` are the first three different lines where the command was run, if they are known.
    """

    command: Hashable
    count: int
    share: float
    sentence: str
    origins: tuple[Any, ...] = ()


def _count_all(X: Sequence[Symbols]) -> list[CountedSession]:
    """Count the symbols of each session of `X`."""
    check_sequence(X)
    return [count_session(session) for session in X]


def _warn(found: list[int], what: str) -> None:
    """Warn that the sessions of these positions are too short to be judged."""
    if found:
        warnings.warn(f"{counted(len(found), 'session')} of X, first X[{found[0]}]: {what}", UserWarning, stacklevel=3)


def least_sessions(false_alarm_rate: float) -> int:
    """Return the least number of sessions that can tell a threshold which so small a share of new ones exceeds.

    A new session is above all of n earlier ones with a chance of 1 / (n + 1), so n must be 1 / rate - 1 or more.
    """
    return math.ceil(1 / false_alarm_rate - 1 - 1e-9)


@dataclass(eq=False, repr=False)
class SessionScorer(SaveableEstimator, OutlierMixin, BaseEstimator):
    """Score sessions by how far they are from one user's habits.

    A session is a sequence of hashable symbols, usually the names of a hundred commands. Only the user's own sessions
    are used. The formulas are in :mod:`visionnmf.apps.masquerade.session_scorer`.

    The class follows scikit-learn's outlier detectors: in :meth:`score_samples`, :meth:`decision_function` and
    :meth:`predict` low values are anomalous. :meth:`anomaly_score` has the sign of the rest of this library: high
    values are anomalous. These four judge each session by itself and change nothing. :meth:`update` takes sessions as
    they come, and learns.

    Parameters
    ----------
    false_alarm_rate : float in (0, 0.5], default=0.02
        The share of the user's own sessions that may be flagged. It sets the threshold from the training sessions
        alone. Habits drift, so expect more: on the SEA data 6.0 % at 2 %, and 3.5 % with :meth:`update`.
    method : {"counts", "nmf", "mex-perera", "wang"}, default="counts"
        How habits are described: by counts of sessions, or by one of the factorisations of
        :mod:`visionnmf.apps.masquerade.factor_profile`.
    loss : {"kullback-leibler", "manhattan"}, default="kullback-leibler"
        The loss of the factorisations; "counts" ignores it, and "wang" needs the former.

    Attributes
    ----------
    profile_ : Profile
        The counts.
    usual_cost_, deviation_ : float
        The cost of a usual session and its deviation, in nats.
    threshold_ : float
        The anomaly score above which a session is flagged, in deviations. It may be set. `offset_` is its negative.
    session_length_ : float
        Median length of the training sessions. The scores of shorter sessions are shrunk towards 0, and sessions of
        less than a tenth of it clear nobody, and are not learnt.
    n_sessions_ : int
        Number of sessions learnt, including those of :meth:`update`.
    doubtful_ : ndarray [shape=(n_doubtful,), intp]
        Indices of the training sessions, without empty ones, that may be another person's.
    previous_score_ : float
        The score of the session before, of which a share is carried over to the next one.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import SessionScorer
    >>> own = [["ls", "cd", "make", "vi"] * 5, ["cd", "vi", "make", "ls"] * 5] * 10
    >>> scorer = SessionScorer().fit(own)
    >>> scorer.predict([["ls", "cd", "make", "vi"] * 5, ["nmap", "nc", "scp", "history"] * 5])
    array([ 1, -1])
    >>> scorer.explain(["ls", "nmap"] * 10)[0].sentence
    'nmap (10 times): never seen before'
    """

    saved_attributes = (
        *("usual_cost_", "deviation_", "threshold_", "session_length_", "previous_score_", "n_sessions_"),
    )

    _: KW_ONLY
    false_alarm_rate: float = choices.FALSE_ALARM_RATE
    method: str = choices.SCORER_METHODS[0]
    loss: str = choices.SCORER_LOSSES[0]

    def _check_state(self) -> None:
        """Raise ValueError unless what a file gave is possible; the profile is checked when the file makes it."""
        self.check_parameters()
        for name in ("usual_cost_", "threshold_", "previous_score_"):
            check_number(getattr(self, name), name, -MAX_NUMBER, MAX_NUMBER)
        check_number(self.deviation_, "deviation_", 0, MAX_NUMBER)
        check_number(self.session_length_, "session_length_", 1, MAX_NUMBER)
        check_count(self.n_sessions_, "n_sessions_", 0, 2**53)
        self.doubtful_ = np.empty(0, np.intp)  # those of the training sessions, which files do not hold

    def fit(self, X: Sequence[Symbols], y: Any = None) -> SessionScorer:
        """Learn a user's habits from sessions in the order of time.

        Parameters
        ----------
        X : sequence of sequences of hashable symbols
            The sessions; empty ones are skipped. One is enough to start with, but a warning says that fewer than 1 /
            `false_alarm_rate` - 1 cannot tell so small a share. The usual cost, its deviation and the threshold are
            means of what these sessions show and of what is usual among users; with 50 sessions both
            count about the same, with more the user's own count more.
        y : None
            Ignored.

        Raises
        ------
        ParameterError
            If no session has a command, a session is not a sequence of hashable symbols, or a parameter is not allowed.
        """
        self.check_parameters()
        usable = [session for session in _count_all(X) if session.length]
        if not usable:
            raise ParameterError("X must hold at least one session with a command; got none")
        if len(usable) < (least := least_sessions(self.false_alarm_rate)):
            warnings.warn(
                f"X has {counted(len(usable), 'session')}, and a false alarm rate of {self.false_alarm_rate:.2g} can "
                f"only hold from {least} on; give more sessions, or raise false_alarm_rate",
                UserWarning,
                stacklevel=2,
            )
        self.session_length_ = float(np.median([session.length for session in usable]))
        self.doubtful_ = self._find_doubtful(usable)
        doubtful = set(self.doubtful_.tolist())
        # Sessions that may be another person's have no influence on the threshold, and little on the profile.
        self._calibrate([session for i, session in enumerate(usable) if i not in doubtful])
        for i in self.doubtful_:
            self.profile_.add(usable[i], DOUBTFUL_WEIGHT)
        self.previous_score_ = 0.0  # a part of the score of the latest session, which `update` adds to the next
        self.n_sessions_: int = len(usable)
        return self

    def check_parameters(self) -> None:
        """Raise ParameterError if a parameter has a value that is not allowed."""
        check_number(self.false_alarm_rate, "false_alarm_rate", 0, 0.5, without_low=True)  # above 0, at most 0.5
        check_choice(self.method, "method", choices.SCORER_METHODS)
        check_choice(self.loss, "loss", choices.SCORER_LOSSES)
        if self.method == "wang" and self.loss == "manhattan":  # whose codes do not sum to 1 for usual sessions
            raise ParameterError("loss must be 'kullback-leibler' for method='wang'; got 'manhattan'")

    def new_profile(self) -> Profile:
        """Make an empty profile of the method.

        Returns
        -------
        Profile
            A :class:`~visionnmf.apps.masquerade.factor_profile.FactorProfile` for all methods but "counts".
        """
        if self.method == "counts":
            return Profile()
        from .factor_profile import FactorProfile  # here, because it loads the engine

        return FactorProfile(method=self.method, loss=self.loss)

    def _calibrate(self, learnt: list[CountedSession]) -> None:
        """Fill the profile with sessions in order of time; set the usual cost, its deviation and the threshold."""
        # The second and the last third are scored by a profile of those before them, as new sessions will be.
        self.profile_ = self.new_profile()
        # Sessions edges[i] to edges[i + 1] are fold i; costs and weights are of the sessions from the second fold on.
        edges = [round(len(learnt) * i / FOLDS) for i in range(FOLDS + 1)]
        costs, weights = [], []
        for start, stop in pairwise(edges):
            if start:  # there is no profile yet by which the first fold could be scored
                costs += [self.profile_.cost(session)[0] for session in learnt[start:stop]]
                # The inverse of the variance, which falls with the length of the session.
                weights += [self._certainty(session) ** 2 for session in learnt[start:stop]]
            for session in learnt[start:stop]:
                self.profile_.add(session)
        seen = sum(weights)  # the number of sessions that were scored, short ones in part
        own = seen / (seen + PRIOR_SESSIONS)  # share of the user's own figures against the priors
        prior = PRIORS[self.method]
        mean = float(np.average(costs, weights=weights)) if costs else prior.cost
        deviation = math.sqrt(np.average((np.array(costs) - mean) ** 2, weights=weights)) if costs else 0.0
        self.usual_cost_ = own * mean + (1 - own) * prior.cost
        self.deviation_ = own * deviation + (1 - own) * prior.deviation
        # The quantile of Student's t distribution, because the deviation itself is only an estimate.
        self.threshold_ = -float(stdtrit(seen + PRIOR_SESSIONS - 1, self.false_alarm_rate))

    def _find_doubtful(self, counted: list[CountedSession]) -> NDArray[np.intp]:
        """Return the positions of sessions that the others do not explain, such as those of another person."""
        # The worst are removed from the profile before the next are sought, because they hide each other. It must
        # forget nothing, because what was forgotten could not be removed any more.
        profile = Profile()
        for session in counted:
            profile.add(session, bounded=False)
        kept = list(range(len(counted)))
        found: list[int] = []
        most = int(DOUBTFUL_SHARE * len(counted))  # may be found
        at_once = max(1, most // 5)  # removing one at a time would take quadratic time
        while len(found) < most:
            # `own` leaves each session itself, of weight 1, out of the profile by which it is judged
            costs = np.array([profile.cost(counted[i], own=1.0)[0] for i in kept])
            above = costs - np.median(costs)
            # 1.4826 times the median absolute deviation estimates the standard deviation of a normal distribution.
            # `min_deviation`, in nats, keeps the limit above 0 if sessions are nearly the same.
            limit = DOUBTFUL * (1.4826 * np.median(np.abs(above)) + COUNTS.min_deviation)
            # The costs of short sessions vary more, so what they are above the median counts less, by a factor up to 1.
            above *= [self._certainty(counted[i]) for i in kept]
            worst = np.argsort(-above, kind="stable")[: min(at_once, most - len(found))]
            worst = worst[above[worst] > limit]
            if not len(worst):
                break
            for place in sorted(worst, reverse=True):  # from the end, because `pop` shifts what follows
                found.append(kept.pop(place))
                profile.add(counted[found[-1]], -1.0, bounded=False)
        return np.array(sorted(found), np.intp)

    def _certainty(self, session: CountedSession) -> float:
        """Return the weight of a score, less for short sessions: the root of length over usual length, up to 1."""
        # the deviation of a mean over commands falls with the root of their number
        return math.sqrt(min(1.0, session.length / self.session_length_))

    def _anomaly(self, cost: float, session: CountedSession) -> float:
        """Return a session's cost (nats) above the usual cost, in deviations, shrunk for short sessions."""
        # `min_deviation` is added, because a deviation near 0 would make every session anomalous
        deviation = self.deviation_ + PRIORS[self.method].min_deviation
        return (cost - self.usual_cost_) / deviation * self._certainty(session)

    def too_short(self, session: Symbols) -> bool:
        """Return whether a session is too short to clear its user.

        Parameters
        ----------
        session : sequence of hashable symbols
            The session.

        Returns
        -------
        bool
            Whether it has less than a tenth of the usual length, `session_length_`.
        """
        check_is_fitted(self, "profile_")
        return len(session) < LEAST_SHARE * self.session_length_

    def anomaly_score(self, X: Sequence[Symbols]) -> NDArray[np.float64]:
        """Return how anomalous each session is by itself; a high score is anomalous.

        Parameters
        ----------
        X : sequence of sequences of hashable symbols
            The sessions.

        Returns
        -------
        ndarray [shape=(n_sessions,), float64]
            The difference from the user's usual cost, in deviations; 0, with a warning, for a session that is empty.
        """
        check_is_fitted(self, "profile_")
        counted = _count_all(X)
        if not counted:
            raise ParameterError("X must hold at least one session; got none")
        _warn([i for i, s in enumerate(counted) if not s.length], "empty, so the score 0 says nothing")
        return np.array([self._anomaly(self.profile_.cost(s)[0], s) if s.length else 0.0 for s in counted], np.float64)

    def score_samples(self, X: Sequence[Symbols]) -> NDArray[np.float64]:
        """Return the negative of :meth:`anomaly_score`, (n_sessions,)."""
        return -self.anomaly_score(X)

    def decision_function(self, X: Sequence[Symbols]) -> NDArray[np.float64]:
        """Return ``threshold_ - anomaly_score(X)``, (n_sessions,), which is negative for flagged sessions."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Sequence[Symbols]) -> NDArray[np.int_]:
        """Return 1 for each session of the user, and -1 for each flagged one, (n_sessions,).

        A warning names sessions that are not flagged, but too short to clear the user (:meth:`too_short`).
        """
        flagged = self.decision_function(X) < 0
        short = [i for i, session in enumerate(X) if len(session) and self.too_short(session) and not flagged[i]]
        _warn(short, f"under a tenth of the usual {self.session_length_:g} symbols, so 1 does not clear the user")
        return np.where(flagged, -1, 1)

    @property
    def offset_(self) -> float:
        """The negative of `threshold_`, scikit-learn's name for it."""
        return -self.threshold_

    @property
    def learning(self) -> bool:
        """Whether too few sessions have been learnt for alarms."""
        check_is_fitted(self, "profile_")
        return bool(self.n_sessions_ < LEARNING_SESSIONS)

    def update(self, session: Symbols, *, accept: bool | None = None) -> float:
        """Score the next session of the user's stream, and learn from it.

        Parameters
        ----------
        session : sequence of hashable symbols
            The session that follows the one given before.
        accept : bool or None, default=None
            Whether the caller knows that the session is the user's. With None it is accepted if its score is not above
            the threshold, or the user is still being learnt. Accepted sessions join the profile with weight 1, sessions
            rejected by their score with weight 0.03, and sessions rejected by the caller not at all. A session that the
            caller accepts does not make the next one more suspicious.

        Returns
        -------
        float
            The anomaly score plus a fifth of the previous session's. A session that is too short to clear its user
            gets its own score alone, an empty one 0; both change nothing.
        """
        check_is_fitted(self, "profile_")
        counted = count_session(session)
        if not counted.length:
            return 0.0
        cost, _ = self.profile_.cost(counted)
        alone = self._anomaly(cost, counted)
        if self.too_short(session):
            return alone
        anomaly = alone + CARRY * self.previous_score_
        self.previous_score_ = min(max(alone, -CARRY_LIMIT), CARRY_LIMIT)  # for the next session
        if accept is None:
            accept = anomaly <= self.threshold_ or self.learning
            weight = 1.0 if accept else REJECTED_WEIGHT
        else:
            weight = float(check_flag(accept, "accept"))
            if accept:  # the session is the user's, so a high score is no reason to suspect the next one
                self.previous_score_ = min(self.previous_score_, 0.0)
        if weight:
            self.profile_.add(counted, weight)
            # `step` is the share of this session in the new mean; short and rejected sessions have less.
            # Exponentially weighted mean and variance (West 1979).
            step = weight * self._certainty(counted) ** 2 / PRIOR_SESSIONS
            change = cost - self.usual_cost_
            self.usual_cost_ += step * change
            self.deviation_ = math.sqrt((1 - step) * (self.deviation_**2 + step * change**2))
        self.n_sessions_ += bool(accept)
        return anomaly

    def explain(self, session: Symbols, *, top: int = 5) -> list[Reason]:
        """Name the commands whose share of the session's cost is above that of equally many usual commands.

        Parameters
        ----------
        session : sequence of hashable symbols
            The session. Call this before :meth:`update`, which learns the session.
        top : int >= 1, default=5
            The largest number of reasons.

        Returns
        -------
        list of Reason
            The largest share first; empty if no command costs more than usual.
        """
        check_is_fitted(self, "profile_")
        check_count(top, "top")
        counted = count_session(session)
        if not counted.length:
            return []
        _, parts = self.profile_.cost(counted)  # the contribution of each command to the cost
        # The cost of each command beyond what as many usual commands cost, in nats per command of the session.
        excess = {
            command: part - self.usual_cost_ * counted.commands[command] / counted.length
            for command, part in parts.items()
        }
        above = {command: value for command, value in excess.items() if value > 0}
        total = sum(above.values())
        worst = sorted(above, key=lambda command: -above[command])[:top]
        return [Reason(c, counted.commands[c], above[c] / total, self._sentence(c, counted)) for c in worst]

    def usual(self, top: int = 8) -> list[str]:
        """Return the commands that occur in most of the user's sessions, the most usual first.

        Parameters
        ----------
        top : int >= 1, default=8
            The largest number of commands.

        Returns
        -------
        list of str
            The commands.
        """
        check_is_fitted(self, "profile_")
        check_count(top, "top")
        known = (command for command in self.profile_.commands if not self.profile_.is_new(command))
        return [str(command) for command in nlargest(top, known, self.profile_.commands.__getitem__)]

    def _sentence(self, command: Hashable, session: CountedSession) -> str:
        """Say why a command makes a session costly: it is new, rare, follows new commands, or is too frequent."""
        count = session.commands[command]
        what = f"{command} ({counted(count, 'time')})"
        known = self.profile_.commands.get(command, 0.0)  # sessions with it, of which doubtful ones count in part
        if self.profile_.is_new(command):
            return f"{what}: " + ("seen only in doubtful sessions" if known else "never seen before")
        # `known` counts rejected sessions a little, and `n_sessions_` does not.
        sessions = f"{max(1, min(round(known), self.n_sessions_))} of {counted(self.n_sessions_, 'session')}"
        if known < 0.1 * self.n_sessions_:
            return f"{what}: rare, seen in {sessions}"
        # How often the command follows each predecessor after which the profile never had it. Rejected sessions have
        # small weights, so less than half a session counts as never.
        new = Counter(
            {
                pair[0]: n
                for pair, n in session.pairs.items()
                if pair[1] == command and self.profile_.pairs.get(pair, 0.0) < 0.5
            }
        )
        if 2 * new.total() >= count:
            return f"{what}: known from {sessions}, but not right after {new.most_common(1)[0][0]}"
        return f"{what}: known from {sessions}, but seldom so often"
