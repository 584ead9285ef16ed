"""Frames that come but once, and pictures as frames: from pipes, a local server, folders."""

import io
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import av
import numpy as np
import pytest
from helpers import run_command, serving
from PIL import Image
from rtsp import camera

from visionnmf.apps.background.settings import VideoSettings
from visionnmf.apps.background.sources import recorded
from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.io import LiveReader, PictureSequence, VideoReader, is_live, open_video, pictures_of, write_image
from visionnmf.io.video.timeline import FramesWanted, TimedFrame

FRAMES = [np.full((48, 64, 3), 8 * level, np.uint8) for level in range(30)]


def levels(frames):
    return [round(float(frame.mean()) / 8) for frame in frames]


def encoded(container, codec="mpeg2video", frames=FRAMES, rate=25, options=None, pixel_format="yuv420p"):
    """Frames as the bytes of a file."""
    buffer = io.BytesIO()
    buffer.name = "x"
    with av.open(buffer, "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate, options=options or {})
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = pixel_format
        stream.gop_size = 5
        for frame in frames:
            output.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        output.mux(stream.encode(None))
    return buffer.getvalue()


@pytest.fixture
def pipe(monkeypatch):
    """Make bytes standard input, in pieces as a pipe gives them."""

    def give(data):
        class Pipe(io.RawIOBase):
            at = 0

            def readable(self):
                return True

            def read(self, n=-1):
                n = min(4096, len(data) - self.at if n < 0 else n)
                self.at += n
                return data[self.at - n : self.at]

        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Pipe()))

    return give


# --- standard input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("container", "codec"), [("yuv4mpegpipe", "rawvideo"), ("mpegts", "mpeg2video"), ("matroska", "ffv1")]
)
def test_standard_input_of_any_format(pipe, container, codec):
    pipe(encoded(container, codec))
    with LiveReader("-") as reader:
        assert (reader.width, reader.height) == (64, 48)
        assert reader.frame_rate == 25
        times = []
        found = [(frame, times.append(reader.time))[0] for frame in reader]
    assert levels(found) == pytest.approx(range(30), abs=1)
    assert times == pytest.approx(np.arange(30) / 25, abs=2e-3)
    assert reader.notes == [] and reader.damaged == 0
    with pytest.raises(ParameterError, match="gone through once"):
        iter(reader).__next__()


def test_standard_input_that_is_no_video(pipe):
    for data in (b"", b"no video at all" * 1000, FRAMES[0].tobytes()):
        pipe(data)
        with pytest.raises(UnreadableError, match=r"^-: not a video .*; give raw frames a header, for instance by: ff"):
            LiveReader("-")


def test_playlists_reach_nothing(pipe, tmp_path):
    (tmp_path / "secret.mkv").write_bytes(encoded("matroska", "ffv1", FRAMES[:3]))
    pipe(f"ffconcat version 1.0\nfile '{tmp_path / 'secret.mkv'}'\n".encode())
    with pytest.raises(UnreadableError):
        LiveReader("-")
    pipe(f"#EXTM3U\n#EXTINF:1,\nfile://{tmp_path / 'secret.mkv'}\n#EXT-X-ENDLIST\n".encode())
    with pytest.raises(UnreadableError):
        LiveReader("-")


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.fixture
def server():
    """A server; `parts` are what connections get, one after the other, whose end is no end of the stream."""
    parts = []

    def answer(request):
        part = parts.pop(0) if parts else None
        if part is None:
            request.send_error(503)
            return
        whole, data = part
        request.send_response(200)
        request.send_header("Content-Type", "application/octet-stream")
        if whole:
            request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    with serving(answer) as found:
        found.parts = parts
        yield found


def test_a_file_behind_an_address_has_an_end(server):
    server.parts.append((True, encoded("matroska", "ffv1")))
    reader = LiveReader(f"{server.url}/clip.mkv", timeout=5)
    assert levels(reader) == list(range(30))
    assert reader.notes == [] and reader.reconnections == 0


def test_an_mp4_with_its_index_at_the_end_needs_a_server_of_parts(server):
    noise = [np.random.default_rng(0).integers(0, 256, (480, 640, 3), dtype=np.uint8)] * 9
    server.parts += [(True, encoded("mp4", "mpeg4", noise))] * 9
    with pytest.raises(UnreadableError, match=r"no frame has come; of an MP4 .* download it"):
        LiveReader(f"{server.url}/clip.mp4", timeout=2, patience=0.1)


