"""When frames are shown: stamps that jump, wrap, begin late or are missing, in files that were made so."""

import io
import re
from fractions import Fraction
from itertools import pairwise

import av
import numpy as np
import pytest
import tifffile
from clips import CLIP, N, encode
from PIL import Image

from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io import PictureSequence, VideoReader, cut_video, open_video, write_image
from visionnmf.io.video.timeline import Timeline

LONG = [CLIP[i % N] for i in range(120)]


def written(path, spans, codec="libx264"):
    """Write a file of MPEG-TS from parts that were joined: (first frame, last frame, seconds added to its stamps)."""
    data = b""
    for first, last, seconds in spans:
        part = io.BytesIO()
        with av.open(part, "w", format=path.suffix[1:].replace("ts", "mpegts").replace("mkv", "matroska")) as output:
            stream = output.add_stream(codec, rate=25, options={"g": "25", "bf": "0"})
            stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
            output.start_encoding()
            pictures = [av.VideoFrame.from_ndarray(frame, format="rgb24") for frame in LONG[first:last]]
            packets = [packet for picture in pictures for packet in stream.encode(picture)] + stream.encode(None)
            for packet in packets:
                added = round((first / 25 + seconds) / packet.time_base)
                packet.pts, packet.dts = packet.pts + added, packet.dts + added
                output.mux(packet)
        data += part.getvalue()
    path.write_bytes(data)
    return path


def times_of(path, **wanted):
    with open_video(path, **wanted) as reader:
        return np.array([frame.time for frame in reader.timed()]), reader


@pytest.mark.parametrize(
    "spans",
    [
        [(0, 30, 0), (30, 60, -30 / 25)],  # joined
        [(0, 20, 0), (20, 40, -20 / 25), (40, 60, -40 / 25)],
        [(0, 20, 50), (20, 40, 0), (40, 60, 50)],  # behind
    ],
)
def test_stamps_that_begin_again_go_on(tmp_path, spans):
    path = written(tmp_path / "x.ts", spans)
    times, reader = times_of(path)
    assert times == pytest.approx(np.arange(60) / 25, abs=1e-4)
    assert reader.damaged == len(spans) - 1  # FFmpeg takes the last packets of a part for damaged
    doubtful = [round(25 * frame.time) for frame in reader.timed() if frame.is_doubtful]
    assert all(any(first - 4 < number < first for first, _, _ in spans[1:]) for number in doubtful)
    assert len(times_of(path, start=1.58, end=3)[0]) == 20
    with pytest.raises(
        UnsupportedError, match=r"x.ts: cannot be cut, as its time stamps begin again; rewrite the file"
    ):
        cut_video(path, {tmp_path / "part.mkv": (1.7, 2.2)})


@pytest.mark.parametrize("seconds", [60, 5000])
def test_stamps_that_jump_ahead_and_back_are_said(tmp_path, seconds):
    times, reader = times_of(written(tmp_path / "x.ts", [(0, 20, 0), (20, 40, seconds), (40, 60, 0)]))
    assert times[:20] == pytest.approx(np.arange(20) / 25, abs=1e-4)
    assert times[20:] == pytest.approx(np.arange(20, 60) / 25 + seconds, abs=0.05)
    (note,) = [note for note in reader.notes if "late" in note]
    assert note.startswith(f"times after 0.76 s are {seconds:.2f} s late: time stamps jumped ahead and back")


def test_a_file_over_the_end_of_the_clock_is_in_one_piece(tmp_path):
    path = written(tmp_path / "x.ts", [(0, 60, 2**33 / 90_000 - 1)])
    times, reader = times_of(path)
    assert times == pytest.approx(np.arange(60) / 25, abs=1e-4) and reader.notes == []
    begun = cut_video(path, {tmp_path / "part.mkv": (1.7, 2.2)})
    part, _ = times_of(tmp_path / "part.mkv")
    assert begun[0] <= 1.7 and begun[0] + part[-1] >= 2.15


def _of_b_frames(path, stamps, **options):
    """Write a file in whose packets frames stand in another order than they are shown."""
    with av.open(path, "w", format=options.pop("format", None)) as output:
        stream = output.add_stream("libx264", rate=25, options={"bf": "3", "b_strategy": "0", **options})
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for stamp, frame in zip(stamps, LONG, strict=False):
            picture = av.VideoFrame.from_ndarray(frame, format="rgb24")
            picture.pts, picture.time_base = round(1000 * stamp), Fraction(1, 1000)
            output.mux(stream.encode(picture))
        output.mux(stream.encode(None))
    with av.open(path) as file:
        packets = list(file.demux(video=0))[:-1]
        assert any(after.pts < before.pts for before, after in pairwise(packets))
    return path


