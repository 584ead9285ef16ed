"""The research clips with masks, from an archive of pictures and from a file of arrays."""

from pathlib import Path

import numpy as np
import pytest
from helpers import needs_data


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("name", ["sbi_hallandmonitor", "wallflower_camouflage"])
def test_masks_fit_their_frames(name, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "benchmarks")
    from _clips import load_clip

    clip = load_clip(name)
    assert clip.frames.dtype == clip.gt_masks.dtype == np.uint8
    assert clip.gt_masks.shape == (len(clip.gt_index), *clip.frames.shape[1:3])
    assert 0 <= clip.gt_index.min() <= clip.gt_index.max() < len(clip.frames)
    assert set(np.unique(clip.gt_masks)) <= {0, 50, 85, 170, 255}
    assert (clip.background is not None) == (name == "sbi_hallandmonitor")
