"""Least squares: CPU seconds of the solvers to the same objective, from the same starts.

``python benchmarks/frobenius.py`` runs everything (about 15 minutes), ``python benchmarks/frobenius.py dense`` one
part: dense (solvers and peers, from several starts), others (our slower solvers) or weights (the algorithms for
weighted entries). One thread; process CPU seconds.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable

import numpy as np
from _main import main
from _problems import PeerProblem, load
from sklearn.decomposition import non_negative_factorization
from threadpoolctl import threadpool_limits

from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import hals
from visionnmf.engine.solving import SOLVERS

REPEATS = 3
SECONDS = {"rand1000x500": 1.5, "yaleb1024x2414": 7.0}  # of a run, about
STARTS = 4  # further ones, like the shared start
OTHERS_SECONDS = 4.0
WEIGHTED_ITERATIONS = (240, 60)
LEVELS = (1e-2, 3e-3, 1e-3)
Curve = list[tuple[float, float]]  # CPU seconds so far, objective
Start = tuple[np.ndarray, np.ndarray]


def value(X: np.ndarray, Wt: np.ndarray, H: np.ndarray) -> float:
    """Evaluate the loss in double precision."""
    return float(np.square(X - Wt.T.astype(float) @ H.astype(float)).sum() / 2)


def starts(data: PeerProblem) -> list[Start]:
    """Return the shared start and further ones of the same distribution."""
    (m, n), r = data.X.shape, len(data.H)
    size = np.sqrt(float(data.X.mean()) / r)
    found = [(data.W, data.H)]
    for seed in range(STARTS):
        rng = np.random.default_rng(seed)
        W, H = (size * np.abs(rng.standard_normal(shape)) + 1e-6 for shape in ((m, r), (r, n)))
        found.append((W.astype(data.X.dtype), H.astype(data.X.dtype)))
    return found


def ours(name: str, problem: Problem, start: Start, limit: float = np.inf, iterations: int = 100000) -> Curve:
    """Run a solver; the objectives are its own, and the last one is checked."""
    Wt, H = np.ascontiguousarray(start[0].T), start[1].copy()
    curve, seconds = [], 0.0
    with one_blas_thread():
        begin = time.process_time()
        for step in SOLVERS[name].iterate(problem, Wt, H, max_iter=iterations):
            seconds += time.process_time() - begin
            curve.append((seconds, step.objective))  # of the iteration before
            if seconds > limit:
                break
            begin = time.process_time()
    objectives = [objective for _, objective in curve[1:]] + [problem.objective(Wt, H)]
    if problem.weights is None and abs(value(problem.X, Wt, H) / objectives[-1] - 1) > 1e-5:
        raise SystemExit("a solver's objective is not that of its factors")
    return [(seconds, objective) for (seconds, _), objective in zip(curve, objectives, strict=True)]


def coordinate_descent(X: np.ndarray, start: Start, limit: float) -> Curve:
    """Run scikit-learn's solver, some iterations a call; it has no state but the factors."""
    curve: Curve = []
    (W, H), seconds, iterations = start, 0.0, 4.0
    W, H = W.copy(), H.copy()
    while seconds < limit:
        begin = time.process_time()
        W, H, _ = non_negative_factorization(
            X, W=W, H=H, init="custom", n_components=len(H), solver="cd", max_iter=round(iterations), tol=0
        )
        seconds += time.process_time() - begin
        curve.append((seconds, value(X.astype(float), W.T, H)))
        iterations *= 1.15
    return curve


def published_hals(X: np.ndarray, start: Start, limit: float) -> Curve:
    """Extrapolated HALS as published (Ang & Gillis 2019, Algorithm 3), in NumPy with the authors' parameters."""
    W, H = start[0].copy(), start[1].copy()
    W *= np.sum((X @ H.T) * W) / np.sum((H @ H.T) * (W.T @ W))
    W_ahead, H_ahead = W.copy(), H.copy()
    beta, ceiling, previous_beta, previous = 0.5, 1.0, 0.5, np.inf
    square = float(np.sum(X**2))
    curve: Curve = []
    seconds, begin, best = 0.0, time.process_time(), np.inf
    while seconds < limit:
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


