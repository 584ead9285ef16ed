"""Fits of arrays of PyTorch, CuPy and other libraries with the array API, on the device where the data lie.

The checks, the start and the report are those of a fit in memory; the engine is :mod:`visionnmf.engine.arrays`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from visionnmf._checks import check_nonnegative_array
from visionnmf.engine.arrays.namespace import (
    is_not_numpy,
    is_torch,
    moved,
    namespace_of,
    numpy_dtype,
    to_numpy,
    total,
)
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import Found, choose, evaluate, fit, solve_codes
from visionnmf.engine.starts import Start, start_factors
from visionnmf.engine.stopping import NO_FIT, Fit, PrintedProgress, fit_best
from visionnmf.exceptions import ParameterError

from .data_checks import check_mean, check_weights, fitted_loss, loss_at_mean, with_sample_weight
from .penalty import given_penalty, kinds_of_points

TERMS = {"box", "l1", "l2"}  # penalties that the engine has for arrays on a device


def plain(X: Any) -> Any:
    """Return an array without the record of gradients that PyTorch may keep; raise ParameterError for sparse ones."""
    if not is_torch(X):
        return X
    if str(X.layout) != "torch.strided":
        raise ParameterError(f"X must be dense on a device; got a tensor of layout {X.layout}; call X.to_dense()")
    return X.detach()


def checked_data(model: Any, X: Any, *, reset: bool) -> tuple[Any, Any]:
    """Return the data of an array on a device, 0 for missing entries, and the observed entries (None: all)."""
    X, xp = plain(X), namespace_of(X)
    if X.ndim != 2 or not X.shape[0] or not X.shape[1]:
        raise ParameterError(f"X must have two dimensions, with samples and features; got shape {tuple(X.shape)}")
    if xp.isdtype(X.dtype, ("complex floating", "bool")):
        raise ParameterError(f"X must hold real numbers; got {X.dtype}; convert it")
    validate_data(model, X, reset=reset, skip_check_array=True)
    data = X if X.dtype == xp.float32 else xp.asarray(X, dtype=xp.float64)
    observed, missing = None, model.missing_values
    if missing is not None:
        gaps = xp.isnan(data) if math.isnan(missing) else data == 0
        if bool(xp.any(gaps)):
            observed = ~gaps
            data = xp.where(observed, data, xp.zeros_like(data))
    if not bool(xp.all(xp.isfinite(data))):
        cure = "; pass missing_values=numpy.nan if NaN marks missing entries" if missing is None else ""
        raise ParameterError(f"X must be finite; got NaN or infinity{cure}")
    if bool(xp.any(data < 0)):
        raise ParameterError("X must be >= 0; got negative numbers; scale each feature to 0 ... 1")
    check_mean(total(data) / (data.shape[0] * data.shape[1]), numpy_dtype(data))
    return data, observed


def _penalties(model: Any, X: Any, ridge: float) -> dict[str, Any]:
    """Return the penalties of the codes ("W") and the components ("H") in the engine's form, both with the `ridge`."""
    sides = {}
    for side, penalty in (("W", model.penalty_W), ("H", model.penalty_H)):
        given = given_penalty(penalty, side)
        sides[side] = given.resolve(side, None, numpy_dtype(X)).with_ridge(ridge)
        kinds = [*sorted(sides[side].kinds - TERMS), *kinds_of_points(given)]  # `resolve` leaves these out
        if kinds:
            raise ParameterError(
                f"penalty_{side} must be of box, l1 and l2 for an array on a device; got {' and '.join(kinds)}; "
                "fit an array of NumPy"
            )
    return sides


def _given(values: Any, name: str, shape: tuple[int, int], X: Any) -> Any:
    """Return a given factor as an array beside `X`, or None; `name` is for messages."""
    if values is None:
        return None
    values = to_numpy(values) if type(values) is type(X) else values
    return moved(check_nonnegative_array(values, name, shape, numpy_dtype(X)), X)


