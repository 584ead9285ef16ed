"""Model files: what goes in comes out to the bit; the damaged, the foreign and the future are refused in one line."""

import dataclasses
import io
import json
import random
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import visionnmf
from visionnmf import NMF, Penalty, ProjectiveNMF, SymmetricNMF, load_model
from visionnmf.exceptions import (
    MediaError,
    OutputExistsError,
    ParameterError,
    TooLargeError,
    UnreadableError,
    UnsupportedError,
)
from visionnmf.models import _store

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


def same(a, b):
    """Whether two values are alike, in kind too."""
    if sp.issparse(a):
        return sp.issparse(b) and a.shape == b.shape and (a != b).nnz == 0
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, Penalty):
        return isinstance(b, Penalty) and same(a.get_params(), b.get_params())
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)


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
    assert {key for key in vars(model) if key.endswith("_")} <= set(_store.FITTED)
    np.testing.assert_array_equal(again.fit(A).components_, model.components_)


def test_penalties_with_arrays_in_them(path):
    graph = sp.csr_array(np.ones((12, 12)) - np.eye(12))
    for penalty in (Penalty(groups=VIEWS, group_l1=0.1), Penalty(graph=graph, graph_weight=0.1), Penalty(graph="knn")):
        model = NMF(2, loss="frobenius", penalty_W=Penalty(l2=0.1), penalty_H=penalty, **FEW)
        fitted = model.fit(X)
        fitted.save(path, force=True)
        again = load_model(path)
        assert same(again.penalty_H, penalty)
        np.testing.assert_array_equal(again.transform(X), fitted.transform(X))


def test_odd_values_come_back(path):
    values = {
        "nothing": None,
        "numbers": [1, -2.5, float("inf"), float("-inf"), True, 10**30],
        "nan": float("nan"),
        "tuple": (0, None, ("text", "\udc80é")),
        "scalars": [np.float32(0.5), np.int64(3), np.bool_(True)],
        "dict": {"a": {"tuple": 3}, "array": [1]},
        "slice": slice(None, 4),
        "cube": np.arange(24, dtype=np.int16).reshape(2, 3, 4),
        "fortran": np.asfortranarray(X[:3]),
        "zero-dimensional": np.array(3.5),
        "empty": np.zeros((0, 4), np.float32),
        "truth": np.array([True, False]),
        "big-endian": np.arange(3, dtype=">f8"),
        "names": np.array(["a", "é"], dtype=object),
        "sparse": sp.csr_array(np.eye(3)),
    }
    model = fitted()
    model.random_state = values
    model.save(path)
    found = load_model(path).random_state
    values["scalars"] = [0.5, 3, True]
    values["big-endian"] = values["big-endian"].astype(float)
    for key, value in values.items():
        assert same(value, found[key]), key
    assert list(found) == list(values)


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


def test_what_cannot_be_kept_is_refused(path):
    with pytest.raises(NotFittedError):
        NMF(2).save(path)
    model = fitted()
    for value, word in (({1: 2}, "a dict"), (object(), "a object"), (np.array([1j]), "an array of complex128")):
        model.init = value
        with pytest.raises(
            ParameterError, match=f"init must be a number, text, an array or a penalty to be saved; got {word}"
        ):
            model.save(path)

    class Mine(NMF):
        pass

    with pytest.raises(
        ParameterError,
        match=r"model must be one of \['ConservativeNMF', .*'NMF', 'OnlineNMF', .*\] to be saved; got a Mine",
    ):
        Mine(2, loss="frobenius", **FEW).fit(X).save(path)
    assert not path.exists()


def test_nothing_is_overwritten_unless_told(path):
    path.write_text("mine")
    with pytest.raises(OutputExistsError, match=r"model\.npz: exists already; pass force=True to replace it"):
        fitted().save(path)
    assert path.read_text() == "mine"
    fitted().save(path, force=True)
    assert load_model(path).n_components_ == 3
    with pytest.raises(MediaError, match="there is no folder"):
        fitted().save(path.parent / "no" / "model.npz")


def test_no_half_written_file_is_left(path, monkeypatch):
    def fail(file, *_, **__):
        file.write(b"half")
        raise KeyboardInterrupt

    model = fitted()
    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(KeyboardInterrupt):
        model.save(path)
    assert list(path.parent.iterdir()) == []


# --- files that are not what they should be ---------------------------------------------------------------------------


