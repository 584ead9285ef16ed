"""Manhattan loss: the default solver against the paper's methods and the peers' on the peers' own problems.

``python benchmarks/manhattan.py`` runs everything (some twenty minutes), ``python benchmarks/manhattan.py race`` or
``floor`` one part, ``python benchmarks/manhattan.py race l1_100x50`` one problem.

One thread; CPU seconds of the iterations, without the evaluation of the objective; every method has the same start and
the same data, in double precision; ours in single precision as well. A method is given a budget, and left when it has
long ceased to fall. The peers are written from their published formulas:

- OGM of Guan et al. (2012), Algorithm 3, with its best ``lambda_0`` of 10, 1, 0.1 and 0.01, with the prox-function at 0
  as printed and at the present factor;
- RRI of the same paper (with our selection, which is several times faster than the paper's sort);
- reweighted multiplicative updates (IRLS-MU): ``W <- W * ((D * X) H^T) / ((D * W H) H^T)``, ``D = 1 / |X - W H|``
  with a floor;
- scikit-learn's NMF for the Frobenius loss, judged by the Manhattan loss.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

os.environ.setdefault("VISIONNMF_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from _main import main
from _problems import load
from sklearn.decomposition import NMF as ScikitNMF
from sklearn.exceptions import ConvergenceWarning

from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.kernels import admm as _admm_kernels
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import admm, ogm
from visionnmf.engine.solving import SOLVERS
from visionnmf.engine.stopping import Stopping

BUDGETS = {"l1_100x50": 3.0, "l1_1000x500": 25.0, "face1024x476": 25.0}  # CPU seconds, as of the published runs
SMOOTHINGS = (0.1, 1.0, 0.01, 10.0)
DEFAULT_ITERATIONS, DEFAULT_TOL = 400, 1e-4  # of NMF
LONG = 1600
MANY = 100_000
FLOORS = (("face1024x476", 20), ("face1024x476", 50), ("l1_1000x500", 50), ("yaleb1024x2414", 80))  # problem, rank

Array = np.ndarray
Method = Callable[[Array, Array, Array], Iterator[None]]


class Path(NamedTuple):
    """CPU seconds and relative objectives."""

    seconds: list[float]
    objectives: list[float]

    def best(self) -> tuple[float, float]:
        """Return the lowest objective and when it was reached."""
        i = int(np.argmin(self.objectives))
        return self.objectives[i], self.seconds[i]

    def until(self, objective: float) -> float:
        """Return when the objective was first at most this; infinite if never."""
        return next((s for s, o in zip(self.seconds, self.objectives, strict=True) if o <= objective), float("inf"))


def run(method: Method, X: Array, Wt: Array, H: Array, budget: float, evaluations: int = 60) -> Path:
    """Follow a method, which works in place; objectives are evaluated outside the clock, at growing intervals."""
    Wt, H = Wt.copy(), H.copy()
    problem = Problem(X, Loss("manhattan"))
    total = float(X.sum(dtype=np.float64))
    path = Path([], [])
    spent, next_look = 0.0, 0.0
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps = method(X, Wt, H)
        running = True
        while running and spent < budget:
            start = time.process_time()
            running = next(steps, "end") != "end"
            spent += time.process_time() - start
            if not running or spent >= min(next_look, budget):
                path.seconds.append(spent)
                path.objectives.append(problem.objective(Wt, H) / total)
                next_look = max(1.1 * spent, spent + budget / evaluations / 10)
                if spent > budget / 5 > 2 * path.best()[1]:
                    break  # it rises or stands still
    return path


def ours(max_iter: int = DEFAULT_ITERATIONS, tol: float = DEFAULT_TOL) -> Method:
    def method(X: Array, Wt: Array, H: Array) -> Iterator[None]:
        rule = Stopping(tol)
        for step in admm.iterate(Problem(X, Loss("manhattan")), Wt, H, max_iter=max_iter):
            yield
            if rule.add(step.objective, step.residual):
                return

    return method


def solver(name: str) -> Method:
    def method(X: Array, Wt: Array, H: Array) -> Iterator[None]:
        for _ in SOLVERS[name].iterate(Problem(X, Loss("manhattan")), Wt, H, max_iter=MANY):
            yield

    return method


def published_ogm(smoothing: float, centred: bool) -> Method:
    """Algorithm 3; as printed, or from the present factor (a warm start, as the text says)."""

    def method(X: Array, Wt: Array, H: Array) -> Iterator[None]:
        problem = Problem(X, Loss("manhattan"))
        options = ogm.PUBLISHED._replace(centred=centred)
        for t in range(MANY):
            rest = {"smoothing": smoothing / (t + 1), "steps": int(10 * (t + 1) ** 0.5), "options": options}
            ogm.half(problem, Wt, H, **rest)
            ogm.half(problem.transposed, H, Wt, **rest)
            yield

    return method


def reweighted(floor: float) -> Method:
    """Run IRLS-MU; `floor` is in units of the mean of the data."""

    def method(X: Array, Wt: Array, H: Array) -> Iterator[None]:
        least = floor * X.mean()
        W = np.ascontiguousarray(Wt.T)
        tiny = np.finfo(X.dtype).tiny
        while True:
            for transposed in (False, True):
                P = W @ H
                D = 1 / np.maximum(np.abs(X - P), least)
                if transposed:
                    H *= (W.T @ (D * X)) / np.maximum(W.T @ (D * P), tiny)
                else:
                    W *= ((D * X) @ H.T) / np.maximum((D * P) @ H.T, tiny)
            Wt[:] = W.T
            yield

    return method


def scikit(iterations: int = 20) -> Method:
    def method(X: Array, Wt: Array, H: Array) -> Iterator[None]:
        while True:
            model = ScikitNMF(len(H), init="custom", max_iter=iterations, tol=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                W = model.fit_transform(X, W=np.ascontiguousarray(Wt.T), H=H.copy())
            Wt[:], H[:] = W.T, model.components_
            yield

    return method


def peers() -> dict[str, Method]:
    """Return the peers by their titles."""
    found: dict[str, Method] = {}
    for smoothing in SMOOTHINGS:
        found[f"OGM, warm start, lambda {smoothing}"] = published_ogm(smoothing, centred=True)
        found[f"OGM as printed, lambda {smoothing}"] = published_ogm(smoothing, centred=False)
    for floor in (1e-1, 1e-2, 1e-4):
        found[f"IRLS-MU, floor {floor:g}"] = reweighted(floor)
    return found | {"RRI": solver("rri"), "scikit-learn, Frobenius": scikit(), "our OGM, 100 rounds": ours_ogm(100)}


def race(problem: str = "all") -> None:
    """Print each method's lowest objective within its budget, and what ours needs to get there."""
    for name in BUDGETS if problem == "all" else [problem]:
        X, W, H = load(name)
        Wt, budget = np.ascontiguousarray(W.T), BUDGETS[name]
        print(f"\n## {name}, rank {len(H)}: sum |X - WH| / sum X, CPU seconds of one thread\n")
        print(
            "| method | lowest objective | at, s | ours gets there at, s (64 bits: default, 4 x longer path; 32 bits) |"
        )
        print("| --- | --- | --- | --- |")
        own = {}
        for dtype in (np.float64, np.float32):
            data = X.astype(dtype), Wt.astype(dtype), H.astype(dtype)
            run(ours(3), *data, 1.0)
            for max_iter in (DEFAULT_ITERATIONS, LONG):
                path = run(ours(max_iter), *data, budget, evaluations=10_000)
                own[dtype, max_iter] = path
                row = f"**ours, {max_iter} iterations, {np.dtype(dtype).name}**"
                print(f"| {row} | {path.objectives[-1]:.5f} | {path.seconds[-1]:.3f} | |", flush=True)
        for title, method in peers().items():
            run(method, X, Wt, H, 0.0)
            objective, seconds = run(method, X, Wt, H, budget).best()
            reached = ", ".join(f"{path.until(objective):.3f}" for path in own.values())
            print(f"| {title} | {objective:.5f} | {seconds:.2f} | {reached} |", flush=True)


