"""Pools of processes: they end with the first one, and killed ones are told."""

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers import killed

from visionnmf.apps.pool import open_pool
from visionnmf.apps.runner import run_parallel
from visionnmf.exceptions import VisionNMFError

JOBS = {f"job {number}": (number,) for number in range(5)}
LONG = """
import os, sys, time
from pathlib import Path
from visionnmf.apps.runner import run_parallel

def work(number):
    Path(sys.argv[1], f"{number} {os.getpid()}").touch()
    try:
        time.sleep(20 if number < 2 else 60)
    except KeyboardInterrupt:
        Path(sys.argv[1], f"cleaned {number}").touch()
        raise

if __name__ == "__main__":
    run_parallel({str(number): (number,) for number in range(8)}, work, 2, lambda *_: None)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked for in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_soon_after_the_first_with_the_jobs_that_were_handed_to_them(tmp_path, number):
    """Two jobs run, three more are with the processes already."""
    (tmp_path / "long.py").write_text(LONG)
    begun = tmp_path / "begun"
    begun.mkdir()
    first = subprocess.Popen(
        [sys.executable, tmp_path / "long.py", begun],
        stderr=subprocess.DEVNULL,
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # where the tests ignore it
    )
    deadline = time.monotonic() + 60
    while len(list(begun.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    processes = [int(path.name.split()[1]) for path in begun.iterdir()]
    assert len(processes) == 2
    first.send_signal(number)
    first.wait(timeout=15)
    deadline = time.monotonic() + 15
    while any(lives(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(lives(process) for process in processes)
    assert {path.name for path in begun.glob("cleaned*")} == {"cleaned 0", "cleaned 1"}
    assert len(list(begun.iterdir())) == 4


def lives(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="nothing kills there as a system does that runs out of memory")
def test_processes_that_the_system_kills_are_told_in_one_line():
    one_line = r"^a process was ended from outside, perhaps because memory ran out; fewer at a time \(n_jobs\) may fit$"
    with pytest.raises(VisionNMFError, match=one_line):
        run_parallel(JOBS, killed, 2, lambda *_: None)
    with open_pool(1) as pool, pytest.raises(VisionNMFError, match=one_line):  # where each input may fail by itself
        list(pool.map(killed, range(3)))
