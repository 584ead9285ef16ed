"""The archive of all model files, and arrays of strangers: sizes are looked at first, each array is read once."""

import gc
import io
import json
import re
import struct
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

from visionnmf import NMF, load_model
from visionnmf._checks import shown
from visionnmf._text import one_line
from visionnmf.exceptions import OutputExistsError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io import Format, inputs, read_arrays, write_arrays
from visionnmf.io.archive import _outside_strings
from visionnmf.io.chunks import open_chunks

STORED = Format("visionnmf-test", 2, "a test", "make one", "make it smaller")
PACKED = Format("visionnmf-test", 2, "a test", "make one", "make it smaller", unpacked_bytes=1 << 20)
ARRAYS = {
    "numbers": np.arange(6, dtype=np.float32).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "of.a.part": np.array([True, False]),
    "none": np.zeros((0, 3), np.int16),
    "one": np.array(3.5),
    "file": np.array([1]),
}
MAKE = {"stored": STORED, "packed": PACKED}


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


def header(**values):
    text = json.dumps({"format": "visionnmf-test", "version": 2} | values).encode()
    return npy((len(text),), "|u1", text)


@pytest.mark.parametrize("kind", MAKE)
def test_what_is_written_is_read(path, kind):
    MAKE[kind].write(path, {"people": ["a", "\udc80é"], "n": 3, "none": None}, ARRAYS)
    with MAKE[kind].read(path) as archive:
        assert archive.version == 2
        assert archive.header["people"] == ["a", "\udc80é"] and archive.header["none"] is None
        for name, array in ARRAYS.items():
            found = archive.array(name)
            assert found.dtype == array.dtype and found.flags.writeable
            np.testing.assert_array_equal(found, array)
    with np.load(path, allow_pickle=False) as plain:  # numpy reads the same
        assert sorted(plain.files) == sorted([*ARRAYS, "header"])
        np.testing.assert_array_equal(plain["columns"], ARRAYS["columns"])
    with pytest.raises(OutputExistsError):
        MAKE[kind].write(path, {}, {})


def test_other_byte_orders_become_the_machines(path):
    STORED.write(path, {}, {"a": np.arange(3, dtype=">f8"), "b": np.arange(3, dtype="<i2")})
    with STORED.read(path) as archive:
        for name in "ab":
            array = archive.array(name)
            assert array.dtype.isnative
            np.testing.assert_array_equal(array, [0, 1, 2])


def test_an_array_stands_for_one_thing(path):
    STORED.write(path, {}, ARRAYS)
    told = r"x\.npz: damaged, or not a test \(ValueError: one stands for two things\)"
    with pytest.raises(UnreadableError, match=told), STORED.read(path) as archive:
        archive.array("one")
        archive.array("one")


