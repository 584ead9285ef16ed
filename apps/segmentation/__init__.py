"""Image segmentation: an ultrametric tree of regions from learnt borders, and soft parts by symmetric NMF.

=======================  ==========================================================================
:func:`segment`          an image as an array in; the segment of each pixel out, and the tree
:class:`Hierarchy`       the tree
:func:`overlay`          segments drawn over their picture
:func:`process_image`    an image file in; labels and overlay out, and a report
:func:`evaluate`         methods compared on pictures that people segmented
=======================  ==========================================================================
"""

from .draw import overlay
from .evaluation import SegmentationScoresReport, evaluate
from .hierarchy import Hierarchy
from .methods import METHODS
from .model import SegmentationResult, segment
from .run import SegmentationReport, process_image

__all__ = [
    "METHODS",
    "Hierarchy",
    "SegmentationReport",
    "SegmentationResult",
    "SegmentationScoresReport",
    "evaluate",
    "overlay",
    "process_image",
    "segment",
]
