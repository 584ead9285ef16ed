"""Checks of data, weights, losses and starts that the estimators share, and problems with weighted samples."""

from __future__ import annotations

import datetime
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.utils.validation import check_non_negative, validate_data

from visionnmf._checks import (
    check_number,
    check_numbers,
    check_rows,
    check_sample_weight,
    check_sparse,
    is_unknown,
    shown,
)
from visionnmf._text import counted
from visionnmf._typing import Array
from visionnmf.engine.arrays.namespace import copied, is_not_numpy, moved, namespace_of, on_gpu, to_numpy
from visionnmf.engine.losses import LOSSES, Loss, LossRecord, named_losses
from visionnmf.engine.problem import Problem
from visionnmf.exceptions import ParameterError, installed_by

# Means of X beyond which sums of squares, or squares of gradients, over- or underflow.
SIZES = {"float32": 1e12, "float64": 1e70}

TEXT_AND_DATES = ("U", "S", "M", "m")  # kinds of dtypes that NumPy would silently convert to numbers
NO_NUMBERS = (str, bytes, datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)

BETA_LIMIT = 5.0  # larger powers overflow float32 for ordinary data

# Share of entries that are not 0, below which data in an array have two kinds of starts as well, if the loss has a
# kink. From random factors, most of whose entries have to become 0, ADMM ends up to a thousand times higher; from least
# squares it follows outliers. Chosen on made data of 2 to 75 %, exact, noisy, with outliers, counts and gaps.
MOSTLY_ZERO = 0.1

SCALED = "scale each feature to 0 ... 1, as sklearn.preprocessing.MinMaxScaler(clip=True) does, not StandardScaler"
LIBRARIES = ("torch", "cupy", "jax")  # whose arrays may lie on a device


def is_dask(X: Any) -> bool:
    """Return whether `X` is an array of Dask."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "blocks")


def is_on_device(X: Any) -> bool:
    """Return whether `X` is another library's array that stays where it is, by ``array_api_dispatch=True``.

    Raises ParameterError for an array on a GPU that may not stay there; others become arrays of NumPy.
    """
    library = type(X).__module__.partition(".")[0]
    if isinstance(X, np.ndarray) or is_dask(X) or not (library in LIBRARIES or hasattr(X, "__array_namespace__")):
        return False
    if not get_config()["array_api_dispatch"]:
        if on_gpu(X):
            raise ParameterError(
                "X must be an array in this machine's memory unless scikit-learn leaves arrays where they are; got one "
                "on a GPU; set SCIPY_ARRAY_API=1 before Python starts, and call "
                "sklearn.set_config(array_api_dispatch=True)"
            )
        return False
    if library == "jax":
        raise ParameterError("X must be an array that can be written to, as those of PyTorch and CuPy; got one of JAX")
    if find_spec("array_api_compat") is None:
        raise ParameterError(
            f"array-api-compat must be installed for arrays of {library}; got none; {installed_by('gpu')}"
        )
    return True


def is_elsewhere(X: Any) -> bool:
    """Return whether `X` is an array of Dask, or of another library that stays on its device."""
    return is_dask(X) or is_on_device(X)


def feature_names(view: Any) -> list[str] | None:
    """Return the names of the columns of a data frame; None if they are not all text, and for other views."""
    names = list(getattr(view, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def other_names(found: list[str], expected: list[str]) -> str:
    """Return how names differ from what was expected, after the word "got"."""
    got = "them in another order"  # unless one of the two has a name that the other has not
    for odd, words in ((set(found) - set(expected), "also"), (set(expected) - set(found), "none called")):
        if odd:
            got = f"{words} {min(odd)!r:.60}"
    return got


def is_frame(view: Any) -> bool:
    """Return whether a view is a data frame of pandas, whose rows have labels."""
    return hasattr(view, "columns") and hasattr(view, "index")


def check_data(
    estimator: Any, X: ArrayLike, *, reset: bool, missing: float | None = None, sparse: bool, part: bool = False
) -> tuple[Any, Array | None]:
    """Return the checked data of an estimator, and which entries are observed (None if all are).

    The data are float32 or float64, a C-contiguous array or a csr_array, with 0 for missing entries: `missing` is NaN
    or 0. `reset` is true in a fit. `part` says that these are only some rows of the data, whose mean may have any size.
    Raises ValueError for data that `check_kind` refuses, NaN (unless missing), infinity, negative numbers, a wrong
    number of features, or a mean for which products could leave the range of the dtype.
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
            cure = "pass missing_values=numpy.nan to the estimator if they are missing entries"
        else:
            cure = "fill them, or use visionnmf.NMF(missing_values=numpy.nan)"
        raise ParameterError(f"X must not hold NaN; got some; {cure}") from None
    observed = None
    if sp.issparse(data):
        # no mask: if 0 is missing, the observed entries are the stored ones, of which a fit needs one at least
        data = _canonical(data, missing, fitting=reset)
    elif missing is not None:
        gaps = np.isnan(data) if with_nan else data == 0
        if gaps.any():
            observed = ~gaps
            data = np.where(observed, data, data.dtype.type(0))
    check_signs(data, type(estimator).__name__)
    if not part:
        check_range(data)
    return data, observed


