"""Draw the pictures of the README and of the guides from samples: ``python docs/make_pictures.py [NAME ...]``."""

from __future__ import annotations

import sys
import time
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import av
import cv2
import numpy as np
from PIL import Image, ImageOps
from skimage import data

from visionnmf import NMF, MultiviewNMF
from visionnmf.apps.annotation import ImageAnnotator
from visionnmf.apps.background import BackgroundModel
from visionnmf.apps.drawing import components_picture, grey_pictures, tiled
from visionnmf.apps.faces import FaceRecognizer
from visionnmf.apps.faces.figures import residual_picture
from visionnmf.apps.segmentation import overlay, segment
from visionnmf.datasets import corrupt, make_surveillance
from visionnmf.datasets._surveillance import MASKS, VIDEO
from visionnmf.features import FeatureExtraction
from visionnmf.io import read_image, write_image

IMAGES = Path(__file__).parent / "images"
WIDTH = 720  # of the animated picture, pixels
SHOWN = range(100, 220, 2)  # frames of the clip that are shown
TEXTURES = {
    "brick": ["brick", "wall"],
    "grass": ["grass", "plant"],
    "gravel": ["stone", "ground"],
    "coffee": ["cup", "table"],
    "chelsea": ["cat", "fur"],
    "astronaut": ["person", "space"],
    "retina": ["eye", "medicine"],
    "hubble_deep_field": ["stars", "space"],
}
SIDE = 96  # of a crop, pixels
TILE = (420, 210)  # width and height of a picture of the strip, pixels
STRIP = {  # pictures of the gallery, and the part of each that is shown: left, top, right, bottom
    "segment": (0, 0.125, 0.64, 0.86),
    "scribbles": (0.335, 0.08, 1, 1),
    "background": (0.36, 0.06, 1, 0.55),
    "denoise_faces": (0, 0.268, 1, 0.755),
    "unknown_faces": (0, 0, 1, 1),
    "annotate": (0, 0, 0.5, 1),
    "views": (0, 0, 1, 1),
    "rank_and_loss": (0, 0, 1, 1),
    "stream": (0, 0.07, 1, 1),
}


