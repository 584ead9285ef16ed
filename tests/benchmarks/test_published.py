"""What the documents publish: each command is one that there is, and each script's figures name their commit."""

import inspect
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"`(?:python |make bench )?(?:benchmarks/)?(\w+)\.py((?: [\w.-]+)*)`")


OWN_WORDS = {"segmentation_train"}  # is one table; its words are not names of parts


def commands():
    found = {match for document in DOCUMENTS for match in COMMAND.findall(document.read_text())}
    return sorted((script, *words.split()) for script, words in found if (FOLDER / f"{script}.py").exists())


def spelt_out():
    """Commands written with `python benchmarks/`, whose script must exist."""
    text = "\n".join(document.read_text() for document in DOCUMENTS)
    return sorted(set(re.findall(r"python benchmarks/(\w+\.py)", text)))


@pytest.fixture
def parts(monkeypatch):
    """Return the parts of a script, and how it tells arguments, without running any."""
    monkeypatch.syspath_prepend(FOLDER)
    import _main

    def parts(script):
        caught = {}
        monkeypatch.setattr(_main, "main", lambda parts, *rest, **options: caught.update(parts))
        monkeypatch.setattr(sys, "argv", [f"{script}.py"])
        runpy.run_path(str(FOLDER / f"{script}.py"), run_name="__main__")
        return caught, _main._split

    return parts


def test_there_are_commands():
    assert len(commands()) > 25
    assert [name for name in spelt_out() if not (FOLDER / name).exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted({command[0] for command in commands()} - OWN_WORDS))
def test_each_published_command_is_one_that_there_is(script, parts):
    there, split = parts(script)
    for _, *words in (command for command in commands() if command[0] == script):
        words = [word for word in words if word != "--quick"]
        if not words or all(word in there for word in words):
            continue
        arguments, options = split(words[1:])
        assert words[0] in there, f"python benchmarks/{script}.py {' '.join(words)}"
        inspect.signature(there[words[0]]).bind(*arguments, **options)


def test_figures_of_each_published_script_and_benchmarks_name_their_commit(monkeypatch):
    rows = [
        line for line in (ROOT / "docs" / "benchmarks.md").read_text().splitlines() if re.match(r"\| `\w+\.py`", line)
    ]
    for name in spelt_out():
        (row,) = [row for row in rows if f"`{name}`" in row]
        assert re.search(r"\b[0-9a-f]{7}\b", row.rsplit("|", 2)[1]), row
    monkeypatch.syspath_prepend(FOLDER)
    from _machine import machine

    assert re.search(r"commit ([0-9a-f]{7,}\+?|unknown);", machine())
