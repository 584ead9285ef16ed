"""What is kept when a source fails on the way, and of which source a state is."""

import csv
import json

import numpy as np
import pytest
from background_settings import follow
from typer.testing import CliRunner

from visionnmf.apps.background import OnlineBackgroundModel
from visionnmf.apps.cli import app
from visionnmf.datasets import make_surveillance
from visionnmf.exceptions import MediaError, UnsupportedError
from visionnmf.io import PictureSequence, VideoReader, write_image

pytestmark = pytest.mark.slow


@pytest.fixture
def frames(tmp_path):
    folder = tmp_path / "frames"
    folder.mkdir()
    for number, frame in enumerate(make_surveillance(20, 24, 32, random_state=2).frames):
        write_image(folder / f"{number}.png", frame)
    return folder


@pytest.fixture
def broken(monkeypatch):
    """Sources that fail after 12 frames."""
    whole = PictureSequence.timed

    def twelve(self):
        for number, frame in enumerate(whole(self)):
            if number == 12:
                raise UnsupportedError("yard: the size changes")
            yield frame

    monkeypatch.setattr(PictureSequence, "timed", twelve)


WANTED = {"warm_up": 0.2, "masks": "ffv1", "overlay": True, "frame_table": True, "coco": True}


def test_a_source_that_fails_on_the_way(frames, tmp_path, broken):
    out = tmp_path / "out"
    report = follow(frames, out=out, state=out / "at.npz", events="scene", **WANTED)
    assert report.frames == 12 and report.skipped == ["yard: the size changes"]
    names = ["background.png", "foreground.mkv", "overlay.mp4", "events.csv", "frames.csv", "coco.json"]
    assert all((out / f"frames_{name}").exists() for name in names)
    assert OnlineBackgroundModel.load(out / "at.npz").n_frames_seen_ == 12
    assert len(list(VideoReader(out / "frames_foreground.mkv"))) == 12
    with (out / "frames_frames.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 12


def test_a_source_that_fails_before_the_first_mask(frames, tmp_path, broken):
    with pytest.raises(UnsupportedError, match="the size changes"):
        follow(frames, out=tmp_path / "out", warm_up=10, masks="ffv1")
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_exit_codes(frames, tmp_path, broken, as_json):
    def run(*options):
        command = ["background", str(frames), "--live", "--out", str(tmp_path / "out"), *options, *as_json]
        return CliRunner().invoke(app, command)

    done = run("--warm-up", "0.2")
    assert done.exit_code == 1 and "the size changes" in done.output
    if as_json:
        assert json.loads(done.stdout.splitlines()[-1])["frames"] == 12
    assert run("--warm-up", "10", "--force").exit_code == 2


def test_a_failure_after_frames_were_printed_is_no_half_success(frames, tmp_path, monkeypatch):
    from visionnmf.apps.background.results import ResultWriter

    def fail(*args, **kwargs):
        raise MediaError("full")

    monkeypatch.setattr(ResultWriter, "finish", fail)
    for as_json in ([], ["--json"]):
        command = ["background", str(frames), "--live", "--out", str(tmp_path / "out"), *as_json]
        assert CliRunner().invoke(app, command).exit_code == 2


def test_a_state_is_of_its_source(frames, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for path in frames.iterdir():
        (other / path.name).hardlink_to(path)
    state = tmp_path / "at.npz"
    options = {"out": tmp_path / "out", "state": state, "masks": "png"}
    follow(frames, max_frames=12, **options)
    with pytest.raises(UnsupportedError, match=r"at.npz: is the state of .*frames every=1 .* not of .*other every=1"):
        follow(other, **options)
    for changed in ({"every": 2}, {"start": 0.2}, {"frame_rate": 5}):
        with pytest.raises(UnsupportedError, match="name another file"):
            follow(frames, **options, **changed)
    assert follow(frames, **options).first_frame == 12


def test_a_state_without_a_source_goes_on(frames, tmp_path):
    first = np.stack(list(PictureSequence(frames)))[:8]
    OnlineBackgroundModel(warm_up=0.2).fit(first).save(tmp_path / "at.npz")
    assert follow(frames, out=tmp_path / "out", state=tmp_path / "at.npz").first_frame == 8


def test_a_state_without_a_folder_is_a_failure_of_the_report(frames, tmp_path):
    report = follow(frames, out=tmp_path / "out", state=tmp_path / "none" / "at.npz", masks="png")
    assert report.frames and "at.npz: there is no folder" in report.skipped[0]
