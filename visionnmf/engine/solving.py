"""Solving a problem: the table of solvers, the choice of one, fits of both factors, and codes of fixed components.

A solver updates both factors in turn, in place: ``iterate(problem, Wt, H, *, max_iter)``, with the codes transposed,
``Wt`` of shape ``(n_components, n_samples)``. It yields a :class:`.stopping.Iteration` after each one. A function that
updates the codes of a problem also updates its components, when it is given the transposed problem. One called `half`
returns the loss *before* the update, because that is a by-product of the residuals.

Finding the codes of fixed components is a separate problem, whichever solver found the components: the record of the
loss names a key of :data:`CODES`. That problem is convex for all losses except some beta-divergences, and it separates
by row. Graph and group penalties couple the rows, and are therefore not supported there.

===========  ================  =========================================================  ==============================
name         loss              algorithm                                                  source
===========  ================  =========================================================  ==============================
admm         robust [1]_       alternating directions, growing penalty; the default       ours: docs/derivations/admm.md
rri          manhattan [2]_    coordinate descent by weighted medians                     Guan et al. 2012, Algorithm 1
ogm          manhattan [2]_    Nesterov's smoothing, warm-started                         ours: docs/derivations/ogm.md
ogm-paper    manhattan [2]_    Nesterov's smoothing as published; ogm-printed: see ogm    Guan et al. 2012, Algorithm 3
rri-printed  manhattan [2]_    weighted medians, each factor until equation 8 holds       Guan et al. 2012, Algorithm 1
hals         frobenius         extrapolated coordinate descent through Gram matrices      Ang & Gillis 2019, Algorithm 3
nenmf        frobenius         accelerated proximal gradient for each factor in turn      Guan et al. 2012 (NeNMF)
nenmf-paper  frobenius         the same as published: one step length, no restarts        Guan et al. 2012 (NeNMF)
sbcd         all divergences   weighted least squares by coordinate descent, guarded      ours: docs/derivations/sbcd.md
ccd          kullback-leibler  cyclic coordinate descent, with a step of our own          Hsieh & Dhillon 2011
spg          divergences [3]_  spectral proximal gradient, for any penalty                Wright et al. 2009
mu           all divergences   multiplicative updates, the baseline                       Fevotte & Idier 2011
sbcd-plain   all divergences   sBCD as published; al-a, al-b: its other weights           Li, Lebanon & Park 2012
===========  ================  =========================================================  ==============================

.. [1] Manhattan, elastic net, Huber, L2,1, Kullback-Leibler.
.. [2] Also the elastic net.
.. [3] Except least squares, which does not need it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from visionnmf._checks import shown
from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError

from .arrays import admm as device_admm, descent as device_descent
from .arrays.namespace import is_not_numpy, namespace_of
from .blocks import one_blas_thread
from .losses import LOSSES, Loss, LossRecord
from .optimality import optimality, projected_gradient
from .penalties import ANY, L1, L2, SEPARABLE, Graph, Penalties, Simplex, Term
from .problem import Problem, Report
from .solvers import admm, hals, mu, nenmf, ogm, rri, sbcd, spg
from .stopping import Callback, Fit, Iteration, StopAfter, exact_objective, run

UNCHANGED = 40  # iterations; of the rule "clusters"

Iterate = Callable[..., Iterator[Iteration]]
FindCodes = Callable[[Problem, Array, Array], None]
"""A function ``codes(problem, Wt, H)`` that overwrites `Wt` with the codes of fixed components `H`, row by row."""


class Solver(NamedTuple):
    """One solver, and what it can do.

    `minimises` tells from the record of a loss whether the solver minimises it. `terms` are the penalty terms that it
    supports on either factor, in addition to non-negativity; :data:`.penalties.ANY` if it supports every term with a
    gradient or a prox. `weights` says whether entries may have weights, or be missing, and `sparse` whether `X` may be
    sparse, for a loss that has a sparse form.
    `elsewhere` says whether the solver runs on data that are not arrays of NumPy as well, and `published` whether it is
    a paper's method as printed, whose own codes are the result.
    """

    iterate: Iterate
    minimises: Callable[[LossRecord], bool]
    terms: tuple[type[Term], ...] = ()
    weights: bool = False
    sparse: bool = False
    elsewhere: bool = False
    published: bool = False

    @property
    def losses(self) -> frozenset[str]:
        """The names of the losses that it minimises; ``minimises(record)`` says that for one loss."""
        return frozenset(name for name, record in LOSSES.items() if self.minimises(record))

    def obstacle(self, problem: Problem) -> str | None:
        """Return a clause that says why this solver cannot work on a problem, or None if it can."""
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
        if problem.is_sparse and not (record.sparse is not None and self.sparse):
            return f"does not take sparse X with {problem.loss.label}; make X dense by toarray()"
        return None


def _only(names: Collection[str]) -> Callable[[LossRecord], bool]:
    """Return a function that says of the record of a loss whether its name is one of these."""
    return lambda record: record.name in names


def _divergence(record: LossRecord) -> bool:
    """Return whether a loss is a beta-divergence."""
    return record.is_divergence


ELSEWHERE = {"blocks": "data in blocks of rows", "device": "an array on a device"}

LEAST_SQUARES = _only({"frobenius"})

# In the order in which "auto" tries them: measured by benchmarks/solvers.py.
SOLVERS: dict[str, Solver] = {
    "hals": Solver(hals.iterate, LEAST_SQUARES, ANY, weights=True, sparse=True, elsewhere=True),
    "nenmf": Solver(nenmf.iterate, LEAST_SQUARES, ANY, sparse=True),
    "nenmf-paper": Solver(nenmf.iterate_as_published, LEAST_SQUARES, (L1, L2, Graph), sparse=True, published=True),
    "sbcd": Solver(sbcd.iterate, _divergence, SEPARABLE, weights=True),
    "ccd": Solver(sbcd.iterate_exact, _only({"kullback-leibler"}), SEPARABLE, weights=True, sparse=True),
    "spg": Solver(spg.iterate, lambda record: _divergence(record) and not LEAST_SQUARES(record), ANY, weights=True),
    "admm": Solver(admm.iterate, lambda record: record.proximal is not None, ANY, weights=True, elsewhere=True),
    "rri": Solver(rri.iterate, _only(rri.LOSSES), (*SEPARABLE, Graph), weights=True, sparse=True, published=True),
    "mu": Solver(mu.iterate, _divergence, (L1, L2, Graph), weights=True, sparse=True, published=True),
    **{
        name: Solver(
            partial(sbcd.iterate_as_published, weights_from=source),
            _divergence,
            SEPARABLE,
            weights=True,
            published=True,
        )
        for name, source in (("sbcd-plain", "model"), ("al-a", "data"), ("al-b", "nothing"))
    },
    "ogm": Solver(ogm.iterate, _only(ogm.LOSSES), ANY, weights=True),
    "ogm-paper": Solver(ogm.iterate_as_published, _only(ogm.LOSSES), ANY, weights=True, published=True),
    "ogm-printed": Solver(ogm.iterate_as_printed, _only(ogm.LOSSES), ANY, weights=True, published=True),
    "rri-printed": Solver(rri.iterate_as_printed, _only(rri.LOSSES), (*SEPARABLE, Graph), weights=True, published=True),
}

# What runs in place of the solvers that take data elsewhere, on a device.
ON_DEVICE: dict[str, Iterate] = {"admm": device_admm.iterate, "hals": device_descent.iterate}


def check_solver(solver: Any) -> None:
    """Raise ParameterError if `solver` is neither "auto" nor a key of :data:`SOLVERS`."""
    if not isinstance(solver, str) or solver not in ("auto", *SOLVERS):
        raise ParameterError(f"solver must be 'auto' or one of {sorted(SOLVERS)}; got {shown(solver)}")


def choose(solver: str, problem: Problem, *, elsewhere: str = "") -> str:
    """Return the name of the solver for a problem, the first able one for "auto"; raise ParameterError without one."""
    usable = {name: entry for name, entry in SOLVERS.items() if not elsewhere or entry.elsewhere}
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


# --- fits -------------------------------------------------------------------------------------------------------------


def fit(
    problem: Problem,
    Wt: Any,
    H: Any,
    *,
    solver: str,
    max_iter: int,
    tol: float,
    stop: str = "auto",
    callback: Callback | None = None,
    rival: float = math.inf,
) -> Fit:
    """Minimise a problem over both factors, in place; `callback(iteration, objective)` stops it by a true value.

    The end of a plateau is not waited for above the objective `rival`, that of a better fit.
    """
    rule = None if stop == "auto" else STOPPING_RULES[stop](problem, Wt, H, tol)
    on_device = is_not_numpy(problem.X)  # where the gradient is not computed
    return run(
        (ON_DEVICE[solver] if on_device else SOLVERS[solver].iterate)(problem, Wt, H, max_iter=max_iter),
        problem.loss,
        tol=tol,
        rule=rule,
        callback=callback,
        objective=lambda: problem.objective(Wt, H),
        optimality=None
        if on_device
        else lambda: 0.0 if rival < math.inf and problem.objective(Wt, H) > rival else optimality(problem, Wt, H),
        exact_objective=lambda: exact_objective(problem),
    )


# --- the stopping rules of papers -------------------------------------------------------------------------------------


def _small_decrease(problem: Problem, Wt: Array, H: Array, tol: float) -> StopAfter:
    """Return the rule of equation 4 of MahNMF: an iteration changes the objective by at most `tol`."""
    return lambda before: abs(before - problem.objective(Wt, H)) <= tol


def _small_gradient(problem: Problem, Wt: Array, H: Array, tol: float) -> StopAfter:
    """Return the rule of equation 22 of NeNMF: the projected gradient has the share `tol` of its norm at the start."""
    if problem.loss.record.kink:
        raise ParameterError(
            f"stop must be another rule for {problem.loss.label}; got 'projected-gradient', but it has kinks"
        )
    for side, penalty in (("W", problem.penalty_W), ("H", problem.penalty_H)):
        if penalty.entry_bounds(np.float64) is None:
            raise ParameterError(
                f"stop must be another rule with {penalty.constraint.kind} in penalty_{side}; got "
                "'projected-gradient', which projects at bounds only"
            )
    first = projected_gradient(problem, Wt, H)
    return lambda before: projected_gradient(problem, Wt, H) <= tol * first


def _same_clusters(problem: Problem, Wt: Array, H: Array, tol: float) -> StopAfter:
    """Return the rule of section 5.2 of MahNMF for KLNMF: no sample's largest code moves in 40 iterations."""
    found, unchanged = Wt.argmax(axis=0), 0

    def after(before: float) -> bool:
        """Return whether the last 40 iterations left every sample with the component that it had."""
        nonlocal found, unchanged
        last, found = found, Wt.argmax(axis=0)
        unchanged = unchanged + 1 if np.array_equal(last, found) else 0
        return unchanged >= UNCHANGED

    return after


