"""MultiviewNMF and data frames: names of features, labels of samples, and frames of results."""

import re

import numpy as np
import pytest
from model_files import rewrite
from sklearn import config_context

from visionnmf import NMF, MultiviewNMF, load_model
from visionnmf.exceptions import ParameterError, UnreadableError

pandas = pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ROWS = [f"s{i}" for i in range(12)]


@pytest.fixture
def frames(rng):
    """Two views as data frames, whose rows and columns have names."""
    codes = rng.gamma(1, size=(12, 2))
    sounds = pandas.DataFrame(codes @ rng.random((2, 3)), ROWS, ["low", "middle", "high"])
    images = pandas.DataFrame(codes @ rng.random((2, 2)), ROWS, ["red", "blue"])
    return {"sounds": sounds, "images": images}


def quick(**options):
    return MultiviewNMF(2, loss="frobenius", max_iter=3, random_state=0, **options)


def test_features_of_other_names_or_in_another_order_are_refused(frames):
    """Columns were paired by their positions without a word."""
    model = quick().fit(frames)
    assert model.view_feature_names_ == [["low", "middle", "high"], ["red", "blue"]]
    sounds = frames["sounds"]
    for wrong, got in (
        (sounds[["high", "middle", "low"]], "them in another order"),
        (sounds.rename(columns={"high": "shrill"}), "none called 'high'"),
        (sounds.assign(shrill=1.0), "also 'shrill'"),
    ):
        with pytest.raises(ParameterError, match=f"view sounds must have the feature names of training.*; got {got}; "):
            model.transform({"sounds": wrong, "images": frames["images"]})
    swapped = frames["images"][["blue", "red"]]
    with pytest.raises(ParameterError, match="view images must have the feature names"):
        model.transform({"images": swapped})
    restored = {"images": swapped[model.view_feature_names_[1]]}  # the cure
    np.testing.assert_array_equal(model.transform(restored), model.transform({"images": frames["images"]}))
    listed = quick().fit([sounds, frames["images"]])
    with pytest.raises(ParameterError, match="view 1 must have the feature names"):
        listed.transform([sounds, swapped])


def test_names_in_only_one_of_two_calls_are_warned_about_as_in_scikit_learn(frames):
    arrays = {name: frame.to_numpy() for name, frame in frames.items()}
    with pytest.warns(UserWarning, match="view images has no feature names, but had some in training"):
        codes = quick().fit(frames).transform({**frames, "images": arrays["images"]})
    np.testing.assert_array_equal(codes, quick().fit(arrays).transform(arrays))
    with pytest.warns(UserWarning, match="view sounds has feature names, but had none in training"):
        quick().fit({**frames, "sounds": arrays["sounds"]}).transform(frames)
    numbered = {name: frame.set_axis(range(frame.shape[1]), axis=1) for name, frame in frames.items()}
    assert quick().fit(numbered).transform(arrays).shape == (12, 2)  # numbers are no names: no warning


def test_rows_with_other_labels_or_in_another_order_are_refused(frames):
    """Rows were paired by their positions without a word, even if the index said otherwise."""
    images = frames["images"]
    model = quick().fit(frames)
    for wrong in (images[::-1], images.rename({"s3": "x"}), images.reset_index(drop=True)):
        message = "view images must have the index of view sounds.*; pass frame.reindex.* pandas.merge"
        for call in (quick().fit, model.transform, model.impute):
            with pytest.raises(ParameterError, match=message):
                call({**frames, "images": wrong})
    cured = {**frames, "images": images[::-1].reindex(frames["sounds"].index)}
    np.testing.assert_array_equal(model.transform(cured), model.transform(frames))
    codes = quick().fit_transform(frames)
    np.testing.assert_array_equal(quick().fit_transform({**frames, "images": images.to_numpy()}), codes)


