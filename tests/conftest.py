"""Fixtures for all tests: one thread for BLAS, seeded generators."""

import os
import random

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np  # noqa: E402
import pytest  # noqa: E402


@pytest.fixture
def rng() -> np.random.Generator:
    """One seeded generator a test."""
    return np.random.default_rng(20260101)


@pytest.fixture(autouse=True)
def seeded_globals() -> None:
    """Seed the global generators, which fits without a seed draw from, scikit-learn's checks among them.

    Another seed, to see whether a test passes by luck: ``VISIONNMF_TEST_SEED=7 pytest``.
    """
    seed = int(os.environ.get("VISIONNMF_TEST_SEED", "20260101"))
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # the legacy state is what scikit-learn uses
