"""Text from outside that is printed cannot steer a terminal, forge a line or reveal a password."""

import io
import time

import pytest
from rich.console import Console
from rich.text import Text

from visionnmf._text import one_line, printable, without_password


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("photo é 写真 👩\u200d🚀.jpg", "photo é 写真 👩\u200d🚀.jpg"),
        ("Screenshot\u202f3 PM.png", "Screenshot\u202f3 PM.png"),
        ("a\x1b]0;owned\x07.png", r"a\x1b]0;owned\x07.png"),
        ("a\x9b2J", r"a\x9b2J"),
        ("a.png\nb.png: failed\r", r"a.png\nb.png: failed\r"),
        ("a\u2028b\u2029c\x85d\x0be", r"a\u2028b\u2029c\x85d\x0be"),
        ("exe.\u202egnp", r"exe.\u202egnp"),
        ("caf\udce9.png", r"caf\udce9.png"),
        ("http://me:secret@gate/1\n", r"http://me:***@gate/1\n"),
    ],
)
def test_what_could_steer_a_terminal_is_escaped(text, expected):
    assert printable(text) == expected
    printable(text).encode("utf-8")


@pytest.mark.parametrize("name", ["q[/]x.png", "[red]x", "[/red]", "a[link=http://x]b"])
def test_rich_prints_markup_in_names_as_it_is(name):
    console = Console(file=io.StringIO(), width=200)
    console.print(printable(name, markup=True))
    assert console.file.getvalue().rstrip("\n") == name
    assert Text.from_markup(printable(name, markup=True)).plain == name


def test_errors_become_one_line_without_passwords():
    assert one_line(ValueError("two\nlines.")) == "two lines"
    assert one_line(ValueError()) == "ValueError"
    assert len(one_line(ValueError("a " * 500_000))) < 10_000
    assert without_password("rtsp://me:secret@gate/1?x") == "rtsp://me:***@gate/1?x"
    begin = time.process_time()
    picture = "data:image/svg+xml;base64," + 300_000 * "ab"  # in a page; a search from each letter on takes minutes
    assert printable(picture) == picture and time.process_time() - begin < 5
