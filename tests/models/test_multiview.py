"""MultiviewNMF: scikit-learn's contract, forms of views, missing views, shared and private parts."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from visionnmf import NMF, MultiviewNMF, load_model
from visionnmf.exceptions import ParameterError
from visionnmf.models.multiview.view_measures import noise_views
from visionnmf.models.multiview.views import Views

NOT_CONVERGED = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def views(rng):
    """Two views of three parts; the third is private to the images."""
    codes = rng.gamma(1, size=(150, 3)) * (rng.random((150, 3)) < 0.5)
    codes[codes.sum(axis=1) == 0] = 1
    return {
        "sounds": codes[:, :2] @ (rng.random((2, 12)) * (rng.random((2, 12)) < 0.7)),
        "images": 100 * codes @ (rng.random((3, 20)) * (rng.random((3, 20)) < 0.7)),
    }


@NOT_CONVERGED
def test_without_a_penalty_it_is_nmf_of_scaled_views(views):
    model = MultiviewNMF(3, group_l1=0, random_state=0).fit(views)
    scaled = [view / np.sqrt((view**2).sum(axis=1).mean()) for view in views.values()]
    X = np.hstack(scaled)
    plain = NMF(3, random_state=0).fit(X / X.mean())
    np.testing.assert_allclose(model.transform(views), plain.transform(X / X.mean()), rtol=1e-5, atol=1e-6)
    assert model.reconstruction_err_ == pytest.approx(plain.reconstruction_err_)


@pytest.mark.slow
def test_forms_of_views_agree(views, rng):
    pandas = pytest.importorskip("pandas")
    model = MultiviewNMF(3, loss="frobenius", group_l1=0.1, random_state=0)
    codes = model.fit_transform(views)
    a, b = views.values()
    matrix, labels = np.hstack([a, b]), ["a"] * 12 + ["b"] * 20
    for form in ([a, b], [pandas.DataFrame(a), b]):
        np.testing.assert_array_equal(model.fit_transform(form), codes)
    for groups in ({"a": slice(0, 12), "b": range(12, 32)}, [slice(0, 12), range(12, 32)]):
        model.set_params(groups=groups)
        np.testing.assert_array_equal(model.fit_transform(matrix), codes)
    model.set_params(groups=labels)
    np.testing.assert_array_equal(model.fit_transform(matrix), codes)
    assert model.views_.tolist() == ["a", "b"]
    model.set_params(groups=None)
    sparse = model.fit([sp.csr_array(a), sp.csr_array(b)])
    assert np.linalg.norm(sparse.inverse_transform(sparse.transform([a, b]))[0] - a) < 0.1 * np.linalg.norm(a)


@NOT_CONVERGED
def test_a_private_part_is_found_and_saved(views, tmp_path):
    model = MultiviewNMF(3, random_state=0).fit(views)
    assert sorted((model.view_usage_ > 0).sum(axis=1).tolist()) == [1, 2, 2]
    np.testing.assert_allclose(model.view_usage_.sum(axis=1), 1)
    model.save(tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.transform(views), model.transform(views))
    found = again.inverse_transform(model.transform(views))
    for name, view in views.items():
        assert np.linalg.norm(found[name] - view) < 0.01 * np.linalg.norm(view)


def test_planted_parts_are_told_apart():
    from visionnmf.datasets import make_views

    made = make_views(random_state=3)
    model = MultiviewNMF(8, random_state=0).fit(made.views)
    parts, found = (H / np.linalg.norm(H, axis=1, keepdims=True) for H in (made.components, model.components_))
    order = (parts @ found.T).argmax(axis=1)
    assert sorted(order) == list(range(8))
    np.testing.assert_array_equal(model.view_usage_[order] > 0, made.usage)


def test_a_missing_view_is_filled_in(views):
    model = MultiviewNMF(3, group_l1=0, random_state=0).fit(views)
    filled = model.impute({"images": views["images"]})
    assert np.linalg.norm(filled["sounds"] - views["sounds"]) < 0.05 * np.linalg.norm(views["sounds"])
    np.testing.assert_array_equal(filled["images"], views["images"])
    observed = np.ones((150, 2), bool)
    observed[:20, 0] = False
    codes = model.transform(views, observed=observed)
    np.testing.assert_allclose(codes[20:], model.transform(views)[20:], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(codes[:20], model.transform({"images": views["images"]})[:20], rtol=1e-4, atol=1e-5)


def test_samples_without_any_view_are_refused_by_number(views):
    observed = np.ones((150, 2), bool)
    observed[7] = False
    with pytest.raises(ParameterError, match="X must have a view of each sample; got none of sample 7; leave it out"):
        MultiviewNMF(2).fit(views, observed=observed)


@NOT_CONVERGED
def test_the_order_and_the_scales_of_views_change_nothing(views, rng):
    model = MultiviewNMF(3, loss="frobenius", init="nndsvda", max_iter=2000, tol=1e-9, random_state=0)
    codes = model.fit_transform(views)
    turned = dict(reversed(views.items()))
    np.testing.assert_array_equal(model.transform(turned), codes)
    columns = rng.permutation(20)
    other = model.fit_transform({"images": views["images"][:, columns], "sounds": views["sounds"]})
    unit = [W / np.linalg.norm(W, axis=0) for W in (codes, other)]
    order = (unit[0].T @ unit[1]).argmax(axis=1)
    np.testing.assert_allclose(other[:, order], codes, atol=0.02 * codes.max())
    model = MultiviewNMF(3, random_state=0)
    codes = model.fit_transform(views)
    larger = {"sounds": views["sounds"] * 2.0**20, "images": views["images"]}
    np.testing.assert_allclose(model.fit_transform(larger), codes, rtol=1e-6, atol=1e-9)


@NOT_CONVERGED
@pytest.mark.parametrize("scale", ["energy", "none"])
@pytest.mark.parametrize("norm", [2, "inf"])
def test_odd_views(scale, norm, rng):
    codes = rng.random((30, 2))
    views = [codes @ rng.random((2, 9)), 1e6 * codes[:, :1], np.zeros((30, 4)), 1e-6 * codes @ rng.random((2, 70))]
    model = MultiviewNMF(2, scale=scale, group_norm=norm, max_iter=100, random_state=0).fit(views)
    assert np.isfinite(model.components_).all() and not model.components_[:, 10:14].any()
    assert (model.sparseness()[:, 1:3] == 1).all() and model.view_errors_[2] == 0
    if scale == "energy":
        assert (model.view_errors_ < 0.2).all()


@NOT_CONVERGED
def test_weights_of_views(views):
    options = {"loss": "frobenius", "group_l1": 0, "random_state": 0, "max_iter": 60}
    given = MultiviewNMF(2, view_weight={"sounds": 4}, **options).fit(views)
    assert given.view_weights_.tolist() == [4, 1]
    assert given.view_errors_[0] < MultiviewNMF(2, **options).fit(views).view_errors_[0]


@NOT_CONVERGED
def test_the_two_forms_lower_their_objective_and_keep_their_bounds(views):
    for options in ({"group_l1": 0.5}, {"group_bound": 0.01, "group_norm": "inf"}):
        model = MultiviewNMF(3, loss="frobenius", max_iter=400, **options, random_state=0).fit(views)
        assert (np.diff(model.objective_history_[:-1]) <= 1e-6 * model.objective_history_[0]).all()
        assert (model.view_errors_ < 0.1).all()


def test_what_is_not_allowed_is_named(views):
    a, b = views.values()
    for X, options, sentence in (
        ([a, b[:-1]], {}, "views must have the same number of samples; got 0: 150, 1: 149"),
        ([a, b], {"groups": [0]}, "groups must be None if the views are given separately"),
        (a, {"groups": [[0, 1], [1, 2]]}, "groups must not share points; got some of the features twice"),
        (a, {"groups": [0, 1]}, "groups must be index sets, or a label for each of 12 features"),
        ([a, None], {}, "X must hold every view in training; got none of 1"),
        ([a, b + 1j], {}, "view 1 must hold real numbers; got complex ones"),
        ([a, b[:, :0]], {}, r"view 1 must be an array of shape \(n_samples, n_features\); got"),
        ([a, b], {"view_weight": [1]}, "view_weight must be a number for each of 2 views"),
    ):
        with pytest.raises(ParameterError, match=sentence):
            MultiviewNMF(2, **options).fit(X)
    model = MultiviewNMF(2, max_iter=5, tol=0).fit([a, b])
    with pytest.raises(ParameterError, match="view 1 must have 20 features as in training; got 12"):
        model.transform([a, a])
    with pytest.raises(ParameterError, match="X must hold 2 views as in training; got 1"):
        model.transform([a])
    with pytest.raises(ParameterError, match="X must hold at least one view; got none"):
        model.transform([None, None])


@NOT_CONVERGED
def test_frames_with_gaps_of_pandas_are_taken(views):
    pandas = pytest.importorskip("pandas")
    model = MultiviewNMF(2, random_state=0, max_iter=10, missing_values=np.nan)
    frame = pandas.DataFrame(views["sounds"]).convert_dtypes()
    frame.iloc[0, 0] = pandas.NA
    gap = np.where(frame.isna(), np.nan, views["sounds"])
    expected = model.fit([gap, views["images"]]).components_
    np.testing.assert_array_equal(model.fit([frame, views["images"]]).components_, expected)


def test_a_fit_that_has_not_converged_names_the_class_and_both_steps(views):
    with pytest.warns(ConvergenceWarning) as caught:
        MultiviewNMF(3, max_iter=8, random_state=0).fit(views)
    for warning in caught:
        assert re.match(r"MultiviewNMF stopped after.*increase max_iter=8 \(the step that", str(warning.message))
        assert warning.filename == __file__


@NOT_CONVERGED
@pytest.mark.parametrize("loss", ["manhattan", "frobenius", "kullback-leibler", "huber", "l21"])
@pytest.mark.parametrize("gaps", [False, True])
def test_errors_of_views_are_the_loss_as_a_share_of_that_of_the_best_constants(loss, gaps, rng):
    """By the formulas, entry by entry; the sum of absolute residuals was 1.59 of the counts for a useful model."""
    counts = rng.poisson(rng.gamma(0.3, size=(60, 2)) @ rng.gamma(0.3, 4, size=(2, 25))).astype(float)
    views = {"counts": counts, "dense": rng.random((60, 2)) @ rng.random((2, 8)) + 0.1 * rng.random((60, 8))}
    there = rng.random((60, 33)) < (0.8 if gaps else 2)
    X = np.where(there, np.hstack([*views.values()]), np.nan)
    model = MultiviewNMF(2, loss=loss, missing_values=np.nan, random_state=0, groups=[0] * 25 + [1] * 8).fit(X)
    P = model.transform(X) @ model.components_
    middle = np.nanmean(X, axis=0) if loss in ("frobenius", "kullback-leibler") else np.nanmedian(X, axis=0)

    def total(model_of_rows, own, scale):
        left = 0.0
        for i in range(60):
            row = []
            for j in own:
                if there[i, j]:
                    x, p = scale * X[i, j], scale * model_of_rows[i, j]
                    small = min(abs(x - p), model.loss_parameter_)
                    if loss == "manhattan":
                        row.append(abs(x - p))
                    elif loss == "huber":
                        row.append(small * (abs(x - p) - small / 2))
                    elif loss == "kullback-leibler":
                        row.append((x * np.log(x / p) if x else 0) - x + p)
                    else:
                        row.append((x - p) ** 2)
            left += np.sqrt(sum(row)) if loss == "l21" else sum(row)
        return left

    for v, own in enumerate((range(25), range(25, 33))):
        scale = model.view_scales_[v]
        expected = total(P, own, scale) / total(np.tile(middle, (60, 1)), own, scale)
        assert model.view_errors_[v] == pytest.approx(expected, rel=1e-5)
    if loss != "l21":
        assert (model.view_errors_ < 0.95).all()


@NOT_CONVERGED
def test_views_that_do_not_vary_are_compared_with_zeros(rng):
    views = {"varies": rng.random((20, 4)), "same": np.full((20, 3), 2.0)}
    assert MultiviewNMF(3, loss="frobenius", random_state=0).fit(views).view_errors_[1] < 0.1


@NOT_CONVERGED
def test_a_view_of_noise_is_left_out_and_named(rng, tmp_path):
    """It kept the weight 1 and drew the codes away."""
    codes = rng.gamma(0.5, size=(100, 4))
    views = {name: codes @ rng.random((4, n)) + 0.1 * rng.random((100, n)) for name, n in (("a", 9), ("b", 5))}
    options = {"loss": "frobenius", "max_iter": 60, "random_state": 0}
    clean = MultiviewNMF(4, **options).fit_transform(views)
    noisy = {**views, "hiss": rng.random((100, 40))}
    with pytest.warns(UserWarning, match="leaves out views that look like noise: hiss; pass view_weight"):
        model = MultiviewNMF(4, **options).fit(noisy)
    assert model.view_weights_.tolist() == [1, 1, 0]

    def agreement(W):
        """Return how well the true codes are a linear function of `W`, as a share of their variance."""
        left = codes - W @ np.linalg.lstsq(W, codes, rcond=None)[0]
        return 1 - (left**2).sum() / ((codes - codes.mean(axis=0)) ** 2).sum()

    kept = MultiviewNMF(4, view_weight=[1, 1, 1], **options).fit(noisy)  # given weights stay
    assert kept.view_weights_.tolist() == [1, 1, 1]
    assert agreement(kept.transform(noisy)) + 0.05 < agreement(model.transform(noisy))
    np.testing.assert_allclose(model.transform(noisy), clean, rtol=1e-6, atol=1e-9)  # as if it were not there
    assert not model.components_[:, 14:].any() and np.isfinite(model.components_).all()
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(load_model(tmp_path / "model.npz").transform(noisy), model.transform(noisy))
    model.view_scales_ = 0 * model.view_scales_
    with pytest.raises(ParameterError, match="view_scales_ must be above 0 for a view"):
        model.save(tmp_path / "none.npz")


def checked(views, there=None):
    X = np.hstack(views)
    groups = np.repeat(np.arange(len(views)), [view.shape[1] for view in views])
    return Views(X if there is None else X * there, there, groups, tuple(map(str, range(len(views)))))


def test_views_of_noise_are_told_from_others(rng):
    codes = rng.gamma(0.5, size=(120, 3))
    first, second = (codes @ rng.random((3, 20)) + rng.random((120, 20)) for _ in range(2))
    hit = rng.random(first.shape) < 0.1
    outliers = np.where(hit, 50 * rng.random(first.shape), first)  # a tenth of the entries hides the rest of a mean
    private = rng.gamma(0.5, size=(120, 2)) @ rng.random((2, 8))  # has nothing in common with other views
    single = codes[:, :1] + 0.1 * rng.random((120, 1))  # has no other features
    constant = np.ones((120, 3))
    counts = rng.poisson(0.1, (120, 300)).astype(float)
    others = [first, second, outliers, private, single, constant]
    for noise in (rng.random((120, 20)), rng.random((120, 1)), counts, rng.permuted(second, axis=0)):
        assert noise_views(checked([*others, noise])).tolist() == [False] * 6 + [True]
    there = rng.random((120, 72)) < 0.8
    there[:50, :20] = False
    gaps = checked([first, second, private, rng.random((120, 24))], there=there)
    assert noise_views(gaps).tolist() == [False, False, False, True]
    sparse = Views(sp.csr_array(np.hstack([first, counts])), None, np.repeat([0, 1], [20, 300]), ("0", "1"))
    assert noise_views(sparse).tolist() == [False, True]


def test_noise_is_looked_for_where_it_can_be_told(rng):
    first, noise = rng.gamma(1, size=(100, 2)) @ rng.random((2, 9)), rng.random((100, 9))
    assert noise_views(checked([first, noise])).tolist() == [False, True]
    assert not noise_views(checked([noise])).any()  # a single view
    assert not noise_views(checked([noise, rng.random((100, 4))])).any()  # then all are alike
    assert not noise_views(checked([first[:39], noise[:39]])).any()
    codes = rng.gamma(1, size=(100, 3))
    other, label = codes @ rng.random((3, 12)), (codes[:, :1] > 1).astype(float)
    for feature, is_noise in ((rng.random((100, 1)), True), (label, False), (np.ones((100, 1)), False)):
        assert noise_views(checked([other, feature])).tolist() == [False, is_noise]
