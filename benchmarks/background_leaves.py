"""Foreground F-measure on made clips of leaves in the wind before a bright sky.

    python benchmarks/background_leaves.py                 the table (about four minutes)
    python benchmarks/background_leaves.py pictures DIR    frame | mask | truth of three frames, a PNG for each clip

The clips are made by `_leaves.py`. Even seeds chose constants (`python benchmarks/background.py leaves`), and the clips
of odd seeds report. "Without" leaves out the part that finds leaves before the sky.
"""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from _leaves import CLIPS, FRAMES, leafy_clip
from _main import main
from background import changed, count, f_measure, opencv, ours, temporal_median

SEEDS = range(CLIPS)
LENGTH = FRAMES


def table() -> None:
    """Print F of each clip, and the means of both halves."""
    print("\n| clip | ours | without | temporal median | MOG2 tuned |\n| --- | --- | --- | --- | --- |")
    rows = []
    for seed in SEEDS:
        clip = leafy_clip(seed, LENGTH)
        with changed("leaves.survives", -1.0):
            without = ours(clip)
        mog2 = opencv(clip, lambda: cv2.createBackgroundSubtractorMOG2(500, 36, False))
        masks = ours(clip), without, temporal_median(clip), mog2
        rows.append([f_measure(count(each, clip.gt_masks)) for each in masks])
        print(f"| {clip.name} |", " | ".join(f"{score:.3f}" for score in rows[-1]), "|", flush=True)
    for title, half in (("even seeds, which chose constants", 0), ("odd seeds", 1)):
        kept = [row for seed, row in zip(SEEDS, rows, strict=True) if seed % 2 == half]
        if kept:
            print(f"| **mean of {title}** |", " | ".join(f"**{mean:.3f}**" for mean in np.mean(kept, axis=0)), "|")


def pictures(folder: str = "out/leaves") -> None:
    """Write a picture for each clip."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for seed in SEEDS:
        clip = leafy_clip(seed, LENGTH)
        masks, rows = ours(clip), []
        for k in np.linspace(0, len(masks) - 1, 5).round().astype(int)[1:-1]:
            shown = clip.frames[clip.gt_index[k]], *(np.dstack([m] * 3) for m in (masks[k], clip.gt_masks[k]))
            rows.append(np.hstack(shown))
        cv2.imwrite(str(Path(folder) / f"{clip.name.replace(', ', '_').replace(' ', '_')}.png"), np.vstack(rows))


PARTS = {"table": table, "pictures": pictures}
QUICK = {"SEEDS": range(6, 8), "LENGTH": 30}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK, default=["table"])
