"""Algorithms as loops, from the pages of the papers, with data as rows: codes `W` and components `H`, ``X ~ W H``."""

import numpy as np
from naive import minimise_1d
from scipy.optimize import nnls

# --- MahNMF (Guan, Tao, Luo & Shawe-Taylor 2012) ----------------------------------------------------------------------


def clipped(F, step):
    """The projection of section 3."""
    return np.maximum(F, 0)


def smoothing_half(x, A, F, width, laplacian=None, *, alpha=0.0, prox=clipped, cost=lambda F: 0.0, steps=None):
    """Algorithm 2 for ``x ~ A' F`` (samples are columns), with the stop of equation 22, or a number of steps.

    With a graph (4.2), the elastic net of `alpha` (4.4), or the ``prox(F, step)`` of a box (4.1) or of groups (4.3),
    which have a `cost`.
    """
    q = np.array([np.sqrt(sum(a * a for a in column)) for column in A.T])
    L = np.zeros((F.shape[1],) * 2) if laplacian is None else laplacian
    curvature = sum(q) / width + np.linalg.norm(L, 2) + alpha * np.linalg.norm(A @ A.T, 2)
    precision = min(0.1, F.shape[1] * sum(q) * width / 2)

    def smoothed(F):
        tau = np.abs(A.T @ F - x) / q[:, None]
        psi = np.where(tau < width, tau**2 / (2 * width), tau - width / 2)
        return (q[:, None] * psi).sum() + alpha / 2 * ((A.T @ F - x) ** 2).sum() + np.trace(F @ L @ F.T) / 2 + cost(F)

    gradients, weight = np.zeros_like(F), 0.0
    for k in range(steps or 1000):
        residual = A.T @ F - x
        gradient = A @ (np.clip(residual / (width * q[:, None]), -1, 1) + alpha * residual) + F @ L
        gradients += (k + 1) / 2 * gradient
        weight += (k + 1) / 2
        Y, Z = prox(F - gradient / curvature, 1 / curvature), prox(-gradients / curvature, weight / curvature)
        before, F = F, 2 / (k + 3) * Z + (k + 1) / (k + 3) * Y
        if steps is None and abs(smoothed(before) - smoothed(F)) <= precision:
            break
    return F


def median_half(x, A, F, *, high=np.inf, laplacian=None, alpha=0.0, precision=None):
    """One sweep of Algorithm 1 for ``x ~ A' F``, or sweeps until equation 8 holds; of several minimisers the nearest.

    Theorem 3 with a graph, and the same with the elastic net of `alpha`, whose parabola has the two parts added.
    """
    F, L = F.copy(), np.zeros((F.shape[1],) * 2) if laplacian is None else laplacian

    def objective():
        E = A.T @ F - x
        return np.abs(E).sum() + alpha / 2 * (E**2).sum() + np.trace(F @ L @ F.T) / 2

    while True:
        before = objective()
        for k in range(len(F)):
            for j in range(F.shape[1]):
                z = x[:, j] - A.T @ F[:, j] + A[k] * F[k, j]
                pull = L[j, j] * F[k, j] - L[j] @ F[k] + alpha * A[k] @ z  # slope of the parabola at 0, with its sign
                b = (L[j, j] + alpha * A[k] @ A[k]) / 2
                _, lowest, highest = minimise_1d(A[k], z, np.ones(len(z)), b=b, d=pull / (2 * b) if b else 0, high=high)
                F[k, j] = min(max(F[k, j], lowest), highest)
        if precision is None or abs(before - objective()) <= precision:
            return F


# --- NeNMF (Guan, Tao, Luo & Yuan 2012) -------------------------------------------------------------------------------


def projected_norm(F, G):
    """The norm of the projected gradient."""
    return np.sqrt(sum(min(g, 0) ** 2 if f == 0 else g * g for f, g in zip(F.ravel(), G.ravel(), strict=True)))


def nenmf(X, Wt, H, iterations, l1=0.0, l2=0.0, laplacian=None):
    """Algorithms 1 and 2; the penalties are of the codes."""
    L = np.zeros((len(X),) * 2) if laplacian is None else laplacian

    def gradient(side, F, A):
        return A @ A.T @ F - A @ X.T + l1 + l2 * F + F @ L if side == 0 else A @ A.T @ F - A @ X

    sizes = projected_norm(Wt, gradient(0, Wt, H)), projected_norm(H, gradient(1, H, Wt))
    tolerances = [1e-3 * np.hypot(*sizes)] * 2
    for _ in range(iterations):
        for side in (0, 1):
            F, A = (Wt, H) if side == 0 else (H, Wt)
            largest = np.linalg.norm(A @ A.T, 2) + (0 if side else l2 + np.linalg.norm(L, 2))
            Y, old, alpha, steps = F, F, 1.0, 0
            while steps < 1000:
                steps += 1
                F = np.maximum(Y - gradient(side, Y, A) / largest, 0)
                if projected_norm(F, gradient(side, F, A)) <= tolerances[side]:
                    break
                following = (1 + np.sqrt(4 * alpha**2 + 1)) / 2
                Y, old, alpha = F + (alpha - 1) / following * (F - old), F, following
            if steps <= 10:
                tolerances[side] /= 10
            Wt, H = (F, H) if side == 0 else (Wt, F)
    return Wt, H


