"""Corel5k: the JPEGs, and what was published of them."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from _main import data_file
from numpy.typing import NDArray

from visionnmf.io import decode_image

__all__ = ["Corel", "load_corel"]

FEATURES = ("DenseHue", "DenseSift", "Rgb", "Lab")


@dataclass(frozen=True)
class Corel:
    """Images of one part of Corel5k, in the order of the published features.

    Attributes
    ----------
    images : list of ndarray of uint8
    ids : ndarray of str
        Numbers of the photographs; a theme has those of one hundred.
    labels : ndarray of bool [shape=(n, 260)]
    published : dict of str to ndarray of float32
        Features as shares.
    similarity : ndarray [shape=(n,)]
        Of the colours of the JPEG to those of the original, as the published features have them.
    """

    images: list[NDArray[np.uint8]]
    ids: NDArray[Any]
    labels: NDArray[np.bool_]
    published: dict[str, NDArray[np.float32]]
    similarity: NDArray[Any]


def load_corel(part: str, most: int | None = None, seed: int = 0, *, pictures: bool = True) -> Corel:
    """Read "train" (4500 images) or "test" (499), or `most` of them, drawn at random; `images` only if `pictures`."""
    with np.load(data_file("corel5k_features.npz"), allow_pickle=False) as file:
        ids = file[f"{part}_image_id"].astype(str)
        rows = np.sort(np.random.default_rng(seed).permutation(len(ids))[:most])
        published = {name: _shares(_published(file, part, name)[rows]) for name in FEATURES}
        labels = file[f"{part}_labels"][rows] > 0
        similarity = file[f"{part}_image_match_similarity"][rows]
    with zipfile.ZipFile(data_file("corel5k_images.zip")) as archive:
        names = [f"{part}/{ids[row]}.jpeg" for row in rows if pictures]
        images = [decode_image(archive.read(name), name) for name in names]
    return Corel(images, ids[rows], labels, published, similarity)


def _published(file: Any, part: str, name: str) -> Any:
    if f"{part}_{name}" in file:
        return sp.csr_array(file[f"{part}_{name}"].astype(np.float32))
    pieces = [file[f"{part}_{name}_{what}"] for what in ("data", "indices", "indptr")]
    return sp.csr_array((pieces[0].astype(np.float32), *pieces[1:]), shape=tuple(file[f"{part}_{name}_shape"]))


def _shares(counts: Any) -> NDArray[np.float32]:
    dense = counts.toarray()
    return np.asarray(dense / dense.sum(axis=1, keepdims=True), np.float32)
