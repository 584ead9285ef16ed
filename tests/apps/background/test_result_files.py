"""Where results go: not among the pictures of the source, nor beside those of a run before."""

import json

import pytest
from background_settings import follow, separate
from typer.testing import CliRunner

from visionnmf.apps.cli import app
from visionnmf.datasets import make_surveillance
from visionnmf.exceptions import MediaError, OutputExistsError, ParameterError
from visionnmf.io import write_image

pytestmark = pytest.mark.slow

BOTH = pytest.mark.parametrize("work", [separate, follow])


@pytest.fixture
def frames(tmp_path):
    folder = tmp_path / "frames"
    folder.mkdir()
    for number, frame in enumerate(make_surveillance(12, 24, 32, random_state=2).frames):
        write_image(folder / f"{number}.png", frame)
    return folder


def invoke(*arguments):
    return CliRunner().invoke(app, ["background", *map(str, arguments)])


@BOTH
@pytest.mark.parametrize("pattern", ["", "*.png"])
def test_not_among_the_pictures(frames, work, pattern, monkeypatch):
    with pytest.raises(ParameterError, match=r"out must not be a folder of the pictures"):
        work(frames / pattern, out=frames, force=True)
    monkeypatch.chdir(frames)  # the default folder
    with pytest.raises(ParameterError, match=r"out must not be a folder of the pictures"):
        work(pattern or ".", force=True)
    assert len(list(frames.iterdir())) == 12


@BOTH
def test_no_picture_is_overwritten(frames, tmp_path, work):
    out = tmp_path / "out"
    out.mkdir()
    (out / "frames_background.png").hardlink_to(frames / "0.png")
    before = (frames / "0.png").read_bytes()
    with pytest.raises(OutputExistsError, match="would overwrite the input"):
        work(frames, out=out, force=True)
    assert (frames / "0.png").read_bytes() == before


@BOTH
def test_masks_of_a_run_before(frames, tmp_path, work):
    work(frames, out=tmp_path, masks="png")
    folder = tmp_path / "frames_masks"
    (folder / "notes.png").touch()
    work(frames, out=tmp_path, masks="png", max_frames=5, force=True)
    assert {path.name for path in folder.iterdir()} == {f"{number:06d}.png" for number in range(5)} | {"notes.png"}


@BOTH
def test_a_file_where_the_masks_go(frames, tmp_path, work):
    (tmp_path / "frames_masks").touch()
    with pytest.raises(MediaError, match="frames_masks: is not a folder"):
        work(frames, out=tmp_path, masks="png", force=True)
    assert {path.name for path in tmp_path.iterdir()} == {"frames", "frames_masks"}


def test_a_pattern_without_a_file_is_one_failure(frames, tmp_path):
    done = invoke(tmp_path / "none*.png", frames, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 1, done.output
    assert [json.loads(line).get("frames") for line in done.stdout.splitlines()] == [None, 12]
