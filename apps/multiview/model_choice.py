"""The multi-view model of the application: its loss, and whether it leaves out views that do not fit their sample."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf import MultiviewNMF, choices
from visionnmf._progress import Progress
from visionnmf.models.multiview.outlying_views import JUDGING

from .view_model import Preparation, is_sparse, observed

Array = NDArray[Any]
ViewArrays = Mapping[str, Array]

LOSSES = ("manhattan", "frobenius")
HIDDEN = 0.1  # share of the entries on whose prediction the choice depends
ENOUGH = 600  # samples for the choice
SHARE = 6  # minimum number of samples for each component; with more components wrong entries would be fitted as well
MARGIN = 0.04  # by which leaving views out must predict better; two fits of clean data differ by that much
FITS = 2  # of all samples in the trial of a loss, with views left out and with all of them
FITTED = "fitted"  # as a stage of the progress of a trial
FEW = 10  # views left out of all samples; with fewer, too few entries depend on it to tell whether it helps


class ModelChoice(NamedTuple):
    """The two parameters of :class:`.MultiviewNMF` that :func:`choose_model` chooses."""

    loss: str = LOSSES[0]
    view_outliers: float | None = choices.VIEW_OUTLIERS


def make_model(n_components: int, choice: ModelChoice, *, random_state: int = 0, **options: Any) -> MultiviewNMF:
    """Return the unfitted model of the application, with the parameters of `choice`; `options` take precedence.

    These are the loss, and `view_outliers`, the number of robust deviations beyond which a sample's view is left out.
    """
    chosen: dict[str, Any] = {**choice._asdict(), "missing_values": np.nan, **options}
    return MultiviewNMF(n_components, random_state=random_state, **chosen)


def choose_model(
    preparation: Preparation,
    views: ViewArrays,
    *,
    loss: str | None = None,
    view_outliers: float | None = choices.VIEW_OUTLIERS,
    random_state: int = 0,
    progress: Progress | None = None,
) -> ModelChoice:
    """Choose by hidden entries the loss, unless it is given, and whether views that do not fit are left out.

    A tenth of the entries of at most 600 prepared training samples is hidden from small fits. The choice with the
    smallest absolute errors at these entries wins. The errors are taken as shares of the data, averaged over the views,
    and only at entries of views that every loss tried keeps. Leaving views out must be better by 4 %, because two fits
    of clean data differ by that much.

    Single wrong entries lead to the Manhattan loss, dense noise to least squares. Views of counts take least squares
    without a trial: the Manhattan loss of data that are 0 nearly everywhere is smallest for a model of zeros. If a view
    of a sample is noise, the sample's other views are predicted better without it; if it is only rare, worse.

    `preparation` knows which views are counts. A view of a sample is left out if its residual is more than
    `view_outliers` robust deviations above the median; None keeps all. `progress` is called as ``progress(stage, done,
    total)``, with a stage for each loss that is tried.
    """
    if "rows" in preparation.kinds_.values() or any(is_sparse(view) for view in views.values()):
        return ModelChoice(loss or LOSSES[1], view_outliers)  # least squares for counts
    if loss is not None and view_outliers is None:
        return ModelChoice(loss, None)
    given, hidden, shown = _hide_entries(views, np.random.default_rng([random_state, len(views)]))
    predicted: dict[ModelChoice, ViewArrays] = {}
    judged = np.ones((len(next(iter(shown.values()))), len(shown)), bool)  # the views that every loss keeps
    for kind in LOSSES if loss is None else (loss,):
        step = _trial_progress(progress or (lambda *_: None), kind)
        kept = np.ones_like(judged)  # (n_samples, n_views): the views that this loss does not leave out
        for limit in dict.fromkeys((view_outliers, None)):  # with views left out first, then with all of them
            # few components for few samples, because more would fit wrong entries as well
            model = make_model(
                min(choices.VIEW_COMPONENTS, max(1, len(kept) // SHARE)),
                ModelChoice(kind, limit),
                random_state=random_state,
                group_l1=0,
                max_iter=100,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # these fits are only compared
                predicted[ModelChoice(kind, limit)] = model.inverse_transform(model.fit_transform(shown, progress=step))
            if limit is not None:
                kept = ~model.outlying_views_
                step(FITTED, 1, FITS)  # reports that one of at most FITS fits of this loss has ended
            if np.count_nonzero(~kept) <= FEW:  # hardly any view is left out, so keeping all need not be tried
                break
        step(FITTED, FITS, FITS)
        judged &= kept

    def error(choice: ModelChoice) -> float:
        """Return the error of a choice at entries it was not shown; leaving views out must win by the margin.

        `predicted` has the views by each choice, and `given` the true ones, (n_samples, n_features) by name. `hidden`
        marks the entries that were not shown, and `judged` (n_samples, n_views) the views that count.
        """
        # whether the same loss was also tried with all views kept
        without_is_tried = choice.view_outliers is not None and choice._replace(view_outliers=None) in predicted
        return _error(given, predicted[choice], hidden, judged) * (1 + MARGIN if without_is_tried else 1)

    return min(predicted, key=error)


def _trial_progress(progress: Progress, loss: str) -> Progress:
    """Return a function (stage, done, total) that reports two stages to `progress` as one: the trial of a `loss`.

    The first stage fits small models that judge the views; the second fits all samples, each as long as a small model.
    """
    judged = 0  # number of small models

    def report(stage: str, done: int, total: Any) -> None:
        """Report the steps of both stages as those of one trial; the iterations of a fit are not reported."""
        nonlocal judged
        if stage == JUDGING:
            judged = total
            progress(f"trying the {loss} loss", done, total + FITS)
        elif stage == FITTED:  # here `total` is FITS
            progress(f"trying the {loss} loss", judged + done, judged + total)

    return report


def _hide_entries(views: ViewArrays, rng: np.random.Generator) -> tuple[ViewArrays, ViewArrays, ViewArrays]:
    """Return the views of up to 600 samples, which entries are hidden, and the views with NaN there.

    All three are arrays (n_samples, n_features) by name, of the same samples, drawn by `rng`.
    """
    there = rng.permutation(np.flatnonzero(observed(views)))[:ENOUGH]
    given = {name: view[there] for name, view in views.items()}
    hidden = {name: _hide(view, rng) for name, view in given.items()}
    shown = {name: np.where(hidden[name], np.nan, view) for name, view in given.items()}
    seen = observed(shown)  # samples of which something is still shown; the others cannot be fitted
    drawn = [name for name, view in shown.items() if not np.isnan(view).all()]  # none of the samples has a rare view
    given, hidden, shown = ({name: part[name][seen] for name in drawn} for part in (given, hidden, shown))
    return given, hidden, shown


def _hide(view: Array, rng: np.random.Generator) -> Array:
    """Return a random mask of entries to hide from the fit, by which models are compared."""
    given = ~np.isnan(view)
    hidden = given & (rng.random(view.shape) < HIDDEN)
    if not (given & ~hidden).any():  # keep an entry of a view that has few, as nothing can be learnt from none
        hidden.flat[np.flatnonzero(given)[:1]] = False
    return hidden


def _error(views: ViewArrays, predicted: ViewArrays, hidden: ViewArrays, kept: Array) -> float:
    """Return the absolute errors at hidden entries as shares of the data, summed over the views.

    Views, predictions and masks of hidden entries are (n_samples, n_features) by name. `kept` (n_samples, n_views) is
    false for views of samples that some loss leaves out; these do not count.
    """
    shares = []
    for v, (name, view) in enumerate(views.items()):
        counts = hidden[name] & kept[:, [v]]
        left, total = np.abs(view - predicted[name])[counts].sum(), view[counts].sum()
        shares.append(float(left / total) if total > 0 else 0.0)
    return sum(shares)
