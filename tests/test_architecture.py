"""The layers: who may import whom, no circles, no file too long, no families of files in place of folders."""

import ast
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINES = 500
FAMILY = 3  # files of one prefix in a folder, at most

SOURCES = {
    "visionnmf": ROOT / "visionnmf",
    "visionnmf.apps": ROOT / "apps",
    "visionnmf.datasets": ROOT / "datasets",
}


def module_files():
    """Each module's name and file; packages under their own name."""
    files = {}
    for package, folder in SOURCES.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            if not any(part.is_symlink() for part in path.parents):  # `make links`
                files[".".join([package, *parts]).removesuffix(".__init__")] = path
    return files


def imports(name, tree, is_package, known):
    """The modules of ours that a module imports, anywhere in it."""
    package = name if is_package else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
                base = f"{above}.{base}".rstrip(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                if inner in known:
                    yield inner
                elif base in known:
                    yield base


def graph_of(sources):
    """Who imports whom, from the text of modules; a package's own text is its ``__init__``."""
    return {
        name: set(imports(name, ast.parse(text), is_package, sources)) - {name}
        for name, (text, is_package) in sources.items()
    }


@pytest.fixture(scope="module")
def graph():
    return graph_of(
        {name: (path.read_text("utf-8"), path.name == "__init__.py") for name, path in module_files().items()}
    )


def circle_in(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def forbidden(graph):
    """Imports against the arrows: apps to visionnmf and datasets, datasets to input/output, the engine to neither."""
    outside = ("visionnmf.apps", "visionnmf.datasets")
    rooms = ("visionnmf.models", "visionnmf.features", "visionnmf.io")
    for name, targets in graph.items():
        for target in targets:
            if name.startswith("visionnmf.apps"):
                continue
            if name.startswith("visionnmf.datasets"):
                allowed = (
                    "visionnmf.datasets",
                    "visionnmf.io",
                    "visionnmf.exceptions",
                    "visionnmf._checks",
                    "visionnmf._version",
                )
                if not target.startswith(allowed):
                    yield name, target
            elif target.startswith(outside) or (name.startswith("visionnmf.engine") and target.startswith(rooms)):
                yield name, target


def test_there_is_no_import_circle(graph):
    assert len(graph) > 100
    assert circle_in(graph) is None


def test_imports_follow_the_arrows(graph):
    assert list(forbidden(graph)) == []


def test_circles_and_wrong_arrows_would_be_seen():
    wrong = graph_of(
        {
            "visionnmf": ("", True),
            "visionnmf.io": ("", True),
            "visionnmf.engine": ("", True),
            "visionnmf.engine.a": ("def later():\n    from . import b", False),
            "visionnmf.engine.b": ("from ..engine.a import x\nfrom visionnmf.io import y", False),
            "visionnmf.datasets": ("import visionnmf.engine.a", True),
        }
    )
    assert set(circle_in(wrong)) == {"visionnmf.engine.a", "visionnmf.engine.b"}
    assert set(forbidden(wrong)) == {
        ("visionnmf.engine.b", "visionnmf.io"),
        ("visionnmf.datasets", "visionnmf.engine.a"),
    }


def python_files():
    folders = ("visionnmf", "apps", "datasets", "tests", "benchmarks", "docs")
    return [path for folder in folders for path in (ROOT / folder).rglob("*.py")]


def test_no_file_is_too_long():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in python_files()}
    assert {name: length for name, length in lengths.items() if length > LINES} == {}


def test_files_of_one_prefix_are_a_folder():
    families = Counter()
    for path in python_files():
        stem = path.stem.strip("_").removeprefix("test_")
        if "_" in stem:
            families[str(path.parent.relative_to(ROOT)), stem.split("_")[0]] += 1
    assert {family: count for family, count in families.items() if count > FAMILY} == {}
