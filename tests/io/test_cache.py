"""The cache of arrays: a file that somebody else made is refused or its entries are not believed, and nothing hangs."""

import os
import sqlite3
import time
import tracemalloc
import zlib

import numpy as np
import pytest

from visionnmf.exceptions import MediaError, UnreadableError
from visionnmf.io import ArrayCache

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
ROW = np.random.default_rng(0).random(5000, np.float32)


@pytest.fixture
def path(tmp_path):
    with ArrayCache(tmp_path / "c.sqlite") as cache:
        cache.put({"a": ROW, "b": ROW[:9]})
    return tmp_path / "c.sqlite"


def change(path, *statements):
    with sqlite3.connect(path) as file:
        for statement in statements:
            file.execute(statement)
    file.close()


def test_arrays_are_kept(path):
    with ArrayCache(path) as first, ArrayCache(path) as second:
        second.put({"c": ROW[:3]})
        found = first.get(["a", "b", "c", "d"], 5000)
        assert sorted(found) == ["a", "b", "c"] and sorted(first.get(["a", "b"], 9)) == ["b"]
        np.testing.assert_array_equal(found["a"], ROW)


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE VIEW arrays AS SELECT 'a' AS key, 1 AS size, zeroblob(900000000) AS data"],
        ["CREATE TABLE arrays (key TEXT PRIMARY KEY, size INTEGER, data BLOB AS (zeroblob(9)))"],
        ["CREATE TABLE photographs (name TEXT)"],
    ],
)
def test_other_tables_are_refused(statements, tmp_path):
    path = tmp_path / "c.sqlite"
    change(path, *statements)
    before = path.read_bytes()
    with pytest.raises(UnreadableError, match="not a cache, or damaged"):
        ArrayCache(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "statements",
    [
        [f"CREATE TRIGGER t BEFORE INSERT ON arrays BEGIN {ENDLESS}; END"],
        [
            "PRAGMA writable_schema = ON",
            "INSERT INTO sqlite_master SELECT * FROM sqlite_master WHERE type = 'index'",
            "INSERT INTO sqlite_master VALUES ('trigger', 't', 'arrays', 0, "
            f"'CREATE TRIGGER t BEFORE INSERT ON arrays BEGIN {ENDLESS}; END')",
        ],
        ["CREATE INDEX i ON arrays (size)"],
    ],
)
def test_triggers_are_refused_wherever_they_stand(statements, path):
    """A trigger behind a doubled row of the schema ran for ever."""
    change(path, *statements)
    with pytest.raises(UnreadableError, match="not a cache, or damaged"):
        ArrayCache(path)


def test_a_query_without_end_is_ended(path, monkeypatch):
    monkeypatch.setattr("visionnmf.io.cache.MOST_SECONDS", 0.2)
    begin = time.process_time()
    with ArrayCache(path) as cache:
        change(path, f"CREATE TRIGGER t BEFORE INSERT ON arrays BEGIN {ENDLESS}; END")  # after it was looked at
        with pytest.raises(MediaError, match=r"the cache cannot be used \(interrupted\)"):
            cache.put({"c": ROW})
        assert list(cache.get(["a"], 5000)) == ["a"]
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    ("size", "data"),
    [
        (4096, zlib.compress(bytes(10_000_000))),
        (4096, b"x"),
        (10**12, b""),
        ("many", zlib.compress(bytes(16))),
        (3, zlib.compress(bytes(8))),
        (-1, zlib.compress(b"")),
        (5000, None),
        (5000, "text"),
    ],
)
def test_entries_that_are_damaged_count_as_missing(path, size, data):
    with sqlite3.connect(path) as file:
        file.execute("UPDATE arrays SET size = ?, data = ? WHERE key = 'a'", (size, data))
    file.close()
    with ArrayCache(path) as cache:
        assert list(cache.get(["a", "b"], 5000)) == ["b"]


def test_long_blobs_are_not_read(path):
    change(path, "UPDATE arrays SET data = zeroblob(200000000) WHERE key = 'a'")
    tracemalloc.start()
    with ArrayCache(path) as cache:
        try:
            found = cache.get(["a", "b"], 5000)
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert list(found) == ["b"] and peak < 10_000_000


def test_what_is_not_a_file_is_refused(tmp_path):
    (tmp_path / "text").write_text("no cache " * 999)
    os.mkfifo(tmp_path / "pipe")
    for name in ("text", "pipe", "."):
        with pytest.raises(UnreadableError, match="not a cache, or damaged"):
            ArrayCache(tmp_path / name)
    os.mkfifo(tmp_path / "c.sqlite-journal")  # which SQLite would open, and wait in a way that no signal ends
    with pytest.raises(UnreadableError, match=r"c\.sqlite-journal: not a cache, or damaged"):
        ArrayCache(tmp_path / "c.sqlite")
    with pytest.raises(MediaError, match="the cache cannot be used"):
        ArrayCache(tmp_path / "no" / "c.sqlite")
    (tmp_path / "empty").touch()  # what a process leaves that is killed as it creates the file
    with ArrayCache(tmp_path / "empty") as cache:
        assert cache.get(["a"], 1) == {}
