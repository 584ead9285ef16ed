"""Files of online background models: all that the next frame needs, so that a stream can be continued."""

from __future__ import annotations

import math

from visionnmf.apps.background.model.store import REGISTRATION
from visionnmf.io.model_file import ModelFile
from visionnmf.io.model_state import Array, Estimator, FrameShape, Maybe, Number, Record, Text, Whole

from .estimator import OnlineBackgroundModel

__all__ = ["FILE", "load_estimator", "save"]

PIXELS = Array("float32", "rows columns", low=0)  # of enlarged frames, if they are small
COLOURS = Array("float32", "rows columns channels", low=0)
SOURCE = {"name": Text(), **{name: Maybe(Number()) for name in ("every", "start", "frame_rate")}}

STATE = {
    "frame_shape_": FrameShape(),
    "_scene": COLOURS,
    "_alternative": COLOURS,
    "_support": PIXELS,
    "_alternative_support": PIXELS,
    "_noise": PIXELS,
    "_chosen": Array("int64", "places", low=0, below="rows*columns"),
    "_before": Maybe(Array("uint8", "rows columns channels?")),
    "_registration": Maybe(REGISTRATION),
    "_unexplained": Number(low=0),
    "source_": Maybe(Record(SOURCE)),  # set by `follow_source`
    "n_frames_seen_": Whole(),
    "time_": Number(also=(-math.inf,)),
    "gain_": Number(above=0),
}

FILE = ModelFile(
    "visionnmf-online-background",
    version=3,
    title="an online background model",
    origin="make one with OnlineBackgroundModel.save",
    smaller="work on smaller frames",
    state=Estimator({"OnlineBackgroundModel": STATE}, {"OnlineBackgroundModel": OnlineBackgroundModel}.__getitem__),
)

save, load_estimator = FILE.save, FILE.load
