"""Docstrings, examples and the README say what there is."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import all_commands
from numpydoc.validate import validate
from PIL import Image
from public_names import MODULES

ROOT = Path(__file__).resolve().parent.parent
GUIDES = {"segment": "segmentation.md", "doctor": "commands.md"}


# What they return is known from scikit-learn, the same for all reports, or said in their only line.
FAMILIAR = {
    *("decision_function", "fit", "fit_transform", "inverse_transform", "partial_fit", "predict", "predict_proba"),
    *("score", "score_samples", "set_params", "transform", "as_dict"),
    *("cluster_address", "installed_by", "is_shared"),
    *("component", "get_feature_names_out", "rescaled", "timed", "plot"),
}

IGNORED = {
    "GL01",  # the summary starts on the line of the quotes
    "GL08",  # no docstring: ruff reports that, and knows about properties and overrides
    "ES01",  # not every summary needs more words
    "EX01",  # nor an example
    "SA01",  # nor a "See Also"
    "SA04",  # descriptions in "See Also" are there where they help
    "RT03",  # returns whose type says it all need no description
    "PR01",  # parameters of a dataclass are under Attributes
    "PR02",
    "PR07",  # `y : Ignored`
    "PR08",  # a description may start with a lower-case name
    "PR09",  # and end without a full stop when it is a formula
    "GL03",  # blank lines
    "YD01",
}


def public_objects():
    for name in MODULES:
        module = importlib.import_module(name)
        for attribute in getattr(module, "__all__", []):
            value = getattr(module, attribute)
            if inspect.isfunction(value) or inspect.isclass(value):
                yield f"{value.__module__}.{value.__qualname__}"
                if inspect.isclass(value):
                    for method, function in vars(value).items():
                        if inspect.isfunction(function) and not method.startswith("_"):
                            yield f"{value.__module__}.{value.__qualname__}.{method}"


@pytest.mark.parametrize("name", sorted(set(public_objects())))
def test_docstring(name):
    ignored = IGNORED | {"RT01"} if name.rpartition(".")[2] in FAMILIAR else IGNORED
    errors = [(code, text) for code, text in validate(name)["errors"] if code not in ignored]
    assert not errors


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_examples_of_modules_run(name):
    """Those of callables: `test_examples.py`."""
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_every_command_is_in_the_list_and_its_guide_and_has_help():
    listed = (ROOT / "docs" / "howto.md").read_text()
    for name, command in all_commands():
        group, _, rest = name.partition(" ")
        guide = ROOT / "docs" / GUIDES.get(group, f"{group}.md")
        assert guide.is_file() and command.help
        assert f"`{group}`]" in listed or f"`visionnmf {group}`" in listed
        assert rest in guide.read_text()


@pytest.fixture
def make_tables(monkeypatch):
    """The script docs/make_tables.py as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("make_tables")


def test_generated_pages_are_up_to_date(make_tables):
    pages = dict(make_tables.pages())
    assert {page.name for page in pages} == {"commands.md", "dask.md", "gpu.md", "penalties.md"}
    text = "".join(page.read_text("utf-8") for page in pages)
    assert set(re.findall(r"<!-- table: (\w+) -->", text)) == set(make_tables.TABLES)
    assert [page.name for page, made in pages.items() if page.read_text("utf-8") != made] == [], "run `make tables`"


def test_the_readme_is_short_with_small_pictures_and_no_document_installs_a_release():
    assert len((ROOT / "README.md").read_text().split()) <= 500
    name, *strip = re.findall(r"!\[[^]]*\]\((.*?\.webp)\)", (ROOT / "README.md").read_text())
    assert (ROOT / name).stat().st_size < 2_000_000
    assert len(strip) == 9 and sum((ROOT / each).stat().st_size for each in strip) <= 300_000
    with Image.open(ROOT / name) as picture:
        assert picture.n_frames > 10
    assert "There is no release yet." in (ROOT / "README.md").read_text()
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        assert not re.search(r"pip install \S*visionnmf", document.read_text()), document.name


def test_each_application_says_whether_nmf_is_inside_and_what_was_learnt_from_what():
    rows = re.findall(r"^\| \[`(\w+)`\].* \| (.+) \| (.+) \|$", (ROOT / "docs" / "howto.md").read_text(), re.MULTILINE)
    groups = {name.partition(" ")[0] for name, _ in all_commands()} - {"evaluate", "reproduce", "doctor"}
    assert {name for name, _, _ in rows} == groups
    terms = "300 photographs of BSDS500, which is for non-commercial research and education"
    for text in ((ROOT / "docs" / "howto.md").read_text(), dict(all_commands())["segment"].help):
        assert terms in " ".join(text.split())


def test_guides_whose_commands_need_matplotlib_say_how_to_install_it():
    for guide in (ROOT / "docs").glob("*.md"):
        text = guide.read_text()
        needed = re.search(r"^visionnmf .* (--plots?\b|fit .*--picture\b)", text, re.MULTILINE)
        assert not needed or "sh setup.sh plots" in text, guide.name


def test_no_option_points_below_itself_to_what_stands_above():
    for name, command in all_commands():
        assert not any("below" in (getattr(parameter, "help", None) or "") for parameter in command.params), name


@pytest.mark.slow
def test_the_library_example_of_the_readme_runs_and_keeps_its_promise():
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names: dict = {}
    exec(example, names)
    clean = names["data"].clean
    assert np.linalg.norm(names["clean"] - clean) <= 2e-4 * np.linalg.norm(clean)
    assert names["labels"].shape == (321, 481) and len(names["masks"]) == len(names["frames"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["models", "online"])
def test_the_code_of_the_guides_to_the_models_runs(name):
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{name}.md").read_text(), re.DOTALL)
    assert len(examples) >= 4
    exec("\n".join(examples), {})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "tutorials").glob("*.md")), ids=lambda page: page.stem)
def test_the_code_of_the_tutorials_runs(page, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(block, names)
    matplotlib.pyplot.close("all") if "pyplot" in vars(matplotlib) else None
    if page.stem == "faces":
        assert names["model"].identify(names["faces"][3].reshape(1, -1))[0].person == 3
    if page.stem == "logs":
        assert names["scorer"].predict(names["new"]).tolist() == [1, -1]


def test_the_scale_that_the_guide_gives_is_the_default():
    from visionnmf.apps.segmentation.regions import load_border_model

    text = (ROOT / "docs" / "segmentation.md").read_text()
    scale = f"{load_border_model().scale:g}"
    assert f"finer than the default, {scale}\n" in text and f"| `--scale S` | {scale} |" in text


def test_links_in_the_documents_lead_somewhere():
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_tests_that_the_decisions_name_exist():
    for page in (ROOT / "docs" / "decisions").glob("*.md"):
        file = ""
        for named, function in re.findall(r"`(tests/[\w/]+\.py)?::(test_\w+)`", page.read_text()):
            file = named or file
            assert f"def {function}(" in (ROOT / file).read_text(), f"{page.name}: {file}::{function}"


def test_no_registry_address_and_no_absolute_path_is_recorded():
    for path in ROOT.rglob("*"):
        relative = path.relative_to(ROOT)
        ours = path.suffix in {".py", ".toml", ".md", ".yaml", ".sh"} and relative.parts[0] not in {".venv", "build"}
        if ours:
            text = path.read_text(errors="replace").replace("cad.zju.edu.cn/home" + "/", "")  # a page of data sets
            for word in ("files.python" + "hosted", "pypi.org/" + "simple", "/home" + "/", "/ro" + "ot/"):
                assert word not in text, f"{relative}: {word}"
