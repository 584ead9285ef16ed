"""Files of online background models: all that the next frame needs, so that a stream can be continued."""

from __future__ import annotations

from visionnmf.apps.background.model.camera_shake import Registration
from visionnmf.apps.background.model.dynamic_background import DynamicBackground
from visionnmf.io.model_file import ModelFile, check_model, class_finder

from .estimator import OnlineBackgroundModel

FILE = ModelFile(
    "online-background",
    version=5,
    title="an online background model",
    origin="make one with OnlineBackgroundModel.save",
    smaller="work on smaller frames",
    find_class=class_finder(OnlineBackgroundModel, DynamicBackground, Registration),
    check=check_model(OnlineBackgroundModel),
)

save, load_estimator = FILE.save, FILE.load
