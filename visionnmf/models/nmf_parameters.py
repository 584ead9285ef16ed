"""Parameters of :class:`visionnmf.NMF`: checks that need no data, and the components that a fit starts from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf import choices
from visionnmf._checks import check_callable, check_choice, check_count, check_flag, check_number
from visionnmf.engine.losses import LOSSES
from visionnmf.engine.solvers import SOLVERS, check_solver
from visionnmf.exceptions import ParameterError

from .data_checks import check_loss, check_missing_values, find_loss, loss_in_use
from .linear_model import SOLVER_WORDS
from .penalty import given_penalty

__all__ = ["check_nuclear", "check_parameters", "given_components"]

Array = NDArray[Any]


def check_parameters(model: Any) -> None:
    """Raise ParameterError if a parameter of `model`, an :class:`.NMF`, is not allowed, whatever the data are."""
    if model.n_components is not None:
        check_count(model.n_components, "n_components")
    if not isinstance(model.loss, str) or model.loss != choices.AUTO:
        check_loss(model.loss, model.loss_parameter, np.ones(1))  # any data, because only the parameters are checked
    elif model.loss_parameter is not None:
        raise ParameterError(f"loss_parameter must be None for loss='auto'; got {model.loss_parameter!r}")
    if isinstance(model.solver, str) and model.solver in SOLVER_WORDS:  # another library's name of a solver
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
        given_penalty(penalty, side).resolve(side, None, np.float64)  # only to check it, without data
    check_callable(model.callback, "callback")
    check_missing_values(model.missing_values, zero=True)  # None, NaN or 0
    if model.missing_values == 0 and model.zero_weight != 1:
        raise ParameterError(f"zero_weight must be 1 with missing_values=0; got {model.zero_weight!r}; leave it out")
    check_count(int(model.verbose) if isinstance(model.verbose, bool) else model.verbose, "verbose", 0)


def check_nuclear(model: Any) -> None:
    """Raise ParameterError if the loss of an :class:`.NMF` cannot be combined with its `nuclear`.

    Only losses with a kink at residual 0 can: for the others the right strength would depend on the data.
    """
    record = find_loss(loss_in_use(model))
    if model.nuclear and not (record is not None and record.kink):
        able = [name for name, record in LOSSES.items() if record.kink]
        raise ParameterError(
            f"nuclear must be 0 for losses other than {able}; got {model.nuclear!r} with "
            f"loss={loss_in_use(model)!r}; set penalty_W and penalty_H to Penalty(l2=...)"
        )


def given_components(model: Any, shape: tuple[int, int], H: ArrayLike | None) -> tuple[ArrayLike | None, int]:
    """Return the components to start from, or None, and their number, by the parameter, those given or the data.

    `shape` is (n_samples, n_features), and `H` the components that the caller of the fit passed, or None. With
    `warm_start` the components of the last fit stand in for given ones, if they have the right shape.
    """
    given = H if H is not None else model.components_init
    n_components = min(shape)
    if model.n_components is not None:
        n_components = int(model.n_components)
    elif given is not None and np.ndim(given) == 2:
        n_components = int(np.shape(given)[0])
    last: Array | None = getattr(model, "components_", None)
    if given is None and model.warm_start and last is not None and last.shape == (n_components, shape[1]):
        given = last
    return given, n_components
