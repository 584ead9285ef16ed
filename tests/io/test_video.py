"""Video in and out: what goes in comes back, what is cut off is said, and nothing takes the process down."""

import io
import itertools
import re
import shutil
import struct
import threading
import tracemalloc
import weakref
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from helpers import data_file
from PIL import Image

from visionnmf.exceptions import (
    MediaError,
    ParameterError,
    TooLargeError,
    UnreadableError,
    UnsupportedError,
)
from visionnmf.io import VideoReader, VideoWriter, sample_frames
from visionnmf.io.video import _Decoder, _opened

N, HEIGHT, WIDTH = 30, 48, 64
RATE = Fraction(25)
ONE = 1 << 16


def _clip(n=N, height=HEIGHT, width=WIDTH):
    """Smooth colours that move; smooth, because 4:2:0 halves the resolution of colour."""
    y, x = np.mgrid[:height, :width] / 12
    frames = []
    for i in range(n):
        waves = (np.sin(x + i / 5), np.cos(y - i / 7), np.sin((x + y) / 2 + i / 3))
        frames.append(np.stack([127 + 100 * wave for wave in waves], axis=2).astype(np.uint8))
    return frames


CLIP = _clip()


def _encode(path, codec, pixel_format, *, frames=None, pts=None, sound=0, container=None, options=None):
    """Write a video without the code under test; `sound` is a number of frames' time of silence."""
    frames = CLIP if frames is None else frames
    with av.open(str(path), "w", options=container or {}) as output:
        video = output.add_stream(codec, rate=RATE, options=options or {})
        video.height, video.width = frames[0].shape[:2]
        video.pix_fmt = pixel_format
        audio = output.add_stream("aac", rate=48000) if sound else None
        for i, frame in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(format=pixel_format)
            picture.pts, picture.time_base = i if pts is None else pts[i], 1 / RATE
            output.mux(video.encode(picture))
        for i in range(sound):
            silence = av.AudioFrame.from_ndarray(np.zeros((1, 2 * 1920), np.int16), format="s16", layout="stereo")
            silence.sample_rate, silence.pts = 48000, i * 1920
            output.mux(audio.encode(silence))
        output.mux(video.encode(None))
        if audio is not None:
            output.mux(audio.encode(None))
    return path


