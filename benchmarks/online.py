"""Online learning against peers, and under contamination. For memory see streams.py, for the papers `reproduce`.

``python benchmarks/online.py`` runs everything, ``python benchmarks/online.py mnist`` one part: mnist (seconds to an
error, with scikit-learn and spams), equal (the default and MiniBatchNMF at equal seconds), contaminated (salt, pepper
and drift). One thread; process CPU seconds.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _main import Missing, data_file, main
from numpy.typing import NDArray
from sklearn.decomposition import MiniBatchNMF
from threadpoolctl import threadpool_limits

from visionnmf import NMF, OnlineNMF
from visionnmf.apps.reproduce.data import load_face_set
from visionnmf.engine.losses import Loss
from visionnmf.engine.online import METHODS
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import solve_codes
from visionnmf.io import read_arrays, resize_grey

Array = NDArray[Any]
Curve = list[tuple[float, float]]  # CPU seconds so far, error

N_TRAIN, N_TEST = 60000, 10000
RANK = 49
PASSES = 8
SECONDS = 4.0  # of a run of MiniBatchNMF or of ours
SEEDS = range(3)
CHUNK = 1024  # samples, as fit_stream passes them
SIDE = 64  # pixels, of the faces
FACES = {"Yale": "yale_64x64", "ORL": "orl_112x92", "Yale B": "yaleb27_96x84"}
SHARES = (0.0, 0.1)  # of salt and pepper
MADE = (20000, 10, 200)  # samples, components, features
FLOOR_SAMPLES = 5000  # of the batch fit of the clean data


def digits() -> tuple[Array, Array]:
    """Return MNIST, an image a row, from 0 to 1 in single precision; the training images in a random order."""
    parts = []
    for name, count in (("mnist_train", N_TRAIN), ("mnist_test", N_TEST)):
        images = read_arrays(data_file(f"{name}.npz"), ["images"])["images"]
        parts.append(images.reshape(len(images), -1)[:count].astype(np.float32) / 255)
    return parts[0][np.random.default_rng(0).permutation(len(parts[0]))], parts[1]


def error(H: Array, X: Array, seen: Array | None = None, loss: str = "frobenius") -> float:
    """Return the relative error of the model of `X`, with codes found from `X`, or from what was seen of it."""
    H = np.ascontiguousarray(H, X.dtype)
    Wt = solve_codes(Problem(X if seen is None else seen, Loss(loss)), H)
    return float(np.linalg.norm(X - Wt.T @ H) / np.linalg.norm(X))


# --- against peers ----------------------------------------------------------------------------------------------------


def ours(X: Array, T: Array, start: Array, **options: Any) -> Curve:
    """Learn MNIST with the surrogate, pass after pass."""
    model = OnlineNMF(len(start), components_init=start, method="surrogate", **options)
    curve: Curve = []
    seconds = 0.0
    for part in _parts(X):
        begin = time.process_time()
        model.partial_fit(part)
        seconds += time.process_time() - begin
        curve.append((seconds, error(model.components_, T)))
    return curve


def minibatch(X: Array, T: Array, start: Array, batch: int) -> Curve:
    """Learn with scikit-learn's MiniBatchNMF.partial_fit."""
    model = MiniBatchNMF(len(start), batch_size=batch, init="custom")
    curve: Curve = []
    seconds, W = 0.0, None
    for part in _parts(X):
        begin = time.process_time()
        for first in range(0, len(part), batch):
            chunk = part[first : first + batch]
            if W is None:
                W = np.full((len(chunk), len(start)), np.sqrt(chunk.mean() / len(start)), chunk.dtype)
                model.partial_fit(chunk, W=W, H=start.copy())
            else:
                model.partial_fit(chunk)
        seconds += time.process_time() - begin
        curve.append((seconds, error(model.components_, T)))
    return curve


def spams(X: Array, T: Array, start: Array, batch: int) -> Curve:
    """Learn with spams' trainDL, which can be resumed."""
    try:
        import spams as library
    except ImportError:
        raise Missing("no spams here") from None
    D = np.asfortranarray((start / np.linalg.norm(start, axis=1)[:, None]).T)
    state: Any = None
    curve: Curve = []
    seconds = 0.0
    options = {"lambda1": 0.0, "posD": True, "posAlpha": True, "batchsize": batch, "numThreads": 1, "verbose": False}
    for part in _parts(X):
        data = np.asfortranarray(part.T)
        begin = time.process_time()
        D, state = library.trainDL(
            data, return_model=True, model=state, D=D, iter=math.ceil(len(part) / batch), **options
        )
        seconds += time.process_time() - begin
        curve.append((seconds, error(np.ascontiguousarray(D.T), T)))
    return curve


