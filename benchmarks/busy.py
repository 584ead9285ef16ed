"""Threads on a busy machine: seconds of a fit on one thread and on all, beside loops that want the processors.

``python benchmarks/busy.py`` takes about two minutes. Every fit runs in a process of its own, with compiled kernels;
the loops are processes as well: none, one that is held on the first processor, and two a processor.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from _main import main

SHAPE, RANK, ITERATIONS = (1000, 500), 50, 60
RUNS, LOADS = 3, 3
LOOP = "while True: pass"


def fit(rows: int, columns: int, rank: int, iterations: int) -> None:
    """Print the seconds of a fit in this process."""
    from visionnmf import NMF

    warnings.simplefilter("ignore")
    X = np.random.default_rng(0).random((rows, columns), np.float32)
    model = NMF(rank, max_iter=2, tol=0, random_state=0).fit(X)  # compiles
    model.set_params(max_iter=iterations)
    begin = time.perf_counter()
    model.fit(X)
    print(time.perf_counter() - begin)


@contextmanager
def loops(processors: list[int] | None, count: int) -> Iterator[None]:
    """Run endless loops in processes, held on `processors` where they are given."""
    running = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(count)]
    try:
        if processors:
            for process in running:
                os.sched_setaffinity(process.pid, processors)
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def table() -> None:
    """Print the medians of the fits beside each kind of load."""
    own = sorted(os.sched_getaffinity(0))
    print(f"| seconds of a fit ({RUNS} runs, median) | one thread | {len(own)} threads | ratio |")
    print("| --- | --- | --- | --- |")
    loads = (
        ("nothing else", None, 0),
        ("a loop held on one processor", own[:1], 1),
        ("two loops a processor", None, 2 * len(own)),
    )
    for what, processors, count in loads[:LOADS]:
        seconds: list[list[float]] = [[], []]
        with loops(processors, count):
            for _ in range(RUNS):  # in turns, so that other work meets both
                for threads, found in zip((1, len(own)), seconds, strict=True):
                    number = dict.fromkeys(("VISIONNMF_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
                    command = [sys.executable, __file__, "fit", *map(str, (*SHAPE, RANK, ITERATIONS))]
                    done = subprocess.run(command, env=os.environ | number, check=True, capture_output=True, text=True)
                    found.append(float(done.stdout.split()[-1]))
        one, many = (statistics.median(found) for found in seconds)
        print(f"| {what} | {one:.2f} | {many:.2f} | {many / one:.2f} |", flush=True)


PARTS = {"table": table}
QUICK = {"SHAPE": (60, 40), "RANK": 3, "ITERATIONS": 3, "RUNS": 1, "LOADS": 2}

if __name__ == "__main__":
    if sys.argv[1:2] == ["fit"]:
        fit(*map(int, sys.argv[2:]))
    else:
        main(PARTS, globals(), QUICK)