def test_encrypted_members_are_refused(path):
    STORED.write(path, {}, ARRAYS)
    data = bytearray(path.read_bytes())
    at = data.rfind(b"PK\1\2")  # a member in the directory; eight bytes further, its flags
    data[at + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(UnreadableError, match="it is encrypted"), STORED.read(path):
        pass
    with pytest.raises(UnreadableError, match="cannot be read: it is encrypted"):
        read_arrays(path, ["a"])


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


def test_no_reference_multiplies_the_memory(path):
    rng = np.random.default_rng(0)
    NMF(2, loss="frobenius", max_iter=2, tol=0, random_state=0).fit(rng.random((4, 300_000))).save(path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    told = json.loads(arrays["header"].tobytes())
    told["fitted"]["objective_history_"] = {"tuple": [{"array": "components_"}] * 300}
    arrays["header"] = np.frombuffer(json.dumps(told).encode(), np.uint8)
    np.savez(path, **arrays)
    tracemalloc.start()
    with pytest.raises(UnreadableError, match="components_ stands for two things"):
        load_model(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2.5 * path.stat().st_size


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


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (npy((1 << 60, 4), content=bytes(8)), "one is not of the size it says"),
        (npy((2,), content=bytes(8)), "one is not of the size it says"),
        (npy((1,), content=bytes(16)), "one is not of the size it says"),
        (npy((-1, -1), content=bytes(8)), "damaged"),
        (npy((1,), "|O", bytes(8)), "one holds objects"),
        (npy((1,), "<U2", bytes(8)), "one is not an array of numbers"),
        (npy((1,), "<c16", bytes(16)), "one is not an array of numbers"),
        (npy((1,), [("a", "<f8")], bytes(8)), "one is not an array of numbers"),
        (npy((2,), content=bytes(16)).replace(b"}", b"("), "damaged"),
        (npy((2,), content=bytes(16)).replace(b"}", b"'"), "damaged"),
        (b"no array", "damaged"),
        (b"\x93NUMPY\x09\x00" + bytes(99), "damaged"),
        (b"", "damaged"),
    ],
)
@pytest.mark.parametrize("kind", MAKE)
def test_bad_arrays(path, kind, content, sentence):
    MAKE[kind].write(path, {}, ARRAYS)
    rewritten(path, zipfile.ZIP_STORED if kind == "stored" else zipfile.ZIP_DEFLATED, one=content)
    with pytest.raises(UnreadableError, match=sentence) as caught, MAKE[kind].read(path) as archive:
        archive.array("one")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "error", "sentence"),
    [
        (header(format="other"), UnreadableError, "not a test; make one"),
        (header(format=["visionnmf-test"]), UnreadableError, "not a test; make one"),
        (npy((2,), "|u1", b"[]"), UnreadableError, "not a test; make one"),
        (npy((2,), "|u1", b"{]"), UnreadableError, "damaged, or not a test"),
        (
            header(version=3),
            UnsupportedError,
            r"later version of visionnmf \(model version 3, this one reads up to 2\)",
        ),
        (header(version="new"), UnreadableError, "damaged, or not a test"),
        (header(version=None), UnreadableError, "damaged, or not a test"),
    ],
)
def test_bad_headers(path, content, error, sentence):
    STORED.write(path, {}, {})
    rewritten(path, header=content)
    with pytest.raises(error, match=sentence), STORED.read(path):
        pytest.fail("opened")


VALUES = {  # short ones take up to 20 times the memory of their text
    "numbers": b"[" + b"999," * 1_900_000 + b"0]",
    "strings": b"[" + b'"ab",' * 1_800_000 + b"0]",
    "keys": b"{" + b",".join(b'"%d":1' % number for number in range(1_000_000)) + b"}",
    "wide": b'["' + b"a" * (15 << 20) + b'\\ud83d\\ude00"]',
    "words": b'["' + b"[,:" * 5_000_000 + b'"]',  # nothing beside one string
}


@pytest.mark.parametrize("kind", VALUES)
def test_what_a_header_decodes_to_is_bounded(path, kind):
    text = b'{"format": "visionnmf-test", "version": 2, "more": %s}' % VALUES[kind]
    STORED.write(path, {}, {})
    rewritten(path, header=npy((len(text),), "|u1", text))
    del text
    tracemalloc.start()
    try:
        with STORED.read(path) as archive:
            del archive
        told = ""
    except TooLargeError as error:
        told = str(error)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2 * path.stat().st_size + 200e6
    assert (told == "") == (kind in ("wide", "words"))
    assert told == "" or re.search(r"the values of its header take 1\d\d MiB, 160 are allowed; make it smaller$", told)


def test_a_header_that_would_not_be_read_is_not_written(path):
    with pytest.raises(TooLargeError, match="the values of its header take 183 MiB, 160 are allowed; make it smaller"):
        STORED.write(path, {"names": ["ab"] * 2_000_000}, {})
    assert not path.exists()
    names = ['a "quoted, odd": [name]\\' + end for end in ("", "\\", '"', '\\"')]
    STORED.write(path, {"names": names * 3}, {})
    with STORED.read(path) as archive:
        assert archive.header["names"] == names * 3
    assert _outside_strings(json.dumps({"names": names}).encode())[ord(",")] == len(names) - 1


