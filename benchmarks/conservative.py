"""The two demonstrations of conservative learning (Elser), and what their notes leave open.

``python benchmarks/conservative.py`` runs everything (twenty minutes), ``python benchmarks/conservative.py errors`` one
part: mixtures (64 images found from mixtures of eight), errors (of MNIST, by the number of components) or readings
(of step 9 and step 11). Seconds are of one thread: run it with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import time
from typing import Any

import numba
import numpy as np
from _main import main
from numpy.typing import NDArray

from visionnmf import ConservativeNMF
from visionnmf.apps.reproduce.conservative import REPORTED, digits, match, mixtures as made_mixtures

Array = NDArray[Any]

N_PARTS, ACTIVE, N_MIXTURES = 64, 8, 10000
MIXTURE_PASSES, MIXTURE_STARTS = 200, 3
SIZES, PASSES, STARTS = (50, 100, 200), 10, (0, 1)  # components, passes over the images, seeds
N_IMAGES, BATCH = 60000, 1000
READING_PASSES = 100


def mixtures() -> None:
    """Find the 64 images in 10^4 mixtures, w = 1: match and errors by the number of passes."""
    print(f"\n## {N_PARTS} images out of {N_MIXTURES} mixtures of {ACTIVE}, w = 1\n")
    print("| start | passes | mean norm of the error | match: least | mean | above .99 | CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for seed in range(MIXTURE_STARTS):
        X, parts = made_mixtures(seed, N_MIXTURES, N_PARTS, ACTIVE)
        model = ConservativeNMF(N_PARTS, w=1.0, batch_size=len(X), random_state=seed)
        begin = time.process_time()
        for passes in range(1, MIXTURE_PASSES + 1):
            model.partial_fit(X)
            if passes in (1, 10, 50, 100, MIXTURE_PASSES):
                found = match(parts, model.components_)
                print(
                    f"| {seed} | {passes} | {model.errors_[-1]:.5f} | {found.min():.4f} | {found.mean():.5f} "
                    f"| {(found > 0.99).sum()} of {N_PARTS} | {time.process_time() - begin:.0f} |",
                    flush=True,
                )


def errors() -> None:
    """Measure the errors on MNIST with w = 1e-5, as norms and as root mean squares over pixels, beside the SVD's."""
    X = digits(N_IMAGES)
    X /= np.linalg.norm(X, axis=1)[:, None]
    rest = np.linalg.eigvalsh(X.T @ X)[::-1].cumsum()
    root = np.sqrt(X.shape[1])
    print(f"\n## MNIST, {len(X)} images, w = 1e-5: mean norm of the error, |x| = 1\n")
    print(
        "| components | start | passes | norm, last pass | norm / 28, last pass | best batch | reported "
        "| root mean square norm of the SVD of that rank | CPU s |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for n_components in SIZES:
        least = np.sqrt(max(0.0, rest[-1] - rest[n_components - 1]) / len(X))
        for seed in STARTS:
            begin = time.process_time()
            model = ConservativeNMF(n_components, batch_size=BATCH, max_iter=PASSES, random_state=seed).fit(X)
            last = model.errors_[-max(1, len(X) // BATCH) :].mean()
            ours = f"{last:.4f} | {last / root:.5f} | {model.best_error_ / root:.5f}"
            reported = REPORTED.get(n_components, float("nan"))
            print(
                f"| {n_components} | {seed} | {PASSES} | {ours} | {reported} | {least:.4f} "
                f"| {time.process_time() - begin:.0f} |",
                flush=True,
            )


def readings() -> None:
    """Try what the notes leave open: the decoder of step 9, before or after step 8, and whether step 11 is taken."""
    learn = numba.njit(_learn)
    print(f"\n## Readings of the summary: pass {READING_PASSES} over the mixtures, w = 1\n")
    print(
        "| decoder in step 9 | step 11 | mean norm of the error | negative entries of the decoder | matches above .99 |"
    )
    print("| --- | --- | --- | --- | --- |")
    X, parts = made_mixtures(0, N_MIXTURES, N_PARTS, ACTIVE)
    X = np.ascontiguousarray(X / np.linalg.norm(X, axis=1)[:, None])
    for after in (False, True):
        for clip in (True, False):
            E = np.random.RandomState(0).uniform(-1, 1, (N_PARTS, X.shape[1]))
            H = np.zeros(E.shape)
            for _ in range(READING_PASSES):
                error = learn(X, E, H, 1.0, after, clip)
            found = int((match(parts, H) > 0.99).sum())
            place, taken = "after" if after else "before", "yes" if clip else "no"
            print(f"| {place} | {taken} | {error:.4f} | {(H < 0).mean():.1%} | {found} of {N_PARTS} |", flush=True)


def _learn(X: Array, E: Array, H: Array, w: float, after: bool, clip: bool) -> float:
    """Learn samples of unit norm, in place, by the steps of the summary; return the mean norm of their errors."""
    f, n = E.shape
    total = 0.0
    answer, pull = np.empty(f), np.empty(f)
    residual = np.empty(n)
    for x in X:
        for i in range(n):
            residual[i] = x[i]
        positive = 0.0
        for k in range(f):
            answer[k] = 0.0
            for i in range(n):
                answer[k] += E[k, i] * x[i]
            if answer[k] > 0:
                positive += answer[k] ** 2
                for i in range(n):
                    residual[i] -= answer[k] * H[k, i]
        square = 0.0
        for i in range(n):
            square += residual[i] ** 2
        total += np.sqrt(square)
        if square == 0:
            continue
        pulled = 0.0
        for k in range(f):
            pull[k] = 0.0
            for i in range(n):
                pull[k] += H[k, i] * residual[i]
            pulled += pull[k] ** 2
        length = 1 / (pulled / square + w * positive)
        for k in range(f):
            y = max(0.0, answer[k])
            xi = length * pull[k] + (w * length**2 * square * y if after else 0.0)
            for i in range(n):
                value = H[k, i] + w * length * residual[i] * y
                H[k, i] = max(0.0, value) if clip else value
                E[k, i] += (y - answer[k] + xi) * x[i]
    return total / len(X)


if __name__ == "__main__":
    main(
        {"mixtures": mixtures, "errors": errors, "readings": readings},
        globals(),
        {"N_MIXTURES": 100, "MIXTURE_PASSES": 2, "MIXTURE_STARTS": 1, "SIZES": (5,), "PASSES": 1, "STARTS": (0,)}
        | {"N_IMAGES": 2000, "READING_PASSES": 1, "N_PARTS": 8, "ACTIVE": 2, "BATCH": 500},
    )
