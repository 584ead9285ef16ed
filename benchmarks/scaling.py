"""Cost against size: CPU seconds and peak memory of ``NMF.fit`` while the samples grow tenfold, three times.

``python benchmarks/scaling.py`` runs everything (about five minutes), ``python benchmarks/scaling.py dense`` one part:
dense or sparse. Every fit runs in a process of its own, on one thread, 10 iterations from random factors, float32.
Memory is the greatest resident size less that before the data were made, so the input counts too. The exponent is the
slope of a straight line through the logarithms.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from _machine import peak_memory_mb
from _main import main

RANK = 10
ITERATIONS = 10
SAMPLES = (200, 2_000, 20_000, 200_000)
DENSE_FEATURES = 200
SPARSE_FEATURES, STORED = 2_000, 40  # stored entries a row
CASES = {
    "dense": (("manhattan", "admm"), ("frobenius", "hals")),
    "sparse": (("manhattan", "rri"), ("frobenius", "hals"), ("kullback-leibler", "ccd")),
}


def dense(n_samples: int) -> np.ndarray:
    """Make low-rank data with noise, with no temporary of their size."""
    rng = np.random.default_rng(0)
    H = rng.gamma(0.5, 1, (RANK, DENSE_FEATURES)).astype(np.float32)
    X = np.empty((n_samples, DENSE_FEATURES), np.float32)
    for start in range(0, n_samples, 1000):
        part = X[start : start + 1000]
        np.matmul(rng.gamma(0.5, 1, (len(part), RANK)).astype(np.float32), H, out=part)
        part += rng.random(part.shape, np.float32)
    return X


def sparse(n_samples: int) -> sp.csr_array:
    """Make rows with as many stored entries each, one in every stripe of the features."""
    rng = np.random.default_rng(0)
    width = SPARSE_FEATURES // STORED
    indices, data = (np.empty(n_samples * STORED, dtype) for dtype in (np.int32, np.float32))
    for start in range(0, n_samples, 1000):
        rows = min(1000, n_samples - start)
        columns = rng.integers(0, width, (rows, STORED), np.int32) + width * np.arange(STORED, dtype=np.int32)
        part = slice(start * STORED, (start + rows) * STORED)
        indices[part] = columns.ravel()
        data[part] = 1 + rng.poisson(1.0, rows * STORED)
    indptr = np.arange(0, len(data) + 1, STORED, dtype=np.int32)
    return sp.csr_array((data, indices, indptr), (n_samples, SPARSE_FEATURES))


def fit(kind: str, loss: str, solver: str, n_samples: int) -> None:
    """Fit in this process; print CPU seconds, peak memory and the input's size, in MB."""
    from visionnmf import NMF

    make = {"dense": dense, "sparse": sparse}[kind]
    model = NMF(RANK, loss=loss, solver=solver, max_iter=ITERATIONS, tol=0, random_state=0)
    warnings.simplefilter("ignore")
    model.fit(make(2_000))  # compiles
    before = peak_memory_mb()
    X: Any = make(n_samples)
    size = (X.nbytes if kind == "dense" else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20
    begin = time.process_time()
    model.fit(X)
    print(time.process_time() - begin, peak_memory_mb() - before, size)


def table(kind: str) -> None:
    """Print one table a kind of data, a row a solver and size."""
    features = DENSE_FEATURES if kind == "dense" else SPARSE_FEATURES
    print(f"\n## {kind}: {features} features, rank {RANK}, {ITERATIONS} iterations, float32, one thread\n")
    print("| loss (solver) | samples | CPU s | peak MB | input MB | peak / input |")
    print("| --- | --- | --- | --- | --- | --- |")
    for loss, solver in CASES[kind]:
        seconds = []
        for n_samples in SAMPLES:
            command = [sys.executable, __file__, "fit", kind, loss, solver, str(n_samples)]
            found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            cpu, peak, size = (float(word) for word in found)
            seconds.append(cpu)
            ratio = f"{peak / size:.1f}" if size > 8 else "-"  # below, the allocator's grain is what one sees
            print(f"| {loss} ({solver}) | {n_samples} | {cpu:.3f} | {peak:.0f} | {size:.1f} | {ratio} |", flush=True)
        slope = np.polyfit(np.log(SAMPLES), np.log(seconds), 1)[0]
        last = np.log10(seconds[-1] / seconds[-2])
        print(f"| {loss} ({solver}) | exponent (last decade) | {slope:.2f} ({last:.2f}) | | | |", flush=True)


PARTS = {"dense": partial(table, "dense"), "sparse": partial(table, "sparse")}
QUICK = {"SAMPLES": (200, 400), "CASES": {kind: cases[:1] for kind, cases in CASES.items()}}

if __name__ == "__main__":
    os.environ.update(VISIONNMF_NUM_THREADS="1", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    if sys.argv[1:2] == ["fit"]:
        fit(*sys.argv[2:5], int(sys.argv[5]))
    else:
        main(PARTS, globals(), QUICK)
