"""Mutated files of one kind, read one after the other by a process whose memory and time are watched."""

import multiprocessing as mp
import os
import random
import resource
import shutil
import time
from pathlib import Path

from .mutations import mutate
from .originals import Files

MEMORY = {"models": (2, 200 << 20)}  # times what is returned, or the file that is refused, and bytes beside
USUAL_MEMORY = (4, 300 << 20)
SECONDS = 10.0  # of the processor, beside what the size of the result takes
IDLE = 300.0  # seconds without any work of the processor, after which a process hangs
ADDRESSES = 16 << 30  # bytes that the process may take; what it really takes is looked at case by case
FOUND = Path("out/attack")


class Reading:
    """Cases of one kind; `step` reads one and returns what was wrong."""

    def __init__(self, kind: str, seed: int, files: Files, folder: Path) -> None:
        self.kind, self.seed, self.files, self.folder = kind, seed, files.get(kind, {}), folder
        self.process = None
        folder.mkdir()

    def start(self) -> None:
        context = mp.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=False)
        self.process.start()
        theirs.close()
        self.pipe.recv()  # ready: imports take seconds

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None

    def step(self, number: int) -> str:
        dice, path = random.Random(f"{self.kind}:{self.seed}:{number}"), None
        if self.files:
            name = dice.choice(sorted(self.files))
            path = self.folder / name
            path.write_bytes(mutate(self.files[name], name, list(self.files.values()), dice) or b"\0")
        complaint = self.read(number, path)
        if path:
            if complaint:
                FOUND.mkdir(parents=True, exist_ok=True)
                complaint += f"; {shutil.copy(path, FOUND / f'{self.kind}-{self.seed}-{number}-{name}')}"
            path.unlink(missing_ok=True)
        for left in self.folder.iterdir():
            complaint += f"; left {left.name}"
            left.unlink()
        return complaint

    def read(self, number: int, path: Path | None) -> str:
        """Read a file, or make the case of a number where there is none."""
        if self.process is None:
            self.start()
        try:
            self.pipe.send((self.kind, self.seed, number, path))
            if waited := self._wait(6 * SECONDS):
                self.stop()
                return waited
            error, size, memory, seconds = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(10)
            code = self.process.exitcode
            self.stop()
            return f"the process died with {code}"
        times, beside = MEMORY.get(self.kind, USUAL_MEMORY)
        if not error and memory > times * size + beside:
            error = f"{memory >> 20} MiB for a result of {size} bytes"
        if not error and seconds > SECONDS + size / 5e6:
            error = f"{seconds:.1f} s for a result of {size} bytes"
        return error

    def _wait(self, most: float) -> str:
        """Wait for an answer; the machine may be busy, so the processor's seconds count."""
        begin = last = processor_seconds(self.process.pid)
        since = time.monotonic()
        while not self.pipe.poll(2):
            now = processor_seconds(self.process.pid)
            if now - begin > most:
                return f"no answer within {now - begin:.0f} s of the processor"
            if now - last > 0.05:
                last, since = now, time.monotonic()
            if time.monotonic() - since > IDLE:
                return f"hangs: no work of the processor for {IDLE:.0f} s"
        return ""


def processor_seconds(pid: int) -> float:
    """Return what a process has taken of the processor; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _work(pipe) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):  # decoders print
        os.dup2(nowhere, number)
    from visionnmf.exceptions import VisionNMFError
    from visionnmf.io.decoding import decode_apart

    from .targets import READERS, sparse

    decode_apart()
    pipe.send("ready")
    while True:
        kind, seed, number, path = pipe.recv()
        error, size = "", 0
        before, begin = _peak(reset=True), time.process_time()
        try:
            size = READERS[kind](path) if path else sparse(random.Random(f"{seed}:{number}"))
        except VisionNMFError as told:
            size = path.stat().st_size if path else 0  # what was refused may have been read once
            error = f"more than one line: {told}" if "\n" in str(told) else ""
        except ValueError as told:  # scikit-learn's own words for arrays
            error = "" if kind == "sparse" else f"ValueError: {told}"
        except BaseException as told:
            error = f"{type(told).__name__}: {told}"
        pipe.send((error[:500], size, _peak() - before, time.process_time() - begin))


def _peak(reset: bool = False) -> int:
    """Return the most memory since the last reset; after a reset what is held."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return 1024 * int(status["VmHWM"].split()[0])
