"""What long work calls as it advances, so that its caller can show how much is done."""

from collections.abc import Callable

Progress = Callable[[str, int, int | None], object]
"""Called with a stage of the work, and how much of how much of it is done (None: not known)."""

Steps = Callable[[int, int], object]
"""Called with how much of how much is done, by work of a single stage."""
