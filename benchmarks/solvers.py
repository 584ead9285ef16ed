"""Whether "auto" chooses well: every solver on every problem, from the same start.

``python benchmarks/solvers.py`` runs all problems (some eight minutes), ``python benchmarks/solvers.py table NAME...``
those whose name contains a NAME. One thread; CPU seconds of the iterations, without the evaluation of the objective.

A solver is given a budget. Its time is what it took to come within 1 % of the lowest objective that any solver found.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator

os.environ.setdefault("VISIONNMF_NUM_THREADS", "1")

import numpy as np
from _main import main
from _problems import load

from visionnmf.datasets import make_surveillance
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import SOLVERS, choose

BUDGET = 5.0  # CPU seconds a solver
WITHIN = 0.01
MAX_ITER = {"admm": 400}  # the length of its path: NMF's default
BASELINES = {"al-a", "al-b", "sbcd-plain", "ogm-paper"}  # for comparison in other benchmarks; not run here


def problems() -> Iterator[tuple[str, Problem, np.ndarray, np.ndarray]]:
    """Yield (name, problem, Wt, H)."""
    plan = [
        ("l1_100x50", ("manhattan", "huber", "elastic-net", "l21")),
        ("l1_1000x500", ("manhattan", "huber", "elastic-net", "l21")),
        ("face1024x476", ("manhattan",)),
        ("rand1000x500", ("frobenius",)),
        ("yaleb1024x2414", ("frobenius",)),
        ("yalebpos1024x2414", ("kullback-leibler", "itakura-saito", "beta")),
        ("sparse20000x10000", ("frobenius", "kullback-leibler", "manhattan")),
    ]
    for name, losses in plan:
        X, W, H = load(name, np.float32)
        for loss in losses:
            parameter = {"huber": float(X.mean()) / 10, "elastic-net": 1 / float(X.mean()), "beta": 1.5}.get(loss, 0.0)
            weight = 0.05 if name.startswith("sparse") and loss == "manhattan" else 1.0
            yield f"{name} {loss}", Problem(X, Loss(loss, parameter), zero_weight=weight), W.T.copy(), H.copy()
    clip = make_surveillance(n_frames=60, height=60, width=80, random_state=0).frames
    X = clip.reshape(60, -1).astype(np.float32) / 255
    for rank in (1, 2, 5):
        rng = np.random.default_rng(0)
        Wt, H = (np.sqrt(X.mean() / rank) * rng.random((rank, n)).astype(np.float32) for n in X.shape)
        yield f"video60x14400 rank {rank} manhattan", Problem(X, Loss("manhattan")), Wt, H


def run(name: str, problem: Problem, Wt: np.ndarray, H: np.ndarray, budget: float) -> list[tuple[float, float]]:
    """Return (CPU seconds, objective) after each iteration."""
    Wt, H = Wt.copy(), H.copy()
    path = []
    spent = 0.0
    iterations = SOLVERS[name].iterate(problem, Wt, H, max_iter=MAX_ITER.get(name, 2000))
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while spent < budget:
            start = time.process_time()
            step = next(iterations, None)
            spent += time.process_time() - start
            if step is None:
                break
            path.append((spent, step.objective))
        path.append((spent, problem.objective(Wt, H)))
    # an objective belongs to the factors before the iteration: to the time when the iteration before had ended
    return [(path[i - 1][0] if i else 0.0, objective) for i, (_, objective) in enumerate(path[:-1])] + [path[-1]]


def table(*words: str) -> None:
    """Print the lowest objective and the seconds of every solver, for all problems or those with a word in the name."""
    print("\n| problem | auto | solver: lowest objective, CPU seconds to within 1 % of the best |")
    print("| --- | --- | --- |")
    for title, problem, Wt, H in problems():
        if words and not any(word in title for word in words):
            continue
        able = [name for name, entry in SOLVERS.items() if name not in BASELINES and entry.obstacle(problem) is None]
        paths = {}
        for name in able:
            run(name, problem, Wt, H, 0.0)  # compiles
            for _ in SOLVERS[name].iterate(problem, Wt.copy(), H.copy(), max_iter=1):
                break
            paths[name] = run(name, problem, Wt, H, BUDGET)
        best = min(objective for path in paths.values() for _, objective in path if np.isfinite(objective))
        times = {
            name: min((seconds for seconds, objective in path if objective <= best * (1 + WITHIN)), default=np.inf)
            for name, path in paths.items()
        }
        auto = choose("auto", problem)
        cells = [
            f"{name}: {min(objective for _, objective in path):.6g}, "
            + (f"{times[name]:.3f} s" if np.isfinite(times[name]) else "never")
            for name, path in paths.items()
        ]
        ratio = times[auto] / max(min(times.values()), 1e-9)
        print(f"| {title} | {auto}, {ratio:.2f} × the best | {'; '.join(cells)} |", flush=True)


PARTS = {"table": table}
QUICK = {"BUDGET": 0.01}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK)
