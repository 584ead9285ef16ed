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
from visionnmf.io import VideoReader, VideoWriter, write_image

from .commands import SIGNALS, Forks, Fresh, Run, wait

FRESH = 20  # one run in so many is a process of its own, which may be killed while it imports

Content = dict[str, bytes]


def attack(seed: int, seconds: float, folder: Path) -> tuple[int, list[str]]:
    """Run commands until the time is over; return how many, and what was wrong."""
    begin = time.monotonic()
    dice = random.Random(seed)
    commands = _commands(folder)
    whole: dict[str, tuple[float, Content]] = {}
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
            if code or not whole[name][1]:
                failures.append(f"{name}: rc {code} when nothing happens: {_said(run)}")
        elif dice.random() < 0.25:
            failures += _on_a_full_disk(command, whole[name][1], dice)
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
    np.save(folder / "rows.npy", rng.random((300, 20)))
    for person in range(3):
        (folder / "people" / f"p{person}").mkdir(parents=True)
        face = rng.random((12, 12)) * 200
        for k in range(4):
            image = np.clip(face + rng.normal(0, 8, face.shape), 0, 255).astype(np.uint8)
            write_image(folder / "people" / f"p{person}" / f"{k}.png", image)
    rows = str(folder / "rows.npy")
    return {
        "segment": ["segment", str(folder / "photo.png"), "--out", "OUT"],
        "background": ["background", str(folder / "clip.mp4"), "--out", "OUT"],
        "masquerade": ["masquerade", "train", str(folder / "ann.log"), "--model", "OUT/m.npz"],
        "faces": ["faces", "train", str(folder / "people"), "--rank", "4", "--model", "OUT/m.npz"],
        "faces cluster": ["faces", "cluster", str(folder / "people"), "--out", "OUT"],
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
    """Return the outputs by name; of an archive what its members hold, as it also holds the time."""
    found: Content = {}
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        name = str(path.relative_to(out))
        found[name] = path.read_bytes()
        if path.suffix == ".npz" and not path.name.startswith("."):
            with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as file:
                found[name] = b"".join(member.encode() + file.read(member) for member in file.namelist())
        if path.suffix == ".mkv":  # it has a number that is drawn anew
            found[name] = b"%d frames" % _n_frames(path)
    return found


def _n_frames(path: Path) -> int:
    """Return how many frames a video has; -1 when it is not whole."""
    try:
        with VideoReader(path) as reader:
            return sum(1 for _ in reader)
    except MediaError:
        return -1


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
    return [f"{what}the next run gives another {wrong}"] if wrong else []


def _on_a_full_disk(command: Command, expected: Content, dice: random.Random) -> list[str]:
    most = dice.randrange(max(len(data) for data in expected.values()))
    run = command.start(most=most)
    code, found = wait(run), content(command.out)
    said = _said(run)
    what = f"{command.name}, files of at most {most} bytes: "
    if code == 0 and found == expected:  # an archive is smaller than what it holds
        return []
    if code not in (1, 2) or "Traceback" in said:
        return [f"{what}exit code {code}: {said}"]
    left = sorted(set(found) - {"c.npz"})
    return [f"{what}left {left}"] if left else []
