"""The problems on which the peers were measured, with their shared starts.

They are made by ``bench/problems.py`` of the folder that holds the research data, once, into a folder of the system's
temporary directory. Where that script is missing, :func:`load` says so and ends the benchmark.
"""

from __future__ import annotations

import runpy
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from visionnmf.datasets.local import data_folder

__all__ = ["NAMES", "PeerProblem", "load"]

NAMES = (
    "l1_100x50",
    "l1_1000x500",
    "face1024x476",
    "rand1000x500",
    "yaleb1024x2414",
    "yalebpos1024x2414",
    "sparse20000x10000",
)


class PeerProblem(NamedTuple):
    """``X ~ W @ H`` and a start: ndarray or csr_array, (m, n), (m, r), (r, n)."""

    X: Any
    W: np.ndarray
    H: np.ndarray


def load(name: str, dtype: Any = np.float64) -> PeerProblem:
    """Return a problem by its name, in a dtype.

    Parameters
    ----------
    name : str
        One of :data:`NAMES`.
    dtype : dtype, default=float64

    Returns
    -------
    PeerProblem

    Raises
    ------
    SystemExit
        Where the script that makes them is not on this machine.
    """
    folder = _made()
    if name.startswith("sparse"):
        X: Any = sp.csr_array(sp.load_npz(folder / f"{name}_X.npz")).astype(dtype)
        start = np.load(folder / f"{name}_init.npz")
    else:
        start = np.load(folder / f"{name}.npz")
        X = np.ascontiguousarray(start["X"], dtype)
    return PeerProblem(X, start["W"].astype(dtype), start["H"].astype(dtype))


@cache
def _made() -> Path:
    script = data_folder().parent / "bench" / "problems.py"
    if not script.is_file():
        raise SystemExit(f"skipped: the peers' problems are made by {script.name}, which is not beside the data folder")
    folder = Path(tempfile.gettempdir()) / "visionnmf-benchmark-problems"
    if not (folder / "complete").is_file():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runpy.run_path(str(script))["main"](folder)
        (folder / "complete").touch()
    return folder
