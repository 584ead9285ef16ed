"""One file an algorithm.

A solver improves both factors by turns (``iterate``) and solves the half-problem "codes for fixed components"
(``codes``). Both take the codes transposed, ``Wt`` of shape ``(n_components, n_samples)``.

======  ================  ===========================================================  ==============================
name    loss              algorithm                                                    source
======  ================  ===========================================================  ==============================
admm    manhattan         alternating directions with a growing penalty (the default)  ours: docs/derivations/admm.md
rri     manhattan         coordinate descent by weighted medians                       Guan et al. 2012, Algorithm 1
hals    frobenius         extrapolated coordinate descent through Gram matrices        Ang & Gillis 2019, Algorithm 3
ccd     kullback-leibler  cyclic coordinate descent, with a step of our own            Hsieh & Dhillon 2011
======  ================  ===========================================================  ==============================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from visionnmf.exceptions import ParameterError

from . import admm, ccd, hals, rri
from ._progress import Progress

__all__ = ["SOLVERS", "Progress", "Solver", "choose"]


class Solver(NamedTuple):
    """One solver: its two functions, and the losses that it minimises."""

    iterate: Callable[..., Iterator[Progress]]
    codes: Callable[..., None]
    losses: frozenset[str]


SOLVERS: dict[str, Solver] = {
    "admm": Solver(admm.iterate, admm.codes, frozenset({"manhattan"})),
    # coordinate descent can stall short of the optimum that the codes' convex problem has
    "rri": Solver(rri.iterate, admm.codes, frozenset({"manhattan"})),
    "hals": Solver(hals.iterate, hals.codes, frozenset({"frobenius"})),
    "ccd": Solver(ccd.iterate, ccd.codes, frozenset({"kullback-leibler"})),
}

# Measured (benchmarks/engine.py solvers): for one component both reach the same objective and coordinate descent is the
# faster; for more ADMM goes lower as a rule.
RRI_MAX_COMPONENTS = 1


def choose(solver: str, loss: str, n_components: int) -> str:
    """Resolve ``"auto"`` and check that the solver can minimise the loss.

    Parameters
    ----------
    solver : str
        "auto" or a key of :data:`SOLVERS`.
    loss : str
    n_components : int

    Returns
    -------
    str
        A key of :data:`SOLVERS`.

    Raises
    ------
    ParameterError
        When there is no such solver, or it cannot minimise the loss; the message lists those that can.
    """
    able = sorted(name for name, entry in SOLVERS.items() if loss in entry.losses)
    if solver == "auto":
        if loss == "manhattan":
            return "rri" if n_components <= RRI_MAX_COMPONENTS else "admm"
        return able[0]
    if solver not in able:
        raise ParameterError(f"solver must be 'auto' or one of {able} for loss={loss!r}; got {solver!r}")
    return solver
