"""The work of ``visionnmf background``: files in, files out, and nothing half-written."""

import json
from fractions import Fraction

import numpy as np
import pytest
from background_settings import follow, separate
from clips import encode
from helpers import run_command as run, write_video

from visionnmf.apps.background import BackgroundModel, results as _results
from visionnmf.apps.background.results import CAPTION_HEIGHT
from visionnmf.datasets import make_surveillance
from visionnmf.exceptions import MediaError, OutputExistsError, ParameterError, UnreadableError
from visionnmf.io import VideoReader, VideoWriter, read_image

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

N_FRAMES, HEIGHT, WIDTH = 30, 48, 64
NAMES = {"clip_background.png", "clip_background.mp4", "clip_foreground.mkv", "clip_preview.mp4"}


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    frames = make_surveillance(N_FRAMES, HEIGHT, WIDTH, random_state=0).frames
    return write_video(tmp_path_factory.mktemp("clip") / "clip.mp4", frames, codec="h264")


def read(path):
    with VideoReader(path) as reader:
        return np.stack(list(reader)), reader


def left_in(folder):
    return {path.name for path in folder.rglob("*")}


def test_everything_is_written(clip, tmp_path):
    report = separate(clip, out=tmp_path / "new" / "folder")
    out = tmp_path / "new" / "folder"
    assert left_in(out) == NAMES
    assert {str(out / name) for name in NAMES} == set(report.outputs)

    frames, _ = read(clip)
    model = BackgroundModel().fit(frames)
    parts = list(model.apply(frames))
    expected = np.stack([part.mask for part in parts])
    masks, reader = read(out / "clip_foreground.mkv")
    assert float(reader.frame_rate) == pytest.approx(10)
    for channel in range(3):
        np.testing.assert_array_equal(masks[..., channel], expected)  # bit for bit
    assert report.masks.foreground_share == pytest.approx((expected > 0).mean())

    np.testing.assert_array_equal(read_image(out / "clip_background.png"), model.background_)
    background, _ = read(out / "clip_background.mp4")
    assert background.shape == frames.shape
    assert np.abs(background.astype(int) - np.stack([part.background for part in parts])).mean() < 4

    preview, _ = read(out / "clip_preview.mp4")
    assert preview.shape == (N_FRAMES, HEIGHT + CAPTION_HEIGHT, 3 * WIDTH, 3)
    preview = preview[:, CAPTION_HEIGHT:]
    assert np.abs(preview[:, :, :WIDTH].astype(int) - frames).mean() < 4
    assert np.abs(preview[:, :, WIDTH : 2 * WIDTH].astype(int) - background).mean() < 4
    assert ((preview[:, :, 2 * WIDTH :, 0] > 127) == (expected > 0)).mean() > 0.99


def test_the_report(clip, tmp_path):
    report = separate(clip, out=tmp_path, random_state=3)
    content = json.loads(json.dumps(report.as_dict()))
    assert content["frames"] == content["frames_read"] == content["declared_frames"] == N_FRAMES
    assert content["masks"]["f_measure"] is None and 0 < content["masks"]["foreground_share"] < 0.5
    assert 0.3 < content["agreement"] <= 1
    assert content["seconds"]["total"] == pytest.approx(
        content["seconds"]["learning"] + content["seconds"]["masking"], abs=0.01
    )
    assert content["frames_per_second"] == pytest.approx(N_FRAMES / content["seconds"]["total"], rel=0.01)
    assert "cut off" not in str(report)


def test_the_sample_is_scored_against_its_truth(tmp_path):
    report = separate("sample:surveillance", out=tmp_path, scale=0.5, every=3)
    assert report.masks.f_measure > 0.85
    assert report.temporal_median.f_measure < 0.7
    assert report.masks.precision > 0.75
    assert report.masks.recall > 0.85
    assert f"against the truth (F): {report.masks.f_measure:.3f}" in str(report)
    assert "surveillance_background.png" in left_in(tmp_path)

    half = separate("sample:surveillance", out=tmp_path / "half", every=2, start=12, end=20, scale=0.25, videos=False)
    assert (half.frames, half.width, half.height) == (40, 80, 60)
    assert half.masks.f_measure > 0.7  # the masks are those of the frames that were chosen
    assert left_in(tmp_path / "half") == {"surveillance_background.png"}
    with pytest.raises(UnreadableError, match="sample:moon: there is no such sample"):
        separate("sample:moon", out=tmp_path)
    with pytest.raises(ParameterError, match="every must be a whole number >= 1; got 0"):
        separate("sample:surveillance", out=tmp_path, every=0)