def _canonical(data: Any, missing: float | None, *, fitting: bool) -> sp.csr_array:
    """Return sparse data with one stored number an entry, without stored zeros if `missing` is 0; refuse NaN."""
    data = sp.csr_array(data)
    if not data.has_canonical_format:
        data = data.copy()
        data.sum_duplicates()
    if np.isnan(data.data).any():
        raise ParameterError(
            "X must not hold NaN if it is sparse; got some; missing_values=0 treats entries that are not stored as "
            "missing"
        )
    if missing == 0 and not data.data.all():
        data = data.copy()
        data.eliminate_zeros()
    if missing == 0 and fitting and not data.nnz:
        raise ParameterError("X must not be missing in all entries; got no observed entry")
    return data


def check_signs(data: Any, name: str, cure: str = SCALED) -> None:
    """Raise ParameterError, with a cure, if the data of the estimator called `name` hold negative numbers."""
    try:
        check_non_negative(data, f"{name} (input X)")
    except ValueError as error:
        raise ParameterError(f"{str(error).rstrip('.')}; {cure}") from None


def check_range(data: Any, *, small: bool = False) -> None:
    """Raise ParameterError if data are so large, or unless `small` so small, that products leave their dtype."""
    with np.errstate(over="ignore"):  # an infinite mean is refused
        # the absolute values are a copy as large as the data, which only data with negative entries need
        positive = data.data if sp.issparse(data) else data
        sized = data if positive.size == 0 or positive.min() >= 0 else abs(data)
        size = float(sized.mean(dtype=np.float64))
    check_mean(size, data.dtype, small=small)


def check_mean(size: float, dtype: Any, *, small: bool = False) -> None:
    """Raise ParameterError if the mean size is too large, or unless `small` too small, for products in a dtype."""
    limit = SIZES[np.dtype(dtype).name]
    # a mean of 0 passes, because all entries are then 0; `not size <= limit` is true for NaN as well
    if (size and not (small or 1 / limit <= size)) or not size <= limit:
        word = "large" if size > 1 else "small"
        raise ParameterError(
            f"X must have a mean from {1 / limit:g} to {limit:g} in {np.dtype(dtype).name}; got {size:.3g}, "
            f"too {word} for products; divide X by its mean"
        )


def check_weights(weights: Any, observed: Any, X: Any, *, fitting: bool = True) -> tuple[Any, Any]:
    """Return the data with 0 where an entry does not count, and the weights of all entries (None if all count alike).

    `observed` (None: all) says which entries are not missing. `weights` broadcast to the shape of `X`, an array of any
    library. A fit needs at least one entry of positive weight. Raises ParameterError for weights that are negative, not
    finite, all zero or of a wrong shape, and for weights of a sparse `X`.
    """
    if fitting and observed is not None and not bool(namespace_of(observed).any(observed)):
        raise ParameterError("X must not be missing in all entries; got no observed entry")
    if sp.issparse(X) and weights is not None:
        raise ParameterError("weights must be None for a sparse X; got some; pass X.toarray()")
    if sp.issparse(weights):
        raise ParameterError("weights must be dense; got a sparse array")
    if weights is None:
        return X, None if observed is None else namespace_of(X).asarray(observed, dtype=X.dtype)
    xp = namespace_of(X)
    if is_not_numpy(X):
        array = xp.asarray(weights, dtype=X.dtype) if type(weights) is type(X) else moved(np.asarray(weights), X)
    else:
        with np.errstate(over="ignore"):  # values that overflow are refused below
            array = check_numbers(weights, "weights", X.dtype)
    try:
        full = xp.broadcast_to(array, X.shape)
        full = copied(full) if is_not_numpy(X) else np.array(full, order="C")
    except (ValueError, RuntimeError):
        raise ParameterError(f"weights must have the shape of X, {tuple(X.shape)}; got {tuple(array.shape)}") from None
    if not bool(xp.all(xp.isfinite(full))) or bool(xp.any(full < 0)):
        least, largest = float(xp.min(full)), float(xp.max(full))
        raise ParameterError(f"weights must be finite and >= 0, 0 for missing entries; got {least:g} to {largest:g}")
    if observed is not None:
        full *= xp.asarray(observed, dtype=X.dtype)
    if fitting and not bool(xp.any(full > 0)):
        raise ParameterError("weights must not be 0 for all entries; got only zeros")
    if bool(xp.any((full == 0) & (X != 0))):
        X = xp.where(full > 0, X, xp.zeros_like(X))
    return X, full


