"""Mutated files of one kind, read one after the other by a worker."""

import shutil
from collections import Counter
from pathlib import Path

from .corpus import Chain, Corpus
from .worker import Worker

FOUND = Path("out/attack")


class Reading:
    """Cases of one kind; `step` reads the next and returns what was wrong."""

    def __init__(self, worker: Worker, kind: str, seed: int, files: dict[str, bytes], folder: Path) -> None:
        self.worker, self.kind, self.folder = worker, kind, folder
        self.done: Counter[str] = Counter()
        folder.mkdir()
        self.corpus = Corpus(kind, seed, files)

    @property
    def turns(self) -> int:
        return self.done[self.kind]

    def ready(self) -> bool:
        return True

    def prepare(self) -> None:
        """Read the sound files: what they reach is nothing new."""
        for name, data in self.corpus.files.items():
            (self.folder / name).write_bytes(data)
            self.corpus.learn((), self.worker.read(self.kind, self.corpus.seed, 0, self.folder / name).traits)
            (self.folder / name).unlink()

    def step(self) -> list[str]:
        number = self.done[self.kind]
        if not number:
            self.prepare()
        self.done[self.kind] += 1
        return self.read(self.corpus.next(number) if self.corpus.files else (number,))

    def read(self, chain: Chain) -> list[str]:
        """Read a case; return what was wrong."""
        path = self.corpus.write(chain, self.folder) if self.corpus.files else None
        seen = self.worker.read(self.kind, self.corpus.seed, chain[-1], path)
        self.corpus.learn(chain, seen.traits, path)
        failures, case = [], f"{self.kind}:{self.corpus.seed}:{'.'.join(map(str, chain))}"
        if seen.complaint:
            failures.append(f"{case} {path.name if path else ''}: {seen.complaint}")
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
