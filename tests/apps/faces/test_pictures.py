"""Drawings of faces."""

import numpy as np
from helpers import SHAPE

from visionnmf.apps.faces.pictures import shadows_picture


def test_shadows_are_dark_and_highlights_bright():
    images, shadows = np.full((2, 256), 100.0), np.zeros((2, 256))
    shadows[0], shadows[1] = -100, 100
    sheet = shadows_picture(images, images, shadows, SHAPE)
    assert sheet[0, 0, 0] == 100 and sheet[-1, 0, 0] < 100 < sheet[-1, -1, 0]
