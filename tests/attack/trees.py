"""Cases that are made, not mutated: Zarr folders, HDF5 files and caches that were built to do harm."""

import bz2
import gzip
import json
import lzma
import os
import shutil
import sqlite3
import tempfile
import warnings
import zlib
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numcodecs
import numpy as np
import zarr

from visionnmf.exceptions import VisionNMFError
from visionnmf.io import ArrayCache
from visionnmf.io.chunks import open_chunks

X = np.random.default_rng(0).random((20, 12)).round(2)
READ = 5  # chunks of a case
PACKERS = {
    "gzip": lambda data: gzip.compress(data, 1),
    "zlib": lambda data: zlib.compress(data, 1),
    "bz2": lambda data: bz2.compress(data, 1),
    "lzma": lambda data: lzma.compress(data, preset=0),
    "zstd": numcodecs.Zstd().encode,
    "blosc": numcodecs.Blosc().encode,
    "lz4": numcodecs.LZ4().encode,
}
BOMBS = {name: bytes(pack(bytes(64 << 20))) for name, pack in PACKERS.items()}
BOMB = zlib.compress(bytes(1 << 30), 9)
VALUES: tuple[Any, ...] = (
    0, -1, 1, 3, 1 << 20, 1 << 40, 1 << 63, 1e300, None, True, "", "x" * 5000, "\x1b[2J\n", [], {}, [0, 0], [1, 1],
    [-1, 4], [1 << 20, 1 << 20], [64, 1 << 20], [1 << 40], [[[[]]]], "<f8", "|O", "|S99999999", "<M8[s]", "float16",
    "bytes", "gzip", "zstd", "blosc", "crc32c", "transpose", "sharding_indexed", "vlen-utf8", "numcodecs.pickle",
    {"id": "pickle"}, {"id": "zlib"}, {"id": "astype", "encode_dtype": "<f8", "decode_dtype": "|S999999"},
    [{"id": "gzip"}, {"id": "gzip"}], {"id": "vlen-array", "dtype": "<f8"}, {"id": "packbits"}, {"name": "gzip"},
)  # fmt: skip
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def trees(dice: Random) -> int:
    """Read a Zarr folder or an HDF5 file that was made to do harm; return the bytes of its largest chunk."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make = dice.choice((_zarr, _zarr, _hdf5))
        path, dataset = make(Path(folder), dice)
        largest = 0
        with open_chunks(path, dataset=dataset) as rows:
            for number, chunk in enumerate(rows.chunks(dice.choice((1, 7, 256)))):
                largest = max(largest, chunk.nbytes)
                if number == READ:
                    break
        return largest


def _zarr(folder: Path, dice: Random) -> tuple[Path, str | None]:
    path, version = folder / "x.zarr", dice.choice((2, 3))
    options: dict[str, Any] = {"shape": X.shape, "chunks": (5, 4), "dtype": X.dtype, "zarr_format": version}
    if version == 3 and dice.random() < 0.4:
        options["shards"] = (10, 12)
    name = None
    if dice.random() < 0.3:
        name, group = "x", zarr.open_group(str(path), mode="w", zarr_format=version)
        group.create_array(name="x", **{key: value for key, value in options.items() if key != "zarr_format"})[:] = X
    else:
        zarr.create_array(store=str(path), **options)[:] = X
    for _ in range(dice.randint(0, 3)):
        files = sorted(file for file in path.rglob("*") if not file.is_dir() and not file.is_symlink())
        if not files:
            break
        file = dice.choice(files)
        if dice.random() < 0.5:
            metadata = [each for each in files if each.name in ("zarr.json", ".zarray", ".zgroup")]
            file = dice.choice(metadata or files)
        if not file.is_file():
            continue
        if file.suffix == ".json" or file.name.startswith(".z"):
            dice.choice((_change_json, _change_json, _change_json, _replace, _spoil))(file, dice)
        else:
            dice.choice((_replace, _spoil, _bomb))(file, dice)
    return path, dice.choice((None, name))


def _replace(file: Path, dice: Random) -> None:
    """Replace a file, or the folder it lies in, by something that is not a file of this folder."""
    if dice.random() < 0.2 and file.parent.suffix != ".zarr":
        file = file.parent
        shutil.rmtree(file)
    else:
        file.unlink()
    kind = dice.randrange(5)
    if kind == 0:
        os.mkfifo(file)
    elif kind == 1:
        file.mkdir()
    else:
        file.symlink_to(dice.choice(("/dev/zero", "/etc/passwd", file.name, "/dev/stdin", "..")))


def _spoil(file: Path, dice: Random) -> None:
    data = bytearray(file.read_bytes())
    for _ in range(dice.randint(1, 4)):
        if data:
            data[dice.randrange(len(data))] = dice.choice((0, 1, 127, 255, dice.randrange(256)))
    file.write_bytes(data[: dice.randrange(len(data) + 1)] if dice.random() < 0.3 else data)


def _bomb(file: Path, dice: Random) -> None:
    """Replace a chunk by one that unpacks to 64 MiB, and mostly let the metadata name its compressor."""
    name = dice.choice(sorted(BOMBS))
    file.write_bytes(BOMBS[name])
    for metadata in file.parent.parent.rglob("*"):
        if metadata.name == ".zarray" and metadata.is_file():
            _write(metadata, _read(metadata) | {"compressor": {"id": name}})
    above = [folder / "zarr.json" for folder in file.parents if (folder / "zarr.json").is_file()]
    if above:
        about = _read(above[0])
        listed = about.get("codecs")
        codecs = [codec for codec in listed if isinstance(codec, dict)] if isinstance(listed, list) else []
        if codecs and codecs[0].get("name") == "bytes":
            known = name if name in ("gzip", "zstd", "blosc") else f"numcodecs.{name}"
            _write(above[0], about | {"codecs": [codecs[0], {"name": known, "configuration": {}}]})


def _change_json(file: Path, dice: Random) -> None:
    """Replace one value of a JSON file, or add to it."""
    about = _read(file)
    places: list[tuple[Any, Any]] = []

    def collect(item: Any) -> None:
        for key in item if isinstance(item, dict) else range(len(item)):
            places.append((item, key))
            if isinstance(item[key], dict | list):
                collect(item[key])

    if not about:
        return
    collect(about)
    holder, key = dice.choice(places)
    kind = dice.random()
    if kind < 0.8:
        holder[key] = dice.choice(VALUES)
    elif kind < 0.9 and isinstance(holder, list):
        holder.append(holder[key])
    elif isinstance(holder, dict):
        del holder[key]
    _write(file, about)
    if dice.random() < 0.03:
        file.write_bytes(file.read_bytes() + b" " * (5 << 20))
    elif dice.random() < 0.03:
        file.write_bytes(b'{"a":' * 100_000)


def _read(file: Path) -> dict[str, Any]:
    """Return the metadata of a file, nothing where they are damaged."""
    try:
        about = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}


def _write(file: Path, about: Any) -> None:
    file.write_text(json.dumps(about))


def _hdf5(folder: Path, dice: Random) -> tuple[Path, str | None]:
    path = folder / "x.h5"
    with h5py.File(path, "w") as file:
        group: Any = file
        for level in range(dice.choice((0, 0, 1, 5, 40, 2000))):
            group = group.create_group("g")
            if dice.random() < 1 / (level + 3):
                file[f"link{level}"] = group
        for _ in range(dice.choice((0, 0, 0, 3, 500))):
            group.create_group(f"{group.name[-9:].replace('/', '_')}{len(group)}")
        kind = dice.randrange(6)
        options: dict[str, Any] = {"compression": dice.choice(("gzip", "lzf", None)), "shuffle": dice.random() < 0.5}
        if kind == 0:
            shape = dice.choice(((64, 1 << 20), (1 << 40, 3), (3, 1 << 40), (1 << 16, 1 << 16)))
            chunks = (1, min(shape[1], dice.choice((1, 2, 64))))
            group.create_dataset("x", shape, "f8", chunks=chunks)
        elif kind == 1:
            x = group.create_dataset("x", X.shape, "f8", chunks=(5, 4), **options | {"compression": "gzip"})
            x.id.write_direct_chunk((5, 4), dice.choice((BOMB, BOMBS["zlib"], b"x", zlib.compress(bytes(160)))))
        elif kind == 2:
            group.create_dataset("x", X.shape, "f8", external=[("/etc/passwd", 0, X.nbytes)])
        else:
            group.create_dataset("x", data=X, chunks=(5, 4), fletcher32=dice.random() < 0.5, **options)
        file["alias"] = dice.choice((h5py.SoftLink(f"{group.name}/x"), h5py.SoftLink("/alias")))
        if dice.random() < 0.2:
            file["far"] = dice.choice((h5py.SoftLink("/g" * 20_000), h5py.ExternalLink("/etc/passwd", "/")))
        name = dice.choice((None, None, f"{group.name}/x", "alias", "far", "g" * 5000))
    return path, name


def caches(dice: Random) -> int:
    """Use a cache that was made to do harm; return its length."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.sqlite"
        with ArrayCache(path) as cache:
            cache.put({"a": np.ones(9, np.float32), "b": np.ones(900, np.float32)})
        for _ in range(dice.randint(0, 3)):
            statement = dice.choice(
                (
                    f"CREATE TRIGGER t{dice.randrange(9)} BEFORE INSERT ON arrays BEGIN {ENDLESS}; END",
                    f"CREATE VIEW v{dice.randrange(9)} AS {ENDLESS}",
                    "INSERT INTO sqlite_master SELECT * FROM sqlite_master LIMIT 1",
                    "INSERT INTO sqlite_master SELECT * FROM sqlite_master WHERE type = 'index'",
                    "DELETE FROM sqlite_master WHERE type = 'index'",
                    "UPDATE sqlite_master SET rootpage = 1 + rootpage",
                    "UPDATE sqlite_master SET sql = replace(sql, 'data BLOB', 'data AS (randomblob(1e9))')",
                    "UPDATE arrays SET data = zeroblob(20000000)",
                    "UPDATE arrays SET size = 1e12",
                    "UPDATE arrays SET data = size",
                )
            )
            file = sqlite3.connect(path)
            try:
                with file:
                    file.execute("PRAGMA writable_schema = ON")
                    file.execute(statement)
            except sqlite3.Error:
                pass
            finally:
                file.close()
        if dice.random() < 0.5:
            _spoil(path, dice)
        if dice.random() < 0.1:
            os.mkfifo(f"{path}{dice.choice(('-journal', '-wal', '-shm'))}")
        size = path.stat().st_size
        try:
            with ArrayCache(path) as cache:
                cache.get(["a", "b", "c"], 1000)
                cache.put({"c": np.ones(9, np.float32)})
        except VisionNMFError:
            pass
        return size


MAKERS = {"trees": trees, "caches": caches}
