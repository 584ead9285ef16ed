"""Data by chunks: every source gives the same rows in whatever pieces, and what is wrong is refused in one line."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from visionnmf.exceptions import ParameterError, UnsupportedError
from visionnmf.models.chunks import ArrayRows, open_chunks

dask_array = pytest.importorskip("dask.array")

X = np.random.default_rng(3).random((23, 5)).round(3)


def dense(chunk):
    return chunk.toarray() if sp.issparse(chunk) else chunk


def hdf5(path, **options):
    return pytest.importorskip("h5py").File(path, "w").create_dataset("x", data=X, **options)


def save_text(path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(X).to_csv(path, index=False)
    return pandas.read_csv(path, chunksize=4)


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
    "hdf5": lambda folder: hdf5(folder / "x.h5"),
    "hdf5, packed": lambda folder: hdf5(folder / "x.h5", chunks=(4, 5), compression="gzip"),
    "zarr": lambda folder: zarr(folder / "x.zarr"),
    "text": lambda folder: save_text(folder / "x.csv"),
}


@pytest.mark.parametrize("size", [1, 4, 7, 100])
@pytest.mark.parametrize("kind", SOURCES)
def test_the_same_rows_in_any_pieces(kind, size, tmp_path):
    rows = open_chunks(SOURCES[kind](tmp_path))
    chunks = list(rows.chunks(size))
    np.testing.assert_array_equal(np.concatenate(list(map(dense, chunks))), X)
    assert all(chunk.ndim == 2 and chunk.shape[0] for chunk in chunks)
    assert rows.repeatable == (kind not in ("generator", "text"))
    if not rows.repeatable:
        return
    for skip in (1, 8, 23):
        rest = [dense(chunk) for chunk in rows.chunks(size, skip)]
        np.testing.assert_array_equal(np.concatenate([np.empty((0, 5)), *rest]), X[skip:])
    if isinstance(rows, ArrayRows):
        assert rows.n_samples == 23 and rows.n_features == 5
        some = np.array([5, 22, 0, 5])
        np.testing.assert_array_equal(dense(rows.take(some)), X[some])


def test_an_array_in_chunks_is_read_a_chunk_at_a_time(tmp_path):
    rows = open_chunks(hdf5(tmp_path / "x.h5", chunks=(4, 5)))
    assert rows.block == 4
    assert [len(chunk) for chunk in rows.chunks(1)] == [4] * 5 + [3]
    assert [len(chunk) for chunk in rows.chunks(6)] == [8, 8, 7]


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
    for source in (3, None, object(), "x.csv", Path("x.npy"), b"x"):
        with pytest.raises(ParameterError, match=r"source must be an array or an iterable .* pass numpy\.load\(path"):
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