def ours_ogm(max_iter: int) -> Method:
    def method(X: Array, Wt: Array, H: Array) -> Iterator[None]:
        for _ in ogm.iterate(Problem(X, Loss("manhattan")), Wt, H, max_iter=max_iter):
            yield

    return method


def _cpu_ms(function: Callable[[], object], repeats: int = 60) -> float:
    function()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return 1e3 * float(np.median(times))


def floor() -> None:
    """Print the cost of one ADMM iteration over its floor: three products and one pass."""
    print("\n## One iteration against its floor, CPU ms of one thread, medians\n")
    print("| problem | dtype | rank | three products | one pass | floor | iteration | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, rank in FLOORS:
        for dtype in (np.float32, np.float64):
            X, W, H = (np.ascontiguousarray(part) for part in load(name, dtype))
            Wt, H = np.ascontiguousarray(W.T[:rank]), H[:rank]
            W = np.ascontiguousarray(Wt.T)
            P, U = np.empty_like(X), np.zeros_like(X)
            sums, bounds, one = np.empty(len(X)), np.full(len(X), 0.1, dtype), dtype(1)
            with one_blas_thread():
                products = _cpu_ms(lambda: np.matmul(W, H, out=P))  # noqa: B023
                products += _cpu_ms(lambda: np.matmul(H, P.T))  # noqa: B023
                products += _cpu_ms(lambda: np.matmul(Wt, P))  # noqa: B023
                args = (X, P, U, None, None, None, None, bounds, one, 0, len(X), sums, sums)
                once = _cpu_ms(lambda: _admm_kernels.entries_pass(*args))  # noqa: B023
                steps = admm.iterate(Problem(X, Loss("manhattan")), Wt, H, max_iter=200)
                iteration = _cpu_ms(lambda: next(steps), 150)  # noqa: B023
            least = products + once
            print(
                f"| {name} | {np.dtype(dtype).name} | {rank} | {products:.2f} | {once:.2f} | {least:.2f} "
                f"| {iteration:.2f} | {iteration / least:.2f} |",
                flush=True,
            )


PARTS = {"race": race, "floor": floor}
QUICK = {"BUDGETS": {"l1_100x50": 0.02}, "FLOORS": (("face1024x476", 4),), "SMOOTHINGS": (1.0,), "LONG": 500}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK)