def _parts(X: Array) -> Iterator[Array]:
    """Yield the passes: the first one in eighths."""
    eighth = max(1, len(X) // 8)
    for first in range(0, 8 * eighth, eighth):
        yield X[first : first + eighth]
    for _ in range(PASSES - 1):
        yield X


def mnist() -> None:
    """Measure CPU seconds to a relative error of the test images, from the same start."""
    X, T = digits()
    start = X[np.random.default_rng(1).choice(len(X), RANK, replace=False)] + np.float32(1e-3)
    ours(X[:2048], T[:100], start)  # compiles
    runs: dict[str, Callable[[], Curve]] = {
        "**ours**, `surrogate`": lambda: ours(X, T, start),
        "**ours**, batches of 1024, forget_factor .7": lambda: ours(X, T, start, batch_size=1024, forget_factor=0.7),
        "scikit-learn MiniBatchNMF, 256": lambda: minibatch(X, T, start, 256),
        "scikit-learn MiniBatchNMF, 1024": lambda: minibatch(X, T, start, 1024),
        "spams trainDL, 256": lambda: spams(X, T, start, 256),
        "spams trainDL, 1024": lambda: spams(X, T, start, 1024),
    }
    print(f"\n## MNIST {X.shape[0]} x {X.shape[1]}, r = {RANK}, {PASSES} passes; start: {error(start, T):.4f}\n")
    print("| solver | s to .41 | s to .40 | s to .39 | error after a pass (s) | lowest (s) |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, run in runs.items():
        try:
            curve = run()
        except Missing as reason:
            print(f"| {name} | {reason} | | | | |", flush=True)
            continue
        cells = [f"{reach(curve, level):.2f}" for level in (0.41, 0.40, 0.39)]
        low = min(curve, key=lambda point: point[1])
        print(
            f"| {name} | {' | '.join(cells)} | {curve[7][1]:.4f} ({curve[7][0]:.2f}) | {low[1]:.4f} ({low[0]:.1f}) |",
            flush=True,
        )


def reach(curve: Curve, target: float) -> float:
    """Return the seconds to an error; infinite where it is not reached."""
    return next((seconds for seconds, value in curve if value <= target), float("inf"))


# --- at equal processor seconds ---------------------------------------------------------------------------------------


def stream_sets() -> Iterator[tuple[str, Array, Array, int]]:
    """Yield name, training samples, held-out samples (all clean, 0 to 1, float32) and number of components."""
    X, T = digits()
    yield "MNIST", X, T[::5], RANK
    for name, file in FACES.items():
        images = load_face_set(file).images
        faces = np.stack([resize_grey(image, (SIDE, SIDE)) for image in images]).reshape(len(images), -1) / 255
        faces = faces.astype(np.float32)[np.random.default_rng(5).permutation(len(images))]
        yield f"{name}, {SIDE} × {SIDE}", faces[len(faces) // 4 :], faces[: len(faces) // 4], RANK
    rng, (n_samples, r, n_features) = np.random.default_rng(6), MADE
    made = rng.gamma(1, size=(n_samples, r)) @ rng.random((r, n_features))
    made = np.maximum(made + 0.05 * made.mean() * rng.standard_normal(made.shape), 0).astype(np.float32)
    made /= made.max()
    yield "made, dense, rank 10", made[500:], made[:500], r


def endless(X: Array, share: float, rng: np.random.Generator) -> Iterator[Array]:
    """Yield chunks for ever: passes over the samples in new orders, with new salt and pepper in each."""
    rows = np.concatenate([rng.permutation(len(X)) for _ in range(-(-CHUNK // len(X)))])
    while True:
        while len(rows) < CHUNK:
            rows = np.concatenate([rows, rng.permutation(len(X))])
        chunk, rows = X[rows[:CHUNK]], rows[CHUNK:]
        yield salted(chunk, share, rng, pepper=True) if share else chunk


def learnt_in(seconds: float, model: Any, chunks: Iterator[Array], batch: int) -> Array:
    """Return the components after so many CPU seconds of `partial_fit`, by chunks cut into batches.

    The chunk that ends later does not count, unless it is the first.
    """
    spent, H = 0.0, None
    while True:
        chunk = next(chunks)
        begin = time.process_time()
        for first in range(0, len(chunk), batch):
            model.partial_fit(chunk[first : first + batch])
        spent += time.process_time() - begin
        if H is not None and spent > seconds:
            return H
        H = model.components_.copy()


def equal(seconds: float = 0.0) -> None:
    """Compare the default OnlineNMF with MiniBatchNMF at equal CPU seconds, from the first chunk on."""
    seconds = seconds or SECONDS
    small = np.random.default_rng(0).random((200, 50), np.float32)
    OnlineNMF(2, random_state=0).partial_fit(small)  # compiles
    OnlineNMF(2, method="manhattan", random_state=0).partial_fit(small)
    print(f"\n## {seconds:g} CPU s, {len(SEEDS)} seeds: relative error of clean held-out samples, mean ± deviation\n")
    print(
        "Codes of clean samples; of those with salt and pepper. MiniBatchNMF: the better of batches of 256 and 1024.\n"
    )
    print("| stream | chosen | MiniBatchNMF | `OnlineNMF()` | ratio | batch `NMF` of clean samples, its ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, X, T, r in stream_sets():
        clean = NMF(r, loss="frobenius", tol=1e-4, random_state=0).fit(X[:FLOOR_SAMPLES])
        floor = error(clean.components_, T)
        for share in SHARES:
            found: dict[str, list[tuple[float, float]]] = {"256": [], "1024": [], "ours": []}
            chosen = set()
            for seed in SEEDS:
                seen = salted(T, share, np.random.default_rng(seed + 100), pepper=True) if share else T
                for size in ("256", "1024", "ours"):
                    model = OnlineNMF(r, random_state=seed) if size == "ours" else MiniBatchNMF(r, random_state=seed)
                    chunks = endless(X, share, np.random.default_rng(seed))
                    H = learnt_in(seconds, model, chunks, CHUNK if size == "ours" else int(size))
                    loss = METHODS[model.method_].losses[0] if size == "ours" else "frobenius"
                    found[size].append((error(H, T), error(H, T, seen, loss)))
                    chosen |= {model.method_} if size == "ours" else set()
            values = {size: np.array(pairs) for size, pairs in found.items()}
            peer = min(values["256"], values["1024"], key=lambda pairs: pairs[:, 0].mean())
            ratios = [f"{value:.2f}" for value in values["ours"].mean(axis=0) / peer.mean(axis=0)]
            print(
                f"| {name}, {share:.0%} | {', '.join(f'`{method}`' for method in sorted(chosen))} | {_spread(peer)} | "
                f"{_spread(values['ours'])} | {'; '.join(ratios)} | {floor:.4f}, {floor / peer[:, 0].mean():.2f} |",
                flush=True,
            )


def _spread(pairs: Array) -> str:
    """Return the means and deviations of both columns."""
    return "; ".join(f"{values.mean():.4f} ± {values.std():.4f}" for values in pairs.T)


# --- outliers ---------------------------------------------------------------------------------------------------------


def salted(X: Array, share: float, rng: np.random.Generator, *, pepper: bool = False) -> Array:
    """Replace a share of the entries by 1, or half of them by 0."""
    drawn = rng.random(X.shape)
    result = np.where(drawn < share, np.float32(1), X)
    return np.where(drawn < share / 2, np.float32(0), result) if pepper else result


def contaminated(rank: int = 0) -> None:
    """Salt, pepper and a drifting grey level: the clean held-out samples, at the level of the end; MNIST of a rank."""
    X, T = digits()
    rng = np.random.default_rng(3)
    parts = rng.gamma(0.5, size=(10, 200))
    made = rng.gamma(0.5, size=(len(X) // 2, 10)) @ parts
    made = np.minimum(made / np.quantile(made, 0.999), 1).astype(np.float32)
    held = len(made) // 30
    sizes = f"MNIST {len(X)}, r = {rank or RANK}, made data {len(made) - held}"
    print(f"\n## 10 % salt and pepper, grey level drifting from 0; {sizes}\n")
    print("Relative error of the clean held-out samples: codes found from them, and from contaminated ones.\n")
    print(
        "| data, level at the end | scikit-learn MiniBatchNMF | `surrogate` | `manhattan` | `surrogate` on clean data |"
    )
    print("| --- | --- | --- | --- | --- |")
    sets = (("MNIST", X, T, rank or RANK), ("made, rank 10", made[held:], made[:held], 11))
    for name, train, test, r in sets[: 1 if rank else 2]:
        for level in (0.0, 0.2, 0.5):
            cells = _contaminated(train, test, r, np.float32(level), rng)
            print(f"| {name}, {level} | {' | '.join(cells)} |", flush=True)


def _contaminated(X: Array, T: Array, r: int, level: Any, rng: np.random.Generator) -> list[str]:
    grey = level * np.arange(len(X), dtype=np.float32)[:, None] / len(X)
    stream, test = grey + (1 - grey) * X, level + (1 - level) * T
    noisy, seen = salted(stream, 0.1, rng, pepper=True), salted(test, 0.1, rng, pepper=True)
    peer = MiniBatchNMF(r, random_state=0)
    for first in range(0, len(noisy), 256):
        peer.partial_fit(noisy[first : first + 256])
    cells = [f"{error(peer.components_, test):.4f}, {error(peer.components_, test, seen):.4f}"]
    for method, data in (("surrogate", noisy), ("manhattan", noisy), ("surrogate", stream)):
        H = OnlineNMF(r, method=method, random_state=0).partial_fit(data).components_
        second = test if data is stream else seen
        cells.append(f"{error(H, test):.4f}, {error(H, test, second, METHODS[method].losses[0]):.4f}")
    return cells


PARTS = {
    "mnist": mnist,
    "equal": equal,
    "contaminated": contaminated,
}
QUICK = {
    "N_TRAIN": 512,
    "N_TEST": 64,
    "RANK": 6,
    "PASSES": 2,
    "SECONDS": 0.1,
    "SEEDS": range(1),
    "CHUNK": 64,
    "SIDE": 8,
    "FACES": {"Yale": "yale_64x64"},
    "MADE": (600, 3, 20),
    "FLOOR_SAMPLES": 100,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # scikit-learn's, of what has not converged
    os.environ["VISIONNMF_NUM_THREADS"] = "1"
    with threadpool_limits(1):
        main(PARTS, globals(), QUICK)
