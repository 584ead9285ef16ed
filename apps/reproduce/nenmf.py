"""NeNMF (Guan, Tao, Luo, Yuan, IEEE TSP 2012): how fast it is beside its baselines on made data."""

from __future__ import annotations

import numpy as np

from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem

from .drawing import curve_figure
from .experiments import Experiment, Result, Sizes
from .tracks import Start, Tracks, arrival_rows, compile_solvers, end_table, solver_track, track_panels

__all__ = ["EXPERIMENTS"]

SOLVERS = {
    "NeNMF": "nenmf-paper", "MUR": "mu", "PNLS": "pnls", "PG": "pg", "QN": "qn", "CBGP": "cbgp", "PBB": "pbb",
    "AS": "as", "BPP": "bpp",
}  # fmt: skip


def efficiency(sizes: Sizes) -> Result:
    """Repeat the comparison of section IV of the NeNMF paper on two random matrices, or in a quick run on one."""
    problems = sizes.pick(  # shape, rank, and the CPU seconds of each method
        full=(((500, 100), 50, 10.0), ((5000, 1000), 100, 60.0)), quick=(((500, 100), 50, 1.0),)
    )
    n_starts = sizes.pick(full=10, quick=2)
    panels, rows, tracks = [], [], {}
    for shape, rank, budget in problems:
        title = f"{shape[0]} × {shape[1]}, r = {rank}"
        found: Tracks = {name: [] for name in SOLVERS}
        for seed in range(n_starts):
            rng = np.random.default_rng(seed)
            problem = Problem(rng.random(shape), Loss("frobenius"))
            size = np.sqrt(0.5 / rank)  # the mean of both factors, so that their product has that of the data, 0.5
            start: Start = (size * 2 * rng.random((rank, shape[0])), size * 2 * rng.random((rank, shape[1])))
            if seed == 0:  # once for each problem, so that no compilation is timed
                compile_solvers(SOLVERS.values(), problem, start)
            for name, solver in SOLVERS.items():
                found[name].append(solver_track(solver, problem, start, budget))
        tracks[title] = found
        panels += track_panels(title, found, "objective", ("iterations", "seconds"))
        rows += arrival_rows(title, found, [("NeNMF", other) for other in SOLVERS if other != "NeNMF"])
    caption = f"Objective, mean and standard deviation of {n_starts} starts."
    return Result(rows, {caption: curve_figure(panels, columns=5)}, {"What was reached": end_table(tracks)})


EXPERIMENTS = (
    Experiment(
        "nenmf/efficiency",
        "objective against iterations and seconds, made data",
        "NeNMF reduces the objective faster than the multiplicative updates, PNLS, PG, QN, CBGP, PBB, AS and BPP.",
        efficiency,
        "uniform random matrices of 500 × 100, r = 50, and 5000 × 1000, r = 100; a quick run has the first.",
        protocol=(
            "A method is near the lowest objective when it is within 0.2 % of the lowest one of all.",
            "BFGS, a search for a vector of step lengths, is left out.",
            "Seconds are CPU seconds of one thread, without the evaluation of the objective.",
        ),
    ),
    Experiment("nenmf/clustering", "clusters of documents", missing="the documents, TDT2 and Reuters, are not at hand"),
)
