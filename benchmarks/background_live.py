"""Live masks of a stream: rate beside OpenCV's subtractors, memory over many frames.

    python benchmarks/background_live.py rate      processor time a frame, 640 by 480 in colour, beside MOG2 and KNN
    python benchmarks/background_live.py highway   the same of CDnet highway, 320 by 240: cars that may cast shadows
    python benchmarks/background_live.py memory    resident memory over 100,000 small frames

Rates are those of one thread, of each frame the least of some rounds, after the first two seconds are learnt; what
those cost is said beside. MOG2 and KNN have the settings of the literature (history 500, variance threshold 36 and
squared distance 400, no shadows), and a 5 by 5 median after them, as live masks have. F beside the batch model is a
part of background.py.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import cv2
import numpy as np
from _clips import load_clip
from _machine import resident_mb
from _main import main

from visionnmf.apps.background import OnlineBackgroundModel
from visionnmf.datasets import iter_surveillance

WIDTH, HEIGHT = 640, 480
START, MEASURED, ROUNDS = 50, 60, 10
LENGTH = 100_000  # frames, of the measure of memory
SMALL = (48, 64)

PEERS = {
    "MOG2": lambda: cv2.createBackgroundSubtractorMOG2(500, 36, False),
    "KNN": lambda: cv2.createBackgroundSubtractorKNN(500, 400, False),
}


def rate() -> None:
    """Print milliseconds of the processor a frame, for a made street."""
    _compare([frame for frame, _ in iter_surveillance(START + MEASURED, HEIGHT, WIDTH, random_state=0)])


def highway() -> None:
    """Print milliseconds of the processor a frame, for the first frames of CDnet highway."""
    _compare(list(load_clip("cdnet_highway").frames[: START + MEASURED]))


def _compare(frames: list[np.ndarray]) -> None:
    """Print milliseconds a frame of each method, once the first frames are learnt."""
    cv2.setNumThreads(1)
    least: dict[str, np.ndarray] = {}
    learning = np.inf
    for _ in range(ROUNDS):
        model = OnlineBackgroundModel()
        peers = {name: make() for name, make in PEERS.items()}
        start = time.process_time()
        for frame in frames[:START]:
            model.partial_fit(frame)
        learning = min(learning, time.process_time() - start)
        for peer, frame in itertools.product(peers.values(), frames[:START]):
            peer.apply(frame)
        for name in ("visionnmf", *peers):
            times = [time.process_time()]
            for frame in frames[START:]:
                if name == "visionnmf":
                    model.partial_fit(frame)
                else:
                    cv2.medianBlur(peers[name].apply(frame), 5)
                times.append(time.process_time())
            least[name] = np.minimum(least.get(name, np.inf), np.diff(times))
    print(f"\nthe first {START} frames: {learning:.2f} s, once\n\n| method | ms a frame | times KNN | times MOG2 |")
    print("| --- | --- | --- | --- |")
    means = {name: times.mean() for name, times in least.items()}
    for name, mean in means.items():
        print(f"| {name} | {1e3 * mean:.2f} | {mean / means['KNN']:.2f} | {mean / means['MOG2']:.2f} |")


def _small_frames() -> Iterator[np.ndarray]:
    """Yield frames of a street over and over, so that making them costs nothing."""
    made = [frame for frame, _ in iter_surveillance(500, *SMALL, random_state=0)]
    return itertools.islice(itertools.cycle(made), LENGTH)


def memory() -> None:
    """Print resident memory after a tenth of the frames, and each further tenth."""
    model = OnlineBackgroundModel()
    print("\n| frames | resident, MB |\n| --- | --- |")
    for part in model.follow(_small_frames()):
        if (part.index + 1) % (LENGTH // 10) == 0:
            print(f"| {part.index + 1} | {resident_mb():.1f} |", flush=True)


PARTS = {"rate": rate, "highway": highway, "memory": memory}
QUICK = {
    "WIDTH": 64, "HEIGHT": 48, "START": 50, "MEASURED": 4, "ROUNDS": 1, "LENGTH": 60, "SMALL": (24, 32)
}  # fmt: skip

if __name__ == "__main__":
    main(PARTS, globals(), QUICK)
