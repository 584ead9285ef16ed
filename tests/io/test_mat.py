"""MATLAB files: what scipy writes is what is read; the rest of the reader is tested with the faces in such files."""

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from visionnmf.exceptions import MediaError, UnsupportedError
from visionnmf.io import read_mat


@pytest.mark.parametrize("compressed", [False, True])
def test_mat_reader_agrees_with_scipy(tmp_path, rng, compressed):
    kinds = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"]
    matrices = {f"of_{kind}": rng.integers(0, 100, (3, 5)).astype(kind) for kind in kinds}
    matrices |= {"x": np.array([[1]]), "a_name_of_more_than_eight": np.zeros((2, 3, 4)), "empty": np.zeros((0, 3))}
    others = {"cell": np.array([1, "x"], dtype=object), "text": "abc", "struct": {"a": 1}, "complex": np.array([1j])}
    savemat(tmp_path / "x.mat", {**matrices, **others}, do_compression=compressed)
    found = read_mat(tmp_path / "x.mat", list(matrices))
    for name, expected in loadmat(tmp_path / "x.mat", variable_names=list(matrices)).items():
        if name in matrices:
            np.testing.assert_array_equal(found[name], expected, err_msg=name)
            assert found[name].dtype == expected.dtype
    for name in others:
        with pytest.raises(UnsupportedError, match=f"{name} is no matrix of real numbers"):
            read_mat(tmp_path / "x.mat", [name])


def truth(path, rng, n=3, compressed=True):
    """A file as BSDS500 has it: a cell with a structure for each annotator."""
    cell = np.empty((1, n), dtype=object)
    for k in range(n):
        labels = rng.integers(1, 9, (6, 4 + k)).astype(np.uint16)
        cell[0, k] = {"Segmentation": labels, "Boundaries": labels > 4}
    savemat(path, {"groundTruth": cell}, do_compression=compressed)
    return cell


@pytest.mark.parametrize("compressed", [False, True])
def test_cells_and_structures_are_what_scipy_wrote(tmp_path, rng, compressed):
    cell = truth(tmp_path / "x.mat", rng, compressed=compressed)
    found = read_mat(tmp_path / "x.mat", ["groundTruth"], nested=True)["groundTruth"]
    assert [list(one[0]) for one in found] == [["Segmentation", "Boundaries"]] * 3
    for (one,), expected in zip(found, cell[0], strict=True):
        np.testing.assert_array_equal(one["Segmentation"], expected["Segmentation"])
        np.testing.assert_array_equal(one["Boundaries"], expected["Boundaries"])


def test_nested_values_of_all_kinds(tmp_path):
    records = np.array([(1, "a"), (2, "b")], dtype=[("number", object), ("a_rather_long_name", object)])
    inner = np.empty((2, 2), dtype=object)
    inner[:] = [[np.arange(3), "text"], [records, np.zeros((0, 0))]]
    savemat(tmp_path / "x.mat", {"x": inner, "empty": np.empty((0, 0), dtype=object)}, long_field_names=True)
    found = read_mat(tmp_path / "x.mat", ["x", "empty"], nested=True)
    assert found["empty"] == []
    numbers, structures, text, nothing = found["x"]  # down the columns
    np.testing.assert_array_equal(numbers, [[0, 1, 2]])
    assert [(int(row["number"].item()), row["a_rather_long_name"]) for row in structures] == [(1, None), (2, None)]
    assert text is None and nothing.size == 0


@pytest.mark.slow
def test_damaged_nested_files_are_refused_in_one_line(tmp_path, rng):
    truth(tmp_path / "x.mat", rng, compressed=False)
    data = (tmp_path / "x.mat").read_bytes()
    for place in range(128, len(data), 3):
        for damaged in (data[:place], data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]):
            (tmp_path / "y.mat").write_bytes(damaged)
            try:
                read_mat(tmp_path / "y.mat", ["groundTruth"], nested=True)
            except MediaError as error:
                assert "\n" not in str(error)