def changed(path, change, **options):
    """Rewrite a good file with a changed header or changed arrays."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays.pop("header").tobytes())
    change(header, arrays)
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    with path.open("wb") as file:
        np.savez(file, header=np.frombuffer(text, np.uint8), **arrays, **options)


def deep(levels):
    value = 1
    for _ in range(levels):
        value = {"tuple": [value]}
    return value


DAMAGES = {
    "no components": lambda h, a: a.pop("components_"),
    "components are no attribute": lambda h, a: h["fitted"].pop("components_"),
    "components are text": lambda h, a: h["fitted"].update(components_="H"),
    "components are a list": lambda h, a: a.update(components_=a["components_"][0]),
    "components are integers": lambda h, a: a.update(components_=a["components_"].astype(int)),
    "half precision": lambda h, a: a.update(components_=a["components_"].astype(np.float16)),
    "negative components": lambda h, a: a.update(components_=-a["components_"]),
    "components not finite": lambda h, a: a.update(components_=a["components_"] * np.nan),
    "no component": lambda h, a: a.update(components_=a["components_"][:0]),
    "another number of features": lambda h, a: h["fitted"].update(n_features_in_=11),
    "no number of features": lambda h, a: h["fitted"].pop("n_features_in_"),
    "another number of components": lambda h, a: h["fitted"].update(n_components_=2),
    "norms of other components": lambda h, a: a.update(component_norms_=np.ones(2)),
    "fewer names": lambda h, a: h["fitted"].update(feature_names_in_={"strings": ["a"]}),
    "names are numbers": lambda h, a: h["fitted"].update(feature_names_in_={"strings": list(range(12))}),
    "objects": lambda h, a: a.update(components_=np.array([{"evil": 1}], object)),
    "text array": lambda h, a: a.update(components_=np.array(["a"])),
    "structured": lambda h, a: a.update(components_=np.zeros(3, [("a", "f8")])),
    "no parameters": lambda h, a: h.pop("parameters"),
    "parameters are a list": lambda h, a: h.update(parameters=[1]),
    "fitted is a list": lambda h, a: h.update(fitted=[1]),
    "a method as attribute": lambda h, a: h["fitted"].update(transform=1),
    "a private attribute": lambda h, a: h["fitted"].update(__class__=1),
    "unknown form": lambda h, a: h["parameters"].update(tol={"pickle": "gASVAAAA"}),
    "two forms": lambda h, a: h["parameters"].update(tol={"tuple": [], "dict": {}}),
    "no form": lambda h, a: h["parameters"].update(tol={}),
    "nested without end": lambda h, a: h["parameters"].update(tol=deep(300)),
    "float is a list": lambda h, a: h["parameters"].update(tol={"float": [1]}),
    "slice of text": lambda h, a: h["parameters"].update(tol={"slice": ["a", "b", "c"]}),
    "unknown object": lambda h, a: h["parameters"].update(penalty_H={"object": "os.system", "parameters": {}}),
    "object of a list": lambda h, a: h["parameters"].update(penalty_H={"object": [1], "parameters": {}}),
    "sparse beyond its shape": lambda h, a: (
        a.update(data=np.ones(1), indices=np.array([9]), indptr=np.array([0, 1])),
        h["parameters"].update(
            components_init={"csr": [[1, 3], *({"array": k} for k in ("data", "indices", "indptr"))]}
        ),
    ),
    "unknown solver": lambda h, a: h["fitted"].update(solver_="evil"),
    "no solver": lambda h, a: h["fitted"].pop("solver_"),
    "no norms": lambda h, a: h["fitted"].pop("component_norms_"),
    "a norm of zero": lambda h, a: a.update(component_norms_=np.zeros(3)),
    "ridge is text": lambda h, a: h["fitted"].update(ridge_="1"),
    "ridge below zero": lambda h, a: h["fitted"].update(ridge_=-1.0),
    "loss parameter not finite": lambda h, a: h["fitted"].update(loss_parameter_={"float": "nan"}),
    "loss parameter of more than 64 bits": lambda h, a: h["fitted"].update(loss_parameter_=10**30),
    "no parameter of that name": lambda h, a: h["fitted"].pop("loss_parameter_"),
    "history is a number": lambda h, a: h["fitted"].update(objective_history_=1),
    "iterations are text": lambda h, a: h["fitted"].update(n_iter_="6"),
    "an unknown loss": lambda h, a: h["parameters"].update(loss="evil"),
    "a loss of a penalty": lambda h, a: h["parameters"].update(penalty_W={"float": "nan"}),
    "tolerance not a number": lambda h, a: h["parameters"].update(tol={"float": "nan"}),
    "a penalty of nan": lambda h, a: h["parameters"].update(
        penalty_W={"object": "Penalty", "parameters": {"l1": {"float": "nan"}}}
    ),
    "weights of zeros": lambda h, a: h["parameters"].update(zero_weight=7),
    "header no object": lambda h, a: (h.clear(), h.update(format=[])),
    "another format": lambda h, a: h.update(format="visionnmf-masquerade"),
    "no format": lambda h, a: h.pop("format"),
    "version is text": lambda h, a: h.update(version="new"),
    "no version": lambda h, a: h.pop("version"),
}


def test_a_model_of_both_signs_comes_back(path):
    model = NMF(2, loss="frobenius", solver="svd", **FEW).fit(X)
    assert (model.components_ < 0).any()
    model.save(path)
    np.testing.assert_array_equal(load_model(path).transform(X), model.transform(X))


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_models_are_refused(damage, path):
    fitted().save(path)
    changed(path, lambda header, arrays: None)
    load_model(path)  # rewriting alone does no harm
    changed(path, damage)
    with pytest.raises(UnreadableError, match=r"model\.npz: (damaged, or not a model|not a model)") as caught:
        load_model(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300 + len(str(path))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda h, a: h.update(version=2), r"\(model version 2, this one reads up to 1\); upgrade visionnmf"),
        (lambda h, a: h.update({"class": "MultiNMF"}), r"\(it has no estimator 'MultiNMF'\); upgrade"),
        (lambda h, a: h.update({"class": "Penalty"}), r"\(it has no estimator 'Penalty'\); upgrade"),
        (lambda h, a: h["parameters"].update(speed=3), r"\(NMF has no parameter 'speed' in this one\); upgrade"),
    ],
)
def test_the_future_is_refused(change, sentence, path):
    fitted().save(path)
    changed(path, change)
    with pytest.raises(UnsupportedError, match=f"written by a later version of visionnmf {sentence}"):
        load_model(path)


def test_a_parameter_that_came_later_has_its_default(path):
    fitted().save(path)
    changed(path, lambda header, arrays: header["parameters"].pop("n_init"))
    assert load_model(path).n_init == NMF().n_init


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"no model", b"PK\x05\x06" + bytes(18), b"PK\x05\x06" + bytes(9), b"\x93NUMPY" * 9]
)
def test_other_files_are_refused(content, path):
    path.write_bytes(content)
    with pytest.raises(UnreadableError):
        load_model(path)
    with pytest.raises(UnreadableError, match="no such file"):
        load_model(path.with_name("missing"))
    with pytest.raises(UnreadableError, match="a folder"):
        load_model(path.parent)


def test_files_that_ask_for_more_than_they_hold_are_refused(path, monkeypatch):
    fitted().save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(UnreadableError, match=r"damaged, or not a model .*it is compressed"):
        load_model(path)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 60, 4)})
    parts["components_.npy"] = header.getvalue() + b"\0" * 8
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(UnreadableError, match="components_ is not of the size it says"):
        load_model(path)
    fitted().save(path, force=True)
    changed(path, lambda h, a: h.update(bomb=[[]] * (8 << 20)))
    many = path.with_name("many.npz")
    fitted().save(many)
    changed(many, lambda h, a: h.update(more=[[]] * 300_000))
    monkeypatch.setattr(json, "loads", lambda data: pytest.fail("decoded"))
    with pytest.raises(TooLargeError, match="its header has 32 MiB, 16 are allowed"):
        load_model(path)
    with pytest.raises(TooLargeError, match="its header has more than 250000 lists and objects"):
        load_model(many)


def test_members_that_share_their_bytes_are_refused(path):
    fitted().save(path)
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("components_.npy").file_size
    # the directory at the end of the file says how long a member is
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(b"components_.npy"))
    forged = bytearray(data)
    for field in (20, 24):
        assert int.from_bytes(forged[entry + field : entry + field + 4], "little") == size
        forged[entry + field : entry + field + 4] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(bytes(forged))
    with pytest.raises(UnreadableError, match="its members are larger than the file"):
        load_model(path)


def test_too_many_names_are_refused_when_saved(path, monkeypatch):
    monkeypatch.setattr(_store, "FORMAT", dataclasses.replace(_store.FORMAT, header_bytes=100))
    with pytest.raises(TooLargeError, match="its header has 0 MiB, 0 are allowed; fit without feature names"):
        fitted().save(path)
    assert not path.exists()


def test_any_cut_and_any_flipped_byte_is_refused_or_harmless(path):
    model = fitted()
    model.save(path)
    good = path.read_bytes()
    rng = random.Random(1)
    refused = 0
    for _ in range(200):
        data = bytearray(good)
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        else:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(data))
        try:
            np.testing.assert_array_equal(load_model(path).components_, model.components_)
        except MediaError:
            refused += 1
    assert refused > 120


def test_every_estimator_can_be_saved():
    estimators = {name for name in visionnmf.__all__ if hasattr(getattr(visionnmf, name), "fit")}
    assert estimators == set(_store._models())


@pytest.mark.parametrize("name", MODELS)
def test_all_that_a_fit_leaves_is_kept(name):
    model = fitted(name)
    assert {key for key in vars(model) if key.endswith("_")} <= set(_store.FITTED)


def test_only_what_a_fit_leaves_is_written(path):
    model = fitted()
    model.note_ = "mine"
    model.save(path)
    assert not hasattr(load_model(path), "note_")
    changed(path, lambda header, arrays: header["fitted"].update(note_=1))
    with pytest.raises(UnreadableError, match="'note_' is no fitted attribute"):
        load_model(path)
