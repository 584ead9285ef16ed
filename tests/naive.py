"""Slow, obvious versions of the formulas: what the kernels are compared with."""

from itertools import pairwise

import numpy as np
from scipy.optimize import brentq, linprog, minimize


def objective_1d(x, a, z, c, s=0.0, b=0.0, d=0.0):
    """``sum_i c_i |a_i x - z_i| + s x + b (x - d)^2``."""
    return sum(ci * abs(ai * x - zi) for ai, zi, ci in zip(a, z, c, strict=True)) + s * x + b * (x - d) ** 2


def minimise_1d(a, z, c, s=0.0, b=0.0, d=0.0, low=0.0, high=np.inf):
    """All minimisers of the one-dimensional problem, as (value, lowest x, highest x), by trying every candidate."""
    points = sorted({zi / ai for ai, zi, ci in zip(a, z, c, strict=True) if ai > 0 and ci > 0})
    candidates = [p for p in points if low <= p <= high] + [low] + ([high] if np.isfinite(high) else [])
    if b > 0:  # the stationary point of each linear piece
        edges = [-np.inf, *points, np.inf]
        for left, right in pairwise(edges):
            slope = s
            for ai, zi, ci in zip(a, z, c, strict=True):
                if ai > 0 and ci > 0:
                    slope += ci * ai * (1 if zi / ai <= left else -1)
            x = d - slope / (2 * b)
            if left <= x <= right and low <= x <= high:
                candidates.append(x)
    values = [objective_1d(x, a, z, c, s, b, d) for x in candidates]
    best = min(values)
    tie = 0 if b > 0 else 1e-12 * (1 + abs(best))  # a parabola has one minimiser, next to which it is flat
    optimal = [x for x, v in zip(candidates, values, strict=True) if v <= best + tie]
    return best, min(optimal), max(optimal)


def rri_row(x, f, A, low=0.0, high=np.inf, c=None):
    """One sweep of coordinate descent over the codes of one row (Guan et al. 2012, Algorithm 1)."""
    f = f.copy()
    c = np.ones(len(x)) if c is None else c
    for k in range(len(f)):
        z = x - sum(f[m] * A[m] for m in range(len(f)) if m != k)
        if not (A[k] * c > 0).any():
            continue
        _, lowest, highest = minimise_1d(A[k], z, c, low=low, high=high)
        f[k] = min(max(f[k], lowest), highest)  # the minimiser nearest to the old value
    return f


def symmetric_objective(S, H, c):
    total = 0.0
    for i in range(len(S)):
        for j in range(len(S)):
            if i != j:
                total += c[i] * c[j] * abs(S[i, j] - H[:, i] @ H[:, j])
    return total


def symmetric_sweep(S, H, c):
    """Two passes over each node's codes, nodes in order, diagonal left out."""
    H = H.copy()
    for j in range(len(S)):
        weights = np.array([0.0 if i == j else c[i] for i in range(len(S))])
        for _ in range(2):
            H[:, j] = rri_row(S[j], H[:, j], H.copy(), c=weights)
    return H


def hals(F, G, B, low, high, ridge, sweeps, alternate=False):
    F = F.copy()
    for sweep in range(sweeps):
        order = range(F.shape[0])[:: -1 if alternate and sweep % 2 else 1]
        for i in range(F.shape[1]):
            for k in order:
                if G[k, k] + ridge > 0:
                    gradient = sum(G[k, m] * F[m, i] for m in range(F.shape[0])) + ridge * F[k, i] - B[k, i]
                    F[k, i] = min(max(F[k, i] - gradient / (G[k, k] + ridge), low), high)
    return F


def least_absolute_deviations(x, H, low=0.0, high=None):
    """``min_w |x - w H|_1`` over a box, by linear programming."""
    r, n = H.shape
    cost = np.r_[np.zeros(r), np.ones(2 * n)]
    equal = np.hstack([H.T, np.eye(n), -np.eye(n)])
    solution = linprog(cost, A_eq=equal, b_eq=x, bounds=[(low, high)] * r + [(0, None)] * (2 * n), method="highs")
    return solution.fun


def least_on_simplex(value, *starts):
    """The least ``value(w)`` of ``w >= 0`` that sum to 1, by sequential quadratic programming."""
    one = {"type": "eq", "fun": lambda w: w.sum() - 1}
    options = {"method": "SLSQP", "constraints": one, "options": {"maxiter": 1000, "ftol": 1e-13}}
    return min(minimize(value, start, bounds=[(0, 1)] * len(start), **options).fun for start in starts)


def kullback_leibler(X, P):
    """``sum x log(x / p) - x + p`` with 0 log 0 = 0."""
    total = 0.0
    for x, p in zip(np.ravel(X), np.ravel(P), strict=True):
        total += p - x + (x * np.log(x / max(p, 1e-300)) if x > 0 else 0.0)
    return total


def huber(X, P, delta):
    e = np.abs(X - P)
    return np.where(e <= delta, e**2 / 2, delta * (e - delta / 2)).sum()


