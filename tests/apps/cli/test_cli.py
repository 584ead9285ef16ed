"""The command line, as a user meets it: results, messages, exit codes."""

import functools
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from importlib.metadata import version
from pathlib import Path

import cv2
import numpy as np
import pytest
from helpers import json_lines, run_command as run, write_video
from PIL import Image

from visionnmf.apps.cli import COMMANDS
from visionnmf.apps.cli.run import error_line
from visionnmf.apps.cli.versions import TRIED, Tried, versions
from visionnmf.datasets import make_mosaic, make_surveillance

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "photo.png"
    Image.fromarray(make_mosaic(60, 80, random_state=0).image).save(path)
    return path


@pytest.fixture
def clip(tmp_path):
    return write_video(tmp_path / "clip.mp4", make_surveillance(20, 48, 64, random_state=0).frames, 25, "h264")


PICTURES = ["photo_boundaries.png", "photo_labels.png", "photo_overlay.png", "photo_segments.png"]


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def bad(tmp_path, kind):
    path = tmp_path / f"bad{kind}"
    if kind == "empty.png":
        path.write_bytes(b"")
    elif kind == "text.png":
        path.write_text("not a picture")
    elif kind == "nan.tif":
        import tifffile

        tifffile.imwrite(path, np.full((4, 4), np.nan, np.float32))
    elif kind == "folder":
        path.mkdir()
    return path


@pytest.mark.parametrize("command", ["segment", "background"])
@pytest.mark.parametrize("kind", ["missing.png", "empty.png", "text.png", "nan.tif", "folder"])
def test_input_that_cannot_be_used_is_one_line_and_exit_code_2(command, kind, tmp_path):
    out = tmp_path / "out"
    result = run(command, bad(tmp_path, kind), "--out", out)
    assert result.exit_code == 2 and not result.stdout
    assert result.stderr.startswith("visionnmf: ") and result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr and f"bad{kind}" in result.stderr
    assert not out.exists() or not files(out)


def test_a_batch_goes_on_and_reports_at_the_end(picture, tmp_path):
    empty = bad(tmp_path, "empty.png")
    result = run("segment", empty, picture, tmp_path / "no*.jpg", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert files(tmp_path / "out") == PICTURES
    assert result.stderr.splitlines()[-1] == "visionnmf: 2 of 3 images failed"
    failed, done = json_lines(run("segment", empty, picture, "--out", tmp_path / "out", "--json", "--force"))
    assert failed["state"] == "failed" and "empty.png" in failed["error"] and done["state"] == "done"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["segment", "x.png", "--segments", "0"], "neither auto nor a whole number"),
        (["segment", "x.png", "--segments", "3", "--scale", "0.1"], "must be left out where a scale is given"),
        (["segment"], "IMAGE"),
        (["background", "--events", "scenes", "x.mp4"], "--events must be one of scene, objects; got 'scenes'"),
        (["background", "x.mp4", "--events", "Object"], "--events must be one of scene, objects; got 'Object'"),
        (["paint", "x.png"], "paint"),
        (["facess"], "Did you mean 'faces'"),
        (["faces", "traim"], "Did you mean 'train'"),
    ],
)
def test_bad_usage_is_exit_code_2(arguments, word):
    result = run(*arguments)
    assert result.exit_code == 2 and word in result.stderr and "Traceback" not in result.stderr


def test_a_fault_of_ours_is_one_line_and_exit_code_1(picture, tmp_path, monkeypatch):
    monkeypatch.setattr("visionnmf.apps.segmentation.process.process_image", lambda *_, **__: 1 / 0)
    result = run("segment", picture, "--out", tmp_path)
    assert result.exit_code == 1 and result.stderr.count("\n") == 1
    assert "a fault of visionnmf (ZeroDivisionError: division by zero); --debug shows where" in result.stderr


@pytest.mark.parametrize(("installed", "said"), [("1.26.4", "older"), ("9.1", "newer"), ("2.0", "")])
def test_a_fault_beside_a_library_that_was_not_tried_names_it(installed, said, monkeypatch):
    tried = {"numpy": Tried("numpy", "2.0", "2.5.5")}
    monkeypatch.setattr("visionnmf.apps.cli.versions.TRIED", tried)
    monkeypatch.setattr("visionnmf.apps.cli.versions.version", lambda _: installed)
    expected = f"numpy {installed} is {said} than any tried (2.0 to 2.5.5), which may be the cause" if said else "zero"
    assert expected in error_line(ZeroDivisionError("zero"), "a.png")


def test_the_oldest_versions_are_those_that_are_declared():
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8")
    declared = tomllib.loads(text)["project"]["dependencies"]
    assert {f"{package}>={oldest}" for package, oldest, _ in TRIED.values()} <= {*declared}


def test_debug_shows_the_traceback(tmp_path):
    command = [sys.executable, "-m", "visionnmf.apps.cli", "segment", str(tmp_path / "none.png")]
    plain = subprocess.run(command, capture_output=True, text=True, check=False)
    assert plain.returncode == 2 and plain.stderr.count("\n") == 1
    debug = subprocess.run([*command, "--debug"], capture_output=True, text=True, check=False)
    assert debug.returncode != 0 and "Traceback" in debug.stderr
    assert debug.stderr.splitlines()[-1] == versions() and debug.stderr.count(versions()) == 1


