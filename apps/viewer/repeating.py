"""The command and the Python call that repeat what a widget did, from the records of its settings."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from visionnmf.apps.made import changed
from visionnmf.apps.settings import options_of


def command(name: str, source: str, **records: Any) -> str:
    """Return the command line of an application on a source; `records` may also have `out` and `force`."""
    words = ["visionnmf", name, source]
    for argument, record in records.items():
        if not options_of(type(record)) and record:
            words += [f"--{argument}"] if record is True else [f"--{argument}", str(record)]
        for field in options_of(type(record)):
            value = changed(record).get(field.name)
            if value is True:
                words.append(field.flag)
            elif value is not None and value is not False:
                if isinstance(value, tuple) and field.option.parse:  # of one text with commas
                    value = ",".join(value)
                for each in value if isinstance(value, tuple) else (value,):
                    words += [field.flag, str(each)]
    return shlex.join(words)


def call(module: str, function: str, source: str, **records: Any) -> str:
    """Return the Python call of an application on a source, with its imports."""
    kinds = sorted({type(record).__name__ for record in records.values() if changed(record)})
    arguments = [repr(source)]
    for name, record in records.items():
        values = ((field, str(value) if isinstance(value, Path) else value) for field, value in changed(record).items())
        given = ", ".join(f"{field}={value!r}" for field, value in values)
        if given:
            arguments.append(f"{name}={type(record).__name__}({given})")
        elif record and not options_of(type(record)):
            arguments.append(f"{name}={record!r}")
    return f"from {module} import {', '.join([*kinds, function])}\n\n{function}({', '.join(arguments)})"
