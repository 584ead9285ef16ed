"""The elementwise part of an iteration of ADMM (:mod:`..kernels.admm`), for each loss, in the array API.

Each function, the `dual` of a :class:`.ProximalForm`, returns the new scaled dual ``u+`` of some rows (n_rows, n). All
have the same arguments: the residuals ``E = X - P``, the model `P`, the scaled dual `old` before, already multiplied by
the change of ``1 / rho``, the limits ``m b`` of the entries, with their weights m and ``b = 1 / rho``, the weights `M`
or None, and the parameter of the loss. The formulas are those of docs/derivations/admm.md, with ``a = E + old``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from visionnmf.engine.kernels.admm import NEWTON_STEPS

from .namespace import namespace_of


def manhattan(E: Any, P: Any, old: Any, limit: Any, M: Any, parameter: float) -> Any:
    """Return the new dual of the Manhattan loss: the `old` one plus the residuals `E`, clipped at ``limit = m b``."""
    xp = namespace_of(E)
    return xp.minimum(xp.maximum(E + old, -limit), limit)


def elastic_net(E: Any, P: Any, old: Any, limit: Any, M: Any, alpha: float) -> Any:
    """Return the new dual ``a - prox(a)`` of the elastic net, ``a = E + old`` with residuals `E` and the `old` dual."""
    a = E + old
    soft = a - manhattan(E, P, old, limit, M, 0.0)
    return a - soft / (1 + alpha * limit)


def huber(E: Any, P: Any, old: Any, limit: Any, M: Any, delta: float) -> Any:
    """Return the new dual of the Huber loss: ``a m b / (1 + m b)``, clipped at ``delta m b``."""
    xp = namespace_of(E)
    new = (E + old) * (limit / (1 + limit))
    return xp.minimum(xp.maximum(new, -delta * limit), delta * limit)


def kullback_leibler(E: Any, P: Any, old: Any, limit: Any, M: Any, parameter: float) -> Any:
    """Return the new dual of the Kullback-Leibler divergence: ``q - (P - old)`` with the model q of the prox."""
    xp = namespace_of(E)
    X = E + P
    half = (P - old - limit) / 2
    root = xp.sqrt(half * half + limit * X)
    positive = limit * X > 0
    zeros = xp.zeros_like(E)
    small = xp.where(positive, limit * X / xp.where(positive, root - half, xp.ones_like(E)), zeros)
    new = xp.where(half >= 0, root + half, small) - (P - old)
    return xp.where(limit > 0, new, zeros)


def l21(E: Any, P: Any, old: Any, limit: Any, M: Any, parameter: float) -> Any:
    """Return the dual ``a m b / (t + m b)`` of L21, ``a = E + old`` with residuals `E` and the dual `old` before."""
    xp = namespace_of(E)
    a = xp.asarray(E + old, dtype=xp.float64)
    wide = xp.asarray(limit, dtype=xp.float64)
    if M is None:  # then the limit is 1 / rho
        t = xp.clip(xp.sqrt(xp.sum(a * a, axis=1, keepdims=True)) - wide, 0.0, None)
    else:
        weights = xp.asarray(M, dtype=xp.float64)
        t = xp.sum(0 * a, axis=1, keepdims=True)
        for _ in range(NEWTON_STEPS):  # Newton's method for ``sum m a^2 / (t + m b)^2 = 1`` in each row
            denominator = xp.where(weights > 0, t + wide, xp.ones_like(a))
            terms = weights * a * a / (denominator * denominator)
            value = xp.sum(terms, axis=1, keepdims=True)
            slope = xp.sum(2 * terms / denominator, axis=1, keepdims=True)
            short = value > 1 + 1e-7  # else the row is close to its root, or 0 is already right of it
            t = t + xp.where(short, (value - 1) / xp.where(short, slope, xp.ones_like(slope)), xp.zeros_like(t))
    share = xp.where(wide > 0, wide / xp.where(wide > 0, t + wide, xp.ones_like(wide)), xp.zeros_like(wide))
    return xp.asarray(a * share, dtype=E.dtype)


@lru_cache(maxsize=16)
def pass_of(loss: Any) -> Callable[..., tuple[Any, Any, Any]]:
    """Return the elementwise pass of a :class:`.Loss`, the same for the same loss, so that it is compiled once."""
    record, parameter = loss.record, loss.parameter
    form = record.proximal
    assert form is not None, "choose() asks for it"  # ADMM is chosen only for losses that have one

    def one_pass(X: Any, P: Any, U: Any, M: Any, bound: Any, decay: Any) -> tuple[Any, Any, Any]:
        """Return the target of the next least-squares step, each row's loss (0 unless `valued`) and primal residual."""
        xp = namespace_of(X)
        old, E = U * decay, X - P
        new = form.dual(E, P, old, bound if M is None else M * bound, M, parameter)
        primal = xp.sum(xp.abs(new - old), axis=1)
        losses = record.values(X, P, M, parameter) if form.valued else 0 * primal
        U[:, :] = new
        return P + new + new - old, losses, primal

    return one_pass
