"""MATLAB files: what scipy writes is what is read; the rest of the reader is tested with the faces in such files."""

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from visionnmf.exceptions import UnsupportedError
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
