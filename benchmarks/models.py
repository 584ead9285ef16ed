"""Figures of select_rank, select_loss, ProjectiveNMF, SymmetricNMF and penalties on groups.

``python benchmarks/models.py`` runs everything (some eight minutes), ``python benchmarks/models.py rank`` one part:
rank (four of them), loss, projective, symmetric or groups. CPU seconds are those of one
thread: run it with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _main import main
from _problems import load
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from visionnmf import NMF, Penalty, select_loss, select_rank
from visionnmf.apps.reproduce.data import load_face_set
from visionnmf.datasets import corrupt
from visionnmf.engine import projective, symmetric
from visionnmf.engine.starts import nndsvdar, spread_symmetric
from visionnmf.exceptions import UnreadableError

RANK_SEEDS = range(10, 14)  # the rule was chosen on seeds 0 to 2
RANKS = range(1, 13)
RANK_SHAPES = ((100, 60), (200, 150))
MARKS = (30, 100, 300)  # iterations
NODES = (400, 800)
TRIALS = 6  # of made data with two views
LOSSES = ("manhattan", "huber", "frobenius", "kullback-leibler")
SALT = (0.0, 0.1, 0.2)  # shares of salt and pepper
FOLDS = 5


# --- rank -------------------------------------------------------------------------------------------------------------


def rank_problems() -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
    """Make low-rank data with Laplace noise (in shares of the mean) and gross outliers."""
    for shape, true, kind, noise, outliers, seed in itertools.product(
        RANK_SHAPES, (3, 6), ("uniform", "gamma"), (0.02, 0.1), (0.1, 0.2), RANK_SEEDS
    ):
        rng = np.random.default_rng(seed)
        m, n = shape
        if kind == "uniform":
            L = rng.random((m, true)) @ rng.random((true, n))
        else:
            L = rng.gamma(0.5, size=(m, true)) @ rng.gamma(0.5, size=(true, n))
        X = np.maximum(0, L + noise * L.mean() * rng.laplace(size=L.shape))
        wrong = rng.random(L.shape) < outliers
        values = rng.random(wrong.sum())
        X[wrong] = values * L.max() if kind == "uniform" else np.where(values < 0.5, 0, L.max())
        yield (shape, true, kind, noise, outliers), X


def one_standard_error(scores: np.ndarray) -> int:
    """Return the lowest rank within a standard error of the best one's mean."""
    means = scores.mean(axis=1)
    best = means.argmin()
    limit = means[best] + scores[best].std(ddof=1) / np.sqrt(scores.shape[1])
    return int(np.flatnonzero(means <= limit)[0])


def rank() -> None:
    """How often the true rank is proposed, by the rule of select_rank and by two others on the same scores."""
    found: dict[tuple[float, float], list[list[int]]] = {}
    for (_, true, _, noise, outliers), X in rank_problems():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            selection = select_rank(X, RANKS, random_state=0)
        scores = selection.scores
        others = (RANKS[scores.mean(axis=1).argmin()], RANKS[one_standard_error(scores)])
        found.setdefault((noise, outliers), []).append([choice - true for choice in (selection.n_components, *others)])
    print("\n## Rank: ranks 1 to 12 tried on made data of rank 3 and 6, 3 splits, NMF()\n")
    print("| noise | outliers | problems | select_rank | minimum | one standard error |")
    print("| --- | --- | --- | --- | --- | --- |")
    for (noise, outliers), differences in sorted(found.items()):
        table = np.array(differences)
        cells = [f"{(column == 0).sum()} ({column.min()} to {column.max():+d})" for column in table.T]
        print(f"| {noise} | {outliers:.0%} | {len(table)} | {' | '.join(cells)} |")


# --- loss -------------------------------------------------------------------------------------------------------------


def loss_problems() -> Iterator[tuple[str, np.ndarray, int, Callable[[NMF, np.ndarray], float]]]:
    """Yield (name, X, rank, score of a fitted model and its codes, which is high for good ones)."""

    def accuracy(labels: np.ndarray) -> Callable[[NMF, np.ndarray], float]:
        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
        return lambda _model, W: float(cross_val_score(classifier, W, labels, cv=FOLDS).mean())

    def agreement(clean: np.ndarray) -> Callable[[NMF, np.ndarray], float]:
        return lambda model, W: 1 - float(np.linalg.norm(W @ model.components_ - clean) / np.linalg.norm(clean))

    digits, labels = load_digits(return_X_y=True)
    for share in SALT:
        images = digits.reshape(-1, 8, 8) / digits.max()
        images = corrupt(images, "salt_and_pepper", share, random_state=0) if share else images
        yield f"digits, {share:.0%} salt and pepper", images.reshape(digits.shape), 10, accuracy(labels)
    rng = np.random.default_rng(1)
    clean = rng.gamma(0.5, size=(400, 10)) @ rng.gamma(0.5, size=(10, 150))
    clean /= clean.mean()
    noisy = {
        "Gaussian noise": clean + 0.3 * rng.standard_normal(clean.shape),
        "Laplace noise": clean + rng.laplace(0, 0.3, clean.shape),
        "Poisson noise": rng.poisson(5 * clean) / 5,
        "a fifth of the entries lost": np.where(rng.random(clean.shape) < 0.2, clean.max(), clean),
    }
    for name, X in noisy.items():
        yield f"rank 10, {name}", np.maximum(X, 0), 10, agreement(clean)
    try:
        faces = load_face_set("orl_32x32")
    except UnreadableError as error:
        print(f"ORL left out: {error}")
        return
    for share in SALT[:2]:
        images = corrupt(faces.images, "salt_and_pepper", share, random_state=0) if share else faces.images
        yield (
            f"ORL, {share:.0%} salt and pepper", images.reshape(len(images), -1).astype(np.float32), 40,
            accuracy(faces.labels),
        )  # fmt: skip