class UnseenWarning(UserWarning):
    """The warning about features or samples none of whose entries counts."""


def unseen(problem: Problem, axis: int) -> Array:
    """Return which features (`axis` 0) or samples (1) of data in memory have no entry that counts, as bool."""
    if problem.weights is not None and not is_not_numpy(problem.weights):
        return np.logical_not(problem.weights.any(axis=axis))
    if problem.is_sparse and problem.zero_weight == 0:
        X = problem.X
        return np.diff(X.indptr) == 0 if axis else np.bincount(X.indices, minlength=X.shape[1]) == 0
    return np.zeros(problem.X.shape[1 - axis], np.bool_)


def warn_of_unseen(problem: Problem, stacklevel: int, kinds: tuple[str, ...] = ("feature", "sample")) -> None:
    """Warn of features and samples, or one of the two `kinds`, none of whose entries counts in data in memory."""
    for kind in kinds:
        penalty, axis = (problem.penalty_H, 0) if kind == "feature" else (problem.penalty_W, 1)
        if (lost := unseen(problem, axis)).any() and "graph" not in penalty.kinds:  # in which neighbours stand in
            count = counted(int(np.count_nonzero(lost)), kind)
            warnings.warn(
                f"none of the entries of {count} of X count, such as {kind} {int(lost.argmax())}: predictions there "
                "mean nothing; leave them out",
                UnseenWarning,
                stacklevel=stacklevel,
            )


def weighted_samples(sample_weight: ArrayLike | None, n_samples: int, dtype: Any) -> tuple[Array | None, Array]:
    """Return the checked weights of samples, None if all are 1, and the indices of samples whose weight is not 0."""
    if sample_weight is None:
        return None, np.arange(n_samples)
    values = to_numpy(sample_weight) if is_on_device(sample_weight) else sample_weight
    checked = check_sample_weight(values, n_samples, dtype)
    return checked, np.flatnonzero(checked)


def index_sets(given: Any, n: int, name: str, points: str) -> dict[str, Array]:
    """Return groups of `n` points, given as index sets, slices, masks or a label for each, as indices by name.

    The names are those of a dict, the labels, or numbers. Raises ParameterError for other groups, empty ones, and those
    that share points; `points` is what these are called.
    """
    if hasattr(given, "reindex"):  # a series of pandas, whose labels would not be looked at
        raise ParameterError(
            f"{name} must be a list, an array or a dict; got a series; pass {name.split()[0]}.to_numpy()"
        )
    if not isinstance(given, Mapping):
        listed = hasattr(given, "__array__") or (isinstance(given, Sequence) and not isinstance(given, str))
        members = list(np.asarray(given) if hasattr(given, "__array__") else given) if listed else []
        of_each = all(np.ndim(member) == 0 and not isinstance(member, slice) for member in members)
        if not members or (of_each and len(members) != n):
            raise ParameterError(f"{name} must be index sets, or a label for each of {n} {points}; got {shown(given)}")
        if of_each:
            blank = next((i for i, label in enumerate(members) if is_unknown(label)), None)
            if blank is not None:
                got = f"{members[blank]} for number {blank}; give it one, or leave it out"
                raise ParameterError(f"{name} must have a label for each of the {points}; got {got}")
            labels, which = np.unique(np.asarray(members), return_inverse=True)
            return {str(label): np.flatnonzero(which == i) for i, label in enumerate(labels)}
        given = dict(enumerate(members))
    if len({str(key) for key in given}) < max(1, len(given)):
        raise ParameterError(f"{name} must be one or more groups of different names; got {shown(given)}")
    groups = {}
    for key, member in given.items():
        group = np.arange(n)[member] if isinstance(member, slice) else np.asarray(member)
        if group.dtype == bool and group.shape == (n,):
            group = np.flatnonzero(group)
        fits = group.ndim == 1 and group.size and group.dtype.kind in "iu" and group.min() >= 0 and group.max() < n
        if not fits:
            got = f"{key}: {shown(member)}"
            raise ParameterError(f"{name} must hold indices from 0 to {n - 1}, of the {points}, none empty; got {got}")
        groups[str(key)] = np.sort(group)
    together = np.concatenate([*groups.values()])
    if len(np.unique(together)) < len(together):
        raise ParameterError(f"{name} must not share points; got some of the {points} twice")
    return groups


