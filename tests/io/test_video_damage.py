"""Videos cut off, damaged, hostile or none: what is left is read and said, and nothing takes the process down."""

import io
import re
import shutil
import struct
import subprocess
import sys
import zlib
from types import SimpleNamespace

import av
import numpy as np
import pytest
from clips import CLIP, FILES, HEIGHT, WIDTH, N, cut, difference, encode, make_clip
from helpers import data_file
from PIL import Image

from visionnmf.exceptions import MediaError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io import LiveReader, VideoReader, VideoWriter
from visionnmf.io.video import reader as video
from visionnmf.io.video.decoding import Decoder, container_of

DECLARED = r"read {got} of 30 declared frames: the file is cut off or damaged"
UNPLACED = DECLARED + "; AVI seldom says where frames are missing, and all times after them are too early"
SECONDS = r"read \d\.\d\d of 1\.20 declared seconds \({got} frames\): the file is cut off or damaged"
CUTS = {  # what the cut leaves readable, and the sentence; None where the file cannot be opened
    "raw.avi": [(0.1, UNPLACED), (0.5, UNPLACED), (0.9, UNPLACED)],
    "motion.avi": [(0.5, UNPLACED), (0.9, UNPLACED)],
    "mpeg4.avi": [(0.1, None), (0.9, UNPLACED)],
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
    path = cut(files[name], part, tmp_path)
    if sentence is None:
        with pytest.raises(UnreadableError, match=r"cut off|no frame can be decoded"):
            VideoReader(path)
    else:
        with VideoReader(path) as reader:
            frames = list(reader)
        assert 1 <= len(frames) == reader.frames_read < N
        assert reader.truncated
        assert re.fullmatch(sentence.format(got=len(frames)), reader.problem)
        assert difference(frames[:1], CLIP[:1]) <= 8
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
        with VideoReader(tmp_path / "hurt.mp4")._opened() as decoder:
            # how many the decoder conceals after damage depends on how its threads meet
            assert sum(1 for _ in decoder.frames()) >= N - 5
            flagged += decoder.bad_packets > 0 and decoder.first_error is None
    assert flagged >= 1


def test_a_second_loop_judges_anew(files, tmp_path):
    path = cut(files["raw.avi"], 0.5, tmp_path)
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


def _still(form, times=1):
    buffer = io.BytesIO()
    Image.fromarray(CLIP[0]).save(buffer, form)
    return lambda path: path.write_bytes(times * buffer.getvalue()), UnreadableError, "a picture, not a video"


NONE = "not a video that can be read"
PLAYLIST = "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nhttp://127.0.0.1:9/x.ts\n"


HOSTILE = {
    "empty.mp4": (lambda path: path.touch(), UnreadableError, r"the file is empty \(0 bytes\)"),
    "folder.mp4": (lambda path: path.mkdir(), UnreadableError, "a folder, not a file; name the files in it"),
    "missing.mp4": (lambda path: None, UnreadableError, "no such file"),
    "text.mp4": (lambda path: path.write_text("hello\n" * 99), UnreadableError, NONE),
    "zeros.avi": (lambda path: path.write_bytes(bytes(9999)), UnreadableError, NONE),
    "noise.mkv": (lambda path: path.write_bytes(np.random.default_rng(0).bytes(9999)), UnreadableError, NONE),
    "playlist.m3u8": (lambda path: path.write_text(PLAYLIST), UnreadableError, NONE),
    "concat.mp4": (lambda path: path.write_text("ffconcat version 1.0\nfile /etc/hostname\n"), UnreadableError, NONE),
    "sound.mp4": (_only_sound, UnreadableError, "not a video: it holds only sound"),
    "nothing.avi": (_no_frames, UnreadableError, "no frame can be decoded|not a video"),
    **{f"still.{form.lower()}": _still(form) for form in ("PNG", "JPEG", "GIF", "WEBP", "TIFF")},
    "stills.png": _still("PNG", 2),
    "still.mp4": _still("PNG"),
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


def _videos_in_one_file(folder, number):
    path = folder / "many.mkv"
    with av.open(str(path), "w") as output:
        streams = [output.add_stream("mpeg4", rate=25) for _ in range(number)]
        for stream in streams:
            stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
            stream.codec_context.thread_count = 1
        for stream in streams:
            for frame in CLIP[:2]:
                output.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
            output.mux(stream.encode(None))
    return path


def test_the_size_limit_is_of_all_videos_of_a_file_together(tmp_path, monkeypatch):
    """Opening decodes of all: 24 of 16 megapixels, in 1.1 MB, took 1607 MiB, also where headers said 64 x 64."""
    path, pixels = _videos_in_one_file(tmp_path, 3), WIDTH * HEIGHT
    told = r"64 x 48 = 3072 pixels; at most 3071 are read of each of several videos in a file; make"
    with pytest.raises(TooLargeError, match=told):
        VideoReader(path, max_pixels=3 * pixels - 1)
    given = []
    monkeypatch.setattr(video, "container_of", lambda path, told: given.append(told) or container_of(path, told))
    assert len(list(VideoReader(path, max_pixels=30 * pixels))) == 2
    assert {told["max_pixels"] for told in given if "codec_whitelist" not in told} == {str(10 * pixels)}


@pytest.mark.parametrize("number", [64, 65])
def test_streams_are_counted_before_there_is_a_decoder_for_each(tmp_path, number, monkeypatch):
    """1000 streams, in a file of 645 kB whose frames have 4608 bytes, took 349 MiB."""
    path = _videos_in_one_file(tmp_path, number)
    if number == 64:
        assert VideoReader(path).width == WIDTH
    else:
        with pytest.raises(TooLargeError, match="holds 65 streams; at most 64 are read"):
            VideoReader(path)
    with path.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=file))
        assert LiveReader("-").width == WIDTH  # FFmpeg leaves the others out