@pytest.mark.slow
def test_a_stream_that_breaks_off_is_found_again(server):
    server.parts += [
        (False, encoded("mpegts", frames=FRAMES[:12])),
        None,
        (False, encoded("mpegts", frames=FRAMES[12:])),
    ]
    reader = LiveReader(f"{server.url}/live.ts", timeout=5, patience=2)
    times = []
    found = [(frame, times.append(reader.time))[0] for frame in reader]
    assert levels(found) == pytest.approx(range(30), abs=1)
    assert (np.diff(times) > 0).all() and np.diff(times).max() > 0.5  # the time that has passed meanwhile
    assert reader.reconnections == 1
    assert "the source was lost" in reader.notes[-1] and len(server.asked) > 3


@pytest.mark.slow
def test_a_camera_that_speaks_rtsp_and_is_found_again():
    parts = [encoded("mpegts", frames=frames) for frames in (FRAMES[:15], FRAMES[15:])]
    with camera(parts) as (address, asked):
        reader = LiveReader(address, timeout=3, patience=3)
        found = levels(reader)
    assert asked.count("PLAY") >= 2 and "SETUP" in asked
    assert (reader.width, reader.height, reader.reconnections) == (64, 48, 1)
    # MPEG-2 in RTP has no sign of its end, so that the last frames of a connection may be lost with it
    assert found == sorted(found) and len(found) > 24 and found[0] <= 1 and found[-1] >= 27


def test_nobody_answers(server):
    began = time.monotonic()
    for address in ("http://127.0.0.1:9/x", "rtsp://127.0.0.1:9/x", f"{server.url}/none", "camera:97", "/dev/video97"):
        with pytest.raises(UnreadableError, match=f"^{address}: no video comes from there"):  # the third: 503
            LiveReader(address, timeout=2)
    assert time.monotonic() - began < 20


@pytest.mark.slow
def test_a_server_that_says_nothing(monkeypatch):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(UnreadableError, match=r"no video comes from there \(no answer within the time allowed\)"):
            LiveReader(f"http://127.0.0.1:{silent.getsockname()[1]}/x", timeout=0.5)
        assert time.monotonic() - began < 10


def test_playlists_of_a_server_are_not_followed(server):
    body = f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{server.url}/other.ts\n#EXT-X-ENDLIST\n".encode()
    server.parts += [(True, body)] * 3
    with pytest.raises(UnreadableError):
        LiveReader(f"{server.url}/list.m3u8", timeout=2)
    assert "/other.ts" not in server.asked


