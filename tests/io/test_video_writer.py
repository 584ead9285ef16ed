"""Video out: every frame comes back, in size, number and colour, or there is no file."""

import json
import os
from fractions import Fraction

import av
import numpy as np
import pytest
from clips import CLIP, HEIGHT, WIDTH, difference, make_clip

from visionnmf.exceptions import MediaError, OutputExistsError, ParameterError
from visionnmf.io import VideoReader, VideoWriter, recording


def refused(error, sentence, path, frames=(), width=WIDTH, **options):
    """Whether a writer of H.264 raises one error, and leaves no file."""
    with pytest.raises(error, match=sentence), VideoWriter(path, width=width, **OPTIONS | options) as writer:
        for frame in frames:
            writer.write(frame)
    assert os.listdir(path.parent) == []


OPTIONS = {"height": HEIGHT, "frame_rate": 25, "codec": "h264"}


SIZES = [(2, 2), (16, 16), (64, 48), (1, 1), (3, 5), (1, 8), (255, 127)]


@pytest.mark.parametrize(("name", "codec"), [("x.mp4", "h264"), ("x.mkv", "ffv1")])
def test_a_video_says_how_it_was_made(name, codec, tmp_path):
    options = {"width": 8, "height": 6, "frame_rate": 5, "codec": codec}
    with recording(input="yard", settings={"every": 2}), VideoWriter(tmp_path / name, **options) as writer:
        writer.write(np.zeros((6, 8, 3), np.uint8))
    with av.open(str(tmp_path / name)) as container:
        said = {key.lower(): value for key, value in container.metadata.items()}["comment"]
    assert json.loads(said) == {"input": "yard", "settings": {"every": 2}}


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("grey", [False, True])
def test_mp4_keeps_size_count_rate_and_colours(tmp_path, width, height, grey):
    frames = make_clip(12, height, width)
    given = [frame[..., 1].copy() if grey else frame for frame in frames]
    path = tmp_path / "out.mp4"
    rate = Fraction(30000, 1001)
    with VideoWriter(path, width=width, height=height, frame_rate=rate, codec="h264", grey=grey) as writer:
        for frame in given:
            writer.write(frame)
    assert writer.encoder == ("libx264" if width % 2 == height % 2 == 0 else "libvpx-vp9")
    reader = VideoReader(path)
    back = list(reader)
    assert (reader.width, reader.height, reader.declared_frames, reader.frame_rate) == (width, height, 12, rate)
    expected = [np.repeat(frame[..., None], 3, 2) for frame in given] if grey else given
    assert difference(back, expected) <= 4
    with av.open(str(path)) as container:
        context = container.streams.video[0].codec_context
        assert context.pix_fmt == "yuv420p"
        assert (context.colorspace, context.color_primaries, context.color_trc, context.color_range) == (1, 1, 1, 1)
        assert context.profile in ("High", "Main", "Constrained Baseline", "Profile 0")
    assert os.listdir(tmp_path) == ["out.mp4"]


def test_mp4_begins_with_its_index_so_that_browsers_start_at_once(tmp_path):
    path = tmp_path / "out.mp4"
    with VideoWriter(path, width=64, height=48, frame_rate=25, codec="h264") as writer:
        for frame in CLIP:
            writer.write(frame)
    data = path.read_bytes()
    assert 0 < data.find(b"moov") < data.find(b"mdat")


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 2), (1, 64), (64, 1), (3, 5), (255, 127), (64, 48)])
@pytest.mark.parametrize("grey", [False, True])
def test_ffv1_comes_back_bit_for_bit(tmp_path, rng, width, height, grey):
    shape = (height, width) if grey else (height, width, 3)
    frames = [rng.integers(0, 256, shape, dtype=np.uint8) for _ in range(6)]
    path = tmp_path / "out.mkv"
    with VideoWriter(path, width=width, height=height, frame_rate=10, codec="ffv1", grey=grey) as writer:
        for frame in frames:
            writer.write(frame)
    back = np.stack(list(VideoReader(path)))
    expected = np.stack(frames)
    np.testing.assert_array_equal(back, np.repeat(expected[..., None], 3, 3) if grey else expected)


