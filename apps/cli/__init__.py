"""The command line. A command parses, imports its application inside, calls it and prints.

The exit codes are listed in :mod:`.run`.
"""

from __future__ import annotations

import functools
import inspect
import os
import signal
import sys
import warnings
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from visionnmf._jit import cache_folder, on_first_compile
from visionnmf.apps import on_cluster
from visionnmf.io.decoding import decode_apart, decodes_apart, start_child

from .console import Verbosity, say, set_verbosity
from .options import (
    Bits,
    Debug,
    Json,
    Page,
    PlainUsage,
    Quiet,
    Scheduler,
    Verbose,
    flag_of,
    given,
    name_flags,
    remember_flags,
    typed,
    with_typer_options,
)
from .signals import ENDING, ending_code, on_signal

__all__ = ["app", "main"]


class _Entry(NamedTuple):
    """A command: its file here, which defines `command`, its line in the list, and the module that reads its inputs."""

    module: str
    line: str
    reader: str = ""


PICTURES = "visionnmf.io.images"

# The most used commands come first. A `command` is a function, or a Typer application with several functions.
COMMANDS = {
    "segment": _Entry("segmentation", "Divide images into segments.", PICTURES),
    "background": _Entry("background", "Separate what moves in a video from its background."),
    "faces": _Entry("faces", "Recognise, compare and clean images of faces.", PICTURES),
    "annotate": _Entry("annotation", "Give words to photographs.", PICTURES),
    "masquerade": _Entry("masquerade", "Find command sessions that do not fit their user."),
    "multiview": _Entry("multiview", "Learn from several views of the same samples.", "visionnmf.io.tables"),
    "features": _Entry("features", "Write a table of image features.", PICTURES),
    "evaluate": _Entry("evaluate", "Compare methods on data whose truth is known."),
    "reproduce": _Entry("reproduce", "Repeat tables and figures of the papers behind visionnmf."),
    "view": _Entry("view", "Open files in napari, with widgets.", PICTURES),
    "doctor": _Entry("doctor", "Report versions, codecs, threads and extras of this installation."),
}

NOT_SETTINGS = ("force", "skip_existing", "jobs")  # options that change no result


class _Commands(TyperGroup):
    """The commands of the table above. Each one's module is imported when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, without importing any of them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the module of a command when it is first asked for; return None for an unknown name."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            self.commands[cmd_name] = _load(cmd_name)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is meant; typer suggests similar names, of commands that were imported."""
        if args[0] not in COMMANDS:
            for name in get_close_matches(args[0], COMMANDS):
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.line) for name, entry in COMMANDS.items()])


@functools.cache
def _load(name: str) -> Any:
    """Import a command, and give it and its sub-commands the common options and usage written without rich."""
    # Returns the command as click runs it. rich takes long to load.
    reader = COMMANDS[name].reader
    command = import_module(f".{COMMANDS[name].module}", __name__).command
    if isinstance(command, typer.Typer):
        for part in command.registered_commands:
            part.cls = PlainUsage
            if part.callback is not None:
                part.callback = _with_common(part.callback, reader)
        loaded: Any = get_group(command)
        loaded.help = COMMANDS[name].line
    else:
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(name, cls=PlainUsage)(_with_common(command, reader))
        loaded = get_command(alone)
    loaded.name = name
    return loaded


