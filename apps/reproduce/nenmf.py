"""NeNMF (Guan, Tao, Luo, Yuan, IEEE TSP 2012): how fast it is beside its baselines on made data."""

from __future__ import annotations

from functools import partial

import numpy as np

from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem

from .experiments import Experiment, Result, Sizes
from .tracks import Case, Start, race

__all__ = ["EXPERIMENTS"]

SOLVERS = {
    "NeNMF": "nenmf-paper", "MUR": "mu", "PNLS": "pnls", "PG": "pg", "QN": "qn", "CBGP": "cbgp", "PBB": "pbb",
    "AS": "as", "BPP": "bpp",
}  # fmt: skip


def uniform(shape: tuple[int, int], rank: int, seed: int) -> tuple[Problem, Start]:
    """Return uniform data, and uniform factors whose product has about the mean of the data, 0.5."""
    rng = np.random.default_rng(seed)
    problem = Problem(rng.random(shape), Loss("frobenius"))
    size = np.sqrt(0.5 / rank)
    return problem, (size * 2 * rng.random((rank, shape[0])), size * 2 * rng.random((rank, shape[1])))


def efficiency(sizes: Sizes) -> Result:
    """Repeat the comparison of section IV of the NeNMF paper on two random matrices, or in a quick run on one."""
    problems = sizes.pick(  # shape, rank, and the CPU seconds of each method
        full=(((500, 100), 50, 10.0), ((5000, 1000), 100, 60.0)), quick=(((500, 100), 50, 1.0),)
    )
    claims = [("NeNMF", other, "seconds", "yes, abstract") for other in SOLVERS if other != "NeNMF"]
    cases = [
        Case(f"{shape[0]} × {shape[1]}, r = {rank}", partial(uniform, shape, rank), SOLVERS, claims, budget)
        for shape, rank, budget in problems
    ]
    return race(cases, sizes.pick(full=10, quick=2), "objective", columns=5)


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
