"""The site: `make docs` writes it to build/site; docs/ itself stays readable where it is stored."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

os.environ.setdefault("MPLBACKEND", "Agg")

HERE = Path(__file__).parent

project = "visionnmf"
author = "the visionnmf developers"
version = release = installed_version("visionnmf")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["gallery/README.txt", "gallery/*.py", "_templates"]
root_doc = "index"
templates_path = ["_templates"]
toc_object_entries = False
html_theme = "pydata_sphinx_theme"
html_title = f"visionnmf {release}"
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}

autodoc_typehints = "none"  # the docstrings say it in words
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE / "gallery")],
    "gallery_dirs": ["auto_gallery"],
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "image_scrapers": ("matplotlib",),
    "reference_url": {"visionnmf": None},
}

PUBLIC = {  # the modules whose names are public, and what they hold
    "visionnmf": "Estimators and the choice of rank and loss",
    "visionnmf.features": "Features of images",
    "visionnmf.plotting": "Plots",
    "visionnmf.metrics": "Measures of clusterings",
    "visionnmf.io": "Pictures, video, tables and model files",
    "visionnmf.datasets": "Data sets",
    "visionnmf.exceptions": "Errors",
    "visionnmf.apps": "What all applications share",
    "visionnmf.apps.segmentation": "Segmentation",
    "visionnmf.apps.background": "Background and foreground of video",
    "visionnmf.apps.faces": "Faces",
    "visionnmf.apps.annotation": "Words for pictures",
    "visionnmf.apps.multiview": "Several views",
    "visionnmf.apps.masquerade": "Command logs",
    "visionnmf.apps.features": "Tables of features",
    "visionnmf.apps.evaluate": "Comparisons of methods",
    "visionnmf.apps.reproduce": "Repetitions of the papers",
    "visionnmf.models": "What the choices of rank and loss return",
    "visionnmf.engine.losses": "Parts of a new loss",
    "visionnmf.engine.penalties": "Parts of a new penalty",
}


def write_reference() -> list[str]:
    """Write and return a page for each public module, which lists its names; autosummary makes their pages."""
    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    pages = {"index": _page("Python reference", ".. toctree::\n   :maxdepth: 1", PUBLIC)}
    listed = set[int]()  # objects; one that several modules hold is on the page of the first
    wanted = set[str]()  # files of names
    for module, title in PUBLIC.items():
        public = {name: id(getattr(import_module(module), name)) for name in import_module(module).__all__}
        names = sorted(name for name, number in public.items() if number not in listed)
        listed |= set(public.values())
        wanted |= {f"{module}.{name}.rst" for name in names}
        intro = f".. automodule:: {module}\n\n.. currentmodule:: {module}\n\n"
        intro += ".. autosummary::\n   :toctree: generated\n   :nosignatures:"
        pages[module] = _page(title, intro, names)
    for name, text in pages.items():
        target = folder / f"{name}.rst"
        if not target.is_file() or target.read_text("utf-8") != text:  # unchanged pages are not read again
            target.write_text(text, "utf-8")
    for file in folder.glob("generated/*.rst"):  # of an earlier build
        if file.name not in wanted:
            file.unlink()
    return [str(folder / f"{module}.rst") for module in PUBLIC]


def _page(title: str, intro: str, entries: Iterable[str]) -> str:
    """Return a page of reStructuredText: a heading, a directive, and what it lists."""
    return "\n".join([title, "=" * len(title), "", intro, "", *(f"   {entry}" for entry in entries), ""])


def _escape(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Escape the underscore at the end of attributes in docstrings, which reStructuredText takes for a link."""
    lines[:] = [re.sub(r"(?<![`\\])\b(\w+)_(?=[,.;:)*\s]|$)", r"\1\\_", line) for line in lines]


def _within(app: object, name: str, text: list[str]) -> None:
    """Let links that work where the files are stored lead to pages of the site."""
    text[0] = re.sub(r"\]\(((?:\.\./)*)gallery/(plot_\w+)\.py\)", r"](\1auto_gallery/\2.rst)", text[0])
    text[0] = re.sub(r"\]\((\.\./)+(datasets/)?README\.md\)", f"]({'../' * name.count('/')}index.md)", text[0])


def _leave_out(app: object, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """Leave out members that scikit-learn defines and documents; None leaves the choice to autodoc."""
    return True if str(getattr(obj, "__module__", "")).startswith("sklearn.") else None


def setup(app: Any) -> None:
    """Connect what Sphinx calls; numpydoc has the priority 500."""
    app.connect("source-read", _within)
    app.connect("autodoc-process-docstring", _escape, priority=600)
    app.connect("autodoc-skip-member", _leave_out)


autosummary_generate = write_reference()  # before Sphinx looks for pages
