"""Where and when: regions by hand, parts of a clip, thresholds."""

import numpy as np
import pytest
from background_settings import separate
from clips import encode
from helpers import run_command

from visionnmf.apps.background import BackgroundModel
from visionnmf.apps.background.region import read_region
from visionnmf.apps.background.settings import RegionSettings
from visionnmf.exceptions import ParameterError, UnsupportedError
from visionnmf.io import VideoReader, write_image

pytestmark = pytest.mark.slow

HEIGHT, WIDTH = 48, 64


def read_regions(roi, ignore, *shape_and_scale):
    return read_region(RegionSettings(roi=tuple(roi), ignore=tuple(ignore)), *shape_and_scale).mask


def test_boxes_and_polygons():
    shape = (20, 30)
    box = read_regions(["3,2,6,4"], [], shape)
    expected = np.zeros(shape, np.uint8)
    expected[2:6, 3:9] = 255
    np.testing.assert_array_equal(box, expected)
    np.testing.assert_array_equal(read_regions([], ["3,2,6,4"], shape), 255 - expected)
    np.testing.assert_array_equal(read_regions(["3,2 8,2 8,5 3,5"], [], shape), expected)
    triangle = read_regions(["0,0 10,0 0,10"], [], shape) > 0
    y, x = np.mgrid[:20, :30]
    np.testing.assert_array_equal(triangle, x + y <= 10)
    both = read_regions(["3,2,6,4", "20,10,5,5"], ["4,3,2,2"], shape) > 0
    assert both.sum() == 24 + 25 - 4 and not both[3, 4] and both[10, 20]
    half = read_regions(["6,4,12,8"], [], (10, 15), 0.5) > 0
    assert half[2, 3] and half[5, 8] and not half[7, 3] and not half[2, 10]
    beyond = read_regions(["-5,-5,10,10"], [], shape) > 0
    assert beyond.sum() == 25


@pytest.mark.parametrize(
    ("roi", "ignore", "scale", "noted"),
    [
        (["0,0,30,20"], [], 1.0, []),
        (["0,0 30,0 30,20 0,20"], [], 1.0, []),  # corners on the edge
        (["0,0,60,40"], ["10,10,50,30"], 0.5, []),
        (["-5,-5,10,10"], [], 1.0, ["roi='-5,-5,10,10'"]),
        (["3,2,6,4", "25,0,9,9"], ["1,1 2,1 2,25"], 1.0, ["roi='25,0,9,9'", "ignore='1,1 2,1 2,25'"]),
        ([], ["0,0,61,4"], 0.5, ["ignore='0,0,61,4'"]),
    ],
)
def test_regions_that_are_clipped_are_noted(roi, ignore, scale, noted):
    found = read_region(RegionSettings(roi=tuple(roi), ignore=tuple(ignore)), (20, 30), scale).notes
    size = "30 x 20" if scale == 1 else "60 x 40"
    end = f" does not lie wholly in the picture, which has {size} pixels; the part inside counts"
    assert found == [f"{region}{end}" for region in noted]


def test_pictures(tmp_path):
    picture = np.zeros((20, 30), np.uint8)
    picture[5:9, 10:20] = 255
    write_image(tmp_path / "here.png", picture)
    np.testing.assert_array_equal(read_regions([str(tmp_path / "here.png")], [], (20, 30)), picture)
    assert (read_regions([str(tmp_path / "here.png")], [], (10, 15), 0.5) > 0).sum() in range(8, 16)
    with pytest.raises(UnsupportedError, match=r"here.png: has 30 x 20 pixels; give a picture of the size"):
        read_regions([str(tmp_path / "here.png")], [], (20, 31))


def test_a_word_and_a_region_outside_the_picture_are_refused(tmp_path):
    forms = "roi must be x,y,width,height, three or more corners x,y x,y x,y, or a picture; got 'banana'"
    with pytest.raises(ParameterError, match=forms):
        read_regions(["banana"], [], (20, 30))
    for region in ("30,0,5,5", "-9,-9,5,5", "0,25 9,25 9,40"):
        for given in (([region], []), ([], [region])):
            with pytest.raises(ParameterError, match=r"must lie in the picture, which has 30 x 20 pixels; got '"):
                read_regions(*given, (10, 15), 0.5)


@pytest.mark.parametrize("region", ["1,2,3", "1,2,0,4", "1,2 3,4", "1,2 3,4 5", "nan,2,3,4", "1e9,2,3,4"])
def test_what_is_no_region(region):
    with pytest.raises(ParameterError, match="roi must be x,y,width,height, three or more corners"):
        read_regions([region], [], (20, 30))
    with pytest.raises(ParameterError, match="roi and ignore must leave a part of the picture; got nothing left"):
        read_regions(["1,2,3,4"], ["0,0,30,20"], (20, 30))
    with pytest.raises(ParameterError, match=r"^ignore must leave a part of the picture; got nothing left"):
        read_regions([], ["0,0,30,20"], (20, 30))


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """One thing above and one below, all the time somewhere else."""
    frames = []
    for index in range(40):
        frame = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
        left = (7 * index) % 50
        frame[4:18, left : left + 14] = (230, 60, 40)
        frame[30:44, 50 - left : 64 - left] = (40, 200, 60)
        frames.append(frame)
    return encode(tmp_path_factory.mktemp("two") / "two.mp4", "libx264", "yuv420p", frames=frames, rate=10)