def test_a_header_is_ascii(path):
    """One character beyond U+FFFF makes four bytes of each."""
    STORED.write(path, {}, {})
    text = '{"format": "visionnmf-test", "version": 2, "more": "\U0001f600"}'.encode()
    rewritten(path, header=npy((len(text),), "|u1", text))
    with pytest.raises(UnreadableError, match="damaged, or not a test"), STORED.read(path):
        pytest.fail("opened")


def test_what_is_quoted_of_a_large_value_takes_little_memory():
    value = [9] * 300_000
    tracemalloc.start()
    assert len(shown(value)) == 80
    assert len(one_line(ValueError("a " * 500_000))) < 10_000
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 5e6


def test_sizes_in_the_directory_are_looked_at_first(path, monkeypatch):
    PACKED.write(path, {}, {"a": np.zeros(1 << 16)})
    assert path.stat().st_size < 4000
    with pytest.raises(UnreadableError, match="it is compressed"), STORED.read(path):
        pytest.fail("opened")
    monkeypatch.setattr(json, "loads", lambda text: pytest.fail("decoded"))
    small = Format("visionnmf-test", 2, "a test", "make one", "make it smaller", unpacked_bytes=1 << 18)
    with pytest.raises(TooLargeError, match="it unpacks to 0 MiB, 0 are allowed; make it smaller"), small.read(path):
        pytest.fail("opened")
    short = Format("visionnmf-test", 2, "a test", "make one", "make it smaller", 10, 1 << 20)
    with pytest.raises(TooLargeError, match="its header has 0 MiB, 0 are allowed; make it smaller"), short.read(path):
        pytest.fail("opened")
    for too_small in (small, short):
        with pytest.raises(TooLargeError):
            too_small.write(path, {}, {"a": np.zeros(1 << 16)}, force=True)


def test_what_the_reader_raises_by_itself_is_not_called_damage(path):
    STORED.write(path, {}, {})
    with pytest.raises(UnsupportedError, match="too old"), STORED.read(path):
        raise UnsupportedError("too old")
    told = r"damaged, or not a test \(KeyError: 'names'\)"
    with pytest.raises(UnreadableError, match=told), STORED.read(path) as archive:
        archive.header["names"]


# --- .npz files of data -----------------------------------------------------------------------------------------------


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


def test_a_directory_of_many_members_is_refused_before_it_is_read(path, monkeypatch):
    STORED.write(path, {}, ARRAYS)
    with zipfile.ZipFile(path, "a") as file:
        for i in range(30_000):
            file.writestr(f"{i:06}", b"")
    monkeypatch.setattr(zipfile, "ZipFile", lambda *_: pytest.fail("opened"))
    with pytest.raises(UnreadableError, match=r"its directory has 1[0-9]{6} bytes"), STORED.read(path):
        pass
    with pytest.raises(UnreadableError, match=r"its directory has 1[0-9]{6} bytes"):
        read_arrays(path, ["numbers"])


@pytest.mark.slow
def test_a_large_directory_of_a_zip64_file_is_refused(path):
    with zipfile.ZipFile(path, "w") as file:
        for i in range(70_000):  # more than the 16 bits of the plain record
            file.writestr(f"{i}", b"")
    with pytest.raises(UnreadableError, match=r"its directory has 3[0-9]{6} bytes"), STORED.read(path):
        pass


def test_a_file_with_bytes_after_its_directory_is_read(path):
    STORED.write(path, {}, ARRAYS)
    with zipfile.ZipFile(path, "a") as file:
        file.comment = b"a comment that zip files may have" * 100
    with STORED.read(path) as archive:
        np.testing.assert_array_equal(archive.array("numbers"), ARRAYS["numbers"])