def losses() -> None:
    """Compare the loss that `select_loss` proposes with what each loss reaches."""
    print("| data | proposed | s | " + " | ".join(LOSSES) + " |\n| --- | --- | --- |" + " --- |" * len(LOSSES))
    for name, X, rank, score in loss_problems():
        begin = time.process_time()
        found = select_loss(X, LOSSES, estimator=NMF(rank, max_iter=100), random_state=0)
        seconds = time.process_time() - begin
        cells = []
        for loss in LOSSES:
            model = NMF(rank, loss=loss, random_state=0)
            cells.append(f"{score(model, model.fit_transform(X)):.3f}")
        print(f"| {name} | {found.loss} | {seconds:.1f} | " + " | ".join(cells) + " |", flush=True)


# --- projective ------------------------------------------------------------------------------------------------------


def _along(fit: Callable[[Callable[[int, float], bool]], Any], marks: tuple[int, ...]) -> list[str]:
    """Return the objective and the CPU seconds after some iterations."""
    cells: list[str] = []
    start = time.process_time()

    def note(iteration: int, objective: float) -> bool:
        if iteration in marks:
            cells.append(f"{objective:.5g} ({time.process_time() - start:.2f} s)")
        return False

    fit(note)
    return cells + ["converged before"] * (len(marks) - len(cells))


def projective_models() -> None:
    """Quasi-Newton against the multiplicative update, from the same start."""
    faces = np.ascontiguousarray(load("face1024x476").X.T)
    rng = np.random.default_rng(0)
    made = rng.gamma(0.5, size=(600, 10)) @ rng.gamma(0.3, size=(10, 200)) * rng.uniform(0.7, 1.3, (600, 200))
    marks = MARKS
    print("\n## Projective: objective (CPU seconds) after iterations, float64\n")
    print(f"| data | loss | solver | {' | '.join(map(str, marks))} |\n| --- | --- | --- {'| --- ' * len(marks)}|")
    for (name, X, r), loss in itertools.product(
        (("faces 476x1024, rank 49", faces, 49), ("made 600x200, rank 10", made, 10)), projective.SLOPES
    ):
        H = nndsvdar(X, r, np.random.RandomState(0))[1]
        for solver in projective.SOLVERS:

            def fit(note: Any, X: Any = X, H: Any = H, loss: str = loss, solver: str = solver) -> None:
                projective.fit(X, H.copy(), loss=loss, solver=solver, max_iter=marks[-1], tol=0, callback=note)

            print(f"| {name} | {loss} | {solver} | {' | '.join(_along(fit, marks))} |")


# --- symmetric -------------------------------------------------------------------------------------------------------


def symmetric_models() -> None:
    """Node by node least squares against L-BFGS-B on the same objective, and one sweep of each loss."""
    print("\n## Symmetric, Frobenius: CPU seconds to within 1e-3 of the lower end, from the same start, float64\n")
    print("| affinity | ours: seconds, end | L-BFGS-B: seconds, end | a sweep, frobenius | a sweep, manhattan |")
    print("| --- | --- | --- | --- | --- |")
    for name, A, r in _affinities():
        c = np.ones(len(A))
        start = spread_symmetric(A, c, r, np.random.default_rng(0))
        symmetric.scale_to_fit(A, start, c)
        start = np.maximum(start, 1e-3 * start.max())  # L-BFGS-B cannot leave zero components
        symmetric.fit_symmetric(A, start.copy(), c, max_iter=1, tol=0, loss="frobenius")
        runs = [_ours(A, start.copy(), c), _quasi_newton(A, start.copy())]
        low = min(run[-1][1] for run in runs)
        cells = []
        for run in runs:
            near = next((seconds for seconds, value in run if value <= 1.001 * low), None)
            cells.append(f"{'never' if near is None else f'{near:.3f}'}, {run[-1][1]:.5g}")
        for loss in ("frobenius", "manhattan"):
            H = start.copy()
            symmetric.fit_symmetric(A, H, c, max_iter=1, tol=0, loss=loss)
            begin = time.process_time()
            symmetric.fit_symmetric(A, H, c, max_iter=5, tol=0, loss=loss)
            cells.append(f"{(time.process_time() - begin) / 5:.4f}")
        print(f"| {name} | {' | '.join(cells)} |")


