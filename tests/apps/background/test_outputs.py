"""Forms of results: masks as pictures and as video that browsers play, overlays, COCO's boxes, captions."""

import contextlib
import csv
import io
import json
import threading
from concurrent.futures import Future
from fractions import Fraction

import av
import numpy as np
import pytest
from background_settings import separate
from helpers import write_video
from pycocotools.coco import COCO
from typer.testing import CliRunner

from visionnmf.apps.background import Separated
from visionnmf.apps.background.results import CAPTION_HEIGHT, TINT, VideoFormat, captioned, encoded_videos, tinted
from visionnmf.apps.cli import app
from visionnmf.datasets import make_surveillance
from visionnmf.exceptions import OutputExistsError
from visionnmf.io import VideoReader, VideoWriter, read_image

pytestmark = pytest.mark.slow

N = 24


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return write_video(tmp_path_factory.mktemp("results") / "yard.mkv", make_surveillance(N, random_state=2).frames)


@pytest.fixture(scope="module")
def lossless(clip, tmp_path_factory):
    out = tmp_path_factory.mktemp("lossless")
    separate(clip, out=out)
    return np.stack([frame[..., 0] for frame in VideoReader(out / "yard_foreground.mkv")])


def test_masks_as_pictures(clip, lossless, tmp_path):
    report = separate(clip, out=tmp_path, masks="png")
    assert str(tmp_path / "yard_masks") in report.outputs and not (tmp_path / "yard_foreground.mkv").exists()
    found = [read_image(tmp_path / "yard_masks" / f"{number:06d}.png")[..., 0] for number in range(N)]
    np.testing.assert_array_equal(found, lossless)
    with pytest.raises(OutputExistsError, match="holds files already"):
        separate(clip, out=tmp_path / "", masks="png")


def test_masks_without_other_videos(clip, tmp_path):
    separate(clip, out=tmp_path, masks="png", videos=False)
    assert {path.name for path in tmp_path.iterdir()} == {"yard_background.png", "yard_masks"}


def test_masks_that_a_browser_plays(clip, lossless, tmp_path):
    separate(clip, out=tmp_path, masks="h264")
    path = tmp_path / "yard_foreground.mp4"
    data = path.read_bytes()
    assert 0 < data.index(b"moov") < data.index(b"mdat")  # played before it is loaded to its end
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
    found = np.stack([frame[..., 0] for frame in VideoReader(path)])
    assert ((found > 127) != (lossless > 127)).mean() < 0.005


def test_an_overlay_colours_what_is_foreground(clip, lossless, tmp_path):
    report = separate(clip, out=tmp_path, overlay=True)
    frames, found = (np.stack(list(VideoReader(path))) for path in (clip, tmp_path / "yard_overlay.mp4"))
    assert str(tmp_path / "yard_overlay.mp4") in report.outputs
    marked = lossless > 0
    wanted = (frames[marked].astype(int) + TINT) // 2
    assert np.abs(found[marked] - wanted).mean() < 30 < np.abs(found[marked] - frames[marked].astype(int)).mean()
    assert np.abs(found[~marked] - frames[~marked].astype(int)).mean() < 6


def test_a_tint_and_its_outline():
    frame = np.full((20, 20, 3), 100, np.uint8)
    mask = np.zeros((20, 20), np.uint8)
    mask[5:15, 5:15] = 255
    found = tinted(frame, mask)
    np.testing.assert_array_equal(found[10, 10], [178, 50, 178])
    np.testing.assert_array_equal(found[5, 10], TINT)
    np.testing.assert_array_equal(found[mask == 0], frame[mask == 0])
    assert frame.max() == 100


