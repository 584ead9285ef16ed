"""Constraints and penalties of one factor: one term per file, and :class:`Penalty` for their combination.

A factor is stored component-major, ``F`` of shape ``(n_components, n_points)``. The points are the samples for codes
and the features for components.
"""

from .box import Box
from .composite import NONNEGATIVE, Penalty
from .graph import Graph
from .groups import Groups
from .l1 import L1
from .l2 import L2
from .simplex import Simplex
from .term import Linear, Proximal, Smooth, Term

__all__ = [
    "ANY",
    "L1",
    "L2",
    "NONNEGATIVE",
    "SEPARABLE",
    "TERMS",
    "Box",
    "Graph",
    "Groups",
    "Linear",
    "Penalty",
    "Proximal",
    "Simplex",
    "Smooth",
    "Term",
]

TERMS: dict[str, type[Term]] = {term.kind: term for term in (Box, L1, L2, Graph, Simplex, Groups)}

SEPARABLE: tuple[type[Term], ...] = (Box, L1, L2)  # supported by coordinate descent
ANY: tuple[type[Term], ...] = (Linear, Smooth, Proximal)  # all forms that a proximal gradient step supports
