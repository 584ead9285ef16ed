"""The numba kernel of conservative learning: every sample changes encoder and decoder as little as it can."""

from __future__ import annotations

from visionnmf._jit import kernel


@kernel(reassociate=True, part=True)
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = a.dtype.type(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@kernel(part=True)
def _encode(E, x, y, change):  # type: ignore[no-untyped-def]
    """Find the codes ``y = max(0, E x)`` and what the encoder's answer falls short of them, ``change = y - E x``."""
    zero = x.dtype.type(0)
    for k in range(E.shape[0]):
        answer = _dot(E[k], x)
        y[k] = answer if answer > zero else zero
        change[k] = y[k] - answer


@kernel(part=True)
def _subtract_model(H, y, residual):  # type: ignore[no-untyped-def]
    """Turn the sample that `residual` holds into ``x - D y``."""
    for k in range(H.shape[0]):
        if y[k] > 0:
            row, code = H[k], y[k]
            for i in range(row.shape[0]):
                residual[i] -= code * row[i]


@kernel(part=True)
def _add_clipped(row, step, residual):  # type: ignore[no-untyped-def]
    zero = row.dtype.type(0)
    for i in range(row.shape[0]):
        value = row[i] + step * residual[i]
        row[i] = value if value > zero else zero


@kernel(part=True)
def _add(row, step, x):  # type: ignore[no-untyped-def]
    for i in range(row.shape[0]):
        row[i] += step * x[i]


@kernel
def conservative_pass(X, E, H, w, x, residual, y, change, pull, errors):  # type: ignore[no-untyped-def]
    """Learn samples one after the other (Elser, "Online Non-negative Matrix Factorization", steps 1 to 11).

    Both changes of the encoder are along the sample, so they are added at once; the multiplier of the codes (step 9) is
    taken with the decoder before its update, as equation 6 has it to leading order.

    Parameters
    ----------
    X : ndarray (n_samples, n_features)
    E : ndarray (n_components, n_features)
        Encoder; updated.
    H : ndarray (n_components, n_features), >= 0
        Decoder, transposed; updated.
    w : float, > 0
        How much dearer a change of the encoder is than one of the decoder.
    x, residual : ndarray (n_features,)
    y, change, pull : ndarray (n_components,)
        Scratch.
    errors : ndarray (n_samples,)
        Receive the norms of the residuals of the samples, which have unit norm, before they are learnt.
    """
    zero, one = X.dtype.type(0), X.dtype.type(1)
    for t in range(X.shape[0]):
        square = 0.0
        for i in range(X.shape[1]):
            square += X[t, i] * X[t, i]
        errors[t] = 0.0
        if square == 0.0:  # reproduced by every model
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
        )  # of eta, in residuals; nothing can be done where no code is positive
        for k in range(H.shape[0]):
            if y[k] > zero and length > zero:
                _add_clipped(H[k], w * length * y[k], residual)
            _add(E[k], change[k] + length * pull[k], x)