def beta_divergence(X, P, beta):
    return ((X**beta + (beta - 1) * P**beta - beta * X * P ** (beta - 1)) / (beta * (beta - 1))).sum()


# value(X, P, parameter)
LOSSES = {
    "manhattan": lambda X, P, _: np.abs(X - P).sum(),
    "frobenius": lambda X, P, _: ((X - P) ** 2).sum() / 2,
    "kullback-leibler": lambda X, P, _: kullback_leibler(X, P),
    "itakura-saito": lambda X, P, _: (X / P - np.log(X / P) - 1).sum(),
    "beta": beta_divergence,
    "elastic-net": lambda X, P, alpha: (np.abs(X - P) + alpha / 2 * (X - P) ** 2).sum(),
    "l21": lambda X, P, _: np.sqrt(((X - P) ** 2).sum(axis=1)).sum(),
    "huber": huber,
}


def conservative_step(E, D, x, w):
    """One update of Elser's conservative learning, steps 1 to 11 of his summary; samples are columns.

    `xi` of step 9 is that of equation 6, with the decoder before step 8. Returns encoder, decoder and the error.
    """
    x = x / np.sqrt(sum(value * value for value in x))
    f, n = E.shape
    y0 = [sum(E[k, i] * x[i] for i in range(n)) for k in range(f)]
    y1 = [max(0, value) for value in y0]
    E = np.array([[E[k, i] + (y1[k] - y0[k]) * x[i] for i in range(n)] for k in range(f)])
    x1 = [sum(D[i, k] * y1[k] for k in range(f)) for i in range(n)]
    delta = [x[i] - x1[i] for i in range(n)]
    pulled = [sum(D[i, k] * delta[i] for i in range(n)) for k in range(f)]
    norm = sum(value * value for value in delta)
    if norm == 0:
        return E, D, 0.0
    denominator = sum(value * value for value in pulled) / norm + w * sum(value * value for value in y1)
    if denominator == 0:  # no code is positive, and no component can be pulled
        return E, D, np.sqrt(norm)
    eta = [value / denominator for value in delta]
    xi = [sum(D[i, k] * eta[i] for i in range(n)) for k in range(f)]
    D = np.array([[D[i, k] + w * eta[i] * y1[k] for k in range(f)] for i in range(n)])
    E = np.array([[E[k, i] + xi[k] * x[i] for i in range(n)] for k in range(f)])
    return E, np.maximum(0, D), np.sqrt(norm)


def principal_component_pursuit(X, weight, rounds=5_000):
    """Minimise ``|L|_* + weight |S|_1`` under ``X = L + S``: ADMM of a constant penalty; returns L, S and the dual."""
    penalty = X.size / (4 * np.abs(X).sum())
    S, dual = np.zeros_like(X), np.zeros_like(X)
    for _ in range(rounds):
        left, values, right = np.linalg.svd(X - S + dual / penalty, full_matrices=False)
        L = left @ np.diag(np.maximum(values - 1 / penalty, 0)) @ right
        T = X - L + dual / penalty
        S = np.sign(T) * np.maximum(np.abs(T) - weight / penalty, 0)
        dual = dual + penalty * (X - L - S)
    return X - S, S, dual


def godec(X, rank, count, rounds=500):
    """Return ``|X - L - S|_F`` after alternating exact projections."""
    S = np.zeros_like(X)
    for _ in range(rounds):
        left, values, right = np.linalg.svd(X - S, full_matrices=False)
        L = left[:, :rank] @ np.diag(values[:rank]) @ right[:rank]
        order = np.argsort(-np.abs(X - L), axis=None)[:count]
        S = np.zeros_like(X)
        S.flat[order] = (X - L).flat[order]
    return np.linalg.norm(X - L - S)


def least_absolute_codes(x, H):
    """Minimise ``|x - c H|_1`` as a linear program."""
    r, m = H.shape
    both = np.block([[-H.T, -np.eye(m)], [H.T, -np.eye(m)]])
    bounds = [(None, None)] * r + [(0, None)] * m
    return linprog(np.r_[np.zeros(r), np.ones(m)], A_ub=both, b_ub=np.r_[-x, x], bounds=bounds).x[:r]


def water_level(v, radius):
    """The level by bisection."""
    return brentq(lambda t: np.maximum(v - t, 0).sum() - radius, v.max() - radius - 1, v.max(), xtol=1e-13)


def l1_inf_by_bisection(V, radius):
    """The projection onto the l1,inf ball by two nested bisections on the KKT conditions (Quattoni et al. 2009)."""
    if V.max(axis=1).sum() <= radius:
        return V

    def cut(theta):
        # a row that holds no more than theta vanishes
        if theta == 0:
            return V
        levels = [water_level(v, theta) if v.sum() > theta else 0.0 for v in V]
        return np.minimum(V, np.maximum(levels, 0)[:, None])

    theta = brentq(lambda t: cut(t).max(axis=1).sum() - radius, 0, V.sum(), xtol=1e-13)
    return cut(theta)
