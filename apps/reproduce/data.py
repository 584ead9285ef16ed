"""The data of the papers, read from the folder that ``--data`` or the environment variable VISIONNMF_DATA names.

``docs/reproduce.md`` says in which form each set lies there, so that anybody who has the data can repeat the papers.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from visionnmf.datasets import Faces, load_faces
from visionnmf.exceptions import UnreadableError
from visionnmf.io import decode_image, read_image

T = TypeVar("T")
COREL_FEATURES = ("DenseHue", "DenseSift", "Rgb", "Lab")


@dataclass(frozen=True)
class Photograph:
    """A photograph (height, width, 3), and people's segmentations of it, label maps (height, width)."""

    name: str
    image: NDArray[np.uint8]
    segmentations: list[NDArray[Any]]


@dataclass(frozen=True)
class Corel:
    """Images of one part of Corel5k, in the order of the published features."""

    images: list[NDArray[np.uint8]]
    ids: NDArray[Any]  # numbers of the photographs; a theme has those of one hundred
    labels: NDArray[np.bool_]  # (n, 260)
    published: dict[str, NDArray[np.float32]]  # the features as shares, by their names in `COREL_FEATURES`
    similarity: NDArray[Any]  # (n,), of the colours of the JPEG to those of the original, which has the features
    words: NDArray[Any]  # (260,)


def data_folder() -> Path | None:
    """Return the folder of research data, VISIONNMF_DATA or ``../shared/data`` beside the checkout, or None."""
    named = os.environ.get("VISIONNMF_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"
    return folder if folder.is_dir() else None


def kept(make: Callable[..., T]) -> Callable[..., T]:
    """Let several figures share what `make` computes from the data of a folder and hashable arguments."""
    found = cache(lambda folder, *arguments: make(*arguments))
    return lambda *arguments: found(data_folder(), *arguments)


def data_file(name: str) -> Path:
    """Return the path of a file or folder of the research data, or raise UnreadableError."""
    folder = data_folder()
    if folder is None:
        named = os.environ.get("VISIONNMF_DATA")
        where = f"VISIONNMF_DATA names {named!r}, which is not a folder" if named else "VISIONNMF_DATA is not set"
        raise UnreadableError(f"No research data on this machine: {where}. Set it to the folder that holds the data.")
    path = folder / name
    if not path.exists():
        raise UnreadableError(f"{path} does not exist. Set VISIONNMF_DATA to the folder that holds it.")
    return path


def load_face_set(name: str) -> Faces:
    """Return a set of faces, such as "orl_32x32", from its .npz file."""
    return load_faces(data_file(f"{name}.npz"))


def load_photographs(folder: str | Path = "bsds") -> Iterator[Photograph]:
    """Yield the pictures of a folder (or one of the research data) with segmentations beside them, by number."""
    from visionnmf.apps.evaluate.segment import read_truth, truth_files

    found = folder if isinstance(folder, Path) and folder.is_dir() else data_file(str(folder))
    for path in sorted(found.glob("*.jpg"), key=lambda path: (len(path.stem), path.stem)):
        if known := truth_files(path.parent, path.stem):
            yield Photograph(path.stem, read_image(path), read_truth(known))


def load_corel(part: str, most: int | None = None, *, pictures: bool = True) -> Corel:
    """Read "train" (4500 images) or "test" (499), or `most` of them at random; features are shares, with the sum 1."""
    with np.load(data_file("corel5k_features.npz"), allow_pickle=False) as file:
        ids = file[f"{part}_image_id"].astype(str)
        rows = np.sort(np.random.default_rng(0).permutation(len(ids))[:most])
        published = {name: _shares(_published(file, part, name)[rows]) for name in COREL_FEATURES}
        labels = file[f"{part}_labels"][rows] > 0
        similarity = file[f"{part}_image_match_similarity"][rows]
        words = file["vocabulary"].astype(str)
    images: list[NDArray[np.uint8]] = []
    if pictures:
        with zipfile.ZipFile(data_file("corel5k_images.zip")) as archive:
            names = [f"{part}/{ids[row]}.jpeg" for row in rows]
            images = [decode_image(archive.read(name), name) for name in names]
    return Corel(images, ids[rows], labels, published, similarity, words)


def _published(file: Any, part: str, name: str) -> Any:
    """Return a kind of features of Corel5k as a sparse matrix, which the file has whole or as its three arrays."""
    from scipy.sparse import csr_array

    if f"{part}_{name}" in file:
        return csr_array(file[f"{part}_{name}"].astype(np.float32))
    pieces = [file[f"{part}_{name}_{what}"] for what in ("data", "indices", "indptr")]
    return csr_array((pieces[0].astype(np.float32), *pieces[1:]), shape=tuple(file[f"{part}_{name}_shape"]))


def _shares(counts: Any) -> NDArray[np.float32]:
    """Return the rows of a sparse matrix divided by their sums."""
    dense = counts.toarray()
    return np.asarray(dense / dense.sum(axis=1, keepdims=True), np.float32)
