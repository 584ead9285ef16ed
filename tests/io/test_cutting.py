"""Parts of videos: the same pictures at the same times, nothing encoded again."""

import av
import numpy as np
import pytest
from clips import CLIP, FILES, N, encode

from visionnmf.exceptions import OutputExistsError, ParameterError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io import VideoReader, cut_video
from visionnmf.io.video.cutting import CUT_FORMATS

pytestmark = pytest.mark.slow

LONG = [CLIP[i % N] for i in range(120)]
EVERY_SECOND = {"g": "25", "keyint_min": "25", "sc_threshold": "0"}  # key frames, at 25 frames a second


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    kinds = {".mp4": "libx264", ".mkv": "libx264", ".mov": "libx264", ".ts": "libx264", ".avi": "mpeg4"}
    return {
        suffix: encode(folder / f"x{suffix}", codec, "yuv420p", frames=LONG, options=EVERY_SECOND, sound=120)
        for suffix, codec in kinds.items()
    }


def read(path):
    reader = VideoReader(path)
    times, frames = [], []
    for frame in reader:
        times.append(reader.time)
        frames.append(frame)
    assert reader.problem is None
    return np.array(times), np.stack(frames)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".mov", ".ts", ".avi"])
def test_parts_are_the_frames_themselves(long, tmp_path, suffix):
    times, frames = read(long[suffix])
    spans = {"a": (1.32, 1.6), "b": (1.7, 3.1), "c": (4, 9)}
    cuts = {tmp_path / f"{name}{suffix}": span for name, span in spans.items()}
    begun = cut_video(long[suffix], cuts)
    if suffix != ".avi":  # MPEG-4 has key frames elsewhere
        assert begun == pytest.approx([1, 1, 4], abs=0.03)
    for (path, (first, end)), start in zip(cuts.items(), begun, strict=True):
        assert start <= first + 0.04
        found_times, found = read(path)
        at = int(np.argmin(np.abs(times - start)))
        np.testing.assert_array_equal(found, frames[at : at + len(found)])  # bit for bit
        np.testing.assert_allclose(found_times - found_times[0], times[at : at + len(found)] - times[at], atol=0.0015)
        last = times[at + len(found) - 1]
        assert min(end, times[-1]) - 0.05 <= last <= end + 0.2  # frames that wait for others come with them
        with av.open(str(path)) as container:
            assert len(container.streams.audio) == 1
            packets = list(container.demux(audio=0))
            sound = sum(float((packet.duration or 0) * packet.time_base) for packet in packets if packet.size)
            assert sound == pytest.approx(min(end, 4.8) - start, abs=0.1)


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("anim.gif", "raw.avi")])
def test_codecs_go_into_matroska(files, tmp_path, name):
    (begun,) = cut_video(files[name], {tmp_path / "part.mkv": (0.5, 0.8)})
    _, frames = read(files[name])
    _, found = read(tmp_path / "part.mkv")
    at = round(begun * 25)
    np.testing.assert_array_equal(found, frames[at : at + len(found)])
    assert at + len(found) >= 20


@pytest.mark.parametrize("rate", [2, 5, 10])
def test_slow_matroska_is_cut_although_its_first_packets_lack_decoding_times(tmp_path, rate):
    source = encode(tmp_path / "x.mkv", "libx264", "yuv420p", rate=rate, options={"bf": "8", "b_strategy": "0"})
    assert cut_video(source, {tmp_path / "part.mkv": (0.0, 9.0)}) == [0.0]
    np.testing.assert_allclose(read(tmp_path / "part.mkv")[0][:5], np.arange(5) / rate, atol=2e-3)


