"""Warnings of the fits inside a fit of views, issued once and in the name of the estimator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from visionnmf.engine.stopping import ZeroCodesWarning, warn_not_converged, warn_zero_codes

__all__ = ["warn_once"]


def warn_once(model: Any, caught: Sequence[warnings.WarningMessage], penalty: str | None) -> None:
    """Issue the warnings that the fits of a `model` of views have raised in its name, and each kind only once.

    They name the NMF inside and its parameters. Of fits that did not converge the first says most, and of codes of 0
    those of the last fit count. `penalty` is the parameter of the second step that keeps views from using components,
    or None if there was no second step.
    """
    cure = f"increase max_iter={model.max_iter}"
    if penalty is not None:
        # the second step gets the iterations that the first did not use
        cure += " (the step that finds shared and private components has what the first left of it, at least a quarter)"
    name, issued, zero = type(model).__name__, False, []
    for warning in (item.message for item in caught):
        result = getattr(warning, "result", None)  # of a fit that did not converge; other warnings have none
        if isinstance(warning, ZeroCodesWarning):
            zero.append(warning)
        elif result is None:
            warnings.warn(warning, stacklevel=4)
        elif not issued:
            issued = True
            warn_not_converged(name, result, model.tol, cure=cure, stacklevel=5)
    if zero:
        # Two of them: the first step, which has no penalty, did not find codes either. `lost` counts samples with codes
        # of 0, and this estimator has no parameter `zero_weight` that could be blamed.
        blamed = penalty if len(zero) == 1 else None
        warn_zero_codes(zero[-1].loss, zero[-1].lost, 5, name=name, has_zero_weight=False, penalty=blamed)
