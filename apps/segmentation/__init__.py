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
"""

from .draw import overlay
from .evaluation import SegmentationScoresReport, evaluate
from .formats import cut_out, to_coco, to_csv, to_geojson, to_svg
from .hierarchy import Hierarchy
from .methods import METHODS
from .model import SegmentationResult, segment, segment_images
from .paper import paper_segments
from .run import PaperReport, SegmentationReport, join_coco, joined_files, process_image, process_paper

__all__ = [
    "METHODS",
    "Hierarchy",
    "PaperReport",
    "SegmentationReport",
    "SegmentationResult",
    "SegmentationScoresReport",
    "cut_out",
    "evaluate",
    "join_coco",
    "joined_files",
    "overlay",
    "paper_segments",
    "process_image",
    "process_paper",
    "segment",
    "segment_images",
    "to_coco",
    "to_csv",
    "to_geojson",
    "to_svg",
]