FILES = {
    "x264.mp4": ("libx264", "yuv420p", {"container": {"movflags": "+faststart"}}),
    "end.mp4": ("libx264", "yuv420p", {}),
    "ten bits.mp4": ("libx264", "yuv420p10le", {}),
    "x264.mkv": ("libx264", "yuv420p", {}),
    "ffv1.mkv": ("ffv1", "bgr0", {"options": {"level": "3"}}),
    "vp9.webm": ("libvpx-vp9", "yuv420p", {"options": {"deadline": "realtime", "cpu-used": "8"}}),
    "motion.avi": ("mjpeg", "yuvj420p", {}),
    "raw.avi": ("rawvideo", "bgr24", {}),
    "mpeg4.avi": ("mpeg4", "yuv420p", {"options": {"b": "2M"}}),
    "stream.ts": ("libx264", "yuv420p", {}),
    "anim.gif": ("gif", "rgb8", {}),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    return {name: _encode(folder / name, codec, form, **extra) for name, (codec, form, extra) in FILES.items()}


def _difference(frames, expected):
    frames, expected = np.stack(frames).astype(int), np.stack(expected).astype(int)
    assert frames.shape == expected.shape
    return np.abs(frames - expected).mean()


@pytest.mark.parametrize("name", FILES)
def test_every_kind_comes_back_as_rgb(files, name):
    with VideoReader(files[name]) as reader:
        frames = list(reader)
    assert (reader.width, reader.height, reader.frame_rate) == (WIDTH, HEIGHT, RATE)
    assert reader.frame_rate_known
    assert reader.declared_frames in (N, None)
    assert (reader.frames_read, reader.truncated, reader.problem) == (N, False, None)
    assert all(frame.dtype == np.uint8 and frame.flags.c_contiguous for frame in frames)
    limit = {"raw.avi": 0, "ffv1.mkv": 0, "anim.gif": 20}.get(name, 8)
    assert _difference(frames, CLIP) <= limit


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
    pts = [i * (i + 7) // 6 for i in range(1, N + 1)]
    for name, codec in (("x.mp4", "libx264"), ("x.mkv", "libx264"), ("x.avi", "mpeg4")):  # AVI: with empty packets
        reader = VideoReader(_encode(tmp_path / name, codec, "yuv420p", pts=pts))
        assert len(list(reader)) == N and reader.problem is None
    assert reader.declared_frames > 2 * N
    for name in ("x.mp4", "x.mkv"):
        for sound in (10, 90):  # shorter and longer than the pictures
            reader = VideoReader(_encode(tmp_path / name, "libx264", "yuv420p", sound=sound))
            assert len(list(reader)) == N and reader.problem is None


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
    assert (reader.frame_rate, reader.frame_rate_known) == (25, False)
    assert len(list(reader)) == N


def _cut(source, part, folder):
    path = folder / f"cut{source.suffix}"
    path.write_bytes(source.read_bytes()[: int(source.stat().st_size * part)])
    return path


DECLARED = r"read {got} of 30 declared frames: the file is cut off or damaged"
SECONDS = r"read \d\.\d\d of 1\.20 declared seconds \({got} frames\): the file is cut off or damaged"
CUTS = {  # what the cut leaves readable, and the sentence; None where the file cannot be opened
    "raw.avi": [(0.1, DECLARED), (0.5, DECLARED), (0.9, DECLARED)],
    "motion.avi": [(0.5, DECLARED), (0.9, DECLARED)],
    "mpeg4.avi": [(0.1, None), (0.9, DECLARED)],
    "x264.mp4": [(0.1, None), (0.9, DECLARED)],
    "end.mp4": [(0.1, None), (0.5, None)],
    "ffv1.mkv": [(0.1, SECONDS), (0.5, SECONDS), (0.9, SECONDS)],
    "vp9.webm": [(0.5, SECONDS), (0.9, SECONDS)],
    "x264.mkv": [(0.1, None), (0.9, SECONDS)],
}


@pytest.mark.parametrize(
    ("name", "part", "sentence"), [(name, *case) for name, cases in CUTS.items() for case in cases]
)
def test_a_cut_video_gives_what_is_left_and_says_so(files, tmp_path, name, part, sentence, capfd):
    path = _cut(files[name], part, tmp_path)
    if sentence is None:
        with pytest.raises(UnreadableError, match=r"cut off|no frame can be decoded"):
            VideoReader(path)
    else:
        with VideoReader(path) as reader:
            frames = list(reader)
        assert 1 <= len(frames) == reader.frames_read < N
        assert reader.truncated
        assert re.fullmatch(sentence.format(got=len(frames)), reader.problem)
        assert _difference(frames[:1], CLIP[:1]) <= 8
    assert capfd.readouterr().err == ""


def test_one_frame_fewer_than_declared_is_no_damage(files, tmp_path):
    data = bytearray(files["raw.avi"].read_bytes())
    for declared, alarm in ((N, False), (N + 1, False), (N + 5, True)):
        for mark, offset in ((b"avih", 8 + 16), (b"strh", 8 + 32)):
            struct.pack_into("<I", data, data.find(mark) + offset, declared)
        path = tmp_path / "count.avi"
        path.write_bytes(data)
        reader = VideoReader(path)
        assert len(list(reader)) == N
        assert (reader.declared_frames, reader.truncated) == (declared, alarm)


def test_a_wrong_duration_alone_is_no_damage(files, tmp_path):
    data = bytearray(files["x264.mp4"].read_bytes())
    for mark, offset in ((b"mdhd", 20), (b"mvhd", 20), (b"tkhd", 24)):
        start = data.find(mark) + offset
        struct.pack_into(">I", data, start, 3 * struct.unpack_from(">I", data, start)[0])
    path = tmp_path / "slow.mp4"
    path.write_bytes(data)
    reader = VideoReader(path)
    assert len(list(reader)) == reader.declared_frames == N
    assert reader.problem is None


def test_a_last_packet_that_is_cut_is_said_even_if_it_decodes(tmp_path):
    path = tmp_path / "cut.mp4"
    with VideoWriter(path, width=63, height=47, frame_rate=25, codec="h264") as writer:  # VP9
        for frame in CLIP:
            writer.write(frame[:47, :63])
    path.write_bytes(path.read_bytes()[:-3])
    reader = VideoReader(path)
    assert len(list(reader)) == N
    assert reader.problem == "read 30 frames, 1 of them damaged or lost: the file is cut off or damaged"


def test_frames_that_the_decoder_had_to_invent_are_said(files, tmp_path):
    original = files["x264.mp4"].read_bytes()
    flagged = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        data = bytearray(original)
        place = int(rng.integers(len(data) // 2, len(data) - 8))
        data[place : place + 8] = rng.bytes(8)
        (tmp_path / "hurt.mp4").write_bytes(data)
        with _opened(tmp_path / "hurt.mp4", 10**6) as decoder:
            assert sum(1 for _ in decoder.frames()) >= N - 2
            flagged += decoder.bad_packets > 0 and decoder.first_error is None
    assert flagged >= 1


def test_a_second_loop_judges_anew(files, tmp_path):
    path = _cut(files["raw.avi"], 0.5, tmp_path)
    reader = VideoReader(path)
    list(reader)
    assert reader.truncated
    shutil.copyfile(files["raw.avi"], path)
    list(reader)
    assert (reader.truncated, reader.problem) == (False, None)


def _only_sound(path):
    with av.open(str(path), "w") as output:
        audio = output.add_stream("aac", rate=48000)
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 2 * 4096), np.int16), format="s16", layout="stereo")
        silence.sample_rate = 48000
        output.mux(audio.encode(silence))
        output.mux(audio.encode(None))


def _no_frames(path):
    """An AVI file whose list of frames is empty."""
    with av.open(str(path), "w") as output:
        video = output.add_stream("rawvideo", rate=25)
        video.width, video.height, video.pix_fmt = 8, 8, "bgr24"
        output.start_encoding()


def _declared_size(path):
    with av.open(str(path), "w") as output:
        video = output.add_stream("mjpeg", rate=25)
        video.width, video.height, video.pix_fmt = 8, 8, "yuvj420p"
        picture = av.VideoFrame.from_ndarray(CLIP[0][:8, :8].copy(), format="rgb24").reformat(format="yuvj420p")
        output.mux(video.encode(picture))
        output.mux(video.encode(None))
    data = bytearray(path.read_bytes())
    struct.pack_into("<II", data, data.find(b"strf") + 12, 100_000, 100_000)
    path.write_bytes(data)


def _png_bytes():
    buffer = io.BytesIO()
    Image.fromarray(CLIP[0]).save(buffer, "PNG")
    return buffer.getvalue()


def _still(form):
    return lambda path: Image.fromarray(CLIP[0]).save(path, form)


HOSTILE = {
    "empty.mp4": (lambda path: path.touch(), UnreadableError, r"the file is empty \(0 bytes\)"),
    "folder.mp4": (lambda path: path.mkdir(), UnreadableError, "a folder, not a file; name the files in it"),
    "missing.mp4": (lambda path: None, UnreadableError, "no such file"),
    "text.mp4": (lambda path: path.write_text("hello\n" * 99), UnreadableError, "not a video that can be read"),
    "zeros.avi": (lambda path: path.write_bytes(bytes(9999)), UnreadableError, "not a video that can be read"),
    "noise.mkv": (
        lambda path: path.write_bytes(np.random.default_rng(0).bytes(9999)),
        UnreadableError,
        "not a video that can be read",
    ),
    "playlist.m3u8": (
        lambda path: path.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nhttp://127.0.0.1:9/x.ts\n"),
        UnreadableError,
        "not a video that can be read",
    ),
    "concat.mp4": (
        lambda path: path.write_text("ffconcat version 1.0\nfile /etc/hostname\n"),
        UnreadableError,
        "not a video that can be read",
    ),
    "sound.mp4": (_only_sound, UnreadableError, "not a video: it holds only sound"),
    "nothing.avi": (_no_frames, UnreadableError, "no frame can be decoded|not a video"),
    "still.png": (_still("PNG"), UnreadableError, "a still picture, not a video"),
    "still.jpg": (_still("JPEG"), UnreadableError, "a still picture, not a video"),
    "still.gif": (_still("GIF"), UnreadableError, "a still picture, not a video"),
    "still.webp": (_still("WEBP"), UnreadableError, "a still picture, not a video"),
    "still.tif": (_still("TIFF"), UnreadableError, "a still picture, not a video"),
    "stills.png": (
        lambda path: path.write_bytes(2 * _png_bytes()),
        UnreadableError,
        "a still picture, not a video",
    ),
    "still.mp4": (_still("PNG"), UnreadableError, "a still picture, not a video"),
    "huge.avi": (_declared_size, TooLargeError, r"declares frames of 100000 x 100000 = 10000000000 pixels; at most"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_video_gets_one_line(tmp_path, name, capfd):
    make, error, sentence = HOSTILE[name]
    path = tmp_path / name
    make(path)
    with pytest.raises(error, match=sentence) as caught:
        VideoReader(path)
    assert "\n" not in str(caught.value) and str(caught.value).startswith(str(path))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["x264.mkv", "vp9.webm", "ffv1.mkv", "x264.mp4", "raw.avi"])
def test_the_size_limit_holds_before_decoding(files, name):
    with pytest.raises(TooLargeError, match=r"64 x 48 = 3072 pixels; at most 3071 are read"):
        VideoReader(files[name], max_pixels=WIDTH * HEIGHT - 1)
    assert len(list(VideoReader(files[name], max_pixels=WIDTH * HEIGHT))) == N


def test_a_size_that_changes_is_refused_at_its_frame(tmp_path):
    path = tmp_path / "two.ts"
    parts = [
        _encode(tmp_path / f"{i}.ts", "mpeg2video", "yuv420p", frames=_clip(10, 48, w)) for i, w in ((0, 64), (1, 96))
    ]
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    got = 0
    with pytest.raises(UnsupportedError, match=r"the size changes from 64 x 48 to 96 x 48 at frame (10|11);"):
        for _ in VideoReader(path):
            got += 1
    assert got in (9, 10)


@pytest.mark.parametrize("name", FILES)
def test_flipped_bits_give_frames_or_one_line(files, tmp_path, name, capfd):
    original = files[name].read_bytes()
    for seed in range(12):
        rng = np.random.default_rng([seed, len(name)])
        data = bytearray(original)
        reach = min(len(data), 1500) if seed % 2 else len(data)
        for position in rng.integers(0, reach, int(rng.choice([1, 5, 50, 500]))):
            data[position] ^= 1 << int(rng.integers(8))
        path = tmp_path / f"flipped{files[name].suffix}"
        path.write_bytes(data)
        try:
            with VideoReader(path) as reader:
                for frame in reader:
                    assert frame.shape == (reader.height, reader.width, 3) and frame.dtype == np.uint8
        except MediaError as error:
            assert "\n" not in str(error)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "arguments", [{"every": 0}, {"max_frames": 0}, {"scale": 0}, {"scale": 1.5}, {"scale": float("nan")}]
)
def test_reader_arguments(files, arguments):
    (name, value), *_ = arguments.items()
    with pytest.raises(ParameterError, match=rf"{name} must be a .*; got {value}"):
        VideoReader(files["raw.avi"], **arguments)


def test_memory_does_not_grow_with_the_length(tmp_path):
    peaks = []
    for n in (20, 200):
        path = tmp_path / f"{n}.mkv"
        with VideoWriter(path, width=160, height=120, frame_rate=25, codec="ffv1") as writer:
            for frame in itertools.islice(itertools.cycle(_clip(5, 120, 160)), n):
                writer.write(frame)
        tracemalloc.start()
        assert sum(1 for _ in VideoReader(path)) == n
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 100_000  # a frame takes 57600 bytes


@pytest.mark.parametrize(("length", "n"), [(1, 5), (5, 5), (9, 5), (10, 5), (11, 5), (100, 7), (1000, 10), (64, 1)])
def test_sampled_frames_are_spread_evenly(length, n):
    frames = (np.array([[[i % 256, i // 256, 0]] * 3] * 2, np.uint8) for i in range(length))
    picked = sample_frames(frames, n)
    numbers = picked[:, 0, 0, 0].astype(int) + 256 * picked[:, 0, 0, 1].astype(int)
    assert picked.shape == (min(n, length), 2, 3, 3) and picked.dtype == np.uint8
    assert numbers[0] == 0
    gaps = np.diff(numbers)
    if len(gaps):
        assert gaps.min() >= 1 and gaps.max() <= 2 * gaps.min()
        assert numbers[-1] >= length - 1 - gaps.max()  # the end of the clip is covered


def test_sampling_holds_a_bounded_number_of_frames():
    alive, most = set(), 0

    def frames():
        nonlocal most
        for i in range(500):
            frame = np.zeros((2, 2, 3), np.uint8)
            alive.add(i)
            weakref.finalize(frame, alive.discard, i)
            most = max(most, len(alive))
            yield frame

    assert len(sample_frames(frames(), 8)) == 8
    assert 8 <= most <= 2 * 8 + 1


def test_sampling_needs_frames():
    with pytest.raises(ParameterError, match="frames must hold at least one frame"):
        sample_frames([], 3)
    with pytest.raises(ParameterError, match="n must be a whole number >= 1; got 0"):
        sample_frames(CLIP, 0)


def test_threads_are_bounded(files):
    before = threading.active_count()
    tasks = Path("/proc/self/task")
    if not tasks.is_dir():
        pytest.skip("needs /proc")
    idle = len(list(tasks.iterdir()))
    reader = iter(VideoReader(files["x264.mp4"]))
    next(reader)
    assert len(list(tasks.iterdir())) - idle <= 3 and threading.active_count() == before
    reader.close()


def test_the_file_that_takes_opencv_down():
    reader = VideoReader(data_file("video_rawvideo_48x48_crashes_opencv.avi"))
    assert sum(1 for _ in reader) == reader.declared_frames == 51
    assert (reader.width, reader.height, reader.truncated) == (48, 48, False)


def test_a_healthy_file_whose_header_is_off_by_one():
    reader = VideoReader(data_file("video_highway_320x240.avi"), scale=0.25)
    assert sum(1 for _ in reader) == 1699
    assert (reader.declared_frames, reader.truncated, reader.problem) == (1700, False, None)
    assert 59 < reader.frame_rate < 61


class _BrokenContainer:
    """Gives the packets of a real file, then raises."""

    def __init__(self, container, error):
        self._container, self._error = container, error

    def demux(self):
        for packet in self._container.demux():
            if packet.size == 0:
                raise self._error
            yield packet


@pytest.mark.parametrize(
    ("error", "damaged"), [(IndexError("list index out of range"), 0), (av.error.InvalidDataError(1, "bad"), 1)]
)
def test_errors_while_demuxing_keep_the_frames_before_them(files, error, damaged):
    with av.open(str(files["x264.mp4"])) as container:
        decoder = _Decoder(_BrokenContainer(container, error), container.streams.video[0])
        assert sum(1 for _ in decoder.frames()) == N
        assert decoder.bad_packets == damaged
