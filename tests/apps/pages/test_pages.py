"""When the page of a run is written, what it says, and how large it may become."""

import re
import subprocess
import sys

import numpy as np
import pytest
from helpers import run_command

from visionnmf.apps.background.watch import MARKS
from visionnmf.apps.faces import Identity
from visionnmf.apps.pages import open_page
from visionnmf.apps.pages.kinds import BLIND, KINDS, _colours
from visionnmf.apps.pages.page import MOST_SECTIONS, MOST_SENTENCES, Page, cell
from visionnmf.apps.report import Report
from visionnmf.apps.segmentation import overlay
from visionnmf.exceptions import MediaError, OutputExistsError, ParameterError
from visionnmf.io import write_image


@pytest.fixture
def photo(tmp_path):
    pixels = np.full((40, 60, 3), 30, np.uint8)
    pixels[:, 30:] = 220
    write_image(tmp_path / "photo.png", pixels)
    return tmp_path / "photo.png"


@pytest.fixture
def page(tmp_path):
    return open_page(tmp_path / "page.html", ["visionnmf made"], {}, force=False)


def text_of(page):
    page.write(1.0)
    return page.file.read_text("utf-8")


def test_a_page_says_what_failed_how_it_was_made_and_what_was_found(photo, tmp_path):
    words = ("segment", photo, tmp_path / "none.png", "--segments", "2", "--out", tmp_path / "out")
    run = run_command(*words, "--report", tmp_path / "new" / "page.html")
    assert run.exit_code == 1 and f"wrote {tmp_path / 'new' / 'page.html'}" in run.stdout
    text = (tmp_path / "new" / "page.html").read_text("utf-8")
    assert f"{tmp_path / 'none.png'}: no such file" in text
    assert "n_segments = 2" in text and "<code>visionnmf segment " in text and "visionnmf 0." in text
    assert re.search(r"made from</dt><dd>photo [0-9a-f]{16}</dd>", text)  # as the results say
    assert text.count('type="range"') == 1


def test_a_page_obeys_the_rules_of_other_results(photo, tmp_path):
    file = tmp_path / "page.html"
    words = ("segment", photo, "--out", tmp_path / "out", "--report", file)
    assert run_command(*words).exit_code == 0
    first = file.read_bytes()
    again = run_command(*words)
    assert again.exit_code == 2 and "exists already; give --force to replace it" in again.stderr
    assert run_command(*words, "--skip-existing").exit_code == 0
    assert file.read_bytes() == first  # nothing was new
    assert run_command(*words, "--force").exit_code == 0
    assert file.read_bytes() != first  # another time
    other = run_command("segment", photo, "--out", tmp_path / "out", "--report", photo, "--force")
    assert other.exit_code == 2 and "--report must be a file that ends in .html" in other.stderr
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("command", ["segment", "background"])
def test_a_run_without_a_result_has_a_page_that_says_so(command, tmp_path):
    page = tmp_path / "new" / "page.html"
    words = ("--out", tmp_path / "out", "--report", page)
    run = run_command(command, tmp_path / "none.png", tmp_path / "nor.png", *words)
    assert run.exit_code == 2 and f"wrote {page}" in run.stdout
    assert "<h2>Failed (2)</h2>" in page.read_text("utf-8") and "nor.png: no such file" in page.read_text("utf-8")
    page.write_text("an earlier page")
    assert run_command(command, tmp_path / "none.png", *words).exit_code == 2
    assert page.read_text() == "an earlier page"  # which was neither to be replaced
    assert run_command(command, tmp_path / "none.png", *words, "--force").exit_code == 2
    assert "<h2>Failed (1)</h2>" in page.read_text("utf-8")


