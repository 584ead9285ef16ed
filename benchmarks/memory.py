"""Memory of what is long: clips that are taken apart, and a log on standard input without an end.

``python benchmarks/memory.py`` runs all but hour, ``python benchmarks/memory.py frames`` one part: frames (30000
through ``BackgroundModel.apply``), stdin (a million lines through ``masquerade score -``), and hour, which is
to be asked for (``visionnmf background`` on an hour of 1920 by 1080, of 3600 frames or as many as are given). Linux
only.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
from _main import main
from numpy.typing import NDArray

from visionnmf.apps import masquerade
from visionnmf.apps.background import BackgroundModel
from visionnmf.datasets import iter_surveillance, make_surveillance
from visionnmf.io import VideoWriter

Array = NDArray[Any]

FRAME_MARKS = (1000, 10_000, 30_000)
LARGE, HOUR_FRAMES, MADE = (1920, 1080), 3600, 60  # pixels; frames of the hour; and different ones, which are repeated
TENTHS = 6  # parts of the hour, of ten minutes
LINE_MARKS = (10_000, 100_000, 1_000_000)
SESSION = 100  # lines


def peak(what: str = "VmHWM", pid: int | str = "self") -> float:
    """Return the most memory so far of a process, or what it has now (VmRSS), in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(what)).split()[1]) / 1024


def frames() -> None:
    """Measure what is resident while frames that a generator makes are taken apart."""
    clip = make_surveillance(60, random_state=0).frames
    model = BackgroundModel().fit(clip)

    def endless(n: int) -> Iterator[Array]:
        for i in range(n):
            yield clip[i % len(clip)]

    print(f"\n## BackgroundModel.apply, frames of {clip.shape[1]} x {clip.shape[2]} from a generator\n")
    print("| frames | resident, MB | growth | CPU ms a frame since the row before |")
    print("| --- | --- | --- | --- |")
    first, done, begin = 0.0, 0, time.process_time()
    for number, _ in enumerate(model.apply(endless(FRAME_MARKS[-1])), start=1):
        if number in FRAME_MARKS:
            size, seconds = peak("VmRSS"), time.process_time() - begin
            first = first or size
            print(
                f"| {number} | {size:.1f} | {size / first - 1:+.1%} | {1e3 * seconds / (number - done):.2f} |",
                flush=True,
            )
            done, begin = number, time.process_time()


class _Seen(NamedTuple):
    """A process at one moment: which pass over the file, how far it is, and what is resident, in MB."""

    turn: int
    share: float
    resident: float
    peak: float


