"""The page of the papers: every call, command and test on it is one that there is."""

import csv
import importlib
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from helpers import all_commands
from sklearn.exceptions import ConvergenceWarning

from visionnmf import NMF, OnlineNMF, ProjectiveNMF, SymmetricNMF

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "papers.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip()[1:-1].split("|")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith(("| item", "| ---"))
]
CALLS = sorted(
    {code for row in ROWS for code in re.findall(r"`([A-Z][^`]*|\w+\([^`]*\)|visionnmf\.[\w.]+|[a-z]+_\w+)`", row[2])}
)
MODULES = [
    *("visionnmf", "visionnmf.models", "visionnmf.metrics", "visionnmf.features", "visionnmf.datasets"),
    *(f"visionnmf.apps.{name}" for name in ("annotation", "faces", "masquerade", "multiview", "segmentation")),
]


def names():
    """What a reader has imported, and the data in the examples."""
    known = {}
    for module in map(importlib.import_module, reversed(MODULES)):
        known |= {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    image = np.random.default_rng(0).integers(0, 255, (12, 16, 3), np.uint8)
    own = {"numpy": np, "views": [slice(0, 5), slice(5, 8)], "bounds": [0.1, 0.1], "model": NMF(2), "image": image}
    return known | own | {"X": np.random.default_rng(0).random((12, 8))}


def test_the_counts_are_those_of_the_rows():
    found = Counter(row[1] for row in ROWS)
    counts = ", ".join(f"{found[mark]} **{mark}**" for mark in "=~–")
    assert set(found) == set("=~–")
    assert f"{len(ROWS)} items: {counts}. So {found['='] + found['~']} work from the package." in " ".join(TEXT.split())


def test_the_sentences_of_abstracts_are_counted_and_their_commands_exist():
    verdicts = Counter()
    from visionnmf.apps.reproduce.registry import find

    for file in sorted((ROOT / "docs" / "claims").glob("*.csv")):
        for row in csv.DictReader(file.read_text("utf-8").splitlines()):
            assert all(row.values()), row
            verdicts[re.match("holds|in part|does not", row["verdict"]).group()] += 1
            for names in re.findall(r"`visionnmf reproduce ([\w./ -]+?)(?: --quick)?`", row["command or test"]):
                assert find(names.split())
            for path in re.findall(r"`(tests/[\w/]+\.py)`", row["command or test"]):
                assert (ROOT / path).is_file(), path
    text = " ".join((ROOT / "docs" / "claims.md").read_text("utf-8").split())
    holds, part, fails = (verdicts[word] for word in ("holds", "in part", "does not"))
    counts = f"Of {verdicts.total()} sentences {holds} hold, {part} in part and {fails} do not."
    assert counts in text


def test_every_row_has_a_call_and_a_test_or_a_reason():
    for item, mark, call, remark in ROWS:
        assert bool(call) == (mark != "–"), item
        assert remark and "`benchmarks/" not in call, item
    for path in set(re.findall(r"`((?:tests|benchmarks)/[\w/]+\.py)`", TEXT)):
        assert (ROOT / path).is_file(), path
    same = [i for i, row in enumerate(ROWS) if row[3].startswith("the same") and row[1] == "="]
    assert all(any("tests/" in ROWS[j][3] for j in range(max(0, i - 8), i)) for i in same)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
@pytest.mark.parametrize("call", CALLS)
def test_a_call_works(call):
    known = names()
    if call.startswith("visionnmf."):  # what an application does not export
        module, _, name = call.rpartition(".")
        assert hasattr(importlib.import_module(module), name)
        return
    model = eval(call, known)
    if isinstance(model, NMF | OnlineNMF | ProjectiveNMF):
        model.set_params(n_components=2, max_iter=3, random_state=0).fit(0.1 + known["X"])
        assert np.isfinite(model.components_).all()
    elif isinstance(model, SymmetricNMF):
        model.set_params(max_iter=3).fit(known["X"] @ known["X"].T)


def test_commands_and_their_options_exist():
    options = {
        name: {option for parameter in command.params for option in parameter.opts} for name, command in all_commands()
    }
    for cell in (row[2] for row in ROWS):
        for command in re.findall(r"`visionnmf ([a-z ]+?)(?: yaleb)?`", cell):
            assert command in options, command
        asked = set(re.findall(r"`(--[\w-]+)", cell))
        if asked:
            (command,) = set(re.findall(r"`visionnmf ([a-z ]+?)(?: yaleb)?`", cell))
            assert asked <= options[command], cell


def test_items_of_the_papers_that_the_page_repeats_can_be_run():
    from visionnmf.apps.reproduce.registry import find

    named = set(re.findall(r"`visionnmf reproduce ([\w./-]+)`", TEXT))
    assert len(named) >= 20
    assert {name for name in named if all(one.run is None for one in find([name]))} == set()
