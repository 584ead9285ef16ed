"""Work that goes on until a signal ends it, and then has something left to do."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .signals import on_signal

__all__ = ["Ending", "until_signal"]


class Ending:
    """Whether a signal has asked for the end; called, it says so."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self) -> bool:
        """Return whether to end."""
        return bool(self.number)

    def on_signal(self, number: int, frame: object) -> None:
        """Ask for the end; who asks twice gets it at once."""
        if self.number:
            on_signal(number, frame)
        self.number = number


@contextmanager
def until_signal() -> Iterator[Ending]:
    """Let the first Ctrl-C, SIGTERM or SIGHUP ask for the end in place of ending; raises at the last for the two."""
    ending = Ending()
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    mine = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in numbers if mine}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:  # as under nohup
            signal.signal(number, ending.on_signal)
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if ending.number not in (0, signal.SIGINT):
        on_signal(ending.number, None)