app = typer.Typer(
    name="visionnmf",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    """Print the version and end, if the option --version was given."""
    if value:
        from .versions import versions

        typer.echo(versions())
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the versions and exit.")
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
      visionnmf multiview fit sounds.csv images.npy --model views.npz
      visionnmf features photos/ --kind gist,dense-hue --out features.npz
      visionnmf annotate predict words.npz photo.jpg
      visionnmf reproduce --list
    """


def _with_common(function: Callable[..., None], reader: str) -> Callable[..., None]:
    """Give a command's signature the options of :class:`Verbosity` and, if it has --jobs, --scheduler."""
    # Typer reads options from the signature and the annotations.
    signature = inspect.signature(function, eval_str=True)
    printing = {"json_": Json, "debug": Debug, "quiet": Quiet, "verbose": Verbose}
    added = [_keyword(name, kind, default=False) for name, kind in printing.items()]
    added.append(_keyword("report", Page, default=None))
    if "jobs" in signature.parameters:  # the command can share its work
        added = [_keyword("scheduler", Scheduler, default=None), *added]
    if "videos" in signature.parameters or (reader == PICTURES and signature.parameters.keys() & {"images", "source"}):
        added = [_keyword("bits", Bits, default=None), *added]
    signature = with_typer_options(signature.replace(parameters=[*signature.parameters.values(), *added]))
    remember_flags(signature)

    @functools.wraps(function)
    def command(
        *, report: Path | None, scheduler: str | None = None, bits: int | None = None, **arguments: Any
    ) -> None:
        # No docstring: `wraps` takes over that of the command, which is its help. `arguments` are those of the command
        # itself, and those of `printing`.
        name_flags(signature)  # remembers the option of each argument, by which messages name it
        printed = {name: arguments.pop(name) for name in printing}
        set_verbosity(Verbosity(**printed, page=None if report is None else _page(report, arguments)))
        if bits is not None:
            if scheduler is not None:
                raise typer.BadParameter("--bits and --scheduler exclude each other; set VISIONNMF_BITS there")
            os.environ["VISIONNMF_BITS"] = str(bits)  # for all processes of this run
        if reader and decodes_apart():  # the child imports it while this process imports the application
            start_child(reader)
        if scheduler is None:
            function(**arguments)
        elif arguments["jobs"] != signature.parameters["jobs"].default:
            raise typer.BadParameter("--jobs and --scheduler exclude each other; leave out --jobs")
        else:
            with on_cluster(scheduler):
                function(**arguments)

    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return command


def _page(file: Path, arguments: dict[str, Any]) -> Callable[[], Any]:
    """Return what opens the page about the run of a command with these arguments."""
    # as a file that joins the results of several inputs, it is written again for a part of them
    force = arguments["force"] or arguments.get("skip_existing", False) if "force" in arguments else None
    names = [name for name in sorted(given) if name in arguments and flag_of(name).startswith("--")]
    settings = {name: arguments[name] for name in names if name not in NOT_SETTINGS}

    def opened() -> Any:
        """Open it; its module is imported for nothing else."""
        from visionnmf.apps.pages import open_page

        return open_page(file, list(typed), settings, force=force)

    return opened


def _keyword(name: str, annotation: Any, *, default: Any) -> inspect.Parameter:
    """Return a keyword parameter of a command."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _open_standard_streams() -> None:
    """Open closed standard streams on the null device, because the next file opened would take their place."""
    # Python sets a stream that was closed at the start to None; its number, 0 to 2, is that of the system.
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, number)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115  # for the process


def _silence_decoders() -> None:
    """Hide what C libraries print about damaged files. Our own line on standard error says what is wrong."""
    errors = os.dup(2)  # the true standard error under a new number; C libraries write to number 2
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    sys.stderr = open(errors, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115  # for the process


def main() -> NoReturn:
    """Run the command line; the entry point of the ``visionnmf`` command.

    Signals in ENDING raise exceptions, so that half-written files are removed. The exit code is that of the run, also
    if a signal comes late, and not 0 if the output cannot be written.
    """
    _open_standard_streams()
    if "--debug" not in sys.argv:
        _silence_decoders()
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:  # ignored ones stay so, as SIGHUP under nohup
            signal.signal(number, on_signal)
    warnings.filterwarnings("ignore", message=".*kernels are compiled again", category=RuntimeWarning)
    on_first_compile(_say_that_it_compiles)
    decode_apart()
    code: Any = 0
    try:
        try:
            app()
        except (KeyboardInterrupt, SystemExit) as ended:
            code = ending_code(ended)
        except OSError as error:  # errors of files are handled in the run; this one is from --help or --version
            _report_lost_output(error)
            code = 1
        _ignore_signals()
    except KeyboardInterrupt as late:  # a signal that arrived after the end of the run
        _ignore_signals()
        code = ending_code(late)
    # output that is lost turns success into failure
    raise SystemExit(code if _flush() else code or 1)


def _say_that_it_compiles() -> None:
    """Explain why the first seconds are slow, and warn if the compiled kernels cannot be kept."""
    if cache_folder() is not None:
        say("compiling kernels for this machine, once")
        return
    where = os.environ.get("NUMBA_CACHE_DIR") or "the user's folder for caches"
    say(f"compiling kernels for this run only: {where} cannot be written; set NUMBA_CACHE_DIR to a writable folder")


def _ignore_signals() -> None:
    """Ignore further signals, so that the process ends with the exit code of its run."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def _flush() -> bool:
    """Write out the standard streams; return False if that fails, as on a full disk."""
    # Left to itself, the interpreter would then end with an exit code of its own.
    written = True
    try:
        sys.stdout.flush()
    except OSError as error:
        _report_lost_output(error)
        written = False
    try:
        sys.stderr.flush()
    except OSError:  # there is nobody left to report to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    return written


def _report_lost_output(error: OSError) -> None:
    """Report that standard output cannot be written, and send the rest to the null device, so that no flush fails."""
    say(f"standard output cannot be written ({error.strerror})")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
