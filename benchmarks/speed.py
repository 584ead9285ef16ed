"""What the guides quote about speed, and how time and memory of each application grow with its input.

``python benchmarks/speed.py`` runs everything, ``python benchmarks/speed.py growth background segment`` one part with
its arguments.

- ``growth [NAME ...]``: each application on made inputs of growing size. Every size runs in a process of its own, which
  reads the input from a file; the first run, which compiles, is not counted. Seconds and memory are those of the whole
  process, imports included. The exponents are the slopes of straight lines through the logarithms of the last two
  sizes.
- ``subtractors [WIDTH HEIGHT]``: processor time a frame of masking alone, beside OpenCV's MOG2 and KNN.
- ``recovery``: the relative error of a default fit to a corrupted low-rank matrix, beside least squares.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _machine import peak_memory_mb
from _main import main
from numpy.typing import NDArray

import visionnmf
from visionnmf.datasets import iter_surveillance, make_corrupted_low_rank, make_views
from visionnmf.io import VideoWriter, read_image, write_image

Array = NDArray[Any]  # applications are imported where they are used, so that each process has only its own

WIDTH, HEIGHT = 320, 240  # of frames
MASKED, FITTED, ROUNDS = 150, 1000, 5  # frames that are masked, and learnt over and over, and rounds, of `subtractors`
FACE, EACH = (32, 32), 10  # pixels of a face, and images of a person
ANNOTATED = (200, 100)  # features and words of an annotated image
SESSION, COMMANDS = 100, 500  # commands of a session, and different ones
SHAPE, RANK, SEEDS = (1024, 476), 20, 5  # of `recovery`


def clean(n_rows: int, n_features: int) -> Array:
    """Return low-rank data with noise, in single precision."""
    return make_corrupted_low_rank(n_rows, n_features, 10, corruption="gaussian", random_state=0, dtype=np.float32).X


def write_frames(path: Path, n_frames: int) -> None:
    """Write a made clip, as H.264."""
    with VideoWriter(path, width=WIDTH, height=HEIGHT, frame_rate=25, codec="h264") as writer:
        for frame, _ in iter_surveillance(n_frames, HEIGHT, WIDTH, random_state=0):
            writer.write(frame)


def write_picture(path: Path, n_pixels: int) -> None:
    """Write a photograph of that many pixels."""
    import cv2

    size = round((1.5 * n_pixels) ** 0.5), round((n_pixels / 1.5) ** 0.5)
    write_image(path, cv2.resize(read_image("sample:coffee"), size, interpolation=cv2.INTER_AREA))


def write_faces(path: Path, n_images: int) -> None:
    """Write images of faces: one pattern for each person, and noise."""
    people = clean(-(-n_images // EACH), FACE[0] * FACE[1])
    labels = np.arange(n_images) // EACH
    noise = 0.3 * people.mean() * np.random.default_rng(0).random((n_images, people.shape[1]), np.float32)
    np.savez(path, X=people[labels] + noise, y=labels)


def write_annotated(path: Path, n_images: int) -> None:
    """Write features of images that are mixtures of their words."""
    rng = np.random.default_rng(0)
    Y = rng.random((n_images, ANNOTATED[1])) < 4 / ANNOTATED[1]
    X = Y @ rng.random((ANNOTATED[1], ANNOTATED[0])) ** 8 + 0.05 * rng.random((n_images, ANNOTATED[0]))
    np.savez(path, X=X.astype(np.float32), Y=Y)


def write_commands(path: Path, n_commands: int) -> None:
    """Write numbers of commands, of which few are frequent."""
    np.save(path, np.random.default_rng(0).zipf(1.5, n_commands) % COMMANDS)


class Application(NamedTuple):
    """An application, the unit and the sizes of its input, and functions that write an input and work on it."""

    unit: str
    suffix: str
    sizes: tuple[int, ...]
    write: Callable[[Path, int], None]
    work: Callable[[Path], object]


def fit_matrix(path: Path) -> None:
    """Fit by the Manhattan loss, ten iterations."""
    visionnmf.NMF(10, max_iter=10, tol=0, random_state=0).fit(np.load(path))


def divide(path: Path) -> None:
    """Divide a photograph into segments."""
    from visionnmf.apps.segmentation import segment

    segment(read_image(path))


def mask(path: Path) -> None:
    """Run what the command does, and write only the background picture."""
    from visionnmf.apps.background import OutputSettings, process_video

    process_video(str(path), out=str(path.parent), outputs=OutputSettings(force=True, videos=False))


def learn_faces(path: Path) -> None:
    """Learn people from their images."""
    from visionnmf.apps.faces import FaceRecognizer

    made = np.load(path)
    FaceRecognizer(image_shape=FACE, random_state=0).fit(made["X"], made["y"])


def learn_words(path: Path) -> None:
    """Learn words from features of images, in two views."""
    from visionnmf.apps.annotation import ImageAnnotator

    made, half = np.load(path), ANNOTATED[0] // 2
    views = {"first": slice(0, half), "second": slice(half, ANNOTATED[0])}
    ImageAnnotator(n_components=(20,), random_state=0).fit(made["X"], made["Y"], views=views)


def learn_commands(path: Path) -> None:
    """Learn a user from sessions of commands."""
    from visionnmf.apps.masquerade import SessionScorer

    SessionScorer().fit(np.load(path).reshape(-1, SESSION).tolist())


def fit_views(path: Path) -> None:
    """Fit a joint model to four views."""
    visionnmf.MultiviewNMF(8, loss="frobenius", random_state=0).fit(list(np.load(path).values()))


APPLICATIONS = {
    "NMF": Application(
        "samples of 200 features", ".npy", (2_000, 20_000, 200_000),
        lambda path, n: np.save(path, clean(n, 200)), fit_matrix,
    ),
    "segment": Application("pixels", ".png", (154_401, 617_604, 2_470_416), write_picture, divide),
    "background": Application(f"frames of {WIDTH} x {HEIGHT}", ".mp4", (300, 1000, 3000), write_frames, mask),
    "faces": Application("images", ".npz", (100, 400, 1600), write_faces, learn_faces),
    "annotate": Application("images", ".npz", (500, 2000, 8000), write_annotated, learn_words),
    "masquerade": Application("commands", ".npy", (10_000, 100_000, 1_000_000), write_commands, learn_commands),
    "multiview": Application(
        "samples", ".npz", (500, 5_000, 50_000),
        lambda path, n: np.savez(path, **make_views(n, random_state=0).views), fit_views,
    ),
}  # fmt: skip


def run(name: str, path: str) -> None:
    """Work on an input in this process; print its processor seconds and its largest memory in MB."""
    warnings.simplefilter("ignore")
    APPLICATIONS[name].work(Path(path))
    print(time.process_time(), peak_memory_mb())


def measured(name: str, path: Path) -> Array:
    """Return processor seconds, MB and seconds of a process that works on an input."""
    begin, command = time.perf_counter(), [sys.executable, __file__, "run", name, str(path)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return np.array([*map(float, printed.split()[-2:]), time.perf_counter() - begin])


def growth(*names: str) -> None:
    """Print a row for each size of the input of each application."""
    print("\n| application | input | processor, s | s | a second | peak memory, MB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in names or APPLICATIONS:
        application, found = APPLICATIONS[name], []
        with tempfile.TemporaryDirectory() as folder:
            for turn, size in enumerate((application.sizes[0], *application.sizes)):
                path = Path(folder) / f"input{turn}{application.suffix}"
                application.write(path, size)
                row = measured(name, path)
                if turn == 0:  # compiles
                    continue
                found.append(row)
                processor, memory, whole = row
                what = f"{size:,} {application.unit} | {processor:.2f} | {whole:.2f} | {size / whole:,.0f}"
                print(f"| {name} | {what} | {memory:.0f} |", flush=True)
        ratios = np.log(found[-1] / found[-2]) / np.log(application.sizes[-1] / application.sizes[-2])
        print(f"| {name} | exponent | {ratios[0]:.2f} | {ratios[2]:.2f} | | {ratios[1]:.2f} |", flush=True)


def subtractors(width: int | None = None, height: int | None = None) -> None:
    """Print the least processor time a frame of some rounds, in turns with OpenCV's subtractors."""
    import cv2

    from visionnmf.apps.background import BackgroundModel

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
            subtractor = peers[name]() if name in peers else None
            for _ in map(subtractor.apply, frames) if subtractor else model.apply(frames):
                pass
            least[name] = min(least.get(name, np.inf), time.process_time() - start)
    print(f"\n{width} x {height}; learning from {FITTED:,} frames: {learning:.2f} s, once\n")
    print("| method | ms a frame | times MOG2 tuned |\n| --- | --- | --- |")
    for name, seconds in least.items():
        print(f"| {name} | {1e3 * seconds / len(frames):.2f} | {seconds / least['MOG2 tuned']:.2f} |")


