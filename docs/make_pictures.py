"""Draw the pictures of the README and of the guide to faces: ``python docs/make_pictures.py``."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from skimage import data

from visionnmf.apps.background import BackgroundModel
from visionnmf.apps.faces import FaceRecognizer
from visionnmf.apps.faces.pictures import residual_picture
from visionnmf.apps.segmentation import overlay, segment
from visionnmf.datasets import corrupt, make_surveillance
from visionnmf.io import read_image, write_image

IMAGES = Path(__file__).parent / "images"
WIDTH = 720
FRAME = 150


def readme() -> None:
    """Show a photograph and its segments; a frame, its background and the mask."""
    photograph = read_image("sample:coffee")
    segments = overlay(photograph, segment(photograph, n_segments=5).labels)
    clip = make_surveillance(300, 240, 320, random_state=0)
    found = list(BackgroundModel().fit(clip.frames).apply(clip.frames))[FRAME]
    mask = np.repeat(found.mask[..., None], 3, axis=2)
    rows = [np.hstack([photograph, segments]), np.hstack([found.frame, found.background, mask])]
    scaled = [cv2.resize(row, (WIDTH, WIDTH * len(row) // row.shape[1]), interpolation=cv2.INTER_AREA) for row in rows]
    write_image(IMAGES / "readme.png", np.vstack(scaled), force=True)


def corrupted_faces() -> None:
    """Corrupt the hundred faces of scikit-image's LFW subset, and show what is found and cleaned on twelve of them."""
    faces = (data.lfw_subset()[:100] * 255).astype(np.uint8)
    shape = faces.shape[1:]
    noisy = corrupt(faces[::2], "salt_and_pepper", 0.2, random_state=0)
    blocked = corrupt(faces[1::2], "occlusion", 8, random_state=0)
    X = np.concatenate([noisy, blocked]).reshape(100, -1).astype(np.float32)
    # who is on them is not known and does not matter to the cleaning
    found = FaceRecognizer(outliers=3, image_shape=shape, random_state=0).fit(X, np.arange(100) % 2)
    shown = [*range(6), *range(50, 56)]
    panels = (X, found.reconstructions_, found.cleaned_, found.corrupted_)
    images, reconstructions, cleaned, corrupted = (panel[shown] for panel in panels)
    sheet = residual_picture(images, reconstructions, cleaned, corrupted, shape)
    write_image(IMAGES / "faces_corrupted.png", sheet, force=True)


if __name__ == "__main__":
    readme()
    corrupted_faces()
