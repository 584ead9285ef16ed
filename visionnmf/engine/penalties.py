"""Constraints on a factor. One for now: the box, which contains non-negativity."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from visionnmf.exceptions import ParameterError

__all__ = ["NONNEGATIVE", "Box"]


class Box(NamedTuple):
    """``low <= entry <= high`` for every entry of a factor (MahNMF-BC: Guan et al. 2012, section 4.1).

    Attributes
    ----------
    low : float, >= 0
    high : float, > low
        May be infinite.
    """

    low: float = 0.0
    high: float = float("inf")

    @classmethod
    def parse(cls, value: Any, name: str) -> Box:
        """Make a box of a user's ``(low, high)``, where ``high`` may be None for no bound.

        Parameters
        ----------
        value : object
            What the user gave.
        name : str
            The parameter's name, for the message.

        Returns
        -------
        Box

        Raises
        ------
        ParameterError
            When `value` is not such a pair.
        """
        try:
            low, high = value
            box = cls(float(low), float("inf") if high is None else float(high))
        except (TypeError, ValueError):
            raise ParameterError(f"{name} must be a pair (low, high), high may be None; got {value!r}") from None
        if not 0 <= box.low < box.high or box.low > 1e30:
            raise ParameterError(f"{name} must satisfy 0 <= low < high, low at most 1e30; got {value!r}")
        return box

    @property
    def is_cone(self) -> bool:
        """Whether a factor may be multiplied by any positive number."""
        return self.low == 0 and np.isinf(self.high)

    def of(self, dtype: DTypeLike) -> tuple[Any, Any]:
        """Return the bounds as numbers of a dtype, as the kernels want them.

        Parameters
        ----------
        dtype : dtype
            Of the factor.

        Returns
        -------
        tuple of two numbers
            ``(low, high)``.
        """
        number: Any = np.dtype(dtype).type
        return number(self.low), number(self.high)


NONNEGATIVE = Box()