def recovery() -> None:
    """Print the relative error of WH to the clean matrix: default settings, random starts, single precision."""
    print("\n| corruption | error, median (max) | least squares |\n| --- | --- | --- |")
    for corruption in ("none", "salt_and_pepper", "laplace", "gaussian", "occlusion", "poisson"):
        errors = []
        for seed in range(SEEDS):
            made = make_corrupted_low_rank(*SHAPE, RANK, corruption=corruption, random_state=seed)
            for loss in ("manhattan", "frobenius"):
                model = visionnmf.NMF(RANK, loss=loss, random_state=seed).fit(made.X)
                found = model.inverse_transform(model.transform(made.X))
                errors.append(np.linalg.norm(found - made.clean) / np.linalg.norm(made.clean))
        ours, squares = errors[::2], errors[1::2]
        print(f"| {corruption} | {np.median(ours):.5f} ({max(ours):.5f}) | {np.median(squares):.4f} |", flush=True)


PARTS = {"growth": growth, "subtractors": subtractors, "recovery": recovery}
QUICK = {
    "WIDTH": 64, "HEIGHT": 48, "MASKED": 8, "FITTED": 20, "ROUNDS": 1, "SHAPE": (60, 40), "RANK": 3, "SEEDS": 1,
    "APPLICATIONS": {name: a._replace(sizes=(a.sizes[0] // 20, a.sizes[0] // 10)) for name, a in APPLICATIONS.items()},
}  # fmt: skip

if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run(*sys.argv[2:])
    else:
        main(PARTS, globals(), QUICK)
