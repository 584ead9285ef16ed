"""What a loss is: everything that the engine, its solvers, the estimators and the guides ask of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

__all__ = ["ZERO", "Parameter", "Proximal", "Record", "SparseForm"]

Array = NDArray[Any]

ZERO = 1e-3  # residuals that count as 0 where the loss has a kink, in units of the data's mean (or of a row's norm)


class Parameter(NamedTuple):
    """The number that a loss depends on.

    Attributes
    ----------
    symbol : str
        As in the formula, for messages.
    default : callable
        ``default(mean)``, from the mean of the data that count.
    positive : bool
        Whether it must be above 0; else it may be 0.
    """

    symbol: str
    default: Callable[[float], float]
    positive: bool


class Proximal(NamedTuple):
    """A loss as ADMM wants it (docs/derivations/admm.md).

    Attributes
    ----------
    rows : callable
        ``rows(X, P, U, M, parameter, bounds, decay, start, stop, losses, residuals)``: with the scaled dual
        ``u = decay * U``, ``a = X - P + u`` and ``b = bounds[j]`` for each row j from `start` to `stop`, write
        ``U = a - S`` with ``S`` the minimiser of ``loss(S) + |S - a|^2 / (2 b)``, the target ``P + 2 U - u`` over `P`
        (which has these rows only), the loss of ``X - P``, and the l1 norm of ``U - u``. Entries of weight 0 keep
        ``U = 0``.
    valued : bool
        Whether `rows` writes the loss; it need not where that is dear.
    slope : callable
        ``slope(size, n_features, parameter)``: size of the derivative by an entry where all residuals of a row have
        this size (> 0); for a divergence that of its positive part.
    """

    rows: Callable[..., None]
    valued: bool
    slope: Callable[[Any, int, float], Any]


class SparseForm(NamedTuple):
    """A loss of data that are 0 nearly everywhere, where it is ``weight * P`` or ``weight * P^2 / 2``.

    Attributes
    ----------
    value : callable
        ``value(x, p, floor)``: the sum over entries that are stored; `floor` is as good as 0 beside a row's data.
    squared : bool
        Whether the loss at a 0 is ``weight * P^2 / 2`` instead of ``weight * P``.
    deviation : callable
        ``deviation(x, p, floor, weight)``: its derivative at stored entries less the one that a 0 would have there.
    size : callable
        ``size(x)``: size of the derivative at stored entries and the model 0, as in :attr:`Record.derivative`.
    weighted : bool
        Whether the entries that are not stored may have any weight from 0 to 1, and not only one of these.
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
        As the user writes it.
    formula : str
        Of one entry (or row), with the data x and the model p.
    noise : str
        When to use it: the noise it is right for.
    parameter : Parameter or None
    degree : float or None
        ``loss(c X, c P) = c^degree loss(X, P)``; None where the loss has a scale of its own.
    weight_degree : float
        ``loss`` with ``c M`` is ``c^weight_degree`` times that with the weights `M`; 1 unless they are under a root.
    beta : float, "parameter" or None
        The exponent where it is a beta-divergence; "parameter" where the loss's parameter is, which the user then gives
        in place of a name.
    kink : float, >= 0
        At a residual of 0 the derivative is any number from ``-kink`` to ``kink``, times the weight.
    rows : callable
        ``rows(X, P, M, parameter, start, stop, out)`` writes the loss of rows ``start:stop`` of `X`; `P`, their model,
        has these rows only; `M` are weights of the entries, or None.
    derivative : callable
        ``derivative(X, P, M, parameter, tiny)`` for some rows in double precision: the derivative by each entry of the
        model, and the size it is compared with, that of the derivative at the model 0 (of its positive part
        ``p^(beta - 1)``, for a divergence). `M` may be the number 1. Where there is a kink it is taken as 0 at
        residuals up to `tiny`.
    proximal : Proximal or None
        None where its prox is not known in closed form, or other solvers are the better ones.
    sparse : SparseForm or None
        None where sparse data would have to be made dense.
    codes : str
        What finds the codes of fixed components: a key of :data:`..codes.CODES`.
    codes_as : str or None
        A loss that has the same codes, row by row, where these pay no l1 or l2 penalty.
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
        """Whether the user gives its name; else a number."""
        return self.beta != "parameter"
