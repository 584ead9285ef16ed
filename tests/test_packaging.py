"""The package list is complete, the checkout imports as the wheel does, and the version stands in one place."""

import importlib
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import lazy_loader
import pytest

import visionnmf

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PLACES = {"visionnmf": "visionnmf", "apps": "visionnmf.apps", "datasets": "visionnmf.datasets"}


def folders_with_sources() -> set[str]:
    found = set()
    for place, package in PLACES.items():
        for folder, subfolders, files in os.walk(ROOT / place):
            # the symlinks that `make links` makes are not walked: os.walk follows none
            subfolders[:] = [name for name in subfolders if name != "__pycache__"]
            if any(name.endswith(".py") for name in files):
                found.add(".".join([package, *Path(folder).relative_to(ROOT / place).parts]))
    return found


def test_every_folder_with_sources_is_a_listed_package_with_an_init_and_the_reverse():
    assert folders_with_sources() == set(PROJECT["tool"]["setuptools"]["packages"])
    for package in PROJECT["tool"]["setuptools"]["packages"]:
        assert importlib.import_module(package).__file__.endswith("__init__.py"), package


@pytest.mark.parametrize("folder", ["apps", "datasets"])
def test_a_bare_import_says_which_name_to_use(folder):
    with pytest.raises(ImportError, match=f"import this package as visionnmf.{folder}, not by the name of its folder"):
        importlib.import_module(folder)
    assert folder not in sys.modules


def test_the_checkout_imports_without_being_installed():
    # -S: the files of site-packages that name other folders are not read, so no installed link to a checkout can help
    packages = Path(lazy_loader.__file__).parents[1]
    code = f"import sys; sys.path.append({str(packages)!r}); import visionnmf.apps, visionnmf.datasets"
    code += "; print(visionnmf.datasets.__file__)"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).resolve() == ROOT / "datasets" / "__init__.py"


def test_the_version_stands_in_one_place_and_the_papers_of_the_repository_are_there():
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "visionnmf._version.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", visionnmf.__version__)
    assert f"## [{visionnmf.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {visionnmf.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for name in ("README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "setup.sh", "Makefile"):
        assert (ROOT / name).stat().st_size > 0, name
    assert PROJECT["project"]["license"] == "BSD-3-Clause"
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("BSD 3-Clause License")


@pytest.mark.slow
def test_the_metadata_have_addresses_and_no_relative_link(monkeypatch):
    monkeypatch.setattr("setuptools.setup", lambda **given: None)
    text = runpy.run_path(str(ROOT / "setup.py"))["description"]()
    urls = PROJECT["project"]["urls"]
    assert {"Source", "Documentation", "Changelog", "Issues"} <= set(urls)
    assert all(address.startswith(urls["Source"]) for address in urls.values())
    assert "readme" in PROJECT["project"]["dynamic"]
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) > 15 and all(target.startswith(("https://", "#")) for target in targets)
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert pictures and all(picture.startswith("https://raw.") for picture in pictures)


@pytest.mark.parametrize("extra", ["plots", "report", "heif", "napari", "test", "lint", "docs", "dev"])
def test_setup_takes_each_extra_that_there_is(extra):
    assert extra in PROJECT["project"]["optional-dependencies"]
    (line,) = [line for line in (ROOT / "setup.sh").read_text().splitlines() if line.endswith(") ;;") and "|" in line]
    assert extra in line


def test_no_message_installs_a_release_before_there_is_one():
    sources = [file for folder in ("visionnmf", "apps", "datasets") for file in (ROOT / folder).rglob("*.py")]
    assert [str(file) for file in sources if "pip install" in file.read_text("utf-8")] == []


def test_a_folder_of_the_same_name_beside_a_script_does_not_hide_the_package(tmp_path):
    (tmp_path / "visionnmf").mkdir()
    first = (ROOT / "setup.sh").read_text().partition("<<'END'\n")[2].partition("\nEND\n")[0]
    for found, wanted in (("visionnmf.NMF.__name__", "NMF"), ("visionnmf.mine", "5")):
        command = [sys.executable, "-c", f"{first}\nimport visionnmf\nprint({found})"]
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        assert done.stdout.strip() == wanted
        (tmp_path / "visionnmf" / "__init__.py").write_text("mine = 5")  # now it is a package, and comes first


def test_setup_refuses_other_extras_in_one_line():
    done = subprocess.run(["sh", str(ROOT / "setup.sh"), "colours"], capture_output=True, text=True)
    assert done.returncode == 1
    there = "plots, report, heif, parquet, dask, napari, gpu, test, lint, docs, dev"
    assert done.stderr == f"setup.sh: no extra 'colours'; there are: {there}\n"
