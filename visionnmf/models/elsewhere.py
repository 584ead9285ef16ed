"""Fits of data that are not an array of NumPy: Dask arrays in blocks, and arrays on a device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from visionnmf import choices
from visionnmf._checks import check_nonnegative_array, shown
from visionnmf.engine.solving import Found
from visionnmf.engine.starts import Start
from visionnmf.engine.stopping import PrintedProgress
from visionnmf.exceptions import ParameterError

from .blocks import DaskBlocks, fit_dask, transform_blocks
from .data_checks import is_dask, is_on_device
from .device import fit_on_device, transform_on_device

__all__ = ["check_elsewhere", "fit_elsewhere", "transform_elsewhere"]


def check_elsewhere(model: Any, X: Any) -> None:
    """Raise ParameterError for parameters of an :class:`~visionnmf.NMF` that need an array of NumPy."""
    kind = "an array on a device" if is_on_device(X) else "a Dask array"
    if model.init not in ("random", "custom"):
        raise ParameterError(
            f"init must be 'random' or 'custom' for {kind}; got {model.init!r}; pass W or H of your own"
        )
    if model.zero_weight != 1:
        raise ParameterError(f"zero_weight must be 1 for {kind}; got {shown(model.zero_weight)}")
    if not model.exact_codes:
        raise ParameterError(f"exact_codes must be True for {kind}; got False")
    if model.loss == choices.AUTO:
        raise ParameterError(
            "loss must be a name for an array of Dask or on a device; got 'auto'; choose one of some samples by "
            "visionnmf.select_loss"
        )


def fit_elsewhere(
    model: Any, X: Any, W: Any, start: Start, sample_weight: Any, weights: Any, *, name: str, with_codes: bool
) -> Found:
    """Fit an :class:`~visionnmf.NMF` to an array of Dask or on a device, and return what it finds.

    `W` are codes to start from, or None; `start` has given components, which are not checked yet and are called `name`
    in messages. `with_codes` false leaves out the codes of a Dask array.
    """
    report = PrintedProgress(model.callback, model.verbose)
    if is_on_device(X):
        return fit_on_device(model, X, W, sample_weight, weights, start, report)
    data = DaskBlocks(model, X, weights, sample_weight, W)
    if start.components is not None:
        shape = (start.n_components, X.shape[1])
        start = replace(start, components=check_nonnegative_array(start.components, name, shape, data.dtype))
    return fit_dask(model, data, start, report, with_codes=with_codes)


def transform_elsewhere(model: Any, X: Any, weights: Any) -> Any:
    """Return the codes (n_samples, n_components) of an array of Dask, or of an array on a device, in its library."""
    return (transform_blocks if is_dask(X) else transform_on_device)(model, X, weights)
