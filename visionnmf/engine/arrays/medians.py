"""Codes of the Manhattan loss and the elastic net by weighted medians, on a device (:mod:`..solvers.rri`).

Each code in turn moves to its exact minimiser, in all rows at once. Of an interval of minimisers the nearest point is
taken. The kernel selects the median; here a search over the step finds it, which reads the residuals a few times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visionnmf.engine.kernels.manhattan import sum_rounding
from visionnmf.engine.problem import Problem

from .namespace import compiled, moved, namespace_of, numpy_dtype

PARTS = 8  # into which the search for a median cuts an interval,
ROUNDS = 4  # and how often, before it goes from one jump to the next


def polish(problem: Problem, Wt: Any, H: Any, *, sweeps: int) -> None:
    """Lower the weighted Manhattan or elastic-net loss over the codes `Wt` (r, n_rows), in place.

    The elastic-net loss of a residual e is ``|e| + alpha / 2 e^2``. A row is swept at most `sweeps` times, until a
    sweep changes nothing. :class:`_Rows` has the data and codes of the rows that are still `active`, and `spread` puts
    what belongs to these back in their places among all rows.
    """
    xp = namespace_of(H)
    active = xp.max(problem.X, axis=1) >= 0  # all rows: data are >= 0, and so the mask is made on their device
    for _ in range(sweeps):
        places = xp.nonzero(active)[0]
        if not places.shape[0]:
            return
        rows = _Rows(problem, places, xp.take(Wt, places, axis=1), H)
        for k in range(H.shape[0]):
            rows.update(k)  # moves code k of these rows to its minimiser
        Wt[:, :] = xp.where(active, spread(rows.codes.T, active).T, Wt)
        active = active & spread(rows.moved, active)


def spread(values: Any, mask: Any) -> Any:
    """Return the rows of `values`, one for each true entry of `mask` (n_rows,), at these entries of n_rows rows.

    The other rows hold copies of some of them, for the caller to replace; the array API has no other way.
    """
    xp = namespace_of(values)
    places = xp.cumulative_sum(xp.asarray(mask, dtype=xp.int64)) - 1
    return xp.take(values, xp.clip(places, 0, None), axis=0)


def _compiled(function: Any, like: Any) -> Any:
    """Return a function of rows, compiled for any number of them, because this changes from sweep to sweep.

    It stays as it is unless the array `like` is on a GPU, where PyTorch can compile it.
    """
    return compiled(function, like, sizes_change=True)


class _Rows:
    """Some rows of a problem during a sweep: their residuals (n_rows, n), codes (r, n_rows), and which have moved."""

    def __init__(self, problem: Problem, places: Any, codes: Any, H: Any) -> None:
        """Compute the residuals of the rows at `places`, from their `codes` (r, n_rows) and the components `H`."""
        xp = namespace_of(H)
        X = xp.take(problem.X, places, axis=0)
        self.codes, self.H, self.penalty = codes, H, problem.penalty_W
        self.M = None if problem.weights is None else xp.take(problem.weights, places, axis=0)
        self.alpha = problem.loss.parameter if problem.loss.name == "elastic-net" else 0.0
        self.residual = X - xp.matmul(codes.T, H)
        self.eps = sum_rounding(numpy_dtype(H))  # of a sum over a row, relative
        self.tiny = 4 * self.eps * xp.max(xp.abs(X), axis=1, keepdims=True)  # smaller residuals count as 0
        self.moved = X[:, 0] < 0  # rows with a code that has changed; none yet, because data are >= 0
        l1, l2 = self.penalty.weights(H.shape[0], np.float64)
        self.l1, self.l2 = l1.tolist(), l2.tolist()

    def update(self, k: int) -> None:
        """Move code k of all rows to its minimiser, and update the residuals with it.

        With the residuals e of a row, its code x and the coefficients a of component k, weighted by m, that is the
        minimum of ``sum_j m_j (|e_j| + alpha / 2 e_j^2) + l1 x + l2 / 2 x^2``; `alpha` is 0 for the Manhattan loss.
        """
        xp, a, x = namespace_of(self.H), self.H[k, :], self.codes[k, :]
        # sums of the weights m a where residuals are above 0, below 0 and in all; and, with which the square of the
        # elastic net enters the derivatives, of m a e and m a^2
        above, below, total, pull, squares = _compiled(_sums, a)(self.residual, a, self.M, self.tiny)
        at_zero = xp.clip(total - above - below, 0.0, None)
        slope, curvature = self.l1[k] + self.l2[k] * x, self.l2[k] + 0 * x
        if self.alpha:
            slope, curvature = slope - self.alpha * pull, curvature + self.alpha * squares
        # the one-sided derivatives at the codes; the objective falls on one side at most
        to_right, to_left = slope + below - above + at_zero, slope + below - above - at_zero
        rounding = self.eps * total
        right = (to_right < -rounding) & (x < self.penalty.high)
        moving = right | ((to_left > rounding) & (x > self.penalty.low))
        if not bool(xp.any(moving)):
            return
        sign = xp.where(right, xp.ones_like(x), -xp.ones_like(x))
        slope = xp.where(right, to_right, -to_left)
        line = _Line(self.residual, sign[:, None], a, self.M, self.tiny)
        new = xp.clip(x + sign * line.root(slope, curvature, rounding, moving), self.penalty.low, self.penalty.high)
        # the quotient overflows if the coefficients are tiny
        new = xp.where(moving & xp.isfinite(new), new, x)
        self.residual = _compiled(_moved, a)(self.residual, a, new - x)
        self.moved = self.moved | (new != x)
        # last, because `x` may be a view of it
        self.codes[k, :] = new


def _sums(E: Any, a: Any, M: Any, tiny: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return sums over each row (n_rows,): the weights where residuals are above 0, below 0, and everywhere.

    The weights are the coefficients `a` (n,) times the entry weights `M`, or None. The last two results are the sums of
    the weights times the residuals and times the coefficients. Residuals up to `tiny` count as 0.
    """
    xp = namespace_of(E)
    weights = a + xp.zeros_like(E) if M is None else M * a
    zero = xp.zeros_like(E)
    sides = xp.where(tiny < E, weights, zero), xp.where(-tiny > E, weights, zero)
    parts = (*sides, weights, weights * E, weights * a)
    above, below, total, pull, squares = (xp.sum(part, axis=1) for part in parts)
    return above, below, total, pull, squares


