"""Options of the commands: those that several share, and records as options.

A parameter of a command that is a record (:mod:`visionnmf.apps.settings`) becomes one option for each of its fields.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Annotated, Any, get_origin

import typer
from typer.core import TyperCommand

from visionnmf._text import without_password
from visionnmf.apps.settings import Option, OptionField, option_field, options_of, settings
from visionnmf.exceptions import PASS_FORCE, SET_BITS, ParameterError

OUT = Option("Folder for the results. It is created if missing.", short="-o", metavar="DIR")
RECURSIVE = Option("Also read the sub-folders of folders. The results mirror them.", short="-r")
JOBS = Option("Process N inputs at a time.", short="-j", metavar="N", low=1, high=256)
SKIP_EXISTING = Option("Leave out inputs with results of these settings, without the hint that --force replaces them.")

Out = Annotated[Path, OUT]
Recursive = Annotated[bool, RECURSIVE]
Jobs = Annotated[int, JOBS]
Processes = Annotated[int, replace(JOBS, help="Use N processes.")]
Force = Annotated[bool, Option("Overwrite existing results.")]
SkipExisting = Annotated[bool, SKIP_EXISTING]
Page = Annotated[
    Path | None, Option("Also write an HTML page about the run: pictures, tables and what failed.", metavar="FILE.html")
]
# `apps/cli/__init__.py` adds these options to every command that has --jobs ...
SCHEDULER = Option(
    "Let the workers of this Dask scheduler do the work, in a folder that they share.", metavar="ADDRESS"
)
Scheduler = Annotated[str | None, SCHEDULER]
# ... this to every one that reads pictures ...
Bits = Annotated[
    int | None,
    Option("Bits that 16-bit pictures use, such as 12; by default found from their brightest pixels.", low=8, high=16),
]
# ... and these to every command.
Json = Annotated[bool, Option("Print a line of JSON for each report on standard output, and nothing else.")]
Debug = Annotated[bool, Option("Show the traceback of an error.")]
Quiet = Annotated[bool, Option("Print only what failed.", short="-q")]
Verbose = Annotated[bool, Option("Report each step and its time on standard error.", short="-v")]


@settings
class ExistingResults:
    """What happens to results that exist already."""

    force: Force = False
    skip_existing: SkipExisting = False


def one_of(names: Sequence[str]) -> str:
    """Return names as an enumeration for a help text."""
    return f"{', '.join(names[:-1])} or {names[-1]}."


def without_brackets(message: str) -> str:
    """Return a message in which lists of Python have no brackets and quotes."""
    return re.sub(r"\['([^][]*)'\]", lambda found: found[1].replace("', '", ", "), message)


given: set[str] = set()  # the parameters of the running command that stand on the command line
typed: list[str] = []  # the running command: its full name, then its words


class PlainUsage(TyperCommand):
    """A command whose usage line has ``IMAGE...``, not ``{IMAGE...}...``, and options under their panels."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Remember the words of the running command, and which of its parameters are among them."""
        names, context = list[str](), ctx
        while context.parent is not None:  # above all is the program, by the name that it was called by
            names.insert(0, context.info_name)
            context = context.parent
        typed[:] = [" ".join(["visionnmf", *names]), *args]
        rest = super().parse_args(ctx, args)
        sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
        given.clear()
        given.update(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")
        return rest

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write the usage line with ``IMAGE...`` in place of typer's ``{IMAGE...}...``."""
        pieces = " ".join(self.collect_usage_pieces(ctx)).replace("{", "").replace("}", "")
        formatter.write_usage(ctx.command_path, pieces.replace("......", "..."))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, those that name a panel under its heading, without loading rich."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            described = parameter.get_help_record(ctx)
            if described is not None:
                kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
                panels.setdefault(getattr(parameter, "rich_help_panel", None) or kind, []).append(described)
        # arguments come first, options without a panel last
        for heading in sorted(panels, key=lambda heading: (heading != "Arguments", heading == "Options")):
            with formatter.section(heading):
                formatter.write_dl(panels[heading])


# --- records ----------------------------------------------------------------------------------------------------------


GIVE_FORCE = "give --force to replace it"  # what PASS_FORCE is on the command line
GIVE_BITS = "give its --bits, such as 12"  # and SET_BITS
# An argument of Python with its value: text in quotes, numbers or words, which "scale=2.png" is not.
# After a bracket it is code for users of Python, as in "MinMaxScaler(clip=True)".
_NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
_VALUE = rf"'[^']*'|\"[^\"]*\"|{_NUMBER}(?:,{_NUMBER})*|[A-Za-z][\w-]*(?:,[\w-]+)*"
_ARGUMENT = rf"([a-z_]+)=({_VALUE})"

_flags: dict[str, str] = {}  # the flag of each field of the command that runs, or what stands for it in the usage line
_related: dict[str, str] = {}  # the same of the commands that belong to one application, such as train and identify


def with_typer_options(signature: inspect.Signature) -> inspect.Signature:
    """Return a signature whose parameters with an :class:`.Option` have the same option in typer's form."""
    parameters = []
    for parameter in signature.parameters.values():
        field = option_field(parameter.name, parameter.annotation, parameter.default)
        if field is not None:
            option = _parameter(field, panel="")  # without a heading of its own in the help
            parameter = parameter.replace(annotation=option.annotation, default=option.default)
        parameters.append(parameter)
    return signature.replace(parameters=parameters)


def with_records(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option for each field of the records (:mod:`visionnmf.apps.settings`) among its parameters.

    The command is called with the records, made of what stands on the command line. Other parameters stay as they are.
    The options of a record with an attribute ``PANEL`` stand under this heading in the help.
    """
    signature = with_typer_options(inspect.signature(function, eval_str=True))
    records = {name: found for name, p in signature.parameters.items() if (found := options_of(p.annotation))}
    # Typer reads the options from the signature: the records are taken out of it, and their fields put in.
    added = [
        _parameter(field, getattr(signature.parameters[name].annotation, "PANEL", ""))
        for name, found in records.items()
        for field in found
    ]
    kept = [p.replace(kind=p.KEYWORD_ONLY) for name, p in signature.parameters.items() if name not in records]
    names = [p.name for p in [*kept, *added]]
    if len(set(names)) < len(names):
        raise TypeError(f"{function.__name__}: two options of one name among {names}")

    @functools.wraps(function)
    def command(**arguments: Any) -> None:
        # Make the records of the values on the command line, and call the function with them. There is no docstring,
        # because `wraps` takes over that of the function, which is the command's help. `records` has the fields of each
        # record by the name of its parameter in `signature`, that of the function; `shown` is the signature with an
        # option for each field.
        for name, found in records.items():
            values = {field.name: _value(field, arguments.pop(field.name)) for field in found}
            try:
                arguments[name] = signature.parameters[name].annotation(**values)
            except ParameterError as error:
                raise typer.BadParameter(in_flags(str(error))) from None
        function(**arguments)

    positional = [p for p in kept if p.default is p.empty]
    parameters = [*positional, *added, *(p for p in kept if p.default is not p.empty)]
    shown = signature.replace(parameters=parameters)
    command.__signature__ = shown  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def name_flags(signature: inspect.Signature) -> None:
    """Remember what the parameters of the running command are called, because messages name them so."""
    _flags.clear()
    _flags.update(_flags_of(signature))


def remember_flags(signature: inspect.Signature) -> None:
    """Remember the options of a command that was loaded, which messages of its neighbours may name."""
    for name, flag in _flags_of(signature).items():
        if flag.startswith("--"):
            _related.setdefault(name, flag)


def _flags_of(signature: inspect.Signature) -> dict[str, str]:
    """Return the option of each parameter of a command, or what stands for it in the usage line."""
    found = {}
    for parameter in signature.parameters.values():
        for option in getattr(parameter.annotation, "__metadata__", ()):
            # typer keeps the first name of an option in place of the default until it has parsed the signature
            names = [option.default, *(option.param_decls or ())] if hasattr(option, "param_decls") else []
            long = [name for name in names if isinstance(name, str) and name.startswith("--")]
            if long:
                found[parameter.name] = long[0]
            elif names and option.metavar:  # an argument without a flag, such as DIR
                # The functions call `source` what a command works on, which is its last argument.
                found[parameter.name] = found["source"] = option.metavar.removesuffix("...")
    return found


def flag_of(name: str, otherwise: str = "") -> str:
    """Return what the running command calls an argument of Python: its option, or `otherwise`, or its name."""
    return _flags.get(name, otherwise or name)


def in_flags(message: str, source: str = "") -> str:
    """Return a ParameterError's message, ``name must be ...``, with the option's name and lists without brackets."""
    name, _, rest = message.partition(" ")
    return in_options(f"{flag_of(name)} {without_brackets(rest)}", source)


def in_options(text: str, *names: str) -> str:
    """Return a sentence of the library with options for arguments of Python: ``--size 32`` for ``size=32``."""

    def option(found: re.Match[str]) -> str:
        """Return the option of an argument, of this command or a related one; the argument itself if there is none."""
        name, value = found.groups()
        if name is None:  # one of `names`
            return found[0]
        flag = _flags.get(name) or _related.get(name) or ""
        if not flag.startswith("--"):
            return found[0]
        return flag if value == "True" else " ".join((flag, value.strip("'\"")))

    text = text.replace(PASS_FORCE, GIVE_FORCE).replace(SET_BITS, GIVE_BITS if "bits" in _flags else SET_BITS)
    if "=" not in text:
        return text
    # Messages have names on one line, and often without their folder. The longest come first: one may begin another.
    wholes = [name for name in names if "=" in name]  # there can be thousands of names
    kept = {" ".join(each.split()) for name in wholes for each in (name, without_password(name), PurePath(name).name)}
    alternatives = [*map(re.escape, sorted(kept - {""}, key=len, reverse=True)), _ARGUMENT]
    pattern = rf"(?<!\S)(?:{'|'.join(alternatives)})(?=[,;:.)]*(?:\s|$))"
    return re.sub(pattern, option, text)


def needs(names: str, needed: str, met: Any) -> None:
    """Refuse options, even with the value of their default, that have no effect unless what is `needed` is `met`."""
    for name in names.split():
        if name in given and not met:
            raise typer.BadParameter(f"{flag_of(name)} needs {needed}; give that, too")


def excludes(names: str, other: str, found: Any) -> None:
    """Refuse options, even with the value of their default, that have no effect where an `other` one was `found`."""
    for name in names.split():
        if name in given and found:
            raise typer.BadParameter(f"{flag_of(name)} and {other} exclude each other; leave one of them out")


def _parameter(field: OptionField, panel: str) -> inspect.Parameter:
    """Return the typer parameter of a field, under the heading `panel` unless its option names another."""
    option, default = field.option, field.default
    kind: Any = field.type
    if option.parse is not None:
        kind, default = str, _text(default)
    elif get_origin(kind) is tuple:
        kind, default = list[str], None
    if default is None:
        kind = kind | None
    text = f"{option.help.removesuffix('.')}: {one_of(option.choices)}" if option.choices else option.help
    limits = {"min": option.low, "max": option.high} if option.parse is None and field.type in (int, float) else {}
    annotation = Annotated[
        kind,
        typer.Option(
            field.flag,
            *([option.short] if option.short else []),
            help=text,
            metavar=option.metavar or None,
            rich_help_panel=option.panel or panel or None,
            **{name: field.type(limit) for name, limit in limits.items() if limit is not None},
        ),
    ]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _value(field: OptionField, value: Any) -> Any:
    """Return the value of a field from what typer has read: a list for a tuple, text for a field that is parsed."""
    if get_origin(field.type) is tuple and field.option.parse is None:
        return field.default if value is None else tuple(value)
    if field.option.parse is None or value is None:
        return value
    if value == _text(field.default):  # the default as it stands in the help need not be parsed
        return field.default
    try:
        return field.option.parse(value)
    except ValueError as error:
        raise typer.BadParameter(f"{field.flag}: {error}") from None


def _text(default: Any) -> str | None:
    """Return a default in the form in which the help shows it."""
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return None if default is None else f"{default:g}" if isinstance(default, float) else str(default)
