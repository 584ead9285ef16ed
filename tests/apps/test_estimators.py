"""The estimators of the applications: parameters, clones, files and what they print."""

import dataclasses
import importlib
import inspect

import numpy as np
import pytest
from public_names import MODULES
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from visionnmf.apps.background import BackgroundModel
from visionnmf.apps.faces import FaceRecognizer
from visionnmf.apps.masquerade import MasqueradeModel, SessionScorer, save
from visionnmf.datasets import make_surveillance
from visionnmf.exceptions import OutputExistsError, ParameterError

SESSIONS = [["ls", "cd", "make", "vi"] * 5, ["cd", "vi", "make", "ls"] * 5] * 6


def background():
    frames = make_surveillance(12, 24, 32, random_state=0).frames
    return BackgroundModel(threshold=2.5).fit(frames), lambda model: [part.mask for part in model.apply(frames)]


def faces():
    rng = np.random.default_rng(0)
    people = rng.random((4, 36))
    X = np.repeat(people, 4, axis=0) * rng.uniform(0.5, 1, (16, 36))
    model = FaceRecognizer(image_shape=(6, 6), n_components=4, outliers=3.0, missing="none", random_state=0)
    return model.fit(X, np.repeat(["Ada", "Ben", "Cy", "Di"], 4)), lambda model: model.predict(people)


def sessions():
    return SessionScorer(false_alarm_rate=0.05).fit(SESSIONS), lambda model: model.anomaly_score(SESSIONS)


@pytest.fixture(scope="module", params=[background, faces, sessions], ids=lambda make: make.__name__)
def fitted(request):
    return request.param()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")  # optional array libraries, pandas
@pytest.mark.filterwarnings("ignore:y has (one person|two people)")
@parametrize_with_checks([FaceRecognizer(n_components=2)])
def test_scikit_learn_checks(estimator, check, under_seeds):
    under_seeds(check, estimator)


def test_parameters_clone_and_print(fitted):
    model, _ = fitted
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert repr(model).count("\n") == 0 and len(repr(model)) < 120
    with pytest.raises(NotFittedError):
        again.save("nowhere.npz")


def test_saved_and_loaded_it_does_the_same(fitted, tmp_path):
    model, result = fitted
    path = tmp_path / "model.npz"
    model.save(path)
    again = type(model).load(path)
    assert again.get_params() == model.get_params()
    for found, expected in zip(result(again), result(model), strict=True):
        if isinstance(expected, str):
            assert found == expected
        else:
            np.testing.assert_allclose(found, expected)
    with pytest.raises(OutputExistsError):
        model.save(path)
    model.save(path, force=True)


def test_a_background_from_a_file_has_all_that_a_fit_leaves(tmp_path):
    model, _ = background()
    model.save(tmp_path / "model.npz")
    again = BackgroundModel.load(tmp_path / "model.npz")
    assert again.get_params() == model.get_params()
    public = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert len(public) >= 7
    for name in public:
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))


def test_a_file_of_several_scorers_has_no_single_one(tmp_path):
    model, _ = sessions()
    save(MasqueradeModel({"ada": model, "ben": model}), tmp_path / "users.npz")
    with pytest.raises(ParameterError, match=r"must hold one user; got 2; take one of load\(path\).scorers"):
        SessionScorer.load(tmp_path / "users.npz")


# --- kinds of frames --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clip():
    return make_surveillance(10, 24, 32, random_state=0).frames


KINDS = {
    "uint16": lambda frames: frames.astype(np.uint16) * 257,
    "float32": lambda frames: (frames / 255).astype(np.float32),
    "float64": lambda frames: frames / 255,
    "rgba": lambda frames: np.concatenate([frames, np.full_like(frames[..., :1], 7)], axis=-1),
    "list": list,
}


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_all_kinds_are_the_same_frames(kind, clip):
    expected = BackgroundModel().fit(clip)
    model = BackgroundModel().fit(KINDS[kind](clip))
    np.testing.assert_array_equal(model.components_, expected.components_)
    (part,) = model.apply(KINDS[kind](clip[:1]))
    np.testing.assert_array_equal(part.frame, clip[0])


def test_one_channel_is_grey_and_a_frame_may_come_alone(clip):
    grey = np.ascontiguousarray(clip[..., 1])
    model = BackgroundModel().fit(grey[..., None])
    np.testing.assert_array_equal(model.components_, BackgroundModel().fit(grey).components_)
    assert model.background_.shape == grey.shape[1:]
    for frame in (grey[3], grey[3][..., None], [grey[3]]):
        (part,) = model.apply(frame)
        np.testing.assert_array_equal(part.frame, grey[3])
    colour = BackgroundModel().fit(clip)
    assert [part.index for part in colour.apply(clip[3])] == [0]
    with pytest.warns(UserWarning, match="frames hold a single frame"):
        BackgroundModel().fit(clip[3])


# --- what is printed --------------------------------------------------------------------------------------------------


def results():
    """Public results that hold arrays; scikit-learn prints estimators, whose parameters may be arrays."""
    for name in MODULES:
        if ".engine" in name:
            continue
        module = importlib.import_module(name)
        for attribute in module.__all__:
            value = getattr(module, attribute)
            if inspect.isclass(value) and dataclasses.is_dataclass(value) and not issubclass(value, BaseEstimator):
                types = {str(item.type) for item in dataclasses.fields(value)}
                if any(word in kind for kind in types for word in ("Array", "Floats", "Mask]")):
                    yield value


@pytest.mark.parametrize("result", sorted(set(results()), key=lambda cls: cls.__name__), ids=lambda cls: cls.__name__)
def test_results_do_not_print_arrays(result):
    made = object.__new__(result)
    for item in dataclasses.fields(result):
        object.__setattr__(made, item.name, np.zeros((50, 60), np.float32))
    assert repr(made).startswith(f"{result.__name__}(") and "<50 x 60 float32>" in repr(made)
    assert "\n" not in repr(made) and "0." not in repr(made)