READ_ENDLESS = """
import sys
from visionnmf.io import LiveReader
from visionnmf.io.video import decoding
decoding.MOST_MEMORY = 16 << 20
reader = LiveReader(sys.argv[1], patience=0)
print(sum(1 for _ in reader), *reader.notes)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the module of PyAV does not lead to FFmpeg's functions")
def test_a_part_that_never_ends_takes_no_memory_without_bound(server):
    """In a process of its own, because the limit holds for all that FFmpeg does in a process."""
    picture = io.BytesIO()
    Image.fromarray(np.full((48, 64, 3), 90, np.uint8)).save(picture, "JPEG")
    part = b"--ffmpeg\r\nContent-Type: image/jpeg\r\n\r\n" + picture.getvalue()
    server.parts.append((False, (part + b"\r\n") * 20 + part[:-2] + bytes(64 << 20)))
    command = [sys.executable, "-c", READ_ENDLESS, f"{server.url}/x"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout == "20 the source was lost (Cannot allocate memory)\n"


@pytest.fixture
def empty_parts():
    """The address of a server that sends parts without a picture for ever."""

    def answer(request):
        request.send_response(200)
        request.send_header("Content-Type", "multipart/x-mixed-replace; boundary=ffmpeg")
        request.end_headers()
        while True:
            request.wfile.write(b"--ffmpeg\r\nContent-Type: image/jpeg\r\n\r\n\r\n" * 500)

    with serving(answer) as found:
        yield f"{found.url}/x"


@pytest.mark.slow
@pytest.mark.parametrize("asked", [True, False])
def test_packets_without_a_picture_end(empty_parts, asked):
    """They were read for ever, and not even a signal ended it."""
    began = time.monotonic()
    with pytest.raises(UnreadableError, match="no frame has come"):
        LiveReader(empty_parts, timeout=2, patience=1, until=lambda: asked and time.monotonic() - began > 0.5)
    assert time.monotonic() - began < 20


def test_a_download_that_does_not_say_its_length_is_read_once(server, tmp_path):
    server.parts += [(False, encoded("mpegts"))] * 3
    with recorded(f"HTTP{server.url[4:]}/a.ts", VideoSettings(), timeout=5) as (path, reader):
        assert levels(VideoReader(path)) == pytest.approx(range(30), abs=1)
    assert server.asked == ["/a.ts"] and reader.notes == []
    with recorded(f"{server.url}/a.ts", VideoSettings(end=9.0), timeout=5) as (path, _):
        assert len(list(VideoReader(path))) == 30
    assert len(server.asked) == 2 and reader.notes == []
    server.parts[:] = [(True, encoded("mpegts"))] * 2  # says its length, but no duration: also where cameras are meant
    reader = LiveReader(f"{server.url}/a.ts", timeout=5)
    assert len(list(reader)) == 30 and reader.notes == [] and len(server.asked) == 3


@pytest.mark.parametrize("whole", [True, False])
def test_a_file_that_closes_early_is_cut_off(server, pipe, whole):
    data = encoded("matroska", "mpeg2video", FRAMES * 4)
    server.parts.append((whole, data[: len(data) // 2]))
    reader = LiveReader(f"{server.url}/clip.mkv", timeout=5)
    read = len(list(reader))
    assert 30 < read < 90 and len(server.asked) == 1
    pipe(data[: len(data) // 2])
    from_pipe = LiveReader("-")
    assert len(list(from_pipe)) == read
    for cut in (reader, from_pipe):
        assert cut.truncated and "of 4.80 declared seconds" in cut.problem and cut.notes[-1] == cut.problem
    pipe(data)
    stopped = LiveReader("-", max_frames=5)
    assert len(list(stopped)) == 5 and not stopped.truncated


def test_who_asks_for_the_end_is_heard_while_a_source_is_looked_for(server):
    server.parts.append((False, encoded("mpegts")))
    asked = []

    def until():
        asked.append(time.monotonic())
        return len(server.asked) > 1

    reader = LiveReader(f"{server.url}/a.ts", timeout=5, until=until)
    began = time.monotonic()
    assert len(list(reader)) == 30
    assert time.monotonic() - began < 3 and len(asked) > 3


def test_a_source_that_ends_before_the_start(pipe):
    pipe(encoded("matroska", "ffv1"))
    with pytest.raises(ParameterError, match=r"start must be at most 1\.160 s, when the last frame .* is shown; got 5"):
        list(LiveReader("-", start=5))
    latest = 11 / 36  # of a dozen frames; 0.306 s would be too late
    frames = [TimedFrame(number, number / 36) for number in range(12)]
    with pytest.raises(ParameterError, match=r"start must be at most 0\.305 s"):
        list(FramesWanted(start=0.306).choose(frames))
    assert [frame.picture for frame in FramesWanted(start=0.305).choose(frames)] == [11] and 0.305 < latest < 0.306


def test_passwords_are_not_told():
    with pytest.raises(UnreadableError, match=r"^rtsp://me:\*\*\*@127\.0\.0\.1:9/x: no video"):
        LiveReader("RTSP://me:se@cret@127.0.0.1:9/x", timeout=2)
    with pytest.raises(ParameterError) as caught, recorded("rtsp://me:secret@gate/1", VideoSettings()):
        pass
    assert "secret" not in str(caught.value) and "me:***@gate/1" in str(caught.value)


# --- damage -----------------------------------------------------------------------------------------------------------


def test_damaged_frames_in_the_middle_are_left_out(pipe, rng):
    busy = [rng.integers(0, 256, (48, 64, 3), dtype=np.uint8) for _ in range(60)]
    data = bytearray(encoded("mpegts", "libx264", busy, options={"tune": "zerolatency"}))
    packets = len(data) // 188
    for number in range(packets // 3, packets // 3 + 12):
        data[188 * number + 20 : 188 * number + 180] = bytes(160)
    pipe(bytes(data))
    reader = LiveReader("-")
    found = list(reader)
    assert 30 < len(found) < 60
    assert reader.damaged > 0 and "left out" in reader.notes[0]


def test_no_key_frame_at_the_start(pipe):
    data = encoded("mpegts", "libx264", FRAMES * 2, options={"tune": "zerolatency", "x264-params": "repeat-headers=1"})
    cut = len(data) // 188 // 4 * 188
    pipe(data[:376] + data[cut:])  # the tables, then the middle of a group of pictures
    found = list(LiveReader("-"))
    assert len(found) > 30


# --- pictures ---------------------------------------------------------------------------------------------------------


def test_pictures_of_a_folder_in_their_natural_order(tmp_path):
    for number in (1, 2, 9, 10, 11):
        write_image(tmp_path / f"f{number}.png", FRAMES[number])
    (tmp_path / "notes.txt").write_text("x")
    reader = PictureSequence(tmp_path, frame_rate=5)
    for _ in range(2):
        times = []
        found = [(frame, times.append(reader.time))[0] for frame in reader]
        assert levels(found) == [1, 2, 9, 10, 11] and times == pytest.approx([0, 0.2, 1.6, 1.8, 2.0])
    assert reader.declared_frames == 5 and not reader.truncated
    part = PictureSequence(str(tmp_path / "f1*.png"), frame_rate=1, every=2, scale=0.5)
    assert levels(part) == [1, 11] and (part.width, part.height) == (32, 24)
    assert levels(PictureSequence(tmp_path, frame_rate=5, start=0.2, end=1.9, max_frames=2)) == [2, 9]


def test_a_folder_with_fewer_pictures_than_one_in_it_is_doubted(tmp_path):
    """As the folder of a clip of CDnet, with a picture of the region beside the frames."""
    clip = tmp_path / "clip"
    for name in ("ROI.png", "groundtruth/0.png", "groundtruth/1.png", "input/0.png", "input/1.png", ".old/0.png"):
        (clip / name).parent.mkdir(parents=True, exist_ok=True)
        write_image(clip / name, FRAMES[0])
    (reader := PictureSequence(clip, frame_rate=25)).close()
    for _ in range(2):
        assert len(list(reader)) == 1
        (note,) = reader.notes
        assert note.startswith(f"{clip}: folders in it hold more than its 1 picture: groundtruth (2), input (2); give ")
        assert f"give {clip / 'input'} if" in note
    write_image(clip / "1.png", FRAMES[0])  # as many
    for source in (clip, clip / "input", str(clip / "*.png")):
        assert PictureSequence(source, frame_rate=25).notes == []
    (clip / "ROI.png").unlink()
    (clip / "1.png").unlink()
    result = run_command("background", clip, "--out", tmp_path / "out")
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert (
        f"folders in it hold pictures: groundtruth (2), input (2); give {clip / 'input'} if that is the"
        in result.stderr
    )


@pytest.mark.slow
def test_pictures_that_cannot_be_read_are_left_out(tmp_path):
    for number in range(6):
        write_image(tmp_path / f"{number}.png", FRAMES[number])
    (tmp_path / "2.png").write_bytes(b"no picture")
    write_image(tmp_path / "4.png", FRAMES[4][:20], force=True)
    reader = PictureSequence(tmp_path)
    assert levels(reader) == [0, 1, 3, 5]
    assert reader.damaged == 2 and "2 of 6 pictures" in reader.notes[0] and "2.png, 4.png" in reader.notes[0]


def test_what_is_said_of_many_pictures_is_said_once(tmp_path):
    for number in range(4):
        opacity = np.full((*FRAMES[number].shape[:2], 1), 128 if number else 255, np.uint8)
        Image.fromarray(np.dstack([FRAMES[number], opacity])).save(tmp_path / f"{number}.png")
    reader = PictureSequence(tmp_path, frame_rate=25)  # warnings are errors here
    for _ in range(2):
        assert len(list(reader)) == 4
        assert reader.notes == [f"{tmp_path}: 1.png: has transparent parts; they are blended onto white (and 2 more)"]


def test_kinds_of_sources(tmp_path):
    write_image(tmp_path / "a.png", FRAMES[0])
    assert isinstance(open_video(tmp_path), PictureSequence)
    assert pictures_of(tmp_path) == [str(tmp_path / "a.png")]
    (tmp_path / "a.mkv").write_bytes(encoded("matroska", "ffv1", FRAMES[:3]))
    assert pictures_of(tmp_path) == [] and isinstance(open_video(tmp_path / "a.mkv"), VideoReader)
    (tmp_path / "a.mkv").rename(tmp_path / "a.ts")  # what recorders write
    assert pictures_of(tmp_path) == []
    assert not is_live(tmp_path) and is_live("https://x/y") and is_live("/dev/video0")
    with pytest.raises(ParameterError, match="frame_rate must be left out"):
        open_video(tmp_path / "a.mkv", frame_rate=5)
    with pytest.raises(ParameterError, match="frame_rate must be left out for rtsp://x/y, which has its own"):
        open_video("rtsp://x/y", frame_rate=5)
    with pytest.raises(ParameterError, match="source must be"):
        LiveReader("clip.mp4")
