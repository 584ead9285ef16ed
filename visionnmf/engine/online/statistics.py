r"""What least-squares methods keep of the past: :math:`A = \sum_t \rho_t w_t w_t^T`, :math:`B = \sum_t \rho_t w_t x_t`.

The past enters the objective of the components through these sums alone (Mairal et al. 2010, section 3.1),

.. math:: \tfrac12 \langle H, A H \rangle - \langle B, H \rangle + n\, p_H(H), \qquad n = \sum_t \rho_t

so that memory does not grow with the stream. Forgetting multiplies all three.
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
    """Return statistics of no samples."""
    return {"A": np.zeros((len(H), len(H)), H.dtype), "B": np.zeros_like(H), "weight": 0.0}


def check(state: State, H: Array) -> None:
    """Raise ValueError when statistics do not fit the components."""
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
    """Forget a share of the past and add a batch, in place.

    Parameters
    ----------
    state : dict
    Wt : ndarray [shape=(n_components, n_samples)]
        Codes of the batch, transposed.
    features : ndarray or csr_array [shape=(n_features, n_samples)]
        Its data, transposed.
    forgetting : float in [0, 1]
    sample_weight : ndarray [shape=(n_samples,), > 0], optional
        How much a sample counts; 1 when left out.
    counts : ndarray [shape=(n_samples,), >= 0], optional
        How much it counts in the sums beside that; see :func:`filled`.

    Returns
    -------
    ndarray [shape=(n_components, n_components)]
        ``Wt @ Wt.T``, each sample as often as it counts.
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
    r"""Return data without weights that weighted ones may be replaced by, and how often each sample then counts.

    With :math:`c = \max_j m_j` the weighted distance of a sample lies below that of what is returned,

    .. math:: \sum_j m_j (x_j - q_j)^2 \le c \sum_j (v_j - q_j)^2 + \text{const}, \qquad
              v = \tfrac m c x + (1 - \tfrac m c) p,

    and they touch at the model ``q = p``. A missing entry, of weight 0, is so replaced by the model.

    Parameters
    ----------
    X, P, M : ndarray [shape=(n_samples, n_features)]
        Data, model and weights.

    Returns
    -------
    V : ndarray [shape=(n_samples, n_features)]
    counts : ndarray [shape=(n_samples,)]
    """
    counts = M.max(axis=1)
    shares = M / np.where(counts > 0, counts, 1)[:, None]
    return shares * X + (1 - shares) * P, counts


def normalise(H: Array, state: State) -> None:
    """Give components unit norm, in place, and the past codes the scale that keeps their models."""
    norms = np.linalg.norm(H, axis=1)
    norms[norms == 0] = 1
    H /= norms[:, None]
    state["A"] *= np.outer(norms, norms)
    state["B"] *= norms[:, None]
