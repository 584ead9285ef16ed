"""Video in: what goes in comes back, upright, in time, in bounded memory."""

import itertools
import struct
import tracemalloc
from types import SimpleNamespace

import av
import numpy as np
import pytest
from clips import CLIP, FILES, HEIGHT, ONE, RATE, WIDTH, N, difference, encode, make_clip
from helpers import data_file

from visionnmf.exceptions import ParameterError
from visionnmf.io import LiveReader, VideoReader, VideoWriter, cut_video
from visionnmf.io.video.pixels import FrameConverter
from visionnmf.io.video.timeline import Timeline


@pytest.mark.parametrize("name", FILES)
def test_every_kind_comes_back_as_rgb(files, name):
    with VideoReader(files[name]) as reader:
        frames, times = zip(*((frame, reader.time) for frame in reader), strict=True)
    assert times == pytest.approx(np.arange(N) / 25) and not reader.has_sound
    assert (reader.width, reader.height, reader.frame_rate) == (WIDTH, HEIGHT, RATE)
    assert reader.declared_frames in (N, None)
    assert (reader.frames_read, reader.truncated, reader.problem) == (N, False, None)
    assert all(frame.dtype == np.uint8 and frame.flags.c_contiguous for frame in frames)
    limit = {"raw.avi": 0, "ffv1.mkv": 0, "anim.gif": 20}.get(name, 8)
    assert difference(frames, CLIP) <= limit


