"""Runs of the command line that can be killed: in a process of their own, or in a fork of one that has imported all.

A fresh process spends most of its time on imports. A fork begins where those end, so that a kill costs less than a
second, and most of them meet the command at work.
"""

import atexit
import multiprocessing as mp
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .worker import IDLE, processor_seconds

COMMAND = [sys.executable, "-m", "visionnmf.apps.cli"]
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Run(Protocol):
    """A command that runs."""

    pid: int
    said: Path

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""


class Fresh:
    """A command in a process of its own."""

    def __init__(self, words: Sequence[str], said: Path, most: int | None = None) -> None:
        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            if most is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

        self.said = said
        with said.open("wb") as file:
            self.process = subprocess.Popen(
                [*COMMAND, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
                preexec_fn=prepare,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        self.pid = self.process.pid

    def poll(self) -> int | None:
        return self.process.poll()


class Forks:
    """A process that has imported the commands, and forks one for each run."""

    def __init__(self) -> None:
        self.pipe, theirs = mp.Pipe()
        self.server = mp.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
        self.server.start()
        theirs.close()
        self.is_ready = False

    def ready(self) -> bool:
        """Whether all is imported, which takes seconds."""
        if not self.is_ready and self.pipe.poll():
            self.is_ready = bool(self.pipe.recv())
        return self.is_ready

    def run(self, words: Sequence[str], said: Path, most: int | None = None) -> "Fork":
        return Fork(self, self.ask("run", list(words), said, most), said)

    def ask(self, *question: Any) -> Any:
        self.pipe.send(question)
        return self.pipe.recv()

    def stop(self) -> None:
        self.server.kill()
        self.server.join()


class Fork:
    """A command in a fork."""

    def __init__(self, forks: Forks, pid: int, said: Path) -> None:
        self.forks, self.pid, self.said = forks, pid, said
        self.code: int | None = None

    def poll(self) -> int | None:
        if self.code is None:
            self.code = self.forks.ask("poll", self.pid)
        return self.code


def wait(run: Run) -> int | str:
    """Return the exit code of a run; a sentence when it hangs, which a busy machine does not make of it."""
    last, since = 0.0, time.monotonic()
    while run.poll() is None:
        now = processor_seconds(run.pid)
        if now - last > 0.05:
            last, since = now, time.monotonic()
        if time.monotonic() - since > IDLE:
            os.kill(run.pid, signal.SIGKILL)
            return f"hangs: no work of the processor for {IDLE:.0f} s"
        time.sleep(0.002)
    code = run.poll()
    assert code is not None
    return code


def _load_kernels() -> None:
    """Solve small problems of the applications, which load their kernels as imports load modules."""
    from visionnmf.apps.background import BackgroundModel
    from visionnmf.apps.faces import FaceRecognizer
    from visionnmf.apps.masquerade import SessionScorer
    from visionnmf.apps.segmentation import segment

    frames = np.random.default_rng(0).integers(90, 110, (12, 16, 20)).astype(np.uint8)
    rows = frames.reshape(12, -1)
    segment(np.repeat(frames[0][..., None], 3, axis=2), n_segments=2)
    list(BackgroundModel(n_components=2).fit(frames).apply(frames[:3]))
    FaceRecognizer(n_components=4, image_shape=(16, 20), random_state=0).fit(rows, np.arange(12) % 3).predict(rows)
    SessionScorer().fit([["ls", "cd", "vi"] * 10, ["ls", "make"] * 15] * 6)


def _serve(pipe: Connection) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    from visionnmf.apps import (  # noqa: F401
        annotation,
        background,
        cli,
        faces,
        features,
        masquerade,
        multiview,
        segmentation,
    )

    _load_kernels()
    for each in SIGNALS[1:]:  # a signal that comes before the command has begun ends the fork at once
        signal.signal(each, signal.SIG_DFL)
    pipe.send(True)
    codes: dict[int, int] = {}
    while True:
        kind, *rest = pipe.recv()
        if kind == "run":
            pid = os.fork()
            if pid == 0:
                pipe.close()
                _become(cli.main, *rest)
            codes.pop(pid, None)  # the number of an earlier run, on a machine that has started many processes since
            pipe.send(pid)
            continue
        pid = rest[0]
        if pid not in codes:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                codes[pid] = os.waitstatus_to_exitcode(status)
        pipe.send(codes.get(pid))


def _become(main: Any, words: list[str], said: Path, most: int | None) -> None:
    """Run a command in a fork, and end it as Python ends."""
    code = 1
    try:
        for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, os.devnull, os.O_WRONLY)):
            os.dup2(os.open(path, flags), number)
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        if most is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        sys.argv = ["visionnmf", *words]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        main()
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for step in (threading._shutdown, atexit._run_exitfuncs):  # type: ignore[attr-defined]  # as Python ends
            with suppress(BaseException):  # at its end a signal changes the exit code no more
                step()
        os._exit(code)
