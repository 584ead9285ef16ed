"""The numba kernel of conservative learning, which changes encoder and decoder minimally for each sample."""

from __future__ import annotations

from visionnmf._jit import kernel


@kernel(reassociate=True, part=True)
def _dot(a, b):  # type: ignore[no-untyped-def]
    """Return the inner product of `a` and `b` in their own dtype."""
    total = a.dtype.type(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@kernel(part=True)
def _encode(E, x, y, change):  # type: ignore[no-untyped-def]
    """Write the codes ``y = max(0, E x)`` and ``change = y - E x``, the part that the clipping adds."""
    zero = x.dtype.type(0)
    for k in range(E.shape[0]):
        answer = _dot(E[k], x)
        y[k] = answer if answer > zero else zero
        change[k] = y[k] - answer


@kernel(part=True)
def _subtract_model(H, y, residual):  # type: ignore[no-untyped-def]
    """Subtract the reconstruction ``y @ H`` from `residual`, which holds the sample."""
    for k in range(H.shape[0]):
        if y[k] > 0:
            row, code = H[k], y[k]
            for i in range(row.shape[0]):
                residual[i] -= code * row[i]


@kernel(part=True)
def _add_clipped(row, step, residual):  # type: ignore[no-untyped-def]
    """Add ``step * residual`` to a row of the decoder and clip it at 0."""
    zero = row.dtype.type(0)
    for i in range(row.shape[0]):
        value = row[i] + step * residual[i]
        row[i] = value if value > zero else zero


@kernel(part=True)
def _add(row, step, x):  # type: ignore[no-untyped-def]
    """Add ``step * x`` to a row of the encoder."""
    for i in range(row.shape[0]):
        row[i] += step * x[i]


@kernel
def conservative_pass(X, E, H, w, x, residual, y, change, pull, errors):  # type: ignore[no-untyped-def]
    """Learn samples one after the other (Elser, "Online Non-negative Matrix Factorization", steps 1 to 11).

    `X` (n_samples, n_features) holds the samples, which are scaled to unit norm. The encoder `E` and the transposed
    decoder `H` >= 0, both (n_components, n_features), are updated in place. `w` > 0 is the cost of changing the encoder
    relative to the decoder. `errors` (n_samples,) receives the residual norm of each scaled sample before it is learnt.
    `x`, `residual` (n_features,) and `y`, `change`, `pull` (n_components,) are scratch. Both changes of the encoder are
    multiples of the sample, so they are added in one step. The multiplier of the codes (step 9) uses the decoder before
    its update, as in equation 6 to leading order.
    """
    zero, one = X.dtype.type(0), X.dtype.type(1)
    for t in range(X.shape[0]):
        square = 0.0
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
        size = _dot(residual, residual)
        errors[t] = size**0.5
        answer = zero
        for k in range(H.shape[0]):
            pull[k] = _dot(H[k], residual)
            answer += pull[k] * pull[k]
        cost = answer / size + w * _dot(y, y) if size > zero else zero
        length = (
            one / cost if cost > zero else zero
        )  # eta = length * residual; 0 if no code is positive, because nothing can be improved
        for k in range(H.shape[0]):
            if y[k] > zero and length > zero:
                _add_clipped(H[k], w * length * y[k], residual)
            _add(E[k], change[k] + length * pull[k], x)
