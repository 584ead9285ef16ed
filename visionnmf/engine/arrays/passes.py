"""The elementwise part of an iteration of ADMM (:mod:`..kernels.admm`), for each loss, in the array API.

Each function of :data:`DUALS` returns the new scaled dual ``u+`` of some rows (n_rows, n). Its arguments are the
residuals ``E = X - P``, the model `P`, the scaled dual `old` before, already multiplied by the change of ``1 / rho``,
the limits ``m / rho`` of the entries, with their weights m, `bound` = ``1 / rho`` without them, the weights or None,
and the parameter of the loss. The formulas are those of docs/derivations/admm.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from visionnmf.engine.kernels.admm import NEWTON_STEPS
from visionnmf.engine.losses import Loss

from .namespace import namespace_of


def _manhattan(E: Any, P: Any, old: Any, limit: Any, bound: Any, M: Any, parameter: float) -> Any:
    """Return the new dual of the Manhattan loss: the old one plus the residual, clipped at the limits."""
    xp = namespace_of(E)
    return xp.minimum(xp.maximum(E + old, -limit), limit + 0 * E)


def _elastic_net(E: Any, P: Any, old: Any, limit: Any, bound: Any, M: Any, alpha: float) -> Any:
    """Return the new dual of the elastic net, whose prox soft-thresholds and then divides by ``1 + alpha m b``."""
    a = E + old
    soft = a - _manhattan(E, P, old, limit, bound, M, 0.0)
    return a - soft / (1 + alpha * limit)


def _huber(E: Any, P: Any, old: Any, limit: Any, bound: Any, M: Any, delta: float) -> Any:
    """Return the new dual of the Huber loss: the sum ``a m b / (1 + m b)``, clipped at ``delta m b``."""
    xp = namespace_of(E)
    new = (E + old) * (limit / (1 + limit))
    return xp.minimum(xp.maximum(new, -delta * limit), delta * limit + 0 * E)


def _kullback_leibler(E: Any, P: Any, old: Any, limit: Any, bound: Any, M: Any, parameter: float) -> Any:
    """Return the new dual of the Kullback-Leibler divergence: ``q - (P - old)`` with the model q of the prox.

    That is the larger root of a quadratic equation with ``limit = m / rho``, by the algebraic form without
    cancellation. A missing entry has no dual.
    """
    xp = namespace_of(E)
    X = E + P
    half = (P - old - limit) / 2
    root = xp.sqrt(half * half + limit * X)
    positive = limit * X > 0
    small = xp.where(positive, limit * X / xp.where(positive, root - half, 1 + 0 * E), 0 * E)
    new = xp.where(half >= 0, root + half, small) - (P - old)
    return xp.where(limit + 0 * E > 0, new, 0 * E)


def _l21(E: Any, P: Any, old: Any, limit: Any, bound: Any, M: Any, parameter: float) -> Any:
    """Return the dual ``a m b / (t + m b)`` of L21; Newton's method solves ``sum m a^2 / (t + m b)^2 = 1`` for t."""
    xp = namespace_of(E)
    a = xp.asarray(E + old, dtype=xp.float64)
    wide = xp.asarray(limit + 0 * E, dtype=xp.float64)
    if M is None:
        norms = xp.sqrt(xp.sum(a * a, axis=1, keepdims=True))
        t = xp.clip(norms - xp.asarray(bound, dtype=xp.float64), 0.0, None)
    else:
        weights = xp.asarray(M, dtype=xp.float64)
        t = xp.sum(0 * a, axis=1, keepdims=True)
        for _ in range(NEWTON_STEPS):
            denominator = xp.where(weights > 0, t + wide, 1 + 0 * a)
            terms = weights * a * a / (denominator * denominator)
            value = xp.sum(terms, axis=1, keepdims=True)
            slope = xp.sum(2 * terms / denominator, axis=1, keepdims=True)
            short = value > 1 + 1e-7  # else the row is close to its root, or 0 is already right of it
            t = t + xp.where(short, (value - 1) / xp.where(short, slope, 1 + 0 * slope), 0 * t)
    share = xp.where(wide > 0, wide / xp.where(wide > 0, t + wide, 1 + 0 * wide), 0 * wide)
    return xp.asarray(a * share, dtype=E.dtype)


DUALS: dict[str, Callable[..., Any]] = {
    "manhattan": _manhattan,
    "elastic-net": _elastic_net,
    "huber": _huber,
    "kullback-leibler": _kullback_leibler,
    "l21": _l21,
}


@lru_cache(maxsize=16)
def pass_of(loss: Loss) -> Callable[..., tuple[Any, Any, Any]]:
    """Return the elementwise pass of a loss; the same function for the same loss, so that it is compiled once."""
    dual, record, parameter = DUALS[loss.name], loss.record, loss.parameter
    valued = record.proximal is not None and record.proximal.valued

    def one_pass(X: Any, P: Any, U: Any, M: Any, bound: Any, decay: Any) -> tuple[Any, Any, Any]:
        """Return the target of the next least-squares step, and each row's loss and primal residual.

        `X` are the data, `P` their model, `U` the scaled dual, which is updated in place, all (n_rows, n), and `M` the
        weights or None. `bound` is ``1 / rho``, one number or one a row (n_rows, 1), and `decay` the factor of the dual
        after rho has grown. The loss is 0 if it is computed separately, that is, if the loss is not `valued`.
        """
        xp = namespace_of(X)
        old, E = U * decay, X - P
        new = dual(E, P, old, bound if M is None else M * bound, bound, M, parameter)
        primal = xp.sum(xp.abs(new - old), axis=1)
        losses = record.values(X, P, M, parameter) if valued else 0 * primal
        U[:, :] = new
        return P + new + new - old, losses, primal

    return one_pass
