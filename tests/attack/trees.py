"""Cases that are made, not mutated: caches that were built to do harm."""

import os
import sqlite3
import tempfile
from pathlib import Path
from random import Random

import numpy as np

from visionnmf.exceptions import VisionNMFError
from visionnmf.io import ArrayCache

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def _spoil(file: Path, dice: Random) -> None:
    data = bytearray(file.read_bytes())
    for _ in range(dice.randint(1, 4)):
        if data:
            data[dice.randrange(len(data))] = dice.choice((0, 1, 127, 255, dice.randrange(256)))
    file.write_bytes(data[: dice.randrange(len(data) + 1)] if dice.random() < 0.3 else data)


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


MAKERS = {"caches": caches}
