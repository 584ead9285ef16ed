"""Image segmentation by symmetric Manhattan NMF of a superpixel affinity.

=======================  ==========================================================================
:func:`segment`          an image as an array in, the segment of each pixel out
:func:`overlay`          segments drawn over their image
:func:`process_image`    an image file in; labels and overlay out, and a report
:func:`region_affinity`  what the model factorises
=======================  ==========================================================================
"""

from .draw import overlay
from .model import SegmentationResult, region_affinity, segment
from .run import SegmentationReport, process_image

__all__ = ["SegmentationReport", "SegmentationResult", "overlay", "process_image", "region_affinity", "segment"]