STOPPING_RULES: dict[str, Callable[[Problem, Array, Array, float], StopAfter]] = {
    "decrease": _small_decrease,
    "projected-gradient": _small_gradient,
    "clusters": _same_clusters,
}
"""Rules by name: each takes a problem, the factors at the start, which a fit changes in place, and the tolerance."""


class Found(NamedTuple):
    """What a fit finds, wherever the data lie; its arrays belong to the library of the data."""

    solver: str
    loss: Loss
    fit: Fit  # its last objective is evaluated again for the final codes, in the report
    components: Any  # (r, n)
    norms: Any  # (r,), what the components were divided by
    codes: Any  # (n_samples, r), or None if they are not wanted
    report: Report
    optimality: float
    penalties: tuple[Penalties, Penalties]  # of the codes and of the components
    ridge: float = 0.0  # the l2 penalty on both factors that stands for the parameter `nuclear`; the estimator adds it
    apart: float = 0.0  # the relative difference of the best two starts, where it tells of other minima


def evaluate(
    problem: Problem, row_scale: Any, solver: str, result: Fit, Wt: Any, H: Any, norms: Any, *, measure: bool
) -> Found:
    """Return what a fit has found, with the figures of its final codes `Wt` (r, n_samples) and components."""
    codes = Wt.T if is_not_numpy(Wt) else np.ascontiguousarray(Wt.T)
    if row_scale is not None:
        Wt = Wt * row_scale
    final = problem.rescaled(norms)
    report = Report.of(final, Wt, H)
    distance = optimality(final, Wt, H) if measure and not report.is_zero else math.nan
    return Found(solver, problem.loss, result, H, norms, codes, report, distance, (final.penalty_W, final.penalty_H))


