"""Labelled sets of views for benchmarks: the six that others publish, and those that the extractors make of images."""

from __future__ import annotations

import zipfile
from typing import Any

import numpy as np
from _main import data_file
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from visionnmf.apps.multiview.inputs import read_views
from visionnmf.features import make_extractor
from visionnmf.io import decode_image

__all__ = ["MADE", "PUBLISHED", "view_set"]

Array = NDArray[Any]

PUBLISHED = ("handwritten", "100leaves", "msrcv1", "scene15", "bbcsport", "3sources")
KINDS = {  # of the features that are the views of images
    "yale": ("gist", "hog", "lbp", "centrist"),
    "umist": ("gist", "hog", "lbp", "raw-pixels"),
    "orl": ("gist", "hog", "lbp", "centrist"),
    "lfw": ("gist", "hog", "lbp", "raw-pixels"),
    "corel": ("gist", "lbp", "centrist", "dense-hue"),
    "mnist": ("raw-pixels", "hog", "centrist"),
}
FILES = {
    "yale": "yale_64x64.npz",
    "umist": "umist_28x23.npz",
    "orl": "orl_112x92.npz",
    "lfw": "lfw20_120x120.npz",
    "mnist": "mnist_train.npz",
}
MADE = ("orl", "lfw", "corel", "mnist", "digits")  # that chose nothing; "yale" and "umist" helped to choose classifiers
COREL_CLASSES, COREL_IMAGES = 20, 50  # each class is a hundred photographs of one subject
MNIST_IMAGES = 1500


def view_set(name: str) -> tuple[dict[str, Array], Array]:
    """Return the views (n_samples, n_features) of a set by their names, and the class of each sample (n_samples,).

    Raises Missing if the research data are not on this machine.
    """
    if name == "digits":  # bundled with scikit-learn; cut into three views
        X, labels = load_digits(return_X_y=True)
        return dict(zip(("top", "middle", "bottom"), np.split(X, (24, 40), axis=1), strict=True)), labels
    if name not in KINDS:
        found = read_views([str(data_file(f"mv_{name}.npz"))])
        return dict(found.views), np.asarray(found.labels)
    images, labels = _images(name)
    return {kind: np.asarray(make_extractor(kind).fit_transform(images)) for kind in KINDS[name]}, labels


def _images(name: str) -> tuple[list[Array], Array]:
    """Return the images of a set and the class of each."""
    if name != "corel":
        with np.load(data_file(FILES[name])) as found:
            rows = slice(MNIST_IMAGES if name == "mnist" else None)
            return list(found["images"][rows]), found["labels"][rows].astype(int)
    images, labels = [], []
    with zipfile.ZipFile(data_file("corel5k_images.zip")) as archive:
        numbers = {int(path.split("/")[1].split(".")[0]): path for path in archive.namelist() if path.endswith(".jpeg")}
        for subject in sorted({number // 1000 for number in numbers})[:COREL_CLASSES]:
            own = sorted(number for number in numbers if number // 1000 == subject)[:COREL_IMAGES]
            images += [decode_image(archive.read(numbers[number]), numbers[number]) for number in own]
            labels += [subject] * len(own)
    return images, np.array(labels)
