"""Commands that are killed at random moments, or run on a full disk: outputs are whole or absent."""

import os
import random
import shutil
import signal
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np

from visionnmf.datasets import make_mosaic, make_surveillance
from visionnmf.exceptions import MediaError
from visionnmf.io import VideoReader, VideoWriter, read_image, write_image

from .commands import SIGNALS, Forks, Fresh, Run, wait

FRESH = 20  # one run in so many is a process of its own, which may be killed while it imports

Content = dict[str, str]


def attack(seed: int, seconds: float, folder: Path) -> tuple[int, list[str]]:
    """Run commands until the time is over; return how many, and what was wrong."""
    begin = time.monotonic()
    dice = random.Random(seed)
    commands = _commands(folder)
    whole: dict[str, tuple[float, Content]] = {}
    sizes: dict[str, int] = {}  # of the largest output
    failures: list[str] = []
    forks, number = Forks(), 0
    while time.monotonic() < begin + seconds:
        name = sorted(set(commands) - set(whole))[0] if len(whole) < len(commands) else dice.choice(sorted(commands))
        out = folder / f"out{number}"
        out.mkdir()
        command = Command(name, commands[name], out, None if number % FRESH == FRESH - 1 else forks)
        if name not in whole:  # how long it takes, and what it writes when nothing happens
            start = time.monotonic()
            run = command.start()
            code = wait(run)
            whole[name] = time.monotonic() - start, content(out)
            sizes[name] = max((path.stat().st_size for path in out.rglob("*") if path.is_file()), default=1)
            if code or not whole[name][1]:
                failures.append(f"{name}: rc {code} when nothing happens: {_said(run)}")
        elif dice.random() < 0.25:
            failures += _on_a_full_disk(command, whole[name][1], dice.randrange(sizes[name]))
        else:
            failures += _killed(command, whole[name], dice)
        shutil.rmtree(out)
        number += 1
    forks.stop()
    return number, failures


def _commands(folder: Path) -> dict[str, list[str]]:
    """Return commands by name; OUT stands for their own folder."""
    write_image(folder / "photo.png", make_mosaic(40, 50, random_state=0).image)
    frames = make_surveillance(20, 32, 40, random_state=0).frames
    with VideoWriter(folder / "clip.mp4", width=40, height=32, frame_rate=25, codec="h264") as writer:
        for frame in frames:
            writer.write(frame)
    rng = np.random.default_rng(0)
    (folder / "ann.log").write_text("\n".join(rng.choice(["ls", "cd", "vi", "make"], 2000)))
    numbers = rng.random((300, 20))
    np.save(folder / "rows.npy", numbers)
    np.save(folder / "heard.npy", numbers[:, :9] ** 2)
    for person in range(3):
        (folder / "people" / f"p{person}").mkdir(parents=True)
        face = rng.random((12, 12)) * 200
        for k in range(4):
            image = np.clip(face + rng.normal(0, 8, face.shape), 0, 255).astype(np.uint8)
            write_image(folder / "people" / f"p{person}" / f"{k}.png", image)
    (folder / "photos").mkdir()
    words = []
    for k in range(8):
        write_image(folder / "photos" / f"{k}.png", make_mosaic(32, 40, random_state=k).image)
        words.append(f"{k}.png,{('sky', 'sea')[k % 2]},{('sun', 'sand')[k // 4]}")
    (folder / "words.csv").write_text("\n".join(words))
    rows, photos = str(folder / "rows.npy"), str(folder / "photos")
    return {
        "segment": ["segment", str(folder / "photo.png"), "--out", "OUT"],
        "background": ["background", str(folder / "clip.mp4"), "--out", "OUT"],
        "masquerade": ["masquerade", "train", str(folder / "ann.log"), "--model", "OUT/m.npz"],
        "faces": ["faces", "train", str(folder / "people"), "--rank", "4", "--model", "OUT/m.npz"],
        "faces cluster": ["faces", "cluster", str(folder / "people"), "--out", "OUT"],
        "features": ["features", photos, "--kind", "gist,lab", "--jobs", "1", "--out", "OUT/f.npz"],
        "annotate": [
            *("annotate", "train", photos, "--labels", str(folder / "words.csv"), "--kind", "lab,rgb"),
            *("--ranks", "2", "--model", "OUT/m.npz"),
        ],
        "multiview": ["multiview", "fit", rows, str(folder / "heard.npy"), "--rank", "3", "--model", "OUT/m.npz"],
        "stream": ["stream", rows, "--rank", "3", "--model", "OUT/m.npz"],
        "checkpoint": [
            *("stream", rows, "--rank", "3", "--batch", "10", "--epochs", "4", "--shuffle"),
            *("--checkpoint", "OUT/c.npz", "--every", "2", "--model", "OUT/m.npz"),
        ],
    }