def masks_of(path):
    return np.stack([mask[..., 0] for mask in VideoReader(path)])


def test_foreground_counts_in_the_region_only(clip, tmp_path):
    separate(clip, out=tmp_path / "all")
    whole = masks_of(tmp_path / "all" / "two_foreground.mkv")
    assert whole[:, :24].any() and whole[:, 24:].any()
    report = separate(clip, out=tmp_path / "top", roi=["0,0,64,24"], ignore=["0,0,10,48"], frame_table=True)
    top = masks_of(tmp_path / "top" / "two_foreground.mkv")
    np.testing.assert_array_equal(top[:, :24, 10:], whole[:, :24, 10:])  # the model is the same
    assert not top[:, 24:].any() and not top[:, :, :10].any()
    assert report.masks.foreground_share == pytest.approx((top > 0).mean())


def test_a_part_of_the_video(clip, tmp_path):
    report = separate(clip, out=tmp_path, start=1.0, end=2.5, every=2, frame_table=True)
    assert report.frames == 8
    rows = (tmp_path / "two_frames.csv").read_text().splitlines()[1:]
    assert [float(row.split(",")[1]) for row in rows] == pytest.approx(np.arange(1.0, 2.5, 0.2))
    assert len(masks_of(tmp_path / "two_foreground.mkv")) == 8
    sample = separate("sample:surveillance", out=tmp_path, start=2, end=2.3, scale=0.2, videos=False)
    assert sample.frames == 3
    for source in (clip, "sample:surveillance"):
        with pytest.raises(ParameterError, match=r"start must be at most .* s, when the last frame .* shown; got 99"):
            separate(source, out=tmp_path / "x", start=99)
        with pytest.raises(ParameterError, match="end must be a finite number > 2; got 1"):
            separate(source, out=tmp_path / "x", start=2, end=1)


def test_a_threshold(clip, tmp_path):
    shares = [
        separate(clip, out=tmp_path, threshold=x, videos=False, force=True).masks.foreground_share
        for x in (1.5, 3.0, 9.0)
    ]
    assert shares[0] > shares[1] > shares[2]
    with pytest.raises(ParameterError, match="threshold must be left out with the method mahnmf; got 2"):
        separate(clip, out=tmp_path, method="mahnmf", threshold=2)


def test_a_model_is_kept_and_reused(clip, tmp_path, monkeypatch):
    learnt = separate(clip, out=tmp_path / "a", keep_model=True)
    strict = separate(clip, out=tmp_path / "b", threshold=6.0)
    model = tmp_path / "a" / "two_model.npz"
    assert str(model) in learnt.outputs

    def fit(*_):
        raise AssertionError("learnt again")

    monkeypatch.setattr(BackgroundModel, "fit", fit)
    for folder, threshold, before in (("c", None, learnt), ("d", 6.0, strict)):
        report = separate(clip, out=tmp_path / folder, reuse=model, threshold=threshold)
        assert report.masks == before.masks
        expected = masks_of(tmp_path / ("a" if threshold is None else "b") / "two_foreground.mkv")
        np.testing.assert_array_equal(masks_of(tmp_path / folder / "two_foreground.mkv"), expected)
    with pytest.raises(
        UnsupportedError, match=r"two_model.npz: the model has frames of .* pixels, and the source of .* pixels; name"
    ):
        separate(clip, out=tmp_path / "e", reuse=model, scale=0.5)
    with pytest.raises(ParameterError, match="method must be 'ours' where a model is kept or reused; got 'mahnmf'"):
        separate(clip, out=tmp_path / "e", method="mahnmf", reuse=model)
    assert run_command("background", clip, "--out", tmp_path / "f", "--reuse", tmp_path / "none.npz").exit_code == 2


def test_the_command(clip, tmp_path):
    options = ("--out", tmp_path, "--force", "--roi", "0,0,64,24", "--ignore", "0,0 5,0 0,5", "--start")
    assert run_command("background", clip, *options, "0:01", "--end", "00:00:02.5").exit_code == 0
    assert len(masks_of(tmp_path / "two_foreground.mkv")) == 15
    assert "soon is not a time" in run_command("background", clip, *options, "soon").output
    assert run_command("background", clip, "--out", tmp_path, "--force", "--roi", "1,2").exit_code == 2


def test_the_report_names_its_method(tmp_path):
    report = separate("sample:surveillance", method="mahnmf", out=tmp_path, max_frames=6, scale=0.2)
    assert (report.method, report.n_components, report.noise) == ("mahnmf", 2, None)
    with pytest.raises(ParameterError, match=r"method must be one of .*; got 'moon'"):
        separate("sample:surveillance", method="moon", out=tmp_path / "m")
