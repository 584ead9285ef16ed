"""The page about a run, as HTML and as Markdown: one list of blocks, and two functions that write it."""

from __future__ import annotations

import html
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from visionnmf import __version__
from visionnmf.exceptions import PASS_FORCE, OutputExistsError
from visionnmf.io import output_file

from . import registry
from .experiments import Experiment, Outcome, Result

MARK = "<!-- written by visionnmf reproduce -->"  # the first line of both files, by which we know our own page
HEADINGS = ["", "paper", "ours", "difference"]
STYLE = """
body { font-family: sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; line-height: 1.4; }
table { border-collapse: collapse; margin: 1em 0; } th { background: #f2f2f2; }
th, td { border: 1px solid #ccc; padding: .25em .6em; text-align: left; }
img { max-width: 100%; } figcaption { font-size: .9em; color: #444; } h3 { margin-top: 2.5em; }
.other { background: #fff3d6; padding: .4em .8em; } .failed { background: #fde2e2; padding: .4em .8em; }
"""


class Block(NamedTuple):
    """A part of the page: `kind` is h1, h2, h3, text, other, failed, list, table, picture or code.

    `content` is a text, a list of texts, a table (a list of rows of cells, the headings first), or the file of a
    picture; `caption` is that of a picture or table, or the address of a heading.
    """

    kind: str
    content: Any
    caption: str = ""


def check_page(out: str | Path, force: bool) -> None:
    """Raise OutputExistsError if the folder has an index that was not written here, unless it may be replaced."""
    for name in ("index.html", "index.md"):
        path = Path(out) / name
        if not force and path.is_file():
            with path.open("rb") as file:  # our own pages begin with MARK
                if not file.read(len(MARK)) == MARK.encode():
                    raise OutputExistsError(f"{path} exists and is not a page of reproduce; {PASS_FORCE}")


def write_page(
    out: str | Path, found: Sequence[Experiment], outcomes: Mapping[str, Outcome], *, command: str, quick: bool
) -> list[str]:
    """Write ``index.html`` and ``index.md`` about the experiments `found` to a folder, and return their paths."""
    # `outcomes` has those that were run, by name. `command` repeats the run, and the page warns of the figures of a
    # `quick` one. Both files begin with MARK, by which `check_page` has seen, before the run, that existing ones are
    # ours and may be replaced.
    blocks = _blocks(found, outcomes, command, quick)
    texts = {"index.html": _html(blocks), "index.md": _markdown(blocks)}
    for name, text in texts.items():
        with output_file(Path(out) / name, force=True) as temporary:
            temporary.write_text(f"{MARK}\n{text}", "utf-8")
    return [str(Path(out) / name) for name in texts]


def _blocks(found: Sequence[Experiment], outcomes: Mapping[str, Outcome], command: str, quick: bool) -> list[Block]:
    """Return the page of :func:`write_page`: an overview, and a section for each experiment below its paper."""
    # `outcomes` has the experiments that were run, by name, and `command` repeats the run.
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, one thread for each experiment"
    versions = f"visionnmf {__version__}, Python {sys.version.split()[0]}, NumPy {np.__version__}"
    overview = [["item", "what", "data", "result"]]
    for one in found:
        outcome = outcomes.get(one.name)
        overview.append([one.name, one.title, one.state(), _verdict(outcome)])
    blocks = [
        Block("h1", "Tables and figures of the papers, repeated"),
        Block("code", command),
        Block("text", f"{versions}; {machine}."),
        *([Block("other", "A quick run: fewer splits, starts or ranks. Do not cite these figures.")] if quick else []),
        Block("table", overview, "Overview"),
    ]
    paper = ""
    for one in found:
        if one.paper != paper:
            paper = one.paper
            blocks.append(Block("h2", registry.PAPERS[paper].title if paper in registry.PAPERS else paper))
        blocks += _section(one, outcomes.get(one.name), quick)
    return blocks


def _verdict(outcome: Outcome | None) -> str:
    """Return one cell about an experiment: how many claims came out, or why there is no result."""
    if outcome is None:
        return "not run"
    if outcome.result is None:
        return outcome.error
    found = [row.verdict for row in outcome.result.rows]
    kinds = [kind for kind in ("confirmed", "level", "reversed") if kind in found]
    counts = ", ".join(f"{found.count(kind)} {kind}" for kind in kinds)
    return f"{counts or f'{len(found)} rows'}; {outcome.seconds:.1f} s"


