"""The former module of checks of paths."""

from .input_paths import check_exists as check_there

__all__ = ["check_there"]
