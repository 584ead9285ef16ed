"""Check arguments: each check takes the value and its name, and raises ``name must be ...; got ...``, then the cure.

A check returns the value in the form that the caller works with, or raises :class:`.ParameterError`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from importlib.util import find_spec
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError, installed_by

RandomState = int | np.random.RandomState | np.random.Generator | None

LARGEST_SEED = 2**32 - 1
MOST_ITEMS = 4  # of a list that is shown in full
MOST_SHOWN = 80  # characters of a value in a message


def check_count(value: Any, name: str, low: int = 1, high: int | None = None) -> int:
    """Return `value` as an int if it is a whole number from `low` to `high`, both included."""
    if _is_whole(value) and low <= value and (high is None or value <= high):
        return int(value)
    allowed = f">= {low}" if high is None else f"from {low} to {high}"
    raise ParameterError(f"{name} must be a whole number {allowed}; got {shown(value)}")


def check_rank(n_components: Any) -> None:
    """Raise ParameterError unless `n_components` is a whole number >= 1, or None, for which an estimator has a rule."""
    if n_components is not None and not (_is_whole(n_components) and n_components >= 1):
        raise ParameterError(f"n_components must be a whole number >= 1, or None; got {shown(n_components)}")


def check_number(
    value: Any,
    name: str,
    low: float = 0.0,
    high: float = math.inf,
    *,
    without_low: bool = False,
    without_high: bool = False,
) -> float:
    """Return `value` as a float if it is finite and from `low` to `high`; the options exclude the ends themselves."""
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
        at_an_end = (without_low and number == low) or (without_high and number == high)
        if math.isfinite(number) and low <= number <= high and not at_an_end:
            return number
    more, less = "> " if without_low else ">= ", "< " if without_high else "<= "
    if high == math.inf:
        allowed = "a finite number" + f" {more}{low:g}" * (low > -math.inf)
    elif without_low or without_high:
        allowed = f"a number {more}{low:g} and {less}{high:g}"
    else:
        allowed = f"a number from {low:g} to {high:g}"
    raise ParameterError(f"{name} must be {allowed}; got {shown(value)}")


def check_choice(value: Any, name: str, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`."""
    allowed = list(choices)
    if not isinstance(value, str) or value not in allowed:
        raise ParameterError(f"{name} must be one of {allowed}; got {shown(value)}")
    return value


def check_flag(value: Any, name: str) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name} must be True or False; got {shown(value)}")
    return bool(value)


def check_callable(value: Any, name: str) -> Callable[..., Any] | None:
    """Return `value` if it is callable or None."""
    if value is not None and not callable(value):
        raise ParameterError(f"{name} must be callable or None; got {shown(value)}")
    return value


def check_random_state(value: Any, name: str = "random_state") -> np.random.RandomState:
    """Return a RandomState, as scikit-learn does: seeded by an int, the given one, or the global one for None."""
    from sklearn.utils import check_random_state

    try:
        return check_random_state(value)
    except ValueError:
        raise ParameterError(
            f"{name} must be None, a whole number from 0 to {LARGEST_SEED} or a RandomState; got {shown(value)}"
        ) from None


def check_generator(value: Any, name: str = "random_state") -> np.random.Generator:
    """Return a Generator: seeded by an int or by the next draw of a RandomState, the given one, or a new one."""
    if isinstance(value, np.random.RandomState):
        return np.random.default_rng(check_seed(value, name))
    if value is None or isinstance(value, np.random.Generator):
        return np.random.default_rng(value)
    if _is_whole(value) and value >= 0:
        return np.random.default_rng(int(value))
    raise ParameterError(
        f"{name} must be None, a whole number >= 0, a RandomState or a numpy.random.Generator; got {shown(value)}"
    )


def check_seed(value: Any, name: str = "random_state") -> int:
    """Return an int for code that uses a seed several times: the given one, or the next draw of a generator."""
    if isinstance(value, np.random.Generator):
        return int(value.integers(LARGEST_SEED, endpoint=True))
    if value is None or isinstance(value, np.random.RandomState):
        return int(check_random_state(value).randint(LARGEST_SEED + 1, dtype=np.uint32))
    if _is_whole(value) and 0 <= value <= LARGEST_SEED:
        return int(value)
    raise ParameterError(
        f"{name} must be None, a whole number from 0 to {LARGEST_SEED}, a RandomState or a numpy.random.Generator; "
        f"got {shown(value)}"
    )


def check_image_shape(value: Any, name: str = "image_shape", n_pixels: int | None = None) -> tuple[int, int]:
    """Return the height and width of an image; their product must be `n_pixels` if that is given."""
    pair = value if isinstance(value, tuple | list | np.ndarray) and len(value) == 2 else (0, 0)
    if all(_is_whole(side) and side >= 1 for side in pair):
        height, width = int(pair[0]), int(pair[1])
        if n_pixels is None or height * width == n_pixels:
            return height, width
    product = "" if n_pixels is None else f" with the product {n_pixels}"
    raise ParameterError(
        f"{name} must be the height and width of an image, two whole numbers >= 1{product}; got {shown(value)}"
    )


