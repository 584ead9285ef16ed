"""Signals that end a run, and the exit code that they give it."""

from __future__ import annotations

import signal
from typing import Any

__all__ = ["Terminated", "ending_code", "number_come", "on_signal"]

_come = 0  # within a compiler's callback a signal comes out as some other error, or not at all


class Terminated(KeyboardInterrupt):
    """Another signal than Ctrl-C's wants an end."""


def number_come() -> int:
    """Return the number of the signal that has come; 0 before one has."""
    return _come


def on_signal(number: int, _frame: object) -> None:
    """End at a signal by an exception, so that half-written files are removed."""
    global _come
    _come = number
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def ending_code(ended: KeyboardInterrupt | SystemExit) -> Any:
    """Return the exit code where a run has ended, or a signal came before or after it, which typer takes for Ctrl-C."""
    interrupted = 128 + signal.SIGINT
    if isinstance(ended, SystemExit) and ended.code != interrupted:
        return ended.code
    return 128 + _come if _come else interrupted