def test_help_lists_each_command_in_a_line():
    lines = run("--help").stdout.split("Commands:\n")[1].splitlines()
    names = [line.split()[0] for line in lines]
    assert names[:2] == ["segment", "background"] and names == list(COMMANDS)
    assert all(line.endswith(".") and "..." not in line for line in lines)
    assert run("segment", "--help").stdout.startswith("Usage: visionnmf segment [OPTIONS] IMAGE...\n")
    assert "Usage: visionnmf segment [OPTIONS] IMAGE...\n" in run("segment").stderr
    assert run("evaluate", "segment", "--help").stdout.startswith("Usage: visionnmf evaluate segment [OPTIONS]\n")
    assert "Usage: visionnmf masquerade score [OPTIONS] M.npz LOG...\n" in run("masquerade", "score", "--help").stdout


def test_python_runs_the_package_which_tells_its_version():
    command = [sys.executable, "-m", "visionnmf", "--version"]
    line = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert line.startswith("visionnmf ") and line.count("\n") == 1
    assert all(f"{name} {version(name)}" in line for name in ("numpy", "scipy", "scikit-learn", "numba", "av"))


def test_a_file_named_twice_is_done_once_and_a_failure_reserves_no_name(picture, tmp_path):
    spelled = picture.parent / "." / ".." / picture.parent.name / picture.name
    once = run("segment", picture, spelled, "--out", tmp_path / "a", "--json")
    assert once.exit_code == 0 and len(json_lines(once)) == 1
    broken = tmp_path / "photo.jpg"
    broken.write_bytes(b"")
    after = run("segment", broken, picture, "--out", tmp_path / "b")
    assert after.exit_code == 1 and files(tmp_path / "b") == PICTURES


def test_a_warning_is_one_line_and_in_the_json(tmp_path):
    path = tmp_path / "clear.png"
    pixels = np.full((40, 60, 4), 100, np.uint8)
    pixels[:20, :, 3] = 0
    Image.fromarray(pixels).save(path)
    result = run("segment", path, "--out", tmp_path / "out", "--json")
    report = json.loads(result.stdout)
    assert len(report["warnings"]) == 1 and "transparent" in report["warnings"][0]
    assert result.stderr == f"visionnmf: {report['warnings'][0]}\n"


def test_an_out_that_is_no_folder_is_refused_before_the_work(picture, clip):
    for command, source in (("segment", clip), ("background", picture)):
        result = run(command, source, "--out", picture)
        assert result.exit_code == 2 and result.stderr.count("\n") == 1
        assert f"--out {picture}: is a file, not a folder" in result.stderr


def test_a_reader_that_has_gone_ends_the_command_in_silence(histories, tmp_path):
    model = tmp_path / "m.npz"
    run("masquerade", "train", histories["ann"], "--model", model)
    command = f"{sys.executable} -m visionnmf.apps.cli masquerade score {model} {histories['ann']} | head -1"
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert ended.stdout.count("\n") == 1 and not ended.stderr


@pytest.mark.slow
def test_a_camera_that_pans_is_doubted_and_its_shake_not_compensated(tmp_path):
    street = np.random.default_rng(0).integers(0, 256, (20, 120), np.uint8)
    street = np.repeat(cv2.resize(street, (720, 120), interpolation=cv2.INTER_CUBIC)[..., None], 3, axis=2)
    path = write_video(tmp_path / "pan.mkv", [street[:, 2 * t : 2 * t + 160] for t in range(200)], 25)
    for live in ([], ["--live"]):
        result = run("background", path, "--out", tmp_path / f"out{len(live)}", *live)
        assert "does the camera move?" in result.stdout and "compensated" not in result.stdout


@pytest.fixture
def histories(tmp_path):
    rng = np.random.default_rng(0)
    habits = {"ann": ["ls", "cd", "vi", "make"], "bob": ["ls", "mail", "lpr", "who"], "eve": ["gcc", "nc", "ssh", "su"]}
    for name, commands in habits.items():
        (tmp_path / f"{name}.log").write_text("\n".join(rng.choice(commands, 3000)))
    return {name: tmp_path / f"{name}.log" for name in habits}


@pytest.fixture(scope="module")
def long_clip(tmp_path_factory):
    noise = np.random.default_rng(0).integers(0, 255, (200, 180, 240, 3), dtype=np.uint8)  # slow to encode
    return write_video(tmp_path_factory.mktemp("long") / "long.mp4", noise, 25, "h264")


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="POSIX signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupted_run_leaves_no_file_and_the_input_as_it_was(number, code, long_clip, tmp_path):
    source = long_clip
    before = source.read_bytes()
    out = tmp_path / "out"
    command = [sys.executable, "-m", "visionnmf.apps.cli", "background", str(source), "--out", str(out)]
    # a suite that runs in the background hands on an ignored SIGINT, which the command would respect
    heed = functools.partial(signal.signal, number, signal.SIG_DFL)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    deadline = time.monotonic() + 60
    while not (out.exists() and any(out.iterdir())) and time.monotonic() < deadline:  # writing has begun
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in stderr
    assert not out.exists() and source.read_bytes() == before  # an empty folder is not left either