def test_an_index_of_more_samples_than_fit_into_memory_is_refused(files, tmp_path):
    """FFmpeg makes an index of as many samples as a file of 9691 bytes declares."""
    path = tmp_path / "many.mp4"
    content = bytearray(files["x264.mp4"].read_bytes())
    struct.pack_into(">2I", content, content.index(b"stsz") + 8, 127, 1 << 28)
    path.write_bytes(content)
    code = (
        "import resource, sys; from visionnmf.io import VideoReader\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: VideoReader(sys.argv[1])\n"
        "except Exception as error: print(type(error).__name__)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    found = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    kind, kilobytes = found.stdout.split()
    assert kind == "UnreadableError" and int(kilobytes) < 600 << 10


@pytest.mark.parametrize("name", ["x264.mkv", "vp9.webm", "ffv1.mkv", "x264.mp4", "raw.avi"])
def test_the_size_limit_holds_before_decoding(files, name):
    with pytest.raises(TooLargeError, match=r"64 x 48 = 3072 pixels; at most 3071 are read"):
        VideoReader(files[name], max_pixels=WIDTH * HEIGHT - 1)
    assert len(list(VideoReader(files[name], max_pixels=WIDTH * HEIGHT))) == N


def test_a_size_that_changes_is_refused_at_its_frame(tmp_path):
    path = tmp_path / "two.ts"
    parts = [encode(tmp_path / f"{w}.ts", "mpeg2video", "yuv420p", frames=make_clip(10, 48, w)) for w in (64, 96)]
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


def test_damaged_frames_are_the_same_twice(tmp_path):
    rng = np.random.default_rng(0)
    frames = np.kron(rng.integers(0, 256, (40, 30, 40, 3), np.uint8), np.ones((1, 8, 8, 1), np.uint8))
    data = bytearray(encode(tmp_path / "whole.mp4", "libx264", "yuv420p", frames=frames).read_bytes())
    for position in rng.integers(len(data) // 10, len(data) * 9 // 10, 60):
        data[position] ^= 1 << int(rng.integers(8))
    path = tmp_path / "flipped.mp4"
    path.write_bytes(data)
    first, *others = (zlib.crc32(np.array(list(VideoReader(path))).tobytes()) for _ in range(5))
    assert others == [first] * 4


def test_the_file_that_takes_opencv_down():
    reader = VideoReader(data_file("video_rawvideo_48x48_crashes_opencv.avi"))
    assert sum(1 for _ in reader) == reader.declared_frames == 51
    assert (reader.width, reader.height, reader.truncated) == (48, 48, False)


class _BrokenContainer:
    """Gives the packets of a real file, then raises."""

    def __init__(self, container, error):
        self._container, self._error = container, error
        self.start_time, self.format = 0, container.format

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
        decoder = Decoder(_BrokenContainer(container, error), container.streams.video[0])
        assert sum(1 for _ in decoder.frames()) == N
        assert decoder.bad_packets == damaged
