"""The interface of a loss: everything that the engine, solvers, estimators and guides need to know about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

__all__ = ["ZERO", "Parameter", "Proximal", "Record", "SparseForm"]

Array = NDArray[Any]

ZERO = 1e-3  # smaller residuals count as 0 at a kink, in units of the data's mean (or of a row's norm)


class Parameter(NamedTuple):
    """The parameter of a loss.

    Attributes
    ----------
    symbol : str
        Its symbol in the formula, for messages.
    default : callable
        ``default(mean)`` returns the default value, given the mean of the observed data.
    positive : bool
        Whether it must be > 0; otherwise it must be >= 0.
    """

    symbol: str
    default: Callable[[float], float]
    positive: bool


class Proximal(NamedTuple):
    """A loss in the form that ADMM needs (docs/derivations/admm.md).

    Attributes
    ----------
    rows : callable
        ``rows(X, P, U, M, parameter, bounds, decay, start, stop, losses, residuals)`` runs one elementwise iteration.
        With the scaled dual ``u = decay * U``, ``a = X - P + u`` and ``b = bounds[j]`` for each row j from `start` to
        `stop`, it writes ``U = a - S``, where ``S`` minimises ``loss(S) + |S - a|^2 / (2 b)``. It overwrites `P`, which
        holds only these rows, with the target ``P + 2 U - u``, and writes the loss of ``X - P`` and the l1 norm of
        ``U - u``. Entries of weight 0 keep ``U = 0``.
    valued : bool
        Whether `rows` writes the loss, which is optional if it is expensive to compute.
    slope : callable
        ``slope(size, n_features, parameter)`` returns the absolute derivative with respect to an entry if all residuals
        of a row have this size (> 0); for a divergence, that of its positive part.
    """

    rows: Callable[..., None]
    valued: bool
    slope: Callable[[Any, int, float], Any]


class SparseForm(NamedTuple):
    """A loss of sparse data, which at zero entries is ``weight * P`` or ``weight * P^2 / 2``.

    Attributes
    ----------
    value : callable
        ``value(x, p, floor)`` returns the sum over stored entries; `floor` is negligible relative to the data of a row.
    squared : bool
        Whether the loss at a zero entry is ``weight * P^2 / 2`` instead of ``weight * P``.
    deviation : callable
        ``deviation(x, p, floor, weight)`` returns the derivative at stored entries minus that of a zero entry there.
    size : callable
        ``size(x)`` returns the size of the derivative at stored entries and the model 0, as in
        :attr:`Record.derivative`.
    weighted : bool
        Whether entries that are not stored may have any weight from 0 to 1, instead of only 0 or 1.
    """

    value: Callable[[Array, Array, Array], float]
    squared: bool
    deviation: Callable[[Array, Array, Array, float], Array]
    size: Callable[[Array], Array]
    weighted: bool


@dataclass(frozen=True, kw_only=True)
class Record:
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
    rows : callable
        ``rows(X, P, M, parameter, start, stop, out)`` writes the loss of rows ``start:stop`` of `X` to `out`. `P` is
        the model of these rows only, and `M` holds entry weights or is None.
    derivative : callable
        ``derivative(X, P, M, parameter, tiny)`` returns, for some rows in double precision, the derivative with respect
        to each model entry, and the size it is compared with. The size is that of the derivative at the model 0, or of
        the positive part ``p^(beta - 1)`` for a divergence. `M` may be the number 1. At a kink, the derivative is 0 for
        residuals up to `tiny`.
    proximal : Proximal or None
        None if the prox has no closed form, or if other solvers are better.
    sparse : SparseForm or None
        None if sparse data would have to be made dense.
    codes : str
        The method that finds codes for fixed components: a key of :data:`..codes.CODES`.
    codes_as : str or None
        A loss with the same optimal codes, row by row, if the codes have no l1 or l2 penalty.
    """

    name: str
    formula: str
    noise: str
    parameter: Parameter | None
    degree: float | None
    weight_degree: float = 1.0
    beta: float | Literal["parameter"] | None
    kink: float
    rows: Callable[..., None]
    derivative: Callable[[Array, Array, Any, float, float], tuple[Array, Array]]
    proximal: Proximal | None
    sparse: SparseForm | None
    codes: str
    codes_as: str | None = None

    @property
    def is_named(self) -> bool:
        """Whether users pass a name; otherwise they pass a number."""
        return self.beta != "parameter"
