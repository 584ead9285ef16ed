"""Image segmentation: an ultrametric tree of regions from learnt borders, and soft parts by symmetric NMF.

=======================  ==========================================================================
:func:`segment`          an image as an array in; the segment of each pixel out, and the tree
:func:`segment_images`   the same for several
:class:`Hierarchy`       the tree
:func:`overlay`          segments drawn over their picture
:func:`to_coco`          segments as COCO's JSON; so :func:`to_geojson`, :func:`to_svg`, :func:`to_csv`
:func:`cut_out`          each segment alone, transparent around it
:func:`paper_segments`   the recipe of MahNMF's paper, recursive normalised cuts, spectral clustering, to compare with
:func:`process_image`    an image file in; what is asked for out, and a report
:func:`evaluate`         methods compared on pictures that people segmented
=======================  ==========================================================================

Importing this package loads no numerical library; each name is loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .draw import overlay as overlay
    from .evaluation import SegmentationScoresReport as SegmentationScoresReport
    from .evaluation import evaluate as evaluate
    from .formats import cut_out as cut_out
    from .formats import to_coco as to_coco
    from .formats import to_csv as to_csv
    from .formats import to_geojson as to_geojson
    from .formats import to_svg as to_svg
    from .hierarchy import Hierarchy as Hierarchy
    from .methods import METHODS as METHODS
    from .model import SegmentationResult as SegmentationResult
    from .model import segment as segment
    from .model import segment_images as segment_images
    from .paper import paper_segments as paper_segments
    from .run import PaperReport as PaperReport
    from .run import SegmentationReport as SegmentationReport
    from .run import join_coco as join_coco
    from .run import joined_files as joined_files
    from .run import process_image as process_image
    from .run import process_paper as process_paper

_LAZY = {
    "Hierarchy": ".hierarchy",
    "METHODS": ".methods",
    "PaperReport": ".run",
    "SegmentationReport": ".run",
    "SegmentationResult": ".model",
    "SegmentationScoresReport": ".evaluation",
    "cut_out": ".formats",
    "evaluate": ".evaluation",
    "join_coco": ".run",
    "joined_files": ".run",
    "overlay": ".draw",
    "paper_segments": ".paper",
    "process_image": ".run",
    "process_paper": ".run",
    "segment": ".model",
    "segment_images": ".model",
    "to_coco": ".formats",
    "to_csv": ".formats",
    "to_geojson": ".formats",
    "to_svg": ".formats",
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
