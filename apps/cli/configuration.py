"""The options of a command in a TOML file, which ``--config`` reads and ``--save-config`` writes.

Tables are the headings of the command's help in lower case, and keys its options without the hyphens in front::

    [input]
    scale = 0.5

Both derive from the records of the command (:mod:`visionnmf.apps.settings`).
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_origin

from visionnmf.apps.settings import OptionField, options_of
from visionnmf.exceptions import ParameterError, TooLargeError, UnsupportedError

from .options import one_of, without_brackets

# A long line of dots, as of a nested key, would keep the parser busy for minutes.
MOST_BYTES, LONGEST_LINE = 32 << 10, 2000
WIDTH = 100  # of the lines that are written

FORMS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}


def read_configuration(path: Path, records: Iterable[type]) -> dict[str, Any]:
    """Return the values in a TOML file by the names of the records' fields; errors name file, key and cure."""
    import tomllib

    from visionnmf.io.inputs import read_text, regular_file

    if regular_file(path, "configuration").stat().st_size > MOST_BYTES:
        raise TooLargeError(
            f"{path}: more than {MOST_BYTES >> 10} KiB, which no configuration needs; name another file"
        )
    text = read_text(path, "configuration")
    if max(map(len, text.splitlines()), default=0) > LONGEST_LINE:
        raise TooLargeError(
            f"{path}: has a line of more than {LONGEST_LINE} characters; break it, or name another file"
        )
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise UnsupportedError(f"{path}: not TOML ({reason}); --save-config writes an example") from error
    # the fields that may stand in the file, by table and key
    known = _by_table(records)
    values = {}
    for table, entries in tables.items():
        if not isinstance(entries, dict):
            raise UnsupportedError(f"{path}: {_unknown(table, known)}")
        for key, value in entries.items():
            field = known.get(table, {}).get(key)
            if field is None:
                raise UnsupportedError(f"{path}: {_unknown(f'{table}.{key}', known)}")
            try:
                values[field.name] = _checked(field, value)
            except ValueError as error:  # also a ParameterError, which begins with the field's name
                raise UnsupportedError(f"{path}: {table}.{key} {error}") from error
    return values


def save_configuration(path: Path, records: Sequence[Any], *, force: bool) -> None:
    """Write all options with what they mean; those that have their default value are commented out."""
    from visionnmf.io import output_file

    lines = ["# Options of visionnmf. Those behind a # have their default value; remove the # to change them."]
    values = {field.name: getattr(record, field.name) for record in records for field in options_of(type(record))}
    for table, fields in _by_table(map(type, records)).items():
        lines += ["", f"[{table}]"]
        for key, field in fields.items():
            option, value = field.option, values[field.name]
            text = f"{option.help.removesuffix('.')}: {one_of(option.choices)}" if option.choices else option.help
            lines += [f"# {line}" for line in textwrap.wrap(text, WIDTH)]
            lines.append(f"{'# ' if value == field.default else ''}{key} = {_toml(field, value)}")
    try:
        data = "\n".join([*lines, ""]).encode()
    except UnicodeEncodeError as error:  # a file name that is not text in the language of this system
        raise UnsupportedError(f"{path}: cannot hold a file name that is not UTF-8; rename that file") from error
    with output_file(path, force=force) as temporary:
        temporary.write_bytes(data)


def _by_table(records: Iterable[type]) -> dict[str, dict[str, OptionField]]:
    """Return the fields of records by table, the heading of the help in lower case, and key, the option's name."""
    tables: dict[str, dict[str, OptionField]] = {}
    for record in records:
        for field in options_of(record):
            heading = field.option.panel or getattr(record, "PANEL", "Options")
            tables.setdefault(heading.lower(), {})[field.flag.removeprefix("--")] = field
    return tables


def _unknown(name: str, known: dict[str, dict[str, OptionField]]) -> str:
    """Return what is wrong with an unknown name of a table or ``table.key``, and which one may be meant."""
    # `known` has the fields by table and key.
    table_of = {key: table for table, fields in known.items() for key in fields}
    near = get_close_matches(name.rpartition(".")[2][:WIDTH], table_of, n=1)
    cure = f"{near[0]} stands under [{table_of[near[0]]}]" if near else "--save-config writes a file with all names"
    return f"{name[:WIDTH]} is no option of this command; {cure}"


def _checked(field: OptionField, value: Any) -> Any:
    """Return a field's value from the file, parsed by `option.parse` if it has one; ValueError says what it must be."""
    # A tuple without that function is a list of texts in the file. Other fields have their own type.
    option, form = field.option, field.type if field.type in FORMS else str
    kinds = (int, float) if form is float else (form,)
    if get_origin(field.type) is tuple and option.parse is None:
        several = [value] if isinstance(value, str) else value
        if not isinstance(several, list) or not all(isinstance(each, str) for each in several):
            raise ValueError(f"must be a list of texts in quotes; got {_shown(value)}")
        return tuple(several)
    if option.parse is not None and isinstance(value, str):
        try:
            value = option.parse(value)
        except ValueError as error:
            raise ValueError(f"is wrong: {error}") from None
    elif type(value) not in kinds:
        raise ValueError(f"must be {FORMS[form]}; got {_shown(value)}")
    try:
        return field.check(value)
    except ParameterError as error:
        # The message is "name must be ...". The caller puts the key in the place of the name. Choices are listed
        # without the brackets and quotes of a Python list.
        raise ValueError(without_brackets(str(error).partition(" ")[2])) from None


def _shown(value: Any) -> str:
    """Return a value for a message; tables and lists may be deep, and are only named."""
    if isinstance(value, dict):
        return "a table"
    return "a list" if isinstance(value, list) else f"{value!r:.{WIDTH}}"


def _toml(field: OptionField, value: Any) -> str:
    """Return a value of a field as TOML; None, which stands for no value, as the placeholder of the help."""
    # A field with a function `option.parse` is written as a text that this function reads.
    if value is None:
        placeholder = field.option.metavar or "..."
        return placeholder if field.type in (int, float) else f'"{placeholder}"'
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if type(value) is tuple and field.option.parse is None:
        return f"[{', '.join(map(_quoted, value))}]"
    return _quoted(",".join(map(str, value)) if type(value) is tuple else str(value))


def _quoted(text: str) -> str:
    """Return a text as TOML writes it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
