"""Memory and time of streams: from ten thousand samples on, as they come out of a generator or a file.

``python benchmarks/streams.py`` runs everything (some ten minutes), ``python benchmarks/streams.py memory`` one part:
memory (of a long stream, by method) or sources (what reading costs). Times are of one thread: run it with
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _main import main
from numpy.typing import NDArray

from visionnmf import ConservativeNMF, OnlineNMF, fit_stream
from visionnmf.models.chunks import open_chunks

Array = NDArray[Any]

N_FEATURES, N_COMPONENTS, CHUNK = 100, 10, 1000
MARKS = (10**4, 10**5, 10**6, 10**7)  # samples
METHODS = ("conservative", "surrogate", "manhattan")
N_ROWS = 200_000  # of a file


def endless(n: int) -> Iterator[Array]:
    """Yield chunks of mixtures, made as they are asked for, until there are `n` samples."""
    rng = np.random.default_rng(0)
    parts = rng.gamma(0.5, size=(N_COMPONENTS, N_FEATURES))
    for _ in range(n // CHUNK):
        chunk = rng.random((CHUNK, N_COMPONENTS)) @ parts
        yield chunk + 0.05 * rng.random(chunk.shape)


def resident() -> float:
    """Return the resident size of this process in MB."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def made(method: str) -> Any:
    """Return a new model."""
    if method == "conservative":
        return ConservativeNMF(N_COMPONENTS, random_state=0)
    return OnlineNMF(N_COMPONENTS, method=method, random_state=0)


def learn(method: str) -> None:
    """Learn one stream, and print the rows of its table."""
    fit_stream(made(method), endless(CHUNK * 4))  # compiles
    found: list[tuple[int, float, float]] = []
    begin = time.process_time()

    def note(done: int, total: int | None) -> None:
        if len(found) < len(MARKS) and done >= MARKS[len(found)]:
            found.append((done, resident(), time.process_time() - begin))

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint.npz"
        fit_stream(made(method), endless(MARKS[-1]), checkpoint=checkpoint, callback=note)
    before = (0, found[0][1], 0.0)
    for done, size, seconds in found:
        each = 1e6 * (seconds - before[2]) / (done - before[0])
        print(f"| {method} | {done} | {size:.1f} | {size / found[0][1] - 1:+.1%} | {each:.1f} |", flush=True)
        before = (done, size, seconds)


def memory() -> None:
    """Measure resident memory and time a sample, checkpoints included."""
    print(f"\n## {N_FEATURES} features, {N_COMPONENTS} components, chunks of {CHUNK} from a generator\n")
    print("| method | samples | resident, MB | growth | CPU microseconds a sample since the row before |")
    print("| --- | --- | --- | --- | --- |")
    for method in METHODS:
        learn(method)


def sources() -> None:
    """Measure what reading in chunks costs. Chunks of the first two are views, of which nothing is read."""
    rng = np.random.default_rng(0)
    X = rng.random((N_ROWS, N_FEATURES)).astype(np.float32)
    print(f"\n## Reading {N_ROWS} rows of {N_FEATURES} float32 in chunks of {CHUNK}\n")
    print("| source | CPU microseconds a row |")
    print("| --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, make in WRITERS.items():
            source = make(X, folder)
            begin = time.process_time()
            count = sum(chunk.shape[0] for chunk in open_chunks(source).chunks(CHUNK))
            assert count == N_ROWS
            print(f"| {kind} | {1e6 * (time.process_time() - begin) / N_ROWS:.2f} |", flush=True)


def npy(X: Array, folder: Path) -> Array:
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def hdf5(X: Array, folder: Path) -> Any:
    import h5py

    options = {"chunks": (CHUNK, N_FEATURES), "compression": "gzip", "compression_opts": 1}
    return h5py.File(folder / "x.h5", "w").create_dataset("x", data=X, **options)


def zarr(X: Array, folder: Path) -> Any:
    import zarr

    return zarr.create_array(store=str(folder / "x.zarr"), data=X, chunks=(CHUNK, N_FEATURES))


def text(X: Array, folder: Path) -> Any:
    import pandas

    with (folder / "x.csv").open("w") as file:
        file.writelines(",".join(map(str, row)) + "\n" for row in X.tolist())
    return pandas.read_csv(folder / "x.csv", header=None, chunksize=CHUNK)


WRITERS: dict[str, Callable[[Array, Path], Any]] = {
    "array": lambda X, folder: X,
    "`.npy`": npy,
    "HDF5, gzip": hdf5,
    "Zarr, Zstandard": zarr,
    "text": text,
}


if __name__ == "__main__":
    small = {"MARKS": (2000, 4000), "N_ROWS": 2000, "N_FEATURES": 20}
    main({"memory": memory, "sources": sources}, globals(), small)
