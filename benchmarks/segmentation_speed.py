"""Seconds and memory of ``visionnmf segment``: whole processes, imports included.

    python benchmarks/segmentation_speed.py

A photograph of 481 x 321 pixels, first with an empty cache of compiled kernels, then with a filled one, and one of 12
megapixels (both made from scikit-image's picture of a cup of coffee).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
from _main import main

from visionnmf.io import read_image, write_image

REPEATS = 5
FRESH = True  # begin with an empty cache of kernels
PHOTOGRAPH, LARGE = (481, 321), (4272, 2848)
COMMAND = "from visionnmf.apps.cli import main; import sys; sys.argv = ['visionnmf', *sys.argv[1:]]; main()"


def whole_process(source: Path, cache: Path, out: Path) -> tuple[float, float, float, float]:
    """Return the process's wall and processor seconds, the seconds of its report, and the peak memory in MB."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    arguments = ["segment", str(source), "--out", str(out), "--json", "--force"]
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    told = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        raise SystemExit(f"visionnmf segment {source} failed with status {status}")
    return seconds, usage.ru_utime + usage.ru_stime, told["images"][0]["seconds"], usage.ru_maxrss / 1024


def table() -> None:
    """Print a row for the first run and for later ones, for each picture."""
    print("\n| picture | run | whole process, s | processor time, s | reading to writing, s | peak memory, MB |")
    print("| --- | --- | --- | --- | --- | --- |")
    coffee = read_image("sample:coffee")
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        noise = np.random.default_rng(0).integers(0, 9, (*LARGE[::-1], 3), dtype=np.uint8)
        pictures = {
            "{} x {}".format(*PHOTOGRAPH): cv2.resize(coffee, PHOTOGRAPH, interpolation=cv2.INTER_AREA),
            "{} x {}".format(*LARGE): cv2.resize(coffee, LARGE, interpolation=cv2.INTER_CUBIC) // 2 + noise,
        }
        for name, picture in pictures.items():
            source = base / f"{name.replace(' ', '')}.png"
            write_image(source, picture)
            cache = base / f"cache {name}" if FRESH else Path(os.environ.get("NUMBA_CACHE_DIR", base))
            first = whole_process(source, cache, base / "out")
            later = [whole_process(source, cache, base / "out") for _ in range(REPEATS)]
            for run, (total, processor, inside, memory) in (
                ("first, compiling", first),
                (f"later, median of {REPEATS}", np.median(later, axis=0)),
                (f"later, slowest of {REPEATS}", np.max(later, axis=0)),
            ):
                print(f"| {name} | {run} | {total:.2f} | {processor:.2f} | {inside:.2f} | {memory:.0f} |")


PARTS = {"table": table}
QUICK = {"REPEATS": 1, "FRESH": False, "PHOTOGRAPH": (48, 32), "LARGE": (96, 64)}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK)
