"""``python -m tests.attack --minutes 20``: attack, and print what did not hold; exit code 1 if anything did not."""

import argparse
import multiprocessing as mp
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from . import kills, originals
from .mutations import mutate
from .worker import Worker

# Share of the time that each kind gets.
SHARES = {"pictures": 0.25, "videos": 0.15, "models": 0.2, "matrices": 0.1, "sparse": 0.05, "logs": 0.05, "kills": 0.2}
FOUND = Path("out/attack")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=None, help="a fresh one where none is given")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--case", default=None, metavar="KIND:SEED:NUMBER", help="one case again")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory() as folder:
        files = _originals(Path(folder))
        if options.case is not None:
            kind, seed, number = options.case.split(":")
            own = Path(folder) / "case"
            return _report(Counter({kind: 1}), _attack(kind, int(seed), 1.0, files, own, first=int(number))[1])
        print(f"seed {seed}", flush=True)
        begin = time.monotonic()
        done: Counter[str] = Counter()
        failures: list[str] = []
        for kind, share in SHARES.items():
            seconds = 60 * options.minutes * share
            with mp.pool.ThreadPool(options.jobs) as pool:
                jobs = [
                    (kind, seed + job, seconds, files, Path(folder) / f"{kind}{job}") for job in range(options.jobs)
                ]
                for count, found in pool.starmap(_attack, jobs):
                    done[kind] += count
                    failures += found
            print(f"{kind}: {done[kind]} cases, {time.monotonic() - begin:.0f} s", flush=True)
        return _report(done, failures)


def _report(done: Counter[str], failures: list[str]) -> int:
    for failure in failures:
        print(failure)
    print(f"{sum(done.values())} cases, {len(failures)} failures")
    return 1 if failures else 0


def _originals(folder: Path) -> dict[str, dict[str, bytes]]:
    return {
        "pictures": originals.pictures(),
        "videos": originals.videos(folder),
        "models": originals.models(folder),
        "matrices": originals.matrices(),
        "logs": originals.logs(),
    }


def _attack(
    kind: str, seed: int, seconds: float, files: dict[str, dict[str, bytes]], folder: Path, first: int | None = None
) -> tuple[int, list[str]]:
    """Run cases of one kind, each in a worker that is made anew when it dies."""
    folder.mkdir(exist_ok=True)
    if kind == "kills":
        return kills.attack(seed, seconds, folder)
    end, number, failures = time.monotonic() + seconds, first or 0, []
    worker = Worker()
    while time.monotonic() < end:
        path = _case(kind, seed, number, files, folder)
        complaint = worker.read(kind, seed, number, path)
        if complaint:
            failures.append(f"{kind}:{seed}:{number} {path.name if path else ''}: {complaint}")
            if path:
                FOUND.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, FOUND / f"{kind}-{seed}-{number}-{path.name}")
        if path:
            path.unlink(missing_ok=True)
        left = sorted(entry.name for entry in folder.iterdir())
        if left:
            failures.append(f"{kind}:{seed}:{number}: left {left}")
            shutil.rmtree(folder)
            folder.mkdir()
        number += 1
        if first is not None:
            break
    worker.stop()
    return number - (first or 0), failures


def _case(kind: str, seed: int, number: int, files: dict[str, dict[str, bytes]], folder: Path) -> Path | None:
    if kind not in files:
        return None
    dice = random.Random(f"{kind}:{seed}:{number}")
    name = dice.choice(sorted(files[kind]))
    path = folder / (name if kind != "pictures" else f"case.{name.rsplit('.', 1)[1]}")
    path.write_bytes(mutate(files[kind][name], name, list(files[kind].values()), dice) or b"\0")
    return path


if __name__ == "__main__":
    sys.exit(main())
