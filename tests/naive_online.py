"""Online methods as loops, from the formulas of the papers; samples are rows, so components are the papers' columns.

Guan, Tao, Luo & Yuan (2012) for OR-NMF and their summaries of OMF (equations 44, 45), INMF (39, 40) and ONMF-IS (38).
"""

import math

import numpy as np
from scipy.optimize import nnls


def on_simplex(v):
    """The nearest point with entries >= 0 that add up to 1: sort, find the level (Duchi et al. 2008, Figure 1)."""
    falling = sorted(v, reverse=True)
    level, total = 0.0, 0.0
    for j, value in enumerate(falling, start=1):
        total += value
        if value - (total - 1) / j > 0:
            level = (total - 1) / j
    return np.array([max(value - level, 0.0) for value in v])


def codes(X, H, l1=0.0, l2=0.0):
    """Non-negative least squares, each sample by itself; the penalties as further rows of the system."""
    found = []
    for x in X:
        if not l1 and not l2:
            found.append(nnls(H.T, x)[0])
        else:  # min |H'w - x|^2 / 2 + l1 sum w + l2 |w|^2 / 2, by coordinate descent to the end
            w = np.zeros(len(H))
            for _ in range(20000):
                before = w.copy()
                for k in range(len(H)):
                    slope = H[k] @ (w @ H - x) + l1 + l2 * w[k]
                    w[k] = max(0.0, w[k] - slope / (H[k] @ H[k] + l2))
                if np.abs(w - before).max() < 1e-14:
                    break
            found.append(w)
    return np.array(found)


def itakura_codes(x, h, H, iterations=200000):
    """The multiplicative rule below equation 33, until it rests."""
    for _ in range(iterations):
        p = h @ H
        new = h * (H @ (x / p**2)) / (H @ (1 / p))
        if np.abs(new - h).max() < 1e-13:
            break
        h = new
    return h


def surrogate(H, A, B, X, W, project, rounds):
    """OMF: add to the sums, then equation 45 for one component after the other."""
    for x, w in zip(X, W, strict=True):
        A += np.outer(w, w)
        B += np.outer(w, x)
    for _ in range(rounds):
        for j in range(len(H)):
            H[j] = project(H[j] - (A[j] @ H - B[j]) / A[j, j])


def update_basis(H, samples, weights, order, theta, diameter, largest, project, gradient, tolerance=1e-3):
    """Algorithm 2 of Guan et al.; returns the average, the largest gradient norm so far, and all iterates and steps."""
    way, steps = [H.copy()], []
    average = H.copy()
    k = 1
    while True:
        j = order[(k - 1) % len(order)]
        g = gradient(way[-1], samples[j], weights[j])
        largest = max(largest, math.sqrt((g**2).sum()))
        steps.append(theta * diameter / (largest * math.sqrt(k)))
        new_average = sum(r * W for r, W in zip(steps, way, strict=True)) / sum(steps)
        moved = way[-1] - steps[-1] * g
        way.append(project(moved))
        change = np.linalg.norm(new_average - average) / np.linalg.norm(average)
        average = new_average
        k += 1
        if k > 2 and change <= tolerance:  # the first average is where the way begins
            return average, largest, way, steps


