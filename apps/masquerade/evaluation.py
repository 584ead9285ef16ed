"""How well the users of some histories can be told apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_count
from visionnmf.apps.report import Report
from visionnmf.apps.runner import run_parallel
from visionnmf.exceptions import UnreadableError

from .baselines import EigenCooccurrence, MexPereraNMF, NaiveBayes, WangNMF
from .roc_curves import area_under_curve, check_drawable, draw_curves, roc_curve, roc_summary
from .session_scorer import SessionScorer
from .settings import DetectorComparison, LogSource, SessionCutting
from .training import collect_sessions

__all__ = ["METHODS", "Evaluation", "evaluate"]

Floats = NDArray[np.float64]
Symbols = Sequence[Hashable]

OURS = "scorer"
# Name of a method to a function that makes its detector for a false alarm rate and a seed.
METHODS: dict[str, Callable[[float, int], Any]] = {
    OURS: lambda rate, _: SessionScorer(false_alarm_rate=rate),
    "mex-perera": lambda _, seed: MexPereraNMF(random_state=seed),
    "mex-perera-literal": lambda _, seed: MexPereraNMF(unseen_distance=0.0, random_state=seed),
    "wang": lambda _, seed: WangNMF(random_state=seed),
    "ecm": lambda _, seed: EigenCooccurrence(),
    "naive-bayes": lambda _, seed: NaiveBayes(),
}

INTRUDERS = 50  # sessions of other users that are scored against each user
MIN_SESSIONS = 4  # of a user


@dataclass(frozen=True)
class Evaluation(Report):
    """How well users can be told apart, with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    n_users, n_own, n_intruders : int
        Users, their held-out sessions, and sessions of other users that were scored against them.
    auc : float
        Area under the ROC curve of all users together.
    missing : dict
        False alarm rate in % (1, 5, 10) to the percentage of intruders' sessions that are missed at it.
    cost : float
        The smallest missing % + 6 x false alarm % (Maxion and Townsend).
    false_alarms, missed : float
        Percentages at each user's own threshold.
    users : list of dict
        For each user: ``user``, ``auc``, ``false_alarms``, ``missed``.
    methods : dict of str to dict
        The figures of each method by its name; those above are the first method's.
    """

    n_users: int
    n_own: int
    n_intruders: int
    auc: float
    missing: dict[int, float]
    cost: float
    false_alarms: float
    missed: float
    users: list[dict[str, Any]]
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)

    def summary(self) -> str:
        """Return the result as text.

        Returns
        -------
        str
            One line, a table if there are several methods, and a line for each skipped file.
        """
        at = ", ".join(f"{value:.0f} % at {rate} %" for rate, value in self.missing.items())
        line = (
            f"{self.n_users} users, {self.n_own} own sessions, {self.n_intruders} of other users: AUC {self.auc:.3f}; "
            f"missed {at} false alarms; at the users' own thresholds {self.missed:.0f} % missed, "
            f"{self.false_alarms:.1f} % false alarms"
        )
        return "\n".join([line, *self._table(), *self._ending()])

    def _table(self) -> list[str]:
        """Return the lines of a table of the methods, if there are several."""
        if len(self.methods) < 2:
            return []
        lines = [f"{'method':20}  AUC   missed % at 1 / 5 / 10 %   least cost   missed / false alarms, own thresholds"]
        for method, found in self.methods.items():
            missing = " / ".join(f"{value:.0f}" for value in found["missing"].values())
            at = f"{found['missed']:.0f} / {found['false_alarms']:.1f}"
            lines.append(f"{method:20} {found['auc']:.3f}  {missing:>24}   {found['cost']:>10.1f}   {at:>14}")
        return lines


def evaluate(
    histories: Iterable[str | Path],
    *,
    cutting: SessionCutting = SessionCutting(),
    format: str = "auto",
    comparison: DetectorComparison = DetectorComparison(),
    roc: str | Path | None = None,
    n_jobs: int = 1,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Find out how well the users of some histories can be told apart.

    The first sessions of each user train a detector. It scores the user's other sessions, and 50 random later sessions
    of the other users, as if they had used the account. Nothing is learnt on. Real masqueraders may be closer to the
    user, or farther away.

    Parameters
    ----------
    histories : iterable of str or Path
        Logs of at least two users.
    cutting : SessionCutting, optional
        How commands are cut into sessions.
    format : str, default="auto"
        The format of the logs; see :func:`read_events`.
    comparison : DetectorComparison, optional
        The methods, the share of sessions that train, the false alarm rate, and the seed. The methods are "scorer"
        (:class:`SessionScorer`), "mex-perera" and "mex-perera-literal" (with distance 1 or 0 for a session of unseen
        commands only), "wang", "ecm" and "naive-bayes". A baseline takes as a user's threshold the quantile of the
        scores of the second half of the training sessions, by a model of the first half.
    roc : str, Path or None, default=None
        A PNG file for the ROC curves; needs matplotlib.
    n_jobs : int, default=1
        Number of processes.
    force : bool, default=False
        Whether `roc` may be replaced.
    progress : callable or None, default=None
        Called as ``progress(done, total)`` after each user and method.

    Returns
    -------
    Evaluation
        The figures. Users with fewer than four sessions are left out. Files that cannot be read are skipped and
        reported.

    Raises
    ------
    ParameterError
        If matplotlib is missing.
    UnreadableError
        If fewer than two users have four sessions.
    OutputExistsError
        If `roc` exists and `force` is false.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import SessionCutting, evaluate
    >>> len(evaluate(["ada.txt", "ben.txt"], cutting=SessionCutting(size=20)).users)
    2
    """
    check_count(n_jobs, "n_jobs")
    paths = [str(path) for path in histories]
    if roc is not None:
        check_drawable(roc, force, paths)
    found, skipped = collect_sessions(paths, cutting, LogSource(format=format))
    tasks = _tasks(found, skipped, comparison)
    methods = {method: _MethodScores(method) for method in comparison.methods}
    scored = _score_all(tasks, comparison, n_jobs, progress)
    for method, scores in methods.items():
        for number, task in enumerate(tasks):
            scores.add(task, *scored[f"{method} {number}"])
    if roc is not None:
        draw_curves(roc, {method: scores.curve() for method, scores in methods.items()}, force=force)
    table = {method: scores.summary() for method, scores in methods.items()}
    first = methods[comparison.methods[0]]
    return Evaluation(
        n_users=len(tasks),
        n_own=int((~first.intruder).sum()),
        n_intruders=int(first.intruder.sum()),
        **table[comparison.methods[0]],
        users=first.rows,
        methods=table,
        inputs=paths,
        outputs=[] if roc is None else [str(roc)],
        skipped=skipped,
    )


