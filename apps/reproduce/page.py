"""The page about a run: HTML without scripts, made of the reports; it needs the pictures beside it and nothing else."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from visionnmf import __version__
from visionnmf.apps.report import Report
from visionnmf.exceptions import PASS_FORCE, OutputExistsError
from visionnmf.io import output_file

PAGE = "index.html"
MARK = "<!-- written by visionnmf reproduce -->"  # the first line, by which we know our own page
TITLE = "Tables and figures of the papers, repeated"
HEAD = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{TITLE}</title>
<style>
body {{ font-family: sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; line-height: 1.4; }}
table {{ border-collapse: collapse; margin: 1em 0; }} th {{ background: #f2f2f2; }}
th, td {{ border: 1px solid #ccc; padding: .25em .6em; text-align: left; }}
img {{ max-width: 100%; }} figcaption {{ font-size: .9em; color: #444; }} h3 {{ margin-top: 2.5em; }}
.other {{ background: #fff3d6; padding: .4em .8em; }} .failed {{ background: #fde2e2; padding: .4em .8em; }}
</style>
<body>"""


def check_page(out: str | Path, force: bool) -> None:
    """Raise OutputExistsError if the folder has an index that was not written here, unless it may be replaced."""
    path = Path(out) / PAGE
    if not force and path.is_file():
        with path.open("rb") as file:
            if file.read(len(MARK)) != MARK.encode():
                raise OutputExistsError(f"{path} exists and is not a page of reproduce; {PASS_FORCE}")


def write_page(out: str | Path, reports: Sequence[Report], *, command: str) -> None:
    """Write the page about items, of which `command` has run the last; :func:`check_page` was called before it."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, one thread for each experiment"
    versions = f"visionnmf {__version__}, Python {sys.version.split()[0]}, NumPy {np.__version__}"
    parts = [_tag("h1", TITLE), _code(command), _tag("p", f"{versions}; {machine}.")]
    if any(one.quick for one in reports):
        words = "A quick run has fewer splits, starts or ranks. Its claims are not judged; do not cite its figures."
        parts.append(_tag("p", words, "other"))
    overview = [[one.name, one.title, one.available, _verdict(one)] for one in reports]
    parts.append(_table("Overview", [["item", "what", "data", "result"], *overview], links=True))
    for paper, items in groupby(reports, key=lambda one: one.paper):
        parts.append(_tag("h2", paper))
        for one in items:
            parts += _section(one)
    with output_file(Path(out) / PAGE, force=True) as temporary:
        temporary.write_text("\n".join([MARK, HEAD, *parts, "</body>\n</html>\n"]), "utf-8")


def _verdict(one: Report) -> str:
    """Return how many claims of an item came out, or why there is no result."""
    if one.seconds is None:
        return one.error or "not run"
    found = [row[-1] for row in one.rows]
    kinds = [kind for kind in ("confirmed", "level", "reversed") if kind in found]
    counts = ", ".join(f"{found.count(kind)} {kind}" for kind in kinds)
    return f"{counts or f'{len(found)} rows'}; {'quick, ' * one.quick}{one.seconds:.1f} s"


def _section(one: Report) -> list[str]:
    """Return the section of an item."""
    parts = [f'<h3 id="{_address(one.name)}">{escape(f"{one.name}: {one.title}")}</h3>']
    parts += [_tag("p", f"The paper: {one.claim}")] * bool(one.claim)
    parts += [_tag("p", f"Data: {one.data}")] * bool(one.data)
    parts += [_tag("p", f"Other data than the paper's: {one.replaced}", "other")] * bool(one.replaced)
    if one.missing:
        return [*parts, _tag("p", f"Not repeated: {one.missing}", "other")]
    if one.protocol:
        choices = "".join(_tag("li", choice) for choice in one.protocol)
        parts.append(f"<p>What the paper leaves open, and what is done here:</p>\n<ul>{choices}</ul>")
    if one.seconds is None:
        return [*parts, _tag("p", one.error or "not run", "failed")]
    if one.rows:
        parts.append(_table("Paper and ours", [["", "paper", "ours", "difference"], *one.rows]))
    parts += [_tag("p", note) for note in one.notes]
    for caption, file in one.pictures.items():
        shown = f'<img src="{escape(file)}" alt="{escape(caption)}">'
        parts.append(f"<figure>{shown}{_tag('figcaption', caption)}</figure>")
    parts += [_table(caption, cells) for caption, cells in one.tables.items()]
    how = "kept from an earlier run, which took " if one.cached else ""
    command = f"visionnmf reproduce {one.name}{' --quick' * one.quick}"
    return [*parts, _code(command), _tag("p", f"Time: {how}{one.seconds:.1f} s.")]


def _tag(kind: str, text: Any, of: str = "") -> str:
    """Return a text as an element of HTML, of a class."""
    return f"<{kind}{f' class={of!r}' if of else ''}>{escape(str(text))}</{kind}>"


def _code(command: str) -> str:
    """Return a command as a block of code."""
    return f"<pre>{_tag('code', command)}</pre>"


def _address(name: str) -> str:
    """Return the address of an item's section on the page."""
    return escape(name.replace("/", "-"))


def _table(caption: str, rows: Sequence[Sequence[Any]], links: bool = False) -> str:
    """Return rows of cells, the first of which are headings, as a table; with `links` the first cells are links."""
    head, *rest = rows
    lines = ["".join(_tag("th", cell) for cell in head)]
    for first, *others in rest:
        cell = f'<td><a href="#{_address(first)}">{escape(first)}</a></td>' if links else _tag("td", first)
        lines.append(cell + "".join(_tag("td", other) for other in others))
    return f"{_tag('p', f'{caption}:')}\n<table>\n" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "\n</table>"