# --- their baselines: each updates F >= 0 of ``x ~ A' F``, column by column -------------------------------------------


def pnls(x, A, F):
    """Equation 24."""
    return np.maximum(np.linalg.pinv(A.T) @ x, 0)


def qn(x, A, F, length=0.9, steps=1):
    """Equation 26, or 28, with a ridge that grows until the condition of the Hessian is below 1e7."""
    hessian, ridge = A @ A.T, 1e-12
    unit = np.trace(hessian) / len(A)
    while np.linalg.cond(hessian + ridge * unit * np.eye(len(A))) > 1e7:
        ridge *= 10
    for _ in range(steps):
        gradient = hessian @ F - A @ x
        F = np.maximum(F - length * np.linalg.inv(hessian + ridge * unit * np.eye(len(A))) @ gradient, 0)
    return F


def gradient_projection(x, A, F, *, spectral, memory, steps):
    """Equation 29 (PBB), or 30 (CBGP)."""
    values = [((x - A.T @ F) ** 2).sum() / 2]
    length = 1 / np.linalg.norm(A @ A.T, 2)
    for _ in range(steps):
        gradient = A @ (A.T @ F - x)
        move = np.maximum(F - length * gradient, 0) - F
        share = 1.0
        while True:
            new = F + share * move
            value = ((x - A.T @ new) ** 2).sum() / 2
            if value <= max(values[-memory:]) + 1e-4 * share * (gradient * move).sum():
                break
            share /= 2
        if spectral:
            change = A @ (A.T @ new - x) - gradient
            length = ((new - F) ** 2).sum() / ((new - F) * change).sum()
        F = new
        values.append(value)
    return F


def exact(x, A, F, l2=0.0):
    """SciPy's active sets; equation 35 for one factor, with the l2 norm as further rows of the system."""
    rows = np.concatenate([A.T, np.sqrt(l2) * np.eye(len(A))])
    return np.array([nnls(rows, np.concatenate([column, np.zeros(len(A))]))[0] for column in x.T]).T


def rescaled(x, A, F):
    """Equation 23."""
    return F * (A @ x) / (A @ A.T @ F)


def modified(x, A, F, tiny=1e-8):
    """Lin's modification of equation 23 (2007): denominators, and entries that have to grow, get `tiny`."""
    G = A @ A.T @ F - A @ x
    kept = np.where(G < 0, np.maximum(F, tiny), F)
    return F - kept / (A @ A.T @ kept + tiny) * G


def accelerated(x, A, F, share=0.99):
    """The best length along the step of equation 23, or a share of the largest that keeps all entries positive."""
    step = rescaled(x, A, F) - F

    def cost(length):
        return ((x - A.T @ (F + length * step)) ** 2).sum()

    best = (cost(-1) - cost(1)) / (2 * (cost(1) - 2 * cost(0) + cost(-1)))  # of a parabola through three points
    room = min(-f / d for f, d in zip(F.ravel(), step.ravel(), strict=True) if d < 0)
    return F + min(best, share * room) * step


def projected_gradient(x, A, F, steps=10, ratio=0.1, decrease=0.01):
    """Armijo's rule along the projection arc (Lin 2007, Algorithm 4), from the inverse of the largest sum of a row."""

    def value(F):
        return ((x - A.T @ F) ** 2).sum() / 2

    length = 1 / np.abs(A @ A.T).sum(axis=1).max()
    for _ in range(steps):
        G = A @ A.T @ F - A @ x

        def moved(length, F=F, G=G):
            new = np.maximum(F - length * G, 0)
            return new, value(new) - value(F) <= decrease * (G * (new - F)).sum()

        new, enough = moved(length)
        if enough:
            while moved(length / ratio)[1] and (moved(length / ratio)[0] != new).any():
                length /= ratio
                new = moved(length)[0]
        else:
            while not enough:
                length *= ratio
                new, enough = moved(length)
        F = new
    return F