@pytest.mark.parametrize(("name", "codec"), [("a.mp4", "h264"), ("a.mkv", "ffv1")])
def test_equal_frames_give_equal_files(tmp_path, rng, name, codec):
    frames = rng.integers(0, 256, (5, 48, 64, 3), np.uint8)
    files = [tmp_path / place / name for place in ("first", "second")]
    for file in files:
        file.parent.mkdir()
        with VideoWriter(file, width=64, height=48, frame_rate=25, codec=codec) as writer:
            for frame in frames:
                writer.write(frame)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_without_x264_the_same_file_is_vp9(tmp_path, monkeypatch):
    monkeypatch.setattr("av.codecs_available", av.codecs_available - {"libx264"})
    path = tmp_path / "out.mp4"
    with VideoWriter(path, width=64, height=48, frame_rate=25, codec="h264") as writer:
        for frame in CLIP:
            writer.write(frame)
    assert writer.encoder == "libvpx-vp9"
    assert difference(list(VideoReader(path)), CLIP) <= 4


@pytest.mark.parametrize("name", ["img%03d.mp4", "concat:a|b.mp4", "a b\udce9.mp4"])
def test_names_that_ffmpeg_reads_in_its_own_way(tmp_path, name):
    path = tmp_path / name
    try:
        path.touch()
        path.unlink()
    except OSError:
        pytest.skip("this file system does not allow the name")
    with VideoWriter(path, width=WIDTH, height=HEIGHT, frame_rate=25, codec="h264") as writer:
        for frame in CLIP:
            writer.write(frame)
    assert os.listdir(tmp_path) == [name]
    assert len(list(VideoReader(path))) == len(CLIP)


BAD_FRAMES = {
    "transposed": (CLIP[0].swapaxes(0, 1), r"\(64, 48, 3\) and uint8"),
    "grey": (CLIP[0][..., 0], r"\(48, 64\) and uint8"),
    "alpha": (np.dstack([CLIP[0], CLIP[0][..., 0]]), r"\(48, 64, 4\) and uint8"),
    "float": (CLIP[0] / 255, r"\(48, 64, 3\) and float64"),
    "uint16": (CLIP[0].astype(np.uint16), r"\(48, 64, 3\) and uint16"),
    "list": (CLIP[0].tolist(), r"\(48, 64, 3\) and list"),
}


@pytest.mark.parametrize("kind", BAD_FRAMES)
def test_a_wrong_frame_is_an_error_and_leaves_no_file(tmp_path, kind):
    frame, sentence = BAD_FRAMES[kind]
    message = rf"frame 2 must have shape \(48, 64, 3\) and dtype uint8; got {sentence}"
    refused(ParameterError, message, tmp_path / "out.mp4", [CLIP[0], frame])


@pytest.mark.parametrize("codec", ["h264", "ffv1"])
@pytest.mark.parametrize("written", [0, 1, 20])
def test_an_interrupted_video_leaves_nothing(tmp_path, codec, written):
    path = tmp_path / ("out.mp4" if codec == "h264" else "out.mkv")
    path.write_bytes(b"old")
    with (
        pytest.raises(KeyboardInterrupt),
        VideoWriter(path, width=WIDTH, height=HEIGHT, frame_rate=25, codec=codec, force=True) as writer,
    ):
        for frame in CLIP[:written]:
            writer.write(frame)
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == [path.name] and path.read_bytes() == b"old"


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_no_frames_is_an_error_never_an_empty_file(tmp_path, name):
    codec = "h264" if name.endswith("4") else "ffv1"
    refused(MediaError, "no frame was given, so no video is written", tmp_path / name, codec=codec)


def test_a_file_that_lost_frames_is_not_delivered(tmp_path):
    with (
        pytest.raises(MediaError, match=r"the encoder kept 30 of 31 frames; the file was not written"),
        VideoWriter(tmp_path / "out.mp4", width=WIDTH, height=HEIGHT, frame_rate=25, codec="h264") as writer,
    ):
        for frame in CLIP:
            writer.write(frame)
        writer.frames_written += 1
    assert os.listdir(tmp_path) == []


def test_writer_does_not_overwrite(tmp_path):
    path = tmp_path / "out.mkv"
    path.write_bytes(b"old")
    with pytest.raises(OutputExistsError, match="exists already; pass force=True to replace it"):
        VideoWriter(path, width=4, height=4, frame_rate=25, codec="ffv1").__enter__()
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("name", "changed", "sentence"),
    [
        ("out.avi", {}, r"path must end in \.mp4 for h264 video; got"),
        ("out.mp4", {"codec": "ffv1"}, r"path must end in \.mkv for ffv1 video; got"),
        ("out.mp4", {"codec": "mpeg2"}, "codec must be one of \\['h264', 'ffv1'\\]; got 'mpeg2'"),
        ("out.mp4", {"width": 0}, "width must be a whole number >= 1; got 0"),
        ("out.mp4", {"frame_rate": 0}, "frame_rate must be a number > 0 and <= 1000; got 0"),
        ("out.mp4", {"frame_rate": float("nan")}, "frame_rate must be a number > 0 and <= 1000; got nan"),
    ],
)
def test_writer_arguments(tmp_path, name, changed, sentence):
    arguments = {"width": WIDTH, "height": HEIGHT, "frame_rate": 25, "codec": "h264"} | changed
    with pytest.raises(ParameterError, match=sentence):
        VideoWriter(tmp_path / name, **arguments)


