"""MATLAB files: matrices as SciPy reads them, cells and structures as lists and dicts."""

import numpy as np
import pytest
from scipy.io import savemat

from visionnmf.exceptions import UnreadableError, UnsupportedError
from visionnmf.io import read_mat


def test_matrices_are_read_by_name(tmp_path, rng):
    kinds = ["u1", "i1", "u2", "i8", "f4", "f8"]
    matrices = {f"of_{kind}": rng.integers(0, 100, (3, 5)).astype(kind) for kind in kinds}
    matrices |= {"x": np.array([[1]]), "cube": np.zeros((2, 3, 4)), "empty": np.zeros((0, 3))}
    others = {"cell": np.array([1, "x"], dtype=object), "text": "abc", "struct": {"a": 1}, "complex": np.array([1j])}
    savemat(tmp_path / "x.mat", {**matrices, **others}, do_compression=True)
    found = read_mat(tmp_path / "x.mat", list(matrices))
    for name, expected in matrices.items():
        np.testing.assert_array_equal(found[name], expected, err_msg=name, strict=True)
    for name in others:
        with pytest.raises(UnsupportedError, match=f"{name} is not a matrix of real numbers"):
            read_mat(tmp_path / "x.mat", [name])
    with pytest.raises(UnreadableError, match="it has no y"):
        read_mat(tmp_path / "x.mat", ["x", "y"])


def test_cells_and_structures_are_lists_and_dicts_and_other_versions_named(tmp_path, rng):
    cell = np.empty((1, 3), dtype=object)  # as BSDS500 has it
    for k in range(3):
        cell[0, k] = {"Segmentation": rng.integers(1, 9, (6, 4 + k)).astype(np.uint16)}
    savemat(tmp_path / "x.mat", {"groundTruth": cell})
    found = read_mat(tmp_path / "x.mat", ["groundTruth"], nested=True)["groundTruth"]
    for one, expected in zip(found, cell[0], strict=True):
        np.testing.assert_array_equal(one["Segmentation"], expected["Segmentation"], strict=True)
    header = b"MATLAB 7.3 MAT-file".ljust(116) + bytes(8) + b"\x00\x02IM"
    (tmp_path / "x.mat").write_bytes(header + b"\x89HDF\r\n\x1a\n" + bytes(400))
    with pytest.raises(UnsupportedError, match="save it in MATLAB with the option -v7"):
        read_mat(tmp_path / "x.mat", ["x"])


@pytest.mark.parametrize("content", [b"<html>parked</html>", b"x" * 500, bytes(300), b"\xe8\x03\0\0" + bytes(9)])
def test_what_is_no_matlab_file_is_one_line(tmp_path, content):
    (tmp_path / "x.mat").write_bytes(content)
    with pytest.raises(UnreadableError, match=r"x\.mat: not a file of MATLAB 4 to 7, or damaged; .* -v7"):
        read_mat(tmp_path / "x.mat", ["x"])
