"""``python -m tests.attack --minutes 20``: attack, and print what did not hold; exit code 1 if anything did not."""

import argparse
import multiprocessing.pool
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from . import kills, originals
from .corpus import Chain, Corpus
from .worker import Worker

# Share of the time that each kind gets.
SHARES = {
    "pictures": 0.14,
    "videos": 0.1,
    "models": 0.24,
    "matrices": 0.19,
    "sparse": 0.03,
    "logs": 0.06,
    "keywords": 0.05,
    "kills": 0.19,
}
FOUND = Path("out/attack")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=None, help="a fresh one where none is given")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kinds", default=",".join(SHARES), help="some of them, which share the time")
    parser.add_argument("--case", default=None, metavar="KIND:SEED:NUMBER.NUMBER", help="one case again")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory() as folder:
        files = _originals(Path(folder))
        if options.case is not None:
            return _again(*options.case.split(":"), files, Path(folder))
        print(f"seed {seed}", flush=True)
        begin = time.monotonic()
        done: Counter[str] = Counter()
        failures: list[str] = []
        kinds = options.kinds.split(",")
        workers = [Worker() for _ in range(options.jobs)]
        for kind in kinds:
            seconds = 60 * options.minutes * SHARES[kind] / sum(SHARES[each] for each in kinds)
            with multiprocessing.pool.ThreadPool(options.jobs) as pool:
                jobs = [
                    (worker, kind, seed + job, seconds, files.get(kind, {}), Path(folder) / f"{kind}{job}")
                    for job, worker in enumerate(workers)
                ]
                kept = ""
                for count, found, said in pool.starmap(_attack, jobs):
                    done[kind] += count
                    failures += found
                    kept = said
            print(f"{kind}: {done[kind]} cases, {time.monotonic() - begin:.0f} s{kept}", flush=True)
        for worker in workers:
            worker.stop()
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
        "keywords": originals.keywords(folder),
    }


def _attack(
    worker: Worker, kind: str, seed: int, seconds: float, files: dict[str, bytes], folder: Path
) -> tuple[int, list[str], str]:
    """Run cases of one kind, each in a process that is made anew when it dies."""
    folder.mkdir(exist_ok=True)
    if kind == "kills":
        count, found = kills.attack(seed, seconds, folder)
        return count, found, ""
    end, number, failures = time.monotonic() + seconds, 0, []
    corpus = Corpus(kind, seed, files)
    for name, data in corpus.files.items():  # what sound files reach is nothing new
        (folder / name).write_bytes(data)
        corpus.learn((), worker.read(kind, seed, 0, folder / name).traits)
        (folder / name).unlink()
    while time.monotonic() < end:
        chain = corpus.next(number) if corpus.files else (number,)
        failures += _case(worker, corpus, chain, folder)
        number += 1
    return number, failures, f", {len(corpus.kept)} kept for {len(corpus.reached)} lines and sentences"


def _case(worker: Worker, corpus: Corpus, chain: Chain, folder: Path) -> list[str]:
    """Read a case; return what was wrong."""
    path = corpus.write(chain, folder) if corpus.files else None
    seen = worker.read(corpus.kind, corpus.seed, chain[-1], path)
    corpus.learn(chain, seen.traits, path.stat().st_size if path else 0)
    failures, case = [], f"{corpus.kind}:{corpus.seed}:{'.'.join(map(str, chain))}"
    if seen.complaint:
        failures.append(f"{case} {path.name if path else ''}: {seen.complaint}")
        if path:
            FOUND.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, FOUND / f"{case.replace(':', '-')}-{path.name}")
    if path:
        path.unlink(missing_ok=True)
    left = sorted(entry.name for entry in folder.iterdir())
    if left:
        failures.append(f"{case}: left {left}")
        shutil.rmtree(folder)
        folder.mkdir()
    return failures


def _again(kind: str, seed: str, chain: str, files: dict[str, dict[str, bytes]], folder: Path) -> int:
    own = folder / "case"
    own.mkdir()
    worker = Worker()
    corpus = Corpus(kind, int(seed), files.get(kind, {}))
    found = _case(worker, corpus, tuple(map(int, chain.split("."))), own)
    worker.stop()
    return _report(Counter({kind: 1}), found)


if __name__ == "__main__":
    sys.exit(main())