def test_options_reach_the_reader(clip, tmp_path):
    report = separate(clip, out=tmp_path, every=3, max_frames=7, scale=0.75, n_components=1)
    masks, reader = read(tmp_path / "clip_foreground.mkv")
    assert masks.shape[:3] == (7, 36, 48) and not report.variable_frame_rate
    assert float(reader.frame_rate) == pytest.approx(10 / 3, rel=1e-3)
    assert VideoReader(tmp_path / "clip_background.mp4").frame_rate == Fraction(10, 3)
    assert (report.n_components, report.frames, report.learnt_frames) == (1, 7, 7)


def test_one_frame_is_enough(clip, tmp_path):
    report = separate(clip, out=tmp_path, every=100_000)  # warnings are errors
    assert report.frames == 1
    assert any("learnt from 1 frame" in note and note.endswith("than every=100000") for note in report.notes)
    assert report.masks.foreground_share == 0
    assert report.agreement == 1
    assert left_in(tmp_path) == NAMES
    assert len(read(tmp_path / "clip_foreground.mkv")[0]) == 1


@pytest.mark.parametrize(
    ("options", "notes"),
    [
        ({"max_frames": 2}, ["learnt from 2 frames; with fewer than 40"]),
        ({"scale": 0.1}, ["pixels hold little"]),
        ({"threshold": 1e6}, ["no frame has any foreground with threshold=1e+06, which is 3 by default"]),
        ({"events": "scene", "min_length": 1e3}, ["lasts", "s at most, less than min_length=1000 seconds"]),
        ({"events": "objects", "min_area": 1.0}, ["no event: no part of a mask covers min_area=1 of the picture"]),
        ({"roi": ("0,0,2,2",)}, ["in the region that counts, no frame has any foreground"]),
        ({"roi": ("-4,-4,20,20",)}, ["roi='-4,-4,20,20' does not lie wholly in the picture"]),
        ({}, []),
    ],
)
def test_a_result_that_rests_on_little_is_noted(options, notes, clip, tmp_path):
    found = separate(clip, out=tmp_path, **options).notes
    assert all(any(note in one for one in found) for note in notes), found
    assert notes or len(found) == 1, found  # the clip has 30 frames


@pytest.mark.parametrize("live", [False, True])
def test_frames_without_colour_among_others_are_noted(live, tmp_path):
    street = make_surveillance(40, HEIGHT, WIDTH, random_state=0).frames.copy()

    def told(name, frames):
        path = write_video(tmp_path / name, frames, codec="ffv1")
        notes = (follow if live else separate)(path, out=tmp_path, force=True).warnings
        return [note.partition(", ")[0] for note in notes if "colour" in note]

    assert told("day.mkv", street) == []
    street[20:30] = street[20:30].mean(axis=3, keepdims=True)
    assert told("dusk.mkv", street) == ["10 of 40 frames have no colour"]
    street[:] = street.mean(axis=3, keepdims=True)
    assert told("night.mkv", street) == []
    street[5:9, :12] = (200, 60, 60)  # something coloured goes by
    assert told("van.mkv", street) == []


@pytest.mark.parametrize("live", [False, True])
def test_fog_is_noted(live, tmp_path):
    street = make_surveillance(40, HEIGHT, WIDTH, random_state=0).frames
    run = follow if live else separate
    for name, frames, options, noted in (
        ("clear", street, {}, False),
        ("dim", street * 0.4, {}, False),
        ("fog", street * 0.3 + 91, {}, True),
        ("asked", street * 0.3 + 91, {"threshold": 1.5}, False),
    ):
        path = write_video(tmp_path / f"{name}.mkv", frames.astype(np.uint8), codec="ffv1")
        notes = run(path, out=tmp_path, force=True, **options).warnings
        assert any("as in fog, where threshold=1.5 finds more" in note for note in notes) == noted, notes


@pytest.mark.parametrize(("height", "width"), [(33, 47), (1, 1), (2, 3)])
def test_odd_sizes_stay(height, width, tmp_path, rng):
    path = write_video(tmp_path / "odd.mkv", rng.integers(0, 256, (3, height, width, 3), dtype=np.uint8), 5)
    separate(path, out=tmp_path / "out")
    for name in ("odd_background.mp4", "odd_foreground.mkv"):
        assert read(tmp_path / "out" / name)[0].shape == (3, height, width, 3)
    assert read(tmp_path / "out" / "odd_preview.mp4")[0].shape == (3, height + CAPTION_HEIGHT, 3 * width, 3)