def test_a_reader_can_be_read_twice_and_left_half_way(files):
    reader = VideoReader(files["x264.mp4"])
    first = next(iter(reader))
    half = list(itertools.islice(reader, N // 2))
    once, twice = list(reader), list(reader)
    np.testing.assert_array_equal(once, twice)
    np.testing.assert_array_equal(half, once[: N // 2])
    np.testing.assert_array_equal(first, once[0])
    assert reader.frames_read == N


def test_every_and_max_frames(files):
    everything = list(VideoReader(files["raw.avi"]))
    reader = VideoReader(files["raw.avi"], every=7)
    np.testing.assert_array_equal(list(reader), everything[::7])
    assert reader.frames_read == N
    reader = VideoReader(files["raw.avi"], every=7, max_frames=3)
    np.testing.assert_array_equal(list(reader), everything[:21:7])
    assert (reader.frames_read, reader.truncated) == (15, False)


def test_scale_averages_over_areas(files):
    reader = VideoReader(files["raw.avi"], scale=0.25)
    assert (reader.width, reader.height) == (16, 12)
    blocks = CLIP[3].reshape(12, 4, 16, 4, 3).mean(axis=(1, 3))
    assert np.abs(list(reader)[3] - blocks).max() <= 0.51
    reader = VideoReader(files["raw.avi"], scale=1e-6)
    assert next(iter(reader)).shape == (1, 1, 3)


MATRICES = {
    "none": ((ONE, 0, 0, ONE), lambda x: x),
    "90": ((0, ONE, -ONE, 0), lambda x: np.rot90(x, -1)),
    "180": ((-ONE, 0, 0, -ONE), lambda x: np.rot90(x, 2)),
    "270": ((0, -ONE, ONE, 0), lambda x: np.rot90(x, 1)),
    "mirrored": ((-ONE, 0, 0, ONE), lambda x: x[:, ::-1]),
    "upside down": ((ONE, 0, 0, -ONE), lambda x: x[::-1]),
    "transposed": ((0, ONE, ONE, 0), lambda x: x.swapaxes(0, 1)),
    "30 degrees": ((56756, 32768, -32768, 56756), lambda x: x),
}


@pytest.mark.parametrize("name", MATRICES)
def test_rotation_of_telephones(files, tmp_path, name):
    (a, b, c, d), turn = MATRICES[name]
    data = bytearray(files["x264.mp4"].read_bytes())
    start = data.find(b"tkhd") + 44  # the matrix of the track header, version 0
    struct.pack_into(">9i", data, start, a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path = tmp_path / "turned.mp4"
    path.write_bytes(data)
    expected = turn(next(iter(VideoReader(files["x264.mp4"], scale=0.5))))
    reader = VideoReader(path, scale=0.5)
    assert (reader.height, reader.width) == expected.shape[:2]
    # reduced by a half before or after turning: the same, up to rounding
    assert np.abs(next(iter(reader)).astype(int) - expected).max() <= 1


def test_variable_frame_rate_and_sound_are_no_damage(tmp_path):
    reader = VideoReader(encode(tmp_path / "x.avi", "mpeg4", "yuv420p", pts=UNEVEN))  # with empty packets
    assert len(list(reader)) == N and reader.problem is None and reader.declared_frames > 2 * N
    for name in ("x.mp4", "x.mkv"):
        for sound in (10, 90):  # shorter and longer than the pictures
            reader = VideoReader(encode(tmp_path / name, "libx264", "yuv420p", sound=sound))
            assert len(list(reader)) == N and reader.problem is None


@pytest.mark.parametrize(("codec", "options"), [("libx264", {"bf": "3"}), ("mpeg4", {"bf": "2"}), ("mpeg4", {})])
def test_b_frames_in_avi_come_at_even_times(codec, options, tmp_path):
    reader = VideoReader(encode(tmp_path / "x.avi", codec, "yuv420p", options=options))
    times = [frame.time for frame in reader.timed()]
    np.testing.assert_allclose(times, np.arange(N) / float(RATE))
    assert reader.damaged == 0 and not reader.notes


@pytest.mark.parametrize("codec", ["mjpeg", "mpeg4"])
def test_times_of_avi_are_right_after_a_damaged_beginning(codec, tmp_path):
    pixels = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    path = encode(tmp_path / "x.avi", codec, pixels, options={"g": "2"})
    whole = [frame.time for frame in VideoReader(path).timed()]
    data = bytearray(path.read_bytes())
    start = data.index(b"00dc", data.index(b"movi")) + 8
    size = struct.unpack_from("<I", data, start - 4)[0]
    data[start : start + size] = bytes(size)  # the first packet
    path.write_bytes(data)
    times = [frame.time for frame in VideoReader(path).timed()]
    assert len(times) < len(whole)
    np.testing.assert_allclose(times, whole[-len(times) :])


def test_packed_b_frames_in_avi():
    reader = VideoReader(data_file("video_highway_320x240.avi"), scale=0.25)  # of XviD
    times = [frame.time for frame in reader.timed()]
    np.testing.assert_allclose(np.diff(times), 1 / 60, rtol=1e-3)
    assert len(times) == 1699 and reader.damaged == 0


def test_frames_hidden_by_an_edit_list_are_no_damage(files, tmp_path):
    data = bytearray(files["end.mp4"].read_bytes())
    start = data.find(b"elst") + 12
    duration, media_time = struct.unpack_from(">Ii", data, start)
    struct.pack_into(">Ii", data, start, duration // 2, media_time)
    (tmp_path / "edited.mp4").write_bytes(data)
    reader = VideoReader(tmp_path / "edited.mp4")
    assert len(list(reader)) == reader.frames_read == N // 2 < reader.declared_frames
    assert reader.problem is None


def test_missing_or_absurd_frame_rate_becomes_25(files, tmp_path):
    data = bytearray(files["raw.avi"].read_bytes())
    start = data.find(b"strh") + 8 + 20  # scale and rate of the stream header
    struct.pack_into("<II", data, start, 1, 90_000)
    path = tmp_path / "absurd.avi"
    path.write_bytes(data)
    reader = VideoReader(path)
    assert reader.frame_rate == 25
    assert len(list(reader)) == N


@pytest.mark.parametrize(
    "arguments", [{"every": 0}, {"max_frames": 0}, {"scale": 0}, {"scale": 1.5}, {"scale": float("nan")}]
)
def test_reader_arguments(files, arguments):
    (name, value), *_ = arguments.items()
    with pytest.raises(ParameterError, match=rf"{name} must be a .*; got {value}"):
        VideoReader(files["raw.avi"], **arguments)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length(tmp_path):
    peaks = []
    for n in (20, 200):
        path = tmp_path / f"{n}.mkv"
        with VideoWriter(path, width=160, height=120, frame_rate=25, codec="ffv1") as writer:
            for frame in itertools.islice(itertools.cycle(make_clip(5, 120, 160)), n):
                writer.write(frame)
        tracemalloc.start()
        assert sum(1 for _ in VideoReader(path)) == n
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 100_000  # a frame takes 57600 bytes


UNEVEN = [i * (i + 7) // 6 for i in range(1, N + 1)]


def test_sound_that_begins_before_the_pictures_counts(tmp_path):
    reader = VideoReader(encode(tmp_path / "x.mkv", "libx264", "yuv420p", pts=[i + 50 for i in range(N)], sound=90))
    assert reader.has_sound
    next(iter(reader))
    assert reader.time == pytest.approx(2, abs=0.05)  # the encoder of sound puts a little before its beginning


@pytest.mark.parametrize(
    ("name", "codec"), [("x.mp4", "libx264"), ("x.mkv", "libx264"), ("x.avi", "mpeg4"), ("x.ts", "libx264")]
)
def test_metadata_that_are_no_utf8_stop_nothing(tmp_path, monkeypatch, name, codec):
    path = encode(tmp_path / name, codec, "yuv420p", title="Strasse 12")
    frames, content = list(VideoReader(path)), path.read_bytes()
    assert b"Strasse 12" in content
    path.write_bytes(content.replace(b"Strasse 12", b"Stra\xdfe \xff12"))
    assert difference(list(VideoReader(path)), frames) == 0
    cut_video(path, {tmp_path / f"cut{path.suffix}": (0.2, 0.8)})
    assert len(list(VideoReader(tmp_path / f"cut{path.suffix}"))) > 15
    if name != "x.mp4":  # its index stands at its end
        with path.open("rb") as file:
            monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=file))
            assert difference(list(LiveReader("-")), frames) == 0


@pytest.mark.parametrize(
    ("zero", "stamps", "expected"),
    [
        *((0, [0, 0.5, 0.6], [0, 0.5, 0.6]), (None, [3.0, 3.5], [0, 0.5]), (1, [1.5, 2], [0.5, 1])),
        (2, [1, 1.5], [0, 0.5]),  # begins before the file says
        (0, [None, None, 0.9], [0, 0.25, 0.9]),
        (0, [0.5, 0.5, 0.5, 2], [0.5, 0.75, 1, 2]),  # twice, thrice
        (0, [0, 0.25, 0.25, 0.5, 0.75, 1], [0, 0.25, 0.5, 0.5625, 0.75, 1]),  # a frame too many does not push the rest
        (0, [0.5, 10**8, 10**8 + 0.25], [0.5, 0.75, 1]),
        (0, [10**17], [0]),
        (0, [5, 5.25, 1, 1.25, 60, 60.25], [5, 5.25, 5.5, 5.75, 64.5, 64.75]),  # another recording, and a pause
    ],
)
def test_times_that_cannot_be_are_replaced(zero, stamps, expected):
    timeline = Timeline(0.25, zero)
    assert [timeline.add(stamp) for stamp in stamps] == pytest.approx(expected)


def test_hdr_is_said_to_be_read_as_sdr():
    frame, converter = (
        av.VideoFrame.from_ndarray(CLIP[0], format="rgb24").reformat(format="yuv420p10le"),
        FrameConverter(),
    )
    frame.color_trc = 16
    assert converter.rgb(frame).shape == CLIP[0].shape
    assert [note.split(",")[0] for note in converter.notes] == ["HDR video (PQ) is read as if it were SDR"]
