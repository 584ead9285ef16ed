"""``visionnmf segment`` on two workers of Dask: speed, and a worker that is killed.

``python benchmarks/cluster.py`` runs both parts, with one thread for each process: speed (in turns) and killed (a
worker is killed in mid-run). They compare all files that are written. Needs ``sh setup.sh dask`` and the photographs of
``bsds_train``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

N_PHOTOGRAPHS = 200
TURNS = 2
KILL_AFTER = 0.3  # of the photographs
COMMAND = "from visionnmf.apps.cli import main; import sys; sys.argv = ['visionnmf', *sys.argv[1:]]; main()"


def photographs() -> list[str]:
    """Return the names of the photographs."""
    from _main import Missing, data_file

    found = sorted(data_file("bsds_train").glob("*.jpg"))[:N_PHOTOGRAPHS]
    if len(found) < N_PHOTOGRAPHS:
        raise Missing(f"{len(found)} photographs in bsds_train; {N_PHOTOGRAPHS} are needed")
    return [str(path) for path in found]


@contextmanager
def two_workers() -> Iterator[Any]:
    """Start two workers of one thread each on this machine, which have segmented a photograph already."""
    from distributed import Client, LocalCluster

    # Dask's own setting gives memory back after each array, which docs/cluster.md advises against
    os.environ |= dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), "33554432")
    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client, tempfile.TemporaryDirectory() as folder:
        finish(started(photographs()[:6], folder, "--scheduler", cluster.scheduler_address))
        yield client


def started(sources: list[str], out: str | Path, *options: str) -> subprocess.Popen[bytes]:
    """Start ``visionnmf segment`` with one thread, and with the visionnmf of this process and of its workers."""
    words = ["segment", *sources, "--out", str(out), "--quiet", *options]
    threads = {"VISIONNMF_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment = {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen([sys.executable, "-c", COMMAND, *words], env=environment, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> float:
    """Wait for a command, which must succeed without a word, and return its processor seconds."""
    assert process.stderr is not None
    said = process.stderr.read().decode()
    process.stderr.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status or said:
        raise SystemExit(f"visionnmf segment ended with status {status}: {said}")
    return usage.ru_utime + usage.ru_stime


def written(out: Path) -> dict[str, bytes]:
    """Return the files of a folder by name."""
    return {path.name: path.read_bytes() for path in out.iterdir()}


def speed() -> None:
    """Print seconds of both arrangements for each turn, and the medians of their ratios.

    By processor seconds, those of the command count beside those of the busiest worker, although they overlap.
    """
    sources, ratios = photographs(), []
    print(f"{len(sources)} photographs, seconds and processor seconds (of the command and the busiest worker)\n")
    print("| load | one process | two workers | same files |\n| --- | --- | --- | --- |")
    with two_workers() as client, tempfile.TemporaryDirectory() as base:
        for turn in range(TURNS):
            one, two = Path(base, f"one{turn}"), Path(base, f"two{turn}")
            load, begin = os.getloadavg()[0], time.monotonic()
            alone = finish(started(sources, one))
            middle, before = time.monotonic(), client.run(time.process_time)
            own = finish(started(sources, two, "--scheduler", client.scheduler.address))
            end, after = time.monotonic(), client.run(time.process_time)
            busiest = own + max(after[worker] - before[worker] for worker in after)
            ratios.append(((middle - begin) / (end - middle), alone / busiest))
            same = written(one) == written(two) and len(written(one)) == 4 * len(sources)
            times = f"{middle - begin:.1f} ({alone:.1f}) | {end - middle:.1f} ({busiest:.1f})"
            print(f"| {load:.1f} | {times} | {'yes' if same else 'no'} |", flush=True)
    wall, processor = np.median(ratios, axis=0)
    print(f"\ntwo workers are {wall:.2f} times as fast, by processor seconds {processor:.2f} times")


def killed() -> None:
    """Kill a worker in mid-run, and print how many files are there and equal those of one process."""
    sources = photographs()
    with two_workers() as client, tempfile.TemporaryDirectory() as base:
        out = Path(base, "two")
        finish(started(sources, Path(base, "one")))
        process = started(sources, out, "--scheduler", client.scheduler.address)
        enough, seen = KILL_AFTER * len(sources), os.WEXITED | os.WNOHANG | os.WNOWAIT  # an end is left to `finish`
        while len(list(out.glob("*_labels.png"))) < enough and not os.waitid(os.P_PID, process.pid, seen):
            time.sleep(0.02)
        pids = client.run(os.getpid)
        os.kill(next(iter(pids.values())), signal.SIGKILL)
        finish(process)
        expected, found = written(Path(base, "one")), written(out)
    equal = sum(found.get(name) == content for name, content in expected.items())
    left = len(found.keys() - expected.keys())
    print(f"a worker killed: {equal} of {len(expected)} files are the same, {left} others are left, no message")


QUICK = {"N_PHOTOGRAPHS": 6, "TURNS": 1}

if __name__ == "__main__":  # workers read this file again, under another name
    from _main import main

    # Dask imports a library called sparse if there is one, which must not be the script beside this one
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]
    main({"speed": speed, "killed": killed}, globals(), QUICK)
