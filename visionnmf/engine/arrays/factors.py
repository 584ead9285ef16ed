"""Penalties of factors on a device, and HALS sweeps over a factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from visionnmf.engine.penalties import Penalties

from .namespace import Recorded, compiled, moved, namespace_of, number

MOST, LEAST = 12, 6  # components in a block of HALS


def penalty_weights(penalty: Penalties, F: Any, scale: float = 1.0) -> tuple[Any, Any]:
    """Return the l1 and l2 weights (r, 1) of a factor `F` (r, n_points), times `scale`, on its device."""
    l1, l2 = penalty.weights(F.shape[0], np.float64)
    return moved(scale * l1[:, None], F), moved(scale * l2[:, None], F)


def clipped(penalty: Penalties, F: Any) -> Any:
    """Return a factor `F` projected onto the box of its penalty."""
    return namespace_of(F).clip(F, penalty.low, penalty.high)


def model_of(Wt: Any, H: Any, rows: slice) -> Any:
    """Return the model of some rows (n_rows, n) from codes `Wt` (r, n_samples) and components `H` (r, n)."""
    return namespace_of(H).matmul(Wt[:, rows].T, H)


# --- HALS -------------------------------------------------------------------------------------------------------------


class Sweeps:
    """HALS sweeps over a factor, by blocks: each change corrects the gradients of those after it in its block."""

    def __init__(self, penalty: Penalties, sweeps: int, *, alternate: bool = False, recorded: bool = True) -> None:
        """Keep the penalty and the sweeps of a call, which a GPU records once as a CUDA graph if `recorded` is true."""
        self.penalty, self.sweeps, self.alternate = penalty, sweeps, alternate
        self._run = Recorded(self._plain) if recorded else self._plain  # `_plain` runs the sweeps

    def __call__(self, F: Any, gram: Any, right: Any, scale: float = 1.0) -> None:
        """Lower ``<F, gram F> / 2 - <right, F> + scale * penalty(F)`` over `F` (r, n_points), in place."""
        xp, penalty = namespace_of(F), self.penalty
        smallest = float(xp.finfo(F.dtype).smallest_normal) / float(xp.finfo(F.dtype).eps)
        used = (xp.linalg.diagonal(gram) >= smallest)[:, None]
        # dividing by the squared norm of a component of (nearly) zero would overflow, so only its penalty counts
        system, right = xp.where(used & used.T, gram, 0 * gram), xp.where(used, right, 0 * right)
        diagonal = xp.linalg.diagonal(system)
        if penalty.shrinks:
            l1, l2 = penalty_weights(penalty, F, scale)
            system = system + xp.eye(F.shape[0], dtype=F.dtype, device=F.device) * l2
            diagonal, right = diagonal + l2[:, 0], right - l1
        moves = diagonal > 0
        inverse = xp.where(moves, 1 / xp.where(moves, diagonal, xp.ones_like(diagonal)), xp.zeros_like(diagonal))
        self._run(F, system, inverse, right, number(penalty.low, F), number(penalty.high, F))

    def _plain(self, F: Any, system: Any, inverse: Any, right: Any, low: Any, high: Any) -> None:
        """Run the sweeps on `F` (r, n_points), in place; `inverse` is that of the diagonal of `system` (r, r)."""
        xp, r = namespace_of(F), F.shape[0]
        size = next((b for b in range(MOST, LEAST, -1) if r % b == 0), MOST)  # equal blocks are compiled once
        blocks = [slice(first, min(first + size, r)) for first in range(0, r, size)]
        forward, backward = compiled(_forward, F), compiled(_backward, F)
        for i in range(self.sweeps):
            back = self.alternate and i % 2 == 1
            for block in reversed(blocks) if back else blocks:
                product = xp.matmul(system[block, :], F)
                F[block, :] = (backward if back else forward)(
                    F[block, :], right[block, :], product, system[block, block], inverse[block], low, high
                )


def _forward(F: Any, right: Any, product: Any, system: Any, inverse: Any, low: Any, high: Any) -> Any:
    """Return a block after an update from the first to the last component; each order is compiled once."""
    return _block(F, right, product, system, inverse, low, high, list(range(F.shape[0])))


def _backward(F: Any, right: Any, product: Any, system: Any, inverse: Any, low: Any, high: Any) -> Any:
    """Return a block after an update from the last to the first component."""
    return _block(F, right, product, system, inverse, low, high, list(range(F.shape[0]))[::-1])


def _block(F: Any, right: Any, product: Any, system: Any, inverse: Any, low: Any, high: Any, order: list[int]) -> Any:
    """Return a block (b, n_points) after an update in this order; `product` is that of `system` with all of `F`."""
    xp = namespace_of(F)
    rows: list[Any] = [None] * len(order)
    moves: dict[int, Any] = {}  # changes of the components before, which `product` does not yet know
    for i in order:
        slope = right[i, :] - product[i, :]
        for j, move in moves.items():
            slope = slope - system[i, j] * move
        rows[i] = xp.clip(F[i, :] + slope * inverse[i], low, high)
        moves[i] = rows[i] - F[i, :]
    return xp.stack(rows)
