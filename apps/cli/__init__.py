"""The command line: parse, import inside, call, print, exit codes (:mod:`.common` says which)."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, NoReturn

import typer

from visionnmf import __version__
from visionnmf.exceptions import VisionNMFError

from .background import background
from .common import EXIT_NOTHING_DONE, on_interrupt, say
from .faces import faces
from .masquerade import masquerade
from .segmentation import segment

__all__ = ["app", "main"]

app = typer.Typer(
    name="visionnmf",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"visionnmf {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Robust non-negative matrix factorisation for images, video and command logs.

    \b
    Examples:
      visionnmf segment photo.jpg
      visionnmf background video.mp4
      visionnmf segment sample:coffee --out out
      visionnmf background sample:surveillance --out out
      visionnmf masquerade train histories/* --model users.npz
      visionnmf faces train people/ --model people.npz
    """


app.command()(segment)
app.command()(background)
app.add_typer(masquerade, name="masquerade")
app.add_typer(faces, name="faces")


def main() -> NoReturn:
    """Run the command line; the entry point of the ``visionnmf`` command."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, on_interrupt)
    try:
        app()
    except VisionNMFError as error:  # with --debug the traceback is what was asked for
        if "--debug" in sys.argv:
            raise
        say(str(error))
        raise SystemExit(EXIT_NOTHING_DONE) from None
    except OSError as error:  # standard output on a full disk
        if "--debug" in sys.argv:
            raise
        raise SystemExit(f"visionnmf: {error}") from None
    raise SystemExit(0)