def check_rows(X: Any, what: str = "samples", name: str = "X") -> None:
    """Raise ParameterError for an array of more than two axes, such as images that were not flattened to rows."""
    shape = np.shape(X) if hasattr(X, "shape") else ()
    if len(shape) > 2:
        raise ParameterError(
            f"{name} must have {what} as rows; got an array of shape {shape}; make rows of it by "
            "reshape(len(array), -1)"
        )


def moved_axes(shape: tuple[int, ...], name: str) -> str:
    """Return how to put the axes of a picture in order, or nothing unless its channels come first or in the middle."""
    if len(shape) != 3 or not {shape[0], shape[1]} & {1, 3, 4}:
        return ""
    if shape[0] in (1, 3, 4):
        return f"; move the channels to the end by numpy.moveaxis({name}, 0, -1)"
    return (
        f"; move the last axis of a stack to the front by numpy.moveaxis({name}s, -1, 0), or the channels of one "
        f"{name} to the end by numpy.moveaxis({name}, 1, -1)"
    )


def check_saved(
    array: Any,
    name: str,
    shape: tuple[int | None, ...],
    dtypes: str = "float32 float64",
    *,
    low: float = -math.inf,
    high: float = math.inf,
    positive: bool = False,
    finite: bool = True,
    empty: bool = False,
) -> tuple[int, ...]:
    """Return the shape of an array from a file; raise ValueError unless its dtype, shape and values are allowed.

    None in `shape` stands for any size. Values must be above 0 if `positive`, and not NaN or infinity if `finite`. An
    array without numbers is allowed if `empty`.
    """
    fits = isinstance(array, np.ndarray) and array.dtype.name in dtypes.split() and array.ndim == len(shape)
    fits = fits and all(wanted in (None, size) for size, wanted in zip(array.shape, shape, strict=True))
    if not fits or not (array.size or empty):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must be {dtypes.replace(' ', ' or ')} of shape ({wanted})")
    if array.size:
        least, largest = array.min().item(), array.max().item()  # NaN would be both
        if finite and not (math.isfinite(least) and math.isfinite(largest)):
            raise ValueError(f"{name} must be finite")
        if (low > -math.inf and not least >= low) or (high < math.inf and not largest <= high):
            raise ValueError(f"{name} must be from {low} to {high}; got {least} to {largest}")
        if positive and not least > 0:
            raise ValueError(f"{name} must be > 0; got {least}")
    return tuple(array.shape)


