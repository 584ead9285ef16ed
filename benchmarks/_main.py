"""The command line that all benchmarks share: parts by name, small sizes for a look, one line for what is missing."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from _machine import machine

from visionnmf.apps.reproduce.data import data_folder
from visionnmf.exceptions import UnreadableError

__all__ = ["Missing", "data_file", "is_quick", "main"]

_QUICK = False


class Missing(Exception):
    """What a part of a benchmark needs is not on this machine."""


def is_quick() -> bool:
    """Tell whether the sizes are those of ``--quick``."""
    return _QUICK


def data_file(name: str) -> Path:
    """Return a file of the research data; raise Missing where it is not."""
    folder = data_folder()
    if folder is None or not (folder / name).exists():
        raise Missing(f"no {name} here; set VISIONNMF_DATA to the folder that holds it")
    return folder / name


def main(
    parts: dict[str, Callable[..., None]],
    constants: dict[str, Any],
    quick: dict[str, Any],
    *,
    default: Sequence[str] = (),
    words: Sequence[str] | None = None,
) -> None:
    """Run the parts that the command line names.

    ``SCRIPT.py [--quick] [PART...]``, or one part with its own arguments: ``SCRIPT.py PART ARGUMENT... [--name VALUE]
    [--no-name]``. A part that needs what is not on this machine says so in one line, and the others go on. `constants`
    are ``globals()`` of the script; ``--quick`` puts `quick` in place of some, for a look whether all runs.
    """
    global _QUICK
    given = list(sys.argv[1:] if words is None else words)
    _QUICK = "--quick" in given
    given = [word for word in given if word != "--quick"]
    if _QUICK:
        constants.update(quick)
    script = Path(constants["__file__"]).stem
    for name, arguments, options in _plan(script, parts, given, list(default or parts)):
        try:
            parts[name](*arguments, **options)
        except Missing as error:
            print(f"{script}.{name}: skipped: {error}", flush=True)
        except UnreadableError as error:
            if "VISIONNMF_DATA" not in str(error):
                raise
            print(f"{script}.{name}: skipped: {error}", flush=True)


def _plan(
    script: str, parts: dict[str, Callable[..., None]], given: list[str], default: list[str]
) -> list[tuple[str, list[Any], dict[str, Any]]]:
    print(machine())
    if _QUICK:
        print("sizes for a look whether it runs: not to be published")
    if given and all(word in parts for word in given):
        return [(name, [], {}) for name in given]
    if not given:
        return [(name, [], {}) for name in default]
    name, *rest = [default[0], *given] if given[0].startswith("-") else given
    arguments, options = _split(rest)
    try:
        inspect.signature(parts[name]).bind(*arguments, **options)
    except (KeyError, TypeError):
        takes = [f"{part} {' '.join(inspect.signature(run).parameters).upper()}".strip() for part, run in parts.items()]
        raise SystemExit(f"usage: {script}.py [--quick] [PART ...], of: {'; '.join(takes)}") from None
    return [(name, arguments, options)]


def _split(words: list[str]) -> tuple[list[Any], dict[str, Any]]:
    """Tell arguments from options; ``--no-name`` is False, and digits are a number."""
    arguments: list[Any] = []
    options: dict[str, Any] = {}
    values: list[Any] = [int(word) if word.isdigit() else word for word in words]
    while values:
        word, *values = values
        if str(word).startswith("--no-"):
            options[word[5:]] = False
        elif str(word).startswith("--") and values:
            options[word[2:]], *values = values
        else:
            arguments.append(word)
    return arguments, options
