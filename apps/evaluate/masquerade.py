"""Detectors of masqueraders, compared by how well the users of some histories can be told apart.

The first sessions of each user train a detector. It scores the user's other sessions, and 50 random later sessions of
the other users, as if they had used the account. Real masqueraders may be closer to the user, or farther away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf.apps.masquerade import LogSource, SessionCutting, SessionScorer
from visionnmf.apps.masquerade.training import collect_sessions, fitted_to
from visionnmf.apps.runner import Rows, settings_key
from visionnmf.apps.settings import takes_records
from visionnmf.exceptions import ParameterError, UnreadableError

from .drawing import Panel, curve_figure
from .harness import Study, averages, chosen_methods, grouped
from .session_baselines import EigenCooccurrence, MexPereraNMF, NaiveBayes, WangNMF
from .settings import Comparison, DetectorConditions, RandomSplits

Floats = NDArray[np.float64]
Symbols = Sequence[Hashable]

# Name of a method to a function that makes its detector for a false alarm rate and a seed.
METHODS: dict[str, Callable[[float, int], Any]] = {
    "scorer": lambda rate, _: SessionScorer(false_alarm_rate=rate),
    "nmf": lambda rate, _: SessionScorer(false_alarm_rate=rate, method="nmf"),
    "mex-perera": lambda _, seed: MexPereraNMF(random_state=seed),
    "mex-perera-literal": lambda _, seed: MexPereraNMF(unseen_distance=0.0, random_state=seed),
    "wang": lambda _, seed: WangNMF(random_state=seed),
    "ecm": lambda _, seed: EigenCooccurrence(),
    "naive-bayes": lambda _, seed: NaiveBayes(),
}

OWN_THRESHOLDS = ("scorer", "nmf")  # their curves are of scores minus each user's threshold
COLUMNS = ("split", "method", "user", "intruder", "score", "threshold")
RATES = (1, 5, 10)  # false alarms, %
SCORES = ("auc", *(f"missed_at_{rate}_%" for rate in RATES), "cost", "missed_%", "false_alarms_%")
ROC = "roc.png"

INTRUDERS = 50  # sessions of other users that are scored against each user
MIN_SESSIONS = 4  # of a user
MAX_SHOWN = 33  # %; the right panel shows false alarms up to here, because no detector is used beyond


@takes_records
def study(
    histories: Iterable[str | Path],
    comparison: Comparison = Comparison(),
    *,
    splits: RandomSplits = RandomSplits(),
    conditions: DetectorConditions = DetectorConditions(),
    cutting: SessionCutting = SessionCutting(),
    format: str = "auto",
) -> Study:
    """Return the comparison of detectors on logs of at least two users; a split is a draw of intruders."""
    methods = chosen_methods(comparison, tuple(METHODS), ("scorer",))
    paths = [str(path) for path in histories]
    found, skipped = collect_sessions(paths, cutting, LogSource(format=format))
    sessions = {name: [session.commands for session in own] for name, own in found.items()}
    seed, rate = splits.random_state, conditions.false_alarm_rate
    tasks = {
        split: _tasks(sessions, skipped, conditions.training_share, seed + split) for split in range(splits.splits or 1)
    }
    words = repr([[name, *map(list, own)] for name, own in sessions.items()]).encode()
    settings = {"rate": rate, "share": conditions.training_share, "seed": seed}
    n_own, n_judged = (sum(values) for values in zip(*((t.n_own, len(t.judged)) for t in tasks[0]), strict=True))
    return Study(
        jobs={
            f"{method}-{number}-split{split}": (method, split, task)
            for method in methods
            for split, members in tasks.items()
            for number, task in enumerate(members)
        },
        work=partial(score_user, rate, seed),
        columns=COLUMNS,
        key=settings_key(settings, np.frombuffer(words, np.uint8)),
        lines=_lines,
        heading=(
            f"{len(tasks[0])} users, {n_own} own sessions, {n_judged - n_own} of other users; cost: missed % + 6 x "
            "false alarms %; the last two columns are at the users' own thresholds"
        ),
        draw=_draw,
        picture=ROC,
        inputs=paths,
        skipped=skipped,
    )


class Task(NamedTuple):
    """A user's training sessions, and the sessions to judge, of which the first `n_own` are the user's."""

    user: str
    training: Sequence[Symbols]
    judged: Sequence[Symbols]
    n_own: int


def _tasks(
    sessions: Mapping[str, Sequence[Symbols]], skipped: list[str], training_share: float, seed: int
) -> list[Task]:
    """Return each user's task: first sessions to train, then later ones and random intruders of others to test."""
    split: dict[str, tuple[Sequence[Symbols], Sequence[Symbols]]] = {}  # each user's sessions to train on, and to test
    for name, own in sessions.items():
        if len(own) >= MIN_SESSIONS:
            n = min(max(1, round(training_share * len(own))), len(own) - 1)
            split[name] = own[:n], own[n:]
    if len(split) < 2:
        message = f"two users with {MIN_SESSIONS} sessions are needed, found {len(split)}; try a smaller size"
        raise UnreadableError("; ".join([message, *skipped]))
    rng = np.random.default_rng(seed)
    late: list[Symbols] = [session for _, held_out in split.values() for session in held_out]  # of all users in turn
    start = 0  # of the user's own sessions in `late`; one list for all users keeps the time linear in their number
    tasks = []
    for name, (training, held_out) in split.items():
        n_others = len(late) - len(held_out)
        chosen = rng.choice(n_others, min(INTRUDERS, n_others), replace=False)
        # they are numbered without the user's own sessions, which stand together in `late` from `start` on
        chosen[chosen >= start] += len(held_out)  # step over the user's own sessions
        start += len(held_out)
        tasks.append(Task(name, training, [*held_out, *(late[i] for i in chosen)], len(held_out)))
    return tasks


