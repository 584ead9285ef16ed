"""Files of background models."""

from __future__ import annotations

from visionnmf.io.model_file import ModelFile, check_model, class_finder

from .camera_shake import Registration
from .dynamic_background import DynamicBackground
from .estimator import BackgroundModel
from .learning import LearntBackground

FILE = ModelFile(
    "background",
    version=7,
    title="a background model",
    origin="make one with BackgroundModel.save",
    smaller="work on smaller frames",
    find_class=class_finder(BackgroundModel, LearntBackground, DynamicBackground, Registration),
    check=check_model(BackgroundModel),
)

save, load_estimator = FILE.save, FILE.load
