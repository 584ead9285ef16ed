"""``visionnmf reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visionnmf.apps.settings import Option

from .options import Force, Out, Processes, excludes
from .run import running


def command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Papers or items: mahnmf, mahnmf/fig-5.")
    ] = None,
    list_: Annotated[bool, Option("List all tables and figures, and run nothing.")] = False,
    all_: Annotated[bool, Option("Run all of them.")] = False,
    quick: Annotated[bool, Option("Run fewer splits: to see that all works, not to cite.")] = False,
    out: Out = Path("reproduced"),
    data: Annotated[Path | None, Option("Folder of the data sets.", metavar="DIR")] = None,
    jobs: Processes = 1,
    force: Force = False,
) -> None:
    """Repeat tables and figures of the papers, and compare the results with the papers'.

    Results are kept in the folder, and the same command continues an interrupted run; --force runs them again.

    \b
    Examples:
      visionnmf reproduce --list
      visionnmf reproduce or-nmf/fig-2 --quick --report fig-2.html
      visionnmf reproduce masquerade --data datasets/
      visionnmf reproduce --all --quick --jobs 2
    """
    if not list_ and bool(names) == all_:
        raise typer.BadParameter("give names of papers or items, or --all; --list has them")
    excludes("all_ quick out jobs scheduler force report", "--list", list_)
    with running() as run:
        from visionnmf.apps.reproduce import list_items, reproduce
        from visionnmf.apps.reproduce.registry import PAPERS

        if list_:
            for item in list_items(names or (), data=data):
                run.show(item)
            return
        with run.progress("reproduce", rate_of="") as bar:
            reports = reproduce(
                list(PAPERS) if all_ else names or (),
                out=out,
                quick=quick,
                data=data,
                n_jobs=jobs,
                force=force,
                stop_at_error=run.debug,
                progress=bar,
            )
        run.kind, run.total, run.names_files = "items", len(reports), True
        for report in reports:
            run.show(report)
