"""Fits of Dask arrays in blocks: two workers against one, bytes on the wire, data on disk against data in memory.

``python benchmarks/dask_blocks.py`` runs all parts: workers (in memory, one worker, two workers, with one thread each),
wire (bytes per iteration and block, for 10, 100 and 1000 blocks of two sizes), disk (low-rank data with 20 % outliers
in Zarr, on workers with little memory, against the same fit in memory), files (a pass over blocks in files against one
over blocks in memory), online (OnlineNMF of blocks in Zarr against the array in memory), constants (what an entry, a
block, a call and a task cost, for ``docs/scale.md``). Needs ``sh setup.sh test``.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf import NMF, OnlineNMF
from visionnmf.engine.distributed import cluster as crews
from visionnmf.engine.distributed.block import BlockData
from visionnmf.engine.distributed.crew import Shard
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem

Array = NDArray[Any]

SAMPLES, FEATURES, RANK, ITERATIONS = 8000, 1000, 20, 20
N_BLOCKS = 8
WIRE_BLOCKS, WIRE_ROWS = (10, 100, 1000), (10, 20)
MEGABYTES, BLOCK_MEGABYTES, MEMORY = 1000, 64, "1.5GB"
OUTLIERS = 0.2
PASS_SAMPLES = 4000
BLOCKS, CALLS = (10, 100, 1000), (2, 20, 200)


def rows(start: int, stop: int, outliers: bool) -> Array:
    """Return made rows: non-negative low-rank data, a fifth of whose entries are replaced by large numbers."""
    H = np.random.default_rng(1).gamma(0.5, size=(RANK, FEATURES)).astype(np.float32)
    rng = np.random.default_rng([2, start])
    W = rng.gamma(0.5, size=(stop - start, RANK)).astype(np.float32)
    X = W @ H
    if outliers:
        X[rng.random(X.shape, np.float32) < OUTLIERS] = 30.0
    return X


def made(n_samples: int, size: int, *, outliers: bool = True) -> Any:
    """Return made data as a Dask array with blocks of `size` rows."""
    import dask
    import dask.array as da

    make = dask.delayed(rows, pure=True)
    parts = [(start, min(start + size, n_samples)) for start in range(0, n_samples, size)]
    blocks = [da.from_delayed(make(*part, outliers), (part[1] - part[0], FEATURES), np.float32) for part in parts]
    return da.concatenate(blocks)


@contextmanager
def cluster(n_workers: int, memory: str | int = 0) -> Iterator[Any]:
    """Start a cluster on this machine, with one thread for each worker."""
    from distributed import Client, LocalCluster

    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    options: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": memory}
    with LocalCluster(n_workers=n_workers, **options) as made_here, Client(made_here) as client:
        yield client


class Timed:
    """A callback that notes the time of each iteration, and the processor seconds of all processes that fit."""

    def __init__(self, client: Any = None) -> None:
        self.client, self.times, self.processor = client, [], []  # type: ignore[var-annotated]

    def __call__(self, iteration: int, objective: float) -> bool:
        """Note the time; that of the processors in the first iteration and in the last one before the end."""
        self.times.append(time.monotonic())
        if iteration in (1, ITERATIONS - 1):
            self.processor.append(self.used())
        return False

    def used(self) -> list[float]:
        """Return the processor seconds so far of each process that fits."""
        return list(self.client.run(time.process_time).values()) if self.client else [time.process_time()]

    @property
    def seconds(self) -> float:
        """The median time of an iteration."""
        return float(np.median(np.diff(self.times)))

    @property
    def busiest(self) -> float:
        """The processor seconds of an iteration in the busiest process."""
        first, last = (np.array(values) for values in self.processor)
        return float((last - first).max()) / (ITERATIONS - 2)


class Fitted(NamedTuple):
    """A fit, its seconds and processor seconds in all processes, and those of an iteration in the busiest process."""

    model: NMF
    total: float
    processor: float
    each: float
    busiest: float

    @property
    def row(self) -> str:
        """The columns of a table."""
        objective = repr(float(self.model.objective_history_[-2]))  # before the final codes, with all digits
        return f"{objective} | {self.total:.1f} | {self.processor:.1f} | {self.each:.3f} | {self.busiest:.3f}"


def fitted(X: Any, client: Any = None) -> Fitted:
    """Fit, and measure it."""
    timed = Timed(client)
    model = NMF(RANK, max_iter=ITERATIONS, tol=0, random_state=0, callback=timed)
    start, before = time.monotonic(), sum(timed.used())
    model.fit(X)
    return Fitted(model, time.monotonic() - start, sum(timed.used()) - before, timed.seconds, timed.busiest)


HEAD = (
    "| arrangement | objective | s of the fit | processor s of it | s of an iteration | processor s, busiest process |"
)


def compile_on(client: Any, size: int) -> None:
    """Load all kernels on all workers."""
    NMF(RANK, max_iter=2, tol=0).fit(made(4 * size, size))


def workers() -> None:
    """Print objective and seconds in memory, on one worker, and on two."""
    X = made(SAMPLES, SAMPLES // N_BLOCKS)
    print(f"{SAMPLES} x {FEATURES} float32, {RANK} components, {N_BLOCKS} blocks, {ITERATIONS} iterations\n")
    print(HEAD + "\n" + "| --- " * 6 + "|")
    whole = X.compute()
    os.environ["VISIONNMF_NUM_THREADS"] = "1"
    NMF(RANK, max_iter=1, tol=0).fit(whole[:100])  # compiles
    for name, data in (("in memory, one thread", whole), ("blocks in one process, one thread", X)):
        print(f"| {name} | {fitted(data).row} |", flush=True)
    del os.environ["VISIONNMF_NUM_THREADS"]
    found = []
    for n_workers in (1, 2):
        with cluster(n_workers) as client:
            compile_on(client, 100)
            found.append(fitted(X, client))
            print(f"| {n_workers} workers | {found[-1].row} |", flush=True)
    wall, processor = found[0].each / found[1].each, found[0].busiest / found[1].busiest
    print(f"\ntwo workers against one, an iteration: {wall:.2f} times, by processor seconds {processor:.2f} times")


def wire() -> None:
    """Print the bytes of messages and answers for each iteration, and for each iteration and block."""
    counted = [0, 0]  # bytes of messages and answers, calls
    call, result = crews.ClusterCrew._call, crews.ClusterCrew._result

    def counting_call(self: Any, member: Any, method: str, *arguments: Any) -> Any:
        counted[0] += len(pickle.dumps(arguments, protocol=5))
        counted[1] += 1
        return call(self, member, method, *arguments)

    def counting_result(self: Any, member: Any, asked: Any) -> Any:
        answer = result(self, member, asked)
        counted[0] += len(pickle.dumps(answer, protocol=5))
        return answer

    crews.ClusterCrew._call, crews.ClusterCrew._result = counting_call, counting_result  # type: ignore[method-assign]
    print("| blocks | rows of a block | bytes of an iteration | of it and of a block | seconds of an iteration |")
    print("| --- | --- | --- | --- | --- |")
    with cluster(2):
        for n_blocks in WIRE_BLOCKS:
            for size in WIRE_ROWS:
                X = made(n_blocks * size, size)
                marks: list[int] = []
                timed = Timed()

                def note(i: int, objective: float, marks: list[int] = marks, timed: Timed = timed) -> bool:
                    marks.append(counted[0])
                    return timed(i, objective)

                NMF(RANK, max_iter=ITERATIONS, tol=0, random_state=0, callback=note).fit(X)
                each = float(np.median(np.diff(marks)))
                print(f"| {n_blocks} | {size} | {each:.0f} | {each / n_blocks:.0f} | {timed.seconds:.3f} |")


class Peak:
    """The most memory of processes so far, in MB, looked up every 50 ms: all of it, and what no file backs."""

    def __init__(self, pids: list[int]) -> None:
        self.pids, self.total, self.anonymous, self.going = pids, 0.0, 0.0, True
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self) -> None:
        while self.going:
            for pid in self.pids:
                lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
                self.total = max(self.total, int(lines["VmRSS"].split()[0]) / 1024)
                self.anonymous = max(self.anonymous, int(lines["RssAnon"].split()[0]) / 1024)
            time.sleep(0.05)

    def stop(self) -> None:
        """Look no more."""
        self.going = False
        self.thread.join()


def disk(megabytes: float = 0, block: float = 0) -> None:
    """Print time, peak memory and recovery error of data on disk, kept in files by workers, against data in memory."""
    import dask.array as da

    from visionnmf.models import blocks

    blocks.ROOM = 0.0  # whatever the memory of the workers, so that small sizes measure the same code
    size = int((block or BLOCK_MEGABYTES) * 1e6 / 4 / FEATURES)
    n_samples = int((megabytes or MEGABYTES) * 1e6 / 4 / FEATURES)
    folder = Path(tempfile.mkdtemp(prefix="visionnmf-benchmark-"))
    try:
        made(n_samples, size).to_zarr(str(folder / "X.zarr"), compute=True)
        stored = da.from_zarr(str(folder / "X.zarr"))
        print(f"{n_samples} x {FEATURES} float32, blocks of {size}, {ITERATIONS} iterations, {MEMORY} a worker\n")
        print(HEAD + " peak of a process, MB | without files | recovery error |\n" + "| --- " * 9 + "|")
        with cluster(2, MEMORY) as client:
            compile_on(client, 100)
            peak = Peak(list(client.run(os.getpid).values()))
            first = fitted(stored, client)
            peak.stop()
        error = recovery(first.model, n_samples, size)
        print(f"| 2 workers, Zarr | {first.row} | {peak.total:.0f} | {peak.anonymous:.0f} | {error:.6f} |", flush=True)
        whole = stored.compute(scheduler="threads")
        peak = Peak([os.getpid()])
        second = fitted(whole)
        peak.stop()
        error = recovery(second.model, n_samples, size)
        print(f"| in memory, 2 threads | {second.row} | {peak.total:.0f} | {peak.anonymous:.0f} | {error:.6f} |")
        print("\ndisk against memory: fit", f"{first.total / second.total:.2f}", end="")
        print(f", its processor seconds {first.processor / second.processor:.2f}", end="")
        print(f", an iteration {first.each / second.each:.2f}", end="")
        print(f", its processor seconds {2 * first.busiest / second.busiest:.2f}")
    finally:
        shutil.rmtree(folder)


def online(megabytes: float = 0, block: float = 0) -> None:
    """Print what OnlineNMF needs for blocks in Zarr, and for the same array in memory, with the batches in order."""
    import dask.array as da

    size = int((block or BLOCK_MEGABYTES) * 1e6 / 4 / FEATURES)
    n_samples = int((megabytes or MEGABYTES) * 1e6 / 4 / FEATURES)
    passes = 2
    with tempfile.TemporaryDirectory(prefix="visionnmf-benchmark-") as folder:
        made(n_samples, size).to_zarr(f"{folder}/X.zarr", compute=True)
        stored = da.from_zarr(f"{folder}/X.zarr")
        OnlineNMF(RANK, max_iter=1, init="random").fit(rows(0, 100, True))  # compiles
        print(f"{n_samples} x {FEATURES} float32, blocks of {size}, {passes} passes\n")
        print("| data | s of the fit | processor s of it | more memory, MB | recovery error |\n" + "| --- " * 5 + "|")
        found = []
        for name in ("blocks in Zarr", "in memory"):
            peak = Peak([os.getpid()])
            time.sleep(0.2)
            before, start, used = peak.anonymous, time.monotonic(), time.process_time()
            model = OnlineNMF(RANK, max_iter=passes, shuffle=False, random_state=0)
            model.fit(stored if name == "blocks in Zarr" else stored.compute())
            seconds, used = time.monotonic() - start, time.process_time() - used
            peak.stop()
            found.append(model.components_)
            error = recovery(model, n_samples, size)
            more = peak.anonymous - before
            print(f"| {name} | {seconds:.1f} | {used:.1f} | {more:.0f} | {error:.6f} |", flush=True)
    print("\nlargest difference of the components:", float(np.abs(found[0] - found[1]).max()))


def begun(parts: list[BlockData], starts: list[int], n_samples: int) -> Shard:
    """Return blocks in this process, with one thread, that are ready for passes of ADMM."""
    shard = Shard(parts, range(len(parts)), starts, 1)
    draw = ("draw", (np.random.RandomState(0).get_state(), n_samples, 0.1))
    begin = ("begin", (Problem(None, Loss("manhattan")),))
    shard.run([begin, ("empty_codes", (RANK,)), draw, ("totals", ())])
    return shard


def files() -> None:
    """Print the processor seconds of a pass of ADMM over blocks in memory and in files, of one thread, in turns."""
    rng = np.random.default_rng(0)
    H = rng.random((RANK, FEATURES), np.float32)
    starts = range(0, PASS_SAMPLES, PASS_SAMPLES // 4)
    data = [BlockData(rng.random((PASS_SAMPLES // 4, FEATURES), np.float32)) for _ in starts]
    shards = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, parts in (("memory", data), ("files", [part.in_files(folder) for part in data])):
            shards[name] = begun(parts, list(starts), PASS_SAMPLES)
        seconds: dict[str, list[float]] = {"memory": [], "files": []}
        for _ in range(ITERATIONS):
            for name, shard in shards.items():
                start = time.process_time()
                shard.run([("admm_step", (H.copy(), 0.5, 1.0))])
                seconds[name].append(time.process_time() - start)
        shards.clear()
    print(f"{PASS_SAMPLES} x {FEATURES} float32, {RANK} components\n")
    print("| blocks in | processor ms of a pass |\n| --- | --- |")
    for name, found in seconds.items():
        print(f"| {name} | {1000 * float(np.median(found)):.1f} |")


class Echo:
    """An actor that answers as a worker of a fit does, without its work."""

    def answer(self, H: Array) -> tuple[Array, Array]:
        """Return sums as large as those of an iteration."""
        return H.astype(np.float64), np.zeros((RANK, RANK))


def constants() -> None:
    """Print the processor seconds of a pass over blocks, of calls to workers at once, and of tasks of the scheduler.

    Calls and tasks are measured in this process, which is the client and has the scheduler.
    """
    import dask
    from distributed import wait

    H = np.random.default_rng(0).random((RANK, FEATURES), np.float32)
    print("| what | number | processor ms | of each |\n| --- | --- | --- | --- |")

    def show(name: str, number: int, times: list[float]) -> None:
        """Print the median of times as a row, and its share of each of so many."""
        each = 1000 * float(np.median(times))
        print(f"| {name} | {number} | {each:.2f} | {each / number:.4f} |", flush=True)

    for n_blocks, size in ((8, PASS_SAMPLES // 8), *((number, 10) for number in BLOCKS)):
        starts = list(range(0, n_blocks * size, size))
        parts = [BlockData(rows(start, start + size, True)) for start in starts]
        shard = begun(parts, starts, n_blocks * size)
        times = [_processor(lambda shard=shard: shard.run([("admm_step", (H, 0.5, 1.0))])) for _ in range(ITERATIONS)]
        show(f"pass over blocks of {size} rows", n_blocks, times)
    with cluster(2) as client:
        for n_calls in CALLS:
            made_there = [client.submit(Echo, actor=True, pure=False) for _ in range(n_calls)]
            actors = [future.result() for future in made_there]
            times = [
                _processor(lambda actors=actors: [call.result() for call in [actor.answer(H) for actor in actors]])
                for _ in range(ITERATIONS)
            ]
            show("calls of actors", n_calls, times)
        for n_tasks in BLOCKS:
            tasks = [dask.delayed(abs)(-i) for i in range(n_tasks)]
            show("tasks", n_tasks, [_processor(lambda tasks=tasks: wait(client.compute(tasks)))])


def _processor(work: Callable[[], object]) -> float:
    """Return the processor seconds of this process for a call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def recovery(model: Any, n_samples: int, size: int) -> float:
    """Return the relative error of the reconstruction of the clean data, on the first block."""
    stop = min(size, n_samples)
    clean, dirty = rows(0, stop, False), rows(0, stop, True)
    found = model.inverse_transform(model.transform(dirty[:1000]))
    return float(np.linalg.norm(found - clean[:1000]) / np.linalg.norm(clean[:1000]))


QUICK = {
    "SAMPLES": 800,
    "PASS_SAMPLES": 400,
    "ITERATIONS": 4,
    "WIRE_BLOCKS": (4,),
    "WIRE_ROWS": (20,),
    "BLOCKS": (4,),
    "CALLS": (2,),
    "MEGABYTES": 4,
    "BLOCK_MEGABYTES": 1,
}

if __name__ == "__main__":  # workers read this file again, under another name
    from _main import main

    # Dask imports a library called sparse if there is one, which must not be the script beside this one
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]
    main(
        {"workers": workers, "wire": wire, "disk": disk, "files": files, "online": online, "constants": constants},
        globals(),
        QUICK,
    )
