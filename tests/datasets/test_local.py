"""The readers of research data: on files made here, and on the real ones where they are."""

import io
import zipfile
from itertools import islice

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


@pytest.mark.parametrize(
    "read",
    [
        lambda: next(local.load_bsds()),
        lambda: local.load_video_with_masks("sbi_board"),
        lambda: local.load_face_set("yaleb_32x32"),
    ],
)
def test_without_the_data_the_message_says_what_to_set(read, tmp_path, monkeypatch):
    monkeypatch.setenv("VISIONNMF_DATA", str(tmp_path / "absent"))
    with pytest.raises(UnreadableError, match=r"VISIONNMF_DATA names '.*absent', which is not a folder\. Set it"):
        read()
    monkeypatch.setenv("VISIONNMF_DATA", str(tmp_path))
    with pytest.raises(UnreadableError, match=r"does not exist\. Set VISIONNMF_DATA"):
        read()


def test_an_unknown_name_is_refused():
    with pytest.raises(ParameterError, match=r"name must be one of .*'cdnet_highway'.*; got 'highway'"):
        local.load_video_with_masks("highway")
    with pytest.raises(ParameterError, match=r"name must be one of .*'cbcl_19x19'.*; got 'yaleb'"):
        local.load_face_set("yaleb")


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
        (b"not a zip", UnreadableError, "video_sbi_board.npz cannot be read"),
        ({"frames.npy": npy((1 << 40,), "|u1")}, TooLargeError, "frames.npy has 1099511627776 bytes, more than"),
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
    check(UnreadableError, "holds no frames")
    write_zip(path, [frame, frame[1:]], [mask, mask[1:]])
    check(UnreadableError, r"different sizes: \(8, 9, 3\) and \(7, 9, 3\)")
    write_zip(path, [frame], [mask], **{"background_gt.png": b"no image"})
    check(UnreadableError, "background_gt.png: not a picture that can be read")
    write_zip(path, [frame], [mask])
    whole = path.read_bytes()
    path.write_bytes(whole.replace(picture(mask), picture(mask)[:-20] + bytes(20)))  # a member with a wrong checksum
    check(UnreadableError, "cannot be read")
    write_zip(path, [frame], [mask])
    monkeypatch.setattr(inputs, "MAX_BYTES", 100)
    check(TooLargeError, r"input/in000000.jpg has \d+ bytes, more than 100")
    monkeypatch.setattr(inputs, "MAX_BYTES", 1000)
    write_zip(path, [frame] * 5, [mask] * 5)
    check(TooLargeError, r"traffic.zip \(5 images of 216 bytes\) has 1080 bytes, more than 1000")


def test_photographs_come_by_number_with_their_segmentations(folder):
    (folder / "bsds").mkdir()
    for name, level in (("101", 30), ("99", 60)):
        (folder / "bsds" / f"{name}.jpg").write_bytes(picture(np.full((8, 9, 3), level, np.uint8), "JPEG"))
        np.savez(folder / "bsds" / f"{name}.npz", segmentations=np.full((2, 8, 9), level, np.uint8))
    images = list(local.load_bsds())
    assert [i.name for i in images] == ["99", "101"]
    assert [int(i.image[0, 0, 0]) for i in images] == [int(i.segmentations[0, 0, 0]) for i in images] == [60, 30]


@needs_data
def test_real_photographs():
    for one in islice(local.load_bsds(), 3):
        assert one.image.shape[:2] in ((321, 481), (481, 321))
        assert one.segmentations.shape[1:] == one.image.shape[:2]
        assert one.segmentations.min() == 1


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


REAL_FACES = {
    "orl_32x32": (400, 40),
    "orl_112x92": (400, 40),
    "yale_32x32": (165, 15),
    "yale_64x64": (165, 15),
    "yaleb_32x32": (2414, 38),
    "yaleb27_96x84": (1714, 27),
    "umist_28x23": (575, 20),
    "lfw20_120x120": (200, 20),
    "cbcl_19x19": (2429, 0),
}


@needs_data
@pytest.mark.parametrize("name", local.FACE_SETS)
def test_real_faces(name):
    faces = local.load_face_set(name)
    n_images, n_people = REAL_FACES[name]
    assert faces.images.shape == (n_images, *map(int, name.split("_")[1].split("x")))
    assert faces.images.dtype == np.uint8
    assert np.unique(faces.labels).tolist() == (list(range(1, n_people + 1)) or [0])
    assert len(faces.names) == n_people


@needs_data
def test_names_of_real_faces_say_who_and_which_light():
    assert local.load_face_set("lfw20_120x120").names[0] == "Alejandro_Toledo"
    lights = local.load_face_set("yaleb27_96x84")
    assert lights.names[:2] == ("12", "13")
    people = {(label, file.split("_")[0]) for label, file in zip(lights.labels, lights.files, strict=True)}
    assert len(people) == 27, "each label stands for one person"
    assert len(set(lights.files)) == len(lights.files)
