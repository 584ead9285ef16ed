"""Following a source: what is written, how a killed run goes on, and the command."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
import pytest
from background_settings import follow
from helpers import write_video
from typer.testing import CliRunner

from visionnmf.apps.background import BackgroundModel, OnlineBackgroundModel
from visionnmf.apps.cli import app
from visionnmf.datasets import make_surveillance
from visionnmf.exceptions import OutputExistsError, UnreadableError, UnsupportedError
from visionnmf.io import VideoReader, read_image, write_image

pytestmark = pytest.mark.slow

RATE = 2  # frames per second: states are written every twenty frames
N = 120


@pytest.fixture(scope="module")
def made():
    return make_surveillance(N, 48, 64, random_state=2)


@pytest.fixture(scope="module")
def clip(made, tmp_path_factory):
    return write_video(tmp_path_factory.mktemp("live") / "yard.mkv", made.frames, RATE)


def masks_in(folder):
    return {path.name: read_image(path)[..., 0] for path in sorted(folder.glob("[0-9]*.png"))}


def test_what_is_written(clip, made, tmp_path):
    seen = []
    report = follow(
        clip,
        out=tmp_path,
        warm_up=10,
        masks="png",
        events="scene",
        frame_table=True,
        state=tmp_path / "at.npz",
        on_frame=seen.append,
    )
    names = {path.name for path in tmp_path.iterdir()}
    assert {"yard_background.png", "yard_masks", "yard_events.csv", "yard_frames.csv", "at.npz"} <= names
    assert (report.frames, report.first_frame, report.width, report.height) == (N, 0, 64, 48)
    expected = OnlineBackgroundModel(warm_up=10, frame_rate=RATE)
    masks = [part.mask for part in expected.follow(made.frames)]
    assert [part.index for part in seen] == list(range(N))
    assert [part.time for part in seen] == pytest.approx(np.arange(N) / RATE, abs=1e-3)
    np.testing.assert_array_equal([part.mask for part in seen], masks)
    np.testing.assert_array_equal(list(masks_in(tmp_path / "yard_masks").values()), masks)
    np.testing.assert_array_equal(read_image(tmp_path / "yard_background.png"), expected.background_)
    assert report.foreground_share == pytest.approx(np.mean(masks) / 255)
    with (tmp_path / "yard_frames.csv").open() as file:
        assert len(list(csv.DictReader(file))) == N
    assert OnlineBackgroundModel.load(tmp_path / "at.npz").n_frames_seen_ == N
    assert "120 frames of 64x48" in str(report)
    with pytest.raises(OutputExistsError):
        follow(clip, out=tmp_path, masks="png")


def test_a_run_that_was_ended_goes_on(clip, tmp_path):
    whole, parts = [], []
    follow(clip, out=tmp_path / "a", warm_up=10, on_frame=lambda part: whole.append((part.time, part.mask)))
    asked = iter(range(10_000))
    for until in (lambda: next(asked) >= 70, None):
        report = follow(
            clip,
            out=tmp_path / "b",
            warm_up=10,
            state=tmp_path / "at.npz",
            frame_table=True,
            until=until,
            on_frame=lambda part: parts.append((part.time, part.mask)),
        )
    assert report.first_frame == 70 and report.frames == N - 70
    assert [at for at, _ in parts] == [at for at, _ in whole]
    np.testing.assert_array_equal([mask for _, mask in parts], [mask for _, mask in whole])
    first, second = (
        path.read_bytes() for path in (tmp_path / "a/yard_background.png", tmp_path / "b/yard_background.png")
    )
    assert first == second
    assert (tmp_path / "b" / "yard_from000070_frames.csv").exists()


def test_a_stream_goes_on_with_what_comes(made, tmp_path, monkeypatch):
    frames = made.frames
    shown = []
    for name, part in (("one", frames[:60]), ("two", frames[60:])):
        pipe = io.BytesIO(write_video(tmp_path / f"{name}.mkv", part, 10).read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
        follow(
            "-",
            out=tmp_path,
            state=tmp_path / "at.npz",
            on_frame=lambda part: shown.append((part.index, part.time, part.mask)),
        )
    assert [index for index, _, _ in shown] == list(range(N))
    assert [at for _, at, _ in shown] == pytest.approx(np.arange(N) / 10)
    expected = [part.mask for part in OnlineBackgroundModel(frame_rate=10).follow(frames)]
    np.testing.assert_array_equal([mask for _, _, mask in shown], expected)


def test_a_kept_model_begins_without_a_wait(clip, made, tmp_path):
    BackgroundModel().fit(made.frames).save(tmp_path / "yard.npz")
    shares = []
    follow(
        clip,
        out=tmp_path,
        reuse=tmp_path / "yard.npz",
        max_frames=20,
        on_frame=lambda part: shares.append(part.mask),
    )
    assert any(mask.any() for mask in shares)


def test_a_state_of_other_frames_is_refused(clip, tmp_path, made):
    small = OnlineBackgroundModel(frame_rate=10).fit(made.frames[:30, :20, :20])
    small.save(tmp_path / "small.npz")
    with pytest.raises(
        UnsupportedError, match=r"small.npz: the model has frames of 20 x 20 pixels, and the source of 64"
    ):
        follow(clip, out=tmp_path, state=tmp_path / "small.npz")
    assert {path.name for path in tmp_path.iterdir()} == {"small.npz"}


# --- the command ------------------------------------------------------------------------------------------------------


def invoke(*arguments):
    return CliRunner().invoke(app, ["background", *map(str, arguments)])


def test_the_command(clip, tmp_path):
    done = invoke(clip, "--live", "--out", tmp_path, "--warm-up", 10, "--json", "--masks", "png")
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["frame"] for line in lines[:-1]] == list(range(N)) and lines[-1]["frames"] == N


def test_events_are_listed_as_in_a_batch_and_the_last_is_also_printed(clip, tmp_path):
    done = invoke(clip, "--live", "--out", tmp_path, "--warm-up", 10, "--events", "scene", "--padding", 0)
    lines = done.output.splitlines()
    ended = [line.removeprefix("event ") for line in lines if line.startswith("event ")]
    count = next(index for index, line in enumerate(lines) if line.startswith("  events: "))
    assert lines[count] == f"  events: {len(ended)}" and ended
    assert [line.strip() for line in lines[count + 1 : count + 1 + len(ended)]] == ended
    with (tmp_path / "yard_events.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(ended)


def test_the_page_of_a_live_run_has_the_times_of_the_stream(clip, tmp_path):
    """A run from a later start has its time codes there, and one that was finished already claims nothing."""
    command = [clip, "--live", "--start", 10, "--warm-up", 10, "--overlay", "--state", tmp_path / "at.npz"]
    for out in ("first", "again"):
        done = invoke(*command, "--out", tmp_path / out, "--report", tmp_path / f"{out}.html")
        assert done.exit_code == 0, done.output
    first, again = ((tmp_path / f"{out}.html").read_text("utf-8") for out in ("first", "again"))
    codes = json.loads(re.search(r'<script type="application/json">(.*?)</script>', first)[1])
    assert codes[0] == "0:10.0" and codes[-1] in ("0:59.0", "0:59.5")
    assert "already finished" in again and "of all pixels" not in again and "Left out" not in again


def test_a_command_that_keeps_no_masks_says_how(clip, tmp_path):
    kept = "the masks were not kept; --masks png or --masks ffv1 keeps them"
    assert kept in invoke(clip, "--live", "--out", tmp_path / "a", "--max-frames", 10).output.splitlines()[-1]
    assert kept not in invoke(clip, "--live", "--out", tmp_path / "b", "--max-frames", 10, "--masks", "png").output
    done = invoke(clip, "--live", "--out", tmp_path / "c", "--max-frames", 10, "--json")
    assert kept not in done.output


def test_the_same_command_again_says_that_it_is_finished(clip, tmp_path):
    command = [clip, "--live", "--out", tmp_path, "--state", tmp_path / "at.npz", "--masks", "ffv1"]
    command += ["--events", "scene"]
    assert invoke(*command).exit_code == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for _ in range(2):
        done = invoke(*command)
        assert done.exit_code == 0, done.output
        first, second = done.output.splitlines()
        assert first.endswith("yard.mkv: no new frame") and "finished, its 120 frames are done; to begin" in second
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    as_json = invoke(*command, "--json")
    assert as_json.exit_code == 0 and json.loads(as_json.stdout)["frames"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.mp4", "b.mp4", "--live"], "takes one source; got 2"),
        (["a.mp4", "--live", "--clips"], "--clips exclude each other"),
        (["a.mp4", "--live", "--rank", "2"], "--rank exclude each other"),
        (["a.mp4", "--state", "x.npz"], "--state needs --live"),
        (["a.mp4", "--forget", "60"], "--forget needs --live"),
        (["a.mp4", "--warm-up", "2"], "--warm-up needs --live"),
        (["a.mp4", "--min-event", "2"], "--min-event needs --events"),
        (["a.mp4", "--live", "--padding", "1"], "--padding needs --events"),
        (["a.mp4", "--min-area", "0.1"], "--min-area needs --events, --coco or --frame-table"),
        (["-", "--fps", "5"], "--fps must be left out for -, which has its own"),
        (["-", "--live", "--fps", "5"], "--fps must be left out for -, which has its own"),
        (["camera:98", "--fps", "5", "--end", "9"], "--fps must be left out for camera:98"),
        (["http://127.0.0.1:9/a", "--live", "--fps", "5"], "--fps must be left out for http"),
        (["rtsp://127.0.0.1:9/a"], "has no end of its own; or give --max-frames 1000, from its beginning on"),
        (["a.mp4", "--reuse", "m.npz", "--rank", "2"], "--rank and --reuse exclude each other"),
        (["a.mp4", "--reuse", "m.npz", "--seed", "0"], "--seed and --reuse exclude each other"),
        (["a.mp4", "--live", "--reuse", "m.npz", "--warm-up", "2"], "--warm-up and --reuse exclude each other"),
        (["a.mp4", "--method", "mahnmf", "--rank", "2"], "--rank and --method mahnmf exclude each other"),
        (["a.mp4", "--live"], "no such file"),
        (["camera:98", "--live"], "camera:98: no video comes from there"),
    ],
)
def test_usage(arguments, message, tmp_path):
    done = invoke(*arguments, "--out", tmp_path)
    assert done.exit_code == 2 and message in " ".join(done.output.split())


def test_a_run_that_is_stopped_before_its_first_frame_says_so(clip, tmp_path):
    with pytest.raises(UnreadableError, match=r"yard.mkv: was stopped before a frame came$"):
        follow(clip, out=tmp_path, until=lambda: True)
    follow(clip, out=tmp_path, state=tmp_path / "at.npz", max_frames=30, warm_up=5)
    with pytest.raises(UnreadableError, match=r"yard.mkv: was stopped before a frame came, after the 30 that are done"):
        follow(clip, out=tmp_path, state=tmp_path / "at.npz", until=lambda: True)


def test_pictures_are_a_clip(made, tmp_path):
    (tmp_path / "in").mkdir()
    for number, frame in enumerate(made.frames[:30]):
        write_image(tmp_path / "in" / f"f{number}.png", frame)
    done = invoke(tmp_path / "in", "--fps", 10, "--json", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    video = json.loads(done.stdout)
    assert video["frames"] == 30 and video["frame_rate"] == 10
    reader = VideoReader(tmp_path / "out" / "in_foreground.mkv")
    assert reader.frame_rate == Fraction(10)


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
def test_a_killed_run_goes_on_as_if_nothing_had_been(clip, tmp_path):
    command = [sys.executable, "-m", "visionnmf.apps.cli", "background", str(clip), "--live", "--warm-up", "10"]
    command += ["--masks", "png", "--state", str(tmp_path / "at.npz"), "--out"]
    follow(clip, out=tmp_path / "whole", warm_up=10, masks="png")
    expected = masks_in(tmp_path / "whole" / "yard_masks")
    folder = tmp_path / "parts" / "yard_masks"
    running = subprocess.Popen([*command, str(tmp_path / "parts")], env=os.environ)
    while running.poll() is None and not (folder / f"{N // 2:06d}.png").exists():
        time.sleep(0.002)
    running.kill()
    assert running.wait() == -signal.SIGKILL
    assert 20 <= OnlineBackgroundModel.load(tmp_path / "at.npz").n_frames_seen_ <= N // 2 + 20
    done = subprocess.run([*command, str(tmp_path / "parts")], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    found = masks_in(folder)
    assert found.keys() == expected.keys()
    for name, mask in expected.items():
        np.testing.assert_array_equal(found[name], mask)
    pictures = [tmp_path / part / "yard_background.png" for part in ("whole", "parts")]
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
