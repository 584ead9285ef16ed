"""Commands that are killed at random moments, or run on a full disk: outputs are whole or absent."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from visionnmf.datasets import make_mosaic, make_surveillance
from visionnmf.io import VideoWriter, write_image

COMMAND = [sys.executable, "-m", "visionnmf.apps.cli"]
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def attack(seed: int, seconds: float, folder: Path) -> tuple[int, list[str]]:
    """Run commands until the time is over; return how many, and what was wrong."""
    dice = random.Random(seed)
    commands = _commands(folder)
    whole: dict[str, tuple[float, dict[str, bytes]]] = {}
    failures: list[str] = []
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        name = dice.choice(sorted(commands))
        out = folder / f"out{number}"
        if name not in whole:  # how long it takes, and what it writes when nothing happens
            begin = time.monotonic()
            done = _run(commands[name], out)
            code = done.wait()
            whole[name] = time.monotonic() - begin, _content(out)
            if code or not whole[name][1]:
                failures.append(f"{name}: rc {code} when nothing happens: {_said(done)}")
        elif dice.random() < 0.25:
            failures += _on_a_full_disk(commands[name], name, out, whole[name][1], dice)
        else:
            failures += _killed(commands[name], name, out, whole[name], dice)
        number += 1
    return number, failures


def _commands(folder: Path) -> dict[str, list[str]]:
    """Return commands by name, without their folder or file for results, which comes last."""
    write_image(folder / "photo.png", make_mosaic(80, 100, random_state=0).image)
    frames = make_surveillance(30, 48, 64, random_state=0).frames
    with VideoWriter(folder / "clip.mp4", width=64, height=48, frame_rate=25, codec="h264") as writer:
        for frame in frames:
            writer.write(frame)
    rng = np.random.default_rng(0)
    (folder / "ann.log").write_text("\n".join(rng.choice(["ls", "cd", "vi", "make"], 3000)))
    np.save(folder / "rows.npy", rng.random((300, 20)))
    return {
        "segment": ["segment", str(folder / "photo.png"), "--out"],
        "background": ["background", str(folder / "clip.mp4"), "--out"],
        "masquerade": ["masquerade", "train", str(folder / "ann.log"), "--model"],
        "stream": ["stream", str(folder / "rows.npy"), "--rank", "3", "--model"],
    }


def _run(command: list[str], out: Path, most: int | None = None) -> subprocess.Popen[bytes]:
    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if most is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    out.mkdir(exist_ok=True)
    target = out / "m.npz" if command[-1] == "--model" else out
    return subprocess.Popen(
        [*COMMAND, *command, str(target)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=prepare,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def _content(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def _said(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return process.stderr.read().decode(errors="replace")[-300:]


def _killed(
    command: list[str], name: str, out: Path, whole: tuple[float, dict[str, bytes]], dice: random.Random
) -> list[str]:
    seconds, expected = whole
    number = dice.choice(SIGNALS)
    process = _run(command, out)
    # half of the signals when writing has begun, which takes little of the time
    limit = time.monotonic() + dice.uniform(0, 1.1 * seconds)
    await_file = dice.random() < 0.5
    while process.poll() is None and (not any(out.iterdir()) if await_file else time.monotonic() < limit):
        time.sleep(0.001)
    process.send_signal(number)
    code = process.wait(60)
    what = f"{name}, {number.name}: "
    found = _content(out)
    left = {file for file in found if Path(file).name.startswith(".")}
    said = _said(process)
    if left and number != signal.SIGKILL:
        return [f"{what}left {sorted(left)}"]
    if "Traceback" in said and number != signal.SIGKILL and "KeyboardInterrupt" not in said:
        return [f"{what}{said}"]
    if code not in (0, -number, 128 + number):
        return [f"{what}exit code {code}: {said}"]
    if name != "background" and not _whole(found, expected, left):
        return [f"{what}{sorted(found)} in place of {sorted(expected)} or nothing"]
    again = _run([*command[:-1], "--force", command[-1]], out)
    if again.wait(120) != 0 or not set(expected) <= set(_content(out)):
        return [f"{what}the next run ends with {again.returncode}: {_said(again)}"]
    return []


def _whole(found: dict[str, bytes], expected: dict[str, bytes], left: set[str]) -> bool:
    """Whether the outputs are those of a whole run, or none."""
    names = set(found) - left
    return not names or (names == set(expected) and all(len(found[n]) == len(expected[n]) for n in names))


def _on_a_full_disk(
    command: list[str], name: str, out: Path, expected: dict[str, bytes], dice: random.Random
) -> list[str]:
    most = dice.randrange(max(len(content) for content in expected.values()))
    process = _run(command, out, most)
    code, said = process.wait(120), _said(process)
    found = _content(out)
    what = f"{name}, files of at most {most} bytes: "
    if code not in (1, 2) or "Traceback" in said:
        return [f"{what}exit code {code}: {said}"]
    return [f"{what}left {sorted(found)}"] if found else []
