"""Which programs a command line runs."""

from __future__ import annotations

import re

NAME_CHARACTERS = 128  # kept of the name of a command
TEXT_CHARACTERS = 200  # of a line that are shown

# Text in quotes. An unclosed quote runs to the end of the line, so that matching takes linear time.
_QUOTED = re.compile(r"'[^']*(?:'|$)|\"(?:\\.|[^\"\\])*(?:\"|\\?$)", re.DOTALL)
_SEPARATOR = re.compile(r"[|;&(){}]+")
_ASSIGNMENT = re.compile(r"\w+=")
_NAMING = frozenset({"for", "select", "case", "function"})  # a name follows, and no program
_SHELL = frozenset({"if", "then", "else", "elif", "fi", "while", "until", "do", "done", "in", "esac", "!"})


def clean(name: str) -> str:
    """Shorten a name, and replace characters that could control a terminal or cannot be encoded."""
    return _printable(name[:NAME_CHARACTERS])


def clean_text(line: str) -> str:
    """Shorten a line, and replace characters that could control a terminal or cannot be encoded."""
    return _printable(line[:TEXT_CHARACTERS].strip())


def _printable(text: str) -> str:
    """Return a text with the replacement character for each character that cannot be printed."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


def programs(line: str, whole: bool) -> list[str]:
    """Return the program of each command on a line, such as ls and wc of ``ls -l | wc``; with `whole` the line."""
    line = line.strip()
    if not line:
        return []
    if whole:
        return [clean(line)]
    if "'" in line or '"' in line:
        line = _QUOTED.sub("_", line)  # separators within quotes do not end a command
    parts = _SEPARATOR.split(line) if not line.isalnum() else (line,)  # a single word needs no splitting
    return [program for program in map(_program, parts) if program]


def _program(command: str) -> str:
    """Return the name of the program that a command runs, without its folder, or an empty text if there is none."""
    for word in command.split():
        if word in _NAMING:
            return ""
        if not _ASSIGNMENT.match(word) and word not in _SHELL:  # such as LANG=C, and words of the shell such as `then`
            program = clean(word.rstrip("/").rsplit("/", 1)[-1])
            return "" if program[:1] in "<>#" else program  # a redirection or a comment: no program follows
    return ""
