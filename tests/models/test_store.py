"""Model files: what goes in comes out to the bit; the damaged, the foreign and the future are refused in one line."""

import numpy as np
import pytest
import scipy.sparse as sp
from model_files import rewrite, same
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import visionnmf
from visionnmf import NMF, Penalty, ProjectiveNMF, SymmetricNMF, load_model
from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.models.model_files import ESTIMATORS

X = np.random.default_rng(5).gamma(1, size=(30, 12))
FEW = {"max_iter": 20, "tol": 0, "random_state": 0}
VIEWS = [np.arange(5), slice(5, 12)]
MODELS = {  # losses whose kernels compile fast
    "plain": NMF(3, loss="frobenius", **FEW),
    "box": NMF(2, loss="frobenius", penalty_H=Penalty(high=0.7, l1=np.float32(0.1)), **FEW),
    "start": NMF(2, components_init=X[:2], loss="frobenius", **FEW),
    "projective": ProjectiveNMF(3, loss="kullback-leibler", **FEW),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def fitted(name="plain", dtype=np.float64):
    return clone(MODELS[name]).fit(X.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_is_the_saved_one(name, dtype, path):
    model = fitted(name, dtype)
    model.save(path)
    again = load_model(path)
    assert type(again) is type(model)
    assert same(again.get_params(deep=False), model.get_params(deep=False))
    expected = {key: value for key, value in vars(model).items() if key.endswith("_")}
    assert same({key: getattr(again, key) for key in expected}, expected)
    for data in (X[:7].astype(dtype), X[:1], X[::2].astype(np.float32)):
        np.testing.assert_array_equal(again.transform(data), model.transform(data))
    assert sorted(path.parent.iterdir()) == [path]


def test_a_symmetric_model_and_its_start(path):
    A = X @ X.T
    model = SymmetricNMF(3, init=np.ones((3, 30)), loss="frobenius", max_iter=500, random_state=0).fit(A)
    model.save(path)
    again = load_model(path)
    assert same(again.get_params(), model.get_params())
    np.testing.assert_array_equal(again.components_, model.components_)
    assert {key for key in vars(model) if key.endswith("_")} <= set(model.saved_attributes)
    np.testing.assert_array_equal(again.fit(A).components_, model.components_)


def test_penalties_with_arrays_in_them(path):
    graph = sp.csr_array(np.ones((12, 12)) - np.eye(12))
    for penalty in (Penalty(groups=VIEWS, group_l1=0.1), Penalty(graph=graph, graph_weight=0.1), Penalty(graph="knn")):
        model = NMF(2, loss="frobenius", penalty_W=Penalty(l2=0.1), penalty_H=penalty, **FEW)
        fitted = model.fit(X)
        fitted.save(path, force=True)
        again = load_model(path)
        assert same(again.penalty_H, penalty)
        assert again.get_params(deep=False) == fitted.get_params(deep=False)
        np.testing.assert_array_equal(again.transform(X), fitted.transform(X))


def test_parameters_of_a_loaded_model_are_equal(path):
    fitted = NMF(2, loss="frobenius", penalty_W=Penalty(l1=0.1, high=2), missing_values=np.nan, **FEW).fit(X)
    fitted.save(path)
    assert load_model(path).get_params() == fitted.get_params()


def test_callbacks_and_generators_are_left_out(path):
    for generator in (np.random.RandomState(0), None):
        model = NMF(2, loss="frobenius", callback=lambda n, value: None, random_state=generator).fit(X)
        model.save(path, force=True)
        again = load_model(path)
        assert again.callback is None and again.random_state is None
        np.testing.assert_array_equal(again.transform(X), model.transform(X))


def test_names_and_output_are_kept(path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"pixel {i}" for i in range(12)])
    model = NMF(2, loss="frobenius", **FEW).set_output(transform="pandas").fit(frame)
    model.save(path)
    found = load_model(path).transform(frame)
    assert list(found.columns) == ["nmf0", "nmf1"]
    with pytest.raises(ValueError, match="feature names"):
        load_model(path).transform(frame.iloc[:, ::-1])


def test_what_cannot_be_kept_is_refused_and_only_what_a_fit_leaves_is_written(path):
    with pytest.raises(NotFittedError):
        NMF(2).save(path)

    class Mine(NMF):
        pass

    with pytest.raises(ParameterError, match=r"model must be a number, text, .*; got a Mine"):
        Mine(2, loss="frobenius", **FEW).fit(X).save(path)
    assert not path.exists()
    model = fitted()
    model.note_ = "mine"
    model.save(path)
    assert not hasattr(load_model(path), "note_")


# --- files that are not what they should be ---------------------------------------------------------------------------


def parameter(**changed):
    """Return a change of a file that gives the model other parameters."""
    return lambda state, arrays: state["dict"]["model"]["object"][1].update(changed)


def attribute(**changed):
    return lambda state, arrays: state["dict"]["model"]["object"][2].update(changed)


H, NORMS = "model.components_", "model.component_norms_"
DAMAGES = {
    "components are integers": lambda s, a: a.update({H: a[H].astype(int)}),
    "negative components": lambda s, a: a.update({H: -a[H]}),
    "components not finite": lambda s, a: a.update({H: a[H] * np.nan}),
    "no component": lambda s, a: a.update({H: a[H][:0]}),
    "norms of other components": lambda s, a: a.update({NORMS: np.ones(2)}),
    "a norm of zero": lambda s, a: a.update({NORMS: np.zeros(3)}),
    "another number of features": attribute(n_features_in_=11),
    "another number of components": attribute(n_components_=2),
    "fewer names": attribute(feature_names_in_={"strings": ["a"]}),
    "names are numbers": attribute(feature_names_in_=list(range(12))),
    "an attribute of mine": attribute(note_=1),
    "no number of features": lambda s, a: s["dict"]["model"]["object"][2].pop("n_features_in_"),
    "no solver": lambda s, a: s["dict"]["model"]["object"][2].pop("solver_"),
    "unknown solver": attribute(solver_="evil"),
    "ridge is text": attribute(ridge_="1"),
    "ridge below zero": attribute(ridge_=-1.0),
    "loss parameter not finite": attribute(loss_parameter_="nan"),
    "loss parameter of more than 64 bits": attribute(loss_parameter_=10**30),
    "history is a number": attribute(objective_history_=1),
    "iterations are text": attribute(n_iter_="6"),
    "an output of another kind": attribute(_sklearn_output_config={"dict": {"transform": "evil"}}),
    "an unknown loss": parameter(loss="evil"),
    "a loss of a penalty": parameter(penalty_W={"float": "nan"}),
    "tolerance not a number": parameter(tol={"float": "nan"}),
    "a penalty of nan": parameter(penalty_W={"object": ["Penalty", {"l1": {"float": "nan"}}]}),
    "weights of zeros": parameter(zero_weight=7),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_models_are_refused(damage, path):
    fitted().save(path)
    load_model(rewrite(path))  # rewriting alone does no harm
    with pytest.raises(UnreadableError, match=r"model\.npz: (damaged, or not a model|not a model)") as caught:
        load_model(rewrite(path, damage))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300 + len(str(path))


def test_a_parameter_that_the_file_does_not_have_has_its_default(path):
    fitted().save(path)

    def change(state, arrays):
        del state["dict"]["model"]["object"][1]["n_init"]

    assert load_model(rewrite(path, change)).n_init == NMF().n_init


def test_every_estimator_can_be_saved():
    estimators = {name for name in visionnmf.__all__ if hasattr(getattr(visionnmf, name), "fit")}
    assert estimators == {*ESTIMATORS, "ViewClassifier"}  # of which pickle or skops keeps the linear machines


@pytest.mark.parametrize("name", MODELS)
def test_two_fits_with_one_seed_write_equal_files(name, tmp_path):
    paths = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for path in paths:
        fitted(name).save(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_an_archive_without_a_header_is_no_model_of_ours(tmp_path):
    """The reason was KeyError: 'header'."""
    np.savez(tmp_path / "foreign.npz", weights=np.ones(3))
    with pytest.raises(UnreadableError, match=r"foreign\.npz: not a model of .*, because it has no header"):
        load_model(tmp_path / "foreign.npz")
