"""Displays: their artists show the numbers they were made of."""

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binomtest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score, roc_curve

from visionnmf import NMF, MultiviewNMF, plotting
from visionnmf.apps.background import Separated
from visionnmf.apps.segmentation import segment
from visionnmf.datasets import make_mosaic
from visionnmf.exceptions import ParameterError
from visionnmf.models.selection import LossSelection, RankSelection

matplotlib.use("Agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_components_are_drawn_by_use_with_their_own_white(rng):
    X = rng.random((40, 12)) @ np.diag(rng.random(12))
    model = NMF(3, random_state=0).fit(X)
    display = plotting.ComponentsDisplay.from_estimator(model, (3, 4), X)
    usage = model.transform(X).sum(axis=0)
    assert (np.diff(usage[display.order_]) <= 0).all()
    for image, k in zip(display.images_, display.order_, strict=True):
        assert_array_equal(image.get_array(), model.components_[k].reshape(3, 4))
        assert image.get_clim() == (0, model.components_[k].max())
    assert not display.figure_.get_suptitle()
    assert len(display.plot(most=2).images_) == 2 and display.figure_.get_suptitle() == "2 of 3 components"
    with pytest.raises(ParameterError, match="image_shape"):
        plotting.ComponentsDisplay(model.components_, (5, 5)).plot()


@pytest.mark.parametrize("image_shape", [None, (3, 4)])
def test_reconstruction_marks_what_does_not_fit(rng, image_shape):
    X = rng.random((30, 2)) @ rng.random((2, 12))
    X[4, 7] += 9
    X[5, 0] = np.nan
    fitted = NMF(2, missing_values=np.nan, random_state=0, max_iter=2000, tol=1e-6).fit(X)
    display = plotting.ReconstructionDisplay.from_estimator(fitted, X[4:6], image_shape)
    assert display.outliers_[0, 7]
    assert not display.outliers_[1, 0]
    if image_shape:
        shown, model, residual, wrong = (image.get_array() for image in display.images_[:4])
        assert_allclose(shown - model, residual)
        assert_array_equal(wrong, display.outliers_[0].reshape(3, 4))
    else:
        assert_array_equal(display.lines_[2].get_xdata(), np.flatnonzero(display.outliers_[0]))
    with pytest.raises(ParameterError, match="X and model"):
        plotting.ReconstructionDisplay(X, X[:3]).plot()
    with pytest.raises(ParameterError, match="X must have at most 20 samples"):
        plotting.ReconstructionDisplay(X, X).plot()


def test_convergence_over_iterations_and_seconds(rng):
    fits = {
        name: NMF(2, solver=name, loss="frobenius", random_state=0).fit(rng.random((20, 9))) for name in ("hals", "mu")
    }
    display = plotting.ConvergenceDisplay.from_estimator(fits, relative=True)
    for name, line in display.lines_.items():
        assert_allclose(line.get_ydata(), fits[name].objective_history_ / fits[name].objective_history_[0])
    one = plotting.ConvergenceDisplay({"a": [3, 2, 1]}, {"a": [0.0, 0.5, 0.7]}).plot()
    assert_array_equal(one.lines_["a"].get_xdata(), [0.0, 0.5, 0.7])
    assert one.ax_.get_xlabel() == "seconds"
    with pytest.raises(ParameterError, match="seconds"):
        plotting.ConvergenceDisplay({"a": [3, 2, 1]}, {"a": [0.0]}).plot()


def test_rank_and_loss():
    scores = np.array([[4.0, 5], [1, 2], [1, 1.9]])
    display = plotting.RankDisplay.from_result(RankSelection(2, np.array([1, 2, 3]), scores))
    assert_array_equal(display.line_.get_ydata(), scores.mean(axis=1))
    assert len(display.splits_) == 2
    losses = plotting.LossDisplay.from_result(LossSelection("huber", ["huber", 1.5], np.array([[2.0, 4], [6, 6]])))
    assert_allclose(losses.points_.lines[0].get_xdata(), [1, 2])
    with pytest.raises(ParameterError, match="selection must be what select_rank returns; got LossSelection"):
        plotting.RankDisplay.from_result(losses.selection)


def test_axes_that_count_have_whole_numbers(rng):
    """Ranks had ticks at 2.5 and 7.5."""
    ranks = RankSelection(2, np.array([1, 2, 5, 10]), rng.random((4, 3)))
    frames = [Separated(0, *rng.integers(0, 255, (2, 4, 5), dtype=np.uint8), np.zeros((4, 5), bool))] * 4
    model = NMF(1, random_state=0).fit(rng.random((9, 4)))
    displays = [
        plotting.RankDisplay.from_result(ranks).ax_,
        plotting.ConvergenceDisplay({"a": [4, 3, 2, 1]}).plot().ax_,
        plotting.ComponentsDisplay.from_estimator(model).axes_[0],
        plotting.ReconstructionDisplay(rng.random((1, 4)), rng.random((1, 4))).plot().axes_[0],
        plotting.ForegroundDisplay(frames).plot().axes_[3],
    ]
    for ax in displays:
        ticks = ax.get_xticks()
        assert len(ticks) > 1 and (ticks % 1 == 0).all()


def test_usage_of_views_under_their_names(rng):
    views = {"a$": rng.random((30, 6)), "b": rng.random((30, 5))}
    model = MultiviewNMF(2, random_state=0, tol=0, max_iter=30).fit(views)
    display = plotting.ViewUsageDisplay.from_estimator(model)
    assert_allclose(display.image_.get_array(), model.view_usage_[display.order_].T)
    with pytest.raises(ParameterError, match="usage"):
        plotting.ViewUsageDisplay(model.view_usage_, ["a"]).plot()
    figure = plotting.ViewUsageDisplay.from_estimator(
        model, plt.figure(figsize=(8, 2.4), layout="constrained").gca()
    ).figure_
    figure.draw_without_rendering()
    label = figure.axes[1].yaxis.label.get_window_extent()  # of the scale, whole also in a low figure
    assert figure.bbox.y0 <= label.y0 and label.y1 <= figure.bbox.y1 and label.x1 <= figure.bbox.x1
    rotations = {
        label.get_rotation() for label in plotting.ViewUsageDisplay([[1.0]] * 20, ["a"]).plot().ax_.get_xticklabels()
    }
    assert rotations == {90}
    display = plotting.ViewUsageDisplay([[0.02, 0.98], [0, 1], [1, 0]], ["a", r"$\frac$"]).plot()
    display.figure_.canvas.draw()
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["a", r"$\frac$"]
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["0", "2", "1"]  # as in `view_usage_`
    drawn = display.image_.to_rgba(display.image_.get_array())
    assert (drawn[..., 3] == 0).sum() == 2  # nothing is drawn for 0
    assert drawn[..., 0][drawn[..., 3] > 0].max() < 0.9


def test_without_matplotlib_displays_say_what_to_install(monkeypatch):
    monkeypatch.setattr("visionnmf._checks.find_spec", lambda name: None)
    with pytest.raises(ParameterError, match=r"matplotlib must be .*; `sh setup.sh plots` installs it"):
        plotting.ConvergenceDisplay({"a": [1.0]}).plot()


def test_threshold_has_the_rates_of_scikit_learn_and_exact_intervals(rng):
    y = rng.random(60) < 0.4
    scores = np.round(rng.normal(y, 1), 1)  # with ties
    display = plotting.ThresholdDisplay.from_predictions(y, scores, threshold=0.5)
    assert display.roc_auc_ == pytest.approx(roc_auc_score(y, scores))
    wrong, right, _ = roc_curve(y, scores, drop_intermediate=False)
    assert_allclose(display.roc_.get_xdata(), wrong)
    assert_allclose(display.roc_.get_ydata(), right)
    for at in (0, 7, -1):
        count = int((scores[~y] > display.thresholds_[at]).sum())
        interval = binomtest(count, int((~y).sum())).proportion_ci(0.95, "exact")
        assert_allclose(display.false_rejection_rate_[at], [count / (~y).sum(), *interval])
    with pytest.raises(ParameterError, match="y_true"):
        plotting.ThresholdDisplay([1, 1], [0.2, 0.3]).plot()
    with pytest.raises(ParameterError, match="scores"):
        plotting.ThresholdDisplay([0, 1], [0.2, np.nan]).plot()


def test_segments_over_scales():
    result = segment(make_mosaic(48, 64, random_state=0).image, 4)
    display = plotting.SegmentationDisplay.from_result(result)
    assert_array_equal(display.images_[0].get_array(), result.overlay())
    scales, counts = display.line_.get_data()
    for at in (0, 50, 120, 199):
        assert counts[at] == len(result.recut(scale=scales[at]).sizes)


def test_foreground_over_time(rng):
    masks = [np.where(rng.random((6, 8)) < share, 255, 0).astype(np.uint8) for share in (0, 0.8, 0.1)]
    parts = [Separated(i, mask, 255 - mask, mask) for i, mask in enumerate(masks)]
    display = plotting.ForegroundDisplay.from_result(parts, seconds=[0, 2, 3], events=[{"start": 1, "end": 3}])
    assert display.index_ == 1
    whole = plotting.ForegroundDisplay.from_result([Separated(0, masks[0], masks[0], np.full((6, 8), 255, np.uint8))])
    assert whole.images_[2].to_rgba(whole.images_[2].get_array()).min() == 1  # all foreground is white
    assert_array_equal(display.images_[1].get_array(), 255 - masks[1])
    assert_allclose(display.line_.get_ydata(), [100 * (mask > 0).mean() for mask in masks])
    assert len(display.spans_) == 1
    for wrong in ({"index": 3}, {"seconds": [0.0]}, {"parts": []}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            plotting.ForegroundDisplay.from_result(**({"parts": parts} | wrong))


def test_words_and_the_images_behind_them(tmp_path):
    from visionnmf.io import write_image

    for name in "abcdef":
        write_image(tmp_path / f"{name}.png", np.zeros((4, 5, 3), np.uint8))
    because = [str(tmp_path / f"{name}.png") for name in "abcdef"]
    words = [("sea", 0.8, because), ("$sky", 0.4, because[1:2])]
    display = plotting.AnnotationDisplay.from_result(np.zeros((8, 9, 3), np.uint8), words)
    assert [bar.get_width() for bar in display.bars_] == [0.8, 0.4]
    assert len(display.images_) == 5
    assert display.axes_[2].get_title() == "b.png (2)"


def test_axes_may_be_given(rng):
    figure, axes = plt.subplots(2, 3)
    display = plotting.ComponentsDisplay(rng.random((4, 6)), (2, 3)).plot(axes)
    assert display.figure_ is figure
    assert not axes[1, 2].axison
    with pytest.raises(ParameterError, match="axes"):
        plotting.ComponentsDisplay(rng.random((9, 6)), (2, 3)).plot(axes)


FIT = NMF(2, random_state=0).fit(np.random.default_rng(0).random((9, 12)))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: plotting.ConvergenceDisplay.from_estimator(PCA(1).fit(np.eye(3))), "history_; got PCA of sklearn"),
        (lambda: plotting.ConvergenceDisplay.from_estimator([FIT]), r"estimator must be a fitted .*; got \[NMF"),
        (lambda: plotting.ConvergenceDisplay.from_estimator(NMF), "estimator must be a fitted .*; pass what fit"),
        (lambda: plotting.ConvergenceDisplay([3, 2]).plot(), "histories must be a dictionary by the name"),
        (lambda: plotting.ConvergenceDisplay({"a": [0, 0]}).plot(relative=True), "histories must .*, the first above"),
        (lambda: plotting.ConvergenceDisplay({"a": [1]}).plot("x"), "axes must be those of matplotlib; got 'x'; pass"),
        (lambda: plotting.ComponentsDisplay([[np.nan, 1]]).plot(), "components must be finite"),
        (lambda: plotting.ComponentsDisplay.from_estimator(FIT, (3, 4), axes=plt.figure()), "axes must be those of"),
        (lambda: plotting.ReconstructionDisplay.from_estimator(np.eye(3), np.eye(3)), "estimator must be a fitted"),
        (lambda: plotting.ViewUsageDisplay.from_estimator(FIT), "view_usage_ and views_; got NMF of visionnmf, which"),
        (lambda: plotting.ViewUsageDisplay([[2, -1]], ["a", "b"]).plot(), "usage must be shares from 0 to 1"),
        (lambda: plotting.ViewUsageDisplay([[1, 0]], None).plot(), "names must be a list of the views; got None"),
        (lambda: plotting.LossDisplay.from_result(None), "selection must be what select_loss returns; got NoneType"),
        (
            lambda: plotting.SegmentationDisplay.from_result(np.zeros((4, 4))),
            r"must be what segment\(image\) returns",
        ),
        (lambda: plotting.ForegroundDisplay.from_result(np.zeros((2, 4, 4))), r"each of parts must be what"),
        (lambda: plotting.ForegroundDisplay.from_result(None), "parts must be a list of separated frames, .*; got"),
        (lambda: plotting.ForegroundDisplay.from_result([part()], events=[(1, 2)]), "events must be dictionaries with"),
        (lambda: plotting.ForegroundDisplay.from_result([part()], index="a"), "index must be a whole number"),
        (lambda: plotting.AnnotationDisplay.from_result(np.zeros((4, 4, 3)), ["sky"]), "words must be .word, score"),
        (lambda: plotting.AnnotationDisplay.from_result(np.zeros((3, 4, 5)), []), "move the channels to the end"),
        (lambda: plotting.ThresholdDisplay([-1, 1], [1, 2]).plot(), "y_true must be True or False, or 1 and 0; got"),
        (lambda: plotting.ThresholdDisplay([0, 1], [1, 2], "a").plot(), "threshold must be a finite number; got 'a'"),
    ],
)
def test_wrong_arguments(call, sentence):
    with pytest.raises(ParameterError, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)


