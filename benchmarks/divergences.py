"""The divergences against scikit-learn's multiplicative updates, and the orderings of the sBCD paper.

``python benchmarks/divergences.py`` runs everything (some ten minutes), ``python benchmarks/divergences.py dense`` one
part: dense, rank or weights. Process CPU seconds on one thread; set OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from _main import main
from _problems import load
from sklearn.decomposition import non_negative_factorization
from sklearn.exceptions import ConvergenceWarning

from visionnmf.apps.reproduce.sbcd import ENOUGH, MOST, RANKS, SHAPE, count_iterations
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import SOLVERS

DIVERGENCES = (Loss("kullback-leibler"), Loss("itakura-saito"), Loss("beta", 0.5), Loss("beta", 1.5))
REPEATS = 3
MAX_ITER = 40
MU_ITERATIONS = (100, 300)


def _ours(problem: Problem, W: np.ndarray, H: np.ndarray, solver: str, targets: list[float]) -> list[tuple[float, int]]:
    """Return the CPU seconds and iterations to each objective; nan where it is not reached."""
    Wt, H = np.ascontiguousarray(W.T), H.copy()
    start = time.process_time()
    spent, objectives = [], []
    for step in SOLVERS[solver].iterate(problem, Wt, H, max_iter=MAX_ITER):
        if spent:  # the objective is that before the iteration: it belongs to the time spent until then
            objectives.append(step.objective)
        spent.append(time.process_time() - start)
        if objectives and objectives[-1] <= min(targets):
            break
    found = []
    for target in targets:
        reached = [i for i, objective in enumerate(objectives) if objective <= target]
        found.append((spent[reached[0]], reached[0] + 1) if reached else (float("nan"), 0))
    return found


def dense() -> None:
    """CPU seconds to the objective that scikit-learn's mu reaches, from the same start."""
    print("\n## Dense: faces 1024 x 2414, rank 80, CPU seconds of one thread to scikit-learn mu's objective\n")
    print("| loss | dtype | mu iterations | objective | mu | solver | ours (iterations) | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for dtype in (np.float64, np.float32):
        X, W, H = load("yalebpos1024x2414", dtype)
        for loss in DIVERGENCES:
            problem = Problem(X, loss)
            problem.transposed  # noqa: B018  # made once for a problem
            counts = MU_ITERATIONS if loss.name == "kullback-leibler" else MU_ITERATIONS[:1]
            peers, targets = [], []
            for count in counts:
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    theirs = non_negative_factorization(
                        X, W=W.copy(), H=H.copy(), init="custom", n_components=len(H), solver="mu",
                        beta_loss=loss.beta, max_iter=count, tol=0,
                    )  # fmt: skip
                peers.append(time.process_time() - start)
                targets.append(problem.objective(np.ascontiguousarray(theirs[0].T), theirs[1]))
            for solver in ("sbcd", "ccd") if loss.name == "kullback-leibler" else ("sbcd",):
                small = Problem(np.ascontiguousarray(X[:40, :60]), loss)
                _ours(small, W[:40], np.ascontiguousarray(H[:, :60]), solver, [-1.0])  # compiles
                runs = [_ours(problem, W, H, solver, targets) for _ in range(REPEATS)]
                for i, count in enumerate(counts):
                    seconds, steps = sorted(run[i] for run in runs)[REPEATS // 2]
                    print(
                        f"| {loss.name} {loss.beta:g} | {np.dtype(dtype).name} | {count} | {targets[i]:.0f} | "
                        f"{peers[i]:.2f} | {solver} | {seconds:.3f} ({steps}) | {peers[i] / seconds:.1f} |",
                        flush=True,
                    )


def rank() -> None:
    """Count the iterations until one gains little, for growing rank (the paper's table 4)."""
    shape, share, ranks = SHAPE, ENOUGH, RANKS
    print(
        f"\n## Iterations for growing rank K, random {shape[0]} x {shape[1]}, until an iteration lowers the divergence"
    )
    print(f"by less than {share:g} of the start's, and the divergence then reached, relative to the start's\n")
    print(f"| loss | solver | {' | '.join(f'K = {k}' for k in ranks)} | K = 80 / K = 5 | K = 80 / K = 20 |")
    print(f"| --- | --- | {' | '.join('---' for _ in ranks)} | --- | --- |")
    for loss in (Loss("itakura-saito"), Loss("beta", 3.0)):  # the paper's beta is one less
        for solver in ("mu", "sbcd-plain", "sbcd"):
            found = [count_iterations(shape, rank, loss, solver, share, MOST) for rank in ranks]
            cells = " | ".join(f"{count} ({reached:.4f})" for count, reached in found)
            counts = [count for count, _ in found]
            print(
                f"| {loss.name} {loss.beta:g} | {solver} | {cells} | "
                f"{counts[-1] / counts[0]:.1f} | {counts[-1] / counts[2]:.1f} |",
                flush=True,
            )


def weights() -> None:
    """Compare the paper's variants on faces: objective after some iterations, and how often it rose."""
    print("\n## The published variants: faces 1024 x 2414, rank 20, objective relative to the start's (and rises)\n")
    print("| loss | iterations | sbcd-plain | al-a | al-b | mu | sbcd |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    X, W, H = load("yalebpos1024x2414", np.float32)
    X, Wt, H = np.ascontiguousarray(X[:, ::6]), np.ascontiguousarray(W[:, :20].T), np.ascontiguousarray(H[:20, ::6])
    for loss in (Loss("kullback-leibler"), Loss("itakura-saito")):
        problem = Problem(X, loss)
        histories = {}
        for solver in ("sbcd-plain", "al-a", "al-b", "mu", "sbcd"):
            F, A = Wt.copy(), H.copy()
            values = [step.objective for step in SOLVERS[solver].iterate(problem, F, A, max_iter=50)]
            histories[solver] = np.array([*values, problem.objective(F, A)])
        for count in (5, 20, 50):
            cells = [
                f"{history[count] / history[0]:.5f} ({int((np.diff(history[: count + 1]) > 0).sum())})"
                for history in histories.values()
            ]
            print(f"| {loss.name} | {count} | {' | '.join(cells)} |", flush=True)


PARTS = {"dense": dense, "rank": rank, "weights": weights}
QUICK = {"REPEATS": 1, "MU_ITERATIONS": (3, 5), "SHAPE": (30, 20), "RANKS": (2, 3, 4), "MOST": 5}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK)
