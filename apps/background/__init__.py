"""Video background and foreground masks, for a camera that stands still.

=========================  =========================================================================
:class:`BackgroundModel`   learn a background from frames (`fit`), separate frames by it (`apply`)
:func:`process_video`      a video file in; background, masks and preview out, and a report
=========================  =========================================================================
"""

from .model import BackgroundModel, Separated, foreground_mask, median_mask
from .report import BackgroundReport, Masks
from .run import process_video

__all__ = [
    "BackgroundModel",
    "BackgroundReport",
    "Masks",
    "Separated",
    "foreground_mask",
    "median_mask",
    "process_video",
]