def readme() -> None:
    """Animate a clip with its background and mask, below a photograph and its segments."""
    photograph = read_image("sample:coffee")
    top = np.hstack([photograph, overlay(photograph, segment(photograph, n_segments=5).labels)])
    clip = make_surveillance(300, 240, 320, random_state=0)
    found = list(BackgroundModel().fit(clip.frames).apply(clip.frames))
    pages = []
    for i in SHOWN:
        mask = np.repeat(found[i].mask[..., None], 3, axis=2)
        rows = [top, np.hstack([found[i].frame, found[i].background, mask])]
        size = [(WIDTH, WIDTH * len(row) // row.shape[1]) for row in rows]
        page = [cv2.resize(row, to, interpolation=cv2.INTER_AREA) for row, to in zip(rows, size, strict=True)]
        pages.append(Image.fromarray(np.vstack(page)))
    pages[0].save(
        IMAGES / "readme.webp", save_all=True, append_images=pages[1:], duration=80, loop=0, quality=60, method=4
    )


def surveillance() -> None:
    """Encode the clip of the README's second command, and store its true masks, beside the data sets."""
    made = make_surveillance(300, 240, 320, illumination=0.25, random_state=0)
    # "bitexact" leaves out random identifiers, so that equal frames give equal files.
    with av.open(str(VIDEO), "w", options={"fflags": "+bitexact", "movflags": "+faststart"}) as output:
        stream = output.add_stream("libx264", rate=10, options={"preset": "veryslow", "crf": "26"})
        stream.height, stream.width, stream.pix_fmt = *made.masks.shape[1:], "yuv420p"
        stream.codec_context.thread_count = 1
        for frame in made.frames:
            output.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        output.mux(stream.encode(None))
    np.savez_compressed(MASKS, masks=np.packbits(made.masks, axis=2))


def faces() -> None:
    """Corrupt the hundred faces of scikit-image's LFW subset, and show what is found and cleaned on twelve of them."""
    images = (data.lfw_subset()[:100] * 255).astype(np.uint8)
    shape = images.shape[1:]
    noisy = corrupt(images[::2], "salt_and_pepper", 0.2, random_state=0)
    blocked = corrupt(images[1::2], "occlusion", 8, random_state=0)
    X = np.concatenate([noisy, blocked]).reshape(100, -1).astype(np.float32)
    # The people are unknown, but cleaning does not depend on the labels.
    found = FaceRecognizer(outliers=3, image_shape=shape, random_state=0).fit(X, np.arange(100) % 2)
    shown = [*range(6), *range(50, 56)]
    panels = (X, found.reconstructions_, found.cleaned_, found.corrupted_)
    chosen, reconstructions, cleaned, corrupted = (panel[shown] for panel in panels)
    sheet = residual_picture(chosen, reconstructions, cleaned, corrupted, shape)
    write_image(IMAGES / "faces_corrupted.png", sheet, force=True)


def parts() -> None:
    """Show twenty components of the hundred faces."""
    images = (data.lfw_subset()[:100] * 255).astype(np.float32)
    model = NMF(20, loss="frobenius", random_state=0).fit(images.reshape(100, -1))
    write_image(IMAGES / "parts.png", components_picture(model.components_, images.shape[1:]), force=True)


def imputed() -> None:
    """Show ten faces, their upper halves, and the lower halves that a model of the other ninety predicts."""
    images = (data.lfw_subset()[:100] * 255).astype(np.float32)
    half = images.shape[1] // 2
    views = [images[:, :half].reshape(100, -1), images[:, half:].reshape(100, -1)]
    model = MultiviewNMF(20, random_state=0).fit([view[:90] for view in views])
    lower = model.impute([views[0][90:], None])[1]
    shape = images.shape[1:]
    given, complete = images[90:].copy(), images[90:].copy()
    given[:, half:] = 255
    complete[:, half:] = np.asarray(lower).reshape(10, shape[0] - half, shape[1])
    rows = [list(grey_pictures(values.reshape(10, -1), shape)) for values in (images[90:], given, complete)]
    write_image(IMAGES / "imputed.png", tiled(rows), force=True)


def crops(left: bool) -> tuple[list[Any], list[str]]:
    """Return square crops of the left or the right half of each photograph, and the name of the photograph of each."""
    pictures, names = [], []
    for name in TEXTURES:
        photograph = getattr(data, name)()
        if photograph.ndim == 2:
            photograph = np.repeat(photograph[..., None], 3, axis=2)
        height, width = photograph.shape[:2]
        columns = np.linspace(0, width // 2 - SIDE, 4) + (0 if left else width // 2)
        for y in np.linspace(height // 5, height - height // 5 - SIDE, 4).astype(int):
            for x in columns.astype(int):
                pictures.append(photograph[y : y + SIDE, x : x + SIDE])
                names.append(name)
    return pictures, names


def annotation() -> None:
    """Learn words from crops of the left halves of eight photographs, and show them on crops of the right halves."""
    words = sorted({word for both in TEXTURES.values() for word in both})
    (known, names), (new, truth) = crops(left=True), crops(left=False)
    extraction = FeatureExtraction(["gist", "lab"]).fit(known)
    Y = np.array([[word in TEXTURES[name] for word in words] for name in names])
    model = ImageAnnotator("jec", n_components=20, n_words=2)
    predicted = model.fit(extraction.transform(known), Y, words=words, views=extraction.views_).predict(
        extraction.transform(new)
    )
    right = np.array([[word in TEXTURES[name] for word in words] for name in truth])
    print(f"annotation: {(predicted & right).sum() / right.sum():.1%} of the words are right")
    tiles = []
    for i in range(5, len(new), 16):
        tile = np.full((SIDE + 22, SIDE + 8, 3), 255, np.uint8)
        tile[:SIDE, 4 : 4 + SIDE] = new[i]
        text = ", ".join(np.array(words)[predicted[i]])
        cv2.putText(tile, text, (4, SIDE + 15), cv2.FONT_HERSHEY_SIMPLEX, 0.36, (0, 0, 0), 1, cv2.LINE_AA)
        tiles.append(tile)
    write_image(IMAGES / "annotation.png", np.hstack(tiles), force=True)


def strip() -> None:
    """Cut the nine small pictures of the README out of those of the gallery, which `make docs` has drawn."""
    for name, (left, top, right, bottom) in STRIP.items():
        with Image.open(IMAGES.parent / "auto_gallery" / "images" / f"sphx_glr_plot_{name}_001.png") as drawn:
            box = (left * drawn.width, top * drawn.height, right * drawn.width, bottom * drawn.height)
            picture = ImageOps.pad(drawn.convert("RGB").crop(tuple(map(round, box))), TILE, color="white")
        picture.save(IMAGES / f"{name}.webp", quality=80, method=6)


def view() -> None:
    """Draw two scribbles in napari, whose extra and a screen are needed."""
    import napari
    from qtpy.QtWidgets import QApplication

    def settle() -> None:
        """Let the widget finish what it does in threads."""
        end = time.monotonic() + 5
        while time.monotonic() < end:
            QApplication.processEvents()

    viewer = napari.Viewer()
    viewer.window.resize(1600, 850)
    viewer.add_image(read_image("sample:coffee"), rgb=True, metadata={"visionnmf": "sample:coffee"}, name="coffee")
    panel = viewer.window.add_plugin_dock_widget("visionnmf", "Segment")[1]
    for work in (panel.grow, lambda: panel.draw.native.click()):
        work()
        settle()
    for label, (row, left, right) in enumerate([(120, 250, 360), (345, 120, 300)], 1):
        with panel.markers.value.block_history():
            for column in range(left, right):
                panel.markers.value.paint((row, column), label)
    settle()
    with TemporaryDirectory() as folder, chdir(folder):
        panel.save.native.click()
        settle()
    shot = viewer.screenshot(canvas_only=False, flash=False)[..., :3]
    Image.fromarray(shot).save(IMAGES / "view.webp", quality=75, method=6)
    viewer.close()


PICTURES = {
    "readme": readme,
    "surveillance": surveillance,
    "faces": faces,
    "parts": parts,
    "imputed": imputed,
    "annotation": annotation,
    "strip": strip,
    "view": view,
}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or PICTURES:
        PICTURES[chosen]()
