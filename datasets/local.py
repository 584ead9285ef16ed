"""Research data on this machine, which tests and benchmarks use and no part of this project may contain.

The files are in the folder that the environment variable VISIONNMF_DATA names, or else in ``../shared/data`` next to
the checkout. ``datasets/README.md`` lists them with their terms.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_choice
from visionnmf.exceptions import MediaError, UnreadableError
from visionnmf.io import decode_image, read_arrays, to_grey8
from visionnmf.io.inputs import check_bytes

__all__ = ["MASKED_VIDEOS", "MaskedVideo", "data_file", "data_folder", "load_video_with_masks"]

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


def data_folder() -> Path | None:
    """Return the folder of research data (see the module), or None if there is none."""
    named = os.environ.get("VISIONNMF_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


def load_video_with_masks(name: str) -> MaskedVideo:
    """Read a clip with masks: CDnet, SBI, UCSD or Wallflower; `name` is one of `MASKED_VIDEOS`.

    "sbi_board", "sbi_cavignal" and the "wallflower" clips are grey, the others in colour. Raises MediaError if the data
    is not on this machine, or the file is damaged or too large.
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
    """Read ``input/inNNNNNN.jpg`` and ``groundtruth/gtNNNNNN.png`` of an archive."""
    try:
        with zipfile.ZipFile(path) as archive:

            def image(member: str) -> NDArray[Any]:
                """Return a picture in the archive, after checking its size."""
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
    return MaskedVideo(name, frames, np.arange(len(frames)), masks, background)
