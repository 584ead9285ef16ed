"""Samples that a fit has given codes of 0, and the warning about them."""

from __future__ import annotations

import warnings

from visionnmf.engine.losses import Loss
from visionnmf.engine.report import Lost

__all__ = ["ZeroCodesWarning", "warn_zero_codes"]


class ZeroCodesWarning(UserWarning):
    """The warning about samples with codes of 0; `loss` and `lost` are what it was made from."""

    loss: Loss
    lost: Lost


def warn_zero_codes(
    loss: Loss,
    lost: Lost,
    stacklevel: int,
    *,
    name: str = "NMF",
    has_zero_weight: bool = True,
    penalty: str | None = None,
) -> None:
    """Warn if most of the samples that are not 0 have codes of 0, which some losses prefer, and name a cure.

    `penalty` is the parameter that is known to be the cause, if one is. The warning has `loss` and `lost` as
    attributes, for estimators that fit an NMF and warn in their own name.
    """
    if 2 * lost.n_lost <= lost.n_nonzero:
        return
    if penalty is not None:
        why, cure = f"{penalty} is stronger than the data", f"a weaker {penalty}"
    elif loss.record.kink:  # the best constant is the median, which is 0 if fewer than half of the entries are not
        why = f"{loss.label} treats the entries that are not 0 ({lost.share:.2g} of all) as outliers"
        # whether the loss can give the entries that a sparse X does not store a smaller weight
        weighted = has_zero_weight and loss.record.sparse is not None and loss.record.sparse.weighted
        cure = 'loss="kullback-leibler" or "frobenius"' + (", or zero_weight < 1 with a sparse X" if weighted else "")
    else:
        why = f"for {loss.label} and these penalties that is a minimum"
        cure = 'smaller penalties, or loss="kullback-leibler"'
    warning = ZeroCodesWarning(
        f"{name} found codes 0 for {lost.n_lost} of {lost.n_nonzero} samples that are not 0: {why}; use {cure}"
    )
    warning.loss, warning.lost = loss, lost
    warnings.warn(warning, stacklevel=stacklevel)
