"""scikit-learn estimators, thin: validate, start, call the engine, keep the result."""

from .nmf import NMF
from .symmetric import SymmetricNMF

__all__ = ["NMF", "SymmetricNMF"]
