"""A model file of made people."""

import numpy as np
import pytest
from helpers import SHAPE, rows

from visionnmf.apps.faces import FaceModel, FaceRecognizer, save


@pytest.fixture
def model(faces, tmp_path):
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0)
    recognizer.fit(rows(faces.images), np.array(faces.names)[faces.labels - 1])
    path = tmp_path / "people.npz"
    save(FaceModel(recognizer), path)
    return path, recognizer
