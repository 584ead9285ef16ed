"""Following solvers from the same starts: objectives against iterations and processor seconds."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.evaluate.drawing import Panel, curve_figure
from visionnmf.apps.evaluate.solver_baselines import LEAST_SQUARES, gradient_descent, iterate
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import SOLVERS

from .experiments import Result, Row, Table, compared

Array = NDArray[Any]
Start = tuple[Array, Array]  # Wt (r, m) and H (r, n)
Measure = Callable[[Array, Array], Any]  # of such factors
Claim = tuple[str, str, str, str]  # the first method before the second, "iterations" or "seconds", what the paper says

MANY = 100_000  # iterations
MARKS = 40  # of a curve
NEAR = 0.002  # a method has arrived when its objective is so little above the lowest one of all


class Track(NamedTuple):
    """Where a method was looked at: the iterations and CPU seconds before, and the objectives (or other figures)."""

    iterations: list[int]
    seconds: list[float]
    objectives: list[Any]

    def best(self) -> tuple[float, float]:
        """Return the lowest of the `objectives`, and after how many `seconds` it was reached."""
        i = int(np.nanargmin(self.objectives))
        return float(self.objectives[i]), self.seconds[i]

    def until(self, objective: float, axis: str = "seconds") -> float:
        """Return the seconds or "iterations" after which the objective was first at most this; infinite if never."""
        pairs = zip(getattr(self, axis), self.objectives, strict=True)
        return next((float(x) for x, found in pairs if found <= objective), float("inf"))


Tracks = dict[str, list[Track]]  # the runs of each method


def follow(
    steps: Iterable[Any], measure: Callable[[], Any], budget: float, *, most: int = MANY, looks: int = 60
) -> Track:
    """Follow a method until it ends, or for `budget` CPU seconds or `most` iterations; `measure` is not timed."""
    track = Track([0], [0.0], [measure()])
    spent, next_look, count = 0.0, 0.0, 0
    iterator = iter(steps)
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while spent < budget and count < most:
            start = time.process_time()
            ended = next(iterator, "end") == "end"
            spent += time.process_time() - start
            if ended:
                break
            count += 1
            if spent >= min(next_look, budget) or count == most:
                track.iterations.append(count)
                track.seconds.append(spent)
                track.objectives.append(measure())
                # 2.3 is the natural logarithm of 10; at the beginning looks are further apart, so that they stay few
                next_look = max(spent * (1 + 2.3 / looks), spent + budget / looks / 10)
    return track


def solver_steps(solver: str, problem: Problem, start: Start) -> Iterable[Any]:
    """Return the iterations of a solver or a baseline, by its name; it works in place on `start`, Wt and H."""
    if solver in LEAST_SQUARES:
        return iterate(solver, problem.X, *start)
    if solver == "gd":
        return gradient_descent(problem.X, *start, problem.loss.beta)
    return SOLVERS[solver].iterate(problem, *start, max_iter=MANY)


def solver_track(solver: str, problem: Problem, start: Start, measure: Measure, budget: float) -> Track:
    """Follow a solver, a name in SOLVERS, from a copy of the factors `start` for `budget` CPU seconds."""
    own = start[0].copy(), start[1].copy()
    return follow(solver_steps(solver, problem, own), partial(measure, *own), budget)


class Case(NamedTuple):
    """A problem on which solvers are compared, with the paper's claims about them."""

    title: str
    make: Callable[[int], tuple[Problem, Start, Measure]]  # of a run; what is recorded is, for example, the objective
    solvers: Mapping[str, str]  # names in SOLVERS by those of the paper
    claims: Sequence[Claim]
    budget: float  # CPU seconds of each method


def follow_all(case: Case, n_runs: int) -> Tracks:
    """Follow all solvers from the same starts."""
    found: Tracks = {name: [] for name in case.solvers}
    for number in range(n_runs):
        made = case.make(number)
        for name, solver in case.solvers.items():
            if number == 0:  # one iteration loads the kernels, which is not to be timed
                solver_track(solver, *made, budget=1e-9)
            found[name].append(solver_track(solver, *made, case.budget))
    return found


