"""Video background and foreground masks, for a camera that stands still.

==============================  ====================================================================
:class:`BackgroundModel`        learn a background from frames (`fit`), separate frames by it (`apply`)
:class:`OnlineBackgroundModel`  the same of a stream, each frame as it comes
:func:`make_separator`          the same by another method, to compare with: robust PCA, GoDec, MOG2, ...
:func:`process_video`           a video file in; background, masks and preview out, and a report
:func:`follow_source`           any source of frames in, a mask for each as it comes
:func:`evaluate`                methods compared on clips with true masks
==============================  ====================================================================
"""

from .evaluation import BackgroundScoresReport, evaluate
from .events import EventSettings
from .frames import Separated
from .live import LiveReport, follow_source
from .mask import foreground_mask, median_mask
from .methods import Separator, make_separator
from .model import BackgroundModel
from .online.model import OnlineBackgroundModel
from .report import BackgroundReport, Masks
from .run import process_video

__all__ = [
    "BackgroundModel",
    "BackgroundReport",
    "BackgroundScoresReport",
    "EventSettings",
    "LiveReport",
    "Masks",
    "OnlineBackgroundModel",
    "Separated",
    "Separator",
    "evaluate",
    "follow_source",
    "foreground_mask",
    "make_separator",
    "median_mask",
    "process_video",
]
