"""Pictures out: what is written comes back, whole or not at all."""

import os

import numpy as np
import pytest
from PIL import Image

from visionnmf.exceptions import OutputExistsError, ParameterError
from visionnmf.io import read_image, write_image

_ramp = np.add.outer(np.arange(24) * 5, np.arange(35) * 3)
RGB8 = np.stack([_ramp, 255 - _ramp, np.full_like(_ramp, 90)], axis=2).astype(np.uint8)
RGB16 = (RGB8.astype(np.uint16) << 8) + np.random.default_rng(1).integers(0, 256, RGB8.shape).astype(np.uint16)
GREY8, GREY16 = np.ascontiguousarray(RGB8[..., 0]), np.ascontiguousarray(RGB16[..., 0])


def _grey(array):
    return np.repeat(array[..., np.newaxis], 3, axis=2)


@pytest.mark.parametrize("array", [GREY8, RGB8, GREY16, RGB16], ids=["grey8", "rgb8", "grey16", "rgb16"])
def test_written_pictures_come_back_exactly(tmp_path, array):
    path = tmp_path / "out.png"
    write_image(path, array)
    np.testing.assert_array_equal(read_image(path), array if array.ndim == 3 else _grey(array))
    with Image.open(path) as image:  # another reader agrees; in colour it sees the upper 8 bits only
        upper = array >> 8 if array.dtype == np.uint16 and array.ndim == 3 else array
        np.testing.assert_array_equal(np.asarray(image), upper)
    assert os.listdir(tmp_path) == ["out.png"]


def test_views_single_pixels_and_opacity_are_written(tmp_path):
    write_image(tmp_path / "view.png", RGB8[::2, ::-3])
    np.testing.assert_array_equal(read_image(tmp_path / "view.png"), RGB8[::2, ::-3])
    write_image(tmp_path / "one.png", RGB8[:1, :1])
    np.testing.assert_array_equal(read_image(tmp_path / "one.png"), RGB8[:1, :1])
    array = np.dstack([RGB16, np.full(RGB16.shape[:2], 65535, np.uint16)])
    array[0, :, 3] = 0
    write_image(tmp_path / "out.png", array)
    with pytest.warns(UserWarning, match="onto white"):
        again = read_image(tmp_path / "out.png")
    np.testing.assert_array_equal(again, np.where(array[..., 3:] > 0, RGB16, np.uint16(65535)))


@pytest.mark.parametrize(
    "array",
    [RGB8.astype(float), RGB8[..., :2], RGB8[0, 0], RGB8[:0], GREY8 > 9, GREY8.astype(np.int64), RGB8.tolist()],
    ids=["float", "two channels", "one axis", "empty", "bool", "int64", "list"],
)
def test_only_arrays_that_are_pictures_are_written(tmp_path, array):
    with pytest.raises(ParameterError, match=r"array must have shape \(height, width\) .*; got shape .* and dtype"):
        write_image(tmp_path / "out.png", array)
    assert os.listdir(tmp_path) == []


def test_writing_needs_a_png_name_and_does_not_overwrite(tmp_path):
    with pytest.raises(ParameterError, match=r"path must end in \.png, as images are written as PNG"):
        write_image(tmp_path / "out.jpg", RGB8)
    write_image(tmp_path / "out.png", RGB8)
    with pytest.raises(OutputExistsError, match="pass force=True"):
        write_image(tmp_path / "out.png", GREY8)
    np.testing.assert_array_equal(read_image(tmp_path / "out.png"), RGB8)
    write_image(tmp_path / "out.png", GREY8, force=True)
    np.testing.assert_array_equal(read_image(tmp_path / "out.png"), _grey(GREY8))


def test_a_failing_encoder_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("cv2.imencode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_image(tmp_path / "out.png", RGB8)
    assert os.listdir(tmp_path) == []
