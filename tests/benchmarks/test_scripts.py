"""Every benchmark runs with small sizes, says in one line what is missing, and knows its parts."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import needs_data

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
WITHOUT_DATA = (
    *("convergence", "dask_blocks", "frobenius", "gpu", "manhattan", "memory", "models", "solvers", "speed"),
    "streams",
)
OWN_TESTS = ("behaviour",)
SCRIPTS = {path.stem for path in FOLDER.glob("[!_]*.py") if not path.stem.endswith("_train")}
NEED_DATA = sorted(SCRIPTS - {*WITHOUT_DATA, *OWN_TESTS})
NEEDED = {"gpu": "torch"}  # packages that are not among the tests' own
SHORTER = {"dask_blocks": ["disk", "files", "online", "constants"]}  # the others start several clusters or take long
MADE = {
    "annotation": ["scale"],
    "background_live": ["rate", "memory"],
    "multiview": ["planted", "speed"],
}  # parts of these that make their data


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run a script in this process, as the command line does; return what it prints."""

    def run(script, *words):
        monkeypatch.setattr(sys, "argv", [f"{script}.py", *words])
        monkeypatch.syspath_prepend(FOLDER)
        monkeypatch.setenv("VISIONNMF_NUM_THREADS", "1")
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
        monkeypatch.setenv("JOBS", "1")
        monkeypatch.chdir(tmp_path)
        runpy.run_path(str(FOLDER / f"{script}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


def parts_of(script, run):
    """Return the names of the parts of a script, from what it says when it does not know one."""
    with pytest.raises(SystemExit) as usage:
        run(script, "no-such-part")
    return [part.split()[0] for part in str(usage.value).partition(", of: ")[2].split("; ")]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("script", WITHOUT_DATA)
def test_it_runs_without_research_data(script, run, monkeypatch, tmp_path):
    if script in NEEDED:
        pytest.importorskip(NEEDED[script], reason=f"{NEEDED[script]} is not installed")
    monkeypatch.setenv("VISIONNMF_DATA", str(tmp_path / "absent"))
    printed = run(script, "--quick", *SHORTER.get(script, []))
    assert "not to be published" in printed and "skipped" not in printed
    assert printed.count("| --- ") >= 1


@needs_data
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("script", NEED_DATA)
def test_all_parts_run_on_research_data(script, run):
    parts = parts_of(script, run)
    assert parts
    for part in parts:
        assert "skipped" not in run(script, "--quick", part)


@pytest.mark.parametrize("script", NEED_DATA)
def test_missing_data_are_said_in_one_line_a_part(script, run, monkeypatch, tmp_path):
    monkeypatch.setenv("VISIONNMF_DATA", str(tmp_path))
    parts = [part for part in parts_of(script, run) if part not in MADE.get(script, [])]
    assert parts
    printed = run(script, *parts)
    assert [line.split(":")[:2] for line in printed.splitlines() if line.startswith(script)] == [
        [f"{script}.{part}", " skipped"] for part in parts
    ]
    assert "VISIONNMF_DATA" in printed


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_behaviour_lists_what_data_allow_and_compares(run, monkeypatch, tmp_path):
    monkeypatch.setenv("VISIONNMF_DATA", str(tmp_path))
    printed = run("behaviour", "list", "--quick", "--out", "before.json")
    assert printed.count(": skipped: ") == 5 and "| recovery error, none, manhattan |" in printed
    assert "\n0 of 6 figures differ" in run("behaviour", "compare", "before.json", "before.json")
    figures = json.loads(Path("before.json").read_text())
    figures["recovery error, none, manhattan"] += 0.1
    Path("after.json").write_text(json.dumps(figures))
    with pytest.raises(SystemExit, match="1"):
        run("behaviour", "compare", "before.json", "after.json")
    assert "\n0 of 6" in run("behaviour", "compare", "before.json", "after.json", "--tolerance", "0.2")


@pytest.mark.parametrize("words", [["no-such-part"], ["race", "l1_100x50", "again"], ["floor", "--images", "3"]])
def test_a_part_that_is_not_there_gives_the_usage(words, run):
    with pytest.raises(SystemExit, match=r"usage: manhattan.py \[--quick\] \[PART ...\], of: race PROBLEM; floor"):
        run("manhattan", *words)


def test_scripts_are_found_by_name():
    done = subprocess.run([sys.executable, FOLDER, "tables"], capture_output=True, text=True)
    assert done.returncode == 2 and "annotation, background, background_live, " in done.stderr


@pytest.mark.long
def test_few_fits_that_stop_gain_more_than_tol_by_twice_the_iterations(tmp_path):
    """What `visionnmf.engine.stopping` says of random problems holds for others: 5 % gained more, and none 1 %."""
    command = [sys.executable, str(FOLDER / "convergence.py"), "promise", "", "100"]
    told = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True).stdout
    more, far = (float(share) for share in re.findall(r"([0-9.]+)% gain", told))
    assert more < 17 and far < 4, told  # three and a half standard deviations above what was measured
