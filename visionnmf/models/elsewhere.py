"""Fits of data that are not an array of NumPy: Dask arrays in blocks, and arrays on a device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from visionnmf import choices
from visionnmf._checks import check_nonnegative_array, check_random_state, shown
from visionnmf.engine.solving import Found
from visionnmf.engine.starts import Start
from visionnmf.engine.stopping import PrintedProgress
from visionnmf.exceptions import ParameterError

from .blocks import DaskBlocks, fit_dask, transform_blocks
from .data_checks import given_components, is_dask, is_on_device
from .device import fit_on_device, transform_on_device
from .penalty import ridge_of


def fit_elsewhere(model: Any, X: Any, W: Any, H: Any, sample_weight: Any, weights: Any, *, with_codes: bool) -> Found:
    """Fit an :class:`~visionnmf.NMF` to an array of Dask or on a device, and return what it finds."""
    check_elsewhere(model, X)
    ridge = ridge_of(model, tuple(X.shape))
    given, n_components = given_components(model, tuple(X.shape), H)
    start = Start(n_components, given, W is not None, check_random_state(model.random_state))
    report = PrintedProgress(model.callback, model.verbose)
    if is_on_device(X):
        found = fit_on_device(model, X, W, sample_weight, weights, start, report, ridge)
    else:
        data = DaskBlocks(model, X, weights, sample_weight, W)
        if given is not None:
            name = "components_init" if H is None else "H"
            components = check_nonnegative_array(given, name, (n_components, X.shape[1]), data.dtype)
            start = replace(start, components=components)
        found = fit_dask(model, data, start, report, ridge, with_codes=with_codes)
    return found._replace(ridge=ridge)


def transform_elsewhere(model: Any, X: Any, weights: Any) -> Any:
    """Return the codes (n_samples, n_components) of an array of Dask, or of an array on a device, in its library."""
    return (transform_blocks if is_dask(X) else transform_on_device)(model, X, weights)


def check_elsewhere(model: Any, X: Any) -> None:
    """Raise ParameterError for parameters of an :class:`~visionnmf.NMF` that need an array of NumPy."""
    kind = "an array on a device" if is_on_device(X) else "a Dask array"
    if model.init not in ("random", "custom"):
        raise ParameterError(
            f"init must be 'random' or 'custom' for {kind}; got {model.init!r}; pass W or H of your own"
        )
    if model.zero_weight != 1:
        raise ParameterError(f"zero_weight must be 1 for {kind}; got {shown(model.zero_weight)}")
    if model.exact_codes is False:
        raise ParameterError(f"exact_codes must be True or None for {kind}; got False")
    if model.stop != choices.AUTO:
        raise ParameterError(f"stop must be 'auto' for {kind}; got {model.stop!r}")
