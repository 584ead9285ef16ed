"""`visionnmf doctor` says what is installed, and its exit code whether that suffices."""

import sys
from importlib.metadata import version

import pytest
from helpers import json_lines, run_command

NAMES = ["versions", "libraries", "codecs", "BLAS", "threads", "kernels"]
NAMES += ["plots", "report", "heif", "parquet", "dask", "gpu", "napari"]


def test_there_is_a_line_for_each_part_and_programs_get_the_same():
    done = run_command("doctor")
    assert done.exit_code == 0
    lines = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert [line.partition(":")[0] for line in lines] == NAMES
    assert f"numpy {version('numpy')}" in done.stdout and "h264" in done.stdout
    (report,) = json_lines(run_command("doctor", "--json"))
    assert report["libraries"]["av"] == version("av") and "ffv1" in report["codecs"]["written"]
    assert report["extras"]["plots"] == {"matplotlib": version("matplotlib")}
    assert report["threads"]["visionnmf"] >= 1 and report["blas"][0]["num_threads"] >= 1


@pytest.fixture
def declare(monkeypatch, tmp_path):
    """Let the metadata of visionnmf declare other requirements."""

    def declared(*requirements):
        folder = tmp_path / "visionnmf-9.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.4", "Name: visionnmf", "Version: 9"]
        (folder / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {each}" for each in requirements), ""]))
        monkeypatch.syspath_prepend(tmp_path)

    return declared


def test_what_is_missing_or_too_old_is_a_failure(declare):
    declare("numpy>=99", "visionnmf-nothing", "visionnmf-more; extra == 'plots'")
    done = run_command("doctor")
    assert done.exit_code == 1
    assert f"numpy>=99 is needed; got {version('numpy')}; `sh setup.sh` installs it" in done.stderr
    assert "visionnmf-nothing is needed; got none" in done.stderr
    assert "plots: without visionnmf-more; `sh setup.sh plots` installs it" in done.stdout


def test_a_library_that_does_not_load_is_a_failure(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    done = run_command("doctor")
    assert done.exit_code == 1 and "visionnmf: codecs: " in done.stderr and "\nBLAS: " in done.stdout
