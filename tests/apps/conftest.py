"""Made people, as arrays and as a folder, and made users of a shell."""

import numpy as np
import pytest
from helpers import made_faces, make_chain, walk
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


@pytest.fixture(scope="module")
def users():
    """Five users: 40 sessions to train, 30 own and 30 of the other users to test."""
    rng = np.random.default_rng(7)
    chains = [make_chain(rng) for _ in range(5)]
    own = [walk(chain, rng, 70) for chain in chains]
    made = []
    for u in range(5):
        others = [s for v in range(5) if v != u for s in own[v][40:48]][:30]
        made.append((own[u][:40], own[u][40:], others))
    return made
