"""Video background and foreground masks, for a camera that stands still.

==============================  ====================================================================
:class:`BackgroundModel`        learn a background from frames (`fit`), separate frames by it (`apply`)
:class:`OnlineBackgroundModel`  the same for a stream, frame by frame
:func:`make_separator`          the same by another method, to compare with: robust PCA, GoDec, MOG2, ...
:func:`process_video`           read a video file; write background, masks and preview; return a report
:func:`follow_source`           read any source of frames; write a mask for each frame as it comes
:func:`evaluate`                compare methods on clips with true masks
==============================  ====================================================================

The settings of :func:`process_video` and :func:`follow_source` are the records of :mod:`.settings`. Importing this
package loads no numerical library; each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .evaluation.baselines import Separator as Separator
    from .evaluation.baselines import make_separator as make_separator
    from .evaluation.scores import BackgroundScoresReport as BackgroundScoresReport
    from .evaluation.scores import evaluate as evaluate
    from .frame_arrays import Separated as Separated
    from .live import LiveCallbacks as LiveCallbacks
    from .live import follow_source as follow_source
    from .model.estimator import BackgroundModel as BackgroundModel
    from .model.mask import foreground_mask as foreground_mask
    from .model.mask import median_mask as median_mask
    from .online.estimator import OnlineBackgroundModel as OnlineBackgroundModel
    from .pipeline import process_video as process_video
    from .reports import BackgroundReport as BackgroundReport
    from .reports import LiveReport as LiveReport
    from .reports import MaskStatistics as MaskStatistics
    from .settings import EventSettings as EventSettings
    from .settings import LiveSettings as LiveSettings
    from .settings import ModelSettings as ModelSettings
    from .settings import OutputSettings as OutputSettings
    from .settings import RegionSettings as RegionSettings
    from .settings import VideoSettings as VideoSettings

_LAZY = {
    "BackgroundModel": ".model.estimator",
    "BackgroundReport": ".reports",
    "BackgroundScoresReport": ".evaluation.scores",
    "EventSettings": ".settings",
    "LiveCallbacks": ".live",
    "LiveReport": ".reports",
    "LiveSettings": ".settings",
    "MaskStatistics": ".reports",
    "ModelSettings": ".settings",
    "OnlineBackgroundModel": ".online.estimator",
    "OutputSettings": ".settings",
    "RegionSettings": ".settings",
    "Separated": ".frame_arrays",
    "Separator": ".evaluation.baselines",
    "VideoSettings": ".settings",
    "evaluate": ".evaluation.scores",
    "follow_source": ".live",
    "foreground_mask": ".model.mask",
    "make_separator": ".evaluation.baselines",
    "median_mask": ".model.mask",
    "process_video": ".pipeline",
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
