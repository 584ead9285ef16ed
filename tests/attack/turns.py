"""One process of the attack: all kinds by turns."""

import time
import traceback
from collections import Counter
from pathlib import Path

from .equivalents import Equivalents
from .kills import Kills
from .reading import Reading
from .terminals import Terminals
from .worker import Worker

# Cases that twenty minutes must reach:
# the kind that is furthest behind has the next turn, so that all get there together.
BARS = {
    "pictures": 5000,
    "videos": 1000,
    "models": 5000,
    "matrices": 5000,
    "sparse": 1000,
    "logs": 1000,
    "keywords": 1000,
    "equivalents": 1000,
    "kills": 200,
    "terminals": 40,
}

TURNS = BARS | {"kills": 300}  # commands that run: others meet a full disk, or have ended

Files = dict[str, dict[str, bytes]]


def attack(kinds: list[str], seed: int, seconds: float, files: Files, folder: Path) -> tuple[Counter[str], list[str]]:
    """Attack until the time is over; return how many cases of each kind there were, and what was wrong."""
    try:
        return _attack(kinds, seed, seconds, files, folder)
    except Exception:  # printed at once, because the other jobs are waited for
        traceback.print_exc()
        raise


def _attack(kinds: list[str], seed: int, seconds: float, files: Files, folder: Path) -> tuple[Counter[str], list[str]]:
    """Attack by turns; see :func:`attack`."""
    end = time.monotonic() + seconds
    folder.mkdir()
    worker = Worker()
    attacks: dict[str, Reading | Kills | Terminals | Equivalents] = {}
    for kind in kinds:
        if kind == "kills":
            attacks[kind] = Kills(seed, folder / kind)
        elif kind == "equivalents":
            attacks[kind] = Equivalents(seed, folder / kind)
        elif kind == "terminals":
            attacks[kind] = Terminals(seed, folder / kind, files.get("models", {}))
        else:
            attacks[kind] = Reading(worker, kind, seed, files.get(kind, {}), folder / kind)
    failures: list[str] = []
    while time.monotonic() < end:
        ready = [kind for kind in kinds if attacks[kind].ready()]
        if not ready:
            time.sleep(0.1)
            continue
        behind = min(ready, key=lambda kind: attacks[kind].turns / TURNS[kind])
        for failure in attacks[behind].step():
            print(failure, flush=True)
            failures.append(failure)
    for each in attacks.values():
        each.stop()
    return sum((each.done for each in attacks.values()), Counter()), failures
