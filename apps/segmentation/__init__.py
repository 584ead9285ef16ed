"""Image segmentation: an ultrametric tree of regions from learnt borders, and soft parts by symmetric NMF.

=======================  ==========================================================================
:func:`segment`          divides an image, given as an array, into segments; also returns the tree
:func:`segment_images`   does the same for several images
:class:`Hierarchy`       the tree
:func:`overlay`          draws segments over their picture
:func:`to_coco`          segments as COCO's JSON; likewise :func:`to_geojson`, :func:`to_svg`, :func:`to_csv`
:func:`cut_out`          each segment as a picture of its own, transparent around it
:func:`paper_segments`   the MahNMF paper's method, recursive normalised cuts and spectral clustering, to compare with
:func:`process_image`    segments an image file, writes the results and returns a report
:func:`evaluate`         compares methods on pictures that people segmented
=======================  ==========================================================================

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .baselines import METHODS
    from .evaluation import SegmentationScoresReport, evaluate
    from .formats import cut_out, to_coco, to_csv, to_geojson, to_svg
    from .hierarchy import Hierarchy
    from .overlays import overlay
    from .paper_method import paper_segments
    from .process import SegmentationReport, process_image
    from .segmenter import SegmentationResult, segment, segment_images
    from .settings import Cut, Outputs

_MODULES = {
    "baselines": ("METHODS",),
    "evaluation": ("SegmentationScoresReport", "evaluate"),
    "formats": ("cut_out", "to_coco", "to_csv", "to_geojson", "to_svg"),
    "hierarchy": ("Hierarchy",),
    "overlays": ("overlay",),
    "paper_method": ("paper_segments",),
    "process": ("SegmentationReport", "process_image"),
    "segmenter": ("SegmentationResult", "segment", "segment_images"),
    "settings": ("Cut", "Outputs"),
}

__all__ = [
    "METHODS",
    "Cut",
    "Hierarchy",
    "Outputs",
    "SegmentationReport",
    "SegmentationResult",
    "SegmentationScoresReport",
    "cut_out",
    "evaluate",
    "overlay",
    "paper_segments",
    "process_image",
    "segment",
    "segment_images",
    "to_coco",
    "to_csv",
    "to_geojson",
    "to_svg",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f".{module}", __name__), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