def _affinities() -> Iterator[tuple[str, np.ndarray, int]]:
    rng = np.random.default_rng(0)
    n, many = NODES
    labels = rng.integers(0, 8, n)
    A = (labels[:, None] == labels) * 0.8 + 0.1 * rng.random((n, n))
    yield f"{n} nodes, 8 groups", (A + A.T) / 2, 8
    W = rng.gamma(0.5, size=(many, 20))
    noise = 0.1 * (W @ W.T).mean() * rng.standard_normal((many, many))
    yield f"{many} nodes, inner products of rank 20", np.maximum(0, W @ W.T + (noise + noise.T) / 2), 20


def _ours(A: np.ndarray, H: np.ndarray, c: np.ndarray) -> list[tuple[float, float]]:
    begin, run = time.process_time(), []
    for _ in range(300):
        fit = symmetric.fit_symmetric(A, H, c, max_iter=1, tol=0, loss="frobenius")
        run.append((time.process_time() - begin, fit.history[-1]))
        if fit.change < 1e-7:
            break
    return run


def _quasi_newton(A: np.ndarray, H: np.ndarray) -> list[tuple[float, float]]:
    off, size = 1 - np.eye(len(A)), float((A**2).sum())

    def value(h: np.ndarray) -> tuple[float, np.ndarray]:
        E = (h.reshape(H.shape).T @ h.reshape(H.shape) - A) * off
        return float((E**2).sum()) / 2 / size, (2 * h.reshape(H.shape) @ E).ravel() / size

    begin, run = time.process_time(), []
    minimize(
        value,
        H.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * H.size,
        callback=lambda intermediate_result: run.append(
            (time.process_time() - begin, float(intermediate_result.fun) * size)
        ),
        options={"maxiter": 1000, "ftol": 1e-10, "gtol": 0, "maxfun": 10000},
    )
    return run


# --- groups -----------------------------------------------------------------------------------------------------------


def two_views(seed: int, n_samples: int, outliers: float) -> tuple[np.ndarray, np.ndarray, list[slice]]:
    """Make data of mean 1 with two components that both views share and two of each view alone."""
    rng, views = np.random.default_rng(seed), [slice(0, 24), slice(24, 40)]
    uses = np.array([[1, 1], [1, 1], [1, 0], [1, 0], [0, 1], [0, 1]])
    components = rng.gamma(0.5, size=(6, 40)) * np.repeat(uses, (24, 16), axis=1)
    components /= np.linalg.norm(components, axis=1, keepdims=True)
    X = (rng.gamma(1, size=(n_samples, 6)) * (rng.random((n_samples, 6)) < 0.5)) @ components
    X = np.maximum(X + 0.05 * X.mean() * rng.normal(size=X.shape), 0)
    X = np.where(rng.random(X.shape) < outliers, X.max() * rng.random(X.shape), X)
    return X / X.mean(), uses, views


def groups() -> None:
    """Trials in which group penalties find which view uses which component, exactly; best of three starts."""
    print("\n| loss | samples | entries lost | group_l1 | trials with the exact pattern |")
    print("| --- | --- | --- | --- | --- |")
    for loss, n_samples, outliers, strength in (("frobenius", 100, 0.0, 5.0), ("manhattan", 800, 0.1, 65.0)):
        found = 0
        for seed in range(TRIALS):
            X, uses, views = two_views(seed, n_samples, outliers)
            penalties = {"penalty_W": Penalty(l2=1.0), "penalty_H": Penalty(groups=views, group_l1=strength)}
            model = NMF(6, loss=loss, **penalties, n_init=3, max_iter=300, tol=1e-5, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                H = model.fit(X).components_
            pattern = [[int(H[k, view].any()) for view in views] for k in range(6)]
            found += sorted(pattern) == sorted(uses.tolist())
        print(f"| {loss} | {n_samples} | {outliers:.0%} | {strength:g} | {found} of {TRIALS} |", flush=True)


PARTS = {"rank": rank, "loss": losses, "projective": projective_models, "symmetric": symmetric_models, "groups": groups}
QUICK = {
    "RANK_SEEDS": range(1),
    "RANKS": range(1, 4),
    "RANK_SHAPES": ((20, 15),),
    "MARKS": (1, 2, 3),
    "NODES": (30, 40),
    "TRIALS": 1,
    "SALT": (0.0,),
    "FOLDS": 2,
}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK)
