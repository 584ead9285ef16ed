"""The layers and their width: who may import whom, no circles, no wide functions, no private names of other modules."""

import ast
import functools
import re
import warnings
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES = 600  # a longer file is reported; one of more than MOST_LINES fails
MOST_LINES = 800
BODY_LINES = 60  # of a function outside kernels, its docstring not counted
PARAMETERS = 10  # of a function outside kernels and the constructors of estimators
UNDERSCORED = ("_asdict", "_replace", "_exit")  # of named tuples and of os: public in spite of their underscore
MODULES = ("_checks", "_jit", "_version")
# the one file that knows how numba keeps its cache, and the one that knows the settings of PyTorch's compiler
COMPILERS = ("visionnmf/_jit.py", "visionnmf/engine/arrays/namespace.py")

# What is still to be mended; nothing may be added.
STILL_WIDE: set[str] = {"visionnmf/engine/kernels/hals.py"}

SOURCES = {"visionnmf": ROOT / "visionnmf", "visionnmf.apps": ROOT / "apps", "visionnmf.datasets": ROOT / "datasets"}


APPLICATIONS = {f"visionnmf.apps.{path.name}" for path in (ROOT / "apps").iterdir() if path.is_dir()}


@functools.cache
def parsed(text):
    """The syntax tree of a source text, which several tests read."""
    return ast.parse(text)


def module_files():
    """Each module's name and file; packages under their own name."""
    files = {}
    for package, folder in SOURCES.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            if not is_link(path):
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
        name: set(imports(name, parsed(text), is_package, sources)) - {name}
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


def application(name):
    """The folder of an application that a module lies in; empty for the modules that applications share."""
    parts = name.split(".")
    return parts[2] if len(parts) > 2 and parts[1] == "apps" and f"visionnmf.apps.{parts[2]}" in APPLICATIONS else ""


def forbidden(graph):
    """Imports against the arrows.

    The arrows run from the applications to visionnmf and the data sets, from the data sets to input and output, and
    from the engine to nothing. No application imports another; `evaluate`, `reproduce`, `viewer` and the command line
    use all.
    """
    outside = ("visionnmf.apps", "visionnmf.datasets")
    rooms = ("visionnmf.models", "visionnmf.features", "visionnmf.io")
    for name, targets in graph.items():
        for target in targets:
            if name == "visionnmf.__main__":  # the command line by another name
                continue
            if name.startswith("visionnmf.apps"):
                ours, theirs = application(name), application(target)
                if theirs not in ("", "cli", ours) and ours not in ("", "cli", "evaluate", "reproduce", "viewer"):
                    yield name, target
                continue
            if name.startswith("visionnmf.datasets"):
                allowed = (
                    "visionnmf.datasets",
                    "visionnmf.io",
                    "visionnmf.exceptions",
                    "visionnmf._checks",
                    "visionnmf._pixel_range",
                    "visionnmf._text",
                    "visionnmf._lazy",
                    "visionnmf._version",
                )
                if not target.startswith(allowed):
                    yield name, target
            elif target.startswith(outside) or (name.startswith("visionnmf.engine") and target.startswith(rooms)):
                yield name, target


def test_imports_follow_the_arrows_and_make_no_circle(graph):
    assert len(graph) > 100
    assert circle_in(graph) is None
    assert list(forbidden(graph)) == []


def parameters(node):
    """The number of parameters of a function, `self` or `cls` of a method not counted."""
    given = node.args
    names = [arg.arg for arg in [*given.posonlyargs, *given.args]]
    count = len(names) + len(given.kwonlyargs) + (given.vararg is not None) + (given.kwarg is not None)
    return count - (names[:1] in (["self"], ["cls"]))


def body_lines(node):
    """The number of lines of a function's body without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def is_kernel(node):
    """Whether a function is compiled: its decorator is called kernel, with or without arguments."""
    names = [getattr(d.func if isinstance(d, ast.Call) else d, "id", "") for d in node.decorator_list]
    return "kernel" in names


def estimator_constructors(tree):
    """The constructors that scikit-learn's contract makes wide: each line stores one parameter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                    stores = [ast.unparse(line) for line in part.body]
                    if all(
                        re.fullmatch(r"self\.(\w+) = \1", line)
                        for line in stores[ast.get_docstring(part) is not None :]
                    ):
                        yield part


def wide_functions(text):
    """The names of the functions of a source text that are too wide or too long."""
    tree = parsed(text)
    allowed = set(estimator_constructors(tree))
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or is_kernel(node) or node in allowed:
            continue
        if parameters(node) > PARAMETERS or body_lines(node) > BODY_LINES:
            yield f"{node.name} ({parameters(node)} parameters, {body_lines(node)} lines)"


def foreign_private_names(text):
    """The private attributes and names in a source text that the text itself does not define."""
    tree = parsed(text)
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    own = {node.attr for node in attributes if getattr(node.value, "id", "") in ("self", "cls")}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in attributes:
        if re.match(r"_[^_]", node.attr) and node.attr not in own | {*UNDERSCORED}:
            yield ast.unparse(node)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("visionnmf")):
            names = {alias.name for alias in node.names} - {*MODULES}
            yield from sorted(name for name in names if re.match(r"_[^_]", name))


def is_link(path):
    """Whether a file is seen through a link that `make links` made."""
    return any(parent.is_symlink() for parent in path.parents)


def python_files(*folders):
    return [
        p for folder in folders for p in (ROOT / folder).rglob("*.py") if not any(q.is_symlink() for q in p.parents)
    ]


def sources_by_name():
    return {str(p.relative_to(ROOT)): p.read_text("utf-8") for p in python_files("visionnmf", "apps", "datasets")}


@pytest.mark.filterwarnings("default:these files are long")
def test_no_file_is_too_long():
    """A file of more than 600 lines is named among the warnings at the end of the run: is it about two subjects?"""
    files = python_files("visionnmf", "apps", "datasets", "tests", "benchmarks", "docs")
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in files}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}
    long = {name: length for name, length in lengths.items() if length > FILE_LINES}
    if long:
        warnings.warn(f"these files are long; split them by subject: {long}", stacklevel=1)


def test_functions_are_narrow_and_short():
    found = {name: list(wide_functions(text)) for name, text in sources_by_name().items()}
    assert {name: wide for name, wide in found.items() if wide and name not in STILL_WIDE} == {}


def test_no_module_reaches_into_another():
    found = {name: list(foreign_private_names(text)) for name, text in sources_by_name().items()}
    assert {name: private for name, private in found.items() if private and name not in COMPILERS} == {}


def test_waits_and_limits_do_not_depend_on_the_time_of_day():
    """Clocks jump: what waits or ends by itself uses ``time.monotonic``, and these files only date or age something."""
    wall = re.compile(r"time\.time\b|datetime\.(now|today|utcnow)|time_ns")
    users = {name for name, text in sources_by_name().items() if wall.search(text)}
    assert users == {
        "apps/cli/masquerade.py",  # --since 2h
        "apps/cluster.py",  # which files are results of this run
        "apps/masquerade/scoring.py",  # the date of lines without one
        "apps/masquerade/store.py",  # a date in the future is not believed
        "apps/pages/page.py",  # the date of a page
        "visionnmf/_jit.py",  # the age of a cache of kernels
    }
