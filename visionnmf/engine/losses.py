"""The losses, which measure the distance of the data `X` from the model ``P = W H``.

Each loss is one :class:`LossRecord` of :data:`LOSSES`. Everything that lists losses derives from that table: which
solvers minimise a loss, whether it takes sparse data, messages, and the tables of the guides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError

from . import divergence
from .arrays import passes
from .arrays.namespace import chunk_entries, is_not_numpy, namespace_of, stacked, total
from .blocks import BLOCK_ELEMENTS, map_blocks, one_blas_thread, row_blocks
from .kernels import admm as _admm_kernels
from .kernels.sparse import model_entries
from .products import floors

__all__ = ["Loss", "LossRecord", "Parameter", "ProximalForm", "SparseForm"]


ZERO = 1e-3  # smaller residuals count as 0 at a kink, in units of the data's mean (or of a row's norm)


# --- the record of a loss ---------------------------------------------------------------------------------------------


class Parameter(NamedTuple):
    """The parameter of a loss: its `symbol` in the formula and its default value given the mean of the observed data.

    It must be > 0 if `positive` is true, otherwise >= 0.
    """

    symbol: str
    default: Callable[[float], float]
    positive: bool


class ProximalForm(NamedTuple):
    """A loss in the form that ADMM needs (docs/derivations/admm.md).

    Attributes
    ----------
    rows : callable
        ``rows(X, P, U, M, parameter, bounds, decay, start, stop, losses, residuals)`` runs one elementwise iteration,
        which reads the data `X` and the model `P`, and updates the dual; :mod:`.kernels.admm` describes the arrays, and
        `parameter` is that of the loss.
    dual : callable
        The same on a device: ``dual(E, P, old, limit, M, parameter)`` of :mod:`.arrays.passes` returns the new dual,
        which is exactly 0 where the limit is 0.
    valued : bool
        Whether `rows` writes the loss, which is optional if it is expensive to compute.
    slope : callable
        ``slope(size, n_features, parameter)`` returns the absolute derivative with respect to an entry if all residuals
        of a row have this size (> 0); for a divergence, that of its positive part.
    clipped : bool
        Whether the derivative is the residual, clipped at the parameter. Descent on this smooth loss then ends a fit.
    """

    rows: Callable[..., None]
    dual: Callable[..., Any]
    valued: bool
    slope: Callable[[Any, int, float], Any]
    clipped: bool


class SparseForm(NamedTuple):
    """A loss of sparse data, which at zero entries is ``weight * P`` or, if `squared`, ``weight * P^2 / 2``.

    Attributes
    ----------
    value : callable
        ``value(x, p, floor, parameter)`` returns the sum over stored entries; `floor` is negligible relative to the
        data of a row.
    deviation : callable
        ``deviation(x, p, floor, weight, parameter)`` returns the derivative at stored entries minus that of a zero
        entry there.
    derivative_scale : callable
        ``derivative_scale(x, parameter)`` returns the size of the derivative at stored entries and the model 0, as in
        :attr:`LossRecord.derivative`.
    squared : bool
    weighted : bool
        Whether entries that are not stored may have any weight from 0 to 1, instead of only 0 or 1.
    """

    value: Callable[[Array, Array, Array, float], float]
    deviation: Callable[[Array, Array, Array, float, float], Array]
    derivative_scale: Callable[[Array, float], Array]
    squared: bool = False
    weighted: bool = False


@dataclass(frozen=True, kw_only=True)
class LossRecord:
    """One loss. ``tests/engine/test_losses.py`` checks each field of each record against the value.

    Attributes
    ----------
    name : str
        The name that users pass.
    formula : str
        The loss of one entry (or row), with the data x and the model p.
    noise : str
        The kind of noise for which the loss is appropriate.
    parameter : Parameter or None
    degree : float or None
        ``loss(c X, c P) = c^degree loss(X, P)``; None if the loss has an intrinsic scale.
    weight_degree : float
        The loss with weights ``c M`` is ``c^weight_degree`` times that with `M`; 1 unless weights are under a root.
    beta : float, "parameter" or None
        The exponent of a beta-divergence. "parameter" means that the loss's parameter is the exponent, which users pass
        instead of a name.
    kink : float, >= 0
        At a residual of 0 the subdifferential is [-kink, kink], times the weight.
    values : callable
        ``values(X, P, M, parameter)`` returns the loss of each row (n_rows,), in double precision, for data `X`, their
        model `P` and the weights `M` of the entries, or None.
    derivative : callable
        ``derivative(X, P, M, parameter, tiny)`` returns, for some rows in double precision, the derivative with respect
        to each model entry, and its scale, the size of the derivative at the model 0, or of its positive part ``p^(beta
        - 1)`` for a divergence: far below it, a gradient counts as 0. `M` may be the number 1. At a kink, the
        derivative is 0 for residuals up to `tiny`.
    proximal : ProximalForm or None
        None if the prox has no closed form, or if other solvers are better.
    sparse : SparseForm or None
        None if sparse data would have to be made dense.
    codes : str
        The method that finds codes for fixed components: a key of :data:`.solving.CODES`.
    codes_as : str or None
        A loss with the same optimal codes, row by row, if the codes have no l1 or l2 penalty.

    `values` is written in the array API, so that it also takes arrays of PyTorch, for example.
    """

    name: str
    formula: str
    noise: str
    parameter: Parameter | None = None
    degree: float | None = None
    weight_degree: float = 1.0
    beta: float | Literal["parameter"] | None = None
    kink: float = 0.0
    values: Callable[[Any, Any, Any, float], Any]
    derivative: Callable[[Array, Array, Any, float, float], tuple[Array, Array]]
    proximal: ProximalForm | None = None
    sparse: SparseForm | None = None
    codes: str
    codes_as: str | None = None

    @property
    def is_divergence(self) -> bool:
        """Whether the loss is a beta-divergence."""
        return self.beta is not None

    @property
    def is_named(self) -> bool:
        """Whether users pass the name of the loss; for a beta-divergence they pass the exponent, a number, instead."""
        return self.beta != "parameter"


# --- values of rows; too rarely called to be worth a compiled kernel --------------------------------------------------


def _values_of(
    entries: Callable[[Any, float], Any], finish: Callable[[Any], Any] = lambda sums: sums
) -> Callable[[Any, Any, Any, float], Any]:
    """Return the function `values` of a loss: the sums of ``entries(E, parameter)`` over each row, then `finish`."""

    def values(X: Any, P: Any, M: Any, parameter: float) -> Any:
        xp = namespace_of(X)
        losses = entries(X - P, parameter)  # of the entries; `finish` turns their sums into losses of rows
        if M is not None:
            losses = losses * M
        # NumPy and PyTorch sum in parts, so float32 stays accurate in long rows
        return finish(xp.asarray(xp.sum(losses, axis=1), dtype=xp.float64))

    return values


def _huber_entries(E: Any, delta: float) -> Any:
    """Return the Huber loss ``s (|e| - s / 2)`` with ``s = min(|e|, delta)`` of each residual e of `E` (n_rows, n)."""
    xp = namespace_of(E)
    sizes = xp.abs(E)
    inner = xp.clip(sizes, None, float(delta))
    return (sizes - inner / 2) * inner


def _elastic_net_entries(E: Any, alpha: float) -> Any:
    """Return the elastic-net loss ``|e| + alpha / 2 e^2`` of each residual e of `E` (n_rows, n)."""
    sizes = namespace_of(E).abs(E)
    return sizes + float(alpha) / 2 * sizes * sizes


# --- derivatives with respect to the model, and their sizes at the model 0 --------------------------------------------


def _elastic_net(X: Array, P: Array, M: Any, alpha: float, tiny: float) -> tuple[Array, Array]:
    """Return the derivative with respect to the model, 0 at residuals up to `tiny`, and its size at the model 0."""
    E = P - X
    return M * (np.where(np.abs(E) <= tiny, 0 * E, np.sign(E)) + alpha * E), M * (1 + alpha * X)


def _l21(X: Array, P: Array, M: Any, parameter: float, tiny: float) -> tuple[Array, Array]:
    """Return the derivative of the norms of the rows by the model, and its size at the model 0, a scale for it."""
    sizes = np.sqrt(np.sum(M * X * X, axis=1, keepdims=True))  # weighted norms of the data's rows

    def derivative(E: Array) -> Array:
        """Return the derivative at residuals `E` (n_rows, n): each row over its weighted norm."""
        norms = np.sqrt(np.sum(M * E * E, axis=1, keepdims=True))
        # use the subgradient 0 for rows that the model fits exactly, compared to the norms of the data's rows, `sizes`
        return M * E / np.where(norms > ZERO * sizes, norms, 0 * norms + np.inf)

    return derivative(P - X), derivative(X)


def _divergence_derivative(X: Array, P: Array, M: Any, beta: float, tiny: float) -> tuple[Array, Array]:
    """Return the derivative ``M P^(beta - 1) (1 - X / P)`` and its positive part, because it may be infinite at 0."""
    # the same floor as in the loss; a smaller model counts as 0
    P = np.maximum(P, np.clip(1e-7 * np.mean(X, axis=1, keepdims=True), 1e-30, None))
    size = M * P ** (beta - 1)
    return size * (1 - X / P), size


def _stored_kullback_leibler(x: Array, p: Array, floor: Array, parameter: float) -> float:
    """Return the Kullback-Leibler divergence of stored entries; in the logarithm the model is at least `floor`."""
    positive = x > 0
    ratio = x[positive] / np.maximum(p, floor)[positive]
    return float((p - x).sum() + np.dot(x[positive], np.log(ratio)))


def _entries_pass(*, alpha: bool = False, delta: bool = False, kullback_leibler: bool = False) -> Callable[..., None]:
    """Return the function `rows` of a :class:`ProximalForm`; its loss is the Manhattan loss unless one flag is set."""

    def rows(X: Array, P: Array, U: Array, M: Array | None, parameter: float, *others: Any) -> None:
        _admm_kernels.entries_pass(
            X, P, U, M, parameter if alpha else None, parameter if delta else None, kullback_leibler or None, *others
        )

    return rows


# --- the records ------------------------------------------------------------------------------------------------------

_RECORDS = (
    LossRecord(
        name="manhattan",
        formula="|x - p|",
        noise="outlying entries: occlusion, lost pixels, moving objects; Laplace noise",
        degree=1,
        kink=1.0,
        values=_values_of(lambda E, parameter: namespace_of(E).abs(E)),
        derivative=lambda X, P, M, parameter, tiny: _elastic_net(X, P, M, 0.0, tiny),
        proximal=ProximalForm(
            _entries_pass(), dual=passes.manhattan, valued=True, slope=lambda size, n, parameter: 1.0, clipped=False
        ),
        sparse=SparseForm(
            value=lambda x, p, floor, parameter: float(np.abs(x - p).sum()),
            deviation=lambda x, p, floor, weight, parameter: np.sign(p - x) - weight,
            derivative_scale=lambda x, parameter: np.ones_like(x),
            weighted=True,
        ),
        codes="admm",
    ),
    LossRecord(
        name="frobenius",
        formula="(x - p)^2 / 2",
        noise="Gaussian noise of equal variance, no outliers; half-zero data such as digits",
        degree=2,
        beta=2.0,
        values=_values_of(lambda E, parameter: E * E, lambda sums: sums / 2),
        derivative=lambda X, P, M, parameter, tiny: (M * (P - X), M * X),
        sparse=SparseForm(
            value=lambda x, p, floor, parameter: float(np.square(x - p).sum()) / 2,
            squared=True,
            deviation=lambda x, p, floor, weight, parameter: (1 - weight) * p - x,
            derivative_scale=lambda x, parameter: np.asarray(x),
        ),
        codes="hals",
    ),
    LossRecord(
        name="l21",
        formula="sqrt(sum_j (x_j - p_j)^2) of a row",
        noise="outlying samples: whole rows that do not belong",
        degree=1,
        weight_degree=0.5,
        values=_values_of(lambda E, parameter: E * E, lambda sums: sums**0.5),
        derivative=_l21,
        proximal=ProximalForm(
            _admm_kernels.l21_pass,
            dual=passes.l21,
            valued=True,
            slope=lambda size, n, parameter: 1 / n**0.5,
            clipped=False,
        ),
        codes="admm",
        codes_as="frobenius",  # the root of a sum of squares has the same minimiser
    ),
    LossRecord(
        name="huber",
        formula="(x - p)^2 / 2 to delta, then delta (|x - p| - delta / 2)",
        noise="Gaussian noise and outlying entries",
        parameter=Parameter("delta", default=lambda mean: mean / 10, positive=True),
        values=_values_of(_huber_entries),
        derivative=lambda X, P, M, delta, tiny: (M * np.clip(P - X, -delta, delta), M * np.clip(X, None, delta)),
        proximal=ProximalForm(
            _entries_pass(delta=True),
            dual=passes.huber,
            valued=True,
            slope=lambda size, n, delta: np.minimum(size, delta),
            clipped=True,
        ),
        codes="admm",
    ),
    LossRecord(  # MahNMF-EN, Guan et al. 2012
        name="elastic-net",
        formula="|x - p| + alpha / 2 (x - p)^2",
        noise="Laplace and Gaussian noise at once",
        parameter=Parameter("alpha", default=lambda mean: 1 / mean, positive=False),
        kink=1.0,
        values=_values_of(_elastic_net_entries),
        derivative=_elastic_net,
        proximal=ProximalForm(
            _entries_pass(alpha=True),
            dual=passes.elastic_net,
            valued=True,
            slope=lambda size, n, alpha: 1 + alpha * size,
            clipped=False,
        ),
        codes="admm",
    ),
    LossRecord(
        name="kullback-leibler",
        formula="x log(x / p) - x + p",
        noise="counts (Poisson noise)",
        degree=1,
        beta=1.0,
        values=lambda X, P, M, parameter: divergence.row_values(X, P, M, 1.0),
        derivative=lambda X, P, M, parameter, tiny: _divergence_derivative(X, P, M, 1, tiny),
        proximal=ProximalForm(
            _entries_pass(kullback_leibler=True),
            dual=passes.kullback_leibler,
            valued=False,
            slope=lambda size, n, parameter: 1.0,
            clipped=False,
        ),
        sparse=SparseForm(
            value=_stored_kullback_leibler,
            deviation=lambda x, p, floor, weight, parameter: (1 - weight) - x / np.maximum(p, floor),
            derivative_scale=lambda x, parameter: np.ones_like(x),
        ),
        codes="ccd",
    ),
    LossRecord(
        name="itakura-saito",
        formula="x / p - log(x / p) - 1",
        noise="multiplicative noise, such as power spectra; `X` must be positive",
        degree=0,
        beta=0.0,
        values=lambda X, P, M, parameter: divergence.row_values(X, P, M, 0.0),
        derivative=lambda X, P, M, parameter, tiny: _divergence_derivative(X, P, M, 0, tiny),
        codes="sbcd",
    ),
    LossRecord(
        name="beta",
        formula="x^b / (b (b - 1)) + p^b / b - x p^(b - 1) / (b - 1)",
        noise="between these, by its exponent: 2 is Frobenius, 1 Kullback-Leibler, 0 Itakura-Saito",
        beta="parameter",
        values=divergence.row_values,
        derivative=_divergence_derivative,
        codes="sbcd",
    ),
)

LOSSES: dict[str, LossRecord] = {record.name: record for record in _RECORDS}


class Loss(NamedTuple):
    """A loss: its name, a key of :data:`LOSSES`, and its parameter.

    The parameter is ``beta`` of "beta", ``alpha >= 0`` of "elastic-net" and ``delta > 0`` of "huber", in the units of
    the data; the others have none.
    """

    name: str
    parameter: float = 0.0

    @property
    def record(self) -> LossRecord:
        """The entry of this loss in the table :data:`LOSSES`: its formula, value, derivative and other properties."""
        return LOSSES[self.name]

    @property
    def label(self) -> str:
        """The loss as the user writes it, for messages: ``loss='huber'`` or ``loss=1.5``."""
        return f"loss={self.name!r}" if self.record.is_named else f"loss={self.parameter:g}"

    @property
    def beta(self) -> float:
        """The exponent of a beta-divergence; NaN for the other losses."""
        beta = self.record.beta
        if beta is None:
            return float("nan")
        return self.parameter if beta == "parameter" else float(beta)

    @property
    def needs_positive(self) -> bool:
        """Whether the loss is infinite where the data are 0; false for `beta` NaN, that is, not a beta-divergence."""
        return self.beta <= 0


def named_losses() -> list[str]:
    """Return the keys of :data:`LOSSES` that users pass by name; the others are selected by a number."""
    return [name for name, record in LOSSES.items() if record.is_named]


# --- evaluation -------------------------------------------------------------------------------------------------------


def loss_value(X: Any, Wt: Any, H: Any, loss: Loss, *, weights: Any = None) -> float:
    """Evaluate a loss of dense data in double precision by blocks, without ``W @ H``; `Wt` (r, n_samples) is W.T."""
    matmul = namespace_of(H).matmul

    def evaluate(block: tuple[int, int]) -> Any:
        rows = slice(*block)
        M = None if weights is None else weights[rows, :]
        return loss.record.values(X[rows, :], matmul(Wt[:, rows].T, H), M, loss.parameter)

    if is_not_numpy(X):
        losses = map_blocks(evaluate, row_blocks(X, chunk_entries(X)), parallel=False)
    else:
        losses = map_blocks(evaluate, row_blocks(X), parallel=X.size > BLOCK_ELEMENTS)
    return total(stacked(losses))


def sparse_loss_value(X: Any, Wt: Array, H: Array, loss: Loss, *, zero_weight: float = 1.0) -> float:
    """Evaluate a loss of sparse `X` (CSR) in double precision and O(nnz r), without a dense copy."""
    # An entry that is not stored costs P or, for the Frobenius loss, P^2 / 2. The sum of these over all entries follows
    # from the factors, and that over the stored entries is subtracted. Both nearly cancel where the fit is close, so
    # the rounding error is relative to them and not to the loss.
    form = loss.record.sparse
    if form is None:
        able = sorted(name for name, record in LOSSES.items() if record.sparse is not None)
        raise ParameterError(f"loss must be one of {able} for a sparse X; got {loss.name!r}; pass X.toarray()")
    check_zero_weight(loss, zero_weight)
    # in double precision, because the optimality measure has already compiled the kernel for it
    codes, points = Wt.T.astype(np.float64, order="C"), H.T.astype(np.float64, order="C")
    levels = floors(X)  # (n_samples,), the smallest model in a logarithm

    def stored(block: tuple[int, int]) -> tuple[float, float]:
        """Return the loss at the stored entries of some rows, and the sum of the model (or its square) there."""
        start, stop = block
        first, last = X.indptr[start], X.indptr[stop]  # the range of stored entries of these rows
        p = np.empty(last - first)  # the model at the stored entries
        model_entries(X.indices, X.indptr, codes, points, start, stop, p)
        x = X.data[first:last].astype(np.float64)
        floor = np.repeat(levels[start:stop], np.diff(X.indptr[start : stop + 1]))
        return form.value(x, p, floor, loss.parameter), float(np.dot(p, p) if form.squared else p.sum())

    work = row_blocks(X)
    with one_blas_thread():
        parts = map_blocks(stored, work, parallel=len(work) > 1)
        everywhere = _model_total(Wt, H, squared=form.squared)
    elsewhere = max(0.0, everywhere - sum(part[1] for part in parts))  # below 0 only by rounding
    return float(sum(part[0] for part in parts)) + float(zero_weight) * (0.5 if form.squared else 1.0) * elsewhere


def check_zero_weight(loss: Loss, zero_weight: float) -> None:
    """Raise ParameterError if the loss does not support this weight of the entries that are not stored."""
    if zero_weight in (0, 1) or (loss.record.sparse is not None and loss.record.sparse.weighted):
        return
    able = " and ".join(repr(name) for name, record in LOSSES.items() if record.sparse and record.sparse.weighted)
    raise ParameterError(
        f"zero_weight must be 0 or 1 for losses other than {able}; got {zero_weight!r} with {loss.label}"
    )


def _model_total(Wt: Array, H: Array, *, squared: bool) -> float:
    """Return the sum of all entries of ``W @ H``, or of their squares, from sums and Gram matrices of the factors."""
    if not squared:
        return float(np.dot(Wt.sum(axis=1, dtype=np.float64), H.sum(axis=1, dtype=np.float64)))
    wide = [F.astype(np.float64) for F in (Wt, H)]  # sum of squares: the inner product of Gram matrices
    return float(np.einsum("ij,ij->", *(F @ F.T for F in wide)))
