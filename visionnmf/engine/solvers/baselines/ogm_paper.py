"""Nesterov smoothing as published (MahNMF, Guan et al. 2012, Algorithms 2 and 3), for comparison with :mod:`.ogm`.

Each half-problem starts from 0, the curvature is bounded by a trace, and the smoothing is in the units of the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import ogm
from visionnmf.engine.solvers.contract import Progress

__all__ = ["OPTIONS", "iterate"]

Array = NDArray[Any]

OPTIONS = ogm.Options(centred=False, trace=True, relative=False)
SMOOTHING = 1.0  # lambda_0 in the authors' code
STEPS = 10  # gradient steps in the first round


def iterate(
    problem: Problem, Wt: Array, H: Array, *, max_iter: int, smoothing: float = SMOOTHING
) -> Iterator[Progress]:
    """Run Algorithm 3 of the paper: update `Wt` and `H` in place while the smoothing decreases as ``smoothing / t``.

    `smoothing` is the paper's ``lambda_0``; the result depends on it and on the scale of the data. See
    :func:`.ogm.iterate`.
    """
    path = [(smoothing / (t + 1), int(STEPS * (t + 1) ** 0.5)) for t in range(max_iter)]
    yield from ogm.follow(problem, Wt, H, path, OPTIONS)
