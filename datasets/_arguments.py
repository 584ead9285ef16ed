"""Argument checks that the makers share."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from visionnmf.exceptions import ParameterError

__all__ = ["RandomState", "check_choice", "check_integer", "check_real", "generator"]

RandomState = int | np.random.Generator | None


def check_integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return `value` as an int; ParameterError unless it is an integer between `low` and `high`, both allowed."""
    if (
        isinstance(value, int | np.integer)
        and not isinstance(value, bool)
        and low <= value
        and (high is None or value <= high)
    ):
        return int(value)
    allowed = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    raise ParameterError(f"{name} must be {allowed}, got {value!r}.")


def check_real(name: str, value: object, low: float, high: float = np.inf, *, open_low: bool = False) -> float:
    """Return `value` as a float; ParameterError unless it is finite and in [low, high] (]low, high] if `open_low`)."""
    if (
        isinstance(value, int | float | np.integer | np.floating)
        and not isinstance(value, bool)
        and np.isfinite(float(value))
    ):
        number = float(value)
        if low <= number <= high and not (open_low and number == low):
            return number
    allowed = f"above {low:g}" if open_low else f"of at least {low:g}"
    if np.isfinite(high):
        allowed += f" and at most {high:g}"
    raise ParameterError(f"{name} must be a finite number {allowed}, got {value!r}.")


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return `value`; ParameterError unless it is one of `choices`."""
    names = sorted(choices)
    if isinstance(value, str) and value in names:
        return value
    raise ParameterError(f"{name} must be one of {', '.join(map(repr, names))}, got {value!r}.")


def generator(random_state: RandomState) -> np.random.Generator:
    """Return the generator that `random_state` stands for; ParameterError where it stands for none."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ParameterError(
            f"random_state must be None, an integer of at least 0 or a numpy.random.Generator, got {random_state!r}."
        ) from None
