"""Events of single objects: made masks of known truth, which the events of the whole scene do not tell apart."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from background_settings import follow, separate
from helpers import data_file, run_command

from visionnmf.apps.background import BackgroundModel, Separated
from visionnmf.apps.background.event_tables import EventBuilder, EventFinder, find_boxes
from visionnmf.apps.background.object_events import ObjectFinder
from visionnmf.apps.background.settings import EventSettings
from visionnmf.io import VideoWriter, read_image

HEIGHT, WIDTH, RATE = 80, 200, 10
RED, BLUE = (220, 40, 30), (40, 60, 230)


def events_of(n_frames, *objects, finder=ObjectFinder, **settings):
    """Events of a clip of `n_frames`; an object is a colour and a function from a frame's number to its boxes."""
    found = finder(EventBuilder(EventSettings(**settings), 1 / RATE))
    events = []
    for index in range(n_frames):
        frame = np.full((HEIGHT, WIDTH, 3), 128, np.uint8)
        mask = np.zeros((HEIGHT, WIDTH), np.uint8)
        for colour, places in objects:
            for x, y, width, height in places(index):
                frame[y : y + height, max(0, x) : x + width] = colour
                mask[y : y + height, max(0, x) : x + width] = 255
        events += found.add(Separated(index, frame, frame, mask, index / RATE), find_boxes(mask, 0.0005))
    return events + found.end()


def spans(events):
    return sorted((round(event.first * RATE), round(event.last * RATE)) for event in events)


def passing(start, left, speed, top=20, size=(12, 30), end=10**6):
    """An object that moves from the frame `start` on, `speed` pixels a frame."""
    return lambda i: [(left + speed * (i - start), top, *size)] if start <= i < end else []


def test_two_at_once_are_two_events_and_a_scene_is_one():
    both = ((RED, passing(5, 10, 3, end=45)), (BLUE, passing(20, 180, -2, top=55, size=(10, 20), end=70)))
    events = events_of(90, *both)
    assert spans(events) == [(5, 44), (20, 69)]
    assert [event.box for event in events] == [(10, 20, 129, 30), (82, 55, 108, 20)]
    assert [event.frames for event in events] == [40, 50]
    assert [event.peak_area for event in events] == pytest.approx([360 / 16000, 200 / 16000])
    assert spans(events_of(90, *both, finder=EventFinder)) == [(5, 69)]
    padded = [(event.start, event.end) for event in events_of(90, *both, padding=2.0)]
    np.testing.assert_allclose(padded, [(0.0, 6.5), (0.0, 9.0)])


@pytest.mark.parametrize("speed", [2, 3, 5])
def test_objects_that_cross_go_on_as_they_were(speed):
    n = 150 // speed
    events = events_of(n, (RED, passing(0, 10, speed)), (BLUE, passing(0, 170, -speed, top=30, size=(16, 40))))
    assert spans(events) == [(0, n - 1)] * 2
    for event, (top, height) in zip(sorted(events, key=lambda event: event.box[1]), [(20, 30), (30, 40)], strict=True):
        assert event.box[1] == pytest.approx(top, abs=1) and event.box[3] == pytest.approx(height, abs=2)
        assert event.box[2] > 120 and event.frames == n


def test_objects_that_meet_and_turn_back_are_told_apart_by_colour():
    def walk(sign):
        """To the middle until frame 30, there until 45, and back."""
        return lambda i: [(94 + sign * (max(30 - i, 0, i - 45) * 2 + 3), 20, 12, 30)]

    events = events_of(75, (RED, walk(-1)), (BLUE, walk(1)))
    left, right = sorted(events, key=lambda event: event.box[0])
    assert left.frames == right.frames == 75
    assert left.box[0] + left.box[2] < 115 and right.box[0] > 85


