"""Checks of parameters that the estimators share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from visionnmf.exceptions import ParameterError

__all__ = ["check_choice", "check_count", "check_nonnegative"]


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Return `value` when it is one of `choices`, else raise ParameterError listing them."""
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(f"{name} must be one of {list(choices)}; got {value!r}")
    return value


def check_count(value: Any, name: str) -> int:
    """Return `value` when it is a whole number >= 1, else raise ParameterError."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ParameterError(f"{name} must be a whole number >= 1; got {value!r}")
    return int(value)


def check_nonnegative(value: Any, name: str) -> float:
    """Return `value` when it is a finite number >= 0, else raise ParameterError."""
    if isinstance(value, bool) or not isinstance(value, Real) or not float(value) >= 0:
        raise ParameterError(f"{name} must be a number >= 0; got {value!r}")
    if math.isinf(value):
        raise ParameterError(f"{name} must be finite; got {value!r}")
    return float(value)
