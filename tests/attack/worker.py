"""A process that reads mutated files, and what it watches."""

import multiprocessing as mp
import os
import random
import resource
import time
from multiprocessing.connection import Connection
from pathlib import Path

MEMORY = 300 << 20  # beside four times what is returned, or the file that is refused
SECONDS = 10.0  # beside what the size of the result takes
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
        """Return what was wrong, or nothing."""
        if self.process is None:
            self.start()
        assert self.process is not None
        try:
            self.pipe.send((kind, seed, number, path))
            if not self.pipe.poll(6 * SECONDS):
                self.stop()
                return f"no answer within {6 * SECONDS:.0f} s"
            error, size, memory, seconds = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(10)
            code = self.process.exitcode
            self.process = None
            return f"the process died with {code}"
        if error:
            return error
        if memory > 4 * size + MEMORY:
            return f"{memory >> 20} MiB for a result of {size} bytes"
        if seconds > SECONDS + size / 5e6:
            return f"{seconds:.1f} s for a result of {size} bytes"
        return ""


def _work(pipe: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):  # decoders print
        os.dup2(nowhere, number)
    from visionnmf.exceptions import VisionNMFError

    from . import targets

    pipe.send("ready")
    while True:
        kind, seed, number, path = pipe.recv()
        error, size = "", 0
        before, begin = _peak(reset=True), time.process_time()
        try:
            size = targets.sparse(random.Random(f"{seed}:{number}")) if path is None else targets.READERS[kind](path)
        except VisionNMFError as told:
            size = path.stat().st_size if path else 0  # what was refused may have been read once
            if "\n" in str(told):
                error = f"more than one line: {told}"
        except ValueError as told:  # scikit-learn's own words for arrays
            error = "" if path is None else f"ValueError: {told}"
        except BaseException as told:
            error = f"{type(told).__name__}: {told}"
        pipe.send((error[:500], size, _peak() - before, time.process_time() - begin))


def _peak(reset: bool = False) -> int:
    """Return the most memory since the last reset; after a reset what is held."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return 1024 * int(status["VmHWM"].split()[0])
