"""The engine's figures: exact recovery, and the RRI sweep against a sort.

``python benchmarks/engine.py`` runs everything (about two minutes), ``python benchmarks/engine.py recovery`` one part:
recovery or sort.
"""

from __future__ import annotations

import types
import warnings

import numba
import numpy as np
from _machine import timed
from _main import main
from sklearn.exceptions import ConvergenceWarning

from visionnmf import NMF
from visionnmf._jit import REASSOCIATE
from visionnmf.datasets import make_corrupted_low_rank
from visionnmf.engine.kernels import manhattan as _kernels

RECOVERY_SEEDS = 5
SHAPE = (1024, 476)
RANKS = (20, 50)  # of the recovery, of the sweep


def recovery() -> None:
    """Relative error of WH to the clean matrix, 1024 x 476, true rank 20, default settings, random start."""
    print("\n## Recovery: 1024 x 476, true rank 20 (gamma(0.5) factors), default settings, float32\n")
    print("| corruption | error, median (max) of 5 seeds | seconds, median (max) | loss / truth's | least squares |")
    print("| --- | --- | --- | --- | --- |")
    cases = [(name, None, 0.0) for name in ("none", "salt_and_pepper", "laplace", "gaussian", "occlusion", "poisson")]
    cases += [("salt_and_pepper", 0.4, 0.0), ("none", None, 0.3), ("salt_and_pepper", 0.4, 0.3)]
    for corruption, amount, missing in cases:
        errors, seconds, ratios, squares = [], [], [], []
        for seed in range(RECOVERY_SEEDS):
            data = make_corrupted_low_rank(*SHAPE, RANKS[0], corruption=corruption, amount=amount, random_state=seed)
            X = data.X.copy()
            X[np.random.default_rng(seed).random(X.shape) < missing] = np.nan
            model = NMF(RANKS[0], missing_values=np.nan, random_state=seed)
            _, median, _ = timed(lambda model=model, X=X: model.fit(X), repeats=1 if seed else 2)
            errors.append(_error(model, X, data.clean))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                peer = NMF(RANKS[0], loss="frobenius", missing_values=np.nan, random_state=seed).fit(X)
            squares.append(_error(peer, X, data.clean))
            seconds.append(median)
            truth = np.nansum(np.abs(X.astype(float) - data.clean))
            ratios.append(model.reconstruction_err_ / truth if truth else float("nan"))
        name = (
            f"{corruption}{'' if amount is None else f' {amount:.0%}'}{f', {missing:.0%} missing' if missing else ''}"
        )
        print(
            f"| {name} | {np.median(errors):.5f} ({max(errors):.5f}) | {np.median(seconds):.2f} "
            f"({max(seconds):.2f}) | {np.median(ratios):.4f} | {np.median(squares):.4f} |"
        )


def _error(model: NMF, X: np.ndarray, clean: np.ndarray) -> float:
    found = model.inverse_transform(model.transform(X))
    return float(np.linalg.norm(found - clean) / np.linalg.norm(clean))


def _sort_step(steps, weights, count, slope, curvature, rounding):  # type: ignore[no-untyped-def]
    """Select as in Guan et al. (2012), Algorithm 1: sort the breakpoints, then walk."""
    order = np.argsort(steps[:count])
    reached = slope
    step = 0.0
    for i in range(count):
        step = steps[order[i]]
        reached += weights[order[i]]
        if reached >= 0.0:
            break
    return step


def _with_selection(selection):  # type: ignore[no-untyped-def]
    """Compile the row kernel again with another selection: the same kernel otherwise."""
    options = {"nogil": True, "error_model": "numpy"}
    names = dict(vars(_kernels))
    names["select_step"] = numba.njit(**options)(selection)
    for name in ("update_variable", "rri_rows"):
        function = types.FunctionType(getattr(_kernels, name).py_func.__code__, names, name)
        fastmath = {"fastmath": set(REASSOCIATE)} if name == "update_variable" else {}
        names[name] = numba.njit(**options, **fastmath)(function)
    return names["rri_rows"]


def sort() -> None:
    """One RRI sweep over the codes, 1024 x 476 rank 50, partition selection against a sort, one thread."""
    print("\n## RRI sweep against the same kernel with a sort: 1024 x 476, rank 50, one thread\n")
    print("| dtype | after sweeps | selection, ms (min-max) | sort, ms (min-max) | ratio | same objective |")
    print("| --- | --- | --- | --- | --- | --- |")
    (m, n), r = SHAPE, RANKS[1]
    sorting = _with_selection(_sort_step)
    for dtype in (np.float32, np.float64):
        X = make_corrupted_low_rank(*SHAPE, RANKS[1], random_state=0, dtype=dtype).X
        rng = np.random.default_rng(0)
        F, A = (np.sqrt(X.mean() / r) * np.abs(rng.standard_normal(s)).astype(dtype) for s in ((r, m), (r, n)))
        F, A = F.astype(dtype), A.astype(dtype)
        Xt = np.ascontiguousarray(X.T)
        box, scratch = (dtype(0), dtype(np.inf)), [np.empty((3, size), dtype) for size in (n, m)]
        eps, losses, zeros = _kernels.sum_rounding(dtype), np.empty(m), np.zeros(r, dtype)
        done = 0
        for sweeps in (0, 1, 5, 20):
            for _ in range(sweeps - done):
                _kernels.rri_rows(X, None, F, A, *box, zeros, zeros, None, None, 1, eps, 0, m, losses, A, scratch[0])
                _kernels.rri_rows(Xt, None, A, F, *box, zeros, zeros, None, None, 1, eps, 0, n, losses, F, scratch[1])
            done = sweeps
            figures, objectives = [], []
            for kernel in (_kernels.rri_rows, sorting):
                after = F.copy()
                kernel(X, None, after, A, *box, zeros, zeros, None, None, 1, eps, 0, m, losses, A, scratch[0])
                objectives.append(np.abs(X - after.T @ A).sum())

                def sweep(  # type: ignore[no-untyped-def]
                    kernel=kernel, F=F, A=A, X=X, box=box, eps=eps, losses=losses, zeros=zeros, scratch=scratch
                ) -> None:
                    kernel(X, None, F.copy(), A, *box, zeros, zeros, None, None, 1, eps, 0, m, losses, A, scratch[0])

                figures.append([1e3 * value for value in timed(sweep)])
            (low, ours, high), (low_s, peer, high_s) = figures
            same = abs(objectives[0] / objectives[1] - 1)
            print(
                f"| {np.dtype(dtype).name} | {sweeps} | {ours:.1f} ({low:.1f}-{high:.1f}) | {peer:.1f} "
                f"({low_s:.1f}-{high_s:.1f}) | {peer / ours:.1f} | to {same:.0e} |"
            )


PARTS = {"recovery": recovery, "sort": sort}
QUICK = {"RECOVERY_SEEDS": 1, "SHAPE": (60, 40), "RANKS": (3, 4)}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK)
