"""Whether a fit with default settings is finished when it stops, and what that costs.

``python benchmarks/convergence.py`` runs all parts; ``grid [WORD ...]`` only the rows that hold a word.

- ``grid``: every loss and its solvers on made data: no noise, 0.1, 1, 10 and 50 % noise, ranks 1 to 50, sparse,
  weighted and incomplete. A cell compares the default call with the same call at ``tol=0`` and ten times the
  iterations. It passes when it ends within 1 % of the lower objective or warns.
- ``lownoise``: five problems of an instrument with little noise, beside scikit-learn's default call.
- ``peers``: seconds of the finished default call beside scikit-learn's default call, and what scikit-learn needs to
  reach the same objective.
- ``promise [SEED [COUNT]]``: random problems, of every loss, many shapes, ranks and kinds of noise. A row for each
  default fit that does not warn and that twice the iterations lower by more than `tol`, then how many and by how much.
- ``sparse``: the default call for 30 sparse matrices beside that for the same data in a dense array.

One thread; processor seconds.
"""

from __future__ import annotations

import itertools
import os
import time
import warnings
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("VISIONNMF_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp
from _main import main
from sklearn.decomposition import NMF as SklearnNMF
from sklearn.exceptions import ConvergenceWarning

from visionnmf import NMF
from visionnmf.engine.losses import Loss, loss_value
from visionnmf.engine.problem import Problem
from visionnmf.engine.stopping import exact_objective
from visionnmf.models.data_checks import fitted_loss

MORE = 10  # times the iterations of the default
WITHIN = 1.01
SHAPE = (120, 60)
LOW_NOISE_SHAPE = (2000, 156)
SKLEARN = {"frobenius": "cd", "kullback-leibler": "mu", "itakura-saito": "mu"}
PEER_ITERATIONS = 20000  # of scikit-learn to the same objective, at most
PEER_SECONDS = 60.0
SPARSE_SHAPE, REPEATS = (300, 120), 3  # of `sparse`
LOSSES = ("frobenius", "kullback-leibler", "itakura-saito", "manhattan", "huber", "elastic-net", "l21", 0.5, 1.5)
PROBLEMS, SIDES = 200, (25, 400)  # of `promise`
KINDS = ("exact", "noise", "counts", "gaps", "outliers")
DENSITIES = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)

Array = Any


BUMP_NOISES = (0.0, 0.001, 0.01)
NOISES = (0.0, 0.001, 0.01, 0.1, 0.5)
LOW_NOISE = ((3, 0.0005), (4, 0.001), (5, 0.002), (6, 0.002), (8, 0.01))  # components and noise
LARGE = ("rand1000x500", "l1_1000x500", "yalebpos1024x2414")  # problems of the other benchmarks, for `peers`


def bumps(rank: int, noise: float, seed: int, shape: tuple[int, int] | None = None) -> tuple[Array, Array, Array]:
    """Return mixtures of Gaussian bumps on a ground of 0.5, with Dirichlet weights, and the true factors."""
    shape = shape or LOW_NOISE_SHAPE
    rng = np.random.default_rng(seed)
    centres, widths = rng.random(rank), rng.uniform(0.05, 0.15, rank)
    H = np.exp(-(((np.linspace(0, 1, shape[1]) - centres[:, None]) / widths[:, None]) ** 2) / 2) + 0.5
    W = rng.dirichlet(np.full(rank, 0.5), shape[0])
    return np.maximum(W @ H + noise * rng.standard_normal(shape), 1e-9), W, H


def low_rank(rank: int, noise: float, seed: int) -> Array:
    """Return gamma factors' product with Gaussian noise, in units of its mean, and without zeros."""
    rng = np.random.default_rng(seed)
    clean = rng.gamma(1, size=(SHAPE[0], rank)) @ rng.gamma(1, size=(rank, SHAPE[1]))
    return np.maximum(clean + noise * clean.mean() * rng.standard_normal(SHAPE), 1e-3 * clean.mean())


