"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer.core import TyperCommand

from visionnmf.apps.settings import Option, settings

OUT = Option("Folder for the results. It is created if missing.", short="-o", metavar="DIR")
RECURSIVE = Option("Also read the sub-folders of folders. The results mirror them.", short="-r")
JOBS = Option("Process N inputs at a time.", short="-j", metavar="N", low=1, high=256)
SKIP_EXISTING = Option("Leave out inputs with results of these settings, without the hint that --force replaces them.")
JSON = Option("Print a line of JSON for each report on standard output, and nothing else.")

Out = Annotated[Path, OUT]
Recursive = Annotated[bool, RECURSIVE]
Jobs = Annotated[int, JOBS]
Processes = Annotated[int, replace(JOBS, help="Use N processes.")]
Force = Annotated[bool, Option("Overwrite existing results.")]
SkipExisting = Annotated[bool, SKIP_EXISTING]
Page = Annotated[
    Path | None, Option("Also write an HTML page about the run: pictures, tables and what failed.", metavar="FILE.html")
]
Verbatim = Annotated[bool, Option("Write names to CSV as they are, also where spreadsheets see formulas.")]
# `apps/cli/__init__.py` adds these options to every command that has --jobs ...
SCHEDULER = Option(
    "Let the workers of this Dask scheduler do the work, in a folder that they share.", metavar="ADDRESS"
)
Scheduler = Annotated[str | None, SCHEDULER]
# ... and these to every command.
Json = Annotated[bool, JSON]
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
        """Give an option that may stand alone its value: ``--events`` means ``--events=scene``.

        Its value is the next word only if that is one of its choices, so ``--events video.mp4`` takes no input away.
        Words after ``--`` are inputs. `alone`, which `with_records` sets on the command's function, has these options
        by their flags.
        """
        words = list(args)
        names, context = list[str](), ctx
        while context.parent is not None:  # above all is the program, by the name that it was called by
            names.insert(0, context.info_name)
            context = context.parent
        typed[:] = [" ".join(["visionnmf", *names]), *args]
        for flag, option in getattr(self.callback, "alone", {}).items():
            for i in [i for i, word in enumerate(words) if word == flag and "--" not in words[:i]]:
                follows = words[i + 1 : i + 2]
                if not follows or follows[0] not in option.choices:
                    words[i] = f"{flag}={option.alone}"
        rest = super().parse_args(ctx, words)
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
