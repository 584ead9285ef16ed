"""Settings of an application: small frozen records whose fields are documented, checked and turned into options once.

A record is a class with annotated defaults::

    @settings
    class TimeRange:
        \"\"\"The part of a video that is read.\"\"\"

        start: Annotated[float, Option("Start at this time, in seconds.", metavar="T", parse=seconds)] = 0.0
        end: Annotated[float | None, Option("Stop before this time, in seconds.", low=0.0)] = None

The Python function takes ``time=TimeRange(start=90.0)``, the command line has ``--start`` and ``--end``
(:mod:`visionnmf.apps.cli.options`), and a job in another process gets the pickled record. This module imports nothing
heavy, so the modules that declare settings can be imported by ``visionnmf --help``.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """What is known about a field of a record besides its name, type and default."""

    help: str  # one or two sentences for the command line's help and for the record's docstring
    _: KW_ONLY
    flag: str = ""  # the long name of the option, where it is not the field's name with hyphens
    short: str = ""  # its one-letter name, such as "-o"
    metavar: str = ""  # what the help shows in place of the value
    panel: str = ""  # the heading of the help under which the option stands, where it is not that of the record
    low: float | None = None  # the range of a number; both ends are allowed
    high: float | None = None
    above: bool = False  # whether `low` itself is refused
    choices: Sequence[str] = ()  # the values that are allowed
    parse: Callable[[str], Any] | None = None  # turns text of the command line into the value, or raises ValueError


Seed = Annotated[int, Option("Seed: the same seed gives the same result.", flag="--seed", low=0, high=2**32 - 1)]


@dataclass(frozen=True)
class OptionField:
    """One field of a record: its name, its type without None, whether None is allowed, its default and its option."""

    name: str
    type: Any
    optional: bool
    default: Any
    option: Option

    @property
    def flag(self) -> str:
        """The long name on the command line."""
        return self.option.flag or "--" + self.name.strip("_").replace("_", "-")

    def check(self, value: Any) -> Any:
        """Return `value` in the field's type, or raise ParameterError if it is not allowed."""
        option = self.option
        if value is self.default or (value is None and self.optional):  # without the checks, whose module loads NumPy
            return value
        if get_origin(self.type) is tuple and isinstance(value, str):  # which would be a tuple of letters
            from visionnmf.exceptions import ParameterError

            raise ParameterError(f"{self.name} must be a tuple; got {value!r:.80}; write ({value!r:.80},)")
        from visionnmf._checks import check_choice, check_count, check_flag, check_number

        if self.type is bool:
            return check_flag(value, self.name)
        if self.type is int:
            most = None if option.high is None else int(option.high)
            return check_count(value, self.name, int(option.low or 0), most)
        if self.type is float:
            low = -math.inf if option.low is None else option.low
            high = math.inf if option.high is None else option.high
            return check_number(value, self.name, low, high, without_low=option.above)
        if self.type is Path and isinstance(value, str):
            return Path(value)
        if option.choices and isinstance(value, str):
            return check_choice(value, self.name, option.choices)
        return value

    def described(self) -> str:
        """Return the field's lines of a numpydoc section: name, type or choices, default, and the option's help."""
        kind = getattr(self.type, "__name__", str(self.type)) if get_origin(self.type) is None else str(self.type)
        if self.option.choices:
            kind = "{" + ", ".join(map(repr, self.option.choices)) + "}"
        default = "optional" if self.default is None else f"default={self.default!r}"
        return f"{self.name} : {kind}, {default}\n    {self.option.help}"


@dataclass_transform(frozen_default=True, kw_only_default=True)
def settings(cls: type[T]) -> type[T]:
    """Make a class a frozen record of keyword arguments whose fields are checked when it is created.

    A method ``check(self)``, where the class has one, is called after the fields were checked and raises
    :class:`.ParameterError` for values that exclude each other. The docstring gets its "Parameters" section from the
    fields' options.
    """

    def __post_init__(self: Any) -> None:
        """Replace each value by the checked one, such as 1.0 for 1 in a field of floats, then check the whole."""
        for field in options_of(cls):
            object.__setattr__(self, field.name, field.check(getattr(self, field.name)))
        check = getattr(self, "check", None)
        if check is not None:
            check()

    cls.__post_init__ = __post_init__  # type: ignore[attr-defined]
    record = dataclass(frozen=True, kw_only=True)(cls)
    record._options = _options(record)  # type: ignore[attr-defined]
    described = "\n".join(field.described() for field in options_of(record))
    record.__doc__ = f"{(cls.__doc__ or '').rstrip()}\n\nParameters\n----------\n{described}\n"
    # `help` shows the types of the fields, which are easier to read without their options.
    record.__annotations__ = get_type_hints(record)
    record.__init__.__annotations__ = {**record.__annotations__, "return": None}
    for field in fields(record):  # type: ignore[arg-type]
        field.type = record.__annotations__[field.name]
    return record


def takes_records(function: F) -> F:
    """Let a function raise ParameterError for an argument that is not the record of settings that its default is."""
    defaults = {name: each.default for name, each in inspect.signature(function).parameters.items()}
    kinds = {name: type(default) for name, default in defaults.items() if options_of(type(default))}

    @functools.wraps(function)
    def checked(*given: Any, **named: Any) -> Any:
        for name, value in (*zip(defaults, given, strict=False), *named.items()):
            if name in kinds and not isinstance(value, kinds[name]):
                raise _no_record(value, kinds[name], name)
        return function(*given, **named)

    return checked  # type: ignore[return-value]


def _no_record(value: Any, kind: type, name: str) -> Exception:
    """Return the error for such an argument; a dict with names of fields is shown as the call that makes the record."""
    from visionnmf._checks import shown
    from visionnmf.exceptions import ParameterError

    known = [field.name for field in options_of(kind)]
    example = f"{known[0]}=..."
    if isinstance(value, dict) and value and all(key in known for key in value):
        example = ", ".join(f"{key}={item!r}" for key, item in value.items())
    got, call = shown(value), f"{kind.__name__}({example:.100})"
    return ParameterError(f"{name} must be a {kind.__name__}; got {got}; write {name}={call}")


def comma_separated(text: str) -> tuple[str, ...]:
    """Return the parts of a text with commas between them, without blanks around them."""
    return tuple(part.strip() for part in text.split(","))


def comma_separated_numbers(text: str) -> tuple[int, ...]:
    """Return the whole numbers of a text with commas between them; raise ValueError for anything else."""
    if not all(part.isdecimal() for part in comma_separated(text)):
        raise ValueError(f"must be whole numbers, separated by commas; got {text!r:.60}")
    return tuple(map(int, comma_separated(text)))


def options_of(record: type) -> list[OptionField]:
    """Return the fields of a record that are options, in their order; none for a class that is not a record."""
    return list(getattr(record, "_options", ()))


def option_field(name: str, hint: Any, default: Any) -> OptionField | None:
    """Return the option that an annotation ``Annotated[kind, Option(...)]`` declares; None for any other annotation."""
    if get_origin(hint) is not Annotated or not isinstance(get_args(hint)[1], Option):
        return None
    kind, option = get_args(hint)[:2]
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    named = [one for one in kinds if one is not type(None)]  # a kind that allows None is a union with it
    return OptionField(name, named[0], len(named) < len(kinds), default, option)


def _options(record: type) -> list[OptionField]:
    """Return the fields of a new record that are options, which its annotations say."""
    hints = get_type_hints(record, include_extras=True)
    declared = [option_field(field.name, hints[field.name], field.default) for field in fields(record)]
    return [option for option in declared if option is not None]