def cells() -> Iterator[tuple[str, Any, int, str, str, Any, dict[str, Any]]]:
    """Yield (data, X, rank, loss, solver, weights, further parameters)."""
    pairs = [
        ("frobenius", "hals"), ("kullback-leibler", "sbcd"), ("kullback-leibler", "ccd"),
        ("itakura-saito", "sbcd"), ("manhattan", "admm"), ("huber", "admm"), ("elastic-net", "admm"), ("l21", "admm"),
    ]  # fmt: skip
    rng = np.random.default_rng(7)
    plain = [(f"bumps, noise {noise:g}", bumps(5, noise, 3, SHAPE)[0], 5) for noise in BUMP_NOISES]
    for noise in NOISES:
        ranks = (1, 5, 20, 50) if noise in (0.001, 0.1) else (1, 5, 20)
        plain += [(f"rank {rank}, noise {noise:g}", low_rank(rank, noise, rank), rank) for rank in ranks]
    for name, X, rank in plain:
        for loss, solver in pairs:
            yield name, X, rank, loss, solver, None, {}
    for noise in (0.001, 0.1):
        X = low_rank(5, noise, 1)
        weights = rng.random(X.shape)
        incomplete = np.where(rng.random(X.shape) < 0.3, np.nan, X)
        for loss, solver in pairs:
            yield f"rank 5, noise {noise:g}, weights", X, 5, loss, solver, weights, {}
            yield (
                f"rank 5, noise {noise:g}, 30 % missing",
                incomplete,
                5,
                loss,
                solver,
                None,
                {"missing_values": np.nan},
            )
            yield f"rank 5, noise {noise:g}, float32", X.astype(np.float32), 5, loss, solver, None, {}
    topics = rng.dirichlet(np.full(150, 0.05), 8)
    counts = np.array([rng.multinomial(60, rng.dirichlet(np.full(8, 0.1)) @ topics) for _ in range(400)], float)
    for loss, solver in (("frobenius", "hals"), ("kullback-leibler", "ccd"), ("manhattan", "rri")):
        weight = {"zero_weight": 0.05} if loss == "manhattan" else {}
        yield "sparse counts, rank 8", sp.csr_array(counts), 8, loss, solver, None, weight
        if loss != "manhattan":
            ratings = sp.csr_array(np.where(rng.random(SHAPE) < 0.2, low_rank(5, 0.1, 2), 0))
            yield "ratings, 20 % known", ratings, 5, loss, solver, None, {"missing_values": 0}