def test_the_preview_of_a_wide_video_is_reduced(tmp_path, monkeypatch, clip):
    monkeypatch.setattr(_results, "PREVIEW_WIDTH", 32)
    separate(clip, out=tmp_path, max_frames=3)
    assert read(tmp_path / "clip_preview.mp4")[0].shape == (3, 24 + CAPTION_HEIGHT, 96, 3)
    assert read(tmp_path / "clip_background.mp4")[0].shape == (3, HEIGHT, WIDTH, 3)


def test_progress_counts_both_passes(clip, tmp_path):
    calls = []
    separate(clip, out=tmp_path, every=2, videos=False, progress=lambda *call: calls.append(call))
    assert calls == [(stage, done, 15) for stage in ("learning", "masking") for done in range(1, 16)]


@pytest.mark.parametrize("stage", ["learning", "masking"])
def test_ctrl_c_leaves_nothing(clip, tmp_path, stage):
    def interrupt(now, done, _):
        if now == stage and done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        separate(clip, out=tmp_path, progress=interrupt)
    assert left_in(tmp_path) == set()


def test_a_failing_encoder_leaves_nothing(clip, tmp_path, monkeypatch):
    write = VideoWriter.write

    def fails(self, *arguments):
        if self.path.name.endswith("_foreground.mkv") and self.frames_written == 9:
            raise MediaError("the disk is full")
        return write(self, *arguments)

    monkeypatch.setattr(VideoWriter, "write", fails)
    with pytest.raises(MediaError, match="the disk is full"):
        separate(clip, out=tmp_path)
    assert left_in(tmp_path) == set()


def test_existing_results_are_not_overwritten(clip, tmp_path):
    (tmp_path / "clip_preview.mp4").write_bytes(b"mine")
    with pytest.raises(OutputExistsError, match=r"clip_preview.mp4: exists already; pass force=True"):
        separate(clip, out=tmp_path)
    assert (tmp_path / "clip_preview.mp4").read_bytes() == b"mine"
    assert left_in(tmp_path) == {"clip_preview.mp4"}
    separate(clip, out=tmp_path, force=True)
    assert left_in(tmp_path) == NAMES
    assert len(read(tmp_path / "clip_preview.mp4")[0]) == N_FRAMES


def test_a_truncated_video_says_so(clip, tmp_path):
    whole = clip.read_bytes()
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(whole[: len(whole) * 6 // 10])
    report = separate(cut, out=tmp_path / "out")
    assert report.truncated
    assert 0 < report.frames < N_FRAMES
    assert f"read {report.frames_read} of {N_FRAMES} declared frames" in str(report)
    assert len(read(tmp_path / "out" / "cut_foreground.mkv")[0]) == report.frames


def test_frames_keep_their_times(tmp_path, rng):
    """Frame 30 of a clip of a variable rate stands where it stood."""
    ticks = [3 * i if i < 20 else 60 + 9 * (i - 20) for i in range(40)]  # 1/60 s: first 20 frames a second, then 6.7
    frames = make_surveillance(40, HEIGHT, WIDTH, random_state=0).frames
    source = encode(tmp_path / "phone.mp4", "libx264", "yuv420p", frames=frames, pts=ticks, rate=60, sound=20)
    report = separate(source, out=tmp_path / "out", every=2)
    assert report.variable_frame_rate
    assert report.notes[1:] == ["the sound of the video is not in the results"]  # the first is of few frames
    given = VideoReader(source, every=2)
    expected = [given.time for _ in given]
    assert expected[15] == pytest.approx(ticks[30] / 60)
    for name, rounding in (("background.mp4", 2e-5), ("foreground.mkv", 0.0011), ("preview.mp4", 2e-5)):
        made = VideoReader(tmp_path / "out" / f"phone_{name}")
        assert [made.time for _ in made] == pytest.approx(expected, abs=rounding)
        assert made.problem is None


def test_a_folder_without_results_is_not_left_behind(clip, tmp_path):
    (tmp_path / "no.mp4").write_text("not a video")
    failed = run("background", tmp_path / "no.mp4", "--out", tmp_path / "new" / "out")
    assert failed.exit_code == 2 and not (tmp_path / "new").exists()
    (tmp_path / "mine").mkdir()
    run("background", tmp_path / "no.mp4", "--out", tmp_path / "mine")
    assert (tmp_path / "mine").is_dir()  # it was there before
    run("evaluate", "background", tmp_path / "no.mp4", "--out", tmp_path / "scores")
    assert not (tmp_path / "scores").exists()
