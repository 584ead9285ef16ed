"""The cost of whole processes: `segment` of one photograph, scikit-image, and a path that does not exist.

    python benchmarks/startup.py [--quick]

Prints processor seconds (user and system) as the median of runs that take turns. The first run of each is not counted,
because it compiles and fills the cache of files.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _main import main

from visionnmf.io.images import _samples

REPEATS = 9
PEER = """
import sys
import numpy as np
from PIL import Image
from skimage.graph import cut_normalized, rag_mean_color
from skimage.segmentation import mark_boundaries, slic
image = np.asarray(Image.open(sys.argv[1]).convert("RGB"))
labels = slic(image, n_segments=200, compactness=10, start_label=1)
found = cut_normalized(labels, rag_mean_color(image, labels, mode="similarity"), rng=0)
Image.fromarray(found.astype(np.uint16)).save(sys.argv[2] + "/labels.png")
Image.fromarray((255 * mark_boundaries(image, found)).astype(np.uint8)).save(sys.argv[2] + "/overlay.png")
"""


def seconds(command: list[str], code: int = 0) -> float:
    """Return the processor seconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == code, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table() -> None:
    """Print a row for each process."""
    ours = [sys.executable, "-m", "visionnmf.apps.cli"]
    photograph = str(_samples()["coffee"])
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "visionnmf segment": ([*ours, "segment", photograph, "--out", folder, "--force"], 0),
            "SLIC and normalised cut": ([sys.executable, "-c", PEER, photograph, folder], 0),
            "background nothere.mp4": ([*ours, "background", str(Path(folder) / "nothere.mp4")], 2),
        }
        found: dict[str, list[float]] = {name: [] for name in commands}
        for run in range(REPEATS + 1):
            for name, (command, code) in commands.items():
                taken = seconds(command, code)
                if run:
                    found[name].append(taken)
    print("\n| process | processor seconds, median (range) |\n| --- | --- |")
    for name, values in found.items():
        print(f"| {name} | {statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f}) |")
    ratio = statistics.median(found["visionnmf segment"]) / statistics.median(found["SLIC and normalised cut"])
    print(f"\nsegment takes {ratio:.2f} times SLIC and normalised cut")


PARTS = {"table": table}
QUICK = {"REPEATS": 1}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK)
