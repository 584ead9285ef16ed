"""Thin scikit-learn estimators: they check the input, make a start, call the engine, and keep the result."""

from ._store import load_model
from .conservative import ConservativeNMF
from .multiview import MultiviewNMF
from .nmf import NMF
from .online import OnlineNMF
from .penalty import Penalty
from .projective import ProjectiveNMF
from .rank import RankSelection, select_rank
from .robust_pca import RPCA, GoDec
from .stream import Checkpoint, fit_stream
from .symmetric import SymmetricNMF

__all__ = [
    "NMF",
    "RPCA",
    "Checkpoint",
    "ConservativeNMF",
    "GoDec",
    "MultiviewNMF",
    "OnlineNMF",
    "Penalty",
    "ProjectiveNMF",
    "RankSelection",
    "SymmetricNMF",
    "fit_stream",
    "load_model",
    "select_rank",
]