def hour(frames: int = 0) -> None:
    """Measure what is resident in ``visionnmf background`` on an hour of large frames, over its two passes."""
    frames = -(-(frames or HOUR_FRAMES) // MADE) * MADE
    with tempfile.TemporaryDirectory() as folder:
        short, clip = Path(folder) / "short.mp4", Path(folder) / "hour.mp4"
        rate = frames / 3600
        with VideoWriter(short, width=LARGE[0], height=LARGE[1], frame_rate=rate, codec="h264") as writer:
            for frame, _ in iter_surveillance(MADE, *LARGE[::-1], noise=0.008, random_state=0):
                writer.write(frame)
        repeat_clip(short, clip, frames // MADE)
        words = ["background", str(clip), "--out", folder, "--quiet"]
        begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        with subprocess.Popen([sys.executable, "-m", "visionnmf.apps.cli", *words]) as child:
            seen = list(_watch(child, clip))
        if child.returncode:
            raise SystemExit(f"the command ended with exit code {child.returncode}")
        if not seen:
            raise SystemExit("the command ended before its memory was read")
        seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"\n## visionnmf background, an hour of {LARGE[0]} x {LARGE[1]}, {frames} frames\n")
        print(f"{seconds:.0f} s, {cpu:.0f} s of the processor\n")
    print("| pass | minutes of the video | resident, mean MB | most | peak so far |")
    print("| --- | --- | --- | --- | --- |")
    for turn, name in enumerate(("learning", "masking")):
        for tenth in range(TENTHS):
            part = [one for one in seen if one.turn == turn and int(TENTHS * one.share) == tenth]
            if part:
                sizes = [one.resident for one in part]
                print(
                    f"| {name} | {60 * tenth // TENTHS} to {60 * (tenth + 1) // TENTHS} | {np.mean(sizes):.0f} "
                    f"| {max(sizes):.0f} | {max(one.peak for one in part):.0f} |"
                )
    print(f"\npeak of the process: {max(one.peak for one in seen):.0f} MB", flush=True)


def _watch(child: subprocess.Popen[bytes], path: Path) -> Iterator[_Seen]:
    """Yield what is resident in a process that reads a file twice, every .2 seconds until it ends."""
    turn, share, size = 0, 0.0, path.stat().st_size
    while child.poll() is None:
        try:
            position = _position(child.pid, path)
            sizes = peak("VmRSS", child.pid), peak("VmHWM", child.pid)
        except (OSError, StopIteration):  # it has closed a file meanwhile, or is ending
            time.sleep(0.2)
            continue
        if position is not None:  # else it is between the two, or before or after
            before, share = share, min(position / size, 1 - 1e-9)
            turn += turn == 0 and before > 0.9 and share < 0.5
        yield _Seen(turn, share, *sizes)
        time.sleep(0.2)


def repeat_clip(source: Path, path: Path, times: int) -> None:
    """Write a clip one time after the other, without encoding it again."""
    with av.open(str(path), "w", options={"movflags": "+faststart"}) as output:  # what is read first stands first
        stream = None
        for turn in range(times):
            with av.open(str(source)) as given:
                video = given.streams.video[0]
                stream = stream or output.add_stream_from_template(video)
                for packet in given.demux(video):
                    if packet.dts is not None:
                        packet.pts += turn * video.duration
                        packet.dts += turn * video.duration
                        packet.stream = stream
                        output.mux(packet)


def stdin() -> None:
    """Measure what is resident in a process that reads commands of one user from standard input, and learns on."""
    rng = np.random.default_rng(0)
    words = [f"c{k}" for k in range(200)]
    shares = rng.dirichlet(np.full(200, 0.1))

    def lines(n: int) -> str:
        return "\n".join(rng.choice(words, n, p=shares)) + "\n"

    print(f"\n## masquerade score -, sessions of {SESSION} lines\n")
    print("| lines | resident, MB | growth |")
    print("| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        log, model = Path(folder) / "ann.log", Path(folder) / "m.npz"
        log.write_text(lines(50 * SESSION))
        masquerade.train([str(log)], model)
        command = [sys.executable, "-m", "visionnmf.apps.cli", "masquerade", "score", str(model), "-", "--user", "ann"]
        with subprocess.Popen(
            [*command, "--json"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        ) as child:
            assert child.stdin is not None and child.stdout is not None
            written, first = 0, 0.0
            for mark in LINE_MARKS:
                while written < mark:
                    piece = min(mark - written, 10 * SESSION)  # whose results fit into the pipe while this is written
                    child.stdin.write(lines(piece))
                    child.stdin.flush()
                    written += piece
                    for _ in range(piece // SESSION):
                        child.stdout.readline()
                size = peak("VmRSS", child.pid)
                first = first or size
                print(f"| {mark} | {size:.1f} | {size / first - 1:+.1%} |", flush=True)
            child.kill()


def _position(pid: int, path: Path) -> int | None:
    """Return where a process stands in a file; None while it is not open."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        if entry.resolve() == path.resolve():
            return int(Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text().split()[1])
    return None


PARTS = {
    "frames": frames,
    "hour": hour,
    "stdin": stdin,
}
QUICK = {
    "FRAME_MARKS": (20, 40),
    "LARGE": (64, 48),
    "HOUR_FRAMES": 40,
    "MADE": 20,
    "LINE_MARKS": (1000, 2000),
}

if __name__ == "__main__":
    default = ["frames", "stdin"]
    main(PARTS, globals(), QUICK, default=[*default, "hour"] if "--quick" in sys.argv else default)
