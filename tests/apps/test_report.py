"""What a report says to programs and to people."""

import json
import pickle

import numpy as np
import pytest

from visionnmf.apps.faces import Identity
from visionnmf.apps.report import Report


def test_a_report_says_the_same_to_programs_and_to_people():
    identity = Identity("ada", "ada", 0.1, np.float32(0.5), float("nan"), ranking=(("ada", 0.1),))
    figures = {"count": 3, "who": identity, "groups": np.arange(2)}
    common = {"inputs": ["a"], "outputs": ["b", "c"], "skipped": ["d: empty"], "notes": ["few"]}
    report = Report(figures=figures, lines=["3 things"], model=object(), **common)
    found = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    who = found.pop("who")
    assert found == {"state": "done", "count": 3, "groups": [0, 1], **common, "warnings": []}
    assert (who["threshold"], who["corrupted"], who["ranking"]) == (0.5, None, [["ada", 0.1]])
    assert str(report).splitlines() == ["3 things", "  few", "  wrote b", "  wrote c", "  left out: d: empty"]
    assert report.as_lines(files=False) == ["3 things", "  few", "  left out: d: empty"]
    assert report.count == 3 and pickle.loads(pickle.dumps(Report(figures={"count": 1}))).count == 1
    with pytest.raises(AttributeError, match="no sum"):
        _ = report.sum


def test_many_numbered_files_become_one_line():
    """Fourteen pictures of events would bury what was found; other files are listed one by one."""
    pictures = [f"out/yard 2_event_{number:03d}.png" for number in range(1, 15)]
    report = Report(outputs=["out/yard 2_events.csv", *pictures, "out/a1.png", "out/a2.png"])
    assert report.as_lines() == [
        "  wrote out/yard 2_events.csv",
        "  wrote out/yard 2_event_001.png to out/yard 2_event_014.png (14 files)",
        "  wrote out/a1.png",
        "  wrote out/a2.png",
    ]


def test_names_of_files_cannot_forge_lines_or_steer_the_terminal():
    name = "photos/a\nall is well\x1b[2J.png"
    lines = Report(lines=[f"{name}: 3 segments"], outputs=[name]).as_lines()
    assert len(lines) == 2 and not any("\n" in line or "\x1b" in line for line in lines)
