"""The table of solvers, and which of them can work on a problem.

A solver updates both factors in turn, in place: ``iterate(problem, Wt, H, *, max_iter)``, with the codes transposed,
``Wt`` of shape ``(n_components, n_samples)``. It yields a :class:`..stopping.Iteration` after each one. A function that
updates the codes of a problem also updates its components, when it is given the transposed problem. One called `half`
returns the loss *before* the update, because that is a by-product of the residuals.

Finding the codes of fixed components is a separate problem, whichever solver found the components. The record of the
loss names the function of :mod:`..solving` for it.

===========  ================  =========================================================  ==============================
name         loss              algorithm                                                  source
===========  ================  =========================================================  ==============================
admm         robust [1]_       alternating directions, growing penalty; the default       ours: docs/derivations/admm.md
rri          manhattan [2]_    coordinate descent by weighted medians                     Guan et al. 2012, Algorithm 1
ogm          manhattan [2]_    Nesterov's smoothing, warm-started                         ours: docs/derivations/ogm.md
ogm-paper    manhattan [2]_    Nesterov's smoothing as published; ogm-printed: see ogm    Guan et al. 2012, Algorithm 3
hals         frobenius         extrapolated coordinate descent through Gram matrices      Ang & Gillis 2019, Algorithm 3
nenmf        frobenius         accelerated proximal gradient for each factor in turn      Guan et al. 2012 (NeNMF)
nenmf-paper  frobenius         the same as published: one step length, no restarts        Guan et al. 2012 (NeNMF)
bpp          frobenius         exact halves by block principal pivoting                   Kim & Park 2008
pg           frobenius         projected gradient, a baseline                             Lin 2007
svd          frobenius         truncated SVD: the trivial baseline, with both signs       Eckart & Young 1936
sbcd         all divergences   weighted least squares by coordinate descent, guarded      ours: docs/derivations/sbcd.md
ccd          kullback-leibler  cyclic coordinate descent, with a step of our own          Hsieh & Dhillon 2011
spg          divergences [3]_  spectral proximal gradient, for any penalty                Wright et al. 2009
mu           all divergences   multiplicative updates, the baseline                       Fevotte & Idier 2011
sbcd-plain   all divergences   sBCD as published; al-a, al-b: its other weights           Li, Lebanon & Park 2012
gd           all divergences   gradient descent with a fixed step, a baseline             Lee & Seung 2000
[4]_         frobenius         baselines of the papers of NeNMF and sBCD                  :mod:`.baselines.nnls`
===========  ================  =========================================================  ==============================

.. [1] Manhattan, elastic net, Huber, L2,1, Kullback-Leibler.
.. [2] Also the elastic net.
.. [3] Except least squares, which does not need it.
.. [4] pnls, qn, pbb, cbgp, as, cg and gcd.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from visionnmf._checks import shown
from visionnmf.engine.losses import LOSSES, LossRecord
from visionnmf.engine.penalties import ANY, L1, L2, SEPARABLE, Graph, Term
from visionnmf.engine.problem import Problem
from visionnmf.engine.stopping import Iteration
from visionnmf.exceptions import ParameterError

from . import admm, hals, ogm, rri, sbcd, spg
from .baselines import divergences, least_squares, nenmf, nnls

Iterate = Callable[..., Iterator[Iteration]]
FindCodes = Callable[[Problem, NDArray[Any], NDArray[Any]], None]
"""A function ``codes(problem, Wt, H)`` that overwrites `Wt` with the codes of fixed components `H`, row by row."""


class Solver(NamedTuple):
    """One solver, and what it can do.

    `minimises` tells from the record of a loss whether the solver minimises it. `terms` are the penalty terms that it
    supports on either factor, in addition to non-negativity; :data:`..penalties.ANY` if it supports every term with a
    gradient or a prox. `weights` says whether entries may have weights, or be missing, and `sparse` whether `X` may be
    sparse, for a loss that has a sparse form: "gaps" means only for those whose unstored entries must be missing.
    `codes` finds the codes of its components if the function that the loss names does not suit, as for a baseline whose
    factors have both signs. `elsewhere` names data that are not arrays of NumPy on which the solver runs as well: keys
    of :data:`ELSEWHERE`.
    """

    iterate: Iterate
    minimises: Callable[[LossRecord], bool]
    terms: tuple[type[Term], ...] = ()
    weights: bool = False
    sparse: bool | Literal["gaps"] = False
    codes: FindCodes | None = None
    elsewhere: Collection[str] = ()

    @property
    def losses(self) -> frozenset[str]:
        """The names of the losses that it minimises; ``minimises(record)`` says that for one loss."""
        return frozenset(name for name, record in LOSSES.items() if self.minimises(record))

    def obstacle(self, problem: Problem) -> str | None:
        """Return a clause that says why this solver cannot work on a problem, or None if it can.

        ``minimises(record)`` says whether it minimises a loss, `terms` are the penalty terms that it supports, and
        `weights` whether it takes weights or missing entries. A sparse `X` whose `zero_weight` is 0 has missing ones.
        Both the loss (``record.takes_sparse``) and this solver must have a form for such an `X`.
        """
        record = problem.loss.record
        if not self.minimises(record):
            return f"does not minimise {problem.loss.label}"
        for side in ("W", "H"):
            kinds = (problem.penalty_W if side == "W" else problem.penalty_H).beyond(self.terms)
            if kinds:
                return f"does not take {' and '.join(kinds)} in penalty_{side}"
        missing = problem.is_sparse and problem.zero_weight == 0
        if (problem.weights is not None or missing) and not self.weights:
            return "does not take weights or missing entries"
        if problem.is_sparse and not (record.takes_sparse(problem.zero_weight) and self._takes_sparse(record)):
            return f"does not take sparse X with {problem.loss.label}"
        return None

    def _takes_sparse(self, record: LossRecord) -> bool:
        """Return whether the solver takes the sparse form of a loss.

        If `sparse` is "gaps", it takes only losses whose form leaves out the entries that are not stored, which must be
        missing; other forms, with ``record.sparse.zeros``, can count them as 0.
        """
        if self.sparse == "gaps":
            return record.sparse is not None and not record.sparse.zeros
        return self.sparse


def _only(names: Collection[str]) -> Callable[[LossRecord], bool]:
    """Return a function that says of the record of a loss whether its name is one of these."""
    return lambda record: record.name in names


def _divergence(record: LossRecord) -> bool:
    """Return whether a loss is a beta-divergence."""
    return record.is_divergence


# data that are not arrays of NumPy: the engine's packages :mod:`..distributed` and :mod:`..arrays`
ELSEWHERE = {"blocks": "data in blocks of rows", "device": "an array on a device"}

LEAST_SQUARES = _only({"frobenius"})

# In the order in which "auto" tries them: measured by benchmarks/solvers.py.
SOLVERS: dict[str, Solver] = {
    "hals": Solver(hals.iterate, LEAST_SQUARES, ANY, weights=True, sparse=True, elsewhere=ELSEWHERE),
    "nenmf": Solver(least_squares.nenmf, LEAST_SQUARES, ANY, sparse=True, elsewhere=("device",)),
    "nenmf-paper": Solver(nenmf.nenmf_as_published, LEAST_SQUARES, (L1, L2, Graph), sparse=True),
    "bpp": Solver(least_squares.bpp, LEAST_SQUARES, SEPARABLE, sparse=True),
    "pg": Solver(least_squares.pg, LEAST_SQUARES, SEPARABLE, sparse=True),
    "svd": Solver(least_squares.svd, LEAST_SQUARES, sparse=True, codes=least_squares.svd_codes),
    "sbcd": Solver(sbcd.iterate, _divergence, SEPARABLE, weights=True, sparse="gaps"),
    "ccd": Solver(sbcd.iterate_exact, _only({"kullback-leibler"}), SEPARABLE, weights=True, sparse=True),
    # least squares does not need it
    "spg": Solver(spg.iterate, lambda record: _divergence(record) and not LEAST_SQUARES(record), ANY, weights=True),
    "admm": Solver(admm.iterate, lambda record: record.proximal is not None, ANY, weights=True, elsewhere=ELSEWHERE),
    "rri": Solver(rri.iterate, _only(rri.LOSSES), (*SEPARABLE, Graph), weights=True, sparse=True),
    "mu": Solver(divergences.mu, _divergence, (L1, L2, Graph), weights=True, elsewhere=("device",)),
    "sbcd-plain": Solver(divergences.sbcd_plain, _divergence, SEPARABLE, weights=True),
    "al-a": Solver(divergences.al_a, _divergence, SEPARABLE, weights=True),
    "al-b": Solver(divergences.al_b, _divergence, SEPARABLE, weights=True),
    "gd": Solver(divergences.gd, _divergence, weights=True),
    **{name: Solver(iterate, LEAST_SQUARES, sparse=True) for name, iterate in nnls.METHODS.items()},
    "ogm": Solver(ogm.iterate, _only(ogm.LOSSES), ANY, weights=True),
    "ogm-paper": Solver(ogm.iterate_as_published, _only(ogm.LOSSES), ANY, weights=True),
    "ogm-printed": Solver(ogm.iterate_as_printed, _only(ogm.LOSSES), ANY, weights=True),
}


def check_solver(solver: Any) -> None:
    """Raise ParameterError if `solver` is neither "auto" nor a key of :data:`SOLVERS`."""
    if not isinstance(solver, str) or solver not in ("auto", *SOLVERS):
        raise ParameterError(f"solver must be 'auto' or one of {sorted(SOLVERS)}; got {shown(solver)}")


def choose(solver: str, problem: Problem, *, elsewhere: str = "") -> str:
    """Return the key of the solver for a problem: `solver` itself, or the first suitable one for "auto".

    `elsewhere` is a key of :data:`ELSEWHERE` if the data are not an array of NumPy. An entry of the table says why it
    cannot work on a problem (`obstacle`), or nothing if it can. Raises ParameterError if there is no such solver or it
    cannot work on the problem; the message says why, and names the solvers that can.
    """
    usable = {name: entry for name, entry in SOLVERS.items() if not elsewhere or elsewhere in entry.elsewhere}
    able = [name for name, entry in usable.items() if entry.obstacle(problem) is None]
    if elsewhere and not any(entry.minimises(problem.loss.record) for entry in usable.values()):
        losses = sorted({name for entry in usable.values() for name in entry.losses})
        raise ParameterError(f"loss must be one of {losses} for {ELSEWHERE[elsewhere]}; got {problem.loss.label}")
    if solver == "auto":
        if not able:
            raise ParameterError(_no_solver(problem))
        return able[0]
    check_solver(solver)
    obstacle = SOLVERS[solver].obstacle(problem) if solver in usable else f"does not take {ELSEWHERE[elsewhere]}"
    if obstacle:
        others = f", as {sorted(able)} can" if able else ""
        raise ParameterError(f"solver must be able to work on this problem{others}; got {solver!r}, which {obstacle}")
    return solver


def _no_solver(problem: Problem) -> str:
    """Return one sentence that says why no solver can work on a problem, with the reasons of its loss's solvers."""
    reasons: dict[str, list[str]] = {}
    for name, entry in SOLVERS.items():
        if entry.minimises(problem.loss.record):
            reasons.setdefault(str(entry.obstacle(problem)), []).append(name)
    listed = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
    return f"X and penalties must be what a solver for {problem.loss.label} takes; got what none does ({listed})"