@pytest.mark.parametrize("name", ["x.mkv", "x.mp4", "x.flv", "x.ts"])
@pytest.mark.parametrize(
    "stamps",
    [
        np.arange(40) * 120.0,
        np.arange(40) / 5,
        np.delete(np.arange(40) / 2, [10, 20, 21]),
        np.cumsum(np.random.default_rng(0).uniform(0.1, 90, 40)),
        np.concatenate([np.arange(20) * 10.0, 190 + np.arange(1, 21) / 25]),
        *(np.concatenate([np.arange(60) / 25, 602.36 + np.arange(after) / 25]) for after in (1, 3, 16, 20)),
        np.concatenate([np.arange(60) / 25, 12 + np.arange(4) / 25, 30 + np.arange(4) / 25, 650 + np.arange(3) / 25]),
    ],
    ids=["slow", "five", "gaps", "varying", "slow_then_fast", "pause_1", "pause_3", "pause_16", "pause_20", "pauses"],
)
def test_slow_frames_that_are_stored_in_another_order_keep_their_times(tmp_path, name, stamps):
    times, _ = times_of(_of_b_frames(tmp_path / name, stamps, format={".ts": "mpegts"}.get(name[1:])))
    assert times == pytest.approx(stamps - stamps[0], abs=2e-3)


@pytest.mark.parametrize("of_decoding", [False, True])
@pytest.mark.parametrize("bit", [20, 27, 32])
def test_a_damaged_stamp_moves_no_other_frame_in_silence(tmp_path, of_decoding, bit):
    path = _of_b_frames(tmp_path / "x.ts", np.arange(120) / 25, format="mpegts", g="25")
    data = bytearray(path.read_bytes())
    places = [at.start() for at in re.finditer(rb"\x00\x00\x01\xe0", data) if data[at.start() + 7] & 0xC0 == 0xC0]
    stamp = places[len(places) // 2] + (14 if of_decoding else 9)  # five bytes: 3 bits of the stamp, 15, and 15
    data[stamp + {20: 2, 27: 1, 32: 0}[bit]] ^= {20: 1 << 6, 27: 1 << 5, 32: 1 << 3}[bit]
    path.write_bytes(data)
    times, reader = times_of(path)
    assert len(times) == 120
    assert np.abs(times - np.arange(120) / 25).max() < 0.2 or " s late: time stamps jumped" in " ".join(reader.notes)


@pytest.mark.parametrize("wrong", [-5.0, -3600.0, -1e9, 1e9])
@pytest.mark.parametrize("n_wrong", [1, 3])
def test_a_wrong_stamp_shifts_no_later_times(wrong, n_wrong):
    """As live sources see them: one after another, where the true clock goes on."""
    stamps = 7.0 + np.arange(60) / 25
    timeline = Timeline(0.04, zero=None)
    spoilt = stamps.copy()
    spoilt[20 : 20 + n_wrong] += wrong
    times = [timeline.add(stamp) for stamp in spoilt.tolist()]
    assert (np.diff(times) > 0).all()
    assert times[:20] == pytest.approx(np.arange(20) / 25)
    assert times[30:] == pytest.approx(np.arange(30, 60) / 25, abs=1e-6)


@pytest.mark.parametrize("begin", [0, 7, 600, 100_000])
def test_files_that_begin_late_are_judged_by_their_length(tmp_path, begin):
    path = written(tmp_path / "x.mkv", [(0, 120, begin)])
    times, reader = times_of(path)
    assert times[-1] == pytest.approx(119 / 25) and reader.problem is None
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    times, reader = times_of(path)
    assert reader.truncated and "of 4.80 declared seconds" in reader.problem


def _noise(path, low, high):
    data = bytearray(path.read_bytes())
    first, last = int(low * len(data)), int(high * len(data))
    data[first:last] = np.random.default_rng(0).bytes(last - first)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [("x.ts", "libx264", {}), ("x.webm", "libvpx-vp9", {"g": "25"}), ("x.mkv", "ffv1", {})],
)
def test_frames_that_are_missing_in_the_middle_are_counted(tmp_path, name, codec, options):
    kind = "bgr0" if codec == "ffv1" else "yuv420p"
    path = _noise(encode(tmp_path / name, codec, kind, frames=LONG, options=options), 0.45, 0.5)
    times, reader = times_of(path)
    missing = 120 - len(times)
    assert missing and any(note.startswith(f"{missing} frames are missing: ") for note in reader.notes)
    assert f"after {times[np.argmax(np.diff(times) > 0.05)]:.2f} s" in " ".join(reader.notes)


