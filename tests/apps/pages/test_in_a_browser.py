"""The page of each kind of run in headless Chromium: elements, players, keys, sizes, and markup that stays text."""

from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from browser import Browser, needs_browser

pytestmark = [pytest.mark.slow, needs_browser]

# What each page must have, by selector, and at least how often.
ELEMENTS = {
    "segment": {".slider img": 2, "tbody tr": 2, ".failed li": 1},
    "background": {"video": 3, ".track span": 1, "td button img": 1, "td a": 1},
    "identify": {"figure img": 4, ".bar": 4, "tbody tr": 2},
    "cluster": {".sheet": 6, ".sheet img": 48},
    "annotate": {".pair img": 1, ".pair tbody tr": 1},
    "views": {"td[style]": 3, "tbody tr": 5},
    "impute": {".cards div": 3, "tbody tr": 2, "td.number": 8},
    "users": {".cards div": 4, "tbody tr": 1, "td.number": 4},
    "masquerade": {"circle": 8, "circle.alarm": 1, ".input tbody tr": 1},
    "evaluate": {"figure.vector img": 1, "tbody tr": 3},
    "reproduce": {"figure.vector img": 1, "figure img": 2, "tbody tr": 4},
}


@pytest.fixture(scope="module")
def browser():
    with Browser() as started:
        yield started


@pytest.mark.parametrize("kind", ELEMENTS)
def test_a_page_is_whole_and_its_texts_are_inert(kind, made_page, browser):
    page = made_page(kind)
    assert page.stat().st_size < 10_000_000
    for width, dark in ((1200, False), (390, False), (390, True)):
        browser.open(page, width=width, dark=dark)
        assert browser.value("document.documentElement.scrollWidth") <= width
    for selector, least in ELEMENTS[kind].items():
        assert browser.value(f"document.querySelectorAll({selector!r}).length") >= least, selector
    loaded = "[...document.images].filter(one => !(one.complete && one.naturalWidth)).length"
    browser.wait_for(f"{loaded} === 0")
    assert browser.value("window.hit") is None
    assert browser.value("document.scripts.length") == 1 + (kind == "background")  # our own, and its table of times
    links = 'a:not([href^="#"]):not(td a[href$=".mp4"])'
    assert browser.value(f"document.querySelectorAll('[src=x], [onerror], [onload], {links}').length") == 0
    assert "onerror=window.hit=" in browser.value("document.body.innerText")
    assert "{{7*7}}" in browser.value("document.body.innerText") or kind == "annotate"
    assert browser.messages == []
    assert {address.partition(":")[0] for address in browser.requests[1:]} <= {"data"}
    assert browser.requests[0].startswith("file:")


def test_players_play_the_same_frame(made_page, browser):
    browser.open(made_page("background"))
    each = "[...document.querySelectorAll('video')]"
    browser.wait_for(f"{each}.every(one => one.readyState >= 3)")
    assert browser.value(f"new Set({each}.map(one => one.duration)).size") == 1
    assert browser.value(f"{each}[0].duration") == pytest.approx(6, abs=0.2)
    browser.value("document.querySelector('.play').focus()")
    browser.press("Space")
    browser.wait_for(f"{each}.every(one => one.currentTime > 0.3)")
    assert browser.value("document.querySelector('.play').textContent") == "Pause"
    browser.press("Space")
    assert browser.value(f"{each}.every(one => one.paused)")
    browser.value("document.querySelector('.controls input').focus()")
    before = int(browser.value("document.querySelector('.controls input').value"))
    browser.press("ArrowRight")
    assert browser.value(f"{each}.map(one => Math.floor(one.currentTime * 10))") == 3 * [before + 1]
    browser.value("document.querySelector('[data-frame]').focus()")
    browser.press("Enter")
    frame = int(browser.value("document.querySelector('[data-frame]').dataset.frame"))
    assert 10 <= frame < 52 and browser.value("document.querySelector('.controls input').value") == str(frame)
    assert browser.messages == []


def test_the_page_of_sessions_fits_a_telephone(made_page, browser):
    browser.open(made_page("masquerade"), width=390)
    assert browser.value("[...document.querySelectorAll('.scroll')].every(one => one.scrollWidth <= one.clientWidth)")
    letters = "[...document.querySelectorAll('.timeline text')].map(one => one.getBoundingClientRect().height)"
    assert min(browser.value(letters)) > 10
    names = browser.value("[...document.querySelectorAll('.input td')].slice(0, 5).map(one => one.dataset.name)")
    assert names == ["command", "times", "share, %", "why", "where"]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_segments_hides_no_column(width, made_page, browser):
    browser.open(made_page("segment"), width=width)
    assert browser.value("[...document.querySelectorAll('.scroll')].every(one => one.scrollWidth <= one.clientWidth)")
    box = "document.querySelector('.pair {}').getBoundingClientRect()"
    if width == 1280:  # the note lies below the table, and takes no room of the picture
        assert browser.value(f"{box.format('.small')}.top >= {box.format('table')}.bottom")
        assert browser.value(f"{box.format('.slider')}.width + {box.format('.scroll')}.width > 600")


