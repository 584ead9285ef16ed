"""Thin scikit-learn estimators: they check the input, make a start, call the engine, and keep the result."""

from typing import TYPE_CHECKING

from visionnmf._lazy import lazy_names

if TYPE_CHECKING:
    from .conservative import ConservativeNMF as ConservativeNMF
    from .model_files import load_model as load_model
    from .multiview import MultiviewNMF as MultiviewNMF
    from .nmf import NMF as NMF
    from .online import OnlineNMF as OnlineNMF
    from .penalty import Penalty as Penalty
    from .projective import ProjectiveNMF as ProjectiveNMF
    from .rank import RankSelection as RankSelection
    from .rank import select_rank as select_rank
    from .robust_pca import RPCA as RPCA
    from .robust_pca import GoDec as GoDec
    from .stream import Checkpoint as Checkpoint
    from .stream import fit_stream as fit_stream
    from .symmetric import SymmetricNMF as SymmetricNMF

_MODULES = {
    "conservative": ("ConservativeNMF",),
    "model_files": ("load_model",),
    "multiview": ("MultiviewNMF",),
    "nmf": ("NMF",),
    "online": ("OnlineNMF",),
    "penalty": ("Penalty",),
    "projective": ("ProjectiveNMF",),
    "rank": ("RankSelection", "select_rank"),
    "robust_pca": ("RPCA", "GoDec"),
    "stream": ("Checkpoint", "fit_stream"),
    "symmetric": ("SymmetricNMF",),
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES)
