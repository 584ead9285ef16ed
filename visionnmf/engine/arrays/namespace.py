"""The library and the device of an array, copies between it and NumPy, sums, compiled functions, and chunks of rows.

The sums are those of NumPy and sparse arrays as well.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse

# how many entries of the data are worked on at a time (see `chunk_entries`)
GPU_CHUNK = 1 << 28
PROCESSOR_CHUNK = 1 << 18

VARIANTS = 64  # of one function that PyTorch compiles


def namespace_of(array: Any) -> Any:
    """Return the module with the array API of the library of an array, such as PyTorch: NumPy itself for its arrays."""
    kind = type(array)
    if kind not in _namespaces:  # looked up first, because PyTorch's compiler reads no more than this
        if isinstance(array, np.ndarray | np.generic | float | int):
            return np
        from array_api_compat import array_namespace

        _namespaces[kind] = array_namespace(array)
    return _namespaces[kind]


_namespaces: dict[type, Any] = {}


def is_torch(array: Any) -> bool:
    """Return whether an array is a tensor of PyTorch."""
    return type(array).__module__.partition(".")[0] == "torch"


def on_gpu(array: Any) -> bool:
    """Return whether an array lies on a GPU of PyTorch or CuPy."""
    return (is_torch(array) and array.device.type == "cuda") or type(array).__module__.partition(".")[0] == "cupy"


def chunk_entries(array: Any) -> int:
    """Return how many entries of the data are worked on at a time where `array` lies, on a GPU or a processor."""
    return GPU_CHUNK if on_gpu(array) else PROCESSOR_CHUNK


def numpy_dtype(array: Any) -> Any:
    """Return the dtype of NumPy that matches an array of floating-point numbers: float32 or float64."""
    return np.dtype(np.float32 if namespace_of(array).finfo(array.dtype).bits == 32 else np.float64)


def moved(values: Any, like: Any) -> Any:
    """Return a copy of numbers or of a NumPy array on the device of the array `like`, in its dtype."""
    if isinstance(like, np.ndarray):
        return np.array(values, like.dtype)
    from array_api_compat import device

    return namespace_of(like).asarray(np.array(values, numpy_dtype(like)), device=device(like))


def number(value: float, like: Any) -> Any:
    """Return an array of no dimension with one number, beside the array `like`; this does not wait for the device."""
    return namespace_of(like).full((), value, dtype=like.dtype, device=like.device)


def to_numpy(array: Any) -> Any:
    """Return an array as one of NumPy, which shares its memory where it can."""
    if isinstance(array, np.ndarray):
        return array
    from array_api_compat import is_array_api_strict_namespace, to_device

    # the processor of array-api-strict, with which this is tested, has another name than "cpu", and needs no move
    return np.asarray(array if is_array_api_strict_namespace(namespace_of(array)) else to_device(array, "cpu"))


def copied(array: Any) -> Any:
    """Return a copy of an array, on its device."""
    return namespace_of(array).asarray(array, copy=True)


def is_not_numpy(array: Any) -> bool:
    """Return whether a dense array is one of another library than NumPy."""
    return not (isinstance(array, np.ndarray) or issparse(array))


def taken(array: Any, rows: Any) -> Any:
    """Return some rows of an array (n_rows, n), contiguous; `rows` is a slice or an array of numbers, of NumPy."""
    if isinstance(array, np.ndarray):
        return np.ascontiguousarray(array[rows])
    if isinstance(rows, slice):
        return array[rows, :]
    xp = namespace_of(array)
    return xp.take(array, xp.asarray(rows, device=array.device), axis=0)


def stacked(parts: list[Any], axis: int = 0) -> Any:
    """Return several arrays in one, side by side along an axis."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis=axis)
    return namespace_of(parts[0]).concat(parts, axis=axis)


def cast(array: Any, dtype: Any) -> Any:
    """Return an array of any library, or a sparse one, in a dtype of NumPy; None remains None."""
    if array is None or not is_not_numpy(array):
        return None if array is None else array.astype(dtype, copy=False)
    xp = namespace_of(array)
    return xp.asarray(array, dtype=getattr(xp, np.dtype(dtype).name))


def in_float64(array: Any) -> Any:
    """Return an array in double precision, on its device."""
    xp = namespace_of(array)
    return xp.asarray(array, dtype=xp.float64)


def total(array: Any) -> float:
    """Return the sum of a matrix, or of a vector as one row: rows in their dtype, their sums in double precision."""
    xp = namespace_of(array)
    return float(xp.sum(xp.sum(array, axis=-1), dtype=xp.float64))