@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_of_a_long_name_hides_no_column(width, made_page, browser, tmp_path):
    text = made_page("background").read_text("utf-8")
    longer = text.replace("_event_001.mp4</a>", f"{'_yard_north_entrance' * 4}_event_001.mp4</a>")
    (tmp_path / "page.html").write_text(longer, "utf-8")
    assert longer != text
    browser.open(tmp_path / "page.html", width=width)
    assert browser.value("[...document.querySelectorAll('.scroll')].every(one => one.scrollWidth <= one.clientWidth)")
    bars = browser.value("[...document.querySelectorAll('.bar i')].map(one => parseFloat(one.style.width))")
    areas = browser.value("[...document.querySelectorAll('td:has(.bar)')].map(one => Number(one.dataset.sort))")
    assert max(areas) < 10 and bars == pytest.approx([100 * area / max(areas) for area in areas], abs=0.5)
    said = browser.value("document.body.innerText")
    assert "Each bar is relative to the largest value of its column." in said
    assert "times include up to 1 s before and after" in said


def test_a_heading_sorts_by_its_column(made_page, browser):
    browser.open(made_page("masquerade"))
    table = "document.querySelector('.input table')"
    shares = f"[...{table}.tBodies[0].rows].map(row => Number(row.cells[2].dataset.sort))"
    before = browser.value(shares)
    assert len(before) > 1 and before == sorted(before, reverse=True)
    browser.value(f"{table}.querySelectorAll('th button')[2].focus()")
    for order, backwards in (("ascending", False), ("descending", True)):
        browser.press("Enter")
        assert browser.value(shares) == sorted(before, reverse=backwards)
        assert browser.value(f"{table}.querySelectorAll('th')[2].getAttribute('aria-sort')") == order


def test_a_slider_moves_by_the_keyboard(made_page, browser):
    browser.open(made_page("segment"))
    cut = "document.querySelector('.layers').style.getPropertyValue('--cut')"
    assert browser.value(cut) == "100%"  # all of the overlay
    browser.value("document.querySelector('.slider input').focus()")
    browser.press("ArrowLeft")
    assert browser.value(cut) == "99%"


def test_a_printed_page_shows_both_pictures_and_what_is_folded(made_page, browser):
    browser.open(made_page("segment"))
    browser.value("document.querySelector('.slider input').value = 50")
    boxes = "[...document.querySelectorAll('.layers img')].map(one => one.getBoundingClientRect())"
    left, right = f"{boxes}[0]", f"{boxes}[1]"
    assert browser.value(f"{left}.left === {right}.left")
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.value(
        f"{left}.right <= {right}.left && {left}.width === {right}.width && {left}.top === {right}.top"
    )
    assert browser.value("getComputedStyle(document.querySelectorAll('.layers img')[1]).clipPath") == "none"
    assert browser.value("document.querySelector('details dd').checkVisibility({contentVisibilityAuto: true})")
    browser.call("Emulation.setEmulatedMedia", media="")


def test_a_wide_table_says_that_it_goes_on(made_page, browser):
    browser.open(made_page("identify"), width=390)
    table = "document.querySelector('.scroll')"
    assert browser.value(f"{table}.scrollWidth > {table}.clientWidth")
    assert "scroll" in browser.value(f"getComputedStyle({table}).backgroundAttachment")


def test_events_lead_to_their_clips_wherever_the_page_is(made_page, browser):
    page = made_page("background")
    browser.open(page)
    links = browser.value("[...document.querySelectorAll('td a')].map(one => one.href)")
    files = [Path(unquote(urlparse(link).path)) for link in links]
    assert files and all(file.is_file() and file.parent == page.parent / "out" for file in files)


def test_a_script_that_is_not_ours_would_be_stopped(made_page, browser, tmp_path):
    """The policy of the page stops what the escaping might miss; Chromium says so on its console."""
    text = made_page("views").read_text("utf-8")
    (tmp_path / "page.html").write_text(text.replace("<main>", "<main><script>window.hit=9</script><img src=//a.b/c>"))
    browser.open(tmp_path / "page.html")
    assert browser.value("window.hit") is None and len(browser.messages) >= 2
