"""``python -m tests.attack --minutes 20``: attack, and print what did not hold; exit code 1 if anything did not."""

import argparse
import multiprocessing as mp
import random
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from .cases import BARS, attack
from .originals import originals


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--jobs", type=int, default=2, help="each a seed further")
    parser.add_argument("--kinds", default=",".join(BARS), help="some of them, which share the time")
    parser.add_argument("--case", metavar="KIND:SEED:NUMBER", help="one case again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs = [(options.kinds.split(","), options.seed + job, [], 60 * options.minutes) for job in range(options.jobs)]
        if options.case:
            kind, seed, number = options.case.split(":")
            jobs = [([kind], int(seed), [int(number)], 0)]
        print(f"seed {jobs[0][1]}", flush=True)
        files, spawn = originals(folder), mp.get_context("spawn")
        with ProcessPoolExecutor(len(jobs), mp_context=spawn) as pool:
            running = [pool.submit(attack, *job, files, folder / f"job{i}") for i, job in enumerate(jobs)]
            found = [job.result() for job in running]
    done, failures = sum((done for done, _ in found), Counter()), [each for _, some in found for each in some]
    print(", ".join(f"{count} {kind}" for kind, count in done.items()))
    print(f"{done.total()} cases, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