def chunks(array: Any, entries: int | None = None) -> list[slice]:
    """Cut the rows into slices of at most `entries` entries, of nearly equal size: compiled code is for one shape."""
    n_rows = array.shape[0]
    most = max(1, (entries or chunk_entries(array)) // max(1, array.shape[1]))
    size = -(-n_rows // -(-n_rows // most))
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def parts_of(M: Any, slices: list[slice]) -> Iterator[tuple[slice, Any]]:
    """Yield each slice of rows with the weights of its entries: those rows of `M` (n_rows, n), or None without any."""
    for rows in slices:
        yield rows, None if M is None else M[rows, :]


def sum_of(A: Any) -> float:
    """Return the sum of a dense array; on a device, rows in their dtype, because PyTorch would copy all of it first."""
    return total(A) if is_not_numpy(A) else float(A.sum(dtype=np.float64))


def inner(A: Any, B: Any) -> float:
    """Return the sum of the products of the entries of two dense arrays of one shape, in double precision."""
    if is_not_numpy(A):
        A64 = in_float64(A)
        return float(namespace_of(A).sum(A64 * (A64 if B is A else in_float64(B))))
    return float(np.einsum("ij,ij->", A, B, dtype=np.float64))


def sum_of_squares(X: Any, sample_weight: Any = None) -> float:
    """Return the sum of the squares of the data, in double precision; a row of weight 2 counts twice."""
    if is_not_numpy(X):
        squares = 0.0
        for rows in chunks(X, chunk_entries(X) // 4):  # a part and its products in double precision, for a while
            part = X[rows, :]
            squares += inner(part, part if sample_weight is None else part * sample_weight[rows][:, None])
        return squares
    values = X.data if issparse(X) else X
    flat = values.reshape(-1)
    if sample_weight is None:
        return float(np.einsum("i,i->", flat, flat, dtype=np.float64))
    weights = np.repeat(sample_weight, np.diff(X.indptr) if issparse(X) else X.shape[1])
    return float(np.einsum("i,i,i->", flat, flat, weights, dtype=np.float64))


def norms_of(H: Any) -> Any:
    """Return the Euclidean norms (r,) by which components `H` (r, n) are divided; 1 for a component of zeros."""
    if is_not_numpy(H):
        xp = namespace_of(H)
        norms = xp.sqrt(xp.sum(H * H, axis=1))
        return xp.where(norms > 0, norms, xp.ones_like(norms))
    norms = np.linalg.norm(H, axis=1)
    norms[norms == 0] = 1
    return norms


_compiled: dict[Callable[..., Any], Callable[..., Any]] = {}


def compiled(function: Callable[..., Any], like: Any) -> Callable[..., Any]:
    """Return a function of arrays that PyTorch has compiled if the array `like` is on its GPU; otherwise unchanged."""
    if not (is_torch(like) and on_gpu(like)):
        return function
    if function not in _compiled:
        import torch

        fast = torch.compile(function, fullgraph=True)

        def either(*arguments: Any) -> Any:
            """Call the compiled function, or the original one for good once compilation has failed."""
            try:
                # the compiler's advice is not for users, and each loss, dtype and number of weights is a variant
                with warnings.catch_warnings(), torch._dynamo.config.patch(recompile_limit=VARIANTS):
                    warnings.simplefilter("ignore")
                    return fast(*arguments)
            except torch.OutOfMemoryError:
                raise
            except (RuntimeError, torch._dynamo.exc.FailOnRecompileLimitHit):  # no compiler, or one that fails
                _compiled[function] = function
                return function(*arguments)

        _compiled[function] = either
    return _compiled[function]


class Recorded:
    """A function that changes its first array in place; on a GPU of PyTorch it is recorded once for each shape."""

    def __init__(self, function: Callable[..., None]) -> None:
        """Keep the function, which the first call with arrays of some sizes records as a CUDA graph."""
        self.function = function
        # by the sizes of all arrays, for which alone a graph holds: the graph, and the arrays on which it works
        self._records: dict[tuple[int, ...], tuple[Any, list[Any]]] = {}

    def __call__(self, first: Any, *others: Any) -> None:
        """Call the function, or replay its record for arrays of these shapes."""
        if not (is_torch(first) and on_gpu(first)):
            self.function(first, *others)
            return
        key = (*first.shape, *(size for other in others for size in other.shape))
        if key not in self._records:
            self._records[key] = self._record([first, *others])
        graph, arrays = self._records[key]
        for mine, given in zip(arrays, (first, *others), strict=True):
            # a graph always works on the same memory, so the arrays are copied there, and the result back
            mine.copy_(given)
        graph.replay()
        first.copy_(arrays[0])

    def _record(self, given: list[Any]) -> tuple[Any, list[Any]]:
        """Return the record of a call with copies of the given arrays, and these copies."""
        import torch

        arrays = [array.clone() for array in given]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.function(*arrays)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.function(*arrays)
        return graph, arrays