def check_type(value: Any, name: str, *kinds: type) -> Any:
    """Return a value from a file; raise ValueError unless it is an instance of one of `kinds`."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ValueError(f"{name} must be a {' or a '.join(kind.__name__ for kind in kinds)}")
    return value


def check_texts(value: Any, name: str, size: int | None = None) -> list[str]:
    """Return a list of texts from a file; raise ValueError for others, and for another number than `size`."""
    fits = isinstance(value, list) and all(isinstance(text, str) for text in value)
    if not fits or size not in (None, len(value)):
        raise ValueError(f"{name} must be a list of {'' if size is None else f'{size} '}texts")
    return list(value)


def check_numbers(value: ArrayLike, name: str, dtype: DTypeLike | None) -> Array:
    """Return an array of a dtype (None keeps its own) if it holds numbers and is not ragged."""
    try:
        return np.asarray(value, dtype=dtype)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be an array of numbers; got {shown(value)}") from None


def check_matplotlib() -> None:
    """Raise ParameterError if matplotlib is not installed, which all plots need."""
    if find_spec("matplotlib") is None:
        raise ParameterError(f"matplotlib must be installed for plots; got none; {installed_by('plots')}")


def check_result(result: Any, name: str, maker: str, *attributes: str) -> Any:
    """Return the result of the function or method `maker`, which has these attributes, or raise ParameterError."""
    if not all(hasattr(result, attribute) for attribute in attributes):
        raise ParameterError(
            f"{name} must be what {maker} returns; got {type(result).__name__}; call {maker} and pass its result"
        )
    return result


def check_nonnegative_array(value: ArrayLike, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Return a copy as an array of a shape and dtype if its numbers are finite and not negative."""
    array = check_numbers(value, name, dtype).copy()
    if array.shape != shape:
        raise ParameterError(f"{name} must have shape {shape}; got {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any():
        odd = array[~np.isfinite(array)]
        raise ParameterError(f"{name} must hold finite numbers >= 0; got {float(odd[0] if odd.size else array.min())}")
    return array


def check_sample_weight(value: ArrayLike, n_samples: int, dtype: DTypeLike) -> Array:
    """Return the weights of samples (n_samples,) if they are finite and not negative, and at least one is not 0."""
    weight = check_nonnegative_array(value, "sample_weight", (n_samples,), dtype)
    if not weight.any():
        raise ParameterError("sample_weight must not be 0 for all samples; got only zeros")
    return weight


def is_unknown(label: Any) -> bool:
    """Return whether a label is None, NaN, or an object by which pandas marks what is missing."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return np.ndim(label) == 0 and bool(label != label)  # NaN is not equal to itself


def check_labels(y: Any, n_samples: int | None, sample: str) -> None:
    """Raise ParameterError unless `y` has a text or a number for each of the samples (None: any number of them)."""
    if isinstance(y, str):
        raise ParameterError(f"y must have a label for each {sample}; got {shown(y)}; make a list of it")
    labels = np.asarray(y).tolist() if hasattr(y, "__array__") else y  # of pandas, too
    listed = isinstance(labels, list | tuple)  # scikit-learn checks the rest
    size = len(labels) if listed else (getattr(y, "shape", None) or (n_samples,))[0]
    if n_samples is not None and size != n_samples:
        raise ParameterError(f"y must have a label for each of the {n_samples} {sample}s; got {size}")
    for number, label in enumerate(labels if listed else ()):
        if is_unknown(label):
            got = f"{label} for {sample} {number}"
            raise ParameterError(f"y must have a label for each {sample}; got {got}; leave it out")
    if listed and len({isinstance(label, str) for label in labels}) > 1:  # NumPy would make texts of numbers
        raise ParameterError(f"y must be all texts or all numbers; got {shown(labels)}")


def check_sparse(matrix: Any, name: str) -> None:
    """Raise ParameterError if indices of a sparse matrix point outside it, because compiled code would follow them."""
    from scipy.sparse import issparse

    if not issparse(matrix):
        return
    if matrix.format == "dok":
        matrix = matrix.tocoo()
    if matrix.format == "coo":
        pairs = zip(matrix.coords, matrix.shape, strict=False)
        fits = len(matrix.coords) == len(matrix.shape) and all(_within(index, size) for index, size in pairs)
        fits = fits and len({len(matrix.data), *map(len, matrix.coords)}) == 1  # as many rows and columns as values
    elif matrix.format in ("csr", "csc", "bsr"):
        fits = _is_compressed(matrix)
    elif matrix.format == "lil":
        fits = all(_within(np.asarray(row), matrix.shape[1]) for row in matrix.rows)
    else:
        fits = True
    if not fits:
        raise ParameterError(f"{name} must be a well-formed sparse matrix; got indices that do not fit its shape")


def shown(value: Any) -> str:
    """Return a value as it is quoted in a message: on one line and shortened."""
    # splitting all of a large text takes ten times its memory
    text = " ".join(repr(value)[:1000].split())
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def _is_whole(value: Any) -> bool:
    """Return whether a value is a whole number, of Python or NumPy, and not True or False."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_compressed(matrix: Any) -> bool:
    """Return whether the indices of a csr, csc or bsr matrix fit its shape and its data."""
    rows, columns = matrix.shape if matrix.format != "csc" else matrix.shape[::-1]
    if matrix.format == "bsr":
        rows, columns = rows // matrix.blocksize[0], columns // matrix.blocksize[1]
    starts, indices = matrix.indptr, matrix.indices  # starts[i] is where row i begins in `indices`
    if (
        starts.ndim != 1
        or indices.ndim != 1
        or len(starts) != rows + 1
        or starts[0] != 0
        or (starts[1:] < starts[:-1]).any()  # subtracting could overflow 32 bits
    ):
        return False
    return bool(starts[-1] <= min(len(indices), len(matrix.data))) and _within(indices[: starts[-1]], columns)


def _within(index: Array, size: int) -> bool:
    """Return whether all indices are from 0 to size - 1."""
    return not len(index) or bool(index.min() >= 0 and index.max() < size)


def brief(result: Any) -> str:
    """Return a dataclass or named tuple on one line, with arrays as shape and dtype, for its ``__repr__``."""
    names = getattr(result, "_fields", None) or [item.name for item in fields(result)]
    told = ", ".join(f"{name}={_brief_value(getattr(result, name))}" for name in names)
    return f"{type(result).__name__}({told})"


def _brief_value(value: Any) -> str:
    """Return an array as shape and dtype, a long collection as its length, and anything else as it is quoted."""
    if hasattr(value, "shape") and hasattr(value, "dtype") and np.ndim(value):
        return f"<{' x '.join(str(size) for size in value.shape)} {value.dtype}>"
    if isinstance(value, list | tuple | dict | set | frozenset) and len(value) > MOST_ITEMS:
        return f"<{len(value)} items>"
    return f"{type(value).__name__}(...)" if is_dataclass(value) else shown(value)
