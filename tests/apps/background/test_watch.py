"""What the camera could not see, in made clips of which it is known, and in scenes that only look like it."""

import io
import json

import av
import cv2
import numpy as np
import pytest
from background_settings import follow, separate
from helpers import run_command, write_video

from visionnmf.apps.background import BackgroundModel, Separated
from visionnmf.apps.background.event_tables import EventBuilder, EventFinder, find_boxes
from visionnmf.apps.background.settings import EventSettings
from visionnmf.apps.background.watch import Unseen, Watch, contrast_of, marks_of, sentences_of
from visionnmf.io import read_image

RATE, HEIGHT, WIDTH = 25, 96, 128
HALF = 150


@pytest.fixture(scope="module")
def street():
    """Twelve seconds of a scene with noise, in which something passes."""
    rng = np.random.default_rng(0)
    scene = cv2.resize(rng.integers(20, 230, (24, 32, 3), np.uint8), (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    frames = np.repeat(scene[None], 2 * HALF, axis=0)
    for t, frame in enumerate(frames):
        frame[40:70, t % WIDTH : t % WIDTH + 20] = (200, 30, 30)
    return np.clip(frames + rng.normal(0, 3, frames.shape), 0, 255).astype(np.uint8)


def watched(frames, rate=RATE, times=None, background=None, watch=None):
    if background is None:
        background = np.median(frames[:: max(1, len(frames) // 20)], axis=0).astype(np.uint8)
    watch, at = watch or Watch(1 / rate), []
    for index, frame in enumerate(frames):
        time = index / rate if times is None else times[index]
        at += [(each.reason, index) for each in watch.add(Separated(index, frame, background, frame[..., 0], time))]
    return watch.rows(), at


def found(frames, **options):
    return [
        (each.reason, round(each.start, 2), each.end and round(each.end, 2), each.frames)
        for each in watched(frames, **options)[0]
    ]


def with_second(street, change):
    return np.concatenate([street[:HALF], [change(frame) for frame in street[HALF:]]]).astype(np.uint8)


def covered(frame):
    return np.clip(np.random.default_rng(int(frame.sum())).normal(60, 4, frame.shape), 0, 255)


def knocked(frame):
    return np.roll(frame, (6, 10), (0, 1))


@pytest.mark.parametrize("change", [covered, np.fliplr, np.flipud, knocked])
def test_another_picture_that_stays_is_found_when_it_begins(street, change):
    rows, at = watched(with_second(street, change))
    assert [(each.reason, each.end) for each in rows] == [("changed", None)]
    assert rows[0].start == pytest.approx(6.0, abs=0.05) and rows[0].frames == pytest.approx(HALF, abs=1)
    assert at[0][0] == "changed" and at[0][1] <= HALF + 4 * RATE  # said while it lasts
    assert str(rows[0]).startswith("the whole picture changed at 6.0 s and did not come back")


def test_a_camera_that_is_knocked_early_is_told_by_when_its_picture_changed(street):
    (row,), _ = watched(np.concatenate([street[:100], street[100:, ::-1, ::-1]]))
    assert str(row).startswith("the whole picture changed at 4.0 s; before, it was another one: was the camera covered")
    (row,) = watched(street[:100], background=street[0, ::-1])[0]
    assert row.end is None and str(row).startswith("the whole picture is not the background from the first frame on")
    assert "did not" not in str(row)


def test_another_picture_of_a_recording_has_an_end_however_late(street):
    times = np.arange(170.0)  # a frame a second
    frames = np.stack([street[t % 100] for t in range(170)])
    frames[40:130] = [covered(frame) for frame in frames[40:130]]
    assert found(frames, rate=1, times=times, background=street[0]) == [("changed", 40.0, 130.0, 90)]


def test_a_stretch_does_not_last_until_a_pause_is_over(street):
    frames, times = street.copy(), np.arange(len(street)) / RATE
    frames[100], times[101:] = 0, times[101:] + 58
    assert [each[0] for each in found(frames, times=times)] == ["pause"]


def test_many_stretches_of_one_reason_push_out_no_other(street, monkeypatch):
    monkeypatch.setattr("visionnmf.apps.background.watch.MOST", 3)
    frames, times = street.copy(), np.arange(len(street)) / RATE
    for t in range(20, 220, 20):
        times[t:] += 58
    frames[250:280] = 0
    assert [each[0] for each in found(frames, times=times)] == 3 * ["pause"] + ["no picture"]


def test_another_picture_that_comes_back_has_an_end(street):
    frames = street.copy()
    frames[100:200] = frames[100:200, :, ::-1]
    (reason, start, end, n), *others = found(frames)
    assert (
        (reason, others) == ("changed", [])
        and start == pytest.approx(4, abs=0.05)
        and end == pytest.approx(8, abs=0.05)
    )
    assert n == pytest.approx(100, abs=13)  # until the next comparison


def before_the_camera(street):
    """Something textured that passes close before the camera and covers most of the picture for six seconds."""
    frames = street.copy()
    near = cv2.resize(np.random.default_rng(3).integers(0, 255, (40, 240, 3), np.uint8), (960, HEIGHT))
    for t in range(HALF):
        frames[75 + t, 4:] = near[4:, 4 * t : 4 * t + WIDTH]
    return frames


@pytest.mark.parametrize(
    "scene",
    {
        "as it is": lambda street: street,
        "light off": lambda street: with_second(street, lambda frame: frame * 0.3),
        "light on": lambda street: with_second(street * 0.3, lambda frame: frame / 0.3),
        "dusk": lambda street: street * np.linspace(1, 0.2, len(street))[:, None, None, None],
        "shaking": lambda street: np.stack([np.roll(frame, t % 4, 1) for t, frame in enumerate(street)]),
        "two seconds of something else": lambda street: np.concatenate(
            [street[:100], street[100:150, ::-1], street[150:]]
        ),
        "a crowd": before_the_camera,
        "every frame twice": lambda street: street[::2].repeat(2, axis=0),
        "a time lapse": lambda street: street[::75].repeat(75, axis=0),
        "one second frozen": lambda street: np.concatenate([street[:100], street[100:101].repeat(25, 0), street[125:]]),
        "a flash": lambda street: np.concatenate([street[:100], np.full_like(street[:8], 255), street[108:]]),
    }.items(),
    ids=lambda case: case[0],
)
def test_a_camera_that_sees_is_left_alone(street, scene):
    assert found(scene[1](street).astype(np.uint8)) == []


def test_a_screen_on_which_little_moves_is_not_frozen(street):
    frames = street[:1].repeat(600, axis=0)
    for t in range(0, 600, 200):
        frames[t : t + 20, 10:20, 20:60] += 60
    assert found(frames) == []


@pytest.mark.parametrize(
    ("colour", "word"), [((0, 0, 0), "black"), ((0, 0, 200), "of one colour"), ((128, 128, 128), "of one colour")]
)
def test_no_picture_in_the_middle_is_not_night(street, colour, word):
    frames = street.copy()
    frames[100:200] = colour
    (row,), at = watched(frames)
    assert (row.reason, row.start, row.end, row.frames) == ("no picture", 4.0, pytest.approx(8.0), 100)
    assert sentences_of([row]) == [f"no picture: 100 frames from 4.0 s on are {word}"]
    assert at == [("no picture", 112)]
    assert found(np.zeros_like(street[:40])) == [("no picture", 0.0, None, 40)]


def blinking(street, times, n_frames=5):
    """The street, each of whose pictures at `times` is lost for some frames, in colours that change."""
    frames = street.copy()
    for number, time in enumerate(times):
        frames[time : time + n_frames] = ((0, 0, 0), (0, 0, 200))[number % 2]
    return frames


def test_short_losses_of_the_picture_add_up_to_one_sentence(street):
    rows, at = watched(blinking(np.tile(street, (10, 1, 1, 1)), range(20, 2980, 25)))
    assert [(row.reason, row.start, row.end, row.frames) for row in rows] == [("short losses", 0.8, 119.0, 5 * 119)]
    said = "no picture 119 times for less than 0.5 s, 23.8 s in all, from 0.8 to 119.0 s: is a cable loose?"
    assert sentences_of(rows) == [said]
    assert at == [("short losses", 125)]  # after the fifth, when it is a second
    assert found(blinking(street, [100, 150], 12)) == []  # two may be flashes
    for first in (20, 2000):
        assert found(blinking(np.tile(street, (10, 1, 1, 1)), range(first, first + 60, 20), 3)) == []  # 0.36 s
    both = blinking(street, [20, 40, 60, 100], 9)
    both[100:120] = 0
    assert [row[:3] for row in found(both)] == [("short losses", 0.8, 2.76), ("no picture", 4.0, 4.8)]


def test_a_frozen_camera_is_found_in_part_or_in_all_of_a_clip(street):
    frames = street.copy()
    frames[61:210] = frames[60]
    (row,), at = watched(frames)
    assert (row.reason, row.frames) == ("frozen", 149) and row.start == pytest.approx(61 / RATE)
    assert at == [("frozen", 160)]
    assert str(row) == "149 frames from 2.4 s on equal the one before: is the camera frozen?"
    assert [row[::3] for row in found(street[:1].repeat(120, axis=0))] == [("frozen", 119)]
    assert found(street[:1].repeat(40, axis=0)) == []


def coded(frames, crf, distance=25):
    """The frames as H.264 with a key frame a second, or at another distance, gives them."""
    memory = io.BytesIO()
    with av.open(memory, "w", format="matroska") as output:
        stream = output.add_stream("libx264", rate=RATE, options={"crf": str(crf), "g": str(distance)})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for frame in frames:
            output.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        output.mux(stream.encode(None))
    memory.seek(0)
    with av.open(memory) as source:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in source.decode(video=0)])


def quiet(street, n_frames):
    """The empty street, with noise."""
    noise = np.random.default_rng(1).normal(0, 2, (n_frames, HEIGHT, WIDTH, 3))
    return np.clip(np.median(street, axis=0) + noise, 0, 255).astype(np.uint8)


@pytest.mark.slow
@pytest.mark.parametrize("crf", [28, 35])
def test_a_camera_whose_key_frames_no_longer_renew_its_picture_is_frozen(street, crf):
    frames = coded(np.concatenate([street, street[-1:].repeat(500, axis=0), street[:100], quiet(street, 500)]), crf)
    ((reason, start, end, n),) = found(frames)
    assert (reason, start) == ("frozen", pytest.approx(12.0, abs=0.1)) and end == pytest.approx(32.0, abs=1.1)
    assert n == pytest.approx(500, abs=27)


@pytest.mark.slow
@pytest.mark.parametrize("camera", ["frozen", "quiet"])
def test_compression_that_hides_noise_does_not_look_frozen(street, camera):
    frames = np.repeat(street[60:61], 250, axis=0) if camera == "frozen" else quiet(street, 250)
    assert {each[0] for each in found(coded(frames, 23))} == ({"frozen"} if camera == "frozen" else set())


@pytest.mark.slow
@pytest.mark.parametrize("back", [False, True])
def test_where_nothing_changes_a_note_doubts_what_is_not_certain(street, back):
    """A frozen camera, then a quiet one, which look alike without noise and without key frames."""
    still = street[-1:].repeat(150, axis=0), quiet(street, 250)
    frames = coded(np.concatenate([street, still[0], street[:100], still[1], *[street[:60]] * back]), 30, 1000)
    watched(frames, watch=(watch := Watch(1 / RATE)))
    (said,) = watch.doubts()
    assert "hardly any pixel changes for" in said and "a quiet scene without noise" in said
    frozen = [each for each in watch.rows() if each.reason == "frozen"]
    places = [each.start for each in frozen] + [float(said.split(" s from ")[1].split()[0])]
    assert max(places) == pytest.approx(22.0, abs=0.5) and ("s in all" in said) == (not frozen)
    watched(np.concatenate([street, still[1]]), watch=(noisy := Watch(1 / RATE)))
    assert noisy.doubts() == []


def test_pauses_have_their_times_and_many_share_a_sentence(street):
    times = np.arange(len(street)) / RATE
    times[100:] += 58
    assert found(street, times=times) == [("pause", pytest.approx(4.0), pytest.approx(62.0), 0)]
    for t in range(120, 300, 30):
        times[t:] += 20
    sentences = sentences_of(watched(street, times=times)[0])
    assert len(sentences) == 4 and sentences[0] == "the recording pauses for 58.0 s from 4.0 s on"
    assert sentences[3].startswith("pause: 4 more times")


def test_what_is_too_dark_to_see_depends_on_the_brightest(street):
    scene = street[0].astype(float)
    (row,) = contrast_of((scene * 0.06).astype(np.uint8), None, 300)
    assert row.reason == "too dark" and "differences below 9 are never seen, with threshold=1.5 those below 4.5" in str(
        row
    )
    assert "threshold" not in str(contrast_of((scene * 0.06).astype(np.uint8), 1.5, 300)[0])
    assert contrast_of((scene * 0.5).astype(np.uint8), None, 300) == []


def test_a_night_inside_a_recording_is_told_when_it_begins_and_with_its_end(street):
    frames = street.copy()
    frames[75:225] = frames[75:225] * 0.07 + 3
    (row,), at = watched(frames)
    assert (row.reason, row.start, row.end) == ("too dark", pytest.approx(3.0, abs=0.5), pytest.approx(9.0, abs=0.6))
    assert str(row).startswith(f"too dark from {row.start:.1f} s to {row.end:.1f} s: the brightest pixels have 1")
    assert at == [("too dark", pytest.approx(75 + 5 * RATE, abs=13))]
    watch = Watch(1 / RATE, threshold=1.5)
    watched(frames[75:225], watch=watch)
    (row,) = watch.rows()
    assert str(row).startswith("too dark from 0.0 s on: ") and "threshold" not in str(row)
    blinks = frames.copy()
    blinks[[*range(80, 225, 10)]] = 10  # single frames of one colour
    assert "too dark" in {each[0] for each in found(blinks)}
    black = frames.copy()
    black[130:225] = 0
    assert [each[0] for each in found(black)] == ["no picture"]  # it was dark for 2 s
    short = street.copy()
    short[100:200] = short[100:200] * 0.07 + 3
    assert found(short) == []


@pytest.mark.parametrize("shift", [0.0, 1e-9, -1e-9])
def test_marks_of_events_that_touch_do_not_hang_on_rounding(shift):
    rows = [Unseen("no picture", 14.0 + shift, 20.0 + shift, 60), Unseen("pause", 50.0, 90.0 + shift, 0)]
    spans = [(3.0, 14.0), (20.0, 30.0), (15.0, 25.0), (40.0, 50.0), (90.0, 95.0), (21.0, 22.0)]
    marks = [marks_of(rows, *span, is_live=False) for span in spans]
    no_picture, paused = "the camera saw no picture", "the recording paused"
    assert marks == [
        [f"until {no_picture}"], [f"after {no_picture}"], [no_picture], [f"until {paused}"], [f"after {paused}"], []
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("live", [False, True])
def test_reports_say_what_was_not_seen_and_masks_stay(street, live, tmp_path):
    path = write_video(tmp_path / "hall.mkv", with_second(street, covered)[100:250], RATE, codec="ffv1")
    report = (follow if live else separate)(path, out=tmp_path)
    assert [row["reason"] for row in report.unseen] == ["changed"]
    assert report.unseen[0] == {"reason": "changed", "start": pytest.approx(2.0, abs=0.05), "end": None, "frames": 100}
    assert "the whole picture changed at 2.0 s" in report.warnings[0] and report.warnings[0] in str(report)
    assert json.loads(json.dumps(report.as_dict()))["unseen"] == report.unseen
    assert not any("does the camera move" in note for note in report.notes)


@pytest.mark.slow
def test_the_command_names_the_camera_and_the_page_has_it_at_the_top(street, tmp_path):
    good = write_video(tmp_path / "good.mkv", street[:50], RATE, codec="ffv1")
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(good.read_bytes()[: good.stat().st_size * 6 // 10])
    page = tmp_path / "page.html"
    run = run_command("background", good, cut, "--out", tmp_path / "out", "--report", page, "--quiet")
    assert run.exit_code == 0
    assert run.stderr.count("\n") == 1 and f"{cut}: read " in run.stderr and "cut off or damaged" in run.stderr
    text = page.read_text("utf-8")
    assert text.index("<h2>Warnings (1)</h2>") < text.index("cut off or damaged") < text.index("All videos")
    assert "done, cut off" in text or "done, damaged" in text
    live = run_command("background", cut, "--live", "--json", "--out", tmp_path / "live")
    assert any("cut off" in sentence for sentence in json.loads(live.stdout.splitlines()[-1])["warnings"])


@pytest.mark.parametrize("live", [False, True])
def test_events_are_marked_if_the_camera_did_not_see(street, live, tmp_path):
    frames = np.repeat(np.median(street, axis=0).astype(np.uint8)[None], 200, axis=0)
    frames[65:75, 40:70, 40:60] = (200, 30, 30)
    frames[110:160] = (0, 0, 200)
    path = write_video(tmp_path / "hall.mkv", frames, RATE, codec="ffv1")
    options = {"on_event": lambda row: said.append(row["note"])} if live else {}
    said = []
    report = (follow if live else separate)(path, out=tmp_path, events="scene", min_length=0.2, padding=0.2, **options)
    notes = [event["note"] for event in report.events]
    assert notes[0] == "" and notes[1] == "the camera saw no picture"
    assert said == notes * live
    table = (tmp_path / "hall_events.csv").read_text("utf-8")
    assert table.count("the camera saw no picture") == 1
    if not live:
        assert str(report).count(", the camera saw no picture") == 1


@pytest.mark.slow
@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("unit", ["scene", "objects"])
def test_events_end_where_the_picture_becomes_another_one(street, unit, live, tmp_path):
    frames = np.concatenate([street[:200], np.roll(street[200:], (10, 14), (1, 2))])
    frames[230:] = frames[[*range(200, 270)]]
    path = write_video(tmp_path / "hall.mkv", frames, RATE, codec="ffv1")
    report = (follow if live else separate)(path, out=tmp_path, events=unit, **({} if live else {"videos": False}))
    assert [row["start"] for row in report.unseen] == [8.0]
    spans = [(event["start"], event["end"], event["note"]) for event in report.events]
    assert all(end <= 8.0 or start >= 8.0 for start, end, _ in spans)
    before, after = [[note for start, _, note in spans if (start < 8.0) == early] for early in (True, False)]
    assert before and after and any("until the whole picture changed" in note for note in before)
    assert all("the whole picture was another one" in note for note in after)
    assert not any("another one" in note for note in before)
    assert "background is that of another scene" in report.warnings[0]


@pytest.mark.parametrize("lasts", [100, 40])
def test_a_piece_has_the_frames_of_its_picture_only(street, lasts):
    """A picture that turns for 4 s cuts an event in three; one that turns for 1.6 s does not."""
    frames = street.copy()
    frames[100 : 100 + lasts] = frames[100 : 100 + lasts, :, ::-1]
    watch, background = Watch(1 / RATE), np.median(street[::20], axis=0).astype(np.uint8)
    builder = EventBuilder(EventSettings(), 1 / RATE, watch)
    finder, events = EventFinder(builder), []
    for index, frame in enumerate(frames):
        mask = np.zeros(frame.shape[:2], np.uint8)
        mask[10:30, 20 : 50 if 100 <= index < 100 + lasts else 40] = 255
        part = Separated(index, frame, background, mask, index / RATE)
        watch.add(part)
        events += finder.add(part, find_boxes(mask, 0))
    events += finder.end()
    spans = [(event.start, event.end, event.box[2], event.frames) for event in events]
    if lasts == 40:
        assert spans == [(0.0, 12.0, 30, 300)]
    else:
        assert spans == [(0.0, 4.0, 20, 100), (4.0, 8.0, 30, 100), (8.0, 12.0, 20, 100)]
        assert [event.peak_time for event in events] == [0.0, 4.0, 8.0]


@pytest.mark.slow
def test_live_runs_say_at_once_that_the_camera_is_blind(street, tmp_path):
    frames = street.copy()
    frames[100:200] = 0
    path = write_video(tmp_path / "yard.mkv", frames, RATE, codec="ffv1")
    said = run_command("background", path, "--live", "--out", tmp_path).stdout.splitlines()
    assert said[0].startswith("no picture: 13 frames from 4.0 s on are black")
    lines = map(
        json.loads,
        run_command("background", path, "--live", "--json", "--out", tmp_path, "--force").stdout.splitlines(),
    )
    rows = [line["unseen"] for line in lines if set(line) == {"unseen"}]
    assert rows == [{"reason": "no picture", "start": 4.0, "end": None, "frames": 13}]


@pytest.mark.parametrize("colour", [(0, 0, 0), (0, 0, 200)])
def test_no_picture_is_not_learnt_even_if_it_is_most_of_the_clip(street, colour, tmp_path):
    frames = np.concatenate([np.full_like(street[:50], colour), street[:60], np.full_like(street[:50], colour)])
    path = write_video(tmp_path / "hall.mkv", frames, RATE, codec="ffv1")
    report = separate(path, out=tmp_path, masks="png", videos=False)
    model = BackgroundModel().fit(street[:60])
    assert report.learnt_frames == len(model.learnt_frames_)
    assert not any("was learnt from" in note for note in report.notes)
    assert np.array_equal(read_image(tmp_path / "hall_background.png"), model.background_)
    masks = [read_image(tmp_path / "hall_masks" / f"{number:06d}.png")[..., 0] for number in range(50, 110)]
    assert np.array_equal(masks, [part.mask for part in model.apply(street[:60])])


def test_few_frames_with_a_picture_are_said(street, tmp_path):
    path = write_video(tmp_path / "hall.mkv", np.concatenate([street[:3], 0 * street[:57]]), RATE, codec="ffv1")
    report = separate(path, out=tmp_path, videos=False)
    assert any(note.startswith("the background was learnt from 3 frames") for note in report.notes)


@pytest.mark.parametrize("objects", [False, True])
def test_a_scene_of_one_colour_is_learnt(objects, tmp_path):
    frames = np.full((60, HEIGHT, WIDTH, 3), (90, 120, 60), np.uint8)
    for t in range(15 * objects):
        frames[20 + t, 30:60, 40 + t : 70 + t] = 250
    path = write_video(tmp_path / "wall.mkv", frames, RATE, codec="ffv1")
    report = separate(path, out=tmp_path, masks="png", videos=False)
    model = BackgroundModel().fit(frames)
    assert report.learnt_frames == len(model.learnt_frames_)
    masks = [read_image(tmp_path / "wall_masks" / f"{number:06d}.png")[..., 0] for number in range(60)]
    assert np.array_equal(masks, [part.mask for part in model.apply(frames)])


def test_masks_are_those_of_the_model(street, tmp_path):
    path = write_video(tmp_path / "hall.mkv", with_second(street, covered)[130:180], RATE, codec="ffv1")
    report = separate(path, out=tmp_path, masks="png", videos=False)
    frames = with_second(street, covered)[130:180]
    share = np.mean([(part.mask > 0).mean() for part in BackgroundModel().fit(frames).apply(frames)])
    assert report.masks.foreground_share == pytest.approx(share, abs=1e-12)
