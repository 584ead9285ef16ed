"""Checkpoints: a model file that says, too, how far the stream has come that the model learns from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import UnreadableError

from ._store import FITTED, FORMAT, pack_model, pack_parameters, unpack_model

__all__ = ["load_checkpoint", "restore", "same_parameters", "save_checkpoint"]

Array = NDArray[Any]

COUNTS = ("epoch", "samples", "done", "batch_size")
MAYBE = ("random_state", "n_samples")  # or None


def save_checkpoint(model: Any, path: str | Path, stream: dict[str, int | None]) -> None:
    """Write a model and how far the stream has come that it learns from; replaces a checkpoint.

    Parameters
    ----------
    model : OnlineNMF or ConservativeNMF
    path : str or Path
    stream : dict
    """
    arrays: dict[str, Array] = {}
    FORMAT.write(path, {**pack_model(model, arrays), "stream": stream}, arrays, force=True)


def load_checkpoint(path: str | Path) -> tuple[Any, dict[str, Any]]:
    """Read what :func:`save_checkpoint` has written.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    model : OnlineNMF or ConservativeNMF
    stream : dict
    """
    with FORMAT.read(path) as archive:
        stream = archive.header.get("stream")
        if not isinstance(stream, dict):
            raise UnreadableError(f"{path}: a model, not a checkpoint of a stream; name another file")
        counts = [value for name, value in stream.items() if value is not None or name not in MAYBE]
        if set(stream) != {*COUNTS, *MAYBE} or any(type(value) is not int or value < 0 for value in counts):
            raise ValueError("it does not say how far the stream has come")
        return unpack_model(archive.header, archive), stream


def same_parameters(one: Any, other: Any) -> bool:
    """Tell whether two models are of one class and have the same parameters, as files hold them."""
    first: dict[str, Array] = {}
    second: dict[str, Array] = {}
    alike = type(one) is type(other) and pack_parameters(one, first) == pack_parameters(other, second)
    return alike and all(np.array_equal(array, second[key]) for key, array in first.items())


def restore(model: Any, saved: Any) -> None:
    """Give a model the state of another of its class."""
    for key in FITTED:
        if key in vars(saved):
            setattr(model, key, vars(saved)[key])