def test_frames_are_imputed_as_frames(frames):
    model = quick(missing_values=np.nan).fit(frames)
    expected = model.inverse_transform(model.transform({"images": frames["images"]}))
    filled = model.impute({"images": frames["images"]})
    assert list(filled["sounds"].columns) == ["low", "middle", "high"] and list(filled["sounds"].index) == ROWS
    np.testing.assert_allclose(filled["sounds"], expected["sounds"])
    pandas.testing.assert_frame_equal(filled["images"], frames["images"])
    gaps = frames["sounds"].copy()
    gaps.iloc[2, 1] = np.nan
    images = frames["images"].to_numpy()
    both = quick(missing_values=np.nan).fit([frames["sounds"], images]).impute([gaps, images])
    assert both[0].notna().all(axis=None) and list(both[0].index) == ROWS and isinstance(both[1], np.ndarray)
    numbered = {name: frame.set_axis(range(5, 5 + frame.shape[1]), axis=1) for name, frame in frames.items()}
    pandas.testing.assert_frame_equal(quick().fit(numbered).impute(numbered)["images"], numbered["images"])
    matrix = frames["sounds"].join(frames["images"])
    single = quick(groups=["a", "a", "a", "b", "b"]).fit(matrix)
    assert single.view_frames_ == [False, False]
    assert single.feature_names_in_.tolist() == list(matrix.columns) and single.view_feature_names_ == []
    arrays = quick(groups=["a", "a", "a", "b", "b"]).fit(matrix.to_numpy())
    some = {"b": frames["images"].to_numpy()}
    for filled, expected in ((single.impute(matrix), matrix), (arrays.impute(some)[:, 3:], frames["images"])):
        assert isinstance(filled, np.ndarray)
        np.testing.assert_array_equal(filled, expected)


def test_files_keep_the_names_of_features(frames, tmp_path):
    model = quick().fit({**frames, "plain": np.ones((12, 2))})
    model.save(tmp_path / "m.npz")
    assert load_model(tmp_path / "m.npz").view_feature_names_ == [*model.view_feature_names_[:2], None]

    def shorten(state, arrays):
        state["dict"]["model"]["object"][2]["view_feature_names_"][0].pop()

    rewrite(tmp_path / "m.npz", shorten)
    with pytest.raises(UnreadableError, match="a name for each feature"):
        load_model(tmp_path / "m.npz")


@pytest.mark.parametrize("form", [dict, lambda frames: list(frames.values())])
def test_codes_as_data_frames_keep_the_index_of_the_views(frames, form):
    """scikit-learn takes the index from a frame, and found none in a list or a dict of frames."""
    model = quick()
    expected = model.fit_transform(form(frames))
    assert isinstance(expected, np.ndarray)
    model.set_output(transform="pandas")
    for codes in (model.fit_transform(form(frames)), model.transform(form(frames))):
        assert codes.index.tolist() == ROWS
        assert codes.columns.tolist() == ["multiviewnmf0", "multiviewnmf1"]
        np.testing.assert_array_equal(codes, expected)
    some = form({**frames, "sounds": None})
    assert model.transform(some).index.tolist() == ROWS
    arrays = form({name: frame.to_numpy() for name, frame in frames.items()})
    with pytest.warns(UserWarning, match="has no feature names"):
        assert model.transform(arrays).index.tolist() == list(range(12))
    with pytest.warns(UserWarning, match="has no feature names"):
        model.set_output(transform="default").transform(arrays)
    with config_context(transform_output="pandas"):
        assert quick().fit(form(frames)).transform(form(frames)).index.tolist() == ROWS


def test_each_view_is_the_frame_or_the_array_that_it_was(frames, tmp_path):
    given = {"sounds": frames["sounds"], "images": frames["images"].to_numpy()}
    numbered = frames["sounds"].set_axis(range(3), axis=1)
    for form in (dict, lambda views: list(views.values())):
        quick().fit(form(given)).save(tmp_path / "model.npz", force=True)
        model = load_model(tmp_path / "model.npz")
        back = model.inverse_transform(np.ones((4, 2)))
        sounds, images = back.values() if isinstance(back, dict) else back
        assert sounds.columns.tolist() == ["low", "middle", "high"] and isinstance(images, np.ndarray)
        assert model.view_frames_ == [True, False]
    back = quick().fit([numbered, given["images"]]).inverse_transform(np.ones((4, 2)))
    assert back[0].columns.tolist() == [0, 1, 2]


def test_slices_of_a_frame_without_labels_are_not_joined_nor_columns_in_another_order(frames):
    """Rows 0 to 99 of one frame were joined with rows 100 to 199 of another without a word."""
    whole = {name: pandas.concat([frame, frame], ignore_index=True) for name, frame in frames.items()}
    for rows in (slice(12, None), slice(6, 18)):
        with pytest.raises(ParameterError, match=r"must have the index of view sounds"):
            quick().fit({"sounds": whole["sounds"][:12], "images": whole["images"][rows]})
    quick().fit({name: frame[12:] for name, frame in whole.items()})
    # It only warned that scikit-learn's names were missing.
    matrix = frames["sounds"].join(frames["images"])
    model = quick(groups=["sounds"] * 3 + ["images"] * 2).fit(matrix)
    with pytest.raises(ParameterError, match="view sounds must have the feature names of training"):
        model.transform({**frames, "sounds": frames["sounds"][["high", "low", "middle"]]})


