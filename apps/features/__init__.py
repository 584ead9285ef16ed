"""Features of images as a table: :func:`extract_features`, the command ``visionnmf features``."""

from .run import FeaturesReport, extract_features
from .table import FeatureTable, read_table

__all__ = ["FeatureTable", "FeaturesReport", "extract_features", "read_table"]