def with_sample_weight(problem: Problem, sample_weight: Any) -> tuple[Problem, Any]:
    """Check `sample_weight` (None: all 1), and return the problem in which each sample counts as often as that says."""
    weights, _ = weighted_samples(sample_weight, problem.X.shape[0], np.float64)
    return (problem, None) if weights is None else weigh_samples(problem, weights)


def weigh_samples(problem: Problem, s: Array) -> tuple[Problem, Any]:
    """Return the problem whose samples count `s` times (n_samples,), and what its rows were multiplied by, or None.

    If the loss is homogeneous (``loss(c x, c y) = c^degree loss(x, y)``) and the codes have no penalty, rows are scaled
    by ``s^(1/degree)``, and so are their codes. Otherwise the weights go to the entries, which raises ParameterError
    for a sparse `X`. `s` is an array of NumPy, and what is returned belongs to the library of the data.
    """
    X = problem.X
    degree = problem.loss.record.degree
    if degree and not problem.penalty_W.kinds:
        if problem.is_sparse:
            scale = (s ** (1 / degree)).astype(X.dtype)
            return replace(problem, X=sp.csr_array(sp.diags_array(scale) @ X)), scale
        scale = moved(s ** (1 / degree), X)
        return replace(problem, X=X * scale[:, None]), scale
    if problem.is_sparse:
        cause = "penalty_W or nuclear" if degree else problem.loss.label
        raise ParameterError(f"sample_weight must be None for a sparse X with {cause}; got weights")
    xp = namespace_of(X)
    # some losses take a power of the weights of entries
    rows = moved(s ** (1 / problem.loss.record.weight_degree), X)[:, None]
    weights = (xp.ones_like(X) if problem.weights is None else problem.weights) * rows
    return replace(problem, X=xp.where(weights > 0, X, xp.zeros_like(X)), weights=weights), None


