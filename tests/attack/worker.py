"""A process that reads mutated files, and what it watches."""

import multiprocessing as mp
import os
import random
import resource
import time
from multiprocessing.connection import Connection
from pathlib import Path

MEMORY = {"models": (2, 200 << 20)}  # times what is returned, or the file that is refused, and bytes beside
USUAL_MEMORY = (4, 300 << 20)
SECONDS = 10.0  # of the processor, beside what the size of the result takes
IDLE = 300.0  # seconds without any work of the processor, after which a process hangs
ADDRESSES = 16 << 30  # bytes that a worker may take; what it really takes is looked at case by case


class Worker:
    """A process that reads files, one after the other."""

    def __init__(self) -> None:
        self.context = mp.get_context("spawn")
        self.process: mp.process.BaseProcess | None = None

    def start(self) -> None:
        self.pipe, theirs = self.context.Pipe()
        self.process = self.context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.pipe.recv()  # ready: imports take seconds

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None

    def read(self, kind: str, seed: int, number: int, path: Path | None) -> str:
        """Read a file, or make the case of a number where there is none; return what was wrong with it."""
        if self.process is None:
            self.start()
        assert self.process is not None
        try:
            self.pipe.send((kind, seed, number, path))
            waited = self._wait(6 * SECONDS)
            if waited:
                self.stop()
                return waited
            error, size, memory, seconds = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(10)
            code = self.process.exitcode
            self.stop()
            return f"the process died with {code}"
        times, beside = MEMORY.get(kind, USUAL_MEMORY)
        if not error and memory > times * size + beside:
            error = f"{memory >> 20} MiB for a result of {size} bytes"
        if not error and seconds > SECONDS + size / 5e6:
            error = f"{seconds:.1f} s for a result of {size} bytes"
        return str(error)

    def _wait(self, most: float) -> str:
        """Wait for an answer; the machine may be busy, so the processor's seconds count."""
        assert self.process is not None and self.process.pid is not None
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


def _work(pipe: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):  # decoders print
        os.dup2(nowhere, number)
    from visionnmf.exceptions import VisionNMFError
    from visionnmf.io.decoding import decode_apart

    from . import targets

    decode_apart()
    pipe.send("ready")
    while True:
        kind, seed, number, path = pipe.recv()
        error, size = "", 0
        before, begin = _peak(reset=True), time.process_time()
        try:
            made = path is None
            size = targets.MADE[kind](random.Random(f"{seed}:{number}")) if made else targets.READERS[kind](path)
        except VisionNMFError as told:
            size = path.stat().st_size if path else 0  # what was refused may have been read once
            if "\n" in str(told):
                error = f"more than one line: {told}"
        except ValueError as told:  # scikit-learn's own words for arrays
            error = "" if kind == "sparse" else f"ValueError: {told}"
        except BaseException as told:
            error = f"{type(told).__name__}: {told}"
        memory, seconds = _peak() - before, time.process_time() - begin
        pipe.send((error[:500], size, memory, seconds))


def _peak(reset: bool = False) -> int:
    """Return the most memory since the last reset; after a reset what is held."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return 1024 * int(status["VmHWM"].split()[0])
