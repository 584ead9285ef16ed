"""Which programs a command line runs; the text of here-documents is not taken for commands."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from visionnmf.io.text_lines import Line

__all__ = ["clean", "clean_text", "programs", "without_here_documents"]

NAME_CHARACTERS = 128  # kept of the name of a command
TEXT_CHARACTERS = 200  # of a line that are shown
LONGEST_DOCUMENT = 200  # lines; text that does not end within them is not a here-document

# Text in quotes. An unclosed quote runs to the end of the line, so that matching takes linear time.
_QUOTED = re.compile(r"'[^']*(?:'|$)|\"(?:\\.|[^\"\\])*(?:\"|\\?$)", re.DOTALL)
_SEPARATOR = re.compile(r"[|;&(){}]+")
_ASSIGNMENT = re.compile(r"\w+=")
_SHELL = frozenset(
    {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "in", "case", "esac", "!"}
)
_HERE = re.compile(r"(?<!<)<<(-?)[ \t]*(?:'([\w.-]+)'|\"([\w.-]+)\"|\\?([\w.-]+))")
_INTERPRETER = re.compile(r"(?<![\w.-])(?:sh|bash|dash|ksh|zsh|fish|ssh|su)(?![\w.-])")  # runs what it is fed
_TIME = re.compile(r"#\d{8,11}\s*$")  # of the next command in a bash history


class _Wrapper(NamedTuple):
    """A program that runs another one.

    `letters` and `long` are its options that take a value; `operands` is the number of words before the other program.
    """

    letters: str = ""
    long: frozenset[str] = frozenset()
    operands: int = 0


_WRAPPERS = {
    "sudo": _Wrapper(
        "ugphCDRTrtU",
        frozenset({"user", "group", "prompt", "host", "chdir", "chroot", "role", "type", "other-user"}),
    ),
    "doas": _Wrapper("uC"),
    "pkexec": _Wrapper("", frozenset({"user"})),
    "runuser": _Wrapper("ugG", frozenset({"user", "group"})),
    "env": _Wrapper("uCS", frozenset({"unset", "chdir"})),
    "nice": _Wrapper("n", frozenset({"adjustment"})),
    "ionice": _Wrapper("cnpPu", frozenset({"class", "classdata"})),
    "time": _Wrapper("fo", frozenset({"format", "output"})),
    "timeout": _Wrapper("ks", frozenset({"kill-after", "signal"}), operands=1),
    "xargs": _Wrapper("adEILnPs", frozenset({"max-args", "max-procs", "max-lines", "delimiter", "arg-file"})),
    "watch": _Wrapper("nq", frozenset({"interval"})),
    "nohup": _Wrapper(),
    "setsid": _Wrapper(),
    "exec": _Wrapper("a"),
    "command": _Wrapper(),
    "builtin": _Wrapper(),
}


def clean(name: str) -> str:
    """Shorten a name, and replace characters that could control a terminal or cannot be encoded."""
    return _printable(name[:NAME_CHARACTERS])


def clean_text(line: str) -> str:
    """Shorten a line, and replace characters that could control a terminal or cannot be encoded."""
    return _printable(line[:TEXT_CHARACTERS].strip())


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


def programs(line: str, whole: bool) -> list[str]:
    """Return the names of the programs that a command line runs, including wrappers such as `sudo`.

    With `whole`, the line itself is the only name.
    """
    line = line.strip()
    if not line:
        return []
    if whole:
        return [clean(line)]
    if "'" in line or '"' in line:
        line = _QUOTED.sub("_", line)
    found: list[str] = []
    for part in _SEPARATOR.split(line) if not line.isalnum() else (line,):
        _add_programs(iter(part.split()), found)
    return found


def _add_programs(words: Iterator[str], found: list[str]) -> None:
    """Append to `found` the program that the words of a simple command run.

    A wrapper such as sudo or nice is followed by the program that it runs, after its own options and operands.
    """
    wrapper: _Wrapper | None = None  # the program found last, if it runs another one
    operands = 0  # words of the wrapper that are still to be skipped
    for word in words:
        if wrapper is not None and word[0] == "-" and len(word) > 1:
            if _takes_value(word, wrapper):
                next(words, None)
            continue
        if _ASSIGNMENT.match(word) or word in _SHELL:
            continue
        if operands:
            operands -= 1
            continue
        program = clean(word.rstrip("/").rsplit("/", 1)[-1])
        if not program or program[0] in "<>#":
            return
        found.append(program)
        wrapper = _WRAPPERS.get(program)
        if wrapper is None:
            return
        operands = wrapper.operands


def _takes_value(option: str, wrapper: _Wrapper) -> bool:
    """Return whether the next word belongs to an option: true for ``-u``, ``-nu`` and long ones, not for ``-uroot``."""
    if option.startswith("--"):
        return option[2:] in wrapper.long
    first = next((i for i, letter in enumerate(option) if letter in wrapper.letters), None)
    return first == len(option) - 1


def without_here_documents(lines: Iterator[Line]) -> Iterator[Line]:
    """Replace the lines of here-documents by empty lines, so that all other lines keep their numbers.

    A here-document that is fed to a shell stays, because its lines are run. Text counts as a here-document only if it
    ends within 200 lines, before the next time in a history, and before a followed log falls silent. So nobody can hide
    commands behind ``<<``.
    """
    waiting: deque[Line] = deque()
    while True:
        line = waiting.popleft() if waiting else next(lines, _END)
        if line is _END:
            return
        yield line
        found = _HERE.search(line) if line and "<<" in line and len(line) < 4096 else None
        if line is None or found is None or _INTERPRETER.search(line):
            continue
        word, tabs = found[2] or found[3] or found[4], bool(found[1])
        document: list[Line] = []
        ended = False
        for next_line in chain(list(waiting), lines):
            if waiting:
                waiting.popleft()
            document.append(next_line)
            if next_line is None or len(document) > LONGEST_DOCUMENT or _TIME.match(next_line):
                break
            ended = (next_line.lstrip("\t") if tabs else next_line).rstrip() == word
            if ended:
                break
        if ended:
            yield from [""] * len(document)
        else:
            waiting.extendleft(reversed(document))


_END = "\0end"  # cannot be a line, because lines hold no NUL
