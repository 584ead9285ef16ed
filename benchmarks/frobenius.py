"""Least squares: CPU seconds of the solvers to the same objective, from the same starts.

``python benchmarks/frobenius.py`` runs everything (about 20 minutes), ``python benchmarks/frobenius.py dense`` one
part: dense (solvers and peers) or weights (the algorithms for weighted entries). One thread; process CPU seconds,
medians.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _machine import machine
from _problems import PeerProblem, load
from sklearn.decomposition import non_negative_factorization
from threadpoolctl import threadpool_limits

from visionnmf.engine._threads import one_blas_thread
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import SOLVERS, hals, svd

REPEATS = 3
SECONDS = 12.0  # of a run, about
# relative errors for which the peers' figures on other machines are known
LEVELS = {"yaleb1024x2414": (0.165, 0.16), "rand1000x500": (0.0416,)}
Curve = list[tuple[float, float]]  # CPU seconds so far, objective


def value(X: np.ndarray, Wt: np.ndarray, H: np.ndarray) -> float:
    """Evaluate the loss in double precision."""
    return float(np.square(X - Wt.T.astype(float) @ H.astype(float)).sum() / 2)


def ours(name: str, problem: Problem, data: PeerProblem, iterations: int) -> Curve:
    Wt, H = np.ascontiguousarray(data.W.T), data.H.copy()
    X, M = problem.X.astype(float), problem.weights
    curve, seconds = [], 0.0
    with one_blas_thread():
        steps = SOLVERS[name].iterate(problem, Wt, H, max_iter=iterations)
        begin = time.process_time()
        for _ in steps:
            seconds += time.process_time() - begin
            curve.append((seconds, value(X, Wt, H) if M is None else problem.objective(Wt, H)))
            if seconds > SECONDS:
                break
            begin = time.process_time()
    return curve


def coordinate_descent(X: np.ndarray, data: PeerProblem) -> Curve:
    """Run scikit-learn's solver for growing numbers of iterations, each from the start."""
    curve: Curve = []
    iterations = 4.0
    while not curve or curve[-1][0] < SECONDS / 1.5:
        W, H = data.W.copy(), data.H.copy()
        begin = time.process_time()
        W, H, _ = non_negative_factorization(
            X, W=W, H=H, init="custom", n_components=len(H), solver="cd", max_iter=round(iterations), tol=0
        )
        seconds = time.process_time() - begin
        curve.append((seconds, value(X.astype(float), W.T, H)))
        if len(curve) > 2 and curve[-3][1] - curve[-1][1] < 1e-6 * curve[-1][1]:
            break
        iterations *= 1.4
    return curve


def published_hals(X: np.ndarray, data: PeerProblem, iterations: int) -> Curve:
    """Extrapolated HALS as published (Ang & Gillis 2019, Algorithm 3), in NumPy with the authors' parameters."""
    W, H = data.W.copy(), data.H.copy()
    W *= np.sum((X @ H.T) * W) / np.sum((H @ H.T) * (W.T @ W))
    W_ahead, H_ahead = W.copy(), H.copy()
    beta, ceiling, previous_beta, previous = 0.5, 1.0, 0.5, np.inf
    square = float(np.sum(X**2))
    curve: Curve = []
    seconds, begin, best = 0.0, time.process_time(), np.inf
    for _ in range(iterations):
        H_new = _inner_hals(W_ahead.T @ W_ahead, W_ahead.T @ X, H_ahead.copy())
        H_ahead = np.maximum(0, H_new + beta * (H_new - H))
        gram, right = H_ahead @ H_ahead.T, H_ahead @ X.T
        W_new = _inner_hals(gram, right, W_ahead.T.copy()).T
        W_ahead = np.maximum(0, W_new + beta * (W_new - W))
        error = (square - 2 * float(np.sum(right.T * W_new)) + float(np.sum(gram * (W_new.T @ W_new)))) / 2
        if error > previous:
            W_ahead, H_ahead = W.copy(), H.copy()
            ceiling, previous_beta, beta = previous_beta, beta, beta / 1.5
        else:
            W, H = W_new, H_new
            previous_beta, beta = beta, min(ceiling, 1.01 * beta)
            ceiling = min(1.0, 1.005 * ceiling)
        previous, best = error, min(best, error)
        seconds += time.process_time() - begin
        curve.append((seconds, best))
        if seconds > SECONDS:
            break
        begin = time.process_time()
    return curve


def _inner_hals(gram: np.ndarray, right: np.ndarray, F: np.ndarray) -> np.ndarray:
    """Sweep until a sweep changes a tenth of what the first one did (Gillis & Glineur 2012)."""
    diagonal = gram.diagonal() + 1e-16
    first = None
    for _ in range(100):
        before = F.copy()
        for k in range(len(F)):
            F[k] = np.maximum(0, F[k] + (right[k] - gram[k] @ F) / diagonal[k])
        change = float(np.linalg.norm(F - before))
        if first is None:
            first = change
        elif change <= 0.1 * first:
            break
    return F