class Command:
    """A command, and where it writes."""

    def __init__(self, name: str, words: list[str], out: Path, forks: Forks | None) -> None:
        self.name, self.out, self.forks = name, out, forks
        self.words = [word.replace("OUT", str(out), 1) if word.startswith("OUT") else word for word in words]
        self.said = out.with_suffix(".said")

    def start(self, *further: str, most: int | None = None) -> Run:
        words = [*self.words, *further]
        return Fresh(words, self.said, most) if self.forks is None else self.forks.run(words, self.said, most)


def content(out: Path) -> Content:
    """Return the outputs by name, and of each what tells that it is whole, which no rounding changes."""
    return {str(path.relative_to(out)): _whole(path) for path in sorted(out.rglob("*")) if path.is_file()}


def _whole(path: Path) -> str:
    """Read a file to its end, and say what it has; nothing to say of a temporary one."""
    if path.name.startswith("."):
        return "temporary"
    try:
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as file:
                return f"{sorted(file.namelist())}, {file.testzip()}"
        if path.suffix == ".png":
            return str(read_image(path).shape)
        if path.suffix in (".mp4", ".mkv"):
            with VideoReader(path) as reader:
                return f"{sum(1 for _ in reader)} frames"
        return f"{path.read_bytes().count(10)} lines"
    except (MediaError, zipfile.BadZipFile) as error:
        return f"not whole: {error}"


def _said(run: Run) -> str:
    return run.said.read_text(errors="replace")[-300:]


def _killed(command: Command, whole: tuple[float, Content], dice: random.Random) -> list[str]:
    seconds, expected = whole
    number, out = dice.choice(SIGNALS), command.out
    run = command.start()
    # half of the signals when writing has begun, which takes little of the time
    limit = time.monotonic() + dice.uniform(0, 1.1 * seconds)
    await_file = dice.random() < 0.5
    while run.poll() is None and (not any(out.iterdir()) if await_file else time.monotonic() < limit):
        time.sleep(0.001)
    if run.poll() is None:
        with suppress(ProcessLookupError):
            os.kill(run.pid, number)
    code = wait(run)
    what = f"{command.name}, {number.name}: "
    found = content(out)
    left = {file for file in found if Path(file).name.startswith(".")}
    said = _said(run)
    if left and number != signal.SIGKILL:
        return [f"{what}left {sorted(left)}"]
    if "Traceback" in said and number != signal.SIGKILL and "KeyboardInterrupt" not in said:
        return [f"{what}{said}"]
    if code not in (0, -number, 128 + number):
        return [f"{what}exit code {code}: {said}"]
    names = set(found) - left - {"c.npz"}  # a checkpoint is whole at any time
    if names and {name: found[name] for name in names} != {k: v for k, v in expected.items() if k != "c.npz"}:
        return [f"{what}{sorted(found)} in place of {sorted(expected)} or nothing"]
    again = command.start("--force")
    code = wait(again)
    if code != 0:
        return [f"{what}the next run ends with {code}: {_said(again)}"]
    found = content(out)
    wrong = sorted(name for name in expected if found.get(name) != expected[name])
    return [f"{what}the next run gives no whole {wrong}"] if wrong else []


def _on_a_full_disk(command: Command, expected: Content, most: int) -> list[str]:
    run = command.start(most=most)
    code, found = wait(run), content(command.out)
    said = _said(run)
    what = f"{command.name}, files of at most {most} bytes: "
    if code == 0 and found == expected:  # the next one may be smaller
        return []
    if code not in (1, 2) or "Traceback" in said:
        return [f"{what}exit code {code}: {said}"]
    left = sorted(set(found) - {"c.npz"})
    return [f"{what}left {left}"] if left else []
