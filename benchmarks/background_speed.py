"""Speed and memory of `visionnmf background` at 320 by 240 in colour, without encoding.

    python benchmarks/background_speed.py            300 and 3000 frames, each in a process of its own
    python benchmarks/background_speed.py table FRAMES...  other lengths
    python benchmarks/background_speed.py subtractors [WIDTH HEIGHT]   processor time beside OpenCV's MOG2 and KNN

A made clip is written to a temporary folder (H.264), then each measured process imports, decodes twice, learns and
separates, as the command does, writing only the background picture. One run before warms the caches of compiled
kernels and files. Frames a second are given for the whole process, imports included, and for the work alone; the
median of three runs. Processor time tells what a busy machine hides.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
from _main import main

from visionnmf.apps.background import BackgroundModel
from visionnmf.datasets import iter_surveillance
from visionnmf.io import VideoWriter

WIDTH, HEIGHT = 320, 240
LENGTHS = [300, 3000]  # frames
MASKED, FITTED, ROUNDS = 150, 1000, 5

CHILD = """
import json, resource, sys
from _machine import peak_memory_mb
from visionnmf.apps.background import OutputSettings, process_video
report = process_video(sys.argv[1], out=sys.argv[2], outputs=OutputSettings(force=True, videos=False))
usage = resource.getrusage(resource.RUSAGE_SELF)
cpu = usage.ru_utime + usage.ru_stime
print(json.dumps({**report.seconds, "frames": report.frames, "peak": peak_memory_mb(), "cpu": cpu}))
"""


def write_clip(path: Path, n_frames: int) -> None:
    with VideoWriter(path, width=WIDTH, height=HEIGHT, frame_rate=25, codec="h264") as writer:
        for frame, _ in iter_surveillance(n_frames, HEIGHT, WIDTH, random_state=0):
            writer.write(frame)


def measure(path: Path, out: Path) -> dict[str, float]:
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(out)],
        cwd=Path(__file__).parent,
        check=True,
        capture_output=True,
        text=True,
    )
    return {**json.loads(done.stdout), "process": time.perf_counter() - start}


def table(*frames: int) -> None:
    """Print a row for each number of frames."""
    lengths = list(frames) or LENGTHS
    print(
        "\n| frames | whole process, s | frames/s | learning, s | masking, s | frames/s of the work | processor, s "
        "| peak memory, MB |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    with tempfile.TemporaryDirectory() as folder:
        for n_frames in lengths:
            clip = Path(folder) / f"made_{n_frames}.mp4"
            write_clip(clip, n_frames)
            runs = [measure(clip, Path(folder)) for _ in range(4)][1:]
            run = sorted(runs, key=lambda run: run["process"])[1]
            print(
                f"| {n_frames} | {run['process']:.2f} | {n_frames / run['process']:.0f} | {run['learning']:.2f} | "
                f"{run['masking']:.2f} | {n_frames / run['total']:.0f} | {run['cpu']:.2f} | {run['peak']:.0f} |",
                flush=True,
            )


def subtractors(width: int | None = None, height: int | None = None) -> None:
    """Print processor time a frame, masking alone, in turns with OpenCV's subtractors: least of some rounds.

    Learning goes through 1,000 frames, those that are masked over and over.
    """
    width, height = width or WIDTH, height or HEIGHT
    frames = [frame for frame, _ in iter_surveillance(MASKED, height, width, random_state=0)]
    model = BackgroundModel().fit(frames)  # compiled kernels are read
    cv2.setNumThreads(1)
    peers = {
        "MOG2": cv2.createBackgroundSubtractorMOG2,
        "MOG2 tuned": lambda: cv2.createBackgroundSubtractorMOG2(500, 36, False),
        "KNN": cv2.createBackgroundSubtractorKNN,
    }
    least: dict[str, float] = {}
    learning = np.inf
    for _ in range(ROUNDS):
        start = time.process_time()
        model.fit(itertools.islice(itertools.cycle(frames), FITTED))
        learning = min(learning, time.process_time() - start)
        for name in ("visionnmf", *peers):
            start = time.process_time()
            if name == "visionnmf":
                for _part in model.apply(frames):
                    pass
            else:
                subtractor = peers[name]()
                for frame in frames:
                    subtractor.apply(frame)
            least[name] = min(least.get(name, np.inf), time.process_time() - start)
    share = learning / (learning + FITTED * least["visionnmf"] / len(frames))
    print(f"\n{width} x {height}\n\nlearning: {learning:.2f} s, once; {share:.0%} of the time on {FITTED:,} frames\n")
    print("| method | ms a frame | times MOG2 tuned |\n| --- | --- | --- |")
    for name, seconds in least.items():
        print(f"| {name} | {1e3 * seconds / len(frames):.2f} | {seconds / least['MOG2 tuned']:.2f} |")


PARTS = {"table": table, "subtractors": subtractors}
QUICK = {
    "WIDTH": 64, "HEIGHT": 48, "LENGTHS": [20], "MASKED": 8, "FITTED": 20, "ROUNDS": 1,
}  # fmt: skip

if __name__ == "__main__":
    main(PARTS, globals(), QUICK)