def _moved(E: Any, a: Any, change: Any) -> Any:
    """Return the residuals `E` (n_rows, n) after the code with the coefficients `a` (n,) changed by `change`."""
    return E - change[:, None] * a


def _steps(E: Any, sign: Any, a: Any, M: Any, tiny: Any) -> tuple[Any, Any]:
    """Return the steps of a code at which each residual becomes 0, infinite if it does not, and the jumps there.

    All are (n_rows, n). A step takes one code of each row up or down with `sign` (n_rows, 1), which changes its
    residuals to ``E - sign * step * a`` with the coefficients `a` (n,) >= 0. Where one becomes 0, the derivative of the
    loss jumps by twice the weight, `a` times the entry weight in `M` (None: 1). Residuals up to `tiny` are 0 already.
    """
    xp = namespace_of(E)
    weights = a + xp.zeros_like(E) if M is None else M * a
    ahead = sign * E  # how far each residual is from 0 in this direction; negative if the step leads away from it
    valid = (tiny < ahead) & (weights > 0)
    steps = ahead / xp.where(valid, a + xp.zeros_like(E), xp.ones_like(E))
    return xp.where(valid, steps, xp.zeros_like(E) + np.inf), xp.where(valid, 2 * weights, xp.zeros_like(E))


def _furthest(E: Any, sign: Any, a: Any, M: Any, tiny: Any) -> Any:
    """Return the largest finite step of each row (n_rows,), 0 where there is none.

    A step takes a code up or down with `sign` (n_rows, 1) until a residual, ``E - sign * step * a``, becomes 0.
    Residuals up to `tiny` count as 0. `a` (n,) are the coefficients of the code, and `M` the weights of the entries, or
    None.
    """
    xp = namespace_of(E)
    steps = _steps(E, sign, a, M, tiny)[0]
    return xp.max(xp.where(steps < np.inf, steps, xp.zeros_like(steps)), axis=1)


