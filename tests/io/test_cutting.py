"""Parts of videos: the same pictures at the same times, nothing encoded anew."""

import av
import numpy as np
import pytest
from clips import CLIP, FILES, N, encode

from visionnmf.exceptions import OutputExistsError, ParameterError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io import Cut, VideoReader, cut_video
from visionnmf.io.cutting import CUT_FORMATS

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
    cuts = [Cut(tmp_path / f"{name}{suffix}", *span) for name, span in spans.items()]
    begun = cut_video(long[suffix], cuts)
    if suffix != ".avi":  # MPEG-4 has key frames elsewhere
        assert begun == pytest.approx([1, 1, 4], abs=0.03)
    assert all(start <= cut.start + 0.04 for cut, start in zip(cuts, begun, strict=True))
    for cut, start in zip(cuts, begun, strict=True):
        found_times, found = read(cut.path)
        at = int(np.argmin(np.abs(times - start)))
        np.testing.assert_array_equal(found, frames[at : at + len(found)])  # bit for bit
        np.testing.assert_allclose(found_times - found_times[0], times[at : at + len(found)] - times[at], atol=0.0015)
        last = times[at + len(found) - 1]
        assert min(cut.end, times[-1]) - 0.05 <= last <= cut.end + 0.2  # frames that wait for others come with them
        with av.open(str(cut.path)) as container:
            assert len(container.streams.audio) == 1
            packets = list(container.demux(audio=0))
            sound = sum(float((packet.duration or 0) * packet.time_base) for packet in packets if packet.size)
            assert sound == pytest.approx(min(cut.end, 4.8) - start, abs=0.1)


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("anim.gif", "raw.avi")])
def test_codecs_go_into_matroska(files, tmp_path, name):
    (begun,) = cut_video(files[name], [Cut(tmp_path / "part.mkv", 0.5, 0.8)])
    _, frames = read(files[name])
    _, found = read(tmp_path / "part.mkv")
    at = round(begun * 25)
    np.testing.assert_array_equal(found, frames[at : at + len(found)])
    assert at + len(found) >= 20


def test_times_of_their_own_stay(tmp_path):
    pts = [i if i < 15 else 3 * i for i in range(N)]
    source = encode(tmp_path / "x.mp4", "libx264", "yuv420p", pts=pts)
    cut_video(source, [Cut(tmp_path / "part.mp4", 0.0, 9.0)])
    np.testing.assert_allclose(read(tmp_path / "part.mp4")[0], np.array(pts) / 25, atol=1e-3)


def test_what_cannot_be_cut(long, files, tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match=r"path must end in one of \.mp4, .*; got '.*part.txt'"):
        cut_video(long[".mp4"], [Cut(tmp_path / "part.txt", 0, 1)])
    with pytest.raises(UnsupportedError, match=r"x.mp4: holds no frame after 99.000 s, where a part shall begin"):
        cut_video(long[".mp4"], [Cut(tmp_path / "none.mp4", 0, 1), Cut(tmp_path / "late.mp4", 99, 100)])
    assert not list(tmp_path.iterdir())
    cut_video(long[".mp4"], [Cut(tmp_path / "part.mp4", 0, 1)])
    with pytest.raises(UnsupportedError, match=r"part.webm: cannot hold what is in the video"):
        cut_video(long[".mp4"], [Cut(tmp_path / "part.webm", 0, 1)])
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(UnreadableError):
        cut_video(tmp_path / "text.mp4", [Cut(tmp_path / "none.mp4", 0, 1)])
    with pytest.raises(OutputExistsError):
        cut_video(long[".mp4"], [Cut(tmp_path / "part.mp4", 0, 1)])
    monkeypatch.setattr("visionnmf.io.cutting.MAX_FRAME_PIXELS", 1000)
    with pytest.raises(TooLargeError, match="declares frames of 64 x 48"):
        cut_video(long[".mp4"], [Cut(tmp_path / "far.mp4", 0, 1)])
    monkeypatch.undo()
    monkeypatch.setattr("visionnmf.io.cutting.MOST_HELD", 1000)
    with pytest.raises(UnsupportedError, match="its key frames are too far apart"):
        cut_video(long[".mp4"], [Cut(tmp_path / "far.mp4", 0, 1)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["part.mp4", "text.mp4"]
    assert ".gif" not in CUT_FORMATS
