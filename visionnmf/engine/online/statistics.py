r"""The state of the least-squares methods: :math:`A = \sum_t \rho_t w_t w_t^T` and :math:`B = \sum_t \rho_t w_t x_t`.

The past enters the objective of the components only through these sums (Mairal et al. 2010, section 3.1),

.. math:: \tfrac12 \langle H, A H \rangle - \langle B, H \rangle + n\, p_H(H), \qquad n = \sum_t \rho_t

so memory does not grow with the stream. Forgetting multiplies all three.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.products import product, right_sides

from .record import State

__all__ = ["add", "check", "normalise", "start"]

Array = NDArray[Any]


def start(H: Array) -> State:
    """Return the state before any sample: all sums are zero."""
    return {"A": np.zeros((len(H), len(H)), H.dtype), "B": np.zeros_like(H), "weight": 0.0}


def check(state: State, H: Array) -> None:
    """Raise ValueError if the statistics do not fit the components."""
    for name, shape in (("A", (len(H), len(H))), ("B", H.shape)):
        array = state[name]
        if not isinstance(array, np.ndarray) or array.dtype != H.dtype or array.shape != shape:
            raise ValueError(f"{name} does not fit components_ of shape {H.shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} is not finite")
    if not 0 <= float(state["weight"]) < float("inf"):
        raise ValueError("weight is not a number >= 0")


def add(
    state: State,
    Wt: Array,
    features: Any,
    forgetting: float,
    sample_weight: Array | None = None,
    counts: Array | None = None,
) -> Array:
    """Multiply the statistics by `forgetting` and add a batch, in place; return its weighted Gram matrix ``Wt @ Wt.T``.

    `Wt` (n_components, n_samples) holds the codes and `features` (n_features, n_samples) the data, both transposed.
    `sample_weight` (n_samples,) says how much each sample counts. `counts` (n_samples,) is a further factor on the sums
    A and B, but not on the number of samples; see :func:`filled`.
    """
    n_samples: float = Wt.shape[1]
    weighted = Wt if counts is None else Wt * counts
    if sample_weight is not None:
        weighted, n_samples = weighted * sample_weight, float(sample_weight.sum(dtype=np.float64))
    gram = product(weighted, Wt.T)
    for name, new in (("A", gram), ("B", right_sides(features, weighted))):
        state[name] *= state[name].dtype.type(forgetting)
        state[name] += new
    state["weight"] = forgetting * state["weight"] + n_samples
    return gram


def filled(X: Array, P: Array, M: Array) -> tuple[Array, Array]:
    r"""Return unweighted data V that can replace the weighted data, and the factor with which each sample then counts.

    With :math:`c = \max_j m_j`, the weighted distance of a sample is bounded by the distance to its row v of V,

    .. math:: \sum_j m_j (x_j - q_j)^2 \le c \sum_j (v_j - q_j)^2 + \text{const}, \qquad
              v = \tfrac m c x + (1 - \tfrac m c) p,

    with equality at the model ``q = p``. A missing entry, of weight 0, is thus replaced by the model. `X`, the model
    `P`, the weights `M` and V are (n_samples, n_features); the factors are (n_samples,).
    """
    counts = M.max(axis=1)
    shares = M / np.where(counts > 0, counts, 1)[:, None]
    return shares * X + (1 - shares) * P, counts


def normalise(H: Array, state: State) -> None:
    """Scale components to unit norm in place, and the statistics so that the model of the past is unchanged."""
    norms = np.linalg.norm(H, axis=1)
    norms[norms == 0] = 1
    H /= norms[:, None]
    state["A"] *= np.outer(norms, norms)
    state["B"] *= norms[:, None]
