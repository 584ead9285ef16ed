"""What tests share."""

import contextlib
import inspect
import json
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.ndimage import gaussian_filter
from typer.main import get_command
from typer.testing import CliRunner

from visionnmf.apps.cli import app
from visionnmf.apps.reproduce.data import data_folder
from visionnmf.io import output_file

DATA = data_folder()
needs_data = pytest.mark.skipif(DATA is None, reason="no research data (VISIONNMF_DATA, ../shared/data)")
SHAPE = (16, 16)  # of made faces
COMMANDS = [f"c{i}" for i in range(60)]
LENGTH = 100  # of a session


def made_faces(rng, n_people=6, n_images=8):
    """People as smooth random pictures, images of one person as mixtures of three of them: light, expression, pose."""
    images, labels = [], []
    for person in range(n_people):
        looks = gaussian_filter(rng.random((3, *SHAPE)), (0, 1.5, 1.5))
        looks = (looks - looks.min()) / (looks.max() - looks.min())
        shares = rng.dirichlet(np.ones(3), n_images)
        images.append(np.tensordot(shares, looks, 1) * 200 + 20)
        labels += [f"person {person}"] * n_images
    return np.concatenate(images).astype(np.uint8), np.array(labels)


def random_array(shape, *, rng, **options):
    """Return a sparse array of SciPy, whose name for the generator changed with 1.15."""
    name = "rng" if "rng" in inspect.signature(sp.random_array).parameters else "random_state"
    return sp.random_array(shape, **{name: rng}, **options)


def data_file(name: str) -> Path:
    """Return a file of the research data, or skip the test that asks for it."""
    if DATA is None or not (DATA / name).exists():
        pytest.skip(f"no {name} in the research data (VISIONNMF_DATA, ../shared/data)")
    return DATA / name


@contextlib.contextmanager
def serving(answer):
    """Serve HTTP on this machine: its address, and the paths that were asked for, each answered by `answer`."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            with contextlib.suppress(OSError):  # the client has hung up
                answer(self)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield SimpleNamespace(url=f"http://127.0.0.1:{server.server_port}", asked=asked)
        server.shutdown()


def rows(images):
    return images.reshape(len(images), -1).astype(np.float32)


def run_command(*arguments):
    """Run `visionnmf` in this process."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def json_lines(result):
    """Return the reports that a command has printed with --json."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def all_commands(group=None, before=""):
    """Yield each command with its full name."""
    group = group or get_command(app)
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "list_commands"):
            yield from all_commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def squares(most, number):
    """Return rows of an evaluation; here, so that other processes can import it."""
    if number > most:
        raise ValueError(f"{number} is too much")
    return [{"number": number, "square": number**2}]


def killed(_number):
    """End this process as a system does that runs out of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def killed_after_writing(folder, number):
    """Write a result, then end this process if no other process has done this job before; return how often it ran."""
    begun = folder / f"begun {number} {os.getpid()}"
    begun.touch()
    with output_file(folder / f"{number}.txt") as temporary:
        temporary.write_text(f"result {number}")
    times = len(list(folder.glob(f"begun {number} *")))
    if times == 1:
        killed(number)
    return times


def slow(folder, number):
    """Leave a file that says that this job has begun, and take 0.2 s."""
    (folder / f"{number}").touch()
    time.sleep(0.2)


def make_chain(rng):
    """A user's habits: each command is followed by a few others; all users share all commands."""
    liking = rng.dirichlet(np.full(len(COMMANDS), 0.3))
    return np.array([rng.dirichlet(0.02 + 6 * liking) for _ in COMMANDS])


def walk(chain, rng, n, length=LENGTH):
    """Return sessions of a user with these habits."""
    cumulative = chain.cumsum(axis=1)
    draws = rng.random((n, length))
    found = []
    for row in draws:
        state, session = int(row[0] * len(COMMANDS)), []
        for u in row:
            state = min(int(np.searchsorted(cumulative[state], u)), len(COMMANDS) - 1)
            session.append(COMMANDS[state])
        found.append(session)
    return found


def write_video(path, frames, frame_rate=10, codec="ffv1"):
    """Write frames and return the path."""
    from visionnmf.io import VideoWriter  # imports OpenCV, which the child that decodes does without

    height, width = frames[0].shape[:2]
    with VideoWriter(path, width=width, height=height, frame_rate=frame_rate, codec=codec) as writer:
        for frame in frames:
            writer.write(frame)
    return path
