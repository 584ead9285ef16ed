"""Events: boxes by hand, joins and paddings by hand, tables that say what the masks show."""

import csv
import io
import json

import av
import numpy as np
import pytest
from background_settings import follow, separate
from clips import encode

from visionnmf.apps.background import Separated
from visionnmf.apps.background.event_tables import EventBuilder, EventFinder, EventTable, MotionEvent, find_boxes
from visionnmf.apps.background.object_events import ObjectFinder
from visionnmf.apps.background.reports import event_sentence, time_code
from visionnmf.apps.background.settings import EventSettings
from visionnmf.apps.background.watch import Watch
from visionnmf.exceptions import OutputExistsError, ParameterError
from visionnmf.io import VideoReader, VideoWriter, read_image, write_image

pytestmark = pytest.mark.slow

HEIGHT, WIDTH = 48, 64


def test_boxes_of_connected_parts():
    mask = np.zeros((20, 30), np.uint8)
    mask[2:5, 3:9] = 255  # 18 pixels
    mask[10:16, 20:25] = 255  # 30
    mask[16, 25] = 255  # touches it at a corner
    mask[0, 29] = 255
    assert find_boxes(mask, 0) == [(20, 10, 6, 7), (3, 2, 6, 3), (29, 0, 1, 1)]
    assert find_boxes(mask, 18 / 600) == [(20, 10, 6, 7), (3, 2, 6, 3)]
    assert find_boxes(mask, 18.5 / 600) == [(20, 10, 6, 7)]
    assert find_boxes(mask, 1) == [] and find_boxes(np.zeros_like(mask), 0) == []
    assert find_boxes(np.full_like(mask, 255), 1) == [(0, 0, 30, 20)]
    noise = np.zeros((200, 200), np.uint8)
    noise[::2, ::2] = 255
    assert len(find_boxes(noise, 0)) == 1000


def found(active, times, finder=EventFinder, doubtful=(), stands=False, **settings):
    """Events of a clip in which a part moves, or stands, at the frames `active`."""
    return reasoned(active, times, finder, doubtful, stands, **settings)[0]


def reasoned(active, times, finder=EventFinder, doubtful=(), stands=False, **settings):
    """The events, and why there would be none."""
    builder = EventBuilder(EventSettings(**settings), times[1] - times[0])
    finder, events = finder(builder), []
    for index, time in enumerate(times):
        mask = np.zeros((HEIGHT, WIDTH), np.uint8)
        if index in active:
            mask[10:20, slice(20, 40) if stands else slice(index, index + 5 + index % 3)] = 255
        frame = np.full((HEIGHT, WIDTH, 3), index, np.uint8)
        part = Separated(index, frame, frame, mask, time, index in doubtful)
        events += finder.add(part, find_boxes(mask, 0))
    return events + finder.end(), builder.why_none()


def spans_at(*clip, **settings):
    """Start and end of the events of a clip in which a part stands."""
    return [(event.start, event.end) for event in found(*clip, stands=True, **settings)]


EVEN = [i / 10 for i in range(50)]


def test_one_event_with_padding():
    (event,) = found(range(20, 26), EVEN, padding=1.0)
    assert (event.start, event.first, event.last) == pytest.approx((1.0, 2.0, 2.5))
    assert event.end == pytest.approx(3.6)  # the last of its frames is shown for .1 s
    assert event.frames == 6 and event.box == (20, 10, 11, 10)
    assert event.peak_time == pytest.approx(2.0)  # 20 % 3 = 2: the widest, and the first so wide
    assert event.peak_area == pytest.approx(70 / (HEIGHT * WIDTH))
    assert (event.thumbnail[0, 0] == 20).all()


def test_the_ends_of_the_clip_bound_it():
    (event,) = found(range(50), EVEN, padding=3.0)
    assert (event.start, event.end) == pytest.approx((0.0, 5.0))


@pytest.mark.parametrize(("gap", "count"), [(5, 1), (18, 1), (20, 1), (23, 2)])
def test_events_whose_paddings_meet_are_one(gap, count):
    assert len(found({5, 6, 7, 7 + gap, 8 + gap, 9 + gap}, EVEN, padding=1.0, min_length=0.3)) == count


