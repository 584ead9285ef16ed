"""Every benchmark runs with small sizes, says in one line what is missing, and knows its parts."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import needs_data

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
NEED_DATA = [
    "annotation",
    "background",
    "cluster",
    "conservative",
    "face_peers",
    "faces",
    "features",
    "masquerade",
    "multiview",
    "online",
    "segmentation",
]
OTHERS = [
    "background_leaves",
    "background_live",
    "background_speed",
    "busy",
    "convergence",
    "dask_blocks",  # without its parts that start several clusters or take long
    "divergences",
    "engine",
    "frobenius",
    "gpu",
    "manhattan",
    "memory",
    "models",
    "scaling",
    "segmentation_speed",
    "solvers",
    "sparse",
    "startup",
    "streams",
]
NEEDED = {"gpu": "torch"}  # packages that are not among the tests' own
SHORTER = {"dask_blocks": ["disk", "files", "online", "constants"]}
PARTS = {
    "annotation": ["corel", "jpegs", "online"],
    "background": ["leaves", "live", "masks", "table", "sensitivity", "robust", "small", "pictures"],
    "conservative": ["mixtures", "errors", "readings"],
    "cluster": ["speed", "killed"],
    "face_peers": ["peers"],
    "faces": ["bars", "table1", "figure", "table", "plain", "clusters", "groups", "strangers", "cost", "rpca"],
    "features": ["rates", "agreement", "themes"],
    "masquerade": ["table", "streams", "poison", "speed"],
    "multiview": ["sets", "clusters", "robust", "missing", "noise", "outlying", "words"],
    "online": ["mnist", "robust", "contaminated", "batch", "paper", "recognition"],
    "segmentation": ["defaults", "boundaries", "corrupted", "small", "partitions", "wrong", "pairs", "seconds"],
}


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


def test_all_scripts_are_here():
    scripts = {path.stem for path in FOLDER.glob("[!_]*.py") if not path.stem.endswith("_train")}
    assert scripts == {*NEED_DATA, *OTHERS, "first_fit"}  # the last measures the compiler, and has no small size


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("script", OTHERS)
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
@pytest.mark.parametrize(("script", "part"), [(script, part) for script, parts in PARTS.items() for part in parts])
def test_it_runs_on_research_data(script, part, run):
    printed = run(script, "--quick", part)
    assert "skipped" not in printed


@pytest.mark.parametrize("script", NEED_DATA)
def test_missing_data_are_said_in_one_line_a_part(script, run, monkeypatch, tmp_path):
    monkeypatch.setenv("VISIONNMF_DATA", str(tmp_path))
    printed = run(script, *PARTS[script])
    assert [line.split(":")[:2] for line in printed.splitlines() if line.startswith(script)] == [
        [f"{script}.{part}", " skipped"] for part in PARTS[script]
    ]
    assert "VISIONNMF_DATA" in printed


@pytest.mark.parametrize("words", [["no-such-part"], ["race", "l1_100x50", "again"], ["floor", "--images", "3"]])
def test_a_part_that_is_not_there_gives_the_usage(words, run):
    with pytest.raises(SystemExit, match=r"usage: manhattan.py \[--quick\] \[PART ...\], of: race PROBLEM; floor"):
        run("manhattan", *words)


def test_scripts_are_found_by_name():
    done = subprocess.run([sys.executable, FOLDER, "tables"], capture_output=True, text=True)
    assert (
        done.returncode == 2
        and "annotation, background, background_leaves, background_live, background_speed, " in done.stderr
    )