def from_one_start(name: str, index: int) -> dict[str, Curve]:
    """Run ours and the peers from one start, one after the other."""
    curves: dict[str, Curve] = {}
    limit = SECONDS[name]
    for dtype in (np.float64, np.float32):
        data, word = load(name, dtype), np.dtype(dtype).name
        start, problem = starts(data)[index], Problem(data.X, Loss("frobenius"))
        if index == 0:
            ours("hals", problem, start, iterations=2)  # compiles
        curves[f"**ours, {word}**"] = ours("hals", problem, start, limit)
        curves[f"scikit-learn `cd`, {word}"] = coordinate_descent(data.X, start, limit)
        if dtype is np.float64:
            curves["extrapolated HALS as published, NumPy"] = published_hals(data.X, start, limit)
    return curves


def dense() -> None:
    """CPU seconds to near the lowest objective that any solver finds from the same start, over starts."""
    for name in SECONDS:
        runs = [from_one_start(name, index) for index in range(1 + STARTS)]
        bests = [min(curve[-1][1] for curve in curves.values()) for curves in runs]
        print(f"\n## {name}: {len(runs)} starts, {SECONDS[name]} s a run\n")
        print("For each distance above the best end from a start: median of the starts; expected seconds to a success,")
        print("restarting what fails; successes.\n")
        print(
            f"| solver | {' | '.join(f'+{100 * level:g} %' for level in LEVELS)} | end above the best, median, worst |"
        )
        print("| --- " * (2 + len(LEVELS)) + "|")
        for label in runs[0]:
            cells = []
            for level in LEVELS:
                times = [reach(curves[label], best * (1 + level)) for curves, best in zip(runs, bests, strict=True)]
                cells.append(summary(times, [curves[label][-1][0] for curves in runs]))
            ends = [curves[label][-1][1] / best - 1 for curves, best in zip(runs, bests, strict=True)]
            print(f"| {label} | {' | '.join(cells)} | {np.median(ends):.1e}, {max(ends):.1e} |", flush=True)


def summary(times: list[float], lengths: list[float]) -> str:
    """Return the median, the expected running time, and the number of the runs that succeed."""
    good = np.isfinite(times)
    spent = float(np.where(good, times, lengths).sum())
    expected = f"{spent / good.sum():.3g}" if good.any() else "–"
    median = np.median(times)
    return f"{f'{median:.3g}' if np.isfinite(median) else '–'}; {expected}; {good.sum()} of {len(times)}"


def others() -> None:
    """Run all our solvers on the made problem, from the shared start."""
    data = load("rand1000x500")
    problem = Problem(data.X, Loss("frobenius"))
    curves = {}
    for solver in ("hals", "nenmf"):
        ours(solver, problem, (data.W, data.H), iterations=2)  # compiles
        curves[solver] = ours(solver, problem, (data.W, data.H), OTHERS_SECONDS)
    best = min(curve[-1][1] for curve in curves.values())
    floor = float(np.sum(np.linalg.svd(data.X, compute_uv=False)[len(data.H) :] ** 2)) / 2
    print(f"\n## rand1000x500: best objective {best:.6g}; truncated SVD, not non-negative: {floor:.6g}\n")
    print("| solver | s to +1 % | +.3 % | +.1 % | ms an iteration |")
    print("| --- | --- | --- | --- | --- |")
    for solver, curve in curves.items():
        cells = " | ".join(f"{reach(curve, best * (1 + level)):.3f}" for level in LEVELS)
        print(f"| {solver} | {cells} | {1e3 * curve[-1][0] / len(curve):.1f} |")


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
        for hals.SKEW, iterations in zip((np.inf, 0.0), WEIGHTED_ITERATIONS, strict=True):
            start = data.W, data.H
            ours("hals", problem, start, iterations=2)
            curves.append(
                median_curve(
                    lambda problem=problem, start=start, count=iterations: ours(
                        "hals", problem, start, iterations=count
                    )
                )
            )
        best = min(curve[-1][1] for curve in curves)
        cells = [" / ".join(f"{reach(curve, best * (1 + more)):.2f}" for more in (0.03, 0.01)) for curve in curves]
        print(f"| {label} | {M.max() / M.mean():.1f} | {' | '.join(cells)} |")
    hals.SKEW = skew


PARTS = {"dense": dense, "others": others, "weights": weights}
QUICK = {
    "REPEATS": 1,
    "STARTS": 1,
    "SECONDS": {"rand1000x500": 0.01},
    "OTHERS_SECONDS": 0.01,
    "WEIGHTED_ITERATIONS": (4, 2),
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # scikit-learn's, that it has not converged
    os.environ["VISIONNMF_NUM_THREADS"] = "1"
    with threadpool_limits(1):
        main(PARTS, globals(), QUICK)