def test_short_ones_do_not_count():
    assert found({20, 21}, EVEN, min_length=0.3) == []
    assert len(found({20, 21, 22}, EVEN, min_length=0.3)) == 1
    assert len(found({20}, EVEN, min_length=0.0)) == 1
    assert found(set(), EVEN) == []


def test_without_padding_every_stop_ends_an_event():
    active = {*range(5, 15), *range(16, 30), *range(40, 48)}
    events = found(active, EVEN, padding=0.0, min_length=0.2)
    assert [(round(10 * event.first), round(10 * event.last)) for event in events] == [(5, 14), (16, 29), (40, 47)]
    jittered = [i / 10 + 0.04 * (i % 2) for i in range(50)]
    assert len(found(range(5, 45), jittered, padding=0.0)) == 1


BOTH = pytest.mark.parametrize("finder", [EventFinder, ObjectFinder])


@BOTH
@pytest.mark.parametrize(
    ("active", "note"),
    [
        (range(1, 49), ""),  # padded from 0 to 5 s, but seen to come and to go
        (range(0, 49), "since the first frame: perhaps part of the scene"),
        (range(1, 50), "still there in the last frame"),
        (range(50), "from the first frame to the last: perhaps part of the scene"),
    ],
)
def test_a_note_says_which_ends_were_not_seen(finder, active, note):
    (event,) = found(active, EVEN, finder, stands=True, padding=1.0)
    assert event.note == note and (event.start, event.end) == pytest.approx((0, 5))
    row = {"event": 1, "start": event.start, "end": event.end, "peak_area": 0.5, "note": event.note}
    assert event_sentence(row).endswith(note or "of the picture")


