"""Signals that end a run, at once or after the work has finished in good order, and the exit code that they give."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from visionnmf.exceptions import VisionNMFError

ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
AGAIN_AFTER = 0.01  # seconds until a signal is sent again that came at a moment where nothing may be raised

_come = 0  # kept because a signal inside a compiler's callback comes out as another exception, or not at all


def number_come() -> int:
    """Return the number of the signal that was received, or 0."""
    return _come


def on_signal(number: int, frame: FrameType | None) -> None:
    """Raise an exception at a signal, so that half-written files are removed on the way out.

    `_come` remembers the number, because a compiler's callback may swallow the exception. While numba loads a cached
    kernel nothing may be raised, and the signal is sent again a little later.
    """
    global _come
    _come = number
    if _is_loading_a_kernel(frame):
        again = threading.Timer(AGAIN_AFTER, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
        return
    raise KeyboardInterrupt


def _is_loading_a_kernel(frame: FrameType | None) -> bool:
    """Return whether numba is handing LLVM a cached kernel: an exception there would be lost and crash the process."""
    while frame is not None:
        if frame.f_code.co_name.startswith("_raw_object_cache"):
            return True
        frame = frame.f_back
    return False


def ending_code(ended: KeyboardInterrupt | SystemExit) -> Any:
    """Return the exit code of an ended run, or 128 and the signal's number, which typer reports as Ctrl-C."""
    interrupted = 128 + signal.SIGINT
    if isinstance(ended, SystemExit) and ended.code != interrupted:
        return ended.code
    return 128 + _come if _come else interrupted


@contextmanager
def until_signal() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C, SIGTERM or SIGHUP only ask for the end; after the last two the block ends by raising.

    Yields the function that says whether the end was asked for. A second signal ends the process at once. An error of
    ours after SIGTERM or SIGHUP counts as that signal.
    """
    come: list[int] = []  # the numbers of the signals

    def ask(number: int, frame: FrameType | None) -> None:
        """Ask for the end, or raise what ends the process at the second signal."""
        come.append(number)
        if len(come) > 1:
            on_signal(number, frame)

    mine = threading.current_thread() is threading.main_thread()  # only the main thread may set handlers
    before = {number: signal.getsignal(number) for number in ENDING if mine}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, ask)
    try:
        yield lambda: bool(come)
    except VisionNMFError:  # a source may fail because it was asked to end, and the exit code is that of the signal
        if come[:1] in ([], [signal.SIGINT]):
            raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if come[:1] not in ([], [signal.SIGINT]):
        on_signal(come[0], None)
