"""Checks of data, weights and losses that the estimators share."""

from __future__ import annotations

import datetime
import math
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_non_negative, validate_data

from visionnmf._checks import check_number, check_numbers, check_sparse, shown
from visionnmf.engine.losses import LOSSES, Loss, Record, named_losses
from visionnmf.exceptions import ParameterError

__all__ = [
    "check_data",
    "check_kind",
    "check_loss",
    "check_missing_values",
    "check_positive",
    "check_weights",
    "find_loss",
    "finite_codes",
]

Array = NDArray[Any]

# Means of X beyond which sums of squares or products of the factors over- or underflow.
SIZES = {"float32": 1e12, "float64": 1e100}

TEXT_AND_DATES = ("U", "S", "M", "m")  # kinds of dtypes that NumPy converts to numbers
NO_NUMBERS = (str, bytes, datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)

BETA_LIMIT = 5.0  # powers beyond overflow float32 for ordinary data


def check_data(
    estimator: Any, X: ArrayLike, *, reset: bool, missing: float | None = None, sparse: bool
) -> tuple[Any, Array | None]:
    """Check the data of an estimator.

    Parameters
    ----------
    estimator : estimator
        For its name and its number of features.
    X : array-like or sparse matrix [shape=(n_samples, n_features), >= 0]
    reset : bool
        Whether this is a fit, which sets the number of features.
    missing : None, NaN or 0
        What a missing entry is; None: there are none. 0: also what a sparse `X` does not store.
    sparse : bool
        Whether sparse data are accepted.

    Returns
    -------
    X : ndarray, C-contiguous, or csr_array
        float32 or float64, with 0 for missing entries.
    observed : ndarray of bool or None
        False where an entry is missing; None when nothing is.

    Raises
    ------
    ValueError
        For data that :func:`check_kind` refuses, NaN (unless it is `missing`), infinity, negative numbers, a wrong
        number of features, or a mean beyond the range in which products of the dtype are safe.
    """
    with_nan = missing is not None and math.isnan(missing)
    try:
        data: Any = validate_data(
            estimator,
            check_kind(X),
            dtype=[np.float64, np.float32],
            order="C",
            accept_sparse="csr" if sparse else False,
            ensure_all_finite="allow-nan" if with_nan else True,
            reset=reset,
        )
    except ValueError as error:
        if "contains NaN" not in str(error):
            raise
        if sp.issparse(X):
            cure = "remove them"
        elif hasattr(estimator, "missing_values"):
            cure = "pass missing_values=numpy.nan to the estimator where they are missing entries"
        else:
            cure = "fill them, or use visionnmf.NMF(missing_values=numpy.nan)"
        raise ParameterError(f"X must not hold NaN; got some; {cure}") from None
    observed = None
    if sp.issparse(data):
        data = sp.csr_array(data)
        if not data.has_canonical_format:
            data = data.copy()
            data.sum_duplicates()
        if np.isnan(data.data).any():
            raise ParameterError(
                "X must not hold NaN where it is sparse; got some; missing_values=0 takes what is not stored as missing"
            )
        if missing == 0 and not data.data.all():
            data = data.copy()
            data.eliminate_zeros()
        if missing == 0 and reset and not data.nnz:
            raise ParameterError("X must not be missing in all entries; got none that is not")
    elif missing is not None:
        gaps = np.isnan(data) if with_nan else data == 0
        if gaps.any():
            observed = ~gaps
            data = np.where(observed, data, data.dtype.type(0))
    check_non_negative(data, f"{type(estimator).__name__} (input X)")
    size, limit = float(data.mean(dtype=np.float64)), SIZES[data.dtype.name]
    if size and not 1 / limit <= size <= limit:
        word = "large" if size > 1 else "small"
        raise ParameterError(
            f"X must have a mean from {1 / limit:g} to {limit:g} in {data.dtype.name}; got {size:.3g}, too {word} for "
            "products; divide X by its mean"
        )
    return data, observed


def check_weights(
    weights: ArrayLike | None, observed: Array | None, X: Any, *, fitting: bool = True
) -> tuple[Any, Array | None]:
    """Return the data with 0 for missing entries, and the weights with 0 there.

    Parameters
    ----------
    weights : array-like, >= 0, or None
        Of the shape of `X`, or one that broadcasts to it.
    observed : ndarray of bool or None
    X : ndarray or csr_array
    fitting : bool, default=True
        Whether at least one entry must count. The codes of new data with none are those of no data at all.

    Returns
    -------
    X : ndarray or csr_array
    weights : ndarray [shape=X.shape, >= 0] or None
        In the dtype of `X`; None when every entry counts alike.

    Raises
    ------
    ParameterError
        For negative, infinite or all-zero weights, a shape that does not fit, a sparse `X`, or one with no entry.
    """
    if fitting and observed is not None and not observed.any():
        raise ParameterError("X must not be missing in all entries; got none that is not")
    if weights is None:
        return X, None if observed is None else observed.astype(X.dtype)
    if sp.issparse(X):
        raise ParameterError("weights must be None for a sparse X; got some; pass X.toarray()")
    if sp.issparse(weights):
        raise ParameterError("weights must be dense; got a sparse array")
    with np.errstate(over="ignore"):  # refused below
        array = check_numbers(weights, "weights", X.dtype)
    try:
        full = np.array(np.broadcast_to(array, X.shape), order="C")
    except ValueError:
        raise ParameterError(f"weights must have the shape of X, {X.shape}; got {array.shape}") from None
    if not np.isfinite(full).all() or (full < 0).any():
        raise ParameterError(
            f"weights must be finite and >= 0, 0 for missing entries; got {full.min():g} to {full.max():g}"
        )
    if observed is not None:
        full *= observed
    if fitting and not full.any():
        raise ParameterError("weights must not be 0 for all entries; got only zeros")
    if X[full == 0].any():
        X = np.where(full > 0, X, X.dtype.type(0))
    return X, full


