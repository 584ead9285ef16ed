"""How well the users of some histories can be told apart; ROC curves as figures and as a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf._checks import check_count, check_matplotlib
from visionnmf._progress import Steps
from visionnmf.apps.drawing import new_figure, save_figure
from visionnmf.apps.report import Report
from visionnmf.apps.runner import run_parallel
from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.io import check_outputs

from .baselines import EigenCooccurrence, MexPereraNMF, NaiveBayes, WangNMF
from .session_scorer import SessionScorer
from .settings import DetectorComparison, LogSource, SessionCutting
from .training import collect_sessions

Floats = NDArray[np.float64]
Symbols = Sequence[Hashable]

OURS = "scorer"
# Name of a method to a function that makes its detector for a false alarm rate and a seed.
METHODS: dict[str, Callable[[float, int], Any]] = {
    OURS: lambda rate, _: SessionScorer(false_alarm_rate=rate),
    "nmf": lambda rate, _: SessionScorer(false_alarm_rate=rate, method="nmf"),
    "mex-perera": lambda _, seed: MexPereraNMF(random_state=seed),
    "mex-perera-literal": lambda _, seed: MexPereraNMF(unseen_distance=0.0, random_state=seed),
    "wang": lambda _, seed: WangNMF(random_state=seed),
    "ecm": lambda _, seed: EigenCooccurrence(),
    "naive-bayes": lambda _, seed: NaiveBayes(),
}

INTRUDERS = 50  # sessions of other users that are scored against each user
MIN_SESSIONS = 4  # of a user
MAX_SHOWN = 0.3  # the right panel shows false alarm rates up to here, because no detector is used beyond


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
        """Return one line, a table if there are several methods, and a line for each skipped file.

        `missing` has the percentage of missed intruders by the false alarm rate in %.
        """
        at = ", ".join(f"{value:.0f} % at {rate} %" for rate, value in self.missing.items())
        line = (
            f"{self.n_users} users, {self.n_own} own sessions, {self.n_intruders} of other users: AUC {self.auc:.3f}; "
            f"missed {at} false alarms; at the users' own thresholds {self.missed:.0f} % missed, "
            f"{self.false_alarms:.1f} % false alarms"
        )
        # printed only if there are several methods
        table = [f"{'method':20}  AUC   missed % at 1 / 5 / 10 %   least cost   missed / false alarms, own thresholds"]
        for method, found in self.methods.items():
            missing = " / ".join(f"{value:.0f}" for value in found["missing"].values())
            at = f"{found['missed']:.0f} / {found['false_alarms']:.1f}"
            table.append(f"{method:20} {found['auc']:.3f}  {missing:>24}   {found['cost']:>10.1f}   {at:>14}")
        return "\n".join([line, *(table if len(self.methods) > 1 else []), *self._notes_and_outputs()])


def evaluate(
    histories: Iterable[str | Path],
    *,
    cutting: SessionCutting = SessionCutting(),
    format: str = "auto",
    comparison: DetectorComparison = DetectorComparison(),
    roc: str | Path | None = None,
    n_jobs: int = 1,
    force: bool = False,
    progress: Steps | None = None,
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
        The methods ("scorer" is :class:`SessionScorer`, "nmf" the same with ``method="nmf"``, "mex-perera" and
        "mex-perera-literal" :class:`MexPereraNMF` with distance 1 or 0 for a session of unseen commands alone, "wang"
        :class:`WangNMF`, "ecm" :class:`EigenCooccurrence`, "naive-bayes" :class:`NaiveBayes`), the share of sessions
        that train, the false alarm rate, and the seed. A baseline takes as a user's threshold the quantile of the
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
    MediaError
        If fewer than two users have four sessions, or `roc` exists.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import SessionCutting, evaluate
    >>> len(evaluate(["ada.txt", "ben.txt"], cutting=SessionCutting(size=20)).users)
    2
    """
    check_count(n_jobs, "n_jobs")
    paths = [str(path) for path in histories]
    if roc is not None:
        _check_drawable(roc, force, paths)
    found, skipped = collect_sessions(paths, cutting, LogSource(format=format))
    tasks = _tasks(found, skipped, comparison)
    scored = _score_all(tasks, comparison, n_jobs, progress)
    # the curve of a SessionScorer is drawn over the scores minus each user's threshold, those of the baselines are not
    pooled = {
        method: _pooled(tasks, [scored[f"{method} {number}"] for number in range(len(tasks))], method in (OURS, "nmf"))
        for method in comparison.methods
    }
    if roc is not None:
        _draw_curves(roc, pooled, force)
    figures = {method: found.figures() for method, found in pooled.items()}
    first = comparison.methods[0]
    n_intruders = int(pooled[first].intruder.sum())
    return Evaluation(
        n_users=len(tasks),
        n_own=len(pooled[first].intruder) - n_intruders,
        n_intruders=n_intruders,
        **figures[first],
        users=pooled[first].rows,
        methods=figures,
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
    """Return each user's task: first sessions to train, then later ones and random intruders of others to test.

    Users with too few sessions are left out. UnreadableError is raised if fewer than two remain; it repeats what was
    `skipped`.
    """
    split: dict[str, tuple[list[Symbols], list[Symbols]]] = {}  # each user's sessions to train on, and to test on
    for name, own in ((name, list(own)) for name, own in sessions.items()):
        if len(own) >= MIN_SESSIONS:
            n = min(max(1, round(comparison.training_share * len(own))), len(own) - 1)
            split[name] = own[:n], own[n:]
    if len(split) < 2:
        message = f"two users with {MIN_SESSIONS} sessions are needed, found {len(split)}; try a smaller size"
        raise UnreadableError("; ".join([message, *skipped]))
    rng = np.random.default_rng(comparison.random_state)
    late: list[Symbols] = [session for _, held_out in split.values() for session in held_out]  # of all users in turn
    start = 0  # of the user's own sessions in `late`; one list for all users keeps the time linear in their number
    tasks = []
    for name, (training, held_out) in split.items():
        n_others = len(late) - len(held_out)
        chosen = rng.choice(n_others, min(INTRUDERS, n_others), replace=False)
        # they are numbered without the user's own sessions, which stand together in `late` from `start` on
        chosen[chosen >= start] += len(held_out)  # step over the user's own sessions
        start += len(held_out)
        tasks.append(_Task(name, training, [*held_out, *(late[i] for i in chosen)], len(held_out)))
    return tasks


def _score_all(
    tasks: list[_Task], comparison: DetectorComparison, n_jobs: int, progress: Steps | None
) -> dict[str, tuple[Floats, float]]:
    """Return the judged sessions' scores and the threshold by method and place in `tasks`, such as "wang 3"."""
    jobs = {
        f"{method} {number}": (method, task, comparison.false_alarm_rate, comparison.random_state)
        for method in comparison.methods
        for number, task in enumerate(tasks)
    }
    kept: dict[str, tuple[Floats, float]] = {}

    def keep(name: str, scored: tuple[Floats, float]) -> None:
        """Keep the result of one job, the scores of its sessions and the threshold, and report how many are done."""
        kept[name] = scored
        if progress is not None:
            progress(len(kept), len(jobs))

    run_parallel(jobs, _score_user, n_jobs, keep)
    return kept


def _score_user(method: str, task: _Task, rate: float, random_state: int) -> tuple[Floats, float]:
    """Return the scores of the task's `judged` sessions, and a threshold from its `training` ones alone.

    For a baseline, a model of the first half of the training sessions scores the second half, and the threshold is the
    quantile that leaves the share `rate` above it.
    """
    model = METHODS[method](rate, random_state).fit(task.training)
    scores = np.asarray(model.anomaly_score(task.judged), np.float64)
    if isinstance(model, SessionScorer):
        return scores, model.threshold_
    half = len(task.training) // 2
    if half == 0:
        return scores, math.inf  # a single session gives no threshold: nothing is flagged
    later = METHODS[method](rate, random_state).fit(task.training[:half]).anomaly_score(task.training[half:])
    return scores, float(np.quantile(later, 1 - rate))


class _Pooled(NamedTuple):
    """What one method says about the judged sessions of all users, one entry for each session.

    `margins` are the scores minus their user's threshold, and `intruder` marks the sessions of other users. `scores`
    are what the ROC curve is drawn over, and `rows` the figures of each user.
    """

    scores: Floats
    margins: Floats
    intruder: NDArray[np.bool_]
    rows: list[dict[str, Any]]

    def figures(self) -> dict[str, Any]:
        """Return AUC, misses at fixed false alarm rates, least cost, and the rates at the users' thresholds."""
        # The first three come from `scores`, the rates from `margins`, the scores minus their user's threshold;
        # `intruder` marks the sessions of other users.
        auc, missing, cost = roc_summary(self.scores, self.intruder)
        return {"auc": auc, "missing": missing, "cost": cost} | _rates(self.margins, self.intruder)


def _pooled(tasks: list[_Task], scored: list[tuple[Floats, float]], relative: bool) -> _Pooled:
    """Put the scores of one method for all users together, so that one ROC curve can be drawn over all.

    With `relative` the curve is of the scores minus their user's threshold, as suits :class:`SessionScorer`. The first
    `n_own` sessions of a task are the user's own, the others those of intruders. `scored` has the scores of each task
    and the threshold of its user.
    """
    intruder = [np.arange(len(scores)) >= task.n_own for task, (scores, _) in zip(tasks, scored, strict=True)]
    margins = [scores - threshold for scores, threshold in scored]
    rows = [
        {"user": task.user, "auc": _area_under_curve(scores, other)} | _rates(margin, other)
        for task, (scores, _), margin, other in zip(tasks, scored, margins, intruder, strict=True)
    ]
    kept = margins if relative else [scores for scores, _ in scored]
    return _Pooled(np.concatenate(kept), np.concatenate(margins), np.concatenate(intruder), rows)


def _rates(margin: Floats, intruder: NDArray[np.bool_]) -> dict[str, float]:
    """Return the percentages of false alarms and of missed intruders from scores minus thresholds."""
    # `margin` (n,) is positive for flagged sessions, and `intruder` (n,) marks the sessions of other users.
    return {
        "false_alarms": float(100 * (margin[~intruder] > 0).mean()),
        "missed": float(100 * (margin[intruder] <= 0).mean()),
    }


def roc_summary(scores: ArrayLike, labels: ArrayLike) -> tuple[float, dict[int, float], float]:
    """Summarise the ROC curve of anomaly scores (n,) as the literature on masquerades does.

    Returns the area under the curve, in which ties count half; for false alarm rates of 1, 5 and 10 % the percentage of
    masquerades (`labels` true) that are missed; and the smallest missing % + 6 x false alarm % over all thresholds.
    """
    z = np.asarray(scores, np.float64).ravel()
    y = np.asarray(labels).ravel().astype(bool)
    if z.shape != y.shape or y.all() or not y.any():
        raise ParameterError(
            f"labels must have the length of scores, {len(z)}, and both kinds of sessions; got {len(y)}, "
            f"{y.sum()} of them masquerades"
        )
    # for each threshold: how many own sessions are flagged, and how many masquerades are missed
    flagged, missed = _errors(z, y)
    n_own, n_other = int((~y).sum()), int(y.sum())
    missed = 100 * missed / n_other
    # Integers are compared, because 100 * (1 - 95 / 100) is more than 5 in floating point.
    missing = {rate: float(missed[100 * flagged <= rate * n_own].min()) for rate in (1, 5, 10)}
    return _area_under_curve(z, y), missing, float((missed + 600 * flagged / n_own).min())


def roc_curve(scores: Floats, labels: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return false alarms and missed masquerades (`labels` true) in % for all thresholds in rising order."""
    flagged, missed = _errors(scores, labels)
    # the first threshold flags all own sessions, and the last one misses all masquerades
    return 100 * flagged / flagged[0], 100 * missed / missed[-1]


def _errors(scores: Floats, labels: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return, for rising thresholds, the number of own sessions above and of masquerades (true) not above them."""
    # The first threshold is below all scores, so that it flags everything; the others are the scores that differ.
    own, other = np.sort(scores[~labels]), np.sort(scores[labels])
    thresholds = np.concatenate([[-np.inf], np.unique(scores)])
    return len(own) - np.searchsorted(own, thresholds, "right"), np.searchsorted(other, thresholds, "right")


def _area_under_curve(scores: Floats, labels: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve of scores (n,); `labels` are true for masquerades, and ties count half."""
    own, other = np.sort(scores[~labels]), scores[labels]
    # The area is the share of pairs (own, other) in the right order. A tie is counted by one of the two searches.
    below = np.searchsorted(own, other, "left") + np.searchsorted(own, other, "right")
    return float(below.mean() / (2 * len(own)))


def _check_drawable(path: str | Path, force: bool, inputs: Sequence[str]) -> None:
    """Raise ParameterError or OutputExistsError, before the work, if curves cannot be drawn into a file."""
    if Path(path).suffix.lower() != ".png":
        raise ParameterError(f"roc must end in .png; got {str(path)!r}")
    check_matplotlib()
    check_outputs([path], force, inputs=inputs)


def _draw_curves(path: str | Path, methods: Mapping[str, _Pooled], force: bool) -> None:
    """Write a PNG picture of the ROC curves of some methods: whole, and the part with few false alarms."""
    figure = new_figure(10, 4.6)
    whole, part = figure.subplots(1, 2)
    for name, pooled in methods.items():
        flagged, missed = roc_curve(pooled.scores, pooled.intruder)
        area = _area_under_curve(pooled.scores, pooled.intruder)
        for axes in (whole, part):
            axes.plot(flagged, 100 - missed, label=f"{name} ({area:.3f})", linewidth=1.5)
    for axes, limit in ((whole, 100), (part, 100 * MAX_SHOWN)):
        axes.plot([0, 100], [0, 100], color="0.8", linewidth=1, zorder=0)  # a detector that guesses
        axes.set(xlim=(0, limit), ylim=(0, 100.5), xlabel="false alarms, %", ylabel="sessions of others found, %")
        axes.grid(color="0.92")
    whole.legend(title="method (area under the curve)", loc="lower right", fontsize=8, title_fontsize=8)
    save_figure(figure, path, force=force)
