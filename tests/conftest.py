"""House fixtures: one thread for BLAS, a numba cache keyed on the sources, one seeded generator."""

import hashlib
import os
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _sources_key() -> str:
    # numba looks only at the file of a kernel, not at the helpers it calls; a stale cache would test old code
    digest = hashlib.sha256()
    for path in sorted((ROOT / "visionnmf").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"visionnmf-numba-{_sources_key()}"))

import numpy as np  # noqa: E402
import pytest  # noqa: E402


@pytest.fixture
def rng() -> np.random.Generator:
    """One seeded generator a test."""
    return np.random.default_rng(20260101)