def test_boxes_as_coco_has_them(clip, lossless, tmp_path):
    separate(clip, out=tmp_path, coco=True, videos=False, frame_table=True)
    path = tmp_path / "yard_coco.json"
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(path))
    rows = list(csv.DictReader((tmp_path / "yard_frames.csv").read_text().splitlines()))
    assert len(coco.getImgIds()) == N and coco.loadCats(1)[0]["name"] == "foreground"
    for row, image in zip(rows, coco.loadImgs(coco.getImgIds()), strict=True):
        assert (image["frame"], image["time"]) == (int(row["frame"]), float(row["time"]))
        assert (image["width"], image["height"]) == (160, 120)
        found = coco.loadAnns(coco.getAnnIds(imgIds=image["id"]))
        assert ";".join(" ".join(map(str, each["bbox"])) for each in found) == row["boxes"]
        for each in found:
            x, y, width, height = each["bbox"]
            assert 0 < each["area"] <= (lossless[image["frame"], y : y + height, x : x + width] > 0).sum()


def test_a_clip_without_foreground_is_coco_too(tmp_path):
    path = write_video(tmp_path / "grey.mkv", np.full((4, 32, 32, 3), 90, np.uint8), 5)
    separate(path, out=tmp_path, coco=True, videos=False)
    found = json.loads((tmp_path / "grey_coco.json").read_text())
    assert found["annotations"] == [] and len(found["images"]) == 4


def test_the_preview_says_which_picture_is_what(clip, tmp_path):
    separate(clip, out=tmp_path)
    (frame, *_) = VideoReader(tmp_path / "yard_preview.mp4")
    assert frame.shape == (120 + CAPTION_HEIGHT, 3 * 160, 3)
    for panel in range(3):
        line = frame[:CAPTION_HEIGHT, 160 * panel : 160 * (panel + 1)]
        assert line.min() < 40 and line.max() > 180
    narrow = captioned(np.full((10, 20, 3), 9, np.uint8), "frame")
    assert narrow.shape == (10 + CAPTION_HEIGHT, 20, 3) and narrow[:CAPTION_HEIGHT].max() == 0


def test_fewer_large_frames_wait_for_an_encoder(tmp_path, monkeypatch):
    height, width = 48, 64
    part = Separated(0, *[np.zeros((height, width, 3), np.uint8)] * 2, np.zeros((height, width), np.uint8))

    def accepted(name):
        """Return how many frames are taken while the encoder is busy with the first, before one has to wait."""
        go, taken, waited = threading.Event(), [], []

        def write(self, *given, write=VideoWriter.write):
            assert go.wait(60)
            write(self, *given)

        def result(self, timeout=60, result=Future.result):
            waited.append(len(taken))
            go.set()
            return result(self, timeout)

        with monkeypatch.context() as patch:
            patch.setattr(VideoWriter, "write", write)
            patch.setattr(Future, "result", result)
            paths = {"background": tmp_path / name}
            with encoded_videos(paths, VideoFormat(width, height, Fraction(5), False), force=False) as encode:
                for number in range(8):
                    encode(part)
                    taken.append(number)
        return waited[0]

    assert accepted("small.mp4") == 4
    monkeypatch.setattr("visionnmf.apps.background.results.QUEUED_PIXELS", 3 * height * width - 1)
    assert accepted("large.mp4") == 2
    monkeypatch.setattr("visionnmf.apps.background.results.QUEUED_PIXELS", 1)
    assert accepted("larger.mp4") == 1


def test_boxes_of_a_least_area_without_events(clip, tmp_path):
    for area, out in (("0.0005", "all"), ("0.9", "none")):
        given = "--min-area", area, "--coco", "--frame-table", "--out", str(tmp_path / out)
        assert CliRunner().invoke(app, ["background", str(clip), *given]).exit_code == 0
    found = [json.loads((tmp_path / out / "yard_coco.json").read_text())["annotations"] for out in ("all", "none")]
    assert found[0] and not found[1]
    rows = (tmp_path / "none" / "yard_frames.csv").read_text().splitlines()[1:]
    assert len(rows) == N and all(row.endswith(",") for row in rows)
