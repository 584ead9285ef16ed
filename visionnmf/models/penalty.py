"""Constraints and penalties as users write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike
from sklearn.base import BaseEstimator
from sklearn.neighbors import kneighbors_graph

from visionnmf._checks import check_choice, check_count, check_flag, check_number, check_sparse, shown
from visionnmf._typing import Array
from visionnmf.engine.losses import LOSSES
from visionnmf.engine.penalties import Bounds, Penalties, Term
from visionnmf.exceptions import ParameterError

from .data_checks import find_loss, index_sets

SYMMETRY = 1e-6  # of the largest affinity: rounding that a given graph may have
POINTS = {"W": "samples", "H": "features"}


@dataclass(eq=False, repr=False)
class Penalty(BaseEstimator):
    r"""Constraints and penalties of one factor of an :class:`NMF`, in addition to non-negativity.

    The codes ``W`` (`penalty_W`) or the components ``H`` (`penalty_H`) pay

    .. math:: l_1 \sum_{kj} F_{kj} + \tfrac{l_2}{2} \sum_{kj} F_{kj}^2
              + \tfrac{\beta}{4} \sum_k \sum_{ij} S_{ij} (F_{ki} - F_{kj})^2 + \sum_g \eta_g \sum_k \|F_{k,g}\|_p

    where k is a component and j a *point*, which is a sample for the codes and a feature for the components. ``F`` is
    the factor before components are brought to unit norm (``component_norms_`` of :class:`NMF`). Box, graph and groups
    are those of MahNMF (Guan et al. 2012, sections 4.1 to 4.3), for every loss that a solver can combine with them.

    Parameters
    ----------
    low, high : float, array-like [shape=(n_components, n_points)] or None, default=0 and None
        Least and largest value of every entry, or of each entry, >= 0; None is no upper bound. Bounds of each entry are
        for solvers that take proximal gradient steps and for OR-NMF.
    l1, l2 : float, default=0
        Weights of the l1 norm, which makes the factor sparse, and of half the squared Frobenius norm; >= 0.
    graph : None, "knn" or array-like or sparse matrix [shape=(n_points, n_points), >= 0], default=None
        Affinity ``S`` of the points: two points with a large entry get similar values. It must be symmetric; its
        diagonal does not matter. "knn" joins each point with its nearest neighbours in the training data, where missing
        entries are taken for 0.
    graph_weight : float, default=1
        ``beta``, >= 0.
    n_neighbors : int, default=5
        Number of neighbours of "knn".
    simplex : bool, default=False
        Whether the codes of each sample (`penalty_W`) or the entries of each component (`penalty_H`) sum to 1.
    groups : None, sequence or dict of index sets, or array-like of labels [shape=(n_points,)], default=None
        Groups of points, such as the views of the features: the indices, a slice or a mask of each group, or the label
        of each point. No point may be in two groups; a point in none has no such penalty.
    group_norm : {2, "inf"}, default=2
        ``p``. "inf" (or ``numpy.inf``) counts a component's largest entry in a group.
    group_l1 : float or sequence of float, default=0
        ``eta``, >= 0, one number for all groups or one for each. Larger values make more whole groups of a component
        zero (MahNMF's equation 41).
    group_bound : None, float or sequence of float, default=None
        Constraint form (equation 40): the upper bound of ``sum_k |F_{k,g}|_p``, likewise.
    terms : None or sequence of visionnmf.engine.penalties.Term, default=None
        Further constraints and penalties, of your own classes; see CONTRIBUTING.md. Solvers that take proximal gradient
        steps work with all of them, and the others refuse them. A model that has them cannot be saved.

    Notes
    -----
    Values are checked when a model is fitted. A penalty that grows with its factor (l1, l2, graph, groups) and a bound
    of groups have little effect on their own, because a larger second factor makes up for a smaller first one. Hold the
    other factor by ``l2``, ``high`` or ``simplex``; `NMF` warns otherwise.

    `NMF.transform` leaves out the graph, the groups and bounds of each entry of the codes, because they belong to the
    training samples.

    Simplex, groups and bounds other than ``(0, None)`` cannot be combined with each other.

    References
    ----------
    N. Guan, D. Tao, Z. Luo, J. Shawe-Taylor, "MahNMF: Manhattan Non-negative Matrix Factorization",
    arXiv:1207.3438, 2012.
    D. Cai, X. He, J. Han, T. S. Huang, "Graph regularized nonnegative matrix factorization for data representation",
    IEEE TPAMI 33(8), 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import NMF, Penalty
    >>> X = np.random.default_rng(0).random((30, 12))
    >>> views = [slice(0, 8), slice(8, 12)]
    >>> penalty_H = Penalty(groups=views, group_l1=0.5)
    >>> model = NMF(4, loss="frobenius", penalty_W=Penalty(l2=0.1), penalty_H=penalty_H, random_state=0)
    >>> model.fit(X).components_.shape
    (4, 12)
    """

    _: KW_ONLY
    low: float | ArrayLike = 0
    high: float | ArrayLike | None = None
    l1: float = 0
    l2: float = 0
    graph: Any = None
    graph_weight: float = 1.0
    n_neighbors: int = 5
    simplex: bool = False
    groups: Any = None
    group_norm: Any = 2
    group_l1: float | Sequence[float] = 0.0
    group_bound: float | Sequence[float] | None = None
    terms: Sequence[Term] | None = None

    def __eq__(self, other: object) -> bool:
        """Return whether another penalty asks for the same."""
        if type(other) is not type(self):
            return False
        return _are_equal(*([*penalty.get_params(deep=False).values()] for penalty in (self, other)))

    def resolve(self, side: str, X: Any, dtype: DTypeLike) -> Penalties:
        """Return the checked penalty in the engine's form, for the factor `side`, "W" or "H".

        `X` are the training data; None leaves out what depends on the training points, which are graph, groups and
        bounds of each entry (:func:`kinds_of_points`).
        `dtype` is that of the graph's affinities. Raises ParameterError if a value is not allowed, or if constraints
        exclude each other.

        Returns
        -------
        Penalties
        """
        where = f"penalty_{side}"
        low, high, bounds = self._check_box(where)
        simplex = check_flag(self.simplex, f"simplex of {where}")
        options: dict[str, Any] = {
            "low": low,
            "high": high,
            "l1": check_number(self.l1, f"l1 of {where}"),
            "l2": check_number(self.l2, f"l2 of {where}"),
        }
        # terms that the user wrote; without training data, those that depend on the training samples are left out
        given = () if self.terms is None else tuple(self.terms)
        for term in given:
            if not isinstance(term, Term):
                raise ParameterError(f"terms of {where} must be of visionnmf.engine.penalties.Term; got {term!r:.60}")
        options["terms"] = tuple(term for term in given if X is not None or not term.of_points)
        if bounds is not None and X is not None:
            options["terms"] += (Bounds(bounds[0].astype(dtype), bounds[1].astype(dtype), f"low and high of {where}"),)
        if simplex:
            options["simplex"] = "columns" if side == "W" else "rows"
        if X is not None:
            points = X if side == "W" else X.T
            options["graph"] = self._build_graph(points, side, dtype)
            options |= self._check_groups(points.shape[0], side)
        try:
            return Penalties(**options)
        except ParameterError as error:
            raise ParameterError(f"penalty_{side}: {error}") from None

    def _check_box(self, where: str) -> tuple[float, float, list[Array] | None]:
        """Return the bounds of all entries, and arrays of those of each one or None; `where` is for messages."""
        upper = np.inf if self.high is None else self.high
        try:
            of_each = bool(np.ndim(self.low) or np.ndim(upper))
            bounds = np.broadcast_arrays(np.asarray(self.low, float), np.asarray(upper, float)) if of_each else ()
        except (TypeError, ValueError):  # ragged lists, words, and shapes that do not fit together
            of_each, bounds = True, ()
        if of_each:
            if (
                not bounds
                or bounds[0].ndim != 2
                or not ((0 <= bounds[0]) & (bounds[0] <= bounds[1]) & np.isfinite(bounds[0])).all()
            ):
                got = f"arrays of shape {bounds[0].shape}" if bounds else f"{shown(self.low)} and {shown(self.high)}"
                raise ParameterError(
                    f"low and high of {where} must be numbers, or arrays (n_components, n_points) with "
                    f"0 <= low <= high; got {got}"
                )
            return 0.0, float("inf"), list(bounds)
        low = check_number(self.low, f"low of {where}")
        if self.high is None:
            return low, float("inf"), None
        high = float("inf") if self.high == float("inf") else check_number(self.high, f"high of {where}")
        if not low < high:
            raise ParameterError(f"high of {where} must be above low; got low={self.low!r} and high={self.high!r}")
        return low, high, None

    def _build_graph(self, points: Any, side: str, dtype: DTypeLike) -> sp.csr_array | None:
        """Return the affinities of `points` (its rows) times the weight, without diagonal; None without a graph."""
        where = f"penalty_{side}"
        weight = check_number(self.graph_weight, f"graph_weight of {where}")
        if self.graph is None:
            return None
        n = points.shape[0]
        if isinstance(self.graph, str):
            check_choice(self.graph, f"graph of {where}", ["knn"])
            count = check_count(self.n_neighbors, f"n_neighbors of {where}")
            if count >= n:
                raise ParameterError(
                    f"n_neighbors of {where} must be below the number of {POINTS[side]}, {n}; got {count}"
                )
            near = sp.csr_array(kneighbors_graph(points, count, include_self=False))
            graph = near.maximum(near.T)  # two points are neighbours if either is among the nearest of the other
        else:
            graph = _check_affinity(self.graph, n, side)
        if not weight:
            return None
        graph = sp.csr_array(graph * weight).astype(dtype)
        graph.setdiag(0)  # the affinity of a point with itself has no effect
        graph.eliminate_zeros()
        graph.sort_indices()
        return graph

    def _check_groups(self, n: int, side: str) -> dict[str, Any]:
        """Return the engine's options for groups: indices, norm, weights, bounds; empty without a penalty."""
        where = f"penalty_{side}"
        given = self.group_l1
        weights = check_number(given, f"group_l1 of {where}") if np.ndim(given) == 0 else tuple(given)  # type: ignore[arg-type]
        if self.group_norm not in (2, "inf", np.inf):
            raise ParameterError(f"group_norm of {where} must be 2 or 'inf'; got {self.group_norm!r}")
        if self.groups is None:
            if np.any(weights) or self.group_bound is not None:
                raise ParameterError(f"groups of {where} must be given with group_l1 and group_bound; got None")
            return {}
        groups = tuple(index_sets(self.groups, n, f"groups of {where}", POINTS[side]).values())
        if isinstance(weights, tuple):
            weights = self._check_each(weights, "group_l1", len(groups), where)
        if not np.any(weights) and self.group_bound is None:
            return {}
        return {
            "groups": groups,
            "group_norm": 2 if self.group_norm == 2 else float("inf"),
            "group_l1": weights,
            "group_bounds": None
            if self.group_bound is None
            else self._check_each(self.group_bound, "group_bound", len(groups), where),
        }

    def _check_each(self, given: Any, name: str, n_groups: int, where: str) -> tuple[float, ...]:
        """Return one number for each group, from a single number or one for each."""
        values = [given] * n_groups if np.ndim(given) == 0 else list(given)
        if len(values) != n_groups:
            raise ParameterError(
                f"{name} of {where} must be one number, or one for each of the {n_groups} groups; "
                f"got {len(values)} numbers"
            )
        return tuple(check_number(value, f"{name} of {where}") for value in values)


class WithPenalties:
    """Mixin for estimators with `penalty_W` and `penalty_H`; it goes before ``BaseEstimator``."""

    def set_params(self, **params: Any) -> Any:
        """Set parameters; ``penalty_W__l2=1`` also makes a :class:`Penalty` where there is none yet."""
        for name in ("penalty_W", "penalty_H"):
            nested = any(key.startswith(f"{name}__") for key in params)
            if nested and params.get(name, getattr(self, name)) is None:
                params[name] = Penalty()
        return super().set_params(**params)  # type: ignore[misc]


def given_penalty(penalty: Penalty | None, side: str) -> Penalty:
    """Return the penalty that a user gave for "W" or "H", or one that asks for nothing."""
    if penalty is None:
        return Penalty()
    if not isinstance(penalty, Penalty):
        raise ParameterError(f"penalty_{side} must be a visionnmf.Penalty or None; got {penalty!r}")
    return penalty


def kinds_of_points(penalty: Penalty) -> list[str]:
    """Return what a penalty holds that refers to the training points, which `resolve` leaves out without data."""
    kinds = [name for name in ("graph", "groups") if getattr(penalty, name) is not None]
    kinds += [f"{name} of each entry" for name in ("low", "high") if np.ndim(getattr(penalty, name))]
    return kinds + [term.kind for term in penalty.terms or () if isinstance(term, Term) and term.of_points]


def ridge_of(model: Any, shape: tuple[int, int]) -> float:
    """Return the l2 penalty on both factors that stands for the parameter `nuclear`, for data of this shape."""
    # without a kink at residual 0 the right strength would depend on the data
    record = find_loss(model.loss)
    if model.nuclear and not (record is not None and record.kink):
        able = [name for name, record in LOSSES.items() if record.kink]
        raise ParameterError(
            f"nuclear must be 0 for losses other than {able}; got {model.nuclear!r} with loss={model.loss!r}; set "
            "penalty_W and penalty_H to Penalty(l2=...)"
        )
    return float(model.nuclear) * math.sqrt(max(shape))  # with the root, 1 is the parameter of robust PCA


def _are_equal(a: Any, b: Any) -> bool:
    """Return whether two values of parameters are equal: numbers, arrays of any kind, or lists of them."""
    if sp.issparse(a) or sp.issparse(b):
        return sp.issparse(a) and sp.issparse(b) and a.shape == b.shape and not (a != b).nnz
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_are_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(_are_equal(a[key], b[key]) for key in a)
    return np.array_equal(a, b)


def _check_affinity(given: ArrayLike | Any, n: int, side: str) -> sp.csr_array:
    """Return the given graph of `n` points as a symmetric sparse array; raise ParameterError if it is not one."""
    name = f"graph of penalty_{side}"
    check_sparse(given, name)
    try:
        graph = sp.csr_array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(
            f"{name} must be None, 'knn', or a matrix of affinities; got {type(given).__name__}"
        ) from None
    if graph.shape != (n, n):
        raise ParameterError(f"{name} must have shape {(n, n)}, the {POINTS[side]}; got {graph.shape}")
    if not np.isfinite(graph.data).all() or (graph.data < 0).any():
        raise ParameterError(f"{name} must hold finite numbers >= 0; got {graph.data.min():g} to {graph.data.max():g}")
    if abs(graph - graph.T).max() > SYMMETRY * graph.max():
        raise ParameterError(
            f"{name} must be symmetric; got entries that differ by up to {abs(graph - graph.T).max():g} from their "
            "mirror images; take the mean or the maximum of it and its transpose"
        )
    # without the small differences that are allowed
    return (graph + graph.T) / 2
