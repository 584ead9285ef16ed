"""Views of the same samples: fit, find codes, fill in what is missing, compare methods."""

from .comparison import EvaluationReport, evaluate_files
from .evaluation import Plan, evaluate_views, summarise
from .inputs import read_views
from .run import FitReport, TransformReport, fit_views, impute_views, transform_views
from .store import ViewModel, load, save

__all__ = [
    "EvaluationReport",
    "FitReport",
    "Plan",
    "TransformReport",
    "ViewModel",
    "evaluate_files",
    "evaluate_views",
    "fit_views",
    "impute_views",
    "load",
    "read_views",
    "save",
    "summarise",
    "transform_views",
]
