"""Data sets: generated ones with known truth, faces, and readers for research data on this machine.

Functions ``make_*`` generate data from a seed. Functions ``fetch_*`` download a research data set on their first call
and keep it in :func:`cache_folder`.

========================================  ====================================================================
:func:`make_corrupted_low_rank`           a non-negative low-rank matrix, clean and corrupted
:func:`make_surveillance`                 a clip of a fixed camera, its background and its masks
:func:`iter_surveillance`                 the same clip frame by frame, for clips larger than memory
:func:`make_mosaic`                       an image of textured regions and its segmentation
:func:`make_views`                        views of the same samples with shared and private parts
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

from typing import TYPE_CHECKING

from visionnmf._lazy import lazy_names

if TYPE_CHECKING:
    from ._corruptions import CORRUPTIONS as CORRUPTIONS
    from ._corruptions import CorruptedLowRank as CorruptedLowRank
    from ._corruptions import corrupt as corrupt
    from ._corruptions import make_corrupted_low_rank as make_corrupted_low_rank
    from ._faces import Faces as Faces
    from ._faces import load_faces as load_faces
    from ._fetch import cache_folder as cache_folder
    from ._fetch import fetch_orl as fetch_orl
    from ._fetch import fetch_yale as fetch_yale
    from ._fetch import fetch_yaleb as fetch_yaleb
    from ._mosaic import Mosaic as Mosaic
    from ._mosaic import make_mosaic as make_mosaic
    from ._surveillance import Surveillance as Surveillance
    from ._surveillance import iter_surveillance as iter_surveillance
    from ._surveillance import make_surveillance as make_surveillance
    from ._views import PlantedViews as PlantedViews
    from ._views import make_views as make_views

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "_corruptions": ("CORRUPTIONS", "CorruptedLowRank", "corrupt", "make_corrupted_low_rank"),
        "_faces": ("Faces", "load_faces"),
        "_fetch": ("cache_folder", "fetch_orl", "fetch_yale", "fetch_yaleb"),
        "_mosaic": ("Mosaic", "make_mosaic"),
        "_surveillance": ("Surveillance", "iter_surveillance", "make_surveillance"),
        "_views": ("PlantedViews", "make_views"),
    },
)
