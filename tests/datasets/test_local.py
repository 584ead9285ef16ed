"""The readers of research data: on files made here, and on the real ones where they are."""

import io
import zipfile

import numpy as np
import pytest
from helpers import needs_data
from PIL import Image

from visionnmf.datasets import local
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError
from visionnmf.io import inputs


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("VISIONNMF_DATA", str(tmp_path))
    return tmp_path


def picture(array, kind="PNG"):
    file = io.BytesIO()
    Image.fromarray(array).save(file, kind)
    return file.getvalue()


def write_zip(path, frames, masks, **others):
    with zipfile.ZipFile(path, "w") as archive:
        for i, (frame, mask) in enumerate(zip(frames, masks, strict=True)):
            archive.writestr(f"input/in{i:06d}.jpg", picture(frame, "JPEG"))
            archive.writestr(f"groundtruth/gt{i:06d}.png", picture(mask))
        for name, content in others.items():
            archive.writestr(name, content)


def test_the_folder_is_the_named_one_or_none(tmp_path, monkeypatch):
    monkeypatch.setenv("VISIONNMF_DATA", str(tmp_path))
    assert local.data_folder() == tmp_path
    monkeypatch.setenv("VISIONNMF_DATA", str(tmp_path / "absent"))
    assert local.data_folder() is None


def test_without_the_data_the_message_says_what_to_set(tmp_path, monkeypatch):
    monkeypatch.setenv("VISIONNMF_DATA", str(tmp_path / "absent"))
    with pytest.raises(UnreadableError, match=r"VISIONNMF_DATA names '.*absent', which is not a folder\. Set it"):
        local.load_video_with_masks("sbi_board")
    monkeypatch.setenv("VISIONNMF_DATA", str(tmp_path))
    with pytest.raises(UnreadableError, match=r"does not exist\. Set VISIONNMF_DATA"):
        local.load_video_with_masks("sbi_board")


def test_an_unknown_name_is_refused():
    with pytest.raises(ParameterError, match=r"name must be one of .*'cdnet_highway'.*; got 'highway'"):
        local.load_video_with_masks("highway")


def test_a_zipped_video_is_read_in_order_with_its_background(folder, rng):
    levels = np.arange(0, 120, 10, dtype=np.uint8)
    frames = np.broadcast_to(levels[:, None, None, None], (12, 8, 10, 3))
    masks = rng.choice(np.array([0, 50, 170, 255], np.uint8), size=(12, 8, 10))
    write_zip(
        folder / "video_cdnet_highway.zip",
        frames,
        masks,
        **{"background_gt.png": picture(frames[7]), "meta.json": b"{}"},
    )
    video = local.load_video_with_masks("cdnet_highway")
    np.testing.assert_array_equal(video.frames, frames)
    np.testing.assert_array_equal(video.gt_masks, masks)
    np.testing.assert_array_equal(video.gt_index, np.arange(12))
    np.testing.assert_array_equal(video.background, frames[7])


def test_an_npz_video_is_read(folder, rng):
    arrays = {
        "frames": rng.integers(0, 256, (5, 6, 7), dtype=np.uint8),
        "gt_index": np.array([4]),
        "gt_masks": np.zeros((1, 6, 7), np.uint8),
    }
    np.savez(folder / "video_wallflower_wavingtrees.npz", **arrays)
    video = local.load_video_with_masks("wallflower_wavingtrees")
    for name, value in arrays.items():
        np.testing.assert_array_equal(getattr(video, name), value)
    assert video.background is None


def npy(shape, dtype, content=b""):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": dtype})
    return file.getvalue() + content


@pytest.mark.parametrize(
    ("content", "error", "sentence"),
    [
        (b"not a zip", UnreadableError, "video_sbi_board.npz: cannot be read"),
        ({"frames.npy": npy((1 << 40,), "|u1")}, TooLargeError, "decoding it takes more memory than there is"),
        ({"frames.npy": npy((9,), "|u1", b"short")}, UnreadableError, "cannot be read"),
        ({"frames.npy": npy((1,), "|O", b"cpickle")}, UnreadableError, "cannot be read"),
        ({"frames.npy": b"no header"}, UnreadableError, "cannot be read"),
        ({}, UnreadableError, "cannot be read"),
    ],
)
def test_a_bad_npz_is_one_line(folder, content, error, sentence):
    path = folder / "video_sbi_board.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name in ("gt_index.npy", "gt_masks.npy"):
                archive.writestr(name, npy((1,), "|u1", b"0"))
            for name, value in content.items():
                archive.writestr(name, value)
    with pytest.raises(error, match=sentence) as caught:
        local.load_video_with_masks("sbi_board")
    assert "\n" not in str(caught.value)


def test_a_bad_zip_is_one_line(folder, monkeypatch):
    path, frame, mask = folder / "video_cdnet_traffic.zip", np.zeros((8, 9, 3), np.uint8), np.zeros((8, 9), np.uint8)

    def check(error, sentence):
        with pytest.raises(error, match=sentence):
            local.load_video_with_masks("cdnet_traffic")

    path.write_bytes(b"not a zip")
    check(UnreadableError, "video_cdnet_traffic.zip cannot be read")
    write_zip(path, [], [])
    check(UnreadableError, "cannot be read")
    write_zip(path, [frame, frame[1:]], [mask, mask[1:]])
    check(UnreadableError, "cannot be read: all input arrays must have the same shape")
    write_zip(path, [frame], [mask], **{"background_gt.png": b"no image"})
    check(UnreadableError, "background_gt.png: not a picture that can be read")
    write_zip(path, [frame], [mask])
    whole = path.read_bytes()
    path.write_bytes(whole.replace(picture(mask), picture(mask)[:-20] + bytes(20)))  # a member with a wrong checksum
    check(UnreadableError, "cannot be read")
    write_zip(path, [frame], [mask])
    monkeypatch.setattr(inputs, "MAX_BYTES", 100)
    check(TooLargeError, r"input/in000000.jpg has \d+ bytes, more than 100")


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("name", local.MASKED_VIDEOS)
def test_real_videos(name):
    video = local.load_video_with_masks(name)
    assert video.frames.dtype == video.gt_masks.dtype == np.uint8
    assert video.gt_masks.shape == (len(video.gt_index), *video.frames.shape[1:3])
    assert 0 <= video.gt_index.min() <= video.gt_index.max() < len(video.frames)
    assert set(np.unique(video.gt_masks)) <= {0, 50, 85, 170, 255}
    assert (video.background is not None) == (name == "sbi_hallandmonitor")
