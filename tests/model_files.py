"""Model files that are changed by tests."""

import json

import numpy as np


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
