"""The command `reproduce` on made experiments: listing, keeping, failing, naming, and the page."""

import json
import re

import numpy as np
import pytest
from helpers import run_command

from visionnmf.apps.drawing import new_figure
from visionnmf.apps.pages.kinds import ReproducePage
from visionnmf.apps.reproduce import Experiment, Result, Row, registry, reproduce
from visionnmf.apps.reproduce.experiments import compared, comparisons
from visionnmf.exceptions import ParameterError


@pytest.fixture
def calls(monkeypatch):
    """Put four made experiments in place of all; returns the sizes of the runs of the first one."""
    calls = []

    def good(sizes):
        calls.append(sizes.quick)
        figure = new_figure(2, 2)
        figure.subplots().plot([0, 1])
        rows = [Row("error", 12.5, paper=10.0, deviation=0.25), compared("a below b", [1.0, 1.1], [2.0, 2.1])]
        pictures = {"A line": figure, "Noise <b>": np.zeros((8, 8), np.uint8)}
        return Result(rows, pictures, {"More | values": [["x", "y"], ["1", "2"]]}, ["One note."])

    def bad(sizes):
        raise RuntimeError("out of luck")

    made = (
        Experiment("made/fig-1", "a curve", "it <falls>.", good, "noise", protocol=("The start is open.",)),
        Experiment("made/fig-2", "another", run=bad, replaced="made data in place of faces"),
        Experiment("made/fig-3", "a drawing", missing="a drawing"),
        Experiment("made/table-1", "a table", run=good, files=("absent.npz",)),
    )
    monkeypatch.setattr(registry, "PAPERS", {"made": registry.Paper("Made: on nothing", made)})
    monkeypatch.setattr(registry, "EXPERIMENTS", {one.name: one for one in made})
    return calls


def test_the_list_has_each_item_with_its_state(calls):
    printed = run_command("reproduce", "--list", "--json")
    states = {item["name"]: item["available"] for item in map(json.loads, printed.stdout.splitlines())}
    assert states == {
        "made/fig-1": "runs",
        "made/fig-2": "nearest data: made data in place of faces",
        "made/fig-3": "missing: a drawing",
        "made/table-1": "no data: absent.npz",
    }
    assert not calls and printed.exit_code == 0
    assert "made/fig-1" in run_command("reproduce", "--list", "made/fig-1").stdout


@pytest.mark.slow
def test_a_result_is_kept_and_used_again(calls, tmp_path):
    first = reproduce(["made/fig-1"], out=tmp_path, quick=True)
    again = reproduce(["made/fig-1"], out=tmp_path, quick=True)
    assert calls == [True]
    assert [one[0].cached for one in (first, again)] == [False, True]
    assert first[0].rows == again[0].rows
    reproduce(["made/fig-1"], out=tmp_path)  # a whole run is kept beside the quick one
    reproduce(["made/fig-1"], out=tmp_path, quick=True, force=True)
    assert calls == [True, False, True]
    (tmp_path / "made" / "fig-1-1.svg").unlink()  # a picture of the whole run
    reproduce(["made/fig-1"], out=tmp_path)
    assert calls == [True, False, True, False]


def test_a_result_of_other_data_is_run_again(calls, tmp_path):
    for name, size in (("a", 1), ("a", 1), ("a", 2)):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "absent.npz").write_bytes(bytes(size))
        reproduce(["made/table-1"], out=tmp_path / "out", data=tmp_path / name)
    assert len(calls) == 2


def test_a_package_that_is_not_installed_is_listed(calls, monkeypatch):
    one = Experiment("made/fig-1", "a", run=lambda sizes: None, packages=("json", "no_such_package"))
    monkeypatch.setattr(registry, "PAPERS", {"made": registry.Paper("Made", (one,))})
    monkeypatch.setattr(registry, "EXPERIMENTS", {one.name: one})
    assert "runs; in part, without no_such_package" in run_command("reproduce", "--list").stdout


def test_a_failure_costs_its_row_alone(calls, tmp_path):
    run = run_command("reproduce", "--all", "--out", tmp_path)
    assert run.exit_code == 1 and len(calls) == 2
    assert "made/fig-2: failed (RuntimeError: out of luck)" in run.stderr
    with pytest.raises(RuntimeError, match="out of luck"):
        reproduce(["made/fig-2"], out=tmp_path, stop_at_error=True)


def test_the_page_sets_the_paper_and_ours_side_by_side(calls, tmp_path):
    page = tmp_path / "page.html"
    run = run_command("reproduce", "made/fig-1", "--quick", "--out", tmp_path, "--report", page)
    assert run.exit_code == 0 and "error: paper 10; ours 12.5 ± 0.2; +2.5" in run.stdout
    text = page.read_text("utf-8")
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", text)
    assert cells[:4] == ["error", "10", "12.5 ± 0.2", "+2.5"]
    assert cells[4:8] == ["a below b", "yes", "1.05 against 2.05 (2 of 2 runs)", ""]  # a quick run
    for sentence in ("The start is open.", "One note.", "Data: noise", "The paper: it &lt;falls&gt;.", "A quick run"):
        assert sentence in text
    assert text.count("data:image/svg+xml") == text.count("data:image/png") == 1 and "Noise &lt;b&gt;" in text
    assert "visionnmf reproduce made/fig-1 --quick" in text
    assert "http:" not in text and "https:" not in text
    assert b"<svg" in (tmp_path / "made" / "fig-1-quick-1.svg").read_bytes()
    assert (tmp_path / "made" / "fig-1-quick-2.png").read_bytes().startswith(b"\x89PNG")


