"""Text that was chosen by somebody else, such as a file name, made safe to print; this module imports nothing heavy."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence

LONGEST_ERROR = 10_000  # characters of an error that are looked at: it may quote a whole file
# Control characters, invisible formatting (which can reverse what follows), halves of surrogate pairs (how Python
# represents bytes of file names that are not UTF-8), and the two line separators of Unicode.
UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
JOINERS = "\u200c\u200d"  # formatting characters that Persian, Hindi and emoji need


def printable(text: object, *, markup: bool = False) -> str:
    r"""Return a text as it may be printed: it cannot steer a terminal, forge a line or reveal a password.

    Control characters, line breaks, reversed text and bytes that are not UTF-8 are shown as Python escapes them. With
    `markup` the tags of rich are escaped as well, for text that rich interprets.

    >>> printable("a\nb\x1b[2J"), printable("rtsp://me:secret@gate/1")
    ('a\\nb\\x1b[2J', 'rtsp://me:***@gate/1')
    """
    found = without_password(text)
    if not found.isprintable():
        found = "".join(map(_escaped, found))
    if markup:
        from rich.markup import escape

        found = escape(found)
    return found


def _escaped(character: str) -> str:
    """Return a character, or its escape in Python if it is unsafe to print."""
    if unicodedata.category(character) not in UNSAFE or character in JOINERS:
        return character
    return character.encode("unicode_escape").decode("ascii")


def without_password(text: object) -> str:
    """Return a source, or a sentence that names sources, with the passwords of its URLs replaced by asterisks.

    >>> without_password("rtsp://me:secret@gate/1")
    'rtsp://me:***@gate/1'
    """
    # without the scheme, whose search would take time that is quadratic in the length of a picture in a page
    return re.sub(r"(://[^/?#:@\s]*):[^/?#\s]*@", r"\1:***@", str(text))


def counted(number: int, word: str, several: str = "") -> str:
    """Return a number of things in words: ``1 image``, ``2 images``; `several` is a plural without an s.

    >>> counted(1, "image"), counted(0, "image"), counted(2, "person", "people")
    ('1 image', '0 images', '2 people')
    """
    return f"{number} {word if number == 1 else several or word + 's'}"


def as_column(values: Sequence[object], deviations: Sequence[float | None]) -> list[str]:
    """Return the values of a column as text: floats with as many decimals, and their standard deviations if known.

    They show four digits of the largest float and one of the smallest, with at most six decimals, and no zeros that
    all would end with. What is not known is empty.

    >>> as_column([46.67, 5.5, None], [None, 0.125, None]), as_column([120.5, 0.003], [None, None])
    (['46.67', '5.50 ± 0.12', ''], ['120.500', '0.003'])
    """
    found = [abs(value) for value in values if isinstance(value, float) and math.isfinite(value) and value]
    digits = 0
    if not all(value.is_integer() for value in found):
        first, last = (-math.floor(math.log10(some)) for some in (max(found), min(found)))
        digits = max(0, first + 3, min(last, 6))
        while digits and all(
            round(value, digits - 1) == round(value, digits) for value in found
        ):  # zeros in the whole column
            digits -= 1
    texts = []
    for value, deviation in zip(values, deviations, strict=True):
        text = "" if value is None or value != value else printable(value)
        if text and isinstance(value, float):
            text = f"{value:.{digits}f}" + ("" if deviation is None else f" ± {float(f'{deviation:.2g}'):g}")
        texts.append(text)
    return texts


def one_line(error: BaseException) -> str:
    """Return what an error says, on one line and without a full stop; its class name if it says nothing."""
    return (" ".join(str(error)[:LONGEST_ERROR].split()) or type(error).__name__).removesuffix(".")


def sized(shape: tuple[int, ...]) -> str:
    """Return the width and height of a picture (height, width[, channels]) in words."""
    return f"{shape[1]} x {shape[0]} pixels"
