"""Made people, as arrays and as a folder."""

import numpy as np
import pytest
from helpers import made_faces
from PIL import Image

from visionnmf.datasets import Faces


@pytest.fixture
def faces(rng):
    images, labels = made_faces(rng, 4, 6)
    return Faces(images, np.repeat(np.arange(1, 5), 6), tuple(np.unique(labels)))


@pytest.fixture
def folder(faces, tmp_path):
    place = tmp_path / "people"
    for label, name in enumerate(faces.names, 1):
        (place / name).mkdir(parents=True)
        for number, image in enumerate(faces.images[faces.labels == label]):
            Image.fromarray(image).save(place / name / f"{number}.png")
    return place
