"""Mutated files of one kind, read one after the other by a worker."""

import random
import shutil
from collections import Counter
from pathlib import Path

from .mutations import mutate
from .worker import Worker

FOUND = Path("out/attack")


class Reading:
    """Cases of one kind; `step` reads the next and returns what was wrong."""

    def __init__(self, worker: Worker, kind: str, seed: int, files: dict[str, bytes], folder: Path) -> None:
        self.worker, self.kind, self.seed, self.files, self.folder = worker, kind, seed, files, folder
        self.done: Counter[str] = Counter()
        folder.mkdir()

    @property
    def turns(self) -> int:
        return self.done[self.kind]

    def ready(self) -> bool:
        return True

    def step(self) -> list[str]:
        self.done[self.kind] += 1
        return self.read(self.done[self.kind] - 1)

    def make(self, number: int) -> Path:
        """Write a mutated file, which follows from kind, seed and number alone."""
        dice = random.Random(f"{self.kind}:{self.seed}:{number}")
        name = dice.choice(sorted(self.files))
        path = self.folder / (name if self.kind != "pictures" else f"case.{name.rsplit('.', 1)[1]}")
        path.write_bytes(mutate(self.files[name], name, list(self.files.values()), dice) or b"\0")
        return path

    def read(self, number: int) -> list[str]:
        """Read a case; return what was wrong."""
        path = self.make(number) if self.files else None
        complaint = self.worker.read(self.kind, self.seed, number, path)
        failures, case = [], f"{self.kind}:{self.seed}:{number}"
        if complaint:
            failures.append(f"{case} {path.name if path else ''}: {complaint}")
            if path:
                FOUND.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, FOUND / f"{case.replace(':', '-')}-{path.name}")
        if path:
            path.unlink(missing_ok=True)
        left = sorted(entry.name for entry in self.folder.iterdir())
        if left:
            failures.append(f"{case}: left {left}")
            shutil.rmtree(self.folder)
            self.folder.mkdir()
        return failures

    def stop(self) -> None:
        self.worker.stop()
