"""Data with known truth, and readers for research data that lies on this machine.

``make_*`` make data from a seed. ``load_*`` in :mod:`visionnmf.datasets.local` read research data sets that the user
has; nothing is downloaded.

========================================  ====================================================================
:func:`make_corrupted_low_rank`           a non-negative low-rank matrix, clean and with one of five corruptions
:func:`make_surveillance`                 a clip of a fixed camera, its background and its masks
:func:`iter_surveillance`                 the same clip frame by frame, for clips longer than memory
:func:`make_mosaic`                       an image of textured regions and its segmentation
========================================  ====================================================================

Importing this package loads no numerical library; each name is loaded when first used.
"""

if __name__ != "visionnmf.datasets":
    raise ImportError("import this package as visionnmf.datasets, not by the name of its folder")

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._low_rank import CorruptedLowRank as CorruptedLowRank
    from ._low_rank import make_corrupted_low_rank as make_corrupted_low_rank
    from ._mosaic import Mosaic as Mosaic
    from ._mosaic import make_mosaic as make_mosaic
    from ._surveillance import Surveillance as Surveillance
    from ._surveillance import iter_surveillance as iter_surveillance
    from ._surveillance import make_surveillance as make_surveillance

__all__ = [
    "CorruptedLowRank",
    "Mosaic",
    "Surveillance",
    "iter_surveillance",
    "make_corrupted_low_rank",
    "make_mosaic",
    "make_surveillance",
]

_LAZY = {
    "CorruptedLowRank": "._low_rank",
    "Mosaic": "._mosaic",
    "Surveillance": "._surveillance",
    "iter_surveillance": "._surveillance",
    "make_corrupted_low_rank": "._low_rank",
    "make_mosaic": "._mosaic",
    "make_surveillance": "._surveillance",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name], __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
