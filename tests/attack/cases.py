"""The loop of one process; a module of its own, for processes that are spawned cannot import __main__."""

import time
from collections import Counter
from pathlib import Path

from .equivalents import Equivalents
from .kills import Kills
from .originals import Files
from .reading import Reading
from .terminals import Terminals

# Cases that twenty minutes must reach: the kind that is furthest behind has the next turn.
BARS = {"models": 5000, "pictures": 1000, "videos": 1000, "matrices": 1000, "sparse": 1000, "logs": 1000}
BARS |= {"keywords": 500, "equivalents": 1000, "kills": 60, "terminals": 40}
KINDS = {"equivalents": Equivalents, "kills": Kills, "terminals": Terminals}  # others are files to read


def attack(kinds: list[str], seed: int, numbers: list[int], seconds: float, files: Files, folder: Path):
    """Attack until the time is over, or with the cases of some numbers; return how many, and what was wrong."""
    folder.mkdir()
    attacks = {kind: KINDS.get(kind, Reading)(kind, seed, files, folder / kind) for kind in kinds}
    end, done, failures = time.monotonic() + seconds, Counter(), []
    while numbers or time.monotonic() < end:
        kind = min(kinds, key=lambda kind: done[kind] / BARS[kind])
        number = numbers.pop() if numbers else done[kind]
        if complaint := attacks[kind].step(number):
            failures.append(f"{kind}:{seed}:{number} {complaint}")
            print(failures[-1], flush=True)
        done[kind] += 1
    for each in attacks.values():
        each.stop()
    return done, failures
