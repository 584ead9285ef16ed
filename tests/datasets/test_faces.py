"""Faces out of folders, .npz files and .mat files: what is read, how it is numbered, and what is refused."""

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from visionnmf.datasets import _faces, load_faces
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io import inputs, to_grey8


def save(path, image, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path, **options)


def face(level, height=5, width=4):
    return np.full((height, width), level, np.uint8)


@pytest.fixture
def people(tmp_path):
    """Three people of 3, 1 and 2 images; the level of an image says which it is."""
    for name, files in {"s10": ["1.pgm"], "s2": ["1.pgm", "2.png", "10.bmp"], "Zoe": ["a.png", "b.gif"]}.items():
        for i, file in enumerate(files):
            save(tmp_path / name / file, face({"s2": 20, "s10": 100, "Zoe": 200}[name] + i))
    return tmp_path


def test_a_folder_a_person_is_read_in_the_order_of_the_numbers(people):
    faces = load_faces(people)
    assert faces.names == ("s2", "s10", "Zoe")
    assert faces.labels.tolist() == [1, 1, 1, 2, 3, 3]
    assert faces.files == ("s2/1.pgm", "s2/2.png", "s2/10.bmp", "s10/1.pgm", "Zoe/a.png", "Zoe/b.gif")
    assert faces.images.dtype == np.uint8
    assert faces.images.shape == (6, 5, 4)
    np.testing.assert_array_equal(faces.images[:, 0, 0], [20, 21, 22, 100, 200, 201])


def test_what_is_no_picture_is_left_alone(people):
    (people / "s2" / "notes.txt").write_text("x")
    (people / "s2" / ".hidden.png").write_text("x")
    (people / ".git").mkdir()
    save(people / ".git" / "1.png", face(0))
    save(people / "s2" / "deeper" / "1.png", face(0))
    (people / "s2" / "folder.png").mkdir()
    (people / "empty").mkdir()
    (people / "README").write_text("x")
    assert load_faces(people).files == load_faces(str(people)).files
    assert len(load_faces(people).images) == 6
    assert load_faces(people).names == ("s2", "s10", "Zoe")


def test_pictures_without_sub_folders_are_unknown_people(tmp_path):
    for i in range(3):
        save(tmp_path / f"{i}.png", face(i))
    faces = load_faces(tmp_path)
    assert faces.labels.tolist() == [0, 0, 0]
    assert faces.names == ()
    save(tmp_path / "anna" / "1.png", face(9))
    with pytest.warns(UserWarning, match="3 images next to the sub-folders left out"):
        faces = load_faces(tmp_path)
    assert faces.names == ("anna",)
    assert faces.images[:, 0, 0].tolist() == [9]


def test_a_damaged_picture_is_named_and_the_rest_is_used(people):
    (people / "s2" / "1.pgm").write_bytes(b"P5 4 5 255 short")
    (people / "s10" / "1.pgm").write_bytes(b"")
    with pytest.warns(UserWarning) as caught:
        faces = load_faces(people)
    messages = [str(w.message) for w in caught]
    assert len(messages) == 2
    assert "s2/1.pgm: the file is cut off or damaged" in messages[0].replace("\\", "/")
    assert all("\n" not in message for message in messages)
    assert faces.names == ("s2", "Zoe"), "who has no picture left is nobody"
    assert faces.labels.tolist() == [1, 1, 2, 2]
    assert faces.images[:, 0, 0].tolist() == [21, 22, 200, 201]