@pytest.mark.parametrize("by_start", [True, False])
def test_events_go_by_their_start_in_a_batch_and_by_their_end_live(by_start, tmp_path, rng):
    ended = [(5.7, 9.4), (0.0, 9.7), (0.0, 17.0), (3.9, 19.7), (3.9, 20.0), (18.0, 20.0)]
    pictures = rng.integers(0, 256, (len(ended), 30, 40, 3)).astype(np.uint8)
    table = EventTable(tmp_path / "hall", False, io.BytesIO() if by_start else None, Watch(0.1))
    for (start, end), picture in zip(ended, pictures, strict=True):
        event = MotionEvent(start, first=start, last=end, until=end, box=(0, 0, 1, 1), thumbnail=picture, end=end)
        event.peak_area = 0.42 if end == 17.0 else 0.24
        assert len(table.add(event)) == (not by_start)  # live, an event is printed at once
    table.number()
    table.write()
    order = sorted(range(len(ended)), key=ended.__getitem__) if by_start else range(len(ended))
    with (tmp_path / "hall_events.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(float(row["start"]), float(row["end"])) for row in rows] == [ended[i] for i in order]
    assert [int(row["event"]) for row in rows] == [1, 2, 3, 4, 5, 6]
    assert ["much of the picture" in row["note"] for row in rows] == [row["end"] == "17.0" for row in rows]
    sheet = read_image(tmp_path / "hall_events.png")
    for row, place in zip(rows, order, strict=True):
        np.testing.assert_array_equal(read_image(tmp_path / row["thumbnail"]), pictures[place])
    np.testing.assert_array_equal(sheet[:30, :40], pictures[order[0]])


PAUSE = [*np.arange(150) / 25, *(606 + np.arange(50) / 25)]  # ten minutes


@BOTH
def test_a_pause_lengthens_no_frame(finder):
    for frame in (50, 149, 150, 199):
        assert spans_at({frame}, PAUSE, finder) == []
    events = spans_at({*range(15), *range(110, 125)}, PAUSE, finder)
    np.testing.assert_allclose(events, [(0, 1.6), (3.4, 6.0)])
    two = spans_at({*range(130, 150), *range(150, 170)}, PAUSE, finder)
    np.testing.assert_allclose(two, [(4.2, 7.0), (605.0, 607.8)])


@BOTH
@pytest.mark.parametrize("step", [1e-3, 0.04, 2.0, 120.0, 86_400.0])
def test_any_even_spacing_is_one_event(finder, step):
    times = np.arange(40) * step
    (event,) = spans_at(range(10, 30), times, finder, min_length=0, padding=0)
    np.testing.assert_allclose(event, (10 * step, 30 * step))


@BOTH
@pytest.mark.parametrize(
    "times",
    [
        np.arange(60) / 25 * 1.001,
        np.arange(60) / 25 + np.random.default_rng(0).uniform(0, 0.008, 60),
        np.append(np.arange(30) / 50, 0.6 + np.arange(30) / 25),
        np.append(np.arange(30) / 25, 1.2 + np.arange(30) / 2.5),
        np.append(np.arange(30) / 25, 1.2 + np.arange(30) * 0.9),
        np.cumsum([0.04, 0.08] * 30),
        np.cumsum([0.04, 0.9] * 30),
    ],
)
def test_any_legitimate_spacing_is_one_event(finder, times):
    (event,) = spans_at(range(60), times, finder, padding=0)
    assert event[0] == times[0] and event[1] >= times[-1]


@BOTH
def test_no_event_begins_in_doubtful_frames(finder):
    times = np.arange(100) / 25
    assert spans_at(range(30, 60), times, finder, range(30, 60)) == []
    for doubtful in (range(30, 45), range(45, 60)):
        ((start, end),) = spans_at(range(30, 60), times, finder, doubtful, padding=0)
        assert (round(25 * start), round(25 * end)) == (30 if doubtful[0] == 45 else 45, 60)


@BOTH
def test_the_reason_why_there_is_no_event_is_the_true_one(finder):
    times = np.arange(100) / 25
    short, damage = "lasts 0.4 s at most, less than min_length=0.5 seconds", "damaged or depend on damaged ones"
    for active, doubtful, said in (
        ([], [], []),
        ([], range(100), []),
        (range(30, 60), range(100), [damage]),
        (range(30, 40), [], [short]),
        ({*range(10), *range(80, 90)}, range(60, 100), [short, damage]),
    ):
        events, why = reasoned(active, times, finder, doubtful, stands=True)
        assert events == [] and [reason for reason in (short, damage) if reason in why] == said
        assert ("no part of a mask covers min_area=0.0005" in why) == (not said)


@pytest.mark.parametrize("watch", [separate, follow])
def test_a_damaged_clip_is_not_said_to_stand_still(watch, tmp_path, rng):
    scene = rng.integers(60, 120, (HEIGHT, WIDTH, 3)).astype(np.uint8)
    with VideoWriter(tmp_path / "yard.mp4", width=WIDTH, height=HEIGHT, frame_rate=10, codec="h264") as writer:
        for i in range(60):
            picture = scene.copy()
            if 20 <= i < 50:
                picture[10:30, i : i + 12] = 250
            writer.write(picture)
    content = bytearray((tmp_path / "yard.mp4").read_bytes())
    with av.open(str(tmp_path / "yard.mp4")) as container:
        second = [packet.pos for packet in container.demux(video=0) if packet.size][1]
    content[second + 8 : second + 40] = bytes(32)
    (tmp_path / "bad.mp4").write_bytes(content)
    report = watch(tmp_path / "bad.mp4", out=tmp_path / watch.__name__, events="scene")
    assert report.events == []
    (note,) = [note for note in report.notes if note.startswith("no event: ")]
    assert "in which no event begins" in note and "moves" not in note


def test_batch_and_live_number_the_events_of_a_clip_in_their_own_order(tmp_path, rng):
    """Who comes first goes last; a live run says so when an event is over."""
    scene = rng.integers(60, 120, (HEIGHT, WIDTH, 3)).astype(np.uint8)
    with VideoWriter(tmp_path / "yard.mkv", width=WIDTH, height=HEIGHT, frame_rate=10, codec="ffv1") as writer:
        for i in range(90):
            frame = scene.copy()
            if 30 <= i < 80:
                frame[4:16, i - 30 : i - 20] = (250, 30, 30)
            if 50 <= i < 60:
                frame[30:44, 5 * (i - 50) : 5 * (i - 50) + 10] = (30, 250, 30)
            writer.write(frame)
    for call, order in ((separate, [3.0, 5.0]), (follow, [5.0, 3.0])):
        events = call(tmp_path / "yard.mkv", out=tmp_path / call.__name__, events="objects", padding=0).events
        assert [event["start"] for event in events] == pytest.approx(order, abs=0.15)


def test_times_of_their_own():
    times = [0.0, 0.1, 0.2, 5.0, 5.1, 5.2, 60.0]
    events = found({1, 2, 4, 5}, times, padding=0.5, min_length=0.1)
    assert [(event.first, event.last) for event in events] == [(0.1, 0.2), (5.1, 5.2)]
    assert [event.end for event in events] == pytest.approx([0.8, 5.8])


def test_what_is_refused():
    for name, value in (("min_length", -1), ("padding", -1), ("min_area", 2)):
        with pytest.raises(ParameterError, match=f"{name} must be a.*; got {value}"):
            EventSettings(**{name: value})


def test_time_codes():
    assert [time_code(s) for s in (0, 3661.2342, 59.9996)] == ["00:00:00.000", "01:01:01.234", "00:01:00.000"]


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """Something crosses the picture twice; frame 30 comes late."""
    frames = []
    for index in range(60):
        frame = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
        if 10 <= index < 20 or 40 <= index < 52:
            left = 4 * (index % 10)
            frame[16:30, left : left + 14] = (230, 60, 40)
        frames.append(frame)
    ticks = [i if i < 30 else i + 30 for i in range(60)]
    path = tmp_path_factory.mktemp("events") / "yard.mp4"
    return encode(path, "libx264", "yuv420p", frames=frames, pts=ticks, rate=10)


def test_tables_say_what_the_masks_show(clip, tmp_path):
    report = separate(clip, out=tmp_path, events="scene", padding=0.5, min_area=0.01, frame_table=True)
    with (tmp_path / "yard_frames.csv").open(newline="") as file:
        frames = list(csv.DictReader(file))
    reader = VideoReader(clip)
    times = [reader.time for _ in reader]
    assert times[30] == pytest.approx(6.0)
    assert [float(row["time"]) for row in frames] == pytest.approx(times, abs=1e-6)
    masks = np.stack([mask[..., 0] for mask in VideoReader(tmp_path / "yard_foreground.mkv")])
    shares = (masks > 0).mean(axis=(1, 2))
    assert [float(row["foreground_share"]) for row in frames] == pytest.approx(shares, abs=1e-6)
    for row, mask in zip(frames, masks, strict=True):
        expected = ";".join(" ".join(map(str, box)) for box in find_boxes(mask, 0.01))
        assert row["boxes"] == expected
    active = [i for i, row in enumerate(frames) if row["boxes"]]
    assert active == [*range(10, 20), *range(40, 52)]

    with (tmp_path / "yard_events.csv").open(newline="") as file:
        events = list(csv.DictReader(file))
    assert [float(event["start"]) for event in events] == pytest.approx([0.5, 6.5], abs=0.01)
    assert [float(event["peak_area"]) for event in events] == pytest.approx(
        [shares[10:20].max(), shares[40:52].max()], abs=1e-6
    )
    assert [int(event["frames"]) for event in events] == [10, 12]
    assert json.loads(json.dumps(report.as_dict()))["events"][1]["thumbnail"] == "yard_event_002.png"
    assert "  events: 2\n    1: 00:00:00.500 to " in str(report)
    assert {"yard_events.csv", "yard_events.png", "yard_event_001.png", "yard_event_002.png", "yard_frames.csv"} <= {
        path.split("/")[-1] for path in report.outputs
    }
    assert read_image(tmp_path / "yard_event_001.png").shape == (HEIGHT, WIDTH, 3)
    sheet = read_image(tmp_path / "yard_events.png")  # two thumbnails with two lines each
    assert sheet.shape[0] > HEIGHT and sheet.shape[1] > 2 * WIDTH and sheet[:, WIDTH].min() == 255


def test_a_clip_without_events(clip, tmp_path):
    report = separate(clip, out=tmp_path, max_frames=8, events="scene", frame_table=True, videos=False)
    assert (tmp_path / "yard_frames.csv").read_text().splitlines()[4] == "3,0.300000,0.000000,"
    assert report.events == [] and "  events: 0" in str(report)
    assert (tmp_path / "yard_events.csv").read_text().startswith("event,start,end,peak_time")
    assert not (tmp_path / "yard_events.png").exists()
    with pytest.raises(OutputExistsError):
        separate(clip, out=tmp_path, max_frames=8, frame_table=True, videos=False, force=False)


def test_clips_hold_the_events(clip, tmp_path):
    report = separate(clip, out=tmp_path, events="scene", padding=0.2, min_area=0.01, clips=True, videos=False)
    assert report.skipped == [] and [event["clip"] for event in report.events] == [
        "yard_event_001.mp4",
        "yard_event_002.mp4",
    ]
    given = VideoReader(clip)
    frames = {round(given.time, 3): frame for frame in given}
    for event in report.events:
        part = VideoReader(tmp_path / event["clip"])
        for frame in part:
            np.testing.assert_array_equal(frame, frames[round(part.time + event["clip_start"], 3)])
        assert event["clip_start"] <= event["start"] and part.time + event["clip_start"] >= event["end"] - 0.2


def test_thumbnails_and_clips_of_an_earlier_run_go(clip, tmp_path):
    options = {"out": tmp_path, "events": "scene", "videos": False, "force": True}
    for name in ("yard_event_mine.png", "yard_event_004.txt", "yard_event_12.png", "other_event_003.png"):
        (tmp_path / name).write_bytes(b"of somebody")
    kept = set(tmp_path.iterdir())
    separate(clip, padding=0.2, min_area=0.01, clips=True, **options)
    assert len(list(tmp_path.glob("yard_event_00[12].*"))) == 4
    report = separate(clip, padding=60.0, min_area=0.01, **options)  # all in one event, and no clips
    assert len(report.events) == 1 and kept < set(tmp_path.iterdir())
    assert {path.name for path in tmp_path.glob("yard_event_0*.[pm]*")} == {"yard_event_001.png"}
    separate(clip, min_length=60.0, **options)
    assert not list(tmp_path.glob("yard_event_0*.png"))


def test_what_cannot_be_cut_is_said(tmp_path):
    frames = [np.full((HEIGHT, WIDTH, 3), 90, np.uint8) for _ in range(30)]
    for frame in frames[10:20]:
        frame[16:30, 10:24] = (230, 60, 40)
    source = encode(tmp_path / "raw.avi", "rawvideo", "bgr24", frames=frames)
    for suffix, said in ((".avi", 0), (".nut", 1)):
        named = source.rename(tmp_path / f"raw{suffix}")
        report = separate(named, out=tmp_path / suffix, events="scene", min_length=0, clips=True, videos=False)
        source = named
        assert len(report.skipped) == said and len(report.events) == 1
        assert (report.events[0]["clip"] is None) == bool(said)


def test_events_of_pictures_keep_their_times_where_numbers_are_missing(tmp_path):
    rng = np.random.default_rng(0)
    scene = rng.integers(60, 120, (HEIGHT, WIDTH, 3)).astype(np.uint8)
    ends = {}
    for name, gone in (("all", []), ("gaps", [*range(10, 30), 62, 75])):
        (tmp_path / name).mkdir()
        for number in sorted({*range(100)} - {*gone}):
            picture = scene.copy()
            if 55 <= number < 80:
                picture[10:24, number - 40 : number - 26] = 250
            write_image(tmp_path / name / f"img{number}.png", picture)
        out = tmp_path / f"out_{name}"
        report = separate(tmp_path / name, out=out, events="scene", frame_rate=10, videos=False, clips=True, start=1)
        (event,) = report.events
        ends[name] = event["start"], event["end"]
        part = VideoReader(out / event["clip"])
        times = [round(event["clip_start"] + frame.time, 3) for frame in part.timed()]
        assert times == [number / 10 for number in range(45, 90) if name == "all" or number not in (62, 75)]
        moved = [number for number, frame in zip(times, part, strict=True) if frame[12:22, 16:].max() > 235]
        assert moved == [time for time in times if 5.5 <= time < 8]
        assert any("22 numbers are missing" in note for note in report.notes) == bool(gone)
    assert ends["gaps"] == ends["all"] == pytest.approx((4.5, 9.0))