def _section(one: Experiment, outcome: Outcome | None, quick: bool) -> list[Block]:
    """Return the section of an experiment; its outcome is None if it was not run."""
    # A block has a kind (heading, text, table, ...), its content, and a caption, for a heading its address on the page.
    blocks = [Block("h3", f"{one.name}: {one.title}", one.name.replace("/", "-"))]
    if one.claim:
        blocks.append(Block("text", f"The paper: {one.claim}"))
    if one.data:
        blocks.append(Block("text", f"Data: {one.data}"))
    if one.replaced:
        blocks.append(Block("other", f"Other data than the paper's: {one.replaced}"))
    if one.run is None:
        return [*blocks, Block("other", f"Not repeated: {one.missing}")]
    if one.protocol:
        blocks += [
            Block("text", "What the paper leaves open, and what is done here:"),
            Block("list", list(one.protocol)),
        ]
    if outcome is None or outcome.result is None:
        return [*blocks, Block("failed", outcome.error if outcome is not None else "not run")]
    blocks += _findings(outcome.result)
    how = "kept from an earlier run, which took " if outcome.cached else ""
    return [
        *blocks,
        Block("code", f"visionnmf reproduce {one.name}{' --quick' if quick else ''}"),
        Block("text", f"Time: {how}{outcome.seconds:.1f} s."),
    ]


def _findings(result: Result) -> list[Block]:
    """Return the comparison, the notes, the pictures and the further tables of a result."""
    # A block has a kind, its content (for a table rows of cells, for a picture its file) and a caption.
    blocks = []
    if result.rows:
        blocks.append(Block("table", [HEADINGS, *(row.cells() for row in result.rows)], "Paper and ours"))
    blocks += [Block("text", note) for note in result.notes]
    blocks += [Block("picture", file, caption) for caption, file in result.pictures.items()]
    blocks += [Block("table", cells, caption) for caption, cells in result.tables.items()]
    return blocks


def _markdown(blocks: Sequence[Block]) -> str:
    """Return the page as Markdown. Kinds of blocks without a form of their own are text, or remarks in bold."""
    # A block has a kind, its content (a text, a list of texts, rows of cells, or the file of a picture) and a caption.
    parts = []
    for kind, content, caption in blocks:
        if kind in ("h1", "h2", "h3"):
            parts.append(f"{'#' * int(kind[1])} {content}")
        elif kind == "table":
            lines = [[str(cell).replace("|", "\\|") for cell in line] for line in content]
            lines.insert(1, ["---"] * len(lines[0]))  # the line below the headings
            parts.append(f"{caption}:\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))
        elif kind == "list":
            parts.append("\n".join(f"- {entry}" for entry in content))
        elif kind == "picture":
            parts.append(f"![{caption}]({content})\n\n*{caption}*")
        elif kind == "code":
            parts.append(f"```sh\n{content}\n```")
        else:
            parts.append(str(content) if kind == "text" else f"**{content}**")
    return "\n\n".join(parts) + "\n"


def _html(blocks: Sequence[Block]) -> str:
    """Return the page as HTML without scripts; it needs the pictures beside it and nothing else."""
    # A block has a kind, its content (a text, a list of texts, rows of cells, or the file of a picture) and a caption,
    # for a heading its address.
    parts = []
    for kind, content, caption in blocks:
        text, title = html.escape(str(content)), html.escape(caption)
        if kind in ("h1", "h2", "h3"):
            parts.append(f'<{kind} id="{title}">{text}</{kind}>' if caption else f"<{kind}>{text}</{kind}>")
        elif kind == "table":
            rows = [_html_row(line, "td" if number else "th") for number, line in enumerate(content)]
            parts.append(f"<p>{title}:</p>\n<table>\n" + "\n".join(rows) + "\n</table>")
        elif kind == "list":
            parts.append("<ul>\n" + "\n".join(f"<li>{html.escape(entry)}</li>" for entry in content) + "\n</ul>")
        elif kind == "picture":
            parts.append(f'<figure><img src="{text}" alt="{title}"><figcaption>{title}</figcaption></figure>')
        elif kind == "code":
            parts.append(f"<pre><code>{text}</code></pre>")
        else:
            parts.append(f"<p>{text}</p>" if kind == "text" else f'<p class="{kind}">{text}</p>')
    title = html.escape(str(blocks[0].content))
    head = f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>'
    return f"{head}\n<style>{STYLE}</style>\n<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"


def _html_row(cells: Sequence[str], tag: str) -> str:
    """Return a row of a table, with cells of the tag "th" or "td"; names of experiments are links to their sections."""
    written = []
    for cell in cells:
        text = html.escape(str(cell))
        linked = cell in registry.EXPERIMENTS
        written.append(f'<a href="#{text.replace("/", "-")}">{text}</a>' if linked else text)
    return "<tr>" + "".join(f"<{tag}>{text}</{tag}>" for text in written) + "</tr>"
