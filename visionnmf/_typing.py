"""Types that annotations of several modules need."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]  # of any shape and dtype; signatures and docstrings say which
