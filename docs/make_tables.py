"""Regenerate the tables of the guides and the page of commands from the code: ``make tables``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from visionnmf.apps.cli import app
from visionnmf.engine.losses import LOSSES
from visionnmf.engine.penalties import TERMS
from visionnmf.engine.solving import CODES, ELSEWHERE, SOLVERS

FOLDER = Path(__file__).parent
HELP_WIDTH = 100  # characters
COMMON = ("--debug", "--force", "--json", "--quiet", "--report", "--scheduler", "--verbose", "-q", "-v")


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def fitting_table() -> str:
    """Return which solvers minimise a loss with a kind of penalty, in the order of preference."""
    rows = []
    for loss in LOSSES:
        able = {
            kind: [n for n, entry in SOLVERS.items() if loss in entry.losses and issubclass(term, entry.terms)]
            for kind, term in TERMS.items()
        }
        if any(able.values()):
            rows.append([loss, *(", ".join(able[kind]) or "–" for kind in TERMS)])
    return markdown(["loss", *TERMS], rows)


def codes_table() -> str:
    """Return which penalties of the codes `transform` takes into account."""
    rows = [
        [name, *("yes" if issubclass(term, CODES[record.codes].terms) else "–" for term in TERMS.values())]
        for name, record in LOSSES.items()
    ]
    return markdown(["loss", *TERMS], rows)


def elsewhere_table() -> str:
    """Return which solvers minimise a loss of data that are not arrays of NumPy."""
    able = {name: [n for n, entry in SOLVERS.items() if entry.elsewhere and name in entry.losses] for name in LOSSES}
    return markdown(["loss", "solvers"], [[name, ", ".join(solvers)] for name, solvers in able.items() if solvers])


TABLES = {
    "fitting": fitting_table,
    "codes": codes_table,
    **dict.fromkeys(ELSEWHERE, elsewhere_table),
}


def with_tables(text: str) -> str:
    """Return a guide whose tables, between ``<!-- table: name -->`` and ``<!-- end -->``, are regenerated."""
    return re.sub(
        r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}{TABLES[found[2]]()}\n{found[3]}",
        text,
        flags=re.DOTALL,
    )


def commands(command: Any, context: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each command that does something, with its context, in the order of the command line."""
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            yield from commands(below, below.context_class(below, context, name, max_content_width=HELP_WIDTH))
    else:
        yield command, context


def helps(program: Any, context: Any) -> Iterator[tuple[str, str]]:
    """Yield the full name and the help of each command, without the options that the page explains once for all."""
    found = list(commands(program, context))
    options = [parameter for command, _ in found for parameter in command.params if parameter.opts[-1] in COMMON]
    usual = Counter((option.opts[-1], option.help) for option in options)
    left_out = [option for option in options if usual[option.opts[-1], option.help] > len(found) // 2]
    for command, below in found:
        mine = [option for option in command.params if option in left_out]
        for option in mine:
            option.hidden = True
        command.add_help_option = False
        said = command.get_help(below)
        for option in mine:  # the commands are those of the process, whose --help shows all
            option.hidden = False
        command.add_help_option = True
        yield below.command_path, said


def with_commands(text: str) -> str:
    """Return the page of commands with a section for each command behind the line ``<!-- commands -->``."""
    program = get_command(app)
    context = program.context_class(
        program, info_name="visionnmf", terminal_width=HELP_WIDTH, max_content_width=HELP_WIDTH
    )
    sections = [f"## {name}\n\n```\n{said.rstrip()}\n```\n" for name, said in helps(program, context)]
    mark = "<!-- commands -->\n"
    return text[: text.index(mark) + len(mark)] + "\n" + "\n".join(sections)


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each page that has generated parts, as it should be."""
    for page in sorted(FOLDER.glob("*.md")):
        text = page.read_text("utf-8")
        if "<!-- table: " in text or "<!-- commands -->" in text:
            yield page, with_commands(with_tables(text)) if "<!-- commands -->" in text else with_tables(text)


if __name__ == "__main__":
    for page, text in pages():
        page.write_text(text, "utf-8")
