"""Regenerate the tables of the guides from the engine's registers: ``python docs/make_tables.py``."""

from __future__ import annotations

import re
from pathlib import Path

from visionnmf.engine.losses import LOSSES
from visionnmf.engine.penalties import TERMS
from visionnmf.engine.solvers import SOLVERS
from visionnmf.engine.solving import CODES

GUIDE = Path(__file__).parent / "penalties.md"


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


TABLES = {"fitting": fitting_table, "codes": codes_table}


def with_tables(text: str) -> str:
    """Return a guide whose tables, between ``<!-- table: name -->`` and ``<!-- end -->``, are regenerated."""
    return re.sub(
        r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}{TABLES[found[2]]()}\n{found[3]}",
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    GUIDE.write_text(with_tables(GUIDE.read_text("utf-8")), "utf-8")
