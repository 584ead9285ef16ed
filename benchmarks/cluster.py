"""``visionnmf segment`` on two workers of Dask: speed, a worker that is killed, and files that travel.

``python benchmarks/cluster.py`` runs all parts, with one thread for each process: speed (in turns), killed (a worker is
killed in mid-run) and upload (files that travel against a shared path in turns, also with a worker that is killed).
All compare all files that are written. Needs ``sh setup.sh dask`` and the photographs of ``bsds_train``.
"""

from __future__ import annotations

import os
import shutil
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

from visionnmf.io import takes_files

N_PHOTOGRAPHS = 200
N_UPLOADED = 20
LARGE = 400  # MB of a file whose result is as large
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
        finish(started(sources, Path(base, "one")))
        kill_one(client, sources, written(Path(base, "one")), Path(base, "two"))


def kill_one(client: Any, sources: list[str], expected: dict[str, bytes], out: Path, *options: str) -> None:
    """Segment photographs and kill a worker in mid-run; print how many files are as `expected`."""
    process = started(sources, out, "--scheduler", client.scheduler.address, *options)
    enough, seen = KILL_AFTER * len(sources), os.WEXITED | os.WNOHANG | os.WNOWAIT  # an end is left to `finish`
    while len(list(out.glob("*_labels.png"))) < enough and not os.waitid(os.P_PID, process.pid, seen):
        time.sleep(0.02)
    pids = client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    finish(process)
    found = written(out)
    equal = sum(found.get(name) == content for name, content in expected.items())
    left = len(found.keys() - expected.keys())
    print(f"a worker killed: {equal} of {len(expected)} files are the same, {left} others are left, no message")


def upload() -> None:
    """Print what it costs to send files, in turns with a shared path, and whether a worker may be killed meanwhile."""
    sources = photographs()[:N_UPLOADED]
    size = sum(os.path.getsize(source) for source in sources)
    print("seconds, and processor seconds of the command and of both workers\n")
    print("| load | shared path | --upload | same files |\n| --- | --- | --- | --- |")
    with two_workers() as client, tempfile.TemporaryDirectory() as base:
        for turn in range(TURNS):
            outs = [Path(base, f"{kind}{turn}") for kind in ("shared", "upload")]
            load, cells, peaks = os.getloadavg()[0], [], []
            for out, options in zip(outs, ([], ["--upload"]), strict=True):
                client.run(reset_peak)
                begin, before = time.monotonic(), client.run(time.process_time)
                own = finish(started(sources, out, "--scheduler", client.scheduler.address, *options))
                after = client.run(time.process_time)
                spent = sum(after[worker] - before[worker] for worker in after)
                cells.append(f"{time.monotonic() - begin:.1f} ({own:.1f} and {spent:.1f})")
                peaks.append(max(client.run(peak).values()))
            expected, found = map(written, outs)
            same = expected == found and len(found) == 4 * len(sources)
            print(f"| {load:.1f} | {cells[0]} | {cells[1]} | {'yes' if same else 'no'} |", flush=True)
        back = sum(map(len, expected.values()))
        print(f"\n{len(sources)} photographs, {size / 1e6:.1f} MB, have results of {back / 1e6:.1f} MB")
        print(f"peak memory of a worker: {peaks[0]:.0f} MB with a shared path, {peaks[1]:.0f} MB with --upload")
        large(client, Path(base))
        kill_one(client, sources, expected, Path(base, "killed"), "--upload")


def large(client: Any, base: Path) -> None:
    """Print by how much the memory of a worker rises for a large file that travels, and a result of the same size."""
    from visionnmf.apps import on_cluster
    from visionnmf.apps.cluster import open_workers

    source = base / "large.bin"
    source.write_bytes(bytes(LARGE * 10**6))
    client.run(reset_peak)
    before = client.run(peak)
    with on_cluster(client.scheduler.address, upload=True), open_workers() as pool:
        assert pool is not None
        pool.submit(copied, str(source), str(base / "copies")).result()
    after = client.run(peak)
    rise = max(after[worker] - before[worker] for worker in after)
    print(f"a file of {LARGE} MB and a result of the same size raise it by {rise:.0f} MB, {rise / LARGE:.1f} times")


@takes_files
def copied(source: str, out: str) -> None:
    """Copy a file into a folder, as a job does that needs no memory of its own."""
    os.mkdir(out)
    shutil.copyfile(source, Path(out, "large_copy.bin"))


def reset_peak() -> None:
    """Let the peak memory of this process begin with what it has now."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> float:
    """Return the peak memory of this process in MB."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024 / 1e6


QUICK = {"N_PHOTOGRAPHS": 6, "TURNS": 1, "N_UPLOADED": 6, "LARGE": 40}

if __name__ == "__main__":  # workers read this file again, under another name
    from _main import main

    # Dask imports a library called sparse if there is one, which must not be the script beside this one
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]
    main({"speed": speed, "killed": killed, "upload": upload}, globals(), QUICK)
