"""The site builds without a warning, has a page for each public name and script, and its links lead somewhere."""

import ast
import importlib
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("sphinx", "pydata_sphinx_theme", "sphinx_gallery", "sphinx_design", "sphinx_copybutton", "myst_parser")
SCRIPTS = sorted((ROOT / "docs" / "gallery").glob("plot_*.py"))

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built from a copy of docs/."""
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)}; `sh setup.sh docs` installs what the site needs")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("api", "auto_gallery"))
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", folder / "docs", folder / "site"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_every_script_of_the_gallery_has_a_page_with_pictures_and_a_notebook(site):
    assert len(SCRIPTS) >= 18
    for script in SCRIPTS:
        page = (site / "auto_gallery" / f"{script.stem}.html").read_text("utf-8")
        assert f"_images/sphx_glr_{script.stem}_001.png" in page and f"{script.stem}.ipynb" in page, script.name


def test_every_public_name_has_a_page(site):
    text = (ROOT / "docs" / "conf.py").read_text("utf-8")
    (listed,) = re.findall(r"^PUBLIC = (\{.*?^\})", text, re.MULTILINE | re.DOTALL)
    pages = {file.stem for file in (site / "api" / "generated").glob("*.html")}
    with_pages = set()
    for module in ast.literal_eval(listed):
        source = importlib.import_module(module)
        held = {name: getattr(source, name) for name in source.__all__}
        with_pages |= {id(value) for name, value in held.items() if f"{module}.{name}" in pages}
        assert {name for name, value in held.items() if id(value) not in with_pages} == set(), module


def test_links_inside_the_site_lead_somewhere(site):
    pages = [file for file in site.rglob("*.html") if "_static" not in file.parts]  # templates of the theme
    targets = {file: set(re.findall(r'\sid="([^"]+)"', file.read_text("utf-8"))) for file in pages}
    lost = defaultdict(list)
    for file in targets:
        for link in re.findall(r'\s(?:href|src)="([^"]+)"', file.read_text("utf-8")):
            parts = urlsplit(unescape(link))
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.exists() or (
                parts.fragment and target in targets and unquote(parts.fragment) not in targets[target]
            ):
                lost[str(file.relative_to(site))].append(link)
    assert not lost
