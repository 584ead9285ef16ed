"""Damaged model files of every kind: what cannot be used is refused on one line, and what loads works."""

import json
import warnings

import numpy as np
import pytest
from attack import originals, targets
from model_files import rewrite

from visionnmf.exceptions import UnreadableError

pytestmark = pytest.mark.slow  # fits a model of each kind


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return originals.models(tmp_path_factory.mktemp("models"))


@pytest.fixture
def damaged(files, tmp_path):
    """Return a function that writes a changed file of a kind, and reads and uses the model."""

    def read(name, change):
        path = tmp_path / name
        path.write_bytes(files[name])
        rewrite(path, change)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            targets.READERS["models"](path)

    return read


NAMES = (
    *("nmf", "manhattan", "projective", "symmetric", "online", "conservative", "multiview", "background"),
    *("live", "views", "faces", "users", "extraction", "weighted", "jec"),
)


def arrays_of(content, tmp_path):
    (tmp_path / "x.npz").write_bytes(content)
    with np.load(tmp_path / "x.npz") as file:
        return dict(file)


@pytest.mark.parametrize("name", NAMES)
def test_arrays_that_are_not_there_or_of_another_form_are_refused(name, files, damaged, tmp_path):
    damaged(f"{name}.npz", lambda state, arrays: None)  # rewriting alone does no harm
    arrays = arrays_of(files[f"{name}.npz"], tmp_path)
    del arrays["header"]
    for key in arrays:
        if key.endswith("generator.state.key"):  # NumPy takes numbers of any form
            continue
        for change in (
            lambda state, arrays: arrays.pop(key),  # noqa: B023
            lambda state, arrays: arrays.update({key: (arrays[key] > 0)}),  # noqa: B023
            lambda state, arrays: arrays.update({key: arrays[key][..., None]}),  # noqa: B023
        ):
            with pytest.raises(UnreadableError, match="damaged, or not") as caught:
                damaged(f"{name}.npz", change)
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_other_numbers_and_sizes_are_refused_or_harmless(name, files, damaged, tmp_path):
    arrays = arrays_of(files[f"{name}.npz"], tmp_path)
    del arrays["header"]
    refused = 0
    for key in arrays:
        for change in (
            lambda array: array[:-1],
            lambda array: np.concatenate([array, array]),
            lambda array: array * 0,
            lambda array: -1.0 - array,
            lambda array: array + (np.inf if array.dtype.kind == "f" else 99),
            lambda array: array * (np.nan if array.dtype.kind == "f" else 2),
            lambda array: array + (1e30 if array.dtype.kind == "f" else 1),
        ):
            with np.errstate(all="ignore"):
                wrong = np.asarray(change(arrays[key])).astype(arrays[key].dtype)
            try:
                damaged(f"{name}.npz", lambda state, arrays: arrays.update({key: wrong}))  # noqa: B023
            except UnreadableError:
                refused += 1
    assert refused > len(arrays)


def leaves(value, path=()):
    """Yield the paths of all values of a JSON document."""
    yield path
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from leaves(part, (*path, key))


@pytest.mark.parametrize("name", NAMES)
def test_other_values_are_refused_or_harmless(name, files, damaged, tmp_path):
    state = json.loads(arrays_of(files[f"{name}.npz"], tmp_path)["header"].tobytes())["state"]
    paths = [path for path in leaves(state) if path]
    rng = np.random.default_rng(0)
    for at in rng.permutation(len(paths))[:40]:
        value = (None, -1, 1e308, "evil", [], {"float": "nan"})[rng.integers(6)]

        def change(state, arrays):
            for key in paths[at][:-1]:  # noqa: B023
                state = state[key]
            state[paths[at][-1]] = value  # noqa: B023

        try:
            damaged(f"{name}.npz", change)
        except UnreadableError as error:
            assert "\n" not in str(error)


def user(**changed):
    return lambda state, arrays: state["dict"]["scorers"][0]["object"][2].update(changed)


