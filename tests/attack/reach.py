"""Which lines of visionnmf a case reaches, and what it is told: a case that gets further than all before is kept."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import visionnmf
from visionnmf import apps, datasets

QUOTED = re.compile("[0-9.]+|`[^`]*`|\"[^\"]*\"|'[^']*'")
OURS = tuple(str(Path(module.__path__[0]).resolve()) for module in (visionnmf, apps, datasets))


class Lines:
    """The lines that this process has reached while it was watched, by a trace of our own files."""

    def __init__(self) -> None:
        self.left: dict[CodeType, set[int]] = {}  # lines not yet reached
        self.new: set[str] = set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch this thread; what is reached for the first time is in `new`."""
        self.new = set()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        left = self.left.get(code)
        if left is None:
            ours = code.co_filename.startswith(OURS)
            left = self.left[code] = {line for *_, line in code.co_lines() if line is not None} if ours else set()
        return self._line if left else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        left = self.left[frame.f_code]
        if event == "line" and frame.f_lineno in left:
            left.discard(frame.f_lineno)
            self.new.add(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return self._line


def kind_of(error: BaseException, path: Path | None) -> str:
    """Return a message without what differs from file to file: names, numbers, what is quoted."""
    text = QUOTED.sub("", str(error).replace(str(path), "FILE"))
    return f"{type(error).__name__}: {text[:200]}"