def median_curve(run: Callable[[], Curve]) -> Curve:
    """Run several times; the objectives are the same each time, the seconds are medians."""
    runs = [run() for _ in range(REPEATS)]
    length = min(map(len, runs))
    seconds = np.median([[point[0] for point in curve[:length]] for curve in runs], axis=0)
    return list(zip(seconds, np.minimum.accumulate([point[1] for point in runs[0][:length]]), strict=True))


def reach(curve: Curve, target: float) -> float:
    """Return the seconds to an objective; infinite where it is not reached."""
    return next((seconds for seconds, objective in curve if objective <= target), float("inf"))


def contestants(name: str) -> Iterator[tuple[str, Curve]]:
    """Run all solvers on a problem."""
    for dtype in (np.float64, np.float32):
        data = load(name, dtype)
        word = np.dtype(dtype).name
        problem = Problem(data.X, Loss("frobenius"))
        yield f"scikit-learn cd, {word}", median_curve(lambda data=data: coordinate_descent(data.X, data))
        if dtype is np.float64:
            peer = "extrapolated HALS as published, NumPy"
            yield peer, median_curve(lambda data=data: published_hals(data.X, data, 400))
        for solver in ("hals", "nenmf", "bpp", "pg") if dtype is np.float64 else ("hals",):

            def run(solver: str = solver, problem: Problem = problem, data: PeerProblem = data) -> Curve:
                return ours(solver, problem, data, 1000 if solver == "hals" else 300)

            ours(solver, problem, data, 2)  # compiles
            yield f"ours, {solver}, {word}", median_curve(run)


def dense() -> None:
    """CPU seconds to within 1 %, .3 % and .1 % of the best objective that any solver finds, and to known errors."""
    for name in ("rand1000x500", "yaleb1024x2414"):
        data = load(name)
        curves = dict(contestants(name))
        best = min(curve[-1][1] for curve in curves.values())
        errors = [error**2 * float(np.square(data.X).sum()) / 2 for error in LEVELS[name]]
        Wt, H = np.ascontiguousarray(data.W.T), data.H.copy()
        problem = Problem(data.X, Loss("frobenius"))
        floor = next(problem.objective(Wt, H) for _ in svd.iterate(problem, Wt, H, max_iter=1))
        peer = curves["scikit-learn cd, float64"]
        print(f"\n## {name}, rank {len(H)}: best objective {best:.6g}; truncated SVD, not non-negative: {floor:.6g}\n")
        known = " | ".join(f"error {error}" for error in LEVELS[name])
        print(f"| solver | s to +1 % | +.3 % | +.1 % | {known} | ms an iteration | end | s to cd's end +.1 % |")
        print("| --- " * (7 + len(errors)) + "|")
        for label, curve in curves.items():
            targets = [*(best * (1 + more) for more in (1e-2, 3e-3, 1e-3)), *errors]
            cells = [f"{reach(curve, target):.3f}" for target in targets]
            each = "" if "cd," in label else f"{1e3 * curve[-1][0] / len(curve):.1f}"
            end = f"{curve[-1][1] / best - 1:+.1e} at {curve[-1][0]:.1f} s"
            print(f"| {label} | {' | '.join(cells)} | {each} | {end} | {reach(curve, peer[-1][1] * 1.001):.3f} |")


def weights() -> None:
    """Compare filling in with descent on residuals, by the skew of the weights."""
    print("\n## Weights: CPU seconds to within 3 % and 1 % of the better end, 60 iterations of each, face1024x476\n")
    print("| weights | largest / mean | filled in | on residuals |")
    print("| --- | --- | --- | --- |")
    data = load("face1024x476", np.float32)
    rng = np.random.default_rng(0)
    normal = rng.standard_normal(data.X.shape)
    kinds = {
        f"{round(100 * share)} % missing": (rng.random(data.X.shape) >= share).astype(float)
        for share in (0.3, 0.7, 0.9)
    }
    kinds["uniform"] = rng.random(data.X.shape)
    kinds |= {f"log-normal, sigma {sigma}": np.exp(sigma * normal) for sigma in (0.3, 0.5, 1.0, 1.5)}
    skew = hals.SKEW
    for label, M in kinds.items():
        M = M.astype(np.float32)
        problem = Problem(data.X * (M > 0), Loss("frobenius"), weights=M)
        curves = []
        for hals.SKEW, iterations in ((np.inf, 240), (0.0, 60)):
            ours("hals", problem, data, 2)
            curves.append(median_curve(lambda problem=problem, count=iterations: ours("hals", problem, data, count)))
        best = min(curve[-1][1] for curve in curves)
        cells = [" / ".join(f"{reach(curve, best * (1 + more)):.2f}" for more in (0.03, 0.01)) for curve in curves]
        print(f"| {label} | {M.max() / M.mean():.1f} | {' | '.join(cells)} |")
    hals.SKEW = skew


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # scikit-learn's, that it has not converged
    print(machine())
    parts: dict[str, Any] = {"dense": dense, "weights": weights}
    os.environ["VISIONNMF_NUM_THREADS"] = "1"
    with threadpool_limits(1):
        for part in sys.argv[1:] or parts:
            parts[part]()
