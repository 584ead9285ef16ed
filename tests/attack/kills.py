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

from .originals import Files
from .terminals import Run

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
NOT_BEGUN = b"Fatal Python error: init_"  # and exit code 1: a signal that came before the interpreter runs anything
FULL_DISKS = 0.2  # share of the runs

Content = dict[str, str]


class Kills:
    """Commands; `step` kills one, or runs it on a full disk, and returns what was wrong."""

    def __init__(self, kind: str, seed: int, files: Files, folder: Path) -> None:
        folder.mkdir()
        self.seed, self.out, self.commands = seed, folder / "out", _commands(folder)
        self.whole: dict[str, tuple[float, Content, int]] = {}  # seconds, outputs, bytes of the largest

    def stop(self) -> None:
        """End; nothing is left running."""

    def step(self, number: int) -> str:
        dice = random.Random(f"{self.seed} {number}")
        name = dice.choice(sorted(self.commands))
        if name not in self.whole and (complaint := self._when_nothing_happens(name)):
            return complaint
        self.out.mkdir()
        try:
            return (self._on_a_full_disk if dice.random() < FULL_DISKS else self._killed)(name, dice)
        finally:
            shutil.rmtree(self.out)

    def _run(self, name: str, *further: str, largest: int | None = None) -> Run:
        words = [word.replace("OUT", str(self.out), 1) for word in self.commands[name]]
        return Run([*words, *further], largest=largest)

    def _when_nothing_happens(self, name: str) -> str:
        """Run a command, and note how long it takes and what it writes."""
        self.out.mkdir()
        start, run = time.monotonic(), self._run(name)
        code, seconds = run.wait(), time.monotonic() - start
        sizes = [path.stat().st_size for path in self.out.rglob("*") if path.is_file()]
        self.whole[name] = seconds, content(self.out), max(sizes, default=1)
        shutil.rmtree(self.out)
        return f"{name}: exit code {code} when nothing happens: {run.heard!r}" if code or not sizes else ""

    def _on_a_full_disk(self, name: str, dice: random.Random) -> str:
        _, expected, largest = self.whole[name]
        most = dice.randrange(largest)
        run = self._run(name, largest=most)
        code, found = run.wait(), content(self.out)
        what = f"{name}, files of at most {most} bytes: "
        if code == 0 and found == expected:  # the next one may be smaller
            return ""
        if code not in (1, 2) or b"Traceback" in run.heard:
            return f"{what}exit code {code}: {run.heard!r}"
        return f"{what}left {sorted(found)}" if found else ""

    def _killed(self, name: str, dice: random.Random) -> str:
        """Send a signal at a random moment, look at what is left, and run again."""
        seconds, expected, _ = self.whole[name]
        number = dice.choice(SIGNALS)
        run, limit = self._run(name), time.monotonic() + dice.uniform(0, 1.1 * seconds)
        await_file = dice.random() < 0.5  # writing takes little of the time
        while run.poll() is None and (not any(self.out.iterdir()) if await_file else time.monotonic() < limit):
            time.sleep(0.001)
        with suppress(ProcessLookupError):
            os.kill(run.pid, number)
        code = run.wait()
        if NOT_BEGUN in run.heard:
            code = -number
        found, what = content(self.out), f"{name}, {number.name}: "
        left = {file for file in found if Path(file).name.startswith(".")}
        killed = number == signal.SIGKILL  # between the names of several files, those that have theirs are whole
        if left and not killed:
            return f"{what}left {sorted(left)}"
        if b"Traceback" in run.heard and not killed and b"KeyboardInterrupt" not in run.heard:
            return f"{what}{run.heard!r}"
        if code not in (0, -number, 128 + number):
            return f"{what}exit code {code}: {run.heard!r}"
        names = set(found) - left
        wanted = {file: whole for file, whole in expected.items() if not killed or file in names}
        if names and {file: found[file] for file in names} != wanted:
            return f"{what}{sorted(found)} in place of {sorted(expected)} or nothing"
        again = self._run(name, "--force")
        if code := again.wait():
            return f"{what}the next run ends with {code}: {again.heard!r}"
        found = content(self.out)
        wrong = {file: found.get(file) for file in expected if found.get(file) != expected[file]}
        return f"{what}the next run gives {wrong} in place of {expected}" if wrong else ""


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
