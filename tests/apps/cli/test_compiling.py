"""Compiled once, never again, and the line that says what a first run waits for."""

import json
import os
import subprocess
import sys

import pytest

SENTENCE = "visionnmf: compiling kernels for this machine, once\n"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="nothing is compiled"),
]


def run(*command, cache):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=True)


@pytest.mark.long
def test_the_first_run_says_what_it_waits_for(tmp_path):
    command = ["-m", "visionnmf.apps.cli", "segment", "sample:coffee", "--json"]
    command += ["--force", "--out", str(tmp_path / "out")]
    first, second = (run(*command, cache=tmp_path / "cache") for _ in range(2))
    assert first.stderr.count(SENTENCE) == 1
    assert "compiling" not in second.stderr
    one, other = (json.loads(run.stdout) for run in (first, second))
    assert one | {"seconds": 0} == other | {"seconds": 0}


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="a folder in which nobody can make another")
def test_a_cache_that_cannot_be_written_is_named():
    """It was told to be compiled once, in each run."""
    code = "from visionnmf.apps.cli import _say_that_it_compiles as say; say()"
    environment = {**os.environ, "NUMBA_CACHE_DIR": "/proc/none", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    sentence = "compiling kernels for this run only: /proc/none cannot be written; set NUMBA_CACHE_DIR"
    assert done.stderr.startswith(f"visionnmf: {sentence}") and done.stderr.count("\n") == 1
