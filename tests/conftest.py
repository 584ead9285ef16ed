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
    """Seed the global generators, which fits without a seed draw from, scikit-learn's checks among them."""
    random.seed(20260101)
    np.random.seed(20260101)  # noqa: NPY002  # the legacy state is what scikit-learn uses
