"""Compiled once, never again: ``visionnmf warm``, and the line that says what a first run waits for."""

import json
import os
import subprocess
import sys

import pytest

SENTENCE = "visionnmf: compiling kernels for this machine, once\n"
FITS = """
from visionnmf._jit import on_first_compile
on_first_compile(lambda: print("compiled"))
import warnings
import numpy as np
import scipy.sparse as sp
from visionnmf import NMF
warnings.simplefilter("ignore")
X = np.random.default_rng(1).random((50, 40)) + 0.1
for loss in ("manhattan", "frobenius", "elastic-net", "huber", "l21", "kullback-leibler", "itakura-saito", 0.5):
    for dtype in (np.float32, np.float64):
        NMF(4, loss=loss, max_iter=30, random_state=0).fit(X.astype(dtype)).transform(X.astype(dtype))
Z = sp.csr_array(np.where(X < 0.8, 0, X))
NMF(4, max_iter=30, random_state=0).fit(Z).transform(Z)
print("fitted")
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="nothing is compiled"),
]


def run(*command, cache):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=True)


def test_after_warm_nothing_is_compiled(tmp_path):
    done = run("-m", "visionnmf.apps.cli", "warm", "-v", cache=tmp_path)
    assert str(tmp_path) in done.stdout and "masquerade" in done.stderr and "Warning" not in done.stderr
    assert run("-c", FITS, cache=tmp_path).stdout == "fitted\n"


def test_the_first_run_says_what_it_waits_for(tmp_path):
    command = ["-m", "visionnmf.apps.cli", "segment", "sample:coffee", "--json"]
    command += ["--force", "--out", str(tmp_path / "out")]
    first, second = (run(*command, cache=tmp_path / "cache") for _ in range(2))
    assert first.stderr.count(SENTENCE) == 1
    assert "compiling" not in second.stderr
    (one,), (other,) = (json.loads(run.stdout)["images"] for run in (first, second))
    assert one | {"seconds": 0} == other | {"seconds": 0}


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="a folder in which nobody can make another")
def test_a_cache_that_cannot_be_written_is_named():
    """It was told to be compiled once, in each run."""
    code = "from visionnmf.apps.cli import _say_that_it_compiles as say; say()"
    environment = {**os.environ, "NUMBA_CACHE_DIR": "/proc/none", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    sentence = (
        "compiling kernels for this run only: /proc/none cannot be written; set NUMBA_CACHE_DIR to a writable folder"
    )
    assert done.stderr == f"visionnmf: {sentence}\n"