def part():
    """Return a separated frame."""
    return Separated(0, *(np.zeros((4, 5), np.uint8) for _ in range(3)))


def test_components_that_are_no_images_are_curves_and_signed_ones_have_two_colours():
    display = plotting.ComponentsDisplay.from_estimator(FIT)
    for line, k in zip(display.lines_, display.order_, strict=True):
        assert_array_equal(line.get_ydata(), FIT.components_[k])
    assert display.images_ == []
    (image,) = plotting.ComponentsDisplay([[-2.0, 1.0]], (1, 2)).plot().images_
    assert image.get_clim() == (-2, 2)


def test_misfit_is_not_far_from_the_model_and_no_legend_hides_a_curve():
    X = load_digits().data[:300]
    model = NMF(16, random_state=0).fit(X)
    display = plotting.ReconstructionDisplay.from_estimator(model, X[:5])
    assert display.outliers_.mean() < 0.1
    spoilt = np.where(np.arange(64) == np.argmax(model.inverse_transform(model.transform(X[:5]))[0]), 40, X[:5])
    assert plotting.ReconstructionDisplay.from_estimator(model, spoilt).outliers_.sum() >= 5
    display.figure_.canvas.draw()
    for ax in display.axes_:
        assert ax.get_legend().get_window_extent().y0 >= ax.get_window_extent().y1 - 1