@pytest.mark.parametrize("codec", ["mjpeg", "mpeg4"])
@pytest.mark.parametrize(("first", "last"), [(24, 27), (60, 72), (96, 117)])
def test_chunks_that_avi_lacks_are_noticed(tmp_path, codec, first, last):
    """FFmpeg reduces the duration as much as the file is shorter than its header says."""
    path = encode(tmp_path / "x.avi", codec, "yuvj420p" if codec == "mjpeg" else "yuv420p", frames=LONG)
    data = path.read_bytes()
    with av.open(path) as file:
        places = [data.index(bytes(packet), packet.pos) for packet in list(file.demux(video=0))[:-1]]
    path.write_bytes(data[: places[first] - 8] + data[places[last] - 8 :])
    times, reader = times_of(path)
    assert len(times) < 120 and f"read {len(times)} of 120 declared frames" in reader.problem


@pytest.mark.parametrize("declared", [25, 50, 12.3, 1000])
@pytest.mark.parametrize(
    ("parts", "rate", "note"),
    [
        (
            ((0, 100), (110, 200), (201, 300), (15_000, 15_100)),
            25,
            "14711 frames are missing: 10 after 3.96 s, 1 after",
        ),
        (((0, 40), (42, 110), (111, 200)), 29.97, "3 frames are missing: 2 after 1.30 s, 1 after 3.64 s"),
    ],
)
def test_holes_are_counted_whatever_rate_is_declared(declared, parts, rate, note):
    timeline = Timeline(1 / declared)
    for number in (number for part in parts for number in range(*part)):
        timeline.add(round(number / rate, 3))
    assert timeline.hole_note.startswith(note)


def test_no_frame_of_an_animation_is_missing(tmp_path):
    pictures = [Image.fromarray(frame) for frame in LONG[:60]]
    delays = [80 if n % 3 == 0 else 40 for n in range(60)]
    pictures[0].save(tmp_path / "x.gif", save_all=True, append_images=pictures[1:], duration=delays)
    times, reader = times_of(tmp_path / "x.gif")
    assert reader.notes == [] and np.diff(times) == pytest.approx(np.array(delays[:-1]) / 1000)


_RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "stamps",
    [
        np.cumsum(_RNG.uniform(0.02, 0.2, 100)),
        np.arange(100) ** 2 / 25,
        np.cumsum(np.repeat([0.02, 0.04], 150)),
        np.cumsum(np.repeat([1 / 30, 1 / 24, 1 / 15], 100)),
        np.cumsum(_RNG.choice([1 / 24, 1 / 30], 300)),
        np.arange(300) / 29.97 + _RNG.uniform(-0.004, 0.004, 300),
        np.append(np.arange(150), np.arange(450, 600)) / 29.97 + _RNG.uniform(-0.002, 0.002, 300),
        np.cumsum([2 / 60, 3 / 60] * 150),
        np.cumsum(1 + _RNG.geometric(0.2, 300)) / 60,
        np.cumsum(np.repeat([1, 33] * 20, _RNG.integers(2, 9, 40))) / 25,
        np.arange(300) / 5000,
        np.array([0, 0.04, 0.12, 0.16]),
    ],
    ids=[
        "even",
        "parabola",
        "twice",
        "telephone",
        "film",
        "jitter",
        "jitter and pause",
        "pulldown",
        "screen",
        "mpdecimate",
        "fast",
        "short",
    ],
)
def test_rates_that_vary_lack_nothing(stamps):
    for declared in (25, 24, 60):
        timeline = Timeline(1 / declared, None)
        for stamp in stamps:
            timeline.add(stamp)
        assert timeline.varies and timeline.hole_note is None