def test_a_feature_that_is_never_there_is_named_and_predicted_as_0(frames):
    """It kept the numbers of its random start, which `impute` then returned."""
    frames["images"]["blue"] = np.nan
    arrays = [frame.to_numpy() for frame in frames.values()]
    message = "view {} has no entry of feature 1{} in training, so it is predicted as 0; leave it out"
    for X, groups, view, label in (
        (frames, None, "images", r" \('blue'\)"),
        (arrays, None, "1", ""),
        (np.hstack(arrays), list("aaabb"), "b", ""),
    ):
        with pytest.warns(UserWarning, match=message.format(view, label)):
            model = quick(groups=groups, missing_values=np.nan).fit(X)
        filled = model.impute(X)
        last = filled if groups else list(filled.values())[1] if view == "images" else filled[1]
        assert not np.asarray(last)[:, -1].any() and np.asarray(last)[:, -2].all()


def test_nan_of_a_view_that_is_there_are_refused_beside_missing_views(frames):
    """An absent view, or `observed`, made NaN anywhere missing entries without missing_values=numpy.nan."""
    model = quick().fit(frames)
    sounds = frames["sounds"].copy()
    sounds.iloc[3, 1] = np.nan
    observed = np.ones((12, 2), bool)
    observed[0, 1] = False
    sentence = "view sounds must not hold NaN; got nan in sample 3, feature 1; pass missing_values=numpy.nan"
    for given, mask in (({"sounds": sounds}, None), ({**frames, "sounds": sounds}, observed)):
        with pytest.raises(ParameterError, match=sentence):
            model.transform(given, observed=mask)
    with pytest.raises(ParameterError, match=sentence):
        quick().fit({**frames, "sounds": sounds}, observed=observed)
    observed[3, 0] = False  # whatever the view holds there
    assert np.isfinite(model.transform({**frames, "sounds": sounds}, observed=observed)).all()


def test_codes_in_another_order_are_refused(frames):
    model = quick().fit(frames)
    codes = pandas.DataFrame(model.transform(frames), columns=model.get_feature_names_out())
    expected = model.inverse_transform(codes)["images"]
    plain = NMF(2, max_iter=3, random_state=0).fit(frames["sounds"].to_numpy())
    for estimator, prefix in ((model, "multiviewnmf"), (plain, "nmf")):
        named = codes.set_axis([f"{prefix}0", f"{prefix}1"], axis=1)
        estimator.inverse_transform(named.set_axis(["speech", "noise"], axis=1))
        with pytest.raises(ParameterError, match=f"X must have its columns in the order .*; got '{prefix}1' first; "):
            estimator.inverse_transform(named[[f"{prefix}1", f"{prefix}0"]])
        with pytest.raises(ParameterError, match="got 1 first; pass"):
            estimator.inverse_transform(named.set_axis([1, 0], axis=1))
    cured = codes[codes.columns[::-1]][model.get_feature_names_out()]
    pandas.testing.assert_frame_equal(model.inverse_transform(cured)["images"], expected)


def test_one_array_without_groups_is_named(frames):
    with pytest.warns(UserWarning, match="MultiviewNMF takes X for a single view, because groups is None") as caught:
        quick().fit(frames["sounds"])
    assert {warning.filename for warning in caught if "single view" in str(warning.message)} == {__file__}


def test_what_would_be_matched_by_position_without_a_word_is_refused(frames):
    """The columns of one frame with levels, of `observed` and the labels of a series may be in another order."""
    levels, observed = pandas.concat(frames, axis=1), pandas.DataFrame({name: [True] * 12 for name in frames})
    joined = pandas.concat(frames.values(), axis=1)
    series = pandas.Series(["sounds"] * 3 + ["images"] * 2, joined.columns)
    model = quick().fit(frames)
    for call, cure in (
        (lambda: quick().fit(levels), "{name: X[name] for name in X.columns.unique(0)}"),
        (lambda: model.transform(levels), "{name: X[name] for name in X.columns.unique(0)}"),
        (lambda: model.transform(frames, observed), "numpy.column_stack([observed[name] for name in ['sounds', 'image"),
        (lambda: quick(groups=series).fit(joined), "groups.to_numpy()"),
        (lambda: quick().fit({2024: frames["sounds"], 2025: frames["images"]}), "{str(name): X[name] for name in X}"),
    ):
        with pytest.raises(ParameterError, match=re.escape(cure)):
            call()
    cured = {name: levels[name] for name in levels.columns.unique(0)}
    mask = np.column_stack([observed[name] for name in ["sounds", "images"]])
    np.testing.assert_array_equal(model.transform(cured, mask), model.transform(frames))