def score_user(rate: float, seed: int, method: str, split: int, task: Task) -> Rows:
    """Return a row for each judged session of a user: its score, and the user's threshold."""
    scores, threshold = _scores(method, task, rate, seed)
    common = {"split": split, "method": method, "user": task.user, "threshold": threshold}
    return [common | {"intruder": i >= task.n_own, "score": float(score)} for i, score in enumerate(scores)]


def _scores(method: str, task: Task, rate: float, random_state: int) -> tuple[Floats, float]:
    """Return the scores of the task's `judged` sessions, and a threshold from its `training` ones alone."""
    # for a baseline that is a quantile of what a model of the first half of these says of the second half
    model = fitted_to(METHODS[method](rate, random_state), task.training)
    scores = np.asarray(model.anomaly_score(task.judged), np.float64)
    if isinstance(model, SessionScorer):
        return scores, model.threshold_
    half = len(task.training) // 2
    if half == 0:
        return scores, math.inf  # a single session gives no threshold: nothing is flagged
    later = METHODS[method](rate, random_state).fit(task.training[:half]).anomaly_score(task.training[half:])
    return scores, float(np.quantile(later, 1 - rate))


def _pooled(method: str, rows: Rows) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return a method's scores for the ROC curve, all scores less the users' thresholds, and which are of intruders."""
    scores, thresholds, intruder = (
        np.array([row[name] for row in rows]) for name in ("score", "threshold", "intruder")
    )
    margins = scores - thresholds
    return margins if method in OWN_THRESHOLDS else scores, margins, intruder


def _lines(rows: Rows) -> Rows:
    """Return the figures of each method, as means over the splits; the last two are at the users' thresholds."""
    found = []
    for (method, _), members in grouped(rows, ("method", "split")).items():
        scores, margins, intruder = _pooled(method, members)
        area, missed, cost = roc_summary(scores, intruder)
        at_own = 100 * (margins[intruder] <= 0).mean(), 100 * (margins[~intruder] > 0).mean()
        figures = area, *missed.values(), cost, *map(float, at_own)
        found.append({"method": method} | dict(zip(SCORES, figures, strict=True)))
    return averages(found, by=("method",), scores=SCORES)


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
    flagged, missed = _errors(z, y)
    n_own, n_other = int((~y).sum()), int(y.sum())
    missed = 100 * missed / n_other
    # Integers are compared, because 100 * (1 - 95 / 100) is more than 5 in floating point.
    missing = {rate: float(missed[100 * flagged <= rate * n_own].min()) for rate in RATES}
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


def roc_figure(curves: Mapping[str, tuple[Floats, Floats]]) -> Any:
    """Return a figure of missed masquerades against false alarms in % by method: whole, and with few false alarms."""
    few = {name: (false[false <= MAX_SHOWN], missed[false <= MAX_SHOWN]) for name, (false, missed) in curves.items()}
    panels = {"All thresholds": curves, f"Up to {MAX_SHOWN} % of false alarms": few}
    return curve_figure(
        [Panel(title, drawn, x_label="false alarms, %", y_label="missed, %") for title, drawn in panels.items()]
    )


def _draw(rows: Rows) -> Any:
    """Return a figure of the ROC curves of the first split."""
    curves = {}
    for (method,), members in grouped([row for row in rows if not row["split"]], ("method",)).items():
        scores, _, intruder = _pooled(method, members)
        curves[f"{method} (area {_area_under_curve(scores, intruder):.3f})"] = roc_curve(scores, intruder)
    return roc_figure(curves)
