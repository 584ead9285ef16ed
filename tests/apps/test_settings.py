"""Records of settings: checked once, documented once, and options of a command."""

import importlib
import inspect
import pickle
import pkgutil
import pydoc
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from visionnmf import apps
from visionnmf.apps.cli.options import name_flags, with_records, with_typer_options
from visionnmf.apps.settings import Option, options_of, settings, takes_records
from visionnmf.exceptions import ParameterError


def seconds(text):
    if ":" not in text:
        raise ValueError(f"{text} is not a time; give minutes:seconds")
    minutes, rest = text.split(":")
    return 60 * float(minutes) + float(rest)


def numbers(text):
    return tuple(int(part) for part in text.split(","))


@settings
class TimeRange:
    """The part of a video that is read."""

    start: Annotated[float, Option("Start at this time, in seconds.", metavar="T", parse=seconds)] = 0.0
    end: Annotated[float | None, Option("Stop before this time, in seconds.", low=0.0)] = None
    every: Annotated[int, Option("Read every N-th frame.", flag="--step", low=1, high=100)] = 1
    regions: Annotated[tuple[str, ...], Option("Where foreground counts.", flag="--roi")] = ()
    kind: Annotated[str, Option("The kind.", choices=("one", "two"))] = "one"
    quietly: Annotated[bool, Option("Say nothing.")] = False
    folder: Annotated[Path, Option("Where.", short="-o")] = Path(".")
    sizes: Annotated[tuple[int, ...], Option("Which.", parse=numbers)] = (2, 3)

    def check(self) -> None:
        if self.end is not None and self.end <= self.start:
            raise ParameterError(f"end must be after the start at {self.start:g} s; got {self.end:g}")


def run(*words):
    app = typer.Typer()
    seen = []

    @app.command()
    @with_records
    def command(
        name: Annotated[str, typer.Argument()], time: TimeRange, loud: Annotated[bool, typer.Option("--loud")] = False
    ) -> None:
        seen.append((name, time, loud))

    name_flags(with_typer_options(inspect.signature(command)))  # as every command does
    result = CliRunner().invoke(app, list(words))
    return result, seen[0] if seen else None


def test_a_record_is_frozen_compared_by_value_sent_to_other_processes_and_has_a_help():
    one = TimeRange(start=3, end=4.5)
    assert isinstance(one.start, float) and one == TimeRange(start=3.0, end=4.5) != TimeRange()
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(FrozenInstanceError):
        one.start = 1.0
    shown = pydoc.plain(pydoc.render_doc(TimeRange))
    assert "start: float = 0.0" in shown and "end: float | None = None" in shown and "-> None" in shown
    assert "Annotated" not in shown and "metavar" not in shown
    assert [field.name for field in options_of(TimeRange)][:2] == ["start", "end"]


@takes_records
def cut(name, /, time: TimeRange = TimeRange(), *, others=()):
    """Return what it is given."""
    return name, time, others


def test_another_kind_of_value_is_refused_with_the_call_that_makes_a_record():
    assert cut("a", others={}) == ("a", TimeRange(), {}) and cut("a", time=TimeRange(every=2))[1].every == 2
    with pytest.raises(ParameterError, match=r"time must be a TimeRange; got .*; write time=TimeRange\(every=2\)"):
        cut("a", {"every": 2})
    with pytest.raises(ParameterError, match=r"time must be a TimeRange; got 3; write time=TimeRange\(start=\.\.\.\)"):
        cut("a", time=3)


def test_every_public_function_with_records_refuses_others():
    checked = 0
    for module in pkgutil.walk_packages(apps.__path__, "visionnmf.apps."):
        if ".viewer" in module.name or module.name.endswith("__main__"):  # which need napari, and run a command
            continue
        found = importlib.import_module(module.name)
        public = [getattr(found, name, None) for name in getattr(found, "__all__", ["study"])]
        for function in filter(inspect.isfunction, public):
            given = inspect.signature(function).parameters.values()
            required = [None for each in given if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
            for each in given:
                if options_of(type(each.default)):
                    with pytest.raises(ParameterError, match=f"{each.name} must be a {type(each.default).__name__}; "):
                        function(*required, **{each.name: {"no such field": 1}})
                    checked += 1
    assert checked >= 20


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"every": 0}, "every must be a whole number from 1 to 100; got 0"),
        ({"every": 1.5}, "every must be a whole number from 1 to 100; got 1.5"),
        ({"end": -1.0}, "end must be a finite number >= 0; got -1.0"),
        ({"end": float("nan")}, "end must be a finite number >= 0; got nan"),
        ({"regions": "left"}, r"regions must be a tuple; got 'left'; write \('left',\)"),
        ({"kind": "three"}, r"kind must be one of \['one', 'two'\]; got 'three'"),
        ({"quietly": 1}, "quietly must be True or False; got 1"),
        ({"start": 2.0, "end": 1.0}, "end must be after the start at 2 s; got 1"),
    ],
)
def test_bad_values_are_refused_when_the_record_is_made(values, sentence):
    with pytest.raises(ParameterError, match=sentence):
        TimeRange(**values)


def test_the_docstring_lists_all_fields():
    assert [field.name for field in options_of(TimeRange)] == list(TimeRange.__dataclass_fields__)
    assert "end : float, optional\n    Stop before this time, in seconds." in TimeRange.__doc__
    assert "kind : {'one', 'two'}, default='one'" in TimeRange.__doc__


def test_a_command_gets_the_record_of_its_options():
    result, seen = run(
        "video", "--start", "1:30", "--end", "95", "--step", "2", "--roi", "a", "--roi", "b", "--quietly"
    )
    assert result.exit_code == 0, result.output
    assert seen == (
        "video", TimeRange(start=90.0, end=95.0, every=2, regions=("a", "b"), quietly=True), False
    )  # fmt: skip
    assert run("video", "--sizes", "4,5")[1][1] == TimeRange(sizes=(4, 5))
    assert run("video", "--loud", "-o", "out", "--kind", "two")[1] == (
        "video", TimeRange(folder=Path("out"), kind="two"), True
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--start", "soon"), "--start: soon is not a time; give minutes:seconds"),
        (("--step", "0"), "--step"),
        (("--start", "2:00", "--end", "60"), "--end must be after the start at 120 s; got 60"),
        (("--kind", "three"), "--kind must be one of"),
    ],
)
def test_a_bad_option_is_named_as_it_was_typed(words, sentence):
    result, seen = run("video", *words)
    assert result.exit_code == 2 and seen is None
    assert sentence in " ".join(result.output.replace("│", " ").split())


def test_the_help_shows_every_option_and_two_of_one_name_are_a_mistake_of_the_program():
    text = " ".join(run("--help")[0].output.replace("│", " ").split())
    for words in ("--start", "Start at this time", "--step", "1<=x<=100", "--roi", "one or two", "--quietly"):
        assert words in text
    with pytest.raises(TypeError, match="two options of one name"):

        @with_records
        def command(time: TimeRange, start: int = 0) -> None: ...