def check_kind(X: Any) -> Any:
    """Return `X`, as an array if it was a list, unless NumPy would silently turn something else into numbers."""
    if is_on_device(X):
        raise ParameterError(
            f"X must be an array of NumPy here; got one of {type(X).__module__}; visionnmf.NMF and OnlineNMF "
            "take it where it is"
        )
    check_sparse(X, "X")
    check_rows(X)
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ParameterError(
            f"X must not be a masked array; got one with {np.ma.count_masked(X)} masked entries; pass "
            "X.filled(numpy.nan), with missing_values=numpy.nan if the estimator has that parameter"
        )
    if isinstance(X, list | tuple):
        try:
            X = np.asarray(X)
        except ValueError:
            raise ParameterError(
                f"X must be a matrix whose rows all have the same number of features; got a {type(X).__name__} of rows "
                "or arrays that differ in shape; several views of the same samples are data for visionnmf.MultiviewNMF"
            ) from None
    dtype = getattr(X, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind == "f" and not dtype.isnative:
        X = X.astype(dtype.newbyteorder("="))  # scikit-learn would take big-endian float32 for another type
    dtypes = list(getattr(X, "dtypes", [])) if hasattr(X, "columns") else [getattr(X, "dtype", None)]
    odd = [dtype for dtype in dtypes if getattr(dtype, "kind", None) in TEXT_AND_DATES]
    has_objects = any(getattr(dtype, "kind", None) == "O" for dtype in dtypes)  # also text columns of data frames
    values = np.asarray(X, object).ravel() if has_objects else ()
    odd += [type(value).__name__ for value in values if isinstance(value, NO_NUMBERS)][:1]
    if odd:
        raise ParameterError(
            f"X must hold numbers; got {odd[0]}; convert it, for example by X.astype(float), if that is meant"
        )
    return X


def check_missing_values(value: Any, *, zero: bool = False) -> None:
    """Raise ParameterError if the parameter `missing_values` is not None, NaN or, where that is allowed, 0."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if value is None or (is_number and (math.isnan(value) or (zero and value == 0))):
        return
    allowed = "None, numpy.nan or 0" if zero else "None or numpy.nan"
    raise ParameterError(f"missing_values must be {allowed}; got {shown(value)}")


def find_loss(loss: Any) -> LossRecord | None:
    """Return the record of the loss that a user gave by its name or exponent, or None if there is no such loss."""
    if isinstance(loss, str):
        return LOSSES[loss] if loss in named_losses() else None
    if not isinstance(loss, Real) or isinstance(loss, bool) or not abs(float(loss)) <= BETA_LIMIT:
        return None
    # "parameter" is the key of the record for the exponents that no named loss has
    betas = {record.beta: record for record in LOSSES.values()}
    return betas.get(float(loss), betas["parameter"])


def check_loss(loss: Any, parameter: Any, X: Any, weights: Array | None = None) -> Loss:
    """Return the engine's loss for a name, or for the `beta` of a beta-divergence as in scikit-learn's `beta_loss`.

    A `parameter` of None is the loss's default at the mean of the entries that count. Raises ParameterError for an
    unknown loss.
    """
    return loss_at_mean(loss, parameter, lambda: _observed_mean(X, weights))


def _observed_mean(X: Any, weights: Array | None) -> float:
    """Return the mean of `X` over the entries whose weight is not 0; if `X` is 0 everywhere, a positive number."""
    mean = float(X.mean(dtype=np.float64)) or 1.0
    if weights is not None:  # missing entries are 0 and must not lower the mean
        mean *= X.size / np.count_nonzero(weights)
    return mean


def loss_at_mean(loss: Any, parameter: Any, mean: Callable[[], float]) -> Loss:
    """Return the engine's loss as :func:`check_loss`, with its default scaled by ``mean()`` of the observed data."""
    record = find_loss(loss)
    if record is None:
        raise ParameterError(
            f"loss must be one of {named_losses()} or a number from {-BETA_LIMIT:g} to "
            f"{BETA_LIMIT:g} (beta of the beta-divergence); got {loss!r}"
        )
    if not record.is_named:  # a number that is not the exponent of a named loss
        _no_parameter(parameter, "a beta-divergence")
        return Loss(record.name, float(loss))
    if record.parameter is None:
        _no_parameter(parameter, f"loss={record.name!r}")
        return Loss(record.name)
    if parameter is None:
        return Loss(record.name, float(record.parameter.default(mean())))  # of NumPy it would widen float32
    where = f"loss_parameter of loss={loss!r}"
    return Loss(record.name, check_number(parameter, where, without_low=record.parameter.positive))


def fitted_loss(loss: Any, parameter: float) -> Loss:
    """Return the engine's loss that a user gave by name or exponent, with the parameter that a fit has found."""
    record = find_loss(loss)
    assert record is not None
    return Loss(record.name, parameter)


def _no_parameter(parameter: Any, what: str) -> None:
    """Raise ParameterError if a parameter is given for `what`, a loss that has none."""
    if parameter is not None:
        raise ParameterError(f"loss_parameter must be None for {what}; got {parameter!r}")


def check_positive(X: Any, weights: Array | None, loss: Loss) -> None:
    """Raise ParameterError if the loss is infinite because an entry that counts is 0; a sparse `X` is refused later."""
    if not loss.needs_positive or sp.issparse(X):
        return
    if ((X <= 0) if weights is None else (X <= 0) & (weights > 0)).any():
        raise ParameterError(
            f"X must be > 0 for {loss.label}; got zeros; add a small constant, or mark them as missing"
        )


def finite_codes(Wt: Array) -> Array:
    """Return codes with one row a sample, from one column each; raise ParameterError if some are not finite."""
    if not np.isfinite(Wt).all():
        raise ParameterError(f"X must have codes within {Wt.dtype}; got some beyond; components_ are too small")
    return np.ascontiguousarray(Wt.T)


def given_components(model: Any, shape: tuple[int, int], H: ArrayLike | None) -> tuple[ArrayLike | None, int]:
    """Return the components to start from, or None, and their number, by the parameter, those given or the data.

    `shape` is (n_samples, n_features), and `H` the components that the caller of the fit passed, or None. With
    `warm_start` the components of the last fit stand in for given ones, if they have the right shape.
    """
    given = H if H is not None else model.components_init
    n_components = min(shape)
    if model.n_components is not None:
        n_components = int(model.n_components)
    elif given is not None and np.ndim(given) == 2:
        n_components = int(np.shape(given)[0])
    last: Array | None = getattr(model, "components_", None)
    if given is None and model.warm_start and last is not None and last.shape == (n_components, shape[1]):
        given = last
    return given, n_components


def is_doubtful(problem: Problem) -> bool:
    """Return whether one start may end too high: of sparse data, or with a kink of an array of nearly only zeros."""
    if problem.is_sparse:  # least squares on stored entries ends as dense data do
        return problem.loss.record.beta != 2 or problem.zero_weight != 0
    if problem.weights is not None or not problem.loss.record.kink:
        return False
    return bool(np.count_nonzero(problem.X) < MOSTLY_ZERO * problem.X.size)