class _Task(NamedTuple):
    """A user's training sessions, and the sessions to judge, of which the first `n_own` are the user's."""

    user: str
    training: Sequence[Symbols]
    judged: Sequence[Symbols]
    n_own: int


def _tasks(
    sessions: Mapping[str, Iterable[Symbols]], skipped: list[str], comparison: DetectorComparison
) -> list[_Task]:
    """Return a task for each user: the first sessions to train on, then the later ones and intruders to test on.

    Intruders are test sessions of other users, drawn at random. Users with too few sessions are left out, and
    UnreadableError is raised if fewer than two users remain.
    """
    split: dict[str, tuple[list[Symbols], list[Symbols]]] = {}
    for name, own in ((name, list(own)) for name, own in sessions.items()):
        if len(own) >= MIN_SESSIONS:
            n = min(max(1, round(comparison.training_share * len(own))), len(own) - 1)
            split[name] = own[:n], own[n:]
    if len(split) < 2:
        message = f"two users with {MIN_SESSIONS} sessions are needed, found {len(split)}; try a smaller size"
        raise UnreadableError("; ".join([message, *skipped]))
    rng = np.random.default_rng(comparison.random_state)
    late: list[Symbols] = [session for _, held_out in split.values() for session in held_out]
    start = 0  # of the user's own sessions in `late`; one list for all users keeps the time linear in their number
    tasks = []
    for name, (training, held_out) in split.items():
        n_others = len(late) - len(held_out)
        chosen = rng.choice(n_others, min(INTRUDERS, n_others), replace=False)
        chosen[chosen >= start] += len(held_out)  # step over the user's own sessions
        start += len(held_out)
        tasks.append(_Task(name, training, [*held_out, *(late[i] for i in chosen)], len(held_out)))
    return tasks


