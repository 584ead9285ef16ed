"""Commands that are killed at random moments, or run on a full disk: outputs are whole or absent."""

import os
import random
import shutil
import signal
import time
import zipfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np

from visionnmf.datasets import make_mosaic, make_surveillance
from visionnmf.exceptions import MediaError
from visionnmf.io import VideoReader, VideoWriter, read_image, write_image

from .commands import SIGNALS, Forks, Fresh, Run, wait

FRESH = 20  # one run in so many is a process of its own, which may be killed while it imports
NOT_BEGUN = "Fatal Python error: init_"  # and exit code 1: a signal that came before the interpreter runs anything
FULL_DISKS = 0.2  # share of the runs

Content = dict[str, str]


class Kills:
    """Commands by turns; `step` kills one, or runs it on a full disk, and returns what was wrong.

    Counted are those that a signal met while they ran. First each command runs once with nothing happening.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.dice, self.forks = folder, random.Random(seed), Forks()
        self.commands = _commands(folder)
        self.whole: dict[str, tuple[float, Content]] = {}  # how long it takes, and what it writes
        self.sizes: dict[str, int] = {}  # of the largest output
        self.done: Counter[str] = Counter()
        self.number = 0

    @property
    def turns(self) -> int:
        """How many commands have run, those with nothing happening too, where others stand at so many cases."""
        return self.number

    def ready(self) -> bool:
        return self.forks.ready()

    def step(self) -> list[str]:
        first = sorted(set(self.commands) - set(self.whole))
        name = first[0] if first else self.dice.choice(sorted(self.commands))
        out = self.folder / f"out{self.number}"
        out.mkdir()
        fresh = self.number % FRESH == FRESH - 1
        self.number += 1
        command = Command(name, self.commands[name], out, None if fresh else self.forks)
        try:
            if first:
                return self._when_nothing_happens(command)
            if self.dice.random() < FULL_DISKS:
                self.done["full disks"] += 1
                return _on_a_full_disk(command, self.whole[name][1], self.dice.randrange(self.sizes[name]))
            met, failures = _killed(command, self.whole[name], self.dice)
            self.done["kills"] += met
            return failures
        finally:
            shutil.rmtree(out)

    def _when_nothing_happens(self, command: "Command") -> list[str]:
        start = time.monotonic()
        run = command.start()
        code = wait(run)
        found = content(command.out)
        self.whole[command.name] = time.monotonic() - start, found
        files = [path for path in command.out.rglob("*") if path.is_file()]
        self.sizes[command.name] = max((path.stat().st_size for path in files), default=1)
        return [f"{command.name}: rc {code} when nothing happens: {_said(run)}"] if code or not found else []

    def stop(self) -> None:
        self.forks.stop()


def _commands(folder: Path) -> dict[str, list[str]]:
    """Return commands by name; OUT stands for their own folder."""
    write_image(folder / "photo.png", make_mosaic(40, 50, random_state=0).image)
    frames = make_surveillance(20, 32, 40, random_state=0).frames
    with VideoWriter(folder / "clip.mp4", width=40, height=32, frame_rate=25, codec="h264") as writer:
        for frame in frames:
            writer.write(frame)
    rng = np.random.default_rng(0)
    (folder / "ann.log").write_text("\n".join(rng.choice(["ls", "cd", "vi", "make"], 2000)))
    numbers = rng.random((60, 9))
    np.save(folder / "seen.npy", numbers)
    np.save(folder / "heard.npy", numbers**2)
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
    photos = str(folder / "photos")
    views = [str(folder / name) for name in ("seen.npy", "heard.npy")]
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
        "multiview": ["multiview", "fit", *views, "--rank", "3", "--model", "OUT/m.npz"],
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
    return run.said.read_text(errors="replace")[-300:] if run.said.exists() else ""


def _killed(command: Command, whole: tuple[float, Content], dice: random.Random) -> tuple[bool, list[str]]:
    """Send a signal at a random moment, then run again; return whether it met the command, and what was wrong."""
    seconds, expected = whole
    number, out = dice.choice(SIGNALS), command.out
    run = command.start()
    # half of the signals when writing has begun, which takes little of the time
    limit = time.monotonic() + dice.uniform(0, 1.1 * seconds)
    await_file = dice.random() < 0.5
    while run.poll() is None and (not any(out.iterdir()) if await_file else time.monotonic() < limit):
        time.sleep(0.001)
    met = run.poll() is None
    if met:
        with suppress(ProcessLookupError):
            os.kill(run.pid, number)
    code = wait(run)
    if run.said.exists() and NOT_BEGUN in run.said.read_text(errors="replace"):  # it may be killed before it has one
        code = -number
    return met, _after(command, number, code, _said(run), expected)


def _after(command: Command, number: signal.Signals, code: int | str, said: str, expected: Content) -> list[str]:
    """Look at what a killed command left, and run it again."""
    out, what = command.out, f"{command.name}, {number.name}: "
    found = content(out)
    left = {file for file in found if Path(file).name.startswith(".")}
    if left and number != signal.SIGKILL:
        return [f"{what}left {sorted(left)}"]
    if "Traceback" in said and number != signal.SIGKILL and "KeyboardInterrupt" not in said:
        return [f"{what}{said}"]
    if code not in (0, -number, 128 + number):
        return [f"{what}exit code {code}: {said}"]
    names = set(found) - left
    some = number == signal.SIGKILL  # between the names of several files: those that have theirs are whole
    wanted = {k: v for k, v in expected.items() if not (some and k not in names)}
    if names and {name: found[name] for name in names} != wanted:
        return [f"{what}{sorted(found)} in place of {sorted(expected)} or nothing"]
    again = command.start("--force")
    code = wait(again)
    if code != 0:
        return [f"{what}the next run ends with {code}: {_said(again)}"]
    found = content(out)
    wrong = {name: found.get(name) for name in expected if found.get(name) != expected[name]}
    return [f"{what}the next run gives {wrong} in place of {expected}; {_said(again)}"] if wrong else []


def _on_a_full_disk(command: Command, expected: Content, most: int) -> list[str]:
    run = command.start(most=most)
    code, found = wait(run), content(command.out)
    said = _said(run)
    what = f"{command.name}, files of at most {most} bytes: "
    if code == 0 and found == expected:  # the next one may be smaller
        return []
    if code not in (1, 2) or "Traceback" in said:
        return [f"{what}exit code {code}: {said}"]
    return [f"{what}left {sorted(found)}"] if found else []
