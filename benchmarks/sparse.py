"""Sparse data, 20000 x 10000 with 1.14 M stored entries, rank 20: CPU seconds to the same objective, ours and peers.

``python benchmarks/sparse.py`` runs everything (about ten minutes), ``python benchmarks/sparse.py frobenius`` one part:
frobenius, kullback-leibler or manhattan. One thread; process CPU seconds; peer and ours by turns in one run. Least
squares are run from the shared start and from twenty more of the same making (random factors, seeds 0 to 19).
"""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from _main import main
from _problems import PeerProblem, load
from sklearn.decomposition import non_negative_factorization
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import SOLVERS

NAME = "sparse20000x10000"
STARTS = 21
REPEATS = 3
TOLERANCES = (1e-2, 1e-3)  # the best objective, and where a run may stay for long: two topics in one component
PASSES, PEER_ITERATIONS = 30, 60  # a run that has not succeeded then has failed
KNOWN_ERROR = 0.9436  # relative; peers' times to it from the shared start are known on other machines
MU_ITERATIONS = 100
Curve = list[tuple[float, float]]  # CPU seconds so far, objective then


def starts(data: PeerProblem) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the shared start and further ones of the same distribution."""
    found = {"shared": (data.W, data.H)}
    (m, n), r = data.X.shape, data.W.shape[1]
    size = np.sqrt(data.X.mean() / r)
    for seed in range(STARTS - 1):
        rng = np.random.default_rng(seed)
        W, H = (size * np.abs(rng.standard_normal(shape)) + 1e-6 for shape in ((m, r), (r, n)))
        found[f"seed {seed}"] = W.astype(data.X.dtype), H.astype(data.X.dtype)
    return found


def ours(X: Any, W: np.ndarray, H: np.ndarray, loss: Loss, solver: str, iterations: int) -> Curve:
    """Run a solver; the time includes all that it prepares."""
    Wt, H = np.ascontiguousarray(W.T), H.copy()
    problem = Problem(X, loss)
    curve, seconds = [], 0.0
    with one_blas_thread():
        begin = time.process_time()
        for _ in SOLVERS[solver].iterate(problem, Wt, H, max_iter=iterations):
            seconds += time.process_time() - begin
            curve.append((seconds, Problem(X, loss).loss_value(Wt, H)))
            begin = time.process_time()
    return curve


def peer(X: Any, W: np.ndarray, H: np.ndarray, loss: Loss, solver: str, iterations: int) -> tuple[float, float]:
    """Run scikit-learn's solver from the start."""
    matrix = sp.csr_matrix(X)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        begin = time.process_time()
        W, H, _ = non_negative_factorization(
            matrix, W.copy(), H.copy(), n_components=len(H), init="custom", solver=solver, beta_loss=loss.name, tol=0,
            max_iter=iterations,
        )  # fmt: skip
        seconds = time.process_time() - begin
    return seconds, Problem(X, loss).loss_value(np.ascontiguousarray(W.T), H)


def reached(curve: Curve, goal: float) -> float:
    """Return the seconds to an objective; infinite when it is not reached."""
    return next((seconds for seconds, value in curve if value <= goal), float("inf"))


def peer_objectives(X: Any, W: np.ndarray, H: np.ndarray, loss: Loss) -> list[float]:
    """Return the objective after each iteration of scikit-learn's `cd`, which has no state but the factors."""
    matrix, found = sp.csr_matrix(X), []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(PEER_ITERATIONS):
            W, H, _ = non_negative_factorization(
                matrix, W.copy(), H.copy(), n_components=len(H), init="custom", tol=0, max_iter=1
            )
            found.append(Problem(X, loss).loss_value(np.ascontiguousarray(W.T), H))
    return found


def seconds_to(goal: float, run: tuple[Any, ...], loss: Loss, repeats: int = 1) -> tuple[float, float, float, float]:
    """Return CPU seconds of ours and of the peer to the goal, infinite for never; and of what was run, by turns."""
    X, W, H, curve, objectives = run
    passes = next((i + 1 for i, (_, value) in enumerate(curve) if value <= goal), 0)
    iterations = next((i + 1 for i, value in enumerate(objectives) if value <= goal), 0)
    mine, theirs = [], []
    for _ in range(repeats):
        mine.append(ours(X, W, H, loss, "hals", passes or PASSES)[-1][0])
        theirs.append(peer(X, W, H, loss, "cd", iterations or PEER_ITERATIONS)[0])
    one, other = float(np.median(mine)), float(np.median(theirs))
    return one if passes else np.inf, other if iterations else np.inf, one, other


