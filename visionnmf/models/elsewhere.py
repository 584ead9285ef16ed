"""Fits of data that are not an array of NumPy: Dask arrays in blocks, and arrays on a device."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import ArrayLike

from visionnmf import choices
from visionnmf._checks import check_nonnegative_array, check_random_state, shown
from visionnmf.engine.solving import PrintedProgress
from visionnmf.exceptions import ParameterError

from .blocks import DaskBlocks, fit_dask, transform_blocks
from .data_checks import is_dask, is_on_device
from .device import fit_on_device, transform_on_device
from .fits import Found, Start
from .nmf_parameters import check_nuclear, check_parameters, given_components

__all__ = ["fit_elsewhere", "is_elsewhere", "transform_elsewhere"]


def is_elsewhere(X: Any) -> bool:
    """Return whether `X` is an array of Dask, or of another library that stays on its device."""
    return is_dask(X) or is_on_device(X)


def fit_elsewhere(
    model: Any, X: Any, W: Any, H: ArrayLike | None, sample_weight: Any, weights: Any, *, with_codes: bool = True
) -> Found:
    """Fit an :class:`~visionnmf.NMF` to data that :func:`is_elsewhere` names; set `ridge_`, return what it finds.

    `W` and `H` are codes and components to start from, or None; `with_codes` false leaves out the codes of a Dask
    array.
    """
    check_parameters(model)
    kind = "an array on a device" if is_on_device(X) else "a Dask array"
    if model.init not in ("random", "custom"):
        raise ParameterError(
            f"init must be 'random' or 'custom' for {kind}; got {model.init!r}; pass W or H of your own"
        )
    if model.zero_weight != 1:
        raise ParameterError(f"zero_weight must be 1 for {kind}; got {shown(model.zero_weight)}")
    if model.loss == choices.AUTO:
        raise ParameterError(
            "loss must be a name for an array of Dask or on a device; got 'auto'; choose one of some samples by "
            "visionnmf.select_loss"
        )
    model.__dict__.pop("loss_", None)  # what "auto" had chosen in a fit before
    check_nuclear(model)
    given, n_components = given_components(model, tuple(X.shape), H)
    # an l2 penalty on both factors stands for the nuclear norm; with the root, 1 is the parameter of robust PCA
    model.ridge_ = float(model.nuclear) * math.sqrt(max(X.shape))
    report = PrintedProgress(model.callback, model.verbose)
    rng = check_random_state(model.random_state)
    if is_on_device(X):
        return fit_on_device(
            model, X, W, sample_weight, weights, Start(n_components, given, W is not None, rng), report
        )
    data = DaskBlocks(model, X, weights, sample_weight, W)
    components = None
    if given is not None:
        name = "components_init" if H is None else "H"
        components = check_nonnegative_array(given, name, (n_components, X.shape[1]), data.dtype)
    return fit_dask(model, data, Start(n_components, components, W is not None, rng), report, with_codes=with_codes)


def transform_elsewhere(model: Any, X: Any, weights: Any) -> Any:
    """Return the codes (n_samples, n_components) of an array of Dask, or of an array on a device, in its library."""
    return (transform_blocks if is_dask(X) else transform_on_device)(model, X, weights)