def test_times_of_their_own_stay(tmp_path):
    pts = [i if i < 15 else 3 * i for i in range(N)]
    source = encode(tmp_path / "x.mp4", "libx264", "yuv420p", pts=pts)
    cut_video(source, {tmp_path / "part.mp4": (0.0, 9.0)})
    np.testing.assert_allclose(read(tmp_path / "part.mp4")[0], np.array(pts) / 25, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("open.ts", "mpeg2video", {"g": "12", "bf": "2"}),
        ("open.mp4", "libx264", {"g": "12", "bf": "2", "x264-params": "open-gop=1:scenecut=0:log-level=none"}),
        ("closed.mp4", "libx264", {"g": "12", "bf": "3", "sc_threshold": "0"}),
    ],
)
def test_pictures_between_a_key_frame_and_its_place_come_with_the_one_before(tmp_path, name, codec, options):
    # where pictures are shown before a key frame that is decoded before them; and a part right after another
    source = encode(tmp_path / name, codec, "yuv420p", frames=LONG, options=options)
    times, frames = read(source)
    for first in range(20, 40):
        spans = [(times[first - 6], times[first - 1]), (times[first], times[first + 3])]
        cuts = {tmp_path / f"{n}{source.suffix}": span for n, span in enumerate(spans)}
        begun = cut_video(source, cuts, force=True)
        for (path, (wanted, end)), start in zip(cuts.items(), begun, strict=True):
            at = int(np.argmin(np.abs(times - start)))
            _, found = read(path)
            np.testing.assert_array_equal(found, frames[at : at + len(found)])
            assert times[at] <= wanted + 1e-3
            assert times[at + len(found) - 1] >= end - 1e-3


def test_sound_that_lies_behind_its_pictures_comes_with_them(tmp_path):
    frames = [np.random.default_rng(i).integers(0, 255, (48, 64, 3), np.uint8) for i in range(100)]
    source = encode(tmp_path / "x.ts", "libx264", "yuv420p", frames=frames, options={"g": "10"}, sound=100)
    late = tmp_path / "late.ts"
    with av.open(str(source)) as given, av.open(str(late), "w", options={"max_interleave_delta": "1"}) as output:
        streams = {stream.index: output.add_stream_from_template(stream) for stream in given.streams}
        packets = [packet for packet in given.demux() if packet.size]
        packets.sort(key=lambda packet: float(packet.dts * packet.time_base) + (packet.stream.type == "audio"))
        for packet in packets:
            packet.stream = streams[packet.stream_index]
            output.mux_one(packet)
    cuts = {tmp_path / "a.ts": (1.2, 1.8), tmp_path / "b.ts": (2.0, 2.6)}
    for (path, (_, end)), start in zip(cuts.items(), cut_video(late, cuts), strict=True):
        with av.open(str(path)) as container:
            sound = [packet for packet in container.demux(audio=0) if packet.size]
        heard = sum(float(packet.duration * packet.time_base) for packet in sound)
        assert heard == pytest.approx(end - start, abs=0.1)


def test_parts_may_overlap_and_come_in_any_order(long, tmp_path):
    parts = {tmp_path / "a.mkv": (3.1, 3.4), tmp_path / "b.mkv": (0.2, 4.0)}
    assert cut_video(long[".mkv"], parts) == pytest.approx([3, 0], abs=0.03)
    assert len(read(tmp_path / "b.mkv")[1]) >= 100


def test_what_cannot_be_cut(long, files, tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match=r"path must end in one of \.mp4, .*; got '.*part.txt'"):
        cut_video(long[".mp4"], {tmp_path / "part.txt": (0, 1)})
    with pytest.raises(UnsupportedError, match=r"x.mp4: holds no frame after 99.000 s, where a part begins"):
        cut_video(long[".mp4"], {tmp_path / "none.mp4": (0, 1), tmp_path / "late.mp4": (99, 100)})
    assert not list(tmp_path.iterdir())
    cut_video(long[".mp4"], {tmp_path / "part.mp4": (0, 1)})
    with pytest.raises(UnsupportedError, match=r"part.webm: cannot hold what is in the video"):
        cut_video(long[".mp4"], {tmp_path / "part.webm": (0, 1)})
    encode(tmp_path / "raw.h264", "libx264", "yuv420p")
    with pytest.raises(UnsupportedError, match="it does not say when frames are shown; copy it into Matroska"):
        cut_video(tmp_path / "raw.h264", {tmp_path / "part.mkv": (0, 1)})
    (tmp_path / "raw.h264").unlink()
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(UnreadableError):
        cut_video(tmp_path / "text.mp4", {tmp_path / "none.mp4": (0, 1)})
    with pytest.raises(OutputExistsError):
        cut_video(long[".mp4"], {tmp_path / "part.mp4": (0, 1)})
    monkeypatch.setattr("visionnmf.io.video.cutting.MAX_FRAME_PIXELS", 1000)
    with pytest.raises(TooLargeError, match="declares frames of 64 x 48"):
        cut_video(long[".mp4"], {tmp_path / "far.mp4": (0, 1)})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["part.mp4", "text.mp4"]
    assert ".gif" not in CUT_FORMATS
