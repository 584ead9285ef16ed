"""Results do not depend on threads: how many there are, several fits at once, processes, a fork."""

import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import visionnmf

# Large enough for a BLAS to use its threads, and for several blocks; few iterations, as differences grow with them.
MODELS = {
    "manhattan": lambda: visionnmf.NMF(6, max_iter=8, tol=0, random_state=0),
    "frobenius": lambda: visionnmf.NMF(6, loss="frobenius", max_iter=8, tol=0, random_state=0),
    "kullback-leibler": lambda: visionnmf.NMF(6, loss="kullback-leibler", max_iter=8, tol=0, random_state=0),
    "nndsvd": lambda: visionnmf.NMF(6, loss="frobenius", init="nndsvda", max_iter=8, tol=0, random_state=0),
    "projective": lambda: visionnmf.ProjectiveNMF(6, max_iter=8, tol=0, random_state=0),
    "projective kl": lambda: visionnmf.ProjectiveNMF(
        6, loss="kullback-leibler", init="random", max_iter=8, tol=0, random_state=0
    ),
    "symmetric": lambda: visionnmf.SymmetricNMF(4, n_init=2, max_iter=8, tol=0, random_state=0),
    "symmetric least squares": lambda: visionnmf.SymmetricNMF(
        4, loss="frobenius", n_init=2, max_iter=8, tol=0, random_state=0
    ),
}
THREADS = ("1", "2", "7")


def digest(name):
    """Fit a model and return a digest of its components, to the bit."""
    rng = np.random.default_rng(3)
    X = rng.gamma(1, size=(500, 6)) @ rng.gamma(1, size=(6, 420))
    if name.startswith("symmetric"):
        X = X[:300] @ X[:300].T
        X /= X.max()
    return hashlib.sha256(MODELS[name]().fit(X).components_.tobytes()).hexdigest()


def digests(_=None):
    return {name: digest(name) for name in MODELS}


@pytest.fixture(scope="module")
def expected():
    return digests()


def in_a_process(threads):
    variables = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    command = "import json, warnings; warnings.simplefilter('ignore'); import test_threads as t; "
    found = subprocess.run(
        [sys.executable, "-c", command + "print(json.dumps(t.digests()))"],
        env={**os.environ, **variables, "VISIONNMF_NUM_THREADS": threads},
        cwd=os.path.dirname(__file__),
        capture_output=True,
        check=True,
        text=True,
    )
    return json.loads(found.stdout)


pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]


@pytest.mark.parametrize("threads", THREADS)
def test_any_number_of_threads_gives_the_same_to_the_bit(threads, expected):
    assert in_a_process(threads) == expected


def test_fits_in_four_threads_at_once_are_those_of_one(expected):
    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(MODELS, pool.map(digest, MODELS), strict=True))
    assert found == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fits_after_a_fork_are_those_before(expected):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(digests, range(2)) == [expected, expected]
