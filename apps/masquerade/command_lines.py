"""Which programs a command line runs; the text of here-documents is not taken for commands."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import chain

from visionnmf.io.text_lines import Line

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

# Programs that run another one, with the letters of their options that take a value.
_WRAPPERS = {
    "sudo": "ugphCDRTrtU",
    "doas": "uC",
    "pkexec": "",
    "runuser": "ugG",
    "env": "uCS",
    "nice": "n",
    "ionice": "cnpPu",
    "time": "fo",
    "timeout": "ks",
    "xargs": "adEILnPs",
    "watch": "nq",
    "nohup": "",
    "setsid": "",
    "exec": "a",
    "command": "",
    "builtin": "",
}
_OPERANDS = {"timeout": 1}  # words of a wrapper before the other program


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
    """Return the programs that a command line runs, wrappers such as `sudo` included; with `whole` the line."""
    # Commands are separated by pipes, semicolons and the like, and each may be wrapped. For example "sudo nice -n 5
    # make | tee log" gives sudo, nice, make and tee.
    line = line.strip()
    if not line:
        return []
    if whole:
        return [clean(line)]
    if "'" in line or '"' in line:
        line = _QUOTED.sub("_", line)  # separators within quotes do not end a command
    found: list[str] = []
    for part in _SEPARATOR.split(line) if not line.isalnum() else (line,):  # a single word needs no splitting
        _add_programs(iter(part.split()), found)
    return found


def _add_programs(words: Iterator[str], found: list[str]) -> None:
    """Append to `found` the program that a simple command runs; of sudo or nice, wrapper and wrapped program."""
    # Of the program found last, if it runs another one: the letters of its options that take a value, from _WRAPPERS.
    letters: str | None = None
    operands = 0  # words of the wrapper that are still to be skipped
    for word in words:
        if letters is not None and word[0] == "-" and len(word) > 1:
            if _takes_value(word, letters):
                next(words, None)
            continue
        if _ASSIGNMENT.match(word) or word in _SHELL:  # such as LANG=C, and words of the shell such as `then`
            continue
        if operands:
            operands -= 1
            continue
        program = clean(word.rstrip("/").rsplit("/", 1)[-1])
        if not program or program[0] in "<>#":  # a redirection or a comment: no program follows
            return
        found.append(program)
        letters = _WRAPPERS.get(program)
        if letters is None:
            return
        operands = _OPERANDS.get(program, 0)


def _takes_value(option: str, letters: str) -> bool:
    """Return whether the next word is an option's value: for ``-u``, ``-nu`` if `letters` have u, not ``-uroot``."""
    # `letters` are those of the options that take a value. Long options, with two dashes, are taken to hold theirs, as
    # in ``--user=root``.
    first = next((i for i, letter in enumerate(option) if letter in letters), None)
    return not option.startswith("--") and first == len(option) - 1


def without_here_documents(lines: Iterator[Line]) -> Iterator[Line]:
    """Replace the lines of here-documents by empty lines, so that all other lines keep their numbers.

    One that is fed to a shell stays. Text counts as a here-document only if it ends within 200 lines, before the next
    time in a history, and before a followed log falls silent. So nobody can hide commands behind ``<<``.
    """
    waiting: deque[Line] = deque()  # lines that were read as a possible document, but turned out not to be one
    while True:
        line = waiting.popleft() if waiting else next(lines, _END)
        if line is _END:
            return
        yield line
        found = _HERE.search(line) if line and "<<" in line and len(line) < 4096 else None
        if line is None or found is None or _INTERPRETER.search(line):
            continue
        # The word that ends the document, quoted in one of two ways or bare; with <<- it may be indented by tabs.
        word, tabs = found[2] or found[3] or found[4], bool(found[1])
        # what may be the document: all lines up to the one that ends it
        document: list[Line] = []
        ended = False
        for next_line in chain(list(waiting), lines):
            if waiting:
                waiting.popleft()  # the loop goes over a copy, so take the line out of the queue as well
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