def users_array(name, change):
    return lambda state, arrays: arrays.update({f"arrays.{name}": change(arrays[f"arrays.{name}"])})


def face(part=2, **changed):
    return lambda state, arrays: state["dict"]["recognizer"]["object"][part].update(changed)


def face_array(name, change):
    return lambda state, arrays: arrays.update({f"recognizer.{name}": change(arrays[f"recognizer.{name}"])})


REFUSED = {
    "commands that repeat": ("users", users_array("text", lambda a: a * np.uint8(0) + np.uint8(97))),
    "commands that are no text": ("users", users_array("text", lambda a: a | np.uint8(0x80))),
    "pairs of commands that are not there": ("users", users_array("pairs", lambda a: a + 99)),
    "weights that overflow": ("users", users_array("command_weights", lambda a: a + 1e308)),
    "a threshold that is not finite": ("users", user(threshold_={"float": "inf"})),
    "a cost that is not a number": ("users", user(usual_cost_=[1])),
    "a deviation below zero": ("users", user(deviation_=-1.0)),
    "a deviation that overflows": ("users", user(deviation_=1e200)),
    "sessions of no length": ("users", user(session_length_=1e-300)),
    "too many sessions": ("users", user(n_sessions_=10**400)),
    "an unknown method": ("users", lambda s, a: s["dict"]["scorers"][0]["object"][1].update(method="svd")),
    "a factorisation of nothing": ("users", lambda s, a: s["dict"]["scorers"][0]["object"][1].update(method="nmf")),
    "an impossible rate": ("users", lambda s, a: s["dict"]["scorers"][0]["object"][1].update(false_alarm_rate=7.0)),
    "users of one name": ("users", lambda s, a: s["dict"].update(names=["ann", "ann"])),
    "sessions of no commands": ("users", lambda s, a: s["dict"].update(size=0)),
    "silence below zero": ("users", lambda s, a: s["dict"].update(idle=-1)),
    "images of another shape": ("faces", face(1, image_shape={"tuple": [200000, 200000]})),
    "no shape of images": ("faces", face(1, image_shape=None)),
    "an unknown rule": ("faces", face(1, rule="svm")),
    "true components": ("faces", face(1, n_components=True)),
    "half a seed": ("faces", face(1, random_state=0.5)),
    "a model that is a number": ("faces", face(1, model=1)),
    "a model of another class": ("faces", lambda s, a: face_model(s).__setitem__(0, "ProjectiveNMF")),
    "a model with an impossible ridge": ("faces", lambda s, a: face_model(s)[2].update(ridge_=-1.0)),
    "a model that is not fitted": ("faces", lambda s, a: face_model(s).pop()),
    "people out of order": ("faces", lambda s, a: names_of_people(s).reverse()),
    "a person without images": ("faces", lambda s, a: names_of_people(s).append("z")),
    "a name as long as a book": ("faces", lambda s, a: names_of_people(s).__setitem__(-1, "z" * 8_000_000)),
    "images of one person alone": ("faces", face_array("labels_", lambda a: a * 0)),
    "a threshold that is text": ("faces", face(threshold_="infinity")),
    "an infinite threshold": ("faces", face(threshold_={"float": "inf"})),
    "a rate below zero": ("faces", face(corrupted_rate_=-0.1)),
    "noise of a list": ("faces", face(noise_=[[0, 0], [1, 1]])),
    "weights that are no mixture": ("faces", face(mixture_={"tuple": [1.0, 0.0]})),
    "detect that is text": ("faces", lambda s, a: s["dict"].update(detect="yes")),
}


def face_model(state):
    return state["dict"]["recognizer"]["object"][2]["model_"]["object"]


def names_of_people(state):
    return state["dict"]["recognizer"]["object"][2]["classes_"]["strings"]


@pytest.mark.parametrize(("name", "change"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused(name, change, damaged):
    with pytest.raises(UnreadableError, match="damaged, or not") as caught:
        damaged(f"{name}.npz", change)
    assert "\n" not in str(caught.value)