def race(
    cases: Sequence[Case],
    n_runs: int,
    y_label: str,
    axes: Sequence[str] = ("iterations", "seconds"),
    *,
    near: float = NEAR,
    columns: int = 4,
    show: Callable[[Array], Array] = np.asarray,
) -> Result:
    """Follow the solvers of each case; return panels of objectives along `axes`, and a row for each claim."""
    panels, rows, tracks = [], [], {}
    for case in cases:
        found = tracks[case.title] = follow_all(case, n_runs)
        labels = {"iterations": "iterations", "seconds": "CPU seconds"}
        panels += [
            Panel(case.title, curves_of(found, axis, show), x_label=labels[axis], y_label=y_label, log_x=True)
            for axis in axes
        ]
        rows += arrival_rows(case.title, found, case.claims, near)
    caption = f"{y_label.capitalize()}, mean and standard deviation of {n_runs} starts."
    return Result(rows, {caption: curve_figure(panels, columns=columns)}, {"What was reached": end_table(tracks)})


def curves_of(
    tracks: Mapping[str, Sequence[Track]], axis: str, show: Callable[[Array], Array] = np.asarray
) -> dict[str, Any]:
    """Return the curve of each method, mean and deviation over runs, at marks along "iterations" or "seconds"."""
    curves = {}
    for name, runs in tracks.items():
        ends = [getattr(run, axis)[-1] for run in runs]
        # entry 0 is the start, at 0, which a logarithmic axis cannot show
        firsts = [getattr(run, axis)[min(1, len(run.seconds) - 1)] for run in runs]
        low, high = max(max(firsts), 1e-6), max(min(ends), 1e-5)
        marks = np.geomspace(min(low, high), high, MARKS)
        values = [show(np.interp(marks, getattr(run, axis), run.objectives)) for run in runs]
        curves[name] = (marks, np.mean(values, axis=0), np.std(values, axis=0))
    return curves


def arrivals(tracks: Mapping[str, Sequence[Track]], axis: str, near: float = NEAR) -> dict[str, Array]:
    """Return after how many iterations or seconds, the `axis`, each run of each method is near the lowest objective.

    That is the lowest of all methods from the same start, and near is at most the share `near` above it. A run that
    never arrives has the end of the longest run, multiplied by its lowest objective over that of all. Run k of all
    methods has the same start; ``best()[0]`` is a run's lowest objective.
    """
    found: dict[str, list[float]] = {name: [] for name in tracks}
    for runs in zip(*tracks.values(), strict=True):
        lowest = min(run.best()[0] for run in runs)
        end = float(max(getattr(run, axis)[-1] for run in runs))
        for name, run in zip(tracks, runs, strict=True):
            reached = run.until(lowest * (1 + near), axis)
            found[name].append(reached if np.isfinite(reached) else end * run.best()[0] / lowest)
    return {name: np.array(values) for name, values in found.items()}


def arrival_rows(
    problem: str, tracks: Mapping[str, Sequence[Track]], claims: Iterable[Claim], near: float = NEAR
) -> list[Row]:
    """Return a row for each claim that the first method arrives before the second; see :func:`arrivals`."""
    rows = []
    for first, second, axis, paper in claims:
        found = arrivals(tracks, axis, near)
        what = f"{problem}: {first} is near the lowest objective before {second}, {axis}"
        rows.append(compared(what, found[first], found[second], paper=paper))
    return rows


def end_table(tracks: Mapping[str, Mapping[str, Sequence[Track]]]) -> Table:
    """Return what each method reached, as mean and deviation of its runs: a line for each problem and method."""
    table = [["problem", "method", "lowest objective / start", "iterations", "CPU seconds"]]
    for problem, methods in tracks.items():
        for name, runs in methods.items():
            reached = np.array([run.best()[0] / run.objectives[0] for run in runs])
            iterations, seconds = np.mean([(run.iterations[-1], run.seconds[-1]) for run in runs], axis=0)
            table.append(
                [problem, name, f"{reached.mean():.4g} ± {reached.std():.1g}", f"{iterations:.0f}", f"{seconds:.2f}"]
            )
    return table
