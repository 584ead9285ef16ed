"""Draw the picture of the README anew: ``python docs/make_pictures.py``."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from visionnmf.apps.background import BackgroundModel
from visionnmf.apps.segmentation import overlay, segment
from visionnmf.datasets import make_surveillance
from visionnmf.io import read_image, write_image

WIDTH = 720
FRAME = 150


def main() -> None:
    """Write docs/images/readme.png."""
    photograph = read_image("sample:coffee")
    segments = overlay(photograph, segment(photograph, n_segments=5).labels)
    clip = make_surveillance(300, 240, 320, random_state=0)
    found = list(BackgroundModel().fit(clip.frames).apply(clip.frames))[FRAME]
    mask = np.repeat(found.mask[..., None], 3, axis=2)
    rows = [np.hstack([photograph, segments]), np.hstack([found.frame, found.background, mask])]
    scaled = [cv2.resize(row, (WIDTH, WIDTH * len(row) // row.shape[1]), interpolation=cv2.INTER_AREA) for row in rows]
    write_image(Path(__file__).parent / "images" / "readme.png", np.vstack(scaled), force=True)


if __name__ == "__main__":
    main()
