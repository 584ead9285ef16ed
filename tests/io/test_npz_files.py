"""``.npz`` files of data: sizes are looked at first."""

import gc
import io
import struct
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

from visionnmf.exceptions import TooLargeError, UnreadableError
from visionnmf.io import inputs, read_arrays, write_arrays
from visionnmf.io.chunks import open_chunks


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.npz"


def npy(shape, dtype="<f8", content=b""):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": dtype})
    return file.getvalue() + content


def rewritten(path, method=zipfile.ZIP_STORED, **members):
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()} | {f"{k}.npy": v for k, v in members.items()}
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in parts.items():
            file.writestr(name, content)


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


@pytest.mark.parametrize("reads", ["faces", "rows"])
def test_a_header_of_an_array_is_not_longer_than_numpy_writes_them(reads, tmp_path):
    length = 40 << 20
    content = b"\x93NUMPY\x02\x00" + struct.pack("<I", length) + b"{" + bytes(length)
    path = tmp_path / ("x.npz" if reads == "faces" else "x.npy")
    if reads == "faces":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("images.npy", content)
    else:
        path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(UnreadableError, match=f"its header has {length} bytes"):
        read_arrays(path, ["images"]) if reads == "faces" else open_chunks(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < length / 8
    (tmp_path / "fine.npy").unlink(missing_ok=True)
    with (tmp_path / "fine.npy").open("wb") as file:
        np.lib.format.write_array(file, np.eye(3), version=(2, 0))
    with open_chunks(tmp_path / "fine.npy") as rows:
        assert (next(iter(rows.chunks(3))) == np.eye(3)).all()


def test_arrays_of_data_are_read_by_name(path):
    arrays = {"images": np.arange(12, dtype=np.uint8).reshape(3, 2, 2), "names": np.array(["a", "bé"])}
    for save in (np.savez, np.savez_compressed):
        save(path, **arrays)
        found = read_arrays(path, ["images"], ["names", "labels"])
        assert list(found) == ["images", "names"]
        for name, array in found.items():
            assert array.dtype == arrays[name].dtype
            np.testing.assert_array_equal(array, arrays[name])


def test_data_are_bounded_one_by_one_and_together(path, monkeypatch):
    np.savez_compressed(path, a=np.zeros(1000), b=np.zeros(1000), c=np.zeros(9000))
    monkeypatch.setattr(inputs, "MAX_BYTES", 16_000)
    assert read_arrays(path, ["a"])["a"].shape == (1000,)
    with pytest.raises(TooLargeError, match=r"x\.npz has 16256 bytes, more than 16000"):
        read_arrays(path, ["a", "b"])
    rewritten(path, a=npy((1 << 40,), "|u1"))
    with pytest.raises(TooLargeError, match=r"x\.npz: a\.npy has 1099511627776 bytes"):
        read_arrays(path, ["a"])


@pytest.mark.slow
def test_a_directory_of_many_members_is_refused_before_it_is_read(path):
    write_arrays(path, {"numbers": np.eye(3)})
    with zipfile.ZipFile(path, "a") as file:
        for i in range(30_000):
            file.writestr(f"{i:06}", b"")
    with pytest.raises(UnreadableError, match=r"its directory has 1[0-9]{6} bytes"):
        read_arrays(path, ["numbers"])


def test_encrypted_members_are_refused(path):
    write_arrays(path, {"a": np.eye(3)})
    data = bytearray(path.read_bytes())
    data[data.rfind(b"PK\1\2") + 8] |= 1  # a member's flags in the directory
    path.write_bytes(data)
    with pytest.raises(UnreadableError, match="cannot be read: it is encrypted"):
        read_arrays(path, ["a"])
