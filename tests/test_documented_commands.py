"""Each `visionnmf` command in the documents is one that the command line understands, with all its options."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from visionnmf.apps.cli import app

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
IN_BLOCKS = re.compile(r"^ *(?:[^`\n]*\| *)?(?:\.venv/bin/)?visionnmf +(.*)", re.MULTILINE)
IN_TEXT = re.compile(r"`(?:\.venv/bin/)?visionnmf ([a-z][^`]*)`")

UsageError = typer.BadParameter.__base__  # of the click inside typer, or beside it


def is_incomplete(error):
    """Whether a command lacks arguments, and is right otherwise."""
    return type(error).__name__ in ("MissingParameter", "NoArgsIsHelpError")


def commands():
    """Yield the document and the arguments of each command; those in running text may leave out arguments."""
    for document in DOCUMENTS:
        text = document.read_text("utf-8").replace("\\\n", " ")
        blocks = re.findall(r"^```(?:sh|console)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for whole, found in ((True, IN_BLOCKS.findall("\n".join(blocks))), (False, IN_TEXT.findall(text))):
            for line in found:
                line = re.split(r" (?:\||>|>>|&&|2>) ?|;", line)[0]
                yield document.name, whole, shlex.split(line, comments=True)


COMMANDS = sorted({(document, whole, tuple(words)) for document, whole, words in commands()})


def parse(words):
    """Parse a command as the command line does, without running it."""
    command, name, context = get_command(app), "visionnmf", None
    while True:
        context = command.make_context(name, list(words), parent=context)
        if not hasattr(command, "list_commands"):
            return
        words = [*context._protected_args, *context.args]
        name, command, words = command.resolve_command(context, words)


def test_there_are_commands():
    assert len(COMMANDS) > 100 and sum(not whole for _, whole, _ in COMMANDS) > 20


@pytest.mark.parametrize(("document", "whole", "words"), COMMANDS)
def test_a_command_of_the_documents_is_understood(document, whole, words):
    try:
        parse(words)
    except typer.Exit as left:  # --help and --version end it
        assert left.exit_code == 0
    except UsageError as error:
        assert not whole and is_incomplete(error), f"{document}: visionnmf {shlex.join(words)}: {error}"
