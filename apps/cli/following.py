"""Work that goes on until a signal asks it to end, and then finishes in an orderly way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .signals import on_signal

__all__ = ["Ending", "until_signal"]


class Ending:
    """A function without arguments that returns whether a signal has asked for the end."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self) -> bool:
        """Return whether the work should end."""
        return bool(self.number)

    def on_signal(self, number: int, frame: object) -> None:
        """Ask for the end; a second signal ends the process at once."""
        if self.number:
            on_signal(number, frame)
        self.number = number


@contextmanager
def until_signal() -> Iterator[Ending]:
    """Let the first Ctrl-C, SIGTERM or SIGHUP only ask for the end; after the last two the block ends by raising."""
    ending = Ending()
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    mine = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in numbers if mine}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, ending.on_signal)
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if ending.number not in (0, signal.SIGINT):
        on_signal(ending.number, None)