def run(model: Any, X: Any, weights: Any) -> tuple[float, float, bool]:
    """Return the objective at the last iteration, processor seconds, and whether the fit has warned."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin = time.process_time()
        model.fit(X, weights=weights)
        seconds = time.process_time() - begin
    warned = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return float(model.objective_history_[-1]), seconds, warned


def grid(*words: str) -> None:
    """Print a row for each data set, and each cell that does not pass."""
    rows: dict[tuple[str, str], list[tuple[float, bool]]] = {}
    failed, n_cells, n_warned = [], 0, 0
    for data, X, rank, loss, solver, weights, more in cells():
        if words and not any(word in f"{data} {loss} {solver}" for word in words):
            continue
        model = NMF(rank, loss=loss, solver=solver, random_state=0, **more)
        found, seconds, warned = run(model, X, weights)
        iterations = model.n_iter_
        model.set_params(tol=0, max_iter=MORE * model.max_iter)
        lowest, _, _ = run(model, X, weights)
        known = X if sp.issparse(X) else np.nan_to_num(X)
        exact = found <= 10 * exact_objective(Problem(known, Loss(loss, model.loss_parameter_)))
        excess = 0.0 if exact else found / lowest - 1
        passes = warned or excess <= WITHIN - 1
        n_cells, n_warned = n_cells + 1, n_warned + warned
        kind = "low rank" if data.startswith("rank") else data.split(",")[0]
        rows.setdefault((f"{loss}, {solver}", kind), []).append((excess, warned))
        ends = f"{found:.5g} | {lowest:.5g} | {100 * excess:+.2f} %{' exact' * exact}{' warned' * warned}"
        line = f"{data} | {loss}, {solver} | {iterations} iterations, {seconds:.2f} s | {ends}"
        if words or not passes:
            print(("" if passes else "FAILED ") + line, flush=True)
        if not passes:
            failed.append(line)
    print(f"\n{n_cells} cells, {n_warned} warned, {len(failed)} failed")
    print("\n| loss, solver | data | cells | warned | median excess, % | largest excess without a warning, % |")
    print("| --- | --- | --- | --- | --- | --- |")
    for (pair, kind), values in sorted(rows.items()):
        quiet = [excess for excess, warned in values if not warned]
        n_loud, middle = len(values) - len(quiet), np.median([excess for excess, _ in values])
        largest = 100 * max(quiet, default=0)
        print(f"| {pair} | {kind} | {len(values)} | {n_loud} | {100 * middle:.2f} | {largest:.2f} |")


def random_problem(seed: int) -> tuple[Array, int, str | float, str]:
    """Return a matrix of mean 1, its rank, a loss for it, and words that describe the matrix."""
    rng = np.random.default_rng(seed)
    loss = LOSSES[rng.integers(len(LOSSES))]
    noise = (0, 1e-3, 1e-2, 0.1, 0.5, "outliers", "counts")[rng.integers(7)]
    rank = (1, 2, 5, 10, 20)[rng.integers(5)]
    shape = tuple(int(side) for side in np.exp(rng.uniform(*np.log(SIDES), 2)))
    rank = min(rank, min(shape) // 2)
    kind = ("gamma", "bumps", "sparse")[rng.integers(3)]
    if kind == "bumps":
        H = np.exp(-(((np.linspace(0, 1, shape[1]) - rng.random(rank)[:, None]) / 0.08) ** 2) / 2) + 0.05
        W = rng.dirichlet(np.full(rank, 0.5), shape[0])
    else:
        share = 0.4 if kind == "sparse" else 1.0
        W, H = (rng.gamma(1, size=s) * (rng.random(s) < share) for s in ((shape[0], rank), (rank, shape[1])))
    X = W @ H
    X /= X.mean() or 1.0
    if noise == "outliers":
        X = np.where(rng.random(X.shape) < 0.1, X.max(), X)
    elif noise == "counts":
        X = rng.poisson(3 * X).astype(float)
    else:
        X = np.maximum(X + noise * rng.standard_normal(X.shape), 0)
    if loss in ("itakura-saito", 0.5):
        X = np.maximum(X, 1e-3)
    return X, rank, loss, f"{kind}, noise {noise}, {shape[0]} x {shape[1]}, rank {rank}"


def gain(seed: int) -> float | None:
    """Return by which share twice the iterations lower the objective of a default fit, or None if that warns."""
    X, rank, loss, words = random_problem(seed)
    model = NMF(rank, loss=loss, random_state=seed)
    found, _, warned = run(model, X, None)
    if warned:
        return None
    if found <= 10 * exact_objective(Problem(X, fitted_loss(loss, model.loss_parameter_))):
        return 0.0
    last = 2 * model.n_iter_
    # ADMM follows the same path for any larger `max_iter`
    longer = NMF(
        rank, loss=loss, random_state=seed, tol=0, max_iter=max(400, last), callback=lambda done, _: done >= last
    )
    result = 1 - run(longer, X, None)[0] / found
    if result >= model.tol:
        print(f"| {seed} | {loss} | {words} | {model.n_iter_} | {result:.2%} |", flush=True)
    return result


def promise(seed: str = "", count: str = "") -> None:
    """Print the fits that twice the iterations lower by more than `tol`, and how much fits gain by them."""
    first = int(seed) if seed else int.from_bytes(os.urandom(3), "big")
    print(f"\nseeds from {first} on\n\n| seed | loss | data | iterations | gain of twice |\n" + "| --- " * 5 + "|")
    found = [gain(number) for number in range(first, first + int(count or PROBLEMS))]
    quiet = np.array([share for share in found if share is not None])
    print(
        f"\n{len(quiet)} fits without a warning, {len(found) - len(quiet)} with one; of the former "
        f"{np.mean(quiet >= 1e-3):.1%} gain 0.1 % or more, {np.mean(quiet >= 0.01):.1%} gain 1 % or more, "
        f"the largest gain is {quiet.max():.2%}"
    )


def low_noise_problems() -> Iterator[tuple[str, Array, Array, Array, int]]:
    """Yield (name, X, true W, true H, rank)."""
    for rank, noise in LOW_NOISE:
        yield f"{rank} components, noise {noise:g}", *bumps(rank, noise, rank), rank


def peer(X: Array, loss: str, rank: int, **more: Any) -> tuple[float, float]:
    """Return the objective and the processor seconds of a fit by scikit-learn."""
    model = SklearnNMF(rank, beta_loss=loss, solver=SKLEARN[loss], random_state=0, init="nndsvda", **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        W = model.fit_transform(X)
        seconds = time.process_time() - begin
    return loss_value(X, np.ascontiguousarray(W.T), model.components_, Loss(loss)), seconds


def lownoise() -> None:
    """Print cost over the cost at the truth, and seconds, of both default calls."""
    print("\n| problem | loss | iterations | cost / truth | s | scikit-learn: cost / truth | s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, X, W, H, rank in low_noise_problems():
        for loss in ("frobenius", "kullback-leibler", "itakura-saito", "manhattan", "huber", "l21"):
            model = NMF(rank, loss=loss, random_state=0)
            run(NMF(rank, loss=loss, random_state=0, max_iter=3, tol=0), X[:50], None)  # compiles
            found, seconds, warned = run(model, X, None)
            truth = loss_value(X, np.ascontiguousarray(W.T), H, Loss(loss, model.loss_parameter_))
            theirs = "- | -"
            if loss in SKLEARN:
                value, spent = peer(X, loss, rank)
                theirs = f"{value / truth:.3g} | {spent:.2f}"
            cell = f"{found / truth:.3f}{' (warned)' if warned else ''}"
            print(f"| {name} | {loss} | {model.n_iter_} | {cell} | {seconds:.2f} | {theirs} |", flush=True)


def peers() -> None:
    """Print seconds beside scikit-learn's, by default and to the same objective, with the medians of the ratios."""
    from _problems import load

    problems = [(name, X, rank) for name, X, _, _, rank in low_noise_problems()]
    for name in LARGE:
        made = load(name)
        problems.append(
            (name, made.X + (1e-3 * made.X.mean() if name.startswith(("rand", "l1")) else 0), made.W.shape[1])
        )
    ratios: dict[str, list[tuple[float, float]]] = {}
    print("\n| problem | loss | s | scikit-learn's default: s | objective / ours | to our objective: s |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, X, rank in problems:
        for loss in SKLEARN:
            run(NMF(rank, loss=loss, random_state=0, max_iter=3, tol=0), X[:100], None)
            model = NMF(rank, loss=loss, random_state=0)
            found, seconds, _ = run(model, X, None)
            value, spent = peer(X, loss, rank)
            longer, iterations = spent, 200
            reached = value
            while reached > 1.01 * found and iterations < PEER_ITERATIONS and longer < PEER_SECONDS:
                iterations *= 4
                reached, longer = peer(X, loss, rank, max_iter=iterations, tol=0)
            bound = "" if reached <= 1.01 * found else "> "
            ratios.setdefault(loss, []).append((seconds / spent, seconds / longer))
            print(
                f"| {name} | {loss} | {seconds:.2f} | {spent:.2f} | {value / found:.3g} | {bound}{longer:.2f} |",
                flush=True,
            )
    for loss, pairs in ratios.items():
        default, same = np.median(np.array(pairs), axis=0)
        print(
            f"{loss}: median of our seconds over scikit-learn's default {default:.2f}, to the same objective {same:.3f}"
        )


def sparse_matrices() -> Iterator[tuple[str, Array, int]]:
    """Yield (name, X, rank) of 30 matrices: parts that overlap little, exact and with noise, counts, gaps, outliers."""
    for number, (kind, density) in enumerate(itertools.product(KINDS, DENSITIES)):
        rng = np.random.default_rng(1000 + number)
        rank = (3, 5, 8)[number % 3]
        share = np.sqrt(1 - (1 - min(density, 1 - 1e-9)) ** (1 / rank)) if kind != "gaps" else 1.0
        W = rng.gamma(1, size=(SPARSE_SHAPE[0], rank)) * (rng.random((SPARSE_SHAPE[0], rank)) < share)
        H = rng.gamma(1, size=(rank, SPARSE_SHAPE[1])) * (rng.random((rank, SPARSE_SHAPE[1])) < share)
        X = W @ H
        if kind == "noise":
            X = np.where(X > 0, np.maximum(X + 0.1 * X.mean() * rng.standard_normal(X.shape), 0), 0)
        elif kind == "counts":
            X = rng.poisson(X).astype(float)
        elif kind == "gaps":
            X *= rng.random(X.shape) < density
        elif kind == "outliers":
            X = np.where(rng.random(X.shape) < 0.05 * density, X.max(), X)
        yield f"{kind}, {np.count_nonzero(X) / X.size:.0%} stored", X, rank


def sparse() -> None:
    """Print the objective and the seconds of default calls for sparse data, over those of the same data in an array."""
    print("\n| data | loss | objective, sparse | dense | seconds, sparse / dense | |")
    print("| --- | --- | --- | --- | --- | --- |")
    failed, times = 0, []
    for name, X, rank in sparse_matrices():
        for loss in ("manhattan", "kullback-leibler", "frobenius"):
            found = []
            for data in (sp.csr_array(X), X):
                run(NMF(rank, loss=loss, random_state=0, max_iter=3, tol=0), data[:40], None)  # compiles
                model = NMF(rank, loss=loss, random_state=0)
                found.append(min((run(model, data, None) for _ in range(REPEATS)), key=lambda result: result[1]))
            (value, seconds, warned), (other, longer, _) = found
            passes = warned or value <= WITHIN * other or value <= exact_objective(Problem(X, Loss(loss)))
            failed += not passes
            times.append(seconds / longer)
            word = "" if passes else "FAILED"
            print(f"| {name} | {loss} | {value:.5g} | {other:.5g} | {times[-1]:.2f} | {word} |", flush=True)
    print(f"\n{len(times)} fits, {failed} failed; median of the ratios of seconds {np.median(times):.2f}")


PARTS = {"grid": grid, "promise": promise, "lownoise": lownoise, "peers": peers, "sparse": sparse}
QUICK = {
    "PROBLEMS": 3,
    "SPARSE_SHAPE": (60, 40),
    "REPEATS": 1,
    "DENSITIES": (0.4,),
    "BUMP_NOISES": (),
    "NOISES": (),
    "LOW_NOISE": ((3, 0.01),),
    "LARGE": (),
    "SHAPE": (40, 30),
    "LOW_NOISE_SHAPE": (60, 40),
    "MORE": 1,
    "PEER_ITERATIONS": 300,
}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK)
