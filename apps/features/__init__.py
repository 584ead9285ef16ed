"""Features of images as a table: :func:`extract_features`, the command ``visionnmf features``.

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from visionnmf.apps.feature_tables import FeatureTable as FeatureTable
    from visionnmf.apps.feature_tables import read_table as read_table

    from .extraction import FeaturesReport as FeaturesReport
    from .extraction import extract_features as extract_features
    from .settings import ExtractorFiles as ExtractorFiles

_LAZY = {
    "ExtractorFiles": ".settings",
    "FeatureTable": "visionnmf.apps.feature_tables",
    "FeaturesReport": ".extraction",
    "extract_features": ".extraction",
    "read_table": "visionnmf.apps.feature_tables",
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
