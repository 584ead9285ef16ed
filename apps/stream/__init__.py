"""Learn components from a stream: a folder of images, a video, a file larger than memory, or standard input.

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .learning import StreamReport as StreamReport
    from .learning import learn_stream as learn_stream
    from .settings import Checkpoints as Checkpoints
    from .settings import ComponentsPicture as ComponentsPicture
    from .settings import SampleSource as SampleSource
    from .settings import StreamLearning as StreamLearning

_LAZY = {
    "Checkpoints": ".settings",
    "ComponentsPicture": ".settings",
    "SampleSource": ".settings",
    "StreamLearning": ".settings",
    "StreamReport": ".learning",
    "learn_stream": ".learning",
}

__all__ = list(_LAZY)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name], __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
