"""The widget Segment in the real viewer: a scribble that is drawn before those of another day came back."""

import numpy as np
from real_viewer import SAID, click, needs_napari, opened, stroke, wait

from visionnmf.apps.segmentation import WantedSegments, process_image
from visionnmf.io import read_image, write_image

pytestmark = needs_napari


def test_a_scribble_is_cut_at_once_and_saved_ones_are_replaced_when_asked_twice(viewer, photo, tmp_path):
    drawn = np.zeros(read_image(photo).shape[:2], np.uint16)
    drawn[40:44, 30:400], drawn[280:284, 30:400] = 1, 2
    write_image(tmp_path / "photo_scribbles.png", drawn)
    wanted = WantedSegments(scale=0.4, markers=tmp_path / "photo_scribbles.png")
    process_image(photo, wanted=wanted, out=tmp_path)
    widget = opened(viewer, photo, "Segment")
    click(widget.draw)
    stroke(widget.markers.value, 1, 150, (30, 400))
    wait(widget)
    assert "by hand" not in widget.python.value and widget.made("segments") is not None
    click(widget.save)
    assert "exists already" in SAID[0][-1]
    np.testing.assert_array_equal(read_image(tmp_path / "photo_scribbles.png")[..., 0], drawn)
