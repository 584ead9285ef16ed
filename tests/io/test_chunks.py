"""Data by chunks: every source gives the same rows in whatever pieces, and what is wrong is refused in one line."""

import io
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image

from visionnmf import choices
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io import write_image
from visionnmf.io.chunks import open_chunks, text_rows
from visionnmf.io.chunks.base import Indexed, Sequential

dask_array = pytest.importorskip("dask.array")

X = np.random.default_rng(3).random((23, 5)).round(3)


def dense(chunk):
    return chunk.toarray() if sp.issparse(chunk) else chunk


def save_text(path, comma=",", head="", X=X):
    path.write_text(head + "".join(comma.join(map(repr, row)) + "\n" for row in X.tolist()))
    return path


def hdf5(path, **options):
    return pytest.importorskip("h5py").File(path, "w").create_dataset("x", data=X, **options)


def save_npy(path, X=X):
    np.save(path, X)
    return path


def zarr(path):
    return pytest.importorskip("zarr").create_array(store=str(path), data=X, chunks=(4, 3))


def save_memmap(path):
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def broken():
    matrix = sp.csc_array(X)
    matrix.indices[3] = 10**6
    return matrix


SOURCES = {
    "array": lambda folder: X,
    "fortran": lambda folder: np.asfortranarray(X),
    "memory map": lambda folder: save_memmap(folder / "x.npy"),
    "csr": lambda folder: sp.csr_array(X),
    "csc": lambda folder: sp.csc_matrix(X),
    "table": lambda folder: pytest.importorskip("pandas").DataFrame(X),
    "stack": lambda folder: np.repeat(X, 2, axis=1).reshape(23, 5, 2)[:, :, 0].reshape(23, 5, 1),
    "list of chunks": lambda folder: [X[:1], X[1:1], X[1:9], [], sp.csr_array(X[9:10]), X[10:].tolist()],
    "generator": lambda folder: (X[i : i + 3] for i in range(0, 23, 3)),
    "dask": lambda folder: dask_array.from_array(X, chunks=((10, 9, 4), (2, 3))),
    "dask sparse": lambda folder: dask_array.from_array(X, chunks=(4, 5)).map_blocks(sp.csr_matrix),
    "npy": lambda folder: save_npy(folder / "x.npy"),
    "npy, fortran": lambda folder: save_npy(folder / "x.npy", np.asfortranarray(X)),
    "hdf5": lambda folder: hdf5(folder / "x.h5"),
    "hdf5, packed": lambda folder: hdf5(folder / "x.h5", chunks=(4, 5), compression="gzip"),
    "zarr": lambda folder: zarr(folder / "x.zarr"),
    "commas": lambda folder: save_text(folder / "x.csv"),
    "names": lambda folder: save_text(folder / "x.csv", ";", "\ufeffa;b;c;d;e\n# a note\n\n"),
    "blanks": lambda folder: str(save_text(folder / "x.txt", " \t")),
}


@pytest.mark.parametrize("size", [1, 4, 7, 100])
@pytest.mark.parametrize("kind", SOURCES)
def test_the_same_rows_in_any_pieces(kind, size, tmp_path):
    with open_chunks(SOURCES[kind](tmp_path)) as rows:
        chunks = list(rows.chunks(size))
        np.testing.assert_array_equal(np.concatenate(list(map(dense, chunks))), X)
        assert all(chunk.ndim == 2 and chunk.shape[0] for chunk in chunks)
        assert rows.image_shape == ((5, 1) if kind == "stack" else None)
        assert rows.n_features == 5 and rows.skipped == []
        if not rows.repeatable:
            return
        for skip in (1, 8, 23):
            rest = [dense(chunk) for chunk in rows.chunks(size, skip)]
            np.testing.assert_array_equal(np.concatenate([np.empty((0, 5)), *rest]), X[skip:])
        if isinstance(rows, Indexed):
            assert rows.n_samples == 23
            some = np.array([5, 22, 0, 5])
            np.testing.assert_array_equal(dense(rows.take(some)) if kind != "dask sparse" else X[some], X[some])


def test_an_array_in_chunks_is_read_a_chunk_at_a_time_and_an_open_source_taken_as_it_is(tmp_path):
    with open_chunks(hdf5(tmp_path / "x.h5", chunks=(4, 5))) as rows:
        assert rows.block == 4
        assert [len(chunk) for chunk in rows.chunks(1)] == [4] * 5 + [3]
        assert [len(chunk) for chunk in rows.chunks(6)] == [8, 8, 7]
    rows = open_chunks(X)
    assert open_chunks(rows) is rows