def frobenius() -> None:
    """CPU seconds to near the lowest objective that any run of either solver reaches from any start."""
    print(f"\n## Least squares, {STARTS} starts: medians; expected seconds to a success, restarting what fails\n")
    print("| dtype | to | ours (hals): median; expected; successes | scikit-learn cd | ratio of medians; of expected |")
    print("| --- | --- | --- | --- | --- |")
    loss = Loss("frobenius")
    for dtype in (np.float64, np.float32):
        data = load(NAME, dtype)
        word = np.dtype(dtype).name
        ours(data.X, data.W, data.H, loss, "hals", 2)  # compiles
        runs = [
            (data.X, W, H, ours(data.X, W, H, loss, "hals", PASSES), peer_objectives(data.X, W, H, loss))
            for W, H in starts(data).values()
        ]
        best = min(min(min(objectives), min(value for _, value in curve)) for *_, curve, objectives in runs)
        for tolerance in TOLERANCES:
            found = np.array([seconds_to(best * (1 + tolerance), run, loss) for run in runs])
            good, medians = np.isfinite(found[:, :2]).sum(axis=0), np.median(found[:, :2], axis=0)
            expected = found[:, 2:].sum(axis=0) / good
            cells = [f"{medians[i]:.3f}; {expected[i]:.3f}; {good[i]} of {len(runs)}" for i in (0, 1)]
            ratios = f"{medians[1] / medians[0]:.1f}; {expected[1] / expected[0]:.1f}"
            print(f"| {word} | best +{100 * tolerance:g} % | {cells[0]} | {cells[1]} | {ratios} |", flush=True)
        goal = KNOWN_ERROR**2 * float(np.square(data.X.data, dtype=np.float64).sum()) / 2
        one, other, *_ = seconds_to(goal, runs[0], loss, REPEATS)
        print(
            f"| {word} | error {KNOWN_ERROR}, shared start | {one:.3f} | {other:.3f} | {other / one:.1f} |", flush=True
        )


def kullback_leibler() -> None:
    """CPU seconds to the objective of scikit-learn's multiplicative updates after 100 iterations."""
    print(
        f"\n## Kullback-Leibler: CPU seconds to the objective of scikit-learn's mu after {MU_ITERATIONS} iterations\n"
    )
    print("| dtype | ours (ccd) | iterations | scikit-learn mu | ratio |")
    print("| --- | --- | --- | --- | --- |")
    loss = Loss("kullback-leibler")
    for dtype in (np.float64, np.float32):
        data = load(NAME, dtype)
        ours(data.X, data.W, data.H, loss, "ccd", 1)  # compiles
        theirs, goal = peer(data.X, data.W, data.H, loss, "mu", MU_ITERATIONS)
        curves = [ours(data.X, data.W, data.H, loss, "ccd", 20) for _ in range(REPEATS)]
        mine = float(np.median([reached(curve, goal) for curve in curves]))
        iterations = 1 + sum(value > goal for _, value in curves[0])
        print(
            f"| {np.dtype(dtype).name} | {mine:.2f} | {iterations} | {theirs:.1f} | {theirs / mine:.0f} |", flush=True
        )


def manhattan() -> None:
    """Loss and sparsity of the model for several weights of the zeros; no peer in Python takes sparse data."""
    print("\n## Manhattan (rri), 20 iterations from 10 of least squares, float32\n")
    print("| weight of zeros | loss / loss of WH = 0 | entries of W, H above 0 | CPU s |")
    print("| --- | --- | --- | --- |")
    data = load(NAME, np.float32)
    start, H0 = np.ascontiguousarray(data.W.T), data.H.copy()
    with one_blas_thread():
        list(SOLVERS["hals"].iterate(Problem(data.X, Loss("frobenius")), start, H0, max_iter=10))
        list(SOLVERS["rri"].iterate(Problem(data.X, Loss("manhattan")), start.copy(), H0.copy(), max_iter=1))
        for weight in (1.0, 0.3, 0.1, 0.03):
            problem = Problem(data.X, Loss("manhattan"), zero_weight=weight)
            Wt, H = start.copy(), H0.copy()
            begin = time.process_time()
            list(SOLVERS["rri"].iterate(problem, Wt, H, max_iter=20))
            seconds = time.process_time() - begin
            loss = problem.objective(Wt, H) / float(data.X.sum())
            print(
                f"| {weight} | {loss:.4f} | {(Wt > 0).mean():.3f}, {(H > 0).mean():.3f} | {seconds:.2f} |", flush=True
            )


PARTS = {"frobenius": frobenius, "kullback-leibler": kullback_leibler, "manhattan": manhattan}
QUICK = {"STARTS": 2, "REPEATS": 1, "PASSES": 3, "PEER_ITERATIONS": 3, "MU_ITERATIONS": 3}

if __name__ == "__main__":
    os.environ["VISIONNMF_NUM_THREADS"] = "1"
    main(PARTS, globals(), QUICK)
