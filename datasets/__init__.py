"""Data sets: generated ones with known truth, faces, and readers for research data on this machine.

Functions ``make_*`` generate data from a seed. Functions ``fetch_*`` download a research data set on their first call
and keep it in :func:`cache_folder`. Functions ``load_*`` read data that the user has; those of
:mod:`visionnmf.datasets.local` read research data sets.

========================================  ====================================================================
:func:`make_corrupted_low_rank`           a non-negative low-rank matrix, clean and with one of five corruptions
:func:`make_surveillance`                 a clip of a fixed camera, its background and its masks
:func:`iter_surveillance`                 the same clip frame by frame, for clips larger than memory
:func:`make_mosaic`                       an image of textured regions and its segmentation
:func:`make_views`                        views of the same samples with shared and private parts
:func:`make_objects`                      grey images of objects on a turntable, on a black background
:func:`corrupt`                           images with blocks, noise or dead lines; `CORRUPTIONS` lists the kinds
:func:`load_faces`                        faces from a folder, a .npz or a .mat file, as :class:`Faces`
:func:`fetch_orl`                         the ORL faces
:func:`fetch_yale`                        the Yale faces
:func:`fetch_yaleb`                       the Extended Yale B faces
========================================  ====================================================================

Importing this package loads no numerical library; each name is loaded when first used.
"""

if __name__ != "visionnmf.datasets":
    raise ImportError("import this package as visionnmf.datasets, not by the name of its folder")

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._corruptions import CORRUPTIONS as CORRUPTIONS
    from ._corruptions import corrupt as corrupt
    from ._faces import Faces as Faces
    from ._faces import load_faces as load_faces
    from ._fetch import cache_folder as cache_folder
    from ._fetch import fetch_orl as fetch_orl
    from ._fetch import fetch_yale as fetch_yale
    from ._fetch import fetch_yaleb as fetch_yaleb
    from ._low_rank import CorruptedLowRank as CorruptedLowRank
    from ._low_rank import make_corrupted_low_rank as make_corrupted_low_rank
    from ._mosaic import Mosaic as Mosaic
    from ._mosaic import make_mosaic as make_mosaic
    from ._objects import make_objects as make_objects
    from ._surveillance import Surveillance as Surveillance
    from ._surveillance import iter_surveillance as iter_surveillance
    from ._surveillance import make_surveillance as make_surveillance
    from ._views import PlantedViews as PlantedViews
    from ._views import make_views as make_views

_LAZY = {
    "CORRUPTIONS": "._corruptions",
    "CorruptedLowRank": "._low_rank",
    "Faces": "._faces",
    "Mosaic": "._mosaic",
    "PlantedViews": "._views",
    "Surveillance": "._surveillance",
    "cache_folder": "._fetch",
    "corrupt": "._corruptions",
    "fetch_orl": "._fetch",
    "fetch_yale": "._fetch",
    "fetch_yaleb": "._fetch",
    "iter_surveillance": "._surveillance",
    "load_faces": "._faces",
    "make_corrupted_low_rank": "._low_rank",
    "make_mosaic": "._mosaic",
    "make_objects": "._objects",
    "make_surveillance": "._surveillance",
    "make_views": "._views",
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