def _reached(E: Any, sign: Any, a: Any, M: Any, tiny: Any, places: Any) -> Any:
    """Return for each of the `places` (n_rows, m) the sum of the jumps at steps up to there.

    Along a code, the weighted absolute residuals ``|E - sign * step * a|`` have a kink at each step where a residual
    becomes 0, and their derivative jumps there. Residuals up to `tiny` count as 0. `a` (n,) are the coefficients of
    the code, and `M` the weights of the entries, or None.
    """
    xp = namespace_of(E)
    steps, jumps = _steps(E, sign, a, M, tiny)
    zero = xp.zeros_like(jumps)
    sums = [xp.sum(xp.where(steps <= places[:, i : i + 1], jumps, zero), axis=1) for i in range(places.shape[1])]
    return xp.stack(sums, axis=1)


def _next(E: Any, sign: Any, a: Any, M: Any, tiny: Any, place: Any) -> tuple[Any, Any]:
    """Return the first step beyond `place` (n_rows,), infinite if there is none, and the sum of the jumps there.

    Along a code, the weighted absolute residuals ``|E - sign * step * a|`` have a kink at each step where a residual
    becomes 0, and their derivative jumps there. Residuals up to `tiny` count as 0. `a` (n,) are the coefficients of
    the code, and `M` the weights of the entries, or None.
    """
    xp = namespace_of(E)
    steps, jumps = _steps(E, sign, a, M, tiny)
    first = xp.min(xp.where(steps > place[:, None], steps, xp.zeros_like(steps) + np.inf), axis=1)
    return first, xp.sum(xp.where(steps == first[:, None], jumps, xp.zeros_like(jumps)), axis=1)


class _Line:
    """The derivative of each row's loss along one code: it begins negative, and jumps where residuals become 0."""

    def __init__(self, *rows: Any) -> None:
        """Keep residuals, the sign of the step, coefficients, weights or None, and the residuals that count as 0."""
        self.rows = rows

    def root(self, slope: Any, curvature: Any, rounding: Any, moving: Any) -> Any:
        """Return the step of a code at which the derivative of each row's loss reaches 0; infinite where it never does.

        The derivative begins at `slope` and rises by `curvature` a unit besides its jumps. A search cuts the interval
        that holds the root into parts, until few jumps are left in it, and then goes from one to the next. Rows that
        are not `moving` do not matter; `rounding` is the error of sums. ``reached(*self.rows, places)`` returns the
        sums of the jumps up to some places, and ``following(*self.rows, low)`` the place and the size of the next jump.
        `moved` copies numbers to the device of the data.
        """
        xp, like = namespace_of(slope), slope
        reached, following = _compiled(_reached, like), _compiled(_next, like)
        low, high = xp.zeros_like(slope), _compiled(_furthest, like)(*self.rows)
        value = slope  # the derivative after the jump at `low`, without the curvature
        shares = moved(8.0 ** np.arange(1 - PARTS, 1), slope)  # the jumps lie densest near 0
        for _ in range(ROUNDS):
            places = low[:, None] + shares * (high - low)[:, None]
            values = slope[:, None] + reached(*self.rows, places)
            before = values + curvature[:, None] * places < 0
            count = xp.sum(xp.asarray(before, dtype=xp.int64), axis=1, keepdims=True)
            last, after = xp.clip(count - 1, 0, None), xp.clip(count, None, PARTS - 1)
            some, inside = (count > 0)[:, 0], (count < PARTS)[:, 0]
            low = xp.where(some, xp.take_along_axis(places, last, axis=1)[:, 0], low)
            value = xp.where(some, xp.take_along_axis(values, last, axis=1)[:, 0], value)
            high = xp.where(inside, xp.take_along_axis(places, after, axis=1)[:, 0], high)
            shares = moved(np.arange(1, PARTS + 1) / PARTS, slope)
        curved = curvature > 0
        bend = xp.where(curved, curvature, xp.ones_like(curvature))
        result, open_ = xp.zeros_like(slope), moving
        while bool(xp.any(open_)):
            step, jump = following(*self.rows, low)
            finite = step < np.inf
            straight = xp.maximum(low, -value / bend)  # the root if no jump comes first
            linear = curved & (straight < step)
            over = finite & ~linear & (value + jump + curvature * xp.where(finite, step, low) >= 0)
            # beyond the last jump a derivative that is 0 up to rounding ends there
            end = xp.where(value >= -rounding, low, xp.zeros_like(low) + np.inf)
            done = open_ & (linear | over | ~finite)
            result = xp.where(done, xp.where(linear, straight, xp.where(over, step, end)), result)
            open_ = open_ & ~done
            low, value = xp.where(open_, step, low), xp.where(open_, value + jump, value)
        return result
