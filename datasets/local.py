"""Research data on this machine, which tests and benchmarks use and no part of this project may contain.

The files are in the folder that the environment variable VISIONNMF_DATA names, or else in ``../shared/data`` next to
the checkout. ``datasets/README.md`` lists them with their terms.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_choice
from visionnmf.exceptions import MediaError, UnreadableError
from visionnmf.io import decode_image, read_arrays, read_image, to_grey8
from visionnmf.io.inputs import check_bytes

from ._faces import Faces, load_faces

__all__ = [
    "COREL_FEATURES", "FACE_SETS", "MASKED_VIDEOS", "Corel", "MaskedVideo", "SegmentedImage", "data_file",
    "data_folder", "load_bsds", "load_corel", "load_face_set", "load_video_with_masks",
]  # fmt: skip

# the set, and height and width of its images
FACE_SETS = (
    "orl_32x32", "orl_112x92", "yale_32x32", "yale_64x64", "yaleb_32x32", "yaleb27_96x84", "umist_28x23",
    "lfw20_120x120", "cbcl_19x19",
)  # fmt: skip

COREL_FEATURES = ("DenseHue", "DenseSift", "Rgb", "Lab")

MASKED_VIDEOS: tuple[str, ...] = (
    "cdnet_highway", "cdnet_traffic", "sbi_hallandmonitor", "sbi_caviar1", "sbi_caviar2", "sbi_board", "sbi_candela",
    "sbi_cavignal", "sbi_highwayii", "sbi_peopleandfoliage", "sbi_snellen", "ucsd_boats", "ucsd_bottle", "ucsd_ocean",
    "wallflower_bootstrap", "wallflower_camouflage", "wallflower_foregroundaperture", "wallflower_lightswitch",
    "wallflower_movedobject", "wallflower_timeofday", "wallflower_wavingtrees",
)  # fmt: skip
"""Names for :func:`load_video_with_masks`."""


@dataclass(frozen=True)
class MaskedVideo:
    """A clip of a fixed camera with hand-drawn masks."""

    name: str  # one of `MASKED_VIDEOS`
    frames: NDArray[np.uint8]  # (n_frames, height, width) or (n_frames, height, width, 3), grey or RGB
    gt_index: NDArray[np.integer]  # (n_masks,), the positions in `frames` of the frames that have a mask
    # (n_masks, height, width): 255 is foreground, 0 and 50 (shadow) are background, other values are not scored
    gt_masks: NDArray[np.uint8]
    background: NDArray[np.uint8] | None  # the empty scene, if the set has it


@dataclass(frozen=True)
class SegmentedImage:
    """A photograph (height, width, 3) and people's segmentations (n_annotators, height, width), from 1 on."""

    name: str
    image: NDArray[np.uint8]
    segmentations: NDArray[np.uint8]


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
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


def load_video_with_masks(name: str) -> MaskedVideo:
    """Read a clip with masks: CDnet, SBI, UCSD or Wallflower; `name` is one of `MASKED_VIDEOS`.

    "sbi_board", "sbi_cavignal" and the "wallflower" clips are grey, the others in colour. Raises MediaError if the data
    is not on this machine, or the file is damaged or too large.

    Returns the frames, the positions of those that have a mask, the masks (255 is foreground), and the empty scene if
    the set has it.
    """
    check_choice(name, "name", MASKED_VIDEOS)
    archive = data_file(".") / f"video_{name}.zip"
    if archive.is_file():
        return _read_frames_zip(name, archive)
    arrays = read_arrays(data_file(f"video_{name}.npz"), ["frames", "gt_index", "gt_masks"])
    return MaskedVideo(name, arrays["frames"], arrays["gt_index"], arrays["gt_masks"], None)


def data_file(name: str) -> Path:
    """Return the path of a file of the research data, or raise UnreadableError."""
    folder = data_folder()
    if folder is None:
        named = os.environ.get("VISIONNMF_DATA")
        where = f"VISIONNMF_DATA names {named!r}, which is not a folder" if named else "VISIONNMF_DATA is not set"
        raise UnreadableError(f"No research data on this machine: {where}. Set it to the folder that holds the data.")
    path = folder / name
    if not path.exists():
        raise UnreadableError(f"{path} does not exist. Set VISIONNMF_DATA to the folder that holds it.")
    return path


def _read_frames_zip(name: str, path: Path) -> MaskedVideo:
    """Read frames, masks and perhaps ``background_gt.png`` of a clip from an archive like those of CDnet."""
    # They are ``input/inNNNNNN.jpg`` and ``groundtruth/gtNNNNNN.png``. `name` is that of the clip.
    try:
        with zipfile.ZipFile(path) as archive:

            def image(member: str) -> NDArray[Any]:
                """Return a picture in the archive `path`; raise TooLargeError before reading one that is too large."""
                check_bytes(f"{path}: {member}", archive.getinfo(member).file_size)
                return decode_image(archive.read(member), f"{path}: {member}")

            members = set(archive.namelist())
            numbers = sorted(m[len("input/in") : -len(".jpg")] for m in members if m.startswith("input/in"))
            frames = np.stack([image(f"input/in{n}.jpg") for n in numbers])
            masks = np.stack([to_grey8(image(f"groundtruth/gt{n}.png")) for n in numbers])
            background = image("background_gt.png") if "background_gt.png" in members else None
    except MediaError:
        raise
    except Exception as error:  # zipfile raises many kinds of errors for damaged files
        raise UnreadableError(f"{path} cannot be read: {error}.") from error
    # every frame has a mask
    return MaskedVideo(name, frames, np.arange(len(frames)), masks, background)


def load_bsds(part: str = "test") -> Iterator[SegmentedImage]:
    """Yield the photographs of BSDS500 (Arbelaez et al. 2011) here, by number; "test" is for reporting only."""
    folder = data_file({"test": "bsds", "train": "bsds_train", "val": "bsds_val"}[part])
    photographs = sorted(folder.glob("*.jpg"), key=lambda path: (len(path.stem), path.stem))
    if not photographs:
        raise UnreadableError(f"{folder} holds no photographs (*.jpg).")
    for path in photographs:
        segmentations = read_arrays(path.with_suffix(".npz"), ["segmentations"])["segmentations"]
        yield SegmentedImage(path.stem, read_image(path), segmentations)


def load_face_set(name: str) -> Faces:
    """Return one of `FACE_SETS`: ORL, Yale, Extended Yale B, UMIST, LFW, or CBCL, whose faces have no names."""
    return load_faces(data_file(f"{name}.npz"))


def load_corel(part: str, most: int | None = None, seed: int = 0, *, pictures: bool = True) -> Corel:
    """Read "train" (4500 images) or "test" (499), or `most` of them, drawn at random by `seed`.

    The published features come as shares, rows with the sum 1. Without `pictures`, `images` is empty. Returns the
    images, their numbers in Corel, their words as marks (n, n_words), the features by name, a similarity (n,) of each
    image to the one from which the published features were computed, and the names of the words.
    """
    with np.load(data_file("corel5k_features.npz"), allow_pickle=False) as file:
        ids = file[f"{part}_image_id"].astype(str)
        rows = np.sort(np.random.default_rng(seed).permutation(len(ids))[:most])
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