def test_without_jinja2_one_line_says_what_installs_it(photo, tmp_path, monkeypatch):
    monkeypatch.setattr("visionnmf.apps.pages.kinds.find_spec", lambda name: None)
    run = run_command("segment", photo, "--out", tmp_path / "out", "--report", tmp_path / "page.html")
    assert run.exit_code == 2 and run.stderr.count("\n") == 1
    assert "--report needs jinja2, which is not installed; `sh setup.sh report` installs it" in run.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_command_without_a_page_loads_nothing_of_it(photo, tmp_path):
    code = (
        "import sys, visionnmf.apps.cli as cli\n"
        f"sys.argv = ['visionnmf', 'segment', {str(photo)!r}, '-q', '--out', {str(tmp_path / 'out')!r}]\n"
        "try:\n    cli.main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "print([name for name in sys.modules if name.startswith(('jinja2', 'visionnmf.apps.pages'))])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_command_that_replaces_nothing_asks_for_another_name(tmp_path):
    (tmp_path / "page.html").write_text("mine")
    with pytest.raises(OutputExistsError, match="give another name"):
        open_page(tmp_path / "page.html", ["visionnmf masquerade score"], {}, force=None)
    with pytest.raises(ParameterError, match=r"ends in \.html"):
        open_page(tmp_path / "page", ["visionnmf made"], {}, force=True)
    with pytest.raises(MediaError):
        open_page(tmp_path / "page.html" / "page.html", ["visionnmf made"], {}, force=True)


def test_the_folder_of_a_page_comes_with_it(tmp_path):
    page = open_page(tmp_path / "new" / "er" / "page.html", ["visionnmf made"], {}, force=False)
    assert not any(tmp_path.iterdir())
    page.write(1.0)
    assert page.file.is_file()


def test_a_page_is_bounded_and_says_what_is_not_on_it(page, tmp_path, rng):
    write_image(tmp_path / "noise.png", rng.integers(0, 256, (90, 90, 3)).astype(np.uint8))
    page.room = room = 200_000
    for number in range(Page.most_sections + 5):
        skipped = [f"part {number}.{part}" for part in range(10)]
        page.add(Report(lines=["found"], inputs=[f"{number}"], outputs=[str(tmp_path / "noise.png")], skipped=skipped))
    text = text_of(page)
    media = sum(map(len, re.findall(r'src="(data:[^"]*)"', text)))
    assert room / 2 < media <= room
    assert text.count('class="input"') == Page.most_sections and text.count("<tr>") == Page.most_sections + 5 + 1
    assert "5 sections of inputs" in text and re.search(r"\d+ pictures and videos", text)
    assert text.count("</a>: part ") == MOST_SENTENCES and f"{290 - MOST_SENTENCES} sentences" in text


def test_texts_steer_nothing(page):
    page.add(Report(lines=["a\x1b[2J", "\u202eb"], inputs=["rtsp://me:secret@gate/1"], notes=["<b>{{7*7}}</b>\r\n"]))
    page.add(Report(state="failed", error="'\"><script>", inputs=["x"]))
    text = text_of(page)
    assert "secret" not in text and "\x1b" not in text and "\u202e" not in text and "\\x1b[2J" in text
    assert "&lt;b&gt;{{7*7}}&lt;/b&gt;\\r\\n" in text and "&#39;&#34;&gt;&lt;script&gt;" in text


def test_an_input_that_is_gone_costs_its_pictures_alone(page, tmp_path):
    page.add(Report(lines=["found"], inputs=["a"], outputs=[str(tmp_path / "gone.png")]))
    assert "not shown: " in text_of(page)


def test_pages_of_evaluations_repeat_no_row_and_give_a_column_equal_decimals(tmp_path):
    table = [{"method": "raw", "score": 46.67}, {"method": "pca", "score": 5.5, "score_deviation": 0.125}]
    for splits in (1, 2):
        page = open_page(tmp_path / f"{splits}.html", ["visionnmf evaluate faces"], {}, force=None)
        page.add(Report(figures={"heading": "two", "table": table, "rows": splits * table}, inputs=["x"]))
        text = text_of(page)
        assert ("All rows" in text) == (splits > 1) and "46.67" in text and "5.50 ± 0.12" in text


def test_cells_say_what_they_are_sorted_by():
    assert cell(0.123456)["text"] == "0.1235" and cell(0.123456)["sort"] == 0.123456
    assert cell(None)["sort"] == cell(float("nan"))["sort"] == "" and cell(True)["sort"] == "True"


def test_sessions_that_are_not_printed_are_on_the_timeline(tmp_path):
    page = open_page(tmp_path / "page.html", ["visionnmf masquerade score"], {}, force=None)
    session = {"user": "ann", "start": None, "threshold": 2.0, "severity": None, "source": "log", "usual": []}
    for index in range(5):
        alarm = {"verdict": "alarm", "score": 5.0} if index == 3 else {"verdict": "own", "score": float(-index)}
        page.add(Report(figures=session | alarm | {"index": index, "reasons": []}, lines=["ann"], inputs=["log"]))
    text = text_of(page)
    assert text.count("<circle") == 5 and text.count('href="#s1"') == 1 and text.count('class="input"') == 1
    # the threshold is 2 below the top of 3 above it to 6 below it
    heights = [float(y) for y in re.findall(r'cy="([\d.]+)"', text)]
    (line,) = re.findall(r'y1="([\d.]+)" y2="[\d.]+" class="threshold"', text)
    assert min(heights) == heights[3] < float(line) < heights[0] < heights[1]


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1, 7, 4e5])
def test_the_timeline_has_a_scale_and_a_band_for_each_user(scale, tmp_path):
    page = open_page(tmp_path / "page.html", ["visionnmf masquerade score"], {}, force=False)
    session = {"verdict": "own", "start": None, "threshold": 2.0, "severity": None, "source": "log", "usual": []}
    scores, points = {}, (("ann", -3), ("ben", 4), ("ann", 2.5), ("<b>", -1), ("ben", 0), ("ann", 5))
    for index, (user, above) in enumerate(points):
        figures = session | {"user": user, "index": index, "score": 2 + scale * above, "reasons": []}
        page.add(Report(figures=figures, lines=["ann"], inputs=["log"]))
        scores.setdefault(user, []).append(scale * above)
    text = text_of(page)
    bands = re.findall(r'<svg x="([\d.]+)" width="([\d.]+)"><rect[^>]*/><text [^>]*>([^<]*)</text>', text)
    assert [name for _, _, name in bands] == ["ann", "ben", "&lt;b&gt;"]
    points = [(float(x), float(y)) for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', text)]
    ticks = re.findall(r'y1="([\d.]+)" y2="\1"(?: class="threshold")?/><text [^>]*>([^<]*)</text>', text)
    heights, values = zip(*((float(y), float(value)) for y, value in ticks), strict=True)
    assert 2 <= len(ticks) <= 7 and 0 in values
    slope, start = np.polyfit(heights, values, 1)  # points are where the scale says
    for (x, wide, _), user in zip(bands, scores, strict=True):
        inside = [y for place, y in points if float(x) <= place <= float(x) + float(wide)]
        span = max(1, 5 * scale) - min(-1, -3 * scale)
        assert slope * np.array(inside) + start == pytest.approx(scores[user], abs=0.005 * span)


@pytest.mark.parametrize("name", [*KINDS, "evaluate faces", "doctor"])
def test_every_page_shows_a_failure_of_the_whole_run(name, tmp_path):
    for inputs in ([], ["a"]):
        page = open_page(tmp_path / f"{len(inputs)}.html", [f"visionnmf {name}"], {}, force=False)
        page.add(Report(state="failed", error="names must be of papers", inputs=inputs))
        assert "<li>names must be of papers" in text_of(page)


def test_a_page_never_ends_the_command(tmp_path, monkeypatch):
    words = ("reproduce", "nosuch/fig-1", "--out", tmp_path / "out", "--report", tmp_path / "page.html")
    run = run_command(*words)
    assert run.exit_code == 2 and "must be those of a paper" in run.stderr and run.stderr.count("\n") == 1
    monkeypatch.setattr(Page, "row", lambda *_: 1 / 0)
    run = run_command(*words[:-1], tmp_path / "other.html")
    assert run.exit_code == 1 and "not on the page: a fault of visionnmf (ZeroDivisionError" in run.stderr


def test_notes_name_their_input(page):
    for name in ("a.png", "b.png"):
        page.add(Report(inputs=[name], lines=[f"{name}: found"], notes=[f"is doubtful by {len(page.sections)}"]))
    text = text_of(page)
    assert "a.png</a>: is doubtful by 0" in text and "b.png</a>: is doubtful by 1" in text


def test_pictures_are_named_with_their_folders(tmp_path, rng):
    page = open_page(tmp_path / "page.html", ["visionnmf faces cluster"], {}, force=False)
    images = [str(tmp_path / folder / "0.png") for folder in ("ada", "bob")]
    figures = {"clusters": [0, 0], "images": images, "accuracy": None}
    page.add(Report(figures=figures, lines=["found"], inputs=["faces"], shown={"images": rng.random((2, 8, 8))}))
    text = text_of(page)
    assert "<span>ada/0.png</span>" in text and "<span>bob/0.png</span>" in text


def test_the_table_of_all_images_has_pictures_and_sorts_by_their_segments(photo, tmp_path):
    write_image(tmp_path / "other.png", np.full((40, 60, 3), 90, np.uint8))
    words = ("segment", photo, tmp_path / "other.png", tmp_path / "none.png", "--out", tmp_path / "out")
    assert run_command(*words, "--report", tmp_path / "page.html").exit_code == 1
    text = (tmp_path / "page.html").read_text("utf-8")
    overview = text[text.index("All images") : text.index('class="input"')]
    assert re.findall(r'<button type="button">(\w+)<', overview) == ["picture", "image", "segments", "state", "result"]
    rows = overview.split("<tr>")[2:]
    assert ["<img" in row for row in rows] == [False, True, True]
    assert [re.findall(r'data-sort="(\d*)"[^>]* class="number"', row) for row in rows] == [[], ["2"], ["1"]]
    assert "failed" in rows[0] and "no such file" in rows[0]


def test_a_swatch_looks_like_its_segment_in_the_overlay():
    photograph, labels = np.full((40, 60, 3), 20, np.uint8), np.zeros((80, 120), np.uint16)
    labels[:, 60:] = 1
    drawn = overlay(photograph, labels[::2, ::2])
    own = [colour for colour, _ in _colours(photograph, drawn, labels, 2)]
    assert own == ["#" + drawn[5, column].tobytes().hex() for column in (5, 55)]
    assert own[0] != "#ff1a1a"  # the plain colour, which nothing in this dark picture shows


def test_doubtful_faces_have_their_sections_first(tmp_path):
    page = open_page(tmp_path / "page.html", ["visionnmf faces identify"], {}, force=False)
    page.blocks = lambda report: []
    for number in range(MOST_SECTIONS + 6):
        reason = "unknown" if number > MOST_SECTIONS else None
        found = Identity(None if reason else "ada", "ada", 0.1, 0.2, 0.0, reason=reason)
        page.add(Report(figures={"identity": found, "others": []}, inputs=[f"{number:02}.png"], lines=["found"]))
    names = re.findall(r"<h2>(\d+)\.png</h2>", text_of(page))
    assert len(names) == MOST_SECTIONS and names[:5] == [str(MOST_SECTIONS + n) for n in range(1, 6)]


def test_a_face_that_is_near_and_unlike_the_others_has_both_limits_in_the_table(tmp_path):
    """The caption named the threshold alone, and its own rows broke it."""
    page = open_page(tmp_path / "page.html", ["visionnmf faces identify"], {}, force=False)
    found = Identity(None, "ada", 0.125, 0.25, 0.0, reason="unlike", unlikeness=0.75, unlikeness_limit=0.375)
    page.add(Report(figures={"identity": found, "others": []}, inputs=["a.png"]))
    (table,) = page.summary()
    assert {"threshold", "unlikeness", "limit"} <= set(re.findall("[a-z]+", str(table["columns"])))
    assert "unlikeness at most its limit" in str(table) and "0.75" in str(table) and "0.375" in str(table)


def test_events_are_a_table_with_their_notes_and_links_if_there_are_clips(tmp_path):
    note, file = "since the first frame: perhaps part of the scene", tmp_path / "out" / "a_background.png"
    file.parent.mkdir()
    write_image(file, np.full((40, 60, 3), 90, np.uint8))
    event = {"start": 0.0, "end": 65.04, "peak_time": 1.0, "peak_area": 0.25, "thumbnail": "a_event_001.png"}
    for clip, shown in (("a b_event_001.mp4", True), (None, False)):
        events = [event | {"event": n, "clip": clip, "note": note * shown} for n in (1, 2)]
        page = open_page(tmp_path / f"{shown}" / "page.html", ["visionnmf background"], {}, force=False)
        figures = {"frames": 9, "events": events, "foreground_share": 0.5}
        page.add(Report(figures=figures, inputs=["a"], outputs=[str(file)]))
        text = text_of(page)
        assert ('href="../out/a%20b_event_001.mp4"' in text) == shown
        assert text.count(note) == 4 * shown  # a cell, and what it is sorted by
        columns = ["event", "from", "to", "seconds", "area, %", *["clip", "note"] * shown]
        assert re.findall(r'<button type="button">([^<]+)<', text) == columns
        assert re.findall(r'data-sort="([^"]*)"', text)[:5] == ["1", "0.0", "65.04", "65.0", "25.0"]
        assert '<td data-sort="65.04" data-name="to">1:05.0</td>' in text


@pytest.mark.parametrize("n_events", [0, 1, None])
def test_where_a_camera_did_not_see_the_timeline_is_hatched(tmp_path, n_events):
    write_image(file := tmp_path / "a_background.png", np.full((40, 60, 3), 90, np.uint8))
    event = {"event": 1, "start": 0.0, "end": 20.0, "peak_time": 1.0, "peak_area": 0.25, "thumbnail": "a.png"}
    events = None if n_events is None else [event | {"clip": None, "note": ""}] * n_events
    blind = [{"reason": "no picture", "start": 10.0, "end": 30.0}, {"reason": "frozen", "start": 32.0, "end": None}]
    blind += [{"reason": reason, "start": 0.0, "end": None} for reason in ("damaged", "no colour", "low contrast")]
    figures = {"frames": 9, "events": events, "foreground_share": 0.5, "unseen": blind}
    page = open_page(tmp_path / "page.html", ["visionnmf background"], {}, force=False)
    page.add(Report(figures=figures, inputs=["a"], outputs=[str(file)], shown={"first_time": 0.0, "last_time": 40.0}))
    text = text_of(page)
    places = re.findall(r'<span class="blind" style="left: ([0-9.]+)%; width: ([0-9.]+)%" title="([^"]+)">', text)
    assert places == [("25.0", "50.0", "no picture"), ("80.0", "20.0", "frozen")] and {*BLIND} == {*MARKS}
    assert "the camera did not see its scene (no picture, frozen)" in text
    caption = {0: "0 events", 1: "1 event", None: "Events were not asked for"}[n_events]
    assert f"<h3>{caption}</h3>" in text and ("Table of events" in text) == bool(n_events)


def test_equal_sentences_of_several_inputs_are_one(page):
    for number in range(MOST_SENTENCES + 20):
        name, state = f"{number:03}.png", "failed" if number < 3 else "done"
        error = f"{name}: is empty" if number < 3 else ""
        page.add(Report(inputs=[name], lines=["found"], notes=["is doubtful"], state=state, error=error))
    page.add(Report(inputs=["x.png"], lines=["found"], notes=["is odd", "is dark"]))
    page.add(Report(inputs=["y.png"], lines=["found"], notes=["is dark"]))
    text = text_of(page)
    assert 0 < text.index("<h2>Failed (3)") < text.index(f"<h2>Notes ({MOST_SENTENCES + 20})")
    assert "<li>000.png, 001.png, 002.png: is empty</li>" in text
    assert f"<summary>{MOST_SENTENCES + 17} inputs: is doubtful</summary>" in text and text.count("is doubtful") == 1
    assert '<li><a href="#s1">003.png</a></li>' in text and "<li>and 17 more</li>" in text
    assert "<li>x.png: is odd</li>" in text and "<li>x.png, y.png: is dark</li>" in text  # a few are named at once


def test_sections_of_several_inputs_have_their_warnings(page):
    page.add(Report(inputs=["a.png"], lines=["found"], warnings=["a.png: is odd", "is dark"]))
    page.add(Report(inputs=["b.png"], lines=["found"]))
    own, other = text_of(page).split('class="input"')[1:]
    assert "<li>is odd</li><li>is dark</li>" in own and "<li>" not in other


def test_inputs_with_warnings_have_their_sections_first(page, tmp_path, rng):
    write_image(tmp_path / "noise.png", rng.integers(0, 256, (90, 90, 3)).astype(np.uint8))
    page.room, total = 480_000, Page.most_sections + 9
    for number in range(total):
        warned = ["is odd"] * (number in (3, total - 2, total - 1))
        outputs = [str(tmp_path / "noise.png")]
        page.add(
            Report(inputs=[f"{number}.png"], lines=["found"], notes=[f"n{number}"], outputs=outputs, warnings=warned)
        )
    text = text_of(page)
    sections = text.split('class="input"')[1:]
    names = [re.search("<h2>(.*)</h2>", one)[1] for one in sections]
    assert names[:3] == ["3.png", f"{total - 2}.png", f"{total - 1}.png"] and names[3:5] == ["0.png", "1.png"]
    assert len(names) <= Page.most_sections and all("<img" in one for one in sections[:3])
    cards = dict(re.findall("<dt>([^<]*)</dt><dd>(.*?)</dd>", text.partition("</dl>")[0]))
    assert cards == {"with warnings": "3", "without a section": f"{total - len(names)}"}
    places = set(re.findall('id="(s[0-9]+)"', text))
    assert len(places) == len(names) and set(re.findall('href="#(s[0-9]+)"', text)) == places
    assert f"{total - 5}.png: n{total - 5}" in text  # its section is gone, so it is no link


def test_a_row_of_results_that_exist_says_that_their_warnings_are_elsewhere(page):
    page.add(Report(inputs=["a.png"], state="exists", notes=["a.csv exists already"]))
    page.add(Report(inputs=["b.png"], lines=["found"]))
    text = text_of(page)
    assert text.count("what the earlier run warned of is not repeated here</td>") == 1
    assert "skipped: results exist" in text and "a.csv exists already; what the earlier" in text


def test_inputs_without_a_section_count_too(page):
    for number in range(40):
        page.add(Report(inputs=[f"{number:03}.png"], lines=["found"], warnings=["did not converge"]))
    assert "<summary>40 inputs: did not converge</summary>" in text_of(page)