def check_kind(X: Any) -> Any:
    """Refuse what would silently be made numbers of: masked entries, text, dates, indices outside a sparse matrix.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame

    Returns
    -------
    array-like, sparse matrix or data frame
        `X`; as an array if it was a list.

    Raises
    ------
    ParameterError
    """
    check_sparse(X, "X")
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ParameterError(
            f"X must not be a masked array; got one with {np.ma.count_masked(X)} masked entries; pass "
            "X.filled(numpy.nan), with missing_values=numpy.nan where the estimator has it"
        )
    if isinstance(X, list | tuple):
        try:
            X = np.asarray(X)
        except ValueError:  # ragged, as validate_data says
            return X
    dtypes = list(getattr(X, "dtypes", [])) if hasattr(X, "columns") else [getattr(X, "dtype", None)]
    odd = [dtype for dtype in dtypes if getattr(dtype, "kind", None) in TEXT_AND_DATES]
    has_objects = any(getattr(dtype, "kind", None) == "O" for dtype in dtypes)  # and texts and categories of frames
    values = np.asarray(X, object).ravel() if has_objects else ()
    odd += [type(value).__name__ for value in values if isinstance(value, NO_NUMBERS)][:1]
    if odd:
        raise ParameterError(f"X must hold numbers; got {odd[0]}; convert it, as by X.astype(float), if that is meant")
    return X


def check_missing_values(value: Any, *, zero: bool = False) -> None:
    """Raise ParameterError where `value`, which stands for missing entries, is not None, NaN or an allowed 0."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if value is None or (is_number and (math.isnan(value) or (zero and value == 0))):
        return
    allowed = "None, numpy.nan or 0" if zero else "None or numpy.nan"
    raise ParameterError(f"missing_values must be {allowed}; got {shown(value)}")


def find_loss(loss: Any) -> Record | None:
    """Return the record of what the user calls a loss, a name or an exponent; None when there is no such loss."""
    if isinstance(loss, str):
        return LOSSES[loss] if loss in named_losses() else None
    if not isinstance(loss, Real) or isinstance(loss, bool) or not abs(float(loss)) <= BETA_LIMIT:
        return None
    betas = {record.beta: record for record in LOSSES.values()}
    return betas.get(float(loss), betas["parameter"])


def check_loss(loss: Any, parameter: Any, X: Any, weights: Array | None = None) -> Loss:
    """Make a loss of what the user gave.

    Parameters
    ----------
    loss : str or float
        A name, or ``beta`` of the beta-divergence as in scikit-learn's ``beta_loss``.
    parameter : float or None
        What the loss's record asks for; None scales it to the data.
    X : ndarray or csr_array
        The data, whose mean sets the scale.
    weights : ndarray [shape=X.shape, >= 0], optional
        Entries of weight 0 do not count for the mean.

    Returns
    -------
    Loss

    Raises
    ------
    ParameterError
        When there is no such loss, or it has no parameter.
    """
    record = find_loss(loss)
    if record is None:
        raise ParameterError(
            f"loss must be one of {named_losses()} or a number from {-BETA_LIMIT:g} to {BETA_LIMIT:g} "
            f"(beta of the beta-divergence); got {loss!r}"
        )
    if not record.is_named:
        _no_parameter(parameter, "a beta-divergence")
        return Loss(record.name, float(loss))
    if record.parameter is None:
        _no_parameter(parameter, f"loss={record.name!r}")
        return Loss(record.name)
    if parameter is None:
        size = float(X.mean(dtype=np.float64)) or 1.0
        if weights is not None:  # missing entries are 0
            size *= X.size / np.count_nonzero(weights)
        return Loss(record.name, record.parameter.default(size))
    where = f"loss_parameter of loss={loss!r}"
    return Loss(record.name, check_number(parameter, where, without_low=record.parameter.positive))


def _no_parameter(parameter: Any, what: str) -> None:
    if parameter is not None:
        raise ParameterError(f"loss_parameter must be None for {what}; got {parameter!r}")


def check_positive(X: Any, weights: Array | None, loss: Loss) -> None:
    """Raise ParameterError when the loss is infinite at an entry 0 that counts."""
    if not loss.needs_positive:
        return
    zero = sp.issparse(X) or bool(((X <= 0) if weights is None else (X <= 0) & (weights > 0)).any())
    if zero:
        raise ParameterError(
            f"X must be > 0 for {loss.label}; got zeros; add a small constant, or mark them as missing"
        )


def finite_codes(Wt: Array) -> Array:
    """Return codes of new data, a sample a row.

    Parameters
    ----------
    Wt : ndarray [shape=(n_components, n_samples)]

    Returns
    -------
    ndarray [shape=(n_samples, n_components)]
        C-contiguous.

    Raises
    ------
    ParameterError
        If some are not finite: the data are far from the size of the components, or those are denormal.
    """
    if not np.isfinite(Wt).all():
        raise ParameterError(f"X must have codes within {Wt.dtype}; got some beyond; components_ are too small")
    return np.ascontiguousarray(Wt.T)
