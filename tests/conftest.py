"""Fixtures for all tests: one thread for BLAS, seeded generators, less garbage collection."""

import gc
import os
import random
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np  # noqa: E402
import pytest  # noqa: E402

SEED = int(os.environ.get("VISIONNMF_TEST_SEED", "20260101"))


def pytest_addoption(parser):
    parser.addoption("--seeds", type=int, default=1, help="run scikit-learn's checks with so many seeds; default: 1")
    parser.addoption("--all", action="store_true", help="also run the tests marked long")


def pytest_collection_modifyitems(config, items):
    """Leave out the tests marked `long`, unless `--all` is given or their file is named on the command line."""
    if config.getoption("all"):
        return
    named = {Path(config.invocation_params.dir, words.partition("::")[0]).resolve() for words in config.args}
    left_out = {item for item in items if item.get_closest_marker("long") and item.path not in named}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect tests without collecting garbage, which takes a third of the time; never scan the tests afterwards."""
    gc.disable()
    collected = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return collected


@pytest.fixture
def rng() -> np.random.Generator:
    """One seeded generator a test."""
    return np.random.default_rng(20260101)


def seed_globals(seed):
    """Seed the global generators of Python and NumPy."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # the legacy state is what scikit-learn uses


def global_state():
    """Return the state of the global generators, to see whether a test has drawn from them."""
    _, keys, position, *rest = np.random.get_state()  # noqa: NPY002
    return random.getstate(), keys.tobytes(), position, rest


@pytest.fixture(autouse=True)
def seeded_globals() -> None:
    """Seed the global generators, which fits without a seed draw from, scikit-learn's checks among them.

    Another seed, to see whether a test passes by luck: ``VISIONNMF_TEST_SEED=7 pytest``.
    """
    seed_globals(SEED)


@pytest.fixture
def under_seeds(request):
    """Run a check of scikit-learn; if it draws from the global generators, repeat it with each of `--seeds` seeds."""

    def run(check, estimator):
        for seed in range(SEED, SEED + request.config.getoption("seeds")):
            seed_globals(seed)
            before = global_state()
            try:
                check(estimator)
            except Exception as error:
                error.add_note(f"VISIONNMF_TEST_SEED={seed}")
                raise
            if global_state() == before:
                return

    return run