@pytest.mark.parametrize(
    ("chunk", "sentence"),
    [
        (X[:2, :4], "chunk 2 must have 5 features as the chunks before it; got 4"),
        (X[0], r"chunk 2 must have shape \(n_samples, n_features\); got \(5,\); one sample is reshape\(1, -1\)"),
        (np.float64(3), r"chunk 2 must have shape .*; got \(\)"),
        ([["a"] * 5], r"chunk 2 must be an array of numbers; got \[\['a'"),
        ([[1, 2], [3]], "chunk 2 must be an array of numbers; got"),
        (np.array([[object()] * 5]), "chunk 2 must be an array of numbers; got"),
        (broken(), "chunk 2 must be a well-formed sparse matrix"),
        (np.ma.masked_less(X, 0.5), "chunk 2 must not be a masked array"),
        (X.astype(complex), "chunk 2 must be an array of numbers; got"),
    ],
)
def test_chunks_that_do_not_fit_are_refused_by_number(chunk, sentence):
    with pytest.raises(ParameterError, match=sentence):
        list(open_chunks([X, chunk]).chunks(4))


def test_what_holds_no_samples_is_refused():
    for source in (3, None, object()):
        with pytest.raises(ParameterError, match="source must be an array, a file, a folder or an iterable"):
            open_chunks(source)
    for source, sentence in ((X[0], "has shape"), (X[:0], "is empty"), (np.array([["a"]]), "not numbers")):
        with pytest.raises(UnsupportedError, match=sentence):
            open_chunks(source)
    for source, sentence in ((broken(), "X must be a well-formed"), (np.ma.masked_less(X, 0.5), "must not be a mask")):
        with pytest.raises(ParameterError, match=sentence):
            open_chunks(source)
    unknown = dask_array.from_array(X, chunks=(4, 5))
    with pytest.raises(ParameterError, match=r"chunks of known sizes; got .*call X.compute_chunk_sizes\(\)"):
        open_chunks(unknown[unknown[:, 0] > 0.5])


# --- hostile files ----------------------------------------------------------------------------------------------------


def npy_header(shape, dtype="<f8"):
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text.encode() + b"\n"


@pytest.mark.parametrize(
    "content",
    [
        *(npy_header((10**9, 10**6)), npy_header((2**62, 2**62)), b"\x93NUMPY", b"PK\x03\x04" + bytes(50)),
        *(npy_header(shape) + bytes(95) for shape in ((-3, 4), (3, 4), "__import__('os')", "(" * 400)),
        *(npy_header((3, 4), "|O") + bytes(96), npy_header((3, 4), "|O") + b"cos\nsystem\n(S'false'\ntR."),
        b"garbage" * 9,
    ],
)
def test_npy_files_that_were_made_to_do_harm(content, tmp_path):
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    with pytest.raises(UnreadableError, match=r"x\.npy: cannot be read") as caught:
        open_chunks(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400 + len(str(path))


def test_npy_files_that_are_no_rows(tmp_path):
    path = tmp_path / "x.npy"
    for array, sentence in ((X[0], "shape"), (np.zeros((2, 2), complex), "complex128, not numbers"), (X[:0], "empty")):
        np.save(path, array)
        with pytest.raises(UnsupportedError, match=sentence):
            open_chunks(path)
    np.save(path, X)
    rows = open_chunks(path)
    np.save(path, X[:4])
    with pytest.raises(UnreadableError, match="it has changed while it was read"):
        list(rows.chunks(3))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UnreadableError, match="cannot be read"):
        list(rows.chunks(3))
    with pytest.raises(UnreadableError, match="no such file"):
        open_chunks(tmp_path / "absent.npy")
    for name in ("x.npz", "x.h5", "x.zarr"):
        with pytest.raises(UnsupportedError, match=rf"{name}: a file of this kind cannot be read by chunks"):
            open_chunks(tmp_path / name)


# --- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1,2\n3,four\n", r"line 2: 'four' is not a number"),
        ("1,2\n3,\n", r"line 2: '' is not a number"),
        ("1,2\n\n3,4,5\n", "line 3 has 3 fields, those before have 2"),
        ("a,b\n1,2,3\n", "line 2 has 3 fields, those before have 2"),
        ("a,b\nc,d\n", r"line 2: 'c' is not a number"),
        ("1 2\n<html><body>a very long word</body>\n", r"line 2: '<html><body>a' is not"),
        ("1,2\n\x00\xff,3\n", "line 2"),
    ],
)
def test_lines_that_are_no_rows_are_refused_by_number(text, sentence, tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UnreadableError, match=rf"x\.csv: .*{sentence}"):
        list(open_chunks(path).chunks(10))


