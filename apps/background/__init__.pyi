from .frame_arrays import Separated as Separated
from .live import LiveCallbacks as LiveCallbacks, follow_source as follow_source
from .model.estimator import BackgroundModel as BackgroundModel
from .online.estimator import OnlineBackgroundModel as OnlineBackgroundModel
from .pipeline import process_video as process_video
from .reports import MaskStatistics as MaskStatistics
from .separators import make_separator as make_separator
from .settings import (
    EventSettings as EventSettings,
    LiveSettings as LiveSettings,
    ModelSettings as ModelSettings,
    OutputSettings as OutputSettings,
    RegionSettings as RegionSettings,
    VideoSettings as VideoSettings,
)
