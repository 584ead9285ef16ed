"""Several views of the same samples: fit a model, find codes, fill in missing views, compare methods.

========================  ==========================================================================
:func:`read_views`        views out of files and folders of images, with their rows matched
:func:`fit_views`         files of views in; a model file and a report out
:func:`transform_views`   a model file and views of new samples in; their codes out
:func:`impute_views`      likewise; all views out, with what was missing filled in
:func:`evaluate_views`    methods compared on random splits of labelled samples
:func:`evaluate_files`    the same for views in files, with a table and a plot
:class:`FLSS`             factorised latent spaces with structured sparsity, a baseline
========================  ==========================================================================

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .evaluation import EvaluationReport as EvaluationReport
    from .evaluation import evaluate_files as evaluate_files
    from .evaluation import evaluate_views as evaluate_views
    from .evaluation import summarise as summarise
    from .fitting import FitReport as FitReport
    from .fitting import TransformReport as TransformReport
    from .fitting import fit_views as fit_views
    from .fitting import impute_views as impute_views
    from .fitting import transform_views as transform_views
    from .flss import FLSS as FLSS
    from .inputs import read_views as read_views
    from .settings import Comparison as Comparison
    from .settings import Labels as Labels
    from .settings import ViewFit as ViewFit
    from .store import ViewModel as ViewModel
    from .store import load as load
    from .store import save as save

_LAZY = {
    "Comparison": ".settings",
    "EvaluationReport": ".evaluation",
    "FLSS": ".flss",
    "FitReport": ".fitting",
    "Labels": ".settings",
    "TransformReport": ".fitting",
    "ViewFit": ".settings",
    "ViewModel": ".store",
    "evaluate_files": ".evaluation",
    "evaluate_views": ".evaluation",
    "fit_views": ".fitting",
    "impute_views": ".fitting",
    "load": ".store",
    "read_views": ".inputs",
    "save": ".store",
    "summarise": ".evaluation",
    "transform_views": ".fitting",
}

__all__ = list(_LAZY)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name], __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
