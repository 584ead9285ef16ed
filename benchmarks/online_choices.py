"""The constants of online learning, chosen on data that no published figure is measured on.

``python benchmarks/online_choices.py`` runs everything (minutes), ``... far`` one part: forgetting (what the past
counts after a batch: `surrogate`), far (mean residuals of an outlier: `manhattan`), least (the least entry of a
component of OR-NMF for Itakura-Saito). Constants of MNIST are scored on 10000 of its training images, held back; those
of faces on the people of UMIST and Yale. The last line of a part gives the test data's figure at the choice, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from _main import data_file, main
from numpy.random import RandomState
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from visionnmf import OnlineNMF
from visionnmf.datasets.local import load_face_set
from visionnmf.engine.codes import solve_codes
from visionnmf.engine.losses import Loss
from visionnmf.engine.online import METHODS, Options, manhattan, or_nmf
from visionnmf.engine.problem import Problem
from visionnmf.io import read_arrays

Array = NDArray[Any]

RANK = 49
N_TRAIN, N_HELD = 50000, 10000  # of MNIST's training images
ROBUST = 20000  # of them
FORGETTING = (1.0, 0.99, 0.95, 0.9, 0.8, 0.6)
FAR = (3.0, 4.0, 6.0, 8.0)
LEAST = (0.5, 0.3, 0.1, 0.03, 0.01)
PASSES = 3
STARTS = 3
FACES = 400


def digits(name: str, count: int) -> Array:
    """Return images of MNIST, one a row, from 0 to 1 in single precision, in a random order."""
    images = read_arrays(data_file(f"{name}.npz"), ["images"])["images"]
    images = images[np.random.default_rng(0).permutation(len(images))[:count]]
    return images.reshape(len(images), -1).astype(np.float32) / 255


def faces(name: str) -> Array:
    """Return faces, one a row, from 0 to 1, in a random order."""
    images = load_face_set(name).images
    images = images[np.random.default_rng(0).permutation(len(images))[:FACES]]
    return images.reshape(len(images), -1).astype(np.float32) / 255


def error(H: Array, X: Array) -> float:
    """Return the relative error of the model of `X`, with the best codes."""
    H = np.ascontiguousarray(H, X.dtype)
    codes = solve_codes(Problem(X, Loss("frobenius")), H)
    return float(np.linalg.norm(X - codes.T @ H) / np.linalg.norm(X))


def choose(name: str, values: Iterable[float], sets: dict[str, Callable[[float], float]]) -> float:
    """Print what each value leaves of held-back data, and return the one with the least error over the sets' best."""
    print(f"| {name} | {' | '.join(sets)} |")
    print("| --- " * (len(sets) + 1) + "|")
    found = []
    for value in values:
        found.append((value, [score(value) for score in sets.values()]))
        print(f"| {value:g} | {' | '.join(f'{number:.4f}' for number in found[-1][1])} |", flush=True)
    best = np.min([numbers for _, numbers in found], axis=0)
    return min(found, key=lambda row: float(np.mean(np.array(row[1]) / best)))[0]


def forgetting() -> None:
    """Score what the past counts after a batch of 256: `surrogate`, one pass and several."""
    X = digits("mnist_train", N_TRAIN + N_HELD)
    train, held = X[:N_TRAIN], X[N_TRAIN:]

    def learn(value: float, passes: int, data: Array) -> Array:
        model = OnlineNMF(RANK, method="surrogate", forget_factor=value, random_state=0)
        for _ in range(passes):
            model.partial_fit(data)
        return model.components_

    print(f"\n## forget_factor: error of {len(held)} training images held back\n")
    many = f"{PASSES} passes"
    chosen = choose(
        "forget_factor",
        FORGETTING,
        {
            passes: lambda value, n=n: error(learn(value, n, train), held)
            for passes, n in (("one pass", 1), (many, PASSES))
        },
    )
    test = digits("mnist_test", N_HELD)
    print(f"\nchosen {chosen:g}; the test images: {error(learn(chosen, 1, X), test):.4f} after a pass")


def far() -> None:
    """Score how many mean residuals an outlier is away: `manhattan` with 10 % salt, clean samples held back."""
    X = digits("mnist_train", ROBUST + N_HELD)
    people = {name: faces(name) for name in ("umist_28x23", "yale_32x32")}
    rng = np.random.default_rng(1)
    made = (rng.gamma(0.5, size=(4000, 10)) @ rng.gamma(0.5, size=(10, 200))).astype(np.float32)

    def score(data: Array, n_held: int, r: int) -> Callable[[float], float]:
        clean, held = data[n_held:], data[:n_held]
        salt = np.where(np.random.default_rng(2).random(clean.shape) < 0.1, clean.max() / 2, clean)

        def at(value: float) -> float:
            manhattan.FAR = value
            return error(OnlineNMF(r, random_state=0, max_iter=2).fit(salt).components_, held)

        return at

    print("\n## mean residuals of an outlier: error of clean samples held back, from 10 % salt\n")
    before = manhattan.FAR
    sets = {"MNIST": score(X, min(N_HELD, len(X) // 4), RANK), "made, rank 10": score(made, 400, 11)}
    sets |= {name: score(data, len(data) // 4, min(RANK, len(data) // 4)) for name, data in people.items()}
    chosen = choose("residuals", FAR, sets)
    cbcl = score(faces("cbcl_19x19"), FACES // 4, min(RANK, FACES // 8))(chosen)
    manhattan.FAR = before
    print(f"\nchosen {chosen:g}; CBCL faces: {cbcl:.4f}")


def least() -> None:
    """Score the least entry of a component over the mean one: OR-NMF for Itakura-Saito, mean loss after two passes."""

    def score(name: str) -> Callable[[float], float]:
        X = faces(name).astype(np.float64)
        X += 1e-2 * X.mean()

        def at(value: float) -> float:
            or_nmf.LEAST = value
            return float(np.mean([_follow(X, seed) for seed in range(STARTS)]))

        return at

    print(f"\n## least entry over the mean one: mean loss of a sample, {STARTS} starts, r = 10\n")
    before = or_nmf.LEAST
    chosen = choose("least", LEAST, {name: score(name) for name in ("umist_28x23", "yale_32x32")})
    cbcl = score("cbcl_19x19")(chosen)
    or_nmf.LEAST = before
    print(f"\nchosen {chosen:g}; CBCL faces: {cbcl:.3f}")


def _follow(X: Array, seed: int) -> float:
    method, rng = METHODS["or-nmf"], RandomState(seed)
    H = rng.random_sample((10, X.shape[1]))
    assert method.constrain is not None
    method.constrain(H, Problem(X, Loss("itakura-saito")))
    state = method.start(H)
    order = np.concatenate([rng.permutation(len(X)) for _ in range(2)])
    for i in order:
        problem = Problem(X[i : i + 1], Loss("itakura-saito"))
        method.learn(problem, H, state, Options(1, 1.0, horizon=len(order)), rng)
    whole = Problem(X, Loss("itakura-saito"))
    return whole.loss_value(solve_codes(whole, H), H) / len(X)


PARTS = {"forgetting": forgetting, "far": far, "least": least}
QUICK = {
    "RANK": 4,
    "N_TRAIN": 600,
    "N_HELD": 40,
    "ROBUST": 600,
    "FORGETTING": (0.9,),
    "FAR": (4.0,),
    "LEAST": (0.1,),
    "PASSES": 1,
    "STARTS": 1,
    "FACES": 16,
}

if __name__ == "__main__":
    with threadpool_limits(1):
        main(PARTS, globals(), QUICK)
