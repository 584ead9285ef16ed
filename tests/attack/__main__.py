"""``python -m tests.attack --minutes 20``: attack, and print what did not hold; exit code 1 if anything did not."""

import argparse
import multiprocessing as mp
import random
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from . import originals
from .equivalents import Equivalents
from .reading import Reading
from .terminals import Terminals
from .turns import BARS, Files, attack
from .worker import Worker


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=None, help="a fresh one where none is given")
    parser.add_argument("--jobs", type=int, default=2, help="each a seed further")
    parser.add_argument("--kinds", default=",".join(BARS), help="some of them, which share the time")
    parser.add_argument("--case", default=None, metavar="KIND:SEED:NUMBER", help="one case again")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory() as folder:
        files = _originals(Path(folder))
        if options.case is not None:
            return _again(*options.case.split(":"), files, Path(folder))
        print(f"seed {seed}", flush=True)
        done: Counter[str] = Counter()
        failures: list[str] = []
        with ProcessPoolExecutor(options.jobs, mp_context=mp.get_context("spawn")) as pool:
            kinds, seconds = options.kinds.split(","), 60 * options.minutes
            jobs = [
                pool.submit(attack, kinds, seed + job, seconds, files, Path(folder) / f"job{job}")
                for job in range(options.jobs)
            ]
            for each in as_completed(jobs):  # a fault of the attack itself ends it at once
                count, found = each.result()
                done += count
                failures += found
        return _report(done, failures)


def _report(done: Counter[str], failures: list[str]) -> int:
    for failure in failures:
        print(failure)
    print(", ".join(f"{count} {kind}" for kind, count in done.items()))
    print(f"{sum(done.values())} cases, {len(failures)} failures")
    return 1 if failures else 0


def _originals(folder: Path) -> Files:
    return {
        "pictures": originals.pictures(),
        "videos": originals.videos(folder),
        "models": originals.models(folder),
        "matrices": originals.matrices(),
        "logs": originals.logs(),
        "keywords": originals.keywords(folder),
    }


def _again(kind: str, seed: str, number: str, files: Files, folder: Path) -> int:
    place = folder / "case"
    if kind in ("equivalents", "terminals"):
        other = Equivalents(int(seed), place) if kind == "equivalents" else Terminals(int(seed), place, files["models"])
        found = other.case(int(number))
    else:
        reading = Reading(Worker(), kind, int(seed), files.get(kind, {}), place)
        found = reading.read(int(number))
        reading.stop()
    return _report(Counter({kind: 1}), found)


if __name__ == "__main__":
    sys.exit(main())
