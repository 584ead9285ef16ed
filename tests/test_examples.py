"""The docstring of every public callable has an example, and the examples run.

Public are the functions and classes of the `__all__` of the modules of :mod:`public_names`, without the engine's;
results that functions return, named tuples, dataclasses and errors, need none. Each runs in a folder of its own with
the files of :mod:`example_files`.
"""

import dataclasses
import doctest
import importlib
import inspect
import shutil

import pytest
from example_files import make_files
from public_names import MODULES

# Why there is none.
WITHOUT = {"reproduce": "it needs data sets or minutes"}


def public():
    """Public callables by the module that defines them."""
    found = {}
    for name in MODULES:
        if name.startswith("visionnmf.engine"):
            continue
        module = importlib.import_module(name)
        for value in (getattr(module, attribute) for attribute in module.__all__):
            is_class = inspect.isclass(value)
            is_result = is_class and (dataclasses.is_dataclass(value) or hasattr(value, "_fields"))
            if (is_class or inspect.isfunction(value)) and not is_result and not issubclass_of(value, Exception):
                found.setdefault(value.__module__, {})[value.__qualname__] = value
    return found


def issubclass_of(value, kind):
    return inspect.isclass(value) and issubclass(value, kind)


PUBLIC = public()


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_every_public_callable_has_an_example(module):
    without = {name for name, value in PUBLIC[module].items() if ">>> " not in (value.__doc__ or "")}
    assert without - set(WITHOUT) == set()


def test_what_is_let_off_is_there_and_has_none():
    there = {name: value for values in PUBLIC.values() for name, value in values.items()}
    assert [name for name in WITHOUT if ">>> " in (there[name].__doc__ or "")] == []


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    make_files(folder)
    return folder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_examples_run(module, files, monkeypatch, tmp_path):
    """As a user would run them: by the names that they import."""
    monkeypatch.setenv("VISIONNMF_NUM_THREADS", "1")
    finder, runner = (
        doctest.DocTestFinder(),
        doctest.DocTestRunner(
            optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
        ),
    )
    for name, value in PUBLIC[module].items():
        folder = shutil.copytree(files, tmp_path / name)
        monkeypatch.chdir(folder)
        for example in finder.find(value, name, module=False, globs={}):
            runner.run(example)
    assert runner.summarize(verbose=False).failed == 0
