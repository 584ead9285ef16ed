"""Commands that meet hostile names and odd environments, and write to a terminal, which nothing may steer."""

import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from .originals import Files
from .reading import IDLE, processor_seconds

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


class Run:
    """A command whose standard output and error are one terminal; `heard` holds what it has written."""

    def __init__(self, words, changes=None, descriptors: int | None = None, largest: int | None = None) -> None:
        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            if descriptors is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
            if largest is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

        changed = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": COLUMNS, **(changes or {})}
        self.heard = b""
        self._terminal, theirs = os.openpty()
        os.set_blocking(self._terminal, False)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "visionnmf", *words],
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

    def wait(self) -> int | str:
        """Return the exit code; a sentence when the command hangs, which a busy machine does not make of it."""
        last, since = 0.0, time.monotonic()
        while self.poll() is None:
            now = processor_seconds(self.pid)
            if now - last > 0.05:
                last, since = now, time.monotonic()
            if time.monotonic() - since > IDLE:
                self._process.kill()
                return f"hangs: no work of the processor for {IDLE:.0f} s"
            time.sleep(0.01)
        self.poll()
        os.close(self._terminal)
        return self._process.returncode


class Terminals:
    """Commands, each with a hostile name and in an odd environment; `step` runs one, and returns what was wrong."""

    def __init__(self, kind: str, seed: int, files: Files, folder: Path) -> None:
        folder.mkdir()
        self.seed, self.folder = seed, folder
        for name, content in files["models"].items():
            (folder / name).write_bytes(content)
        self.sound = {
            ".png": files["pictures"]["a.png"],
            ".npy": files["matrices"]["rows.npy"],
            ".log": b"ls\ncd\nvi\nmake\n" * 300,
            ".csv": b"a,b,c\n" + b"1,2,3\n4,5,7\n" * 20,
            ".mp4": b"",
        }

    def stop(self) -> None:
        """End; nothing is left running."""

    def step(self, number: int) -> str:
        dice, place = random.Random(f"{self.seed} {number}"), self.folder / str(number)
        suffix = dice.choice(sorted(self.sound))
        name = "".join(dice.choices(PARTS, k=dice.randint(1, 3))) + suffix
        file = place / dice.choice(("", "".join(dice.choices(PARTS, k=1)))) / name
        file.parent.mkdir(parents=True)  # one of the parts holds a slash
        if dice.random() < 0.9:  # else it is missing
            file.write_bytes(self.sound[suffix] if dice.random() < 0.6 else dice.randbytes(dice.randrange(300)))
        words = _words(dice, suffix, str(file), str(self.folder), str(place / "out"))
        changes, descriptors = dice.choice(SURROUNDINGS), dice.choice(DESCRIPTORS)
        run = Run(words, changes, descriptors)
        code, found = run.wait(), FORBIDDEN.search(run.heard)
        shutil.rmtree(place)
        if code in (0, 1, 2) and not found:
            return ""
        what = repr(found[0]) if found else f"exit code {code}"
        return f"{what}: {words}, {changes}, {descriptors} files: {run.heard[-2000:]!r}"


def _words(dice: random.Random, suffix: str, file: str, models: str, out: str) -> list[str]:
    """Return a command for a file of a kind, or for another one; `models` is the folder of its models."""
    features = ["features", file, "--kind", "rgb", "--jobs", "1", "--out", f"{out}.csv"]
    people, words, users, views = (f"{models}/{name}.npz" for name in ("faces", "words", "users", "views"))
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
        ".mp4": [["background", file, "--out", out], ["help", file]],
    }
    if dice.random() < 0.2:
        suffix = dice.choice(sorted(commands))
    return dice.choice(commands[suffix])