def _score_all(
    tasks: list[_Task], comparison: DetectorComparison, n_jobs: int, progress: Callable[[int, int], None] | None
) -> dict[str, tuple[Floats, float]]:
    """Return the scores and the threshold for each method and user, by "method number"."""
    jobs = {
        f"{method} {number}": (method, task, comparison.false_alarm_rate, comparison.random_state)
        for method in comparison.methods
        for number, task in enumerate(tasks)
    }
    kept: dict[str, tuple[Floats, float]] = {}

    def keep(name: str, scored: tuple[Floats, float]) -> None:
        kept[name] = scored
        if progress is not None:
            progress(len(kept), len(jobs))

    if n_jobs == 1:
        for name, arguments in jobs.items():
            keep(name, _score_user(*arguments))
    else:
        run_parallel(jobs, _score_user, n_jobs, keep)
    return kept


def _score_user(method: str, task: _Task, rate: float, random_state: int) -> tuple[Floats, float]:
    """Return the scores of a user's task, and the user's threshold from the training sessions alone."""
    model = METHODS[method](rate, random_state).fit(task.training)
    scores = np.asarray(model.anomaly_score(task.judged), np.float64)
    if isinstance(model, SessionScorer):
        return scores, model.threshold_
    half = len(task.training) // 2
    if half == 0:
        return scores, math.inf
    later = METHODS[method](rate, random_state).fit(task.training[:half]).anomaly_score(task.training[half:])
    return scores, float(np.quantile(later, 1 - rate))


class _MethodScores:
    """The scores of one method for all users."""

    def __init__(self, method: str) -> None:
        # Our scores are comparable across users relative to their thresholds; the baselines' are pooled as they are.
        self.relative = method == OURS
        self.rows: list[dict[str, Any]] = []
        self._scores: list[Floats] = []
        self._margins: list[Floats] = []
        self._intruders: list[NDArray[np.bool_]] = []

    def add(self, task: _Task, anomaly: Floats, threshold: float) -> None:
        intruder = np.arange(len(anomaly)) >= task.n_own
        margin = anomaly - threshold
        self._scores.append(margin if self.relative else anomaly)
        self._margins.append(margin)
        self._intruders.append(intruder)
        self.rows.append({"user": task.user, "auc": area_under_curve(anomaly, intruder)} | _rates(margin, intruder))

    @property
    def intruder(self) -> NDArray[np.bool_]:
        return np.concatenate(self._intruders)

    def summary(self) -> dict[str, Any]:
        """Return the figures of all users together."""
        auc, missing, cost = roc_summary(np.concatenate(self._scores), self.intruder)
        return {"auc": auc, "missing": missing, "cost": cost} | _rates(np.concatenate(self._margins), self.intruder)

    def curve(self) -> tuple[Floats, Floats]:
        return roc_curve(np.concatenate(self._scores), self.intruder)


def _rates(margin: Floats, intruder: NDArray[np.bool_]) -> dict[str, float]:
    """Return the percentages of false alarms and of missed intruders, for scores minus thresholds."""
    return {
        "false_alarms": float(100 * (margin[~intruder] > 0).mean()),
        "missed": float(100 * (margin[intruder] <= 0).mean()),
    }