def test_an_object_that_pauses_and_is_lost_for_a_moment_is_one():
    def walk(i):
        x = 10 + 3 * (min(i, 20) + max(i - 45, 0))  # stands from frame 20 to 45
        return [] if 30 <= i < 38 or i == 50 else [(x, 20, 12, 30)]

    (event,) = events_of(80, (RED, walk))
    assert spans([event]) == [(0, 79)] and event.frames == 71


def test_one_that_leaves_and_one_that_enters_are_two():
    leaves, enters = passing(0, 150, 4, end=13), passing(15, -8, 4, top=40)
    assert spans(events_of(50, (RED, leaves), (RED, enters))) == [(0, 12), (15, 49)]
    assert spans(events_of(50, (RED, leaves), (RED, enters), finder=EventFinder)) == [(0, 49)]


def test_pieces_are_one_object_and_what_is_put_down_is_another():
    def broken(i):
        """A person whose waist is not in the mask from frame 15 to 45."""
        x = 10 + 2 * i
        return [(x, 20, 12, 14), (x, 38, 12, 20)] if 15 <= i < 45 else [(x, 20, 12, 38)]

    (event,) = events_of(60, (RED, broken))
    assert event.frames == 60 and event.box == (10, 20, 130, 38)
    bag = (BLUE, lambda i: [(10 + 2 * min(i, 30), 50, 12, 8)])  # carried until frame 30
    carried = events_of(70, (RED, passing(0, 10, 2, size=(12, 36))), bag)
    assert len(carried) == 2 and carried[1].first * RATE == pytest.approx(36, abs=4)
    assert carried[1].box[2] < 16


def test_a_static_object_stays_where_it_is_when_another_passes():
    events = events_of(60, (BLUE, lambda _: [(90, 30, 8, 8)]), (RED, passing(0, 0, 3)))
    small, large = sorted(events, key=lambda event: event.box[2])
    assert small.box[2] <= 24 and small.frames == large.frames == 60


@pytest.mark.parametrize(
    ("red", "blue"),
    [
        (passing(0, 24, -1, 44, (26, 38)), passing(0, 128, -6, 36, (48, 35))),
        (passing(0, 75, 5, 41, (25, 17)), passing(0, 142, 1, 22, (48, 22))),
    ],
)
def test_boxes_of_objects_that_leave_together_end_at_the_border(red, blue):
    """Where two touch, the place of each is only expected, and each as large as it was."""
    events = events_of(80, (RED, red), (BLUE, blue))
    assert len(events) >= 2
    for x, y, width, height in (event.box for event in events):
        assert 0 <= x < x + width <= WIDTH and 0 <= y < y + height <= HEIGHT


def test_what_is_short_or_noise_is_no_event():
    rng = np.random.default_rng(0)
    noise = (RED, lambda _: [(int(x), int(y), 3, 3) for x, y in rng.integers(0, (195, 75), (15, 2))])
    assert events_of(30, noise) == []
    assert events_of(30, (RED, passing(3, 10, 2, end=7))) == [] and events_of(5) == []
    assert len(events_of(30, (RED, passing(3, 10, 2, end=7)), min_length=0.4)) == 1


def test_what_fills_the_picture_at_once_is_an_event_of_its_own():
    person = (RED, passing(0, 10, 1))
    events = events_of(90, person, (BLUE, lambda i: [(0, 0, WIDTH, HEIGHT)] if 40 <= i < 60 else []))
    largest = max(events, key=lambda event: event.peak_area)
    assert largest.peak_area == 1.0 and (round(largest.first * RATE), round(largest.last * RATE)) == (40, 59)


def test_a_person_who_comes_near_is_one_event():
    near = lambda i: [(max(0, 90 - 2 * i), max(0, 40 - i), min(WIDTH, 8 + 4 * i), min(HEIGHT, 10 + 2 * i))]  # noqa: E731
    assert len(events_of(60, (RED, near))) == 1