def test_writing_needs_an_open_writer(tmp_path):
    writer = VideoWriter(tmp_path / "out.mp4", width=WIDTH, height=HEIGHT, frame_rate=25, codec="h264")
    with pytest.raises(ParameterError, match="the writer must be open"):
        writer.write(CLIP[0])


def test_an_encoder_that_refuses_is_one_line(tmp_path):
    frames = [np.zeros((2, 40_000, 3), np.uint8)]
    refused(MediaError, r"out\.mp4: cannot be written \(", tmp_path / "out.mp4", frames, width=40_000, height=2)


TIMES = [0, 0.04, 0.5, 0.51, 0.5104, 2.0, 1.0, 60.25]
KEPT = [0, 0.04, 0.5, 0.51, 0.5104, 2.0, 2.0, 60.25]  # no time lies before the one of the frame before


@pytest.mark.parametrize(
    ("name", "codec", "width"), [("x.mp4", "h264", 64), ("y.mp4", "h264", 63), ("x.mkv", "ffv1", 64)]
)
def test_frames_keep_times_of_their_own(tmp_path, name, codec, width):
    path = tmp_path / name
    with VideoWriter(path, width=width, height=48, frame_rate=8 / 60, codec=codec, timed=True) as writer:
        for frame, time in zip(CLIP, TIMES, strict=False):
            writer.write(frame[:, :width], time)
    reader = VideoReader(path)
    assert [reader.time for _ in reader] == pytest.approx(KEPT, abs=0.0011 if codec == "ffv1" else 2 / 24_000)
    assert reader.problem is None


def test_times_are_for_writers_that_want_them(tmp_path):
    options = {"width": WIDTH, "height": HEIGHT, "frame_rate": 25, "codec": "ffv1"}
    refused = pytest.raises(ParameterError, match=r"time must be None; got 1; make the writer with timed=True")
    with refused, VideoWriter(tmp_path / "x.mkv", **options) as writer:
        writer.write(CLIP[0], 1)
    for time in (None, -1, float("nan")):
        refused = pytest.raises(ParameterError, match="time must be a finite number >= 0")
        with refused, VideoWriter(tmp_path / "x.mkv", timed=True, **options) as writer:
            writer.write(CLIP[0], time)
    assert os.listdir(tmp_path) == []


def test_of_large_pictures_the_encoder_holds_fewer(tmp_path, monkeypatch):
    """At 1920 x 1080 each frame that x264 holds takes 10 MB."""

    def begun(name):
        """Return how many of the first twelve frames are in the file before the thirteenth comes."""
        with VideoWriter(tmp_path / name, width=WIDTH, height=HEIGHT, frame_rate=25, codec="h264") as writer:
            given = writer._container

            class Counting:
                out = 0

                def mux(self, packets):
                    self.out += len(packets)
                    given.mux(packets)

                def close(self):
                    given.close()

            writer._container = counting = Counting()
            for frame in CLIP[:12]:
                writer.write(frame)
            return counting.out

    assert begun("small.mp4") <= 1
    monkeypatch.setattr("visionnmf.io.video.writer._LARGE", WIDTH * HEIGHT - 1)
    assert begun("large.mp4") >= 9


@pytest.mark.parametrize("pause", [3600, 30_000, 86_000])
def test_a_pause_of_up_to_a_day_is_written(tmp_path, pause):
    """FFmpeg refuses an MP4 frame of 2**31 units, which are 6.6 hours in MPEG's clock."""
    with VideoWriter(tmp_path / "x.mp4", width=WIDTH, **OPTIONS, timed=True) as writer:
        for i in range(6):
            writer.write(CLIP[i], 0.04 * i + (pause if i >= 3 else 0))
    reader = VideoReader(tmp_path / "x.mp4")
    assert [reader.time for _ in reader][3] == pytest.approx(pause + 0.12, abs=0.01)
