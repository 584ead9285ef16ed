"""Made people: as arrays, as a folder, as a model file."""

import numpy as np
import pytest
from helpers import SHAPE, made_faces, rows
from PIL import Image

from visionnmf.apps.faces import FaceModel, FaceRecognizer, save
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


@pytest.fixture
def model(faces, tmp_path):
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0)
    recognizer.fit(rows(faces.images), np.array(faces.names)[faces.labels - 1])
    path = tmp_path / "people.npz"
    save(FaceModel(recognizer), path)
    return path, recognizer
