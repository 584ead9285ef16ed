"""Signals that end a run, and the exit code that they give it."""

from __future__ import annotations

import signal
from typing import Any

__all__ = ["Terminated", "ending_code", "number_come", "on_signal"]

_come = 0  # kept because a signal inside a compiler's callback comes out as another exception, or not at all


class Terminated(KeyboardInterrupt):
    """A signal other than Ctrl-C asks the process to end."""


def number_come() -> int:
    """Return the number of the signal that was received, or 0."""
    return _come


def on_signal(number: int, _frame: object) -> None:
    """Raise an exception at a signal, so that half-written files are removed on the way out."""
    global _come
    _come = number
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def ending_code(ended: KeyboardInterrupt | SystemExit) -> Any:
    """Return the exit code of a run that has ended, or of a signal, each of which typer reports as Ctrl-C."""
    interrupted = 128 + signal.SIGINT
    if isinstance(ended, SystemExit) and ended.code != interrupted:
        return ended.code
    return 128 + _come if _come else interrupted
