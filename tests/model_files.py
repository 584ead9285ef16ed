"""Model files that are changed by tests."""

import json

import numpy as np
import scipy.sparse as sp

from visionnmf import Penalty


def rewrite(path, change=lambda state, arrays: None, header=lambda header: None):
    """Write a model file again after `change` has changed its state and its arrays, and `header` its header."""
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    held = json.loads(arrays.pop("header").tobytes())
    change(held["state"], arrays)
    header(held)
    with path.open("wb") as file:
        np.savez(file, header=np.frombuffer(json.dumps(held).encode(), np.uint8), **arrays)
    return path


def same(a, b):
    """Whether two values are alike, in kind too."""
    if sp.issparse(a):
        return sp.issparse(b) and a.shape == b.shape and (a != b).nnz == 0
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    if isinstance(a, Penalty):
        return isinstance(b, Penalty) and same(a.get_params(), b.get_params())
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)
