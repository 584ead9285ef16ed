"""What a solver says after each iteration."""

from typing import NamedTuple

__all__ = ["Progress"]


class Progress(NamedTuple):
    """Progress of one iteration.

    Attributes
    ----------
    objective : float
        Of the factors before the iteration: known at no cost when it ends.
    change : float, >= 0
        The solver's measure of how far the factors still move, relative to the size of the problem; a fit has
        converged when it falls below the tolerance.
    """

    objective: float
    change: float