def cg(x, A, F, steps=20):
    """Conjugate gradients on the free variables of each column, from the start again after a bound was met."""
    F = F.copy()
    for i in range(F.shape[1]):
        f, face, direction, before = F[:, i], None, None, 0.0
        for _ in range(steps):
            gradient = A @ (A.T @ f - x[:, i])
            free = [k for k in range(len(f)) if f[k] > 0 or gradient[k] < 0]
            slope = np.array([gradient[k] if k in free else 0.0 for k in range(len(f))])
            size = slope @ slope
            if size == 0:
                break
            new = -slope
            if face == free and before > 0:
                new = new + size / before * direction
            direction = new
            image = A.T @ direction
            length = -(direction @ slope) / (image @ image)
            room = [f[k] / -direction[k] if direction[k] < 0 else np.inf for k in range(len(f))]
            share = min(length, *room)
            f[:] = [0.0 if room[k] <= share else f[k] + share * direction[k] for k in range(len(f))]
            face, before = free, size if share == length else 0.0
    return F


def gcd(x, A, F, tolerance=1e-3):
    """Greedy coordinate descent: Hsieh & Dhillon (2011), Algorithm 1, lines 4 to 14."""
    F, r = F.copy(), len(A)
    hessian = A @ A.T

    def steps(f, gradient):
        moves = [max(f[k] - gradient[k] / hessian[k, k], 0) - f[k] for k in range(r)]
        return moves, [-gradient[k] * moves[k] - hessian[k, k] * moves[k] ** 2 / 2 for k in range(r)]

    columns = range(F.shape[1])
    first = max(max(steps(F[:, i], A @ (A.T @ F[:, i] - x[:, i]))[1]) for i in columns)
    for i in columns:
        for _ in range(10 * r):
            moves, gains = steps(F[:, i], A @ (A.T @ F[:, i] - x[:, i]))
            k = int(np.argmax(gains))
            if gains[k] <= tolerance * first:
                break
            F[k, i] += moves[k]
    return F


# --- sBCD (Li, Lebanon & Park 2012), with the divergences of its Table 2; beta as in scikit-learn ---------------------


def sbcd(X, W, H, beta, alpha=0.0, weights="model"):
    """One round of Algorithm 1; `alpha` is in the denominators, as section 3.3 prints it; AL-A and AL-B by weights."""
    W, H = W.copy(), H.copy()
    B = {"model": W @ H, "data": X, "nothing": np.ones_like(X)}[weights] ** (beta - 2)
    E = X - W @ H
    for k in range(len(H)):
        A = E + np.outer(W[:, k], H[k])
        for j in range(H.shape[1]):
            H[k, j] = max(0, sum(B[:, j] * A[:, j] * W[:, k]) / (alpha + sum(B[:, j] * W[:, k] ** 2)))
        for i in range(len(W)):
            W[i, k] = max(0, sum(B[i] * A[i] * H[k]) / sum(B[i] * H[k] ** 2))
        E = A - np.outer(W[:, k], H[k])
    return W, H


def gradient_descent(X, W, H, beta, iterations):
    """Additive updates with fixed steps, W first; the first changes a factor by a hundredth of its norm."""
    lengths = [None, None]
    for iteration in range(iterations):
        for side in (0, 1):
            P = W @ H
            gradient = P ** (beta - 2) * (P - X)
            gradient = gradient @ H.T if side == 0 else W.T @ gradient
            if iteration == 0:
                lengths[side] = 0.01 * np.linalg.norm((W, H)[side]) / np.linalg.norm(gradient)
            new = np.maximum((W, H)[side] - lengths[side] * gradient, 0)
            W, H = (new, H) if side == 0 else (W, new)
    return W, H


# --- Lee & Seung (2000) -----------------------------------------------------------------------------------------------


def gnmf(X, W, H, affinity):
    """Equation 37 of NeNMF (Cai et al. 2011): the rule of Theorem 1 with a graph of the samples."""
    degrees = affinity.sum(axis=0)[:, None]
    W = W * (X @ H.T + affinity @ W) / (W @ H @ H.T + degrees * W)
    return W, H * (W.T @ X) / (W.T @ W @ H)


def lee_seung(X, W, H, divergence):
    """The rules of Theorem 1, or of Theorem 2 for the `divergence`, W first."""
    for side in (0, 1):
        if divergence:
            Q = X / (W @ H)
            W, H = (W * (Q @ H.T) / H.sum(axis=1), H) if side == 0 else (W, H * (W.T @ Q) / W.sum(axis=0)[:, None])
        else:
            W, H = (W * (X @ H.T) / (W @ H @ H.T), H) if side == 0 else (W, H * (W.T @ X) / (W.T @ W @ H))
    return W, H


# --- P-NMF (Yuan & Oja 2005) ------------------------------------------------------------------------------------------


def truncated_svd(X, rank):
    """Section 2: the decomposition of the largest rank whose positive part, equation 3, has at most the given one."""
    U, d, V = np.linalg.svd(X, full_matrices=False)
    best, most = np.zeros_like(X), 0
    for r in range(1, rank + 1):
        Y = sum(d[k] * np.outer(U[:, k], V[k]) for k in range(r))
        Y = (Y + np.abs(Y)) / 2
        found = np.linalg.matrix_rank(Y)
        if most <= found <= rank:
            best, most = Y, found
    return best