def fit_on_device(
    model: Any, X: Any, W: Any, sample_weight: Any, weights: Any, start: Start, report: PrintedProgress, ridge: float
) -> Found:
    """Fit an :class:`~visionnmf.NMF` to an array on a device, and return what it finds, on the device as well."""
    data, observed = checked_data(model, X, reset=True)  # `observed`: which entries are not missing, None if all are
    data, entries = check_weights(weights, observed, data)
    xp, shape = namespace_of(data), (int(data.shape[0]), int(data.shape[1]))
    # the mean of the observed data, for the default parameter of the loss
    given = total(data) / (shape[0] * shape[1] if entries is None else float(xp.count_nonzero(entries)))
    loss = loss_at_mean(model.loss, model.loss_parameter, lambda: given or 1.0)
    penalties = _penalties(model, data, ridge)
    problem = Problem(data, loss, penalties["W"], penalties["H"], weights=entries)
    weighted, row_scale = with_sample_weight(problem, sample_weight)
    solver = choose(model.solver, weighted, elsewhere="device")
    name = "components_init"
    start = replace(start, components=_given(start.components, name, (start.n_components, shape[1]), data))
    codes = _given(W, "W", (shape[0], start.n_components), data)
    if model.init == "custom" and (codes is None or start.components is None):
        raise ParameterError('W and H must be given to fit_transform with init="custom"; got one at most')
    if model.update_components:

        def fit_once() -> tuple[Fit, Any]:
            """Fit from another start; return the fit and its components."""
            Wt, H = start_factors(weighted, start, codes, row_scale)
            found = fit(weighted, Wt, H, solver=solver, max_iter=model.max_iter, tol=model.tol, callback=report)
            return found, H

        result, H = fit_best(model.n_init, solver, fit_once, report)
        norms = problem.normalise(H)
    elif start.components is None:
        raise ParameterError("components_init must be given with update_components=False; got None")
    else:
        result, H = NO_FIT, start.components
        norms = xp.ones_like(H[:, 0])
    Wt = solve_codes(problem.rescaled(norms), H)
    return evaluate(weighted, row_scale, solver, result, Wt, H, norms, measure=False)


def problem_on_device(model: Any, X: Any, weights: Any, loss: Loss, *, reset: bool, fitting: bool) -> Problem:
    """Check an array on a device and its weights, and return the problem with the model's penalties."""
    data, observed = checked_data(model, X, reset=reset)
    data, entries = check_weights(weights, observed, data, fitting=fitting)
    penalties = _penalties(model, data, getattr(model, "ridge_", 0.0))
    return Problem(data, loss, penalties["W"], penalties["H"], weights=entries)


def problem_in_numpy(problem: Problem) -> Problem:
    """Return the problem with its data and weights in arrays of NumPy."""
    weights = None if problem.weights is None else to_numpy(problem.weights)
    return replace(problem, X=to_numpy(problem.X), weights=weights)


def beside(X: Any, array: Any) -> Any:
    """Return an array in the library and on the device of the data `X`, itself if it is there; all else as it is."""
    if not hasattr(array, "__dlpack__"):
        return array
    if not is_not_numpy(X):
        return to_numpy(array)
    return array if type(array) is type(X) and array.device == X.device else moved(to_numpy(array), X)


def transform_on_device(model: Any, X: Any, weights: Any) -> Any:
    """Return the codes (n_samples, n_components) of an array on a device, on the device, for a fitted `NMF`."""
    loss = fitted_loss(model.loss, model.loss_parameter_)
    problem = problem_on_device(model, X, weights, loss, reset=False, fitting=False)
    choose("auto", problem, elsewhere="device")  # raises for a loss without codes on a device
    # the components have been divided by these norms, and the penalty is that of the codes before
    norms = to_numpy(model.component_norms_).astype(np.float64)
    return codes_on_device(replace(problem, penalty_W=problem.penalty_W.rescaled(norms)), model.components_)


def codes_on_device(problem: Problem, components: Any) -> Any:
    """Return the codes (n_samples, n_components) of the data of a problem, for components in any library."""
    codes = solve_codes(problem, moved(to_numpy(components), problem.X))
    xp = namespace_of(codes)
    if not bool(xp.all(xp.isfinite(codes))):
        raise ParameterError(f"X must have codes within {codes.dtype}; got some beyond; components_ are too small")
    return codes.T