def test_standard_input_is_read_once_and_a_line_without_end_refused(monkeypatch, tmp_path):
    content = save_text(tmp_path / "x.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    rows = open_chunks("-")
    assert isinstance(rows, Sequential) and not rows.repeatable and rows.name == "standard input"
    np.testing.assert_array_equal(np.concatenate(list(rows.chunks(4))), X)
    monkeypatch.setattr(text_rows, "LONGEST_LINE", 100)
    path = tmp_path / "x.csv"
    path.write_text("1,2\n" + "3," * 1000)
    with pytest.raises(TooLargeError, match="line 2 has more than"):
        list(open_chunks(path).chunks(1))


# --- pictures ---------------------------------------------------------------------------------------------------------


def test_the_images_of_a_folder_are_grey_rows_of_the_size_of_the_first(tmp_path, rng):
    images = rng.integers(0, 256, (5, 6, 8)).astype(np.uint8)
    (tmp_path / "below").mkdir()
    for i, image in enumerate(images):
        write_image(tmp_path / ("below" if i == 4 else ".") / f"{'bcdea'[i]}.png", image)
    (tmp_path / "c2.png").write_bytes(b"no image")
    (tmp_path / "notes.txt").write_text("1 2 3")
    Image.fromarray(np.full((12, 16, 4), 255, np.uint8)).save(tmp_path / "f.png")  # another size, with transparency
    rows = open_chunks(tmp_path)
    for skip in (0, 2):
        found = np.concatenate(list(rows.chunks(2, skip)))
        assert found.dtype == np.float32 and rows.image_shape == (6, 8)
        white = np.full((6, 8), 255, np.uint8)  # f.png
        expected = np.array([images[0], images[4], images[1], images[2], images[3], white]).reshape(6, 48)
        np.testing.assert_array_equal(found, expected[skip:] / np.float32(255))
        assert len(rows.skipped) == 1 and "c2.png" in rows.skipped[0]
    small = np.concatenate(list(open_chunks(tmp_path, longest_side=4).chunks(9)))
    assert small.shape == (6, 12)


def test_a_folder_may_hold_videos_and_come_in_another_order(files, tmp_path, rng):
    video = next(path for path in files.values() if path.suffix in choices.VIDEO_SUFFIXES)
    frames = np.concatenate(list(open_chunks(video).chunks(9)))
    (tmp_path / "b.mp4").symlink_to(video)
    rows = open_chunks(video)
    for name in ("a.png", "c.png"):
        write_image(tmp_path / name, np.full(rows.image_shape, 51, np.uint8))
    rows = open_chunks(tmp_path)
    assert rows.n_features == frames.shape[1] and rows.can_reorder
    grey = np.full((1, rows.n_features), np.float32(51) / np.float32(255))
    found = np.concatenate(list(rows.chunks(7)))
    np.testing.assert_array_equal(found, np.concatenate([grey, frames, grey]))
    orders = set()
    for seed in range(6):
        rows.reorder(np.random.default_rng(seed))
        again = np.concatenate(list(rows.chunks(7)))
        np.testing.assert_array_equal(np.sort(again, axis=0), np.sort(found, axis=0))
        orders.add(again.tobytes())
    assert 2 <= len(orders) <= 3


def test_folders_without_an_image(tmp_path):
    with pytest.raises(UnreadableError, match="no file in this folder ends in"):
        open_chunks(tmp_path)
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(UnreadableError, match=r"a\.png"):
        open_chunks(tmp_path)
    (tmp_path / "b.png").write_bytes(b"no image")
    with pytest.raises(UnreadableError, match=r"holds nothing that can be read; .*a\.png"):
        open_chunks(tmp_path)


def test_the_frames_of_a_video(files):
    path = next(iter(files.values()))
    with open_chunks(path, longest_side=8) as rows:
        assert rows.image_shape == (6, 8)
        chunks = list(rows.chunks(4))
        assert {chunk.shape for chunk in chunks[:-1]} == {(4, 48)} and chunks[0].dtype == np.float32
        total = sum(map(len, chunks))
        np.testing.assert_array_equal(np.concatenate(list(rows.chunks(3, 5))), np.concatenate(chunks)[5:])
    assert total > 4 and 0 <= min(map(np.min, chunks)) and max(map(np.max, chunks)) <= 1
    with pytest.raises(UnreadableError):
        open_chunks(path.with_suffix(".absent"))
