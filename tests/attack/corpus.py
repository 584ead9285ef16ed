"""Cases: a sound file and a chain of mutations, each named by a number. What got further than others is kept."""

import random
from pathlib import Path

from .mutations import mutate

Chain = tuple[int, ...]

FROM_KEPT = 0.5  # share of the cases that mutate a kept one
RECENT = 50  # of them half are among so many
LONGEST = 8  # chain
LARGEST_KEPT = 1 << 18  # bytes: mutating on what is large takes time from others


class Corpus:
    """The sound files of one kind, and the chains of mutations of them that reached something new."""

    def __init__(self, kind: str, seed: int, files: dict[str, bytes]) -> None:
        self.kind, self.seed, self.files = kind, seed, files
        self.kept: list[Chain] = []
        self.bytes: dict[Chain, tuple[str, bytes]] = {}  # of the kept, so that a chain is not made from its beginning
        self.reached: set[str] = set()

    def next(self, number: int) -> Chain:
        """Return the chain of a new case: one mutation of a sound file or of a kept case."""
        dice = random.Random(f"{self.kind}:{self.seed}:{number}:parent")
        if not self.kept or dice.random() > FROM_KEPT:
            return (number,)
        return (*dice.choice(self.kept[-RECENT:] if dice.random() < 0.5 else self.kept), number)

    def make(self, chain: Chain) -> tuple[str, bytes]:
        """Return name and bytes of a case; they follow from kind, seed and chain alone."""
        name, data = self.bytes.get(chain[:-1], ("", b""))
        for number in chain[-1:] if name else chain:
            dice = random.Random(f"{self.kind}:{self.seed}:{number}")
            if not name:
                name = dice.choice(sorted(self.files))
                data = self.files[name]
            data = mutate(data, name, list(self.files.values()), dice) or b"\0"
        return name, data

    def write(self, chain: Chain, folder: Path) -> Path:
        """Write a case into a folder."""
        name, data = self.make(chain)
        path = folder / (name if self.kind != "pictures" else f"case.{name.rsplit('.', 1)[1]}")
        path.write_bytes(data)
        return path

    def learn(self, chain: Chain, traits: set[str], path: Path | None = None) -> None:
        """Keep a case that was told a sentence that no case before was."""
        if not traits <= self.reached:
            self.reached |= traits
            if chain and len(chain) < LONGEST and path is not None and path.stat().st_size <= LARGEST_KEPT:
                self.kept.append(chain)
                self.bytes[chain] = self.make(chain)
