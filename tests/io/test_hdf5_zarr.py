"""HDF5 files and Zarr folders made to do harm are refused in one line, with little memory and in little time."""

import gzip
import json
import os
import struct
import subprocess
import sys
import time
import tracemalloc
import zlib

import numpy as np
import pytest

from visionnmf.exceptions import MediaError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io.chunks import open_chunks

from .test_chunks import X, save_hdf5, save_zarr

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")
google_crc32c = pytest.importorskip("google_crc32c")
zarr_numcodecs = pytest.importorskip("zarr.codecs.numcodecs")


# --- HDF5 -------------------------------------------------------------------------------------------------------------


def test_what_hdf5_files_may_not_hold(tmp_path):
    path = save_hdf5(tmp_path / "x.h5", one=X, two=X)
    with pytest.raises(UnsupportedError, match=r"x\.h5: holds 'one', 'two'; name the dataset"):
        open_chunks(path)
    with pytest.raises(UnreadableError, match=r"has no dataset 'three'; it holds 'one', 'two'"):
        open_chunks(path, dataset="three")
    with open_chunks(path, dataset="/two") as rows:
        assert rows.n_samples == 23
    with h5py.File(path, "a") as file:
        file["alias"] = h5py.SoftLink("/two")
    with open_chunks(path, dataset="alias") as rows:
        assert rows.n_samples == 23
    with h5py.File(path, "w") as file:
        file["text"] = ["a", "b"]
        file["line"] = X[0]
    with pytest.raises(UnreadableError, match="holds no rows of numbers"):
        open_chunks(path)
    with pytest.raises(UnsupportedError, match="not numbers"):
        open_chunks(path, dataset="text")

    other = save_hdf5(tmp_path / "other.h5", x=X)
    (tmp_path / "secret").write_bytes(bytes(8 * 6))
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource(str(other), "x", X.shape)
    with h5py.File(path, "w") as file:
        file["link"] = h5py.ExternalLink(str(other), "/x")
        file["group/link"] = h5py.ExternalLink(str(other), "/")
        file["alias"] = h5py.SoftLink("/group/link")
        file["group/near"] = h5py.SoftLink("link")
        file["round"] = h5py.SoftLink("/round")
        file.create_dataset("outside", (3, 2), "f8", external=[(str(tmp_path / "secret"), 0, 48)])
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("wide", (3, 2**40), "f8", chunks=(1, 2**10))
        file.create_dataset("thick", (2**20, 2**10), "f8", chunks=(2**18, 2**10))
    for name, sentence in (
        ("link", "'link' is a link to another file"),
        ("group/link/x", "'group/link' is a link to another file"),
        ("alias/x", "'group/link' is a link to another file"),
        ("group/near/x", "'group/link' is a link to another file"),
        ("round", "'round' leads through more than 10 links"),
        ("outside", "the data of 'outside' lie in other files"),
        ("virtual", "the data of 'virtual' lie in other files"),
    ):
        with pytest.raises(UnsupportedError, match=sentence):
            open_chunks(path, dataset=name)
    for name in ("wide", "thick"):
        with pytest.raises(TooLargeError, match="bytes, more than"):
            open_chunks(path, dataset=name)

    content = save_hdf5(path, x=np.random.default_rng(0).random((500, 50))).read_bytes()
    for damaged in (content[:300], b"\x89HDF\r\n\x1a\n" + bytes(100), b"text" * 100, content[: len(content) * 3 // 4]):
        path.write_bytes(damaged)
        with pytest.raises(UnreadableError, match=r"x\.h5: cannot be read"), open_chunks(path) as rows:
            list(rows.chunks(10))
    path.write_bytes(content[:3000] + bytes(2000) + content[5000:])
    with pytest.raises(UnreadableError), open_chunks(path) as rows:
        list(rows.chunks(10))


@pytest.mark.parametrize("size", [1, 10**6])
def test_an_hdf5_index_of_chunks_that_are_not_there_is_refused(tmp_path, size):
    """HDF5 ends the process where a chunk is smaller than its checksum."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        chunk = file.create_dataset("x", data=X, chunks=(2, X.shape[1]), compression="gzip", fletcher32=True).id
        key = struct.pack("<IIQQQ", chunk.get_chunk_info(0).size, 0, 0, 0, 0)
    with open_chunks(path) as rows:
        np.testing.assert_array_equal(np.vstack(list(rows.chunks(2))), X)
    data = path.read_bytes()
    assert data.count(key) == 1
    path.write_bytes(data.replace(key, struct.pack("<I", size) + key[4:]))
    with pytest.raises(UnreadableError, match="its index of chunks is wrong"):
        open_chunks(path)


def nested(path, levels):
    """Write a file of groups within each other; the innermost holds a dataset."""
    with h5py.File(path, "w") as file:
        group = file
        for _ in range(levels):
            group = group.create_group("g")
        group["x"] = X
    return path


def test_nested_hdf5_groups_take_no_time(tmp_path):
    """1600 levels took 17 s."""
    begin = time.process_time()
    for levels in (40, 1600):
        with pytest.raises(UnsupportedError, match="more than 32 groups within each other; name the dataset"):
            open_chunks(nested(tmp_path / f"{levels}.h5", levels))
        with pytest.raises(UnsupportedError, match="lies in more than 32 groups"):
            open_chunks(tmp_path / f"{levels}.h5", dataset="g/" * levels + "x")
    assert time.process_time() - begin < 5
    with open_chunks(nested(tmp_path / "few.h5", 30)) as rows:
        assert rows.n_samples == 23
    with h5py.File(tmp_path / "round.h5", "w") as file:
        file.create_group("a/b")
        file["a/b/a"] = file["a"]
        file["a/b/x"] = X
        file["far"] = h5py.SoftLink("/a/b/" * 10_000)
    with open_chunks(tmp_path / "round.h5") as rows:
        assert rows.n_samples == 23
    with pytest.raises(UnsupportedError, match="lies in more than 32 groups"):
        open_chunks(tmp_path / "round.h5", dataset="far")


def test_many_hdf5_objects_are_not_looked_at(tmp_path, monkeypatch):
    path = save_hdf5(tmp_path / "x.h5", **{name: X for name in "abcdef"})
    monkeypatch.setattr("visionnmf.io.chunks.hdf5.OBJECTS", 5)
    with pytest.raises(UnsupportedError, match="has more than 5 groups and datasets"):
        open_chunks(path)
    assert open_chunks(path, dataset="b").n_samples == 23


def test_hdf5_chunks_are_bounded_by_their_declared_size(tmp_path, monkeypatch):
    """HDF5 unpacked a gigabyte from each megabyte."""
    monkeypatch.setattr("visionnmf.io.chunks.hdf5.SMALL", 25 << 20)
    bomb = zlib.compress(bytes(40 << 20), 9)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        x = file.create_dataset("x", (20, 10), "f8", chunks=(5, 10), compression="gzip", shuffle=True)
        x[:] = 1
        x.id.write_direct_chunk((5, 0), bomb)
        y = file.create_dataset("y", (2, 40 << 20 >> 5), "f8", chunks=(1, 40 << 20 >> 5), compression="gzip")
        y.id.write_direct_chunk((0, 0), zlib.compress(bytes(40 << 20 >> 2), 1))
    with open_chunks(tmp_path / "x.h5", dataset="x") as rows:
        np.testing.assert_array_equal(rows.at(0, 5), np.ones((5, 10)))
        with pytest.raises(UnreadableError, match="a chunk unpacks to more than its declared size"):
            rows.at(3, 6)
    with open_chunks(tmp_path / "x.h5", dataset="y") as rows:
        assert not rows.at(0, 1).any()


def test_lzf_chunks_are_bounded_by_their_declared_size(tmp_path, monkeypatch, rng):
    """h5py unpacked 88 bytes from each byte, and began again each time that its memory was too small."""
    monkeypatch.setattr("visionnmf.io.chunks.hdf5.SMALL", 1 << 20)
    parts = rng.integers(0, 99, 1000, np.uint8), np.zeros(1 << 21, np.uint8), np.tile(np.arange(7, dtype=np.uint8), 999)
    data = np.concatenate(parts)[None]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        y = file.create_dataset("y", data=data, chunks=data.shape, compression="lzf")
        x = file.create_dataset("x", (2, data.size - 8), "u1", chunks=(1, data.size - 8), compression="lzf")
        x.id.write_direct_chunk((0, 0), y.id.read_direct_chunk((0, 0))[1])
    with open_chunks(tmp_path / "x.h5", dataset="y") as rows:
        np.testing.assert_array_equal(rows.at(0, 1), data)
    with (
        open_chunks(tmp_path / "x.h5", dataset="x") as rows,
        pytest.raises(UnreadableError, match="a chunk unpacks to more than its declared size"),
    ):
        rows.at(0, 1)


@pytest.mark.parametrize("compression", ["gzip", "lzf", "szip", None])
def test_filters_of_hdf5_stay_readable(tmp_path, compression):
    numbers = np.arange(920).reshape(23, 40)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        try:
            file.create_dataset(
                "x", data=numbers, chunks=(4, 30), compression=compression, shuffle=True, fletcher32=True
            )
        except ValueError:
            pytest.skip(f"h5py was built without {compression}")
        file.create_dataset("y", data=numbers, chunks=(4, 30), scaleoffset=0)
    for name in "xy":
        with open_chunks(tmp_path / "x.h5", dataset=name) as rows:
            np.testing.assert_array_equal(np.concatenate(list(rows.chunks(7))), numbers)


# --- Zarr -------------------------------------------------------------------------------------------------------------

COMPRESSORS = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "zstd": lambda data: numcodecs.Zstd().encode(data),
    "blosc": lambda data: numcodecs.Blosc().encode(data),
    "lz4": lambda data: numcodecs.LZ4().encode(data),
}
BOMB = 16 << 20


def zarr_of(path, name, version):
    if version == 2:
        codec = numcodecs.get_codec({"id": name})
    else:
        known = {"gzip": zarr.codecs.GzipCodec, "zstd": zarr.codecs.ZstdCodec, "blosc": zarr.codecs.BloscCodec}
        codec = known[name]() if name in known else getattr(zarr_numcodecs, {"zlib": "Zlib"}.get(name, name.upper()))()
    zarr.create_array(
        store=str(path), shape=X.shape, chunks=(4, 3), dtype=X.dtype, zarr_format=version, compressors=[codec]
    )[:] = X
    return path


def chunk_of(path):
    return path / ("c/1/0" if (path / "zarr.json").exists() else "1.0")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3 specification")
def test_zarr_chunks_are_bounded_by_their_declared_size(tmp_path, name, version):
    path = zarr_of(tmp_path / "x.zarr", name, version)
    with open_chunks(path) as rows:
        np.testing.assert_array_equal(rows.at(0, 23), X)
    chunk_of(path).write_bytes(COMPRESSORS[name](bytes(BOMB)))
    tracemalloc.start()
    with pytest.raises(UnreadableError, match="unpacks to more than"):
        open_chunks(path).at(0, 23)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < BOMB / 2
    for damaged in (b"", b"x", chunk_of(path).read_bytes()[:30]):
        chunk_of(path).write_bytes(damaged)
        with pytest.raises(UnreadableError):
            open_chunks(path).at(0, 23)


def frame(*blocks):
    """Return a Zstandard frame that does not say its size, of blocks (kind, length, content)."""
    headers = [(length << 3 | kind << 1 | (i == len(blocks) - 1)) for i, (kind, length, _) in enumerate(blocks)]
    content = b"".join(h.to_bytes(3, "little") + c for h, (_, _, c) in zip(headers, blocks, strict=True))
    return b"\x28\xb5\x2f\xfd\x00\x58" + content


def test_zstandard_without_a_size_is_bounded_too(tmp_path):
    path = zarr_of(tmp_path / "x.zarr", "zstd", 3)
    raw = np.ascontiguousarray(X[4:8, :3]).tobytes()
    for good in (frame((0, 96, raw)), frame((0, 50, raw[:50]), (0, 46, raw[50:]))):
        chunk_of(path).write_bytes(good)
        np.testing.assert_array_equal(open_chunks(path).at(0, 23), X)
    chunk_of(path).write_bytes(frame(*[(1, 1 << 17, b"\0")] * 500))
    with pytest.raises(UnreadableError, match="unpacks to more than"):
        open_chunks(path).at(0, 23)
    chunk_of(path).write_bytes(frame((0, 96, raw)) + frame((0, 96, raw)))
    with pytest.raises(UnreadableError, match="a chunk is cut off or damaged"):
        open_chunks(path).at(0, 23)


def save_shards(path, **options):
    zarr.create_array(store=str(path), shape=X.shape, shards=(8, 6), chunks=(4, 3), dtype=X.dtype, **options)[:] = X
    return path


def test_shards_of_zarr(tmp_path):
    path = save_shards(tmp_path / "x.zarr")
    with open_chunks(path) as rows:
        for size in (1, 8, 23):
            np.testing.assert_array_equal(np.concatenate(list(rows.chunks(size))), X)
        assert rows.take(np.array([9, 2])).shape == (2, 5)
    shard = path / "c/0/0"
    content = shard.read_bytes()
    bomb = gzip.compress(bytes(BOMB))
    about = json.loads((path / "zarr.json").read_text())
    about["codecs"][0]["configuration"]["codecs"][-1] = {"name": "gzip", "configuration": {"level": 5}}
    (path / "zarr.json").write_text(json.dumps(about))
    index = struct.pack("<2Q", 0, len(bomb)) * 4
    shard.write_bytes(bomb + index + google_crc32c.value(index).to_bytes(4, "little"))
    for stop in (1, 8):
        with pytest.raises(UnreadableError, match="unpacks to more than"):
            open_chunks(path).at(0, stop)
    far = struct.pack("<2Q", 0, 1 << 40) * 4
    shard.write_bytes(content + far + google_crc32c.value(far).to_bytes(4, "little"))
    with pytest.raises(UnreadableError, match="cut off or damaged"):
        open_chunks(path).at(0, 1)
    about["chunk_grid"]["configuration"]["chunk_shape"] = [1 << 24, 6]
    (path / "zarr.json").write_text(json.dumps(about))
    with pytest.raises(TooLargeError, match="shards of more than"):
        open_chunks(path)


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_reads_regular_files_in_the_folder_only(tmp_path, version):
    """A link was followed, a device read until the memory was full, and a pipe waited for."""
    path = save_zarr(tmp_path / "x.zarr", version)
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(96))
    chunk, metadata = chunk_of(path), path / ("zarr.json" if version == 3 else ".zarray")
    content = chunk.read_bytes()
    for replace in (
        lambda file: file.symlink_to(secret),
        lambda file: file.symlink_to("/dev/zero"),
        lambda file: file.symlink_to("nothing"),
        os.mkfifo,
    ):
        for file, content in ((chunk, chunk.read_bytes()), (metadata, metadata.read_bytes())):
            file.unlink()
            replace(file)
            with pytest.raises(UnsupportedError, match="is a link, a device or a pipe; only regular files are read"):
                open_chunks(path).at(0, 23)
            file.unlink()
            file.write_bytes(content)
    if version == 3:
        (path / "c").rename(tmp_path / "c")
        (path / "c").symlink_to(tmp_path / "c")
        with pytest.raises(UnsupportedError, match="is a link, a device or a pipe"):
            open_chunks(path).at(0, 23)
        (path / "c").unlink()
        np.testing.assert_array_equal(open_chunks(path).at(0, 23), np.zeros_like(X))
    (tmp_path / "link.zarr").symlink_to(path)  # chosen by the user
    assert open_chunks(tmp_path / "link.zarr").n_samples == 23
    metadata.write_text(metadata.read_text() + " " * (5 << 20))
    with pytest.raises(TooLargeError, match="has more than 4 MiB"):
        open_chunks(path)


@pytest.mark.parametrize("version", [2, 3])
def test_the_chunks_of_zarr_must_be_few_and_not_empty(tmp_path, version):
    path = save_zarr(tmp_path / "x.zarr", version)
    metadata = path / ("zarr.json" if version == 3 else ".zarray")
    for shape, chunks, sentence in (
        ([23, 5], [0, 0], "cannot be read"),
        ([64, 1 << 20], [1, 1], "a sample lies in 1048576 chunks, more than 10000; store it in larger ones"),
    ):
        about = json.loads(metadata.read_text()) | {"shape": shape, "chunks": chunks}
        if version == 3:
            del about["chunks"]
            about["chunk_grid"]["configuration"]["chunk_shape"] = chunks
        metadata.write_text(json.dumps(about))
        with pytest.raises(MediaError, match=sentence):
            open_chunks(path)
    if version == 2:
        about |= {"shape": [23, 5], "chunks": [4, 3], "filters": [{"id": "astype", "encode_dtype": "<f8"}]}
        about["filters"][0]["decode_dtype"] = "|S1000000"
        metadata.write_text(json.dumps(about))
        with pytest.raises(UnreadableError, match="turns numbers into something else"):
            open_chunks(path)


def test_many_chunks_are_read_a_few_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("visionnmf.io.chunks.base.CHUNKS_OF_A_ROW", 5)
    with open_chunks(save_zarr(tmp_path / "x.zarr", 3)) as rows:
        np.testing.assert_array_equal(rows.at(1, 22), X[1:22])


@pytest.mark.slow
def test_a_bad_chunk_among_many_is_reported_once(tmp_path):
    """zarr goes on with the other chunks of a row, and used to leave a traceback of each at the end of the process."""
    path = tmp_path / "x.zarr"
    zarr.create_array(store=str(path), shape=(4, 3000), chunks=(1, 1), dtype=np.float64, compressors=None)
    for folder in range(4):
        (path / "c" / str(folder)).mkdir(parents=True)
        (path / "c" / str(folder) / "0").write_bytes(b"short")
    code = (
        "import sys\nfrom visionnmf.exceptions import MediaError\nfrom visionnmf.io.chunks import open_chunks\n"
        "try:\n    list(open_chunks(sys.argv[1]).chunks(4))\n"
        "except MediaError as error:\n    print(error, file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert found.stderr.count("\n") == 1 and "cannot be read" in found.stderr, found.stderr


def test_groups_of_zarr(tmp_path):
    group = zarr.open_group(str(tmp_path / "group.zarr"), mode="w")
    group.create_array("below/x", shape=X.shape, dtype=X.dtype, chunks=(4, 5))[:] = X
    group.create_array("line", shape=(5,), dtype=X.dtype, chunks=(5,))
    with pytest.raises(UnreadableError, match="holds no rows of numbers"):
        open_chunks(tmp_path / "group.zarr")
    assert open_chunks(tmp_path / "group.zarr", dataset="below/x").n_samples == 23
    (tmp_path / "group.zarr" / "linked").symlink_to(tmp_path / "group.zarr" / "below")
    with pytest.raises(UnsupportedError, match="is a link, a device or a pipe"):
        open_chunks(tmp_path / "group.zarr", dataset="linked/x")
    with pytest.raises(MediaError):
        open_chunks(tmp_path / "group.zarr", dataset="../group.zarr/below/x")


def test_what_zarr_folders_may_not_hold(tmp_path):
    path = save_zarr(tmp_path / "x.zarr", 2)
    about = json.loads((path / ".zarray").read_text())
    for change in (
        {"filters": [{"id": "pickle"}]},
        {"filters": [{"id": "delta", "dtype": "<f8"}, {"id": "pickle"}]},
        {"compressor": {"id": "pickle", "protocol": 5}},
        {"dtype": "|O", "filters": [{"id": "pickle"}]},
        {"compressor": {"id": "unknown"}},
        {"compressor": {"id": "lzma"}},
        {"chunks": [2**20, 2**10], "shape": [2**20, 2**10]},
        {"shape": [3, 2**40]},
        {"shape": "many"},
    ):
        (path / ".zarray").write_text(json.dumps(about | change))
        with pytest.raises(MediaError):
            open_chunks(path)
    (path / ".zarray").write_text(json.dumps(about))
    (path / "1.0").write_bytes(b"damaged")
    with pytest.raises(UnreadableError, match=r"x\.zarr: cannot be read"):
        list(open_chunks(path).chunks(4))
    with pytest.raises(UnreadableError, match="cannot be read"):
        open_chunks(tmp_path / "absent.zarr")
    group = zarr.open_group(str(tmp_path / "group.zarr"), mode="w")
    for name in ("a", "b"):
        group.create_array(name, shape=X.shape, dtype=X.dtype, chunks=(4, 5))[:] = X
    with pytest.raises(UnsupportedError, match="holds 'a', 'b'; name the dataset"):
        open_chunks(tmp_path / "group.zarr")
    with pytest.raises(UnreadableError, match="has no array 'c'; it holds 'a', 'b'"):
        open_chunks(tmp_path / "group.zarr", dataset="c")
    assert open_chunks(tmp_path / "group.zarr", dataset="b").n_samples == 23