def test_several_items_name_their_pictures(calls, tmp_path):
    run = run_command("reproduce", "--all", "--quick", "--out", tmp_path)
    for number, suffix in ((1, "svg"), (2, "png")):
        assert f"wrote {tmp_path / 'made' / f'fig-1-quick-{number}.{suffix}'}" in run.stdout


def test_a_figure_that_the_paper_lacks_leaves_no_empty_part(monkeypatch, tmp_path):
    rows = [Row("area", 0.133), Row("error", 12.5, 10), Row("order", "yes", "yes")]
    one = Experiment("made/fig-1", "a", run=lambda sizes: Result(rows))
    monkeypatch.setattr(registry, "PAPERS", {"made": registry.Paper("Made", (one,))})
    monkeypatch.setattr(registry, "EXPERIMENTS", {one.name: one})
    lines = reproduce([one.name], out=tmp_path)[0].lines
    assert lines[1:] == ["  area: ours 0.133", "  error: paper 10; ours 12.5; +2.5", "  order: paper yes; ours yes"]


def test_an_unknown_name_has_the_nearest(calls, tmp_path):
    run = run_command("reproduce", "foo", "--out", tmp_path / "out")
    assert run.exit_code == 2 and "items; got 'foo'; `visionnmf reproduce --list` has all" in run.stderr
    run = run_command("reproduce", "made/fig-11", "--out", tmp_path / "out")
    assert run.exit_code == 2 and "the nearest is made/fig-1" in run.stderr
    run = run_command("reproduce", "made/fig-1", "--out", tmp_path / "out", "--data", tmp_path / "nothing")
    assert run.exit_code == 2 and "is not a folder" in run.stderr
    assert not any(tmp_path.iterdir())
    (tmp_path / "file").touch()
    run = run_command("reproduce", "made/fig-1", "--out", tmp_path / "file")
    assert run.exit_code == 2 and "file/made/fig-1.json: cannot be written (Not a directory)" in run.stderr


def test_names_are_needed_and_an_item_that_runs(calls, tmp_path):
    assert run_command("reproduce", "--out", tmp_path).exit_code == 2
    assert run_command("reproduce", "made", "--all", "--out", tmp_path).exit_code == 2
    with pytest.raises(ParameterError, match=r"got made/fig-3: a drawing"):
        reproduce(["made/fig-3"], out=tmp_path)


def test_without_matplotlib_one_line_says_what_installs_it(calls, tmp_path, monkeypatch):
    monkeypatch.setattr("visionnmf._checks.find_spec", lambda name: None)
    run = run_command("reproduce", "made/fig-1", "--out", tmp_path)
    assert run.exit_code == 2 and "sh setup.sh plots" in run.stderr and run.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("better", "worse", "paper", "verdict"),
    [
        ([1, 2], [2, 3], "yes", "confirmed"),
        ([2, 3], [1, 2], "yes, 5.2", "reversed"),
        ([1, 3], [3, 1.1], "yes", "level"),
        ([1], [2], "yes", "confirmed"),
        ([1, 2], [2, 3], "no, Fig. 5", "reversed"),
        ([1, 3], [3, 1.1], "no", "confirmed"),
        ([1, 2], [2, 3], "comparable", "better"),
        ([1, 3], [3, 1.1], "comparable, mostly", "confirmed"),
        ([2, 3], [1, 2], "comparable", "reversed"),
        ([1, 2], [2, 3], "nothing", "better; the paper does not say"),
    ],
)
def test_a_claim_is_judged_by_pairs(better, worse, paper, verdict):
    row = compared("", better, worse, paper=paper)
    assert row.paper == paper
    n = len(better)
    assert row.verdict == f"{verdict}; {n} pair{'s' if n > 1 else ''} only"
    assert compared("", better * 5, worse * 5, paper=paper).verdict == verdict


def test_higher_figures_can_be_better():
    assert compared("", [2.0], [1.0], higher=True).verdict == "confirmed; 1 pair only"


def test_methods_are_compared_run_by_run():
    figures = {"a": [1, 2, 3, 4], "b": [0, 0], "c": [5, 5, 5, 5]}
    rows = comparisons("{0} above {1}", figures, ["a"], {"b": "yes", "c": "no"})
    assert [row.what for row in rows] == ["a above b", "a above c"]
    assert [row.ours for row in rows] == ["1.5 against 0 (2 of 2 runs)", "2.5 against 5 (0 of 4 runs)"]


def test_the_ranks_of_a_split_are_not_runs():
    figures = {"a": np.ones((2, 8)), "b": np.zeros((10, 8)), "c": np.repeat([[0], [3]], 8, axis=1)}
    rows = comparisons("{0} above {1}", figures, ["a"], {"b": "yes", "c": "yes"})
    assert [row.verdict for row in rows] == ["confirmed; 2 pairs only", "level; 2 pairs only"]
    assert rows[1].ours == "1 against 1.5 (1 of 2 runs)"


def test_each_item_is_complete():
    names = [name for paper in registry.PAPERS.values() for name in (one.name for one in paper.experiments)]
    assert len(names) == len(set(names)) == len(registry.EXPERIMENTS)
    missing = [name for name, one in registry.EXPERIMENTS.items() if one.run is None]
    assert missing == ["masquerade/fig-1", "sbcd/table-5"]  # as docs/papers.md says
    assert len(names) <= ReproducePage.most_sections
    for one in registry.EXPERIMENTS.values():
        assert one.name.startswith(tuple(f"{paper}/" for paper in registry.PAPERS)) and one.title
        assert (one.run is None) == bool(one.missing), one.name
        assert one.run is None or (one.claim and one.data), one.name
