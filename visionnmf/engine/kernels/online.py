"""The numba kernels of online methods that learn one sample after the other."""

import math

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import clipped
from .penalties import project

# --- conservative learning --------------------------------------------------------------------------------------------


@kernel(reassociate=True, part=True)
def _dot(a, b):
    """Return the inner product of `a` and `b` in their own dtype."""
    total = a.dtype.type(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@kernel(part=True)
def _encode(E, x, y, change):
    """Write the codes ``y = max(0, E x)`` and ``change = y - E x``, the part that the clipping adds."""
    zero = x.dtype.type(0)
    for k in range(E.shape[0]):
        answer = _dot(E[k], x)
        y[k] = answer if answer > zero else zero
        change[k] = y[k] - answer


@kernel(part=True)
def _subtract_model(H, y, residual):
    """Subtract the reconstruction ``y @ H`` from `residual` (n,), which holds the sample; `y` (r,), `H` (r, n)."""
    for k in range(H.shape[0]):
        if y[k] > 0:
            row, code = H[k], y[k]
            for i in range(row.shape[0]):
                residual[i] -= code * row[i]


@kernel(part=True)
def _add_clipped(row, step, residual):
    """Add ``step * residual`` to a `row` (n,) of the decoder and clip it at 0, in place; `residual` is (n,)."""
    zero = row.dtype.type(0)
    for i in range(row.shape[0]):
        value = row[i] + step * residual[i]
        row[i] = value if value > zero else zero


@kernel(part=True)
def _add(row, step, x):
    """Add ``step * x``, with the sample `x` (n,), to a `row` (n,) of the encoder, in place."""
    for i in range(row.shape[0]):
        row[i] += step * x[i]


@kernel
def conservative_pass(X, E, H, w, x, residual, y, change, pull, errors):
    """Learn samples one after the other (Elser, "Online Non-negative Matrix Factorization", steps 1 to 11).

    A sample gets the smallest change of encoder `E` and transposed decoder `H`, both (n_components, n_features), that
    makes its codes non-negative and its reconstruction exact to first order. The multiplier of the reconstruction is
    ``eta = length * residual``: the decoder moves by ``w eta y``, and the encoder by ``change + H @ eta`` times the
    sample, in one step. The multiplier of the codes (step 9) uses the decoder before its update, as in equation 6 to
    leading order.
    """
    zero, one = X.dtype.type(0), X.dtype.type(1)
    for t in range(X.shape[0]):
        square = 0.0  # squared norm of the sample
        for i in range(X.shape[1]):
            square += X[t, i] * X[t, i]
        errors[t] = 0.0
        if square == 0.0:  # every model reproduces a sample of zeros
            continue
        scale = X.dtype.type(1.0 / square**0.5)
        for i in range(X.shape[1]):
            x[i] = residual[i] = X[t, i] * scale
        _encode(E, x, y, change)
        _subtract_model(H, y, residual)
        size = _dot(residual, residual)  # squared norm
        errors[t] = size**0.5
        answer = zero  # squared norm of `pull`
        for k in range(H.shape[0]):
            pull[k] = _dot(H[k], residual)
            answer += pull[k] * pull[k]
        cost = answer / size + w * _dot(y, y) if size > zero else zero
        # eta = length * residual; 0 if no code is positive, because nothing can be improved
        length = one / cost if cost > zero else zero
        for k in range(H.shape[0]):
            if y[k] > zero and length > zero:
                _add_clipped(H[k], w * length * y[k], residual)
            _add(E[k], change[k] + length * pull[k], x)


# --- robust stochastic approximation ----------------------------------------------------------------------------------


@kernel(reassociate=True, allocates=True)
def robust_approximation(
    H, mean, X, W, M, order, length, tolerance, most, largest, l2, low, high, on_simplex, is_itakura, floor
):
    """Run stochastic gradient descent on `H` (r, n) with averaged iterates (Guan et al. 2012, Algorithm 2).

    `mean` equals `H` on entry and receives the average of the iterates, each weighted by the length of the step that
    leaves it. `X` and `W` (size, r) hold the samples and their codes, visited cyclically in `order` (size,). Step k has
    the size `length` (theta times the diameter D) divided by the largest gradient norm so far, `largest`, and by
    sqrt(k). It stops when the relative change of the average is at most `tolerance`. Return the largest gradient norm
    and the number of steps.
    """
    r, n = H.shape
    error = np.empty(n, H.dtype)  # the model of a sample, then the derivative with respect to it
    total = 0.0  # sum of the step lengths
    for step in range(1, most + 1):
        j = order[(step - 1) % order.shape[0]]
        x, w = X[j], W[j]
        for i in range(n):
            error[i] = 0
        for k in range(r):
            if w[k] != 0:
                for i in range(n):
                    error[i] += w[k] * H[k, i]
        size = 0.0
        for i in range(n):
            p = error[i]
            if is_itakura:
                p = p if p > floor else floor
                error[i] = (p - x[i]) / (p * p)
            else:
                error[i] = p - x[i]
            if M is not None:
                error[i] *= M[j, i]
            size += error[i] * error[i]
        # the gradient is the outer product of w and error plus l2 H; `square` becomes its squared norm
        square = 0.0
        for k in range(r):
            square += w[k] * w[k]
        square *= size
        if l2 > 0:
            for k in range(r):
                for i in range(n):
                    square += l2 * H[k, i] * (2 * w[k] * error[i] + l2 * H[k, i])
        norm = math.sqrt(square) if square > 0 else 0.0
        largest = norm if norm > largest else largest
        if largest == 0:
            break  # all gradients so far are zero
        rate = length / (largest * math.sqrt(step))
        total += rate
        share = rate / total  # the weight of this iterate in the average
        moved, whole = 0.0, 0.0  # squared norms of the change of the average and of the average before
        for k in range(r):
            for i in range(n):
                change = share * (H[k, i] - mean[k, i])
                whole += mean[k, i] * mean[k, i]
                moved += change * change
                mean[k, i] += change
            if w[k] != 0 or l2 > 0:  # otherwise the gradient of this component is 0
                for i in range(n):
                    H[k, i] -= rate * (w[k] * error[i] + l2 * H[k, i])
                if on_simplex:  # project the part above `low` onto a smaller simplex
                    left = 1 - n * low[k, 0]
                    for i in range(n):
                        H[k, i] = (H[k, i] - low[k, 0]) / left
                    project(H[k])
                    for i in range(n):
                        H[k, i] = low[k, 0] + left * H[k, i]
                else:
                    for i in range(n):
                        H[k, i] = clipped(H[k, i], low[k, i], high[k, i])
        if step > 1 and moved <= tolerance * tolerance * whole:
            return largest, step
    return largest, most
