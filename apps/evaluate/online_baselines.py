"""The online methods with which the paper of OR-NMF compares it (Guan, Tao, Luo & Yuan 2012), on dense data.

Each keeps components `H` (r, n), which :meth:`learn` improves with a batch of samples (n_samples, n). The past counts
through sums, which `forget_factor` multiplies before a batch is added.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.losses import Loss
from visionnmf.engine.online.surrogate import least_squares_codes
from visionnmf.engine.penalties import NONNEGATIVE, Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.projections import project_simplex
from visionnmf.engine.quadratic import improve
from visionnmf.engine.solving import fit, solve_codes
from visionnmf.exceptions import ParameterError

Array = NDArray[Any]
SIMPLEX = Penalties(simplex="rows")


def _unit_norms(H: Array) -> Array:
    """Divide components by their norms, in place, and return these, 1 for a component of zeros."""
    norms = np.linalg.norm(H, axis=1)
    norms[norms == 0] = 1
    H /= norms[:, None]
    return norms


class _Sums:
    """The components `H`, and the sums `A` (r, r) of products of codes and `B` (r, n) of codes and data."""

    def __init__(self, H: Array, forget_factor: float = 1.0) -> None:
        self.H, self.forget_factor = H, forget_factor
        self.A, self.B = np.zeros((len(H), len(H)), H.dtype), np.zeros_like(H)

    def add(self, Wt: Array, X: Array) -> None:
        """Add a batch with the codes `Wt` (r, n_samples)."""
        self.A = self.forget_factor * self.A + Wt @ Wt.T
        self.B = self.forget_factor * self.B + Wt @ X

    def normalise(self) -> Array:
        """Scale components to unit norm, and the sums so that the model of the past is unchanged; return the norms."""
        norms = _unit_norms(self.H)
        self.A *= np.outer(norms, norms)
        self.B *= norms[:, None]
        return norms


class IncrementalNMF(_Sums):
    """INMF: multiplicative updates of codes and components in turn (Bucak & Gunsel 2009; equation 40)."""

    UPDATES, STILL = 50, 1e-4  # of a batch, as in the paper; relative change of the components at which they stop

    def __init__(self, H: Array, forget_factor: float = 1.0) -> None:
        super().__init__(H, forget_factor)
        self.code = np.ones(len(H), H.dtype)  # mean codes of the batch before, from which the next one starts

    def learn(self, X: Array) -> None:
        """Improve the components with a batch."""
        H, A, B = self.H, self.forget_factor * self.A, self.forget_factor * self.B
        code = self.code if self.code.any() else np.ones_like(self.code)
        code = np.maximum(code, np.finfo(H.dtype).eps * code.max())  # multiplicative updates cannot leave 0
        codes = np.repeat(code[:, None], len(X), axis=1)
        for _ in range(self.UPDATES):
            codes *= _ratio(H @ X.T, H @ H.T @ codes)
            before = H.copy()
            H *= _ratio(B + codes @ X, (A + codes @ codes.T) @ H)
            if np.linalg.norm(H - before) <= self.STILL * np.linalg.norm(before):
                break
        self.add(codes, X)
        self.code = codes.mean(axis=1) * self.normalise()


class VolumeNMF(_Sums):
    """INMF-VC: first the code of a sample, then the components, whose determinant is kept small (equations 41 and 42).

    Both by multiplicative updates (Zhou et al. 2011). The past has the weight ``1 - AMNESIC / t`` at sample t, and the
    logarithm of the determinant ``STRENGTH exp(-DECAY t)``. There must be as many components as features. The paper
    gives no numbers.
    """

    UPDATES, STRENGTH, DECAY, AMNESIC = 50, 0.01, 0.01, 2  # updates of a code; of the determinant; of the newest

    def __init__(self, H: Array, forget_factor: float = 1.0) -> None:
        if H.shape[0] != H.shape[1]:
            raise ParameterError(f"H must be square for a determinant; got shape {H.shape}; take IncrementalNMF")
        if forget_factor != 1:
            got = f"{forget_factor:g}, but the past has weights of its own; take IncrementalNMF"
            raise ParameterError(f"forget_factor must be 1 for INMF-VC; got {got}")
        super().__init__(H)
        self.t = 0

    def learn(self, X: Array) -> None:
        """Improve the components with a batch."""
        H = self.H
        for x in X:
            self.t += 1
            w = np.ones(len(H), H.dtype)
            for _ in range(self.UPDATES):
                w *= _ratio(H @ x, H @ (w @ H))
            new = min(1.0, self.AMNESIC / self.t)
            self.A = (1 - new) * self.A + new * np.outer(w, w)
            self.B = (1 - new) * self.B + new * np.outer(w, x)
            mu = self.STRENGTH * np.exp(-self.DECAY * self.t)
            slope = mu * np.linalg.inv(H).T  # the gradient of the logarithm, whose signs go to either side
            H *= _ratio(self.B + np.maximum(-slope, 0), self.A @ H + np.maximum(slope, 0))


def _ratio(above: Array, below: Array) -> Array:
    """Return ``above / below``, the factor of a multiplicative update; 1 where the denominator is practically 0."""
    known = below > np.sqrt(np.finfo(below.dtype).tiny)
    return np.divide(above, below, out=np.ones_like(above), where=known)


class PrintedOMF(_Sums):
    """OMF as printed: exact codes, and sweeps over components on the simplex until they settle (equation 44)."""

    UPDATES, SETTLED = 200, 1e-9

    def learn(self, X: Array) -> None:
        """Improve the components with a batch."""
        self.add(solve_codes(Problem(X, Loss("frobenius")), self.H), X)
        for _ in range(self.UPDATES):
            before = self.H.copy()
            self.update()
            if np.linalg.norm(self.H - before) <= self.SETTLED * np.linalg.norm(before):
                break

    def update(self) -> None:
        """Improve one component after the other (equation 45)."""
        improve(self.H, self.A, self.B, SIMPLEX, sweeps=1)


class PrintedDiagonalOMF(PrintedOMF):
    """OMF-DA as printed: as OMF, but with projected Newton steps with the Hessian's diagonal (section IV.F).

    It need not settle, because a projected Newton step can lead away from the minimum.
    """

    def update(self) -> None:
        """Take a step on all components together; those that no sample has used stay."""
        curvatures = self.A.diagonal()[:, None]
        slope = self.A @ self.H - self.B
        self.H -= np.divide(slope, curvatures, out=np.zeros_like(self.H), where=curvatures > 0)
        self.H[:] = project_simplex(self.H)


class PrintedConjugateOMF(PrintedOMF):
    """OMF-CG as printed: Newton steps, which conjugate gradients find; the shortest where a step is not unique."""

    def update(self) -> None:
        """Take a step on all components together."""
        self.H -= np.linalg.pinv(self.A, rcond=1e-10, hermitian=True) @ (self.A @ self.H - self.B)
        self.H[:] = project_simplex(self.H)


class DiagonalOMF(_Sums):
    """OMF-DA: projected Newton steps with the Hessian's diagonal (Wang et al. 2011), halved where they would raise it.

    With `simplex` the components lie on the simplex; otherwise they have unit norm.
    """

    STEPS, SHORTEST = 5, 1e-4

    def __init__(self, H: Array, forget_factor: float = 1.0, *, simplex: bool = False) -> None:
        super().__init__(H, forget_factor)
        self.simplex = simplex

    def learn(self, X: Array) -> None:
        """Improve the components with a batch."""
        H = self.H
        self.add(least_squares_codes(H @ H.T, H @ X.T, NONNEGATIVE), X)
        curvatures = self.A.diagonal()
        # steps divide by them, so those of unused components must not be 0
        curvatures = np.maximum(curvatures, np.finfo(H.dtype).eps * curvatures.max())[:, None]
        length = 1.0
        for _ in range(self.STEPS if curvatures.max() > 0 else 0):
            slope = self.A @ H - self.B
            while length >= self.SHORTEST:
                new = H - length / curvatures * slope
                new = project_simplex(new) if self.simplex else np.maximum(new, 0)
                move = new - H
                if np.vdot(move, slope + self.A @ move / 2) <= 0:
                    H[:] = new
                    break
                length /= 2
        if not self.simplex:
            self.normalise()


class ChunkNMF:
    """ONMF: each chunk is factorised together with the components so far (Cao et al. 2007; equations 35 to 37).

    The past is represented by components times the norms of their codes, stacked above the chunk. Their new codes say
    how the past codes change. The authors keep all codes; their norms need only the Gram matrix.
    """

    ITERATIONS, TOLERANCE = 100, 1e-5

    def __init__(self, H: Array, forget_factor: float = 1.0) -> None:
        self.H, self.forget_factor = H, forget_factor
        self.gram = np.zeros((len(H), len(H)), H.dtype)  # of the codes of all samples so far

    def learn(self, X: Array) -> None:
        """Improve the components with a chunk."""
        H, r, gram = self.H, len(self.H), self.forget_factor * self.gram
        sizes = np.sqrt(gram.diagonal())
        # before the fit, an old component's code is its size for itself, and 0 for the others
        Wt = np.concatenate([np.diag(sizes), solve_codes(Problem(X, Loss("frobenius")), H)], axis=1)
        stacked = Problem(np.concatenate([sizes[:, None] * H, X]), Loss("frobenius"))
        fit(stacked, Wt, H, solver="hals", max_iter=self.ITERATIONS, tol=self.TOLERANCE)
        turn = Wt[:, :r] / np.where(sizes > 0, sizes, 1)  # new codes of the past are this times old ones
        gram = turn @ gram @ turn.T + Wt[:, r:] @ Wt[:, r:].T
        norms = _unit_norms(H)
        self.gram = gram * np.outer(norms, norms)


class ItakuraSaitoNMF:
    """ONMF-IS: multiplicative updates for the Itakura-Saito divergence from two sums (Lefevre, Bach & Fevotte 2011).

    With codes w and the model ``p = w H``, `A` collects ``w^T (x / p^2) * H^2`` and `B` ``w^T (1 / p)``, and then
    ``H = sqrt(A / B)``.
    """

    FLOOR = 1e-4  # of the model, as a share of the mean of the batch

    def __init__(self, H: Array, forget_factor: float = 1.0) -> None:
        self.H, self.forget_factor = H, forget_factor
        self.A, self.B = np.zeros_like(H), np.zeros_like(H)

    def learn(self, X: Array) -> None:
        """Improve the components with a batch."""
        H = self.H
        Wt = solve_codes(Problem(X, Loss("itakura-saito")), H)
        P = np.maximum(Wt.T @ H, self.FLOOR * X.mean())
        self.A = self.forget_factor * self.A + Wt @ (X / (P * P)) * H * H
        self.B = self.forget_factor * self.B + Wt @ (1 / P)
        np.copyto(H, np.sqrt(self.A / np.where(self.B > 0, self.B, 1)), where=self.B > 0)
        norms = _unit_norms(H)  # codes would be multiplied by them
        self.A /= norms[:, None]
        self.B *= norms[:, None]
