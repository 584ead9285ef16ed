"""Clips of a fixed camera with hand-drawn masks: CDnet, SBI, UCSD and Wallflower, as the research data have them."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.reproduce.data import data_file
from visionnmf.io import decode_image, read_arrays, to_grey8

CLIPS: tuple[str, ...] = (
    "cdnet_highway", "cdnet_traffic", "sbi_hallandmonitor", "sbi_caviar1", "sbi_caviar2", "sbi_board", "sbi_candela",
    "sbi_cavignal", "sbi_highwayii", "sbi_peopleandfoliage", "sbi_snellen", "ucsd_boats", "ucsd_bottle", "ucsd_ocean",
    "wallflower_bootstrap", "wallflower_camouflage", "wallflower_foregroundaperture", "wallflower_lightswitch",
    "wallflower_movedobject", "wallflower_timeofday", "wallflower_wavingtrees",
)  # fmt: skip


@dataclass(frozen=True)
class Clip:
    """A clip, the positions of its frames that have a mask, these masks, and the empty scene if the set has it."""

    name: str
    frames: NDArray[np.uint8]  # (n_frames, height, width), or with 3 channels, RGB
    gt_index: NDArray[np.integer]  # (n_masks,)
    gt_masks: NDArray[np.uint8]  # (n_masks, height, width): 255 is foreground, 0 and 50 (shadow) background
    background: NDArray[np.uint8] | None


def load_clip(name: str) -> Clip:
    """Read one of `CLIPS` from an archive of pictures, where every frame has a mask, or a file of arrays."""
    archive = data_file(".") / f"video_{name}.zip"
    if not archive.is_file():
        arrays = read_arrays(data_file(f"video_{name}.npz"), ["frames", "gt_index", "gt_masks"])
        return Clip(name, arrays["frames"], arrays["gt_index"], arrays["gt_masks"], None)
    with zipfile.ZipFile(archive) as file:
        members = set(file.namelist())

        def image(member: str) -> NDArray[Any]:
            return decode_image(file.read(member), member)

        numbers = sorted(m[len("input/in") : -len(".jpg")] for m in members if m.startswith("input/in"))
        frames = np.stack([image(f"input/in{n}.jpg") for n in numbers])
        masks = np.stack([to_grey8(image(f"groundtruth/gt{n}.png")) for n in numbers])
        background = image("background_gt.png") if "background_gt.png" in members else None
    return Clip(name, frames, np.arange(len(frames)), masks, background)
