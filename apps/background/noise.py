"""The floor of the noise of a camera."""

from __future__ import annotations

import math

import numpy as np

from . import tuning
from .frame_arrays import Floats

__all__ = ["camera_floor"]

ROUNDING = 1 / math.sqrt(12)  # standard deviation of rounding to whole grey levels


def camera_floor(noise: Floats) -> float:
    """Return the floor in the dark, in grey levels, of a camera of which `noise` is that of some or all pixels.

    It is a multiple of the noise of the usual pixel, with that of rounding to whole grey levels.
    """
    bounds = tuning.TUNING.noise
    camera = bounds.times_camera * math.hypot(float(np.median(noise)), ROUNDING)
    return min(max(camera, bounds.lowest), bounds.floor)