def test_no_usable_picture_at_all_is_an_error(tmp_path):
    with pytest.raises(UnreadableError, match="no such folder or file"):
        load_faces(tmp_path / "absent")
    with pytest.raises(UnreadableError, match="holds no pictures; it must have one sub-folder per person"):
        load_faces(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.png").write_bytes(b"no picture")
    with pytest.warns(UserWarning, match="left out"), pytest.raises(UnreadableError, match="none of 1 picture can"):
        load_faces(tmp_path)
    (tmp_path / "faces.txt").write_text("x")
    with pytest.raises(UnreadableError, match=r"neither a folder .*, nor a \.npz file, nor a \.mat file"):
        load_faces(tmp_path / "faces.txt")


def test_sizes_must_agree_unless_one_is_given(people):
    save(people / "Zoe" / "c.png", face(50, 10, 8))
    with pytest.raises(UnsupportedError, match=r"c.png has 10x8 pixels .*1.pgm has 5x4; give a size, such as size=32"):
        load_faces(people)
    assert load_faces(people, size=7).images.shape[1:] == (7, 7)
    faces = load_faces(people, size=(10, 8))
    assert faces.images.shape == (7, 10, 8)
    np.testing.assert_array_equal(faces.images, np.broadcast_to(faces.images[:, :1, :1], faces.images.shape))


def test_shrinking_averages(tmp_path, rng):
    noise = rng.integers(0, 256, (64, 64), dtype=np.uint8)
    save(tmp_path / "a" / "1.png", noise)
    small = load_faces(tmp_path, size=(4, 4)).images[0]
    blocks = noise.reshape(4, 16, 4, 16).mean((1, 3))
    assert np.abs(small - blocks).max() < 12, "one pixel in sixteen would be off by up to 128"


def test_colour_transparency_and_16_bits_become_8_bit_grey(tmp_path):
    ramp = np.arange(0, 250, 10, dtype=np.uint8).reshape(5, 5)
    save(tmp_path / "a" / "1.png", ramp)
    save(tmp_path / "a" / "2.png", np.repeat(ramp[..., None], 3, 2))
    save(tmp_path / "a" / "3.png", ramp.astype(np.uint16) * 257)
    save(tmp_path / "a" / "4.tif", ramp.astype(np.uint16) * 257)
    (tmp_path / "a" / "5.pgm").write_bytes(b"P5 5 5 65535 " + (ramp.astype(">u2") * 257).astype(">u2").tobytes())
    rgba = np.dstack([ramp, ramp, ramp, np.full((5, 5), 255, np.uint8)])
    rgba[0, 0] = (0, 0, 0, 0)
    save(tmp_path / "a" / "6.png", rgba)
    images = load_faces(tmp_path).images
    for image in images[:5]:
        np.testing.assert_array_equal(image, ramp)
    assert images[5][0, 0] == 255
    np.testing.assert_array_equal(images[5].ravel()[1:], ramp.ravel()[1:])


def test_16_bits_are_rounded_to_8():
    levels = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    np.testing.assert_array_equal(to_grey8(levels), np.rint(levels / 257))


def test_another_reader_serves_and_may_refuse(people):
    def read(path):
        if path.suffix == ".gif":
            raise UnreadableError(f"{path}: no face found")
        return np.full((3, 3, 3), 65535 if path.suffix == ".bmp" else 7 * 257, np.uint16)

    with pytest.warns(UserWarning, match="left out: .*b.gif: no face found"):
        faces = load_faces(people, read=read)
    assert faces.images.shape == (5, 3, 3)
    assert faces.images[:, 0, 0].tolist() == [7, 7, 255, 7, 7]


@pytest.mark.parametrize("size", [0, True, (32,), (0, 5), (True, 5), (2.5, 3), "ab"])
def test_a_bad_size_is_named(size, tmp_path):
    with pytest.raises(ParameterError, match="size must be the height and width of an image"):
        load_faces(tmp_path, size=size)


def test_large_pictures_and_sets_are_refused(people, monkeypatch):
    monkeypatch.setattr(inputs, "MAX_BYTES", 119)
    with pytest.raises(TooLargeError, match=r"\(6 images of 5x4 pixels\) has 120 bytes, more than 119"):
        load_faces(people)
    (people / "Zoe" / "c.png").write_bytes(bytes(2000))
    monkeypatch.setattr(inputs, "MAX_BYTES", 1999)
    with pytest.warns(UserWarning, match=r"left out: .*c\.png has 2000 bytes, more than 1999"):
        load_faces(people)
    monkeypatch.undo()
    np.savez(people / "x.npz", images=np.zeros((3, 2, 2), np.uint8))
    monkeypatch.setattr(inputs, "MAX_BYTES", 299)
    with pytest.raises(TooLargeError, match=r"x\.npz, scaled, has 300 bytes, more than 299"):
        load_faces(people / "x.npz", size=(10, 10))
    monkeypatch.undo()
    (people / "Zoe" / "c.png").unlink()
    monkeypatch.setattr(_faces, "_MAX_PIXELS", 19)
    told = "declares 4 x 5 = 20 pixels; at most 19 are read"
    with pytest.warns(UserWarning, match=told), pytest.raises(UnreadableError, match="none"):
        load_faces(people)


# --- .npz


def test_npz_with_numbers_strings_names_or_nobody(tmp_path, rng):
    images = rng.integers(0, 256, (4, 5, 6), dtype=np.uint8)
    path = tmp_path / "faces.npz"

    def read(**arrays):
        np.savez(path, images=images, **arrays)
        faces = load_faces(path)
        np.testing.assert_array_equal(faces.images, images)
        return faces.labels.tolist(), faces.names, faces.files

    assert read(labels=np.array([7, 7, 3, 12])) == ([2, 2, 1, 3], ("3", "7", "12"), ())
    assert read(labels=np.array(["b", "a", "b", "c"])) == ([2, 1, 2, 3], ("a", "b", "c"), ())
    assert read(labels=np.array([7, 7, 3, 3]), names=np.array(["x", "y"])) == ([2, 2, 1, 1], ("x", "y"), ())
    assert read(labels=np.array([7, 7, 3, 3]), names=np.array(list("pqrs")))[1:] == (("3", "7"), ())
    assert read() == ([0, 0, 0, 0], (), ())


@pytest.mark.parametrize(
    ("arrays", "error", "sentence"),
    [
        ({"labels": np.arange(3)}, UnreadableError, "it has no images, it holds 'labels'"),
        ({"images": np.zeros((3, 4), np.uint8)}, UnsupportedError, r"images must have the shape .*, got \(3, 4\)"),
        ({"images": np.zeros((0, 4, 4), np.uint8)}, UnsupportedError, r"images must have the shape .*, got"),
        ({"images": np.full((1, 2, 2), 256)}, UnsupportedError, r"in \[0, 255\], got values from 256 to 256"),
        ({"images": np.full((1, 2, 2), np.nan)}, UnsupportedError, "grey values must be known, got NaN for 4 of them"),
        ({"images": np.zeros((1, 2, 2), complex)}, UnsupportedError, "images must be numbers, got complex128"),
        (
            {"images": np.zeros((2, 2, 2), np.uint8), "labels": np.arange(3)},
            UnsupportedError,
            r"one whole number or string an image .*, got int64 of shape \(3,\) for 2 images",
        ),
        ({"images": np.zeros((2, 2, 2), np.uint8), "labels": np.array([1, 1.5])}, UnsupportedError, "one whole number"),
        ({"images": np.zeros((2, 2, 2), np.uint8), "labels": np.array([1, np.nan])}, UnsupportedError, "whole number"),
    ],
)
def test_a_bad_npz_is_one_line(tmp_path, arrays, error, sentence):
    path = tmp_path / "faces.npz"
    np.savez(path, **arrays)
    with pytest.raises(error, match=sentence) as caught:
        load_faces(path)
    assert "\n" not in str(caught.value)


def test_floats_are_taken_for_grey_values_or_shares_and_files_have_a_size_as_well(tmp_path):
    path = tmp_path / "faces.npz"
    np.savez(path, images=np.array([[[0.0, 0.5, 1.0]]]))
    np.testing.assert_array_equal(load_faces(path).images, [[[0, 128, 255]]])
    np.savez(path, images=np.array([[[0.0, 99.6, 255.0]]]))
    np.testing.assert_array_equal(load_faces(path).images, [[[0, 100, 255]]])
    np.savez(path, images=np.array([[[0, 1]]], np.int16))
    np.testing.assert_array_equal(load_faces(path).images, [[[0, 1]]])
    np.savez(path, images=np.full((3, 6, 6), 9, np.uint8))
    np.testing.assert_array_equal(load_faces(path, size=(2, 3)).images, np.full((3, 2, 3), 9))


# --- .mat, Deng Cai's format


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", [np.uint8, np.float64])
def test_mat_rows_are_images_column_by_column(tmp_path, rng, compressed, kind):
    images = rng.integers(2, 256, (4, 6, 6), dtype=np.uint8)
    fea = np.stack([image.T.ravel() for image in images]).astype(kind)
    gnd = np.array([[3], [3], [1], [9]], np.float64)
    savemat(tmp_path / "x.mat", {"fea": fea, "gnd": gnd, "other": np.arange(3)}, do_compression=compressed)
    faces = load_faces(tmp_path / "x.mat")
    np.testing.assert_array_equal(faces.images, images)
    assert faces.labels.tolist() == [2, 2, 1, 3]
    assert faces.names == ("1", "3", "9")


def test_a_bad_mat_is_one_line(tmp_path):
    path = tmp_path / "x.mat"
    good = {"fea": np.zeros((2, 4)), "gnd": np.ones((2, 1))}

    def check(error, sentence):
        with pytest.raises(error, match=sentence) as caught:
            load_faces(path)
        assert "\n" not in str(caught.value)

    savemat(path, {"X": good["fea"], "gnd": good["gnd"]})
    check(UnreadableError, "it has no fea, it holds 'X', 'gnd'")
    savemat(path, {**good, "fea": np.zeros((2, 2, 2))})
    check(UnsupportedError, r"fea must have the shape .*, got \(2, 2, 2\)")
    savemat(path, {**good, "fea": np.zeros((2, 24))})
    check(UnsupportedError, "fea must have a row for each square image, got 24 columns")
    savemat(path, {**good, "gnd": np.ones((3, 1))})
    check(UnsupportedError, "for 2 images")
    savemat(path, good)
    path.write_bytes(path.read_bytes()[:-40])
    check(UnreadableError, "not a file of MATLAB 4 to 7, or damaged")