def test_a_frame_of_specks_is_bounded():
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[::2, ::2] = 255
    finder, frame = ObjectFinder(EventBuilder(EventSettings(min_area=0.0), 0.1)), np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    for index in range(3):
        assert finder.add(Separated(index, frame, frame, mask, index / 10), find_boxes(mask, 0)) == []
    assert len(finder.end()) == 0


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """Two people in a yard: one from second 2 to 6, the other from 4 to 9."""
    rng = np.random.default_rng(0)
    scene = cv2.resize(rng.uniform(60, 180, (12, 16, 3)), (160, 120), interpolation=cv2.INTER_CUBIC)
    path = tmp_path_factory.mktemp("objects") / "yard.mkv"
    with VideoWriter(path, width=160, height=120, frame_rate=RATE, codec="ffv1") as writer:
        for i in range(140):
            picture = scene + rng.normal(0, 2, scene.shape)
            if 20 <= i < 60:
                picture[20:50, 3 * (i - 20) + 5 :][:, :14] = (250, 30, 220)
            if 40 <= i < 90:
                picture[70:110, 150 - 2 * (i - 40) - 16 :][:, :16] = (20, 250, 30)
            writer.write(np.clip(picture, 0, 255).astype(np.uint8))
    return path


@pytest.mark.slow
def test_batch_and_live_write_a_row_for_each_object(clip, tmp_path):
    batch = separate(clip, out=tmp_path, events="objects", videos=False, clips=True)
    live = follow(clip, out=tmp_path / "live", events="objects")
    for report in (batch, live):
        found_at = sorted((event["start"], event["end"]) for event in report.events)
        np.testing.assert_allclose(found_at, [(1.0, 7.0), (3.0, 10.0)], atol=0.21)
    with (tmp_path / "yard_events.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["thumbnail"] for row in table] == ["yard_event_001.png", "yard_event_002.png"]
    assert [row["clip"] for row in table] == ["yard_event_001.mkv", "yard_event_002.mkv"]
    assert int(table[0]["height"]) == pytest.approx(30, abs=4) and int(table[1]["height"]) == pytest.approx(40, abs=4)
    thumbnail = read_image(tmp_path / "yard_event_001.png").astype(int)
    marked = (thumbnail == (255, 64, 64)).all(axis=2)  # the outline of its own box alone
    assert marked[15:55].any() and not marked[65:].any()
    assert len(separate(clip, out=tmp_path / "scene", events="scene", videos=False).events) == 1


@pytest.mark.slow
def test_the_command_takes_the_unit_of_events(clip, tmp_path):
    def n_events(*words):
        result = run_command("background", *words, "--out", tmp_path, "--force", "--json", "--padding", 0.5)
        assert result.exit_code == 0, result.output
        return len(json.loads(result.stdout)["events"])

    assert n_events("--events", "objects", clip) == n_events(clip, "--events=objects") == 2
    assert n_events("--events", "scene", clip) == 1
    wrong = run_command("background", clip, "--events=people", "--out", tmp_path)
    assert wrong.exit_code == 2 and "--events must be one of scene, objects; got 'people'" in wrong.output


@pytest.mark.slow
def test_two_people_in_a_hall_are_two_events(monkeypatch):
    data_file("video_sbi_hallandmonitor.zip")
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[3] / "benchmarks")
    from _clips import load_clip

    frames = load_clip("sbi_hallandmonitor").frames
    finder, events = ObjectFinder(EventBuilder(EventSettings(), 1 / 25)), []
    for part in BackgroundModel().fit(frames).apply(frames):
        events += finder.add(replace(part, time=part.index / 25), find_boxes(part.mask, 0.0005))
    large = [event for event in events + finder.end() if event.peak_area > 0.02]
    # one comes from the left and leaves through a door, the other comes through a door and leaves to the right
    ends = [(event.first * 25, event.last * 25) for event in large]
    np.testing.assert_allclose(ends, [(13, 242), (73, 295)], atol=6)
