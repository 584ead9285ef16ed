"""Files of background models: the components, their codes, the noise of each pixel, and what the scene needs.

Small frames are enlarged before they are learnt: "rows" and "columns" are those of enlarged frames.
"""

from __future__ import annotations

from visionnmf.io.model_file import ModelFile
from visionnmf.io.model_state import Array, Estimator, FrameShape, Maybe, Record, Whole

from .camera_shake import Registration
from .dynamic_background import DynamicBackground
from .estimator import BackgroundModel
from .learning import LearntBackground

__all__ = ["FILE", "load_estimator", "save"]

DYNAMIC = Record(
    {
        "share": Array("float32", "rows columns", low=0, high=1),
        "noise": Array("float32", "rows columns", low=1),
        "smooth_noise": Array("float32", "rows columns", low=1),
    },
    DynamicBackground,
)
REGISTRATION = Record({"scene": Array("float32", "height width", low=0, high=255)}, Registration)
LEARNT = Record(
    {
        "noise_scale": Array("float32", "rows columns", above=0),
        "H": Array("float32", "components rows*columns channels", low=0),
        "Wt": Array("float32", "components frames", low=0),
        "median": Array("uint8", "height*width channels"),
        "chosen": Array("int64", "chosen", low=0, below="rows*columns", increasing=True),
        "dynamic": Maybe(DYNAMIC),
        "registration": Maybe(REGISTRATION),
    },
    LearntBackground,
)
STATE = {
    "frame_shape_": FrameShape(),
    "_learnt": LEARNT,
    "learnt_frames_": Array("int64", "frames"),
    "n_frames_seen_": Whole(low=1),
}

FILE = ModelFile(
    "visionnmf-background",
    version=6,
    title="a background model",
    origin="make one with BackgroundModel.save",
    smaller="work on smaller frames",
    state=Estimator({"BackgroundModel": STATE}, {"BackgroundModel": BackgroundModel}.__getitem__),
)

save, load_estimator = FILE.save, FILE.load
