"""Commands that meet hostile names and odd environments, and write to a terminal, which nothing may steer."""

import os
import random
import re
import resource
import shutil
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np

from visionnmf.datasets import make_mosaic
from visionnmf.io import write_image

from .commands import COMMAND, wait

# Parts of names that would steer a terminal, forge a line, be markup for rich, a formula, or are not UTF-8.
STEERING = "\x1b[31337m"
TITLE = "\x1b]0;forged\x07"
PARTS = (
    *(STEERING, TITLE, "\x9b31337m", "\nforged: all went well", "\rforged", "\u202egnp", "[/]", "[bold", "q["),
    *("[link=x]", "=1+1", "@x", "\udcff\udcfe", "é", "%s{0}", " ", "~", "$HOME", "'\"", "😀", "x" * 50),
)
FORBIDDEN = re.compile(
    rb"\x1b\[31337m|\x9b31337m|\x1b\]0;forged|\x07|\xe2\x80\xae|(?:^|[\r\n])forged|Traceback|fault of visionnmf"
)
SURROUNDINGS: tuple[dict[str, str | None], ...] = (
    {},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
    {"HOME": None, "XDG_CACHE_HOME": None},
    {"HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent", "NUMBA_CACHE_DIR": "/nonexistent"},
    {"TERM": "unknown"},
    {"TERM": "dumb", "NO_COLOR": "1"},
    {"TERM": None, "PATH": ""},
    {"TMPDIR": "/nonexistent"},
    {"LANG": "xx_XX.nonsense", "LC_ALL": "xx_XX.nonsense"},
)
DESCRIPTORS = (None, None, None, 40)  # the limit of open files
COLUMNS = "1000"  # so that lines are not broken, where a part of a name could begin one


class OnTerminal:
    """A command whose standard output and error are one terminal; `heard` holds what it has written."""

    def __init__(self, words: list[str], said: Path, changes: dict[str, str | None], descriptors: int | None) -> None:
        def prepare() -> None:
            if descriptors is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        changed = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": COLUMNS, **changes}
        self.said, self.heard = said, b""
        self._terminal, theirs = os.openpty()
        os.set_blocking(self._terminal, False)
        self._process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=prepare,
            env={name: value for name, value in changed.items() if value is not None},
        )
        os.close(theirs)
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Return the exit code of the command, if it has ended, after reading what it has written."""
        code = self._process.poll()
        with suppress(OSError):  # nothing to read, or the terminal is closed
            while data := os.read(self._terminal, 1 << 16):
                self.heard += data
        return code

    def close(self) -> None:
        os.close(self._terminal)


class Terminals:
    """Commands by turns, each with a hostile name and in an odd environment; `step` runs one."""

    def __init__(self, seed: int, folder: Path, models: dict[str, bytes]) -> None:
        folder.mkdir()
        self.seed, self.folder = seed, folder
        for name, content in models.items():
            (folder / name).write_bytes(content)
        self.done: Counter[str] = Counter()
        write_image(folder / "photo.png", make_mosaic(40, 50, random_state=0).image)
        np.save(folder / "rows.npy", np.random.default_rng(0).random((60, 9)))
        self.sound = {
            ".png": (folder / "photo.png").read_bytes(),
            ".npy": (folder / "rows.npy").read_bytes(),
            ".log": b"ls\ncd\nvi\nmake\n" * 300,
            ".csv": b"a,b,c\n" + b"1,2,3\n4,5,7\n" * 20,
            ".mp4": b"",
        }

    @property
    def turns(self) -> int:
        return self.done["terminals"]

    def ready(self) -> bool:
        return True

    def step(self) -> list[str]:
        self.done["terminals"] += 1
        return self.case(self.turns - 1)

    def case(self, number: int) -> list[str]:
        """Run the case of this number, and return what was wrong."""
        dice = random.Random(f"{self.seed} {number}")
        place = self.folder / str(number)
        place.mkdir()
        try:
            return self._run(dice, place, f"terminals:{self.seed}:{number}")
        finally:
            shutil.rmtree(place)

    def _run(self, dice: random.Random, place: Path, case: str) -> list[str]:
        """Run a command drawn by `dice` on a file with a hostile name, and return what was wrong."""
        suffix = dice.choice(sorted(self.sound))
        name = "".join(dice.choices(PARTS, k=dice.randint(1, 3))) + suffix
        file = place / dice.choice(("", "".join(dice.choices(PARTS, k=1)))) / name
        file.parent.mkdir(parents=True, exist_ok=True)  # one of the parts holds a slash
        if dice.random() < 0.9:  # else it is missing
            file.write_bytes(self.sound[suffix] if dice.random() < 0.6 else dice.randbytes(dice.randrange(300)))
        words = _words(dice, suffix, str(file), str(self.folder), str(place / "out"))
        changes, descriptors = dice.choice(SURROUNDINGS), dice.choice(DESCRIPTORS)
        run = OnTerminal(words, place / "said", changes, descriptors)
        try:
            code = wait(run)
            run.poll()
        finally:
            run.close()
        found = FORBIDDEN.search(run.heard)
        if code in (0, 1, 2) and not found:
            return []
        what = f"exit code {code}" if found is None else repr(found[0])
        return [f"{case}: {what}: {words}, {changes}, {descriptors} files: {run.heard[-2000:]!r}"]

    def stop(self) -> None:
        """End; nothing is left running."""


def _words(dice: random.Random, suffix: str, file: str, models: str, out: str) -> list[str]:
    """Return a command for a file of a kind, or for another one; `models` is the folder of its models."""
    features = ["features", file, "--kind", "rgb", "--jobs", "1", "--out", f"{out}.csv"]
    people, words, users, views = (f"{models}/{name}.npz" for name in ("faces", "weighted", "users", "views"))
    folder, model = str(Path(file).parent), f"{out}.npz"
    pictures = [
        ["segment", file, "--out", out],
        *(features, ["faces", "identify", people, file, folder]),
        *(["faces", "add", people, file, "--name", "x", "--model", model], ["faces", "cluster", folder, "--out", out]),
        *(["faces", "train", folder, "--model", model], ["evaluate", "faces", folder, "--out", out]),
        *(["faces", "shadows", folder, "--out", out], ["annotate", "predict", words, file]),
        ["evaluate", "annotate", words, folder],
        ["annotate", "train", folder, "--model", model],
    ]
    logs = [["masquerade", "train", file, "--model", model], ["masquerade", "score", users, file]]
    tables = [
        *(["multiview", "fit", file, "--rank", "2", "--model", model], ["evaluate", "multiview", file, file]),
        *(["multiview", "transform", views, file, "--codes", f"{out}.csv"], ["multiview", "impute", views, file]),
    ]
    commands = {
        ".png": pictures,
        ".npy": tables,
        ".log": [*logs, ["evaluate", "masquerade", file, file]],
        ".csv": tables,
        ".mp4": [["background", file, "--out", out], [file, "--help"]],
    }
    if dice.random() < 0.2:
        suffix = dice.choice(sorted(commands))
    return dice.choice(commands[suffix])