# --- codes of fixed components ----------------------------------------------------------------------------------------


class CodesSolver(NamedTuple):
    """A function that finds codes, a `quick` one or None, and the penalty terms that it supports."""

    codes: FindCodes
    terms: tuple[type[Term], ...] = (*SEPARABLE, Simplex)
    quick: FindCodes | None = None


def _or_simplex(codes: FindCodes) -> FindCodes:
    """Return `codes`, a function for codes under a divergence, extended to the simplex by projected gradient."""

    def either(problem: Problem, Wt: Array, H: Array) -> None:
        """Overwrite the codes `Wt`: by projected gradient (`spg`) on the simplex, else by the given method `codes`."""
        (spg.codes if "simplex" in problem.penalty_W.kinds else codes)(problem, Wt, H)

    return either


CODES: dict[str, CodesSolver] = {
    "admm": CodesSolver(admm.codes, quick=partial(admm.codes, iterations=admm.QUICK_CODES_ITERATIONS)),
    "hals": CodesSolver(hals.codes),
    "ccd": CodesSolver(_or_simplex(sbcd.exact_codes)),
    "sbcd": CodesSolver(_or_simplex(sbcd.codes)),
}


def check_codes(problem: Problem) -> None:
    """Raise ParameterError if no codes can be found for the loss with the penalty of the codes or sparse data."""
    unsupported = problem.penalty_W.beyond(CODES[problem.loss.record.codes].terms)
    if unsupported:
        listed = " and ".join(unsupported)
        raise ParameterError(f"penalty_W must be without {listed} for codes of {problem.loss.label}; got one with it")
    if problem.is_sparse and problem.loss.record.sparse is None:
        raise ParameterError(f"X must be dense for codes of {problem.loss.label}; got a sparse one; pass X.toarray()")


def solve_codes(problem: Problem, H: Any, *, exact: bool = True) -> Any:
    """Return the codes (r, n_samples) of the data for fixed components; raise ParameterError as :func:`check_codes`."""
    check_codes(problem)
    same = problem.loss.record.codes_as
    if same is not None and not problem.penalty_W.shrinks:  # with l1 or l2 the codes of both losses differ
        problem = replace(problem, loss=Loss(same))
    shape = (H.shape[0], problem.X.shape[0])
    if is_not_numpy(problem.X):
        Wt = namespace_of(H).zeros(shape, dtype=H.dtype, device=H.device)
        (device_descent if problem.loss.name == "frobenius" else device_admm).codes(problem, Wt, H)
    else:
        Wt = np.empty(shape, problem.X.dtype)
        solver = CODES[problem.loss.record.codes]  # the loss names the method for its codes, such as "hals"
        with one_blas_thread():
            (solver.codes if exact or solver.quick is None else solver.quick)(problem, Wt, H)
    return Wt