def test_frames_after_damage_are_doubtful_up_to_the_next_key_frame(tmp_path):
    path = encode(tmp_path / "x.mp4", "libx264", "yuv420p", frames=LONG, options={"g": "25", "keyint_min": "25"})
    data = bytearray(path.read_bytes())
    start = data.index(b"mdat")
    for place in np.random.default_rng(0).integers(start + 2000, start + len(data) // 3, 6):
        data[place] ^= 255
    path.write_bytes(data)
    with VideoReader(path) as reader:
        frames = list(reader.timed())
    doubtful = [round(frame.time * 25) for frame in frames if frame.is_doubtful]
    assert 0 < len(doubtful) < 60 and max(doubtful) < 100
    assert f"damaged frames: {len(doubtful)} frames from {min(doubtful) / 25:.2f} s on" in " ".join(reader.notes)


@pytest.mark.parametrize(
    ("name", "codec"), [("x.mp4", "libx265"), ("x.webm", "libvpx-vp9"), ("x.mp4", "libx264"), ("x.mkv", "mpeg4")]
)
def test_frames_that_a_decoder_leaves_out_make_those_after_them_doubtful(tmp_path, name, codec):
    options = {"g": "25", "x265-params": "log-level=none:keyint=25:min-keyint=25"}
    path = encode(tmp_path / name, codec, "yuv420p", frames=LONG, options=options)
    with av.open(path) as file:
        packets = list(file.demux(video=0))
    data = bytearray(path.read_bytes())
    hurt = [packets[number] for number in (30, 55)]
    for packet in hurt:
        place = data.index(bytes(packet), packet.pos)
        data[place : place + packet.size] = bytes(packet.size)
    path.write_bytes(data)
    with VideoReader(path) as reader:
        doubtful = [round(25 * frame.time) for frame in reader.timed() if frame.is_doubtful]
    assert {1, 2} <= {number // 25 for number in doubtful} <= {1, 2, 3}
    assert ("does not mark all damage" in " ".join(reader.notes)) == (codec in ("libx265", "libvpx-vp9"))


@pytest.mark.parametrize("bits", [8, 10, 12, 16, "float"])
def test_a_stack_of_tiff_is_a_movie(tmp_path, bits):
    grey = np.stack([frame[..., 0] for frame in CLIP[:12]])
    if bits == "float":
        values = grey / np.float32(255)
    else:
        values = grey if bits == 8 else np.round(grey / 255 * ((1 << bits) - 1)).astype(np.uint16)
        values[5, 3, 4] = values.max() if bits == 8 else 65535  # a hot pixel
    tifffile.imwrite(tmp_path / "x.tif", values, photometric="minisblack", imagej=bits != "float")
    times, reader = times_of(tmp_path / "x.tif", frame_rate=5)
    assert isinstance(reader, PictureSequence)
    assert times == pytest.approx(np.arange(12) / 5)
    assert np.abs(np.stack(list(reader))[:4, ..., 1].astype(int) - grey[:4]).max() <= 1


def test_pages_that_are_brighter_than_those_asked_are_noted(tmp_path):
    values = np.full((100, 16, 16), 900, np.uint16)  # 10 bits in the pages that are asked
    values[[3, 7]] = 5000
    tifffile.imwrite(tmp_path / "x.tif", values, photometric="minisblack")
    reader = open_video(tmp_path / "x.tif")
    assert len(list(reader)) == 100
    (note,) = [note for note in reader.notes if "above 1023" in note]
    assert note.startswith(f"{tmp_path / 'x.tif'}: picture 3: ") and note.endswith("shown white (and 1 more)")


def test_damaged_and_huge_movies_are_one_line(tmp_path, monkeypatch):
    pictures = [Image.fromarray(frame) for frame in CLIP]
    pictures[0].save(tmp_path / "x.tif", save_all=True, append_images=pictures[1:])
    path = tmp_path / "x.tif"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 // 9216 * 9216 + 400])
    with pytest.raises(UnreadableError, match=r"x.tif: the file is cut off or damaged"):
        open_video(path)
    path.write_bytes(data)
    monkeypatch.setattr("visionnmf.io.video.reader.MAX_FRAME_PIXELS", 1000)
    with pytest.raises(TooLargeError, match="pictures of 64 x 48 pixels; at most 1000"):
        open_video(path)


@pytest.mark.parametrize(
    ("pages", "what"),
    [
        ([np.full((8, 9), 70_000, np.int32)] * 2, "above 65535"),
        ([np.full((8, 9), np.nan, np.float32)] * 2, "NaN"),
        ([np.full((8, 9, 3), 3000, np.uint16)] * 2, "colours of 16 bits"),
    ],
)
def test_stacks_that_would_be_shown_wrongly_are_refused(tmp_path, pages, what):
    tifffile.imwrite(tmp_path / "stack.tif", np.stack(pages))
    with pytest.raises(UnsupportedError, match=f"{what}.*; save"):
        list(PictureSequence(tmp_path / "stack.tif"))


def test_transparent_pages_are_on_white(tmp_path):
    page = np.zeros((8, 9, 4), np.uint8)
    page[..., 0], page[:4, :, 3] = 200, 255
    tifffile.imwrite(tmp_path / "stack.tif", np.stack([page, page]), photometric="rgb", extrasamples=["unassalpha"])
    sequence = PictureSequence(tmp_path / "stack.tif")
    frames = list(sequence)
    assert frames[1][0, 0].tolist() == [200, 0, 0] and frames[1][7, 0].tolist() == [255, 255, 255]
    assert any("transparent" in note for note in sequence.notes)


def test_pictures_may_be_hours_apart(tmp_path):
    for number in range(3):
        write_image(tmp_path / f"{number}.png", np.zeros((6, 8, 3), np.uint8))
    for seconds in (1800, 3600):
        times = [frame.time for frame in PictureSequence(tmp_path, frame_rate=1 / seconds).timed()]
        assert times == [0, seconds, 2 * seconds]
    with pytest.raises(ParameterError, match=r"end must be later than 3600\.000 s"):
        list(PictureSequence(tmp_path, frame_rate=1 / 3600, start=100, end=200))


def test_missing_numbers_of_pictures_leave_gaps_in_time(tmp_path):
    found = [n for n in range(40, 80) if n != 70 and not 50 <= n < 60]
    for n in found:
        write_image(tmp_path / f"in{n:06}.png", np.full((6, 8, 3), n, np.uint8))
    sequence = PictureSequence(tmp_path, frame_rate=5, start=1)
    times = {int(frame.picture[0, 0, 0]): frame.time for frame in sequence.timed()}
    assert times == {n: (n - 40) / 5 for n in found if n >= 45}
    assert sequence.notes == [f"{tmp_path}: 11 numbers are missing: 50 to 59, 70; later pictures keep their times"]


@pytest.mark.parametrize(
    ("names", "times"),
    [
        (["20261129_095955", "20261129_100000", "20261129_101000"], [0, 5, 605]),
        (["cam3_2026-12-31T23-59-59.5", "cam3_2027-01-01T00-00-00.0"], [0, 0.5]),
        (["20261129095800123", "20261129095801373"], [0, 1.25]),
        (["20261129_095800_1", "20261129_095800_2", "20261129_095801_1"], "do not grow by at most a day; 25 pictures"),
        (["20261129_095800", "20261129_095805", "20261201_095800"], "do not grow by at most a day; 25 pictures"),
        (["20261129_095800", "20261340_095801"], "25 pictures a second are assumed"),  # no such day
        (["20261129_095800", "20261129_095801", "roi"], "25 pictures a second are assumed"),
        (["120261129095800", "120261129095801"], "25 pictures a second are assumed"),  # a longer number
    ],
)
def test_times_in_the_names_of_pictures_are_theirs(tmp_path, names, times):
    for name in names:
        write_image(tmp_path / f"{name}.png", np.zeros((6, 8, 3), np.uint8))
    sequence = PictureSequence(tmp_path)
    found, (said, *others) = [frame.time for frame in sequence.timed()], sequence.notes
    if isinstance(times, str):
        assert times in said and found == [n / 25 for n in range(len(names))]
    else:
        assert found == times and "times are those in the names, from 2026-" in said and others == []
        assert sequence.frame_rate == pytest.approx(1 / np.median(np.diff(times)))
        named = PictureSequence(tmp_path, frame_rate=2)
        assert [frame.time for frame in named.timed()] == [n / 2 for n in range(len(names))]
        assert named.notes == [f"{tmp_path}: times in their names are not used, but 2 pictures a second"]


@pytest.mark.parametrize("ahead", [0.9, 60, 3600, 80_000])
@pytest.mark.parametrize("last", [31, 45])
def test_a_jump_ahead_that_is_taken_back_is_said(ahead, last):
    """Frames that were delivered cannot be moved back, so that all later ones come late."""
    timeline = Timeline(0.04)
    times = [timeline.add(0.04 * i + (ahead if 30 <= i < last else 0)) for i in range(60)]
    assert times[-1] == pytest.approx(59 * 0.04 + ahead, abs=0.1)
    assert timeline.late.startswith(f"times after 1.16 s are {ahead:.2f} s late")


@pytest.mark.parametrize("stamps", [(0, 0.04, 60, 60.04), (0, 0.04, 60, 60.04, 0, 0.04), (5, 5.04, 0, 0.04), (0, 0.04)])
def test_pauses_and_other_recordings_are_no_such_jump(stamps):
    timeline = Timeline(0.04)
    for stamp in stamps:
        timeline.add(stamp)
    assert timeline.late is None