def or_nmf(X, H, rng, *, horizon, buffer, project, diameter, find_codes, gradient, window=1):
    """Algorithms 1 and 3 with one sample at a time, or the windows of equation 27."""
    samples, weights, largest = [], [], 0.0
    for t in range(1, len(X) // window + 1):
        new = X[(t - 1) * window : t * window]
        samples.extend(new)
        weights.extend([find_codes(x, H) for x in new])
        if buffer is not None and t > buffer:
            del samples[:window], weights[:window]
        theta = 0.1 * math.cos((t - 1) * math.pi / (2 * horizon))
        order = rng.permutation(len(samples))
        H, largest, _, _ = update_basis(H, samples, weights, order, theta, diameter, largest, project, gradient)
    return H, largest


def incremental(H, A, B, x, h, S_old, iterations):
    """INMF, equation 40, with S_new = 1."""
    for _ in range(iterations):
        h = h * (H @ x) / (H @ H.T @ h)
        above = S_old * B + np.outer(h, x)
        below = (S_old * A + np.outer(h, h)) @ H
        H = H * above / below
    return H, h


def volume(X, H, *, updates, strength, decay, memory):
    """INMF-VC: for each sample h with W fixed, then W, by the multiplicative rules of equations 41 and 42."""
    n = len(H)
    A, B = np.zeros((n, n)), np.zeros((n, n))
    for t, x in enumerate(X, 1):
        w = np.ones(n)
        for _ in range(updates):
            model = w @ H
            w = np.array([w[k] * (H[k] @ x) / (H[k] @ model) for k in range(n)])
        beta = min(memory / t, 1)
        A, B = (1 - beta) * A + beta * np.outer(w, w), (1 - beta) * B + beta * np.outer(w, x)
        G, below = strength * math.exp(-decay * t) * np.linalg.inv(H.T), A @ H
        H = np.array(
            [
                [H[k, i] * (B[k, i] + max(-G[k, i], 0)) / (below[k, i] + max(G[k, i], 0)) for i in range(n)]
                for k in range(n)
            ]
        )
    return H


def onmf_is(H, A, B, X, W, forget):
    """ONMF-IS, below equation 38, with forgetting: sums, then the root of their quotient."""
    A, B = forget * A, forget * B
    for x, w in zip(X, W, strict=True):
        p = w @ H
        for k in range(len(H)):
            for i in range(H.shape[1]):
                A[k, i] += w[k] * x[i] / p[i] ** 2 * H[k, i] ** 2
                B[k, i] += w[k] / p[i]
    return np.sqrt(A / B), A, B


def omf(X, H, update):
    """Equations 44 and 45, or the updates of section IV.F: one sample after the other, each until nothing changes."""
    A, B = np.zeros((len(H), len(H))), np.zeros_like(H)
    for x in X:
        w = nnls(H.T, x)[0]
        A += np.outer(w, w)
        B += np.outer(w, x)
        for _ in range(200):
            before, H = H, update(H, A, B)
            if np.linalg.norm(H - before) <= 1e-9 * np.linalg.norm(before):
                break
    return H


def omf_update(H, A, B):
    """Equation 45."""
    H = H.copy()
    for j in range(len(H)):
        if A[j, j] > 0:
            H[j] = on_simplex(H[j] - (A[j] @ H - B[j]) / A[j, j])
    return H


def conjugate_update(H, A, B):
    """OMF-CG (section IV.F): the Newton step, by conjugate gradients from 0."""
    step = np.zeros_like(H)
    for i in range(H.shape[1]):
        residual = A @ H[:, i] - B[:, i]
        direction, first = residual, residual @ residual
        for _ in range(3 * len(H)):  # more than a system needs
            size, image = residual @ residual, A @ direction
            if size <= 1e-24 * first:
                break
            step[:, i] += size / (direction @ image) * direction
            residual = residual - size / (direction @ image) * image
            direction = residual + residual @ residual / size * direction
    return np.array([on_simplex(row) for row in H - step])


def diagonal_update(H, A, B):
    """OMF-DA (section IV.F)."""
    steps = [(A[j] @ H - B[j]) / A[j, j] if A[j, j] > 0 else 0 for j in range(len(H))]
    return np.array([on_simplex(row - step) for row, step in zip(H, steps, strict=True)])


def onmf(chunks, H, rounds):
    """ONMF, equations 35 to 37, whose codes of all samples are kept; the factorisation by least squares in turn."""
    past = np.zeros((0, len(H)))
    for X in chunks:
        sizes = np.array([np.sqrt(sum(past[:, k] ** 2)) for k in range(len(H))])
        stacked = np.concatenate([sizes[:, None] * H, X])
        for _ in range(rounds):
            W = codes(stacked, H)
            H = codes(stacked.T, W.T).T
        past = past / np.where(sizes > 0, sizes, 1) @ W[: len(H)]
        past = np.concatenate([past, W[len(H) :]])
        norms = np.array([np.sqrt(sum(row**2)) for row in H])  # scales are free
        H, past = H / norms[:, None], past * norms
    return H, past
