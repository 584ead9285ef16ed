"""``.npz`` files of data."""

import gc
import sys
import zipfile

import numpy as np
import pytest

from visionnmf.exceptions import UnreadableError
from visionnmf.io import read_arrays, write_arrays


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x.npz", "x.NPZ"])
def test_a_signal_while_an_archive_is_opened_leaves_nothing_to_be_told(monkeypatch, tmp_path, name):
    class Interrupted(zipfile.ZipFile):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            raise KeyboardInterrupt

    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("zipfile.ZipFile", Interrupted)
        write_arrays(tmp_path / name, {"X": np.eye(3)})
    gc.collect()
    assert not told
    write_arrays(tmp_path / name, {"X": np.eye(3)})
    assert read_arrays(tmp_path / name, ["X"])["X"].shape == (3, 3)


def test_arrays_of_data_are_read_by_name(tmp_path):
    path = tmp_path / "x.npz"
    arrays = {"images": np.arange(12, dtype=np.uint8).reshape(3, 2, 2), "names": np.array(["a", "bé"])}
    for save in (np.savez, np.savez_compressed):
        save(path, **arrays)
        found = read_arrays(path, ["images"], ["names", "labels"])
        assert list(found) == ["images", "names"]
        for name, array in found.items():
            np.testing.assert_array_equal(array, arrays[name], strict=True)
    np.savez(path, images=np.array([{}]))
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("labels.npy", b"no array")
    lines = {"images": "Object arrays cannot be loaded", "labels": "labels is not an array", "faces": "it has no faces"}
    for name, line in lines.items():
        with pytest.raises(UnreadableError, match=line) as caught:
            read_arrays(path, [name])
        assert "\n" not in str(caught.value)
