"""Every argument error says ``name must be ...; got ...``; estimators check in `fit`, never when they are made."""

import ast
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from visionnmf import (
    NMF,
    ConservativeNMF,
    MultiviewNMF,
    OnlineNMF,
    Penalty,
    ProjectiveNMF,
    SymmetricNMF,
    ViewClassifier,
)
from visionnmf._checks import (
    check_choice,
    check_count,
    check_flag,
    check_generator,
    check_image_shape,
    check_nonnegative_array,
    check_number,
    check_random_state,
    check_sample_weight,
    check_seed,
)
from visionnmf.apps.annotation import ImageAnnotator
from visionnmf.apps.background import BackgroundModel, OnlineBackgroundModel
from visionnmf.apps.faces import FaceRecognizer
from visionnmf.apps.masquerade import SessionScorer
from visionnmf.apps.multiview.view_model import Preparation
from visionnmf.exceptions import ParameterError
from visionnmf.features import KINDS, FeatureExtraction, make_extractor

ROOT = Path(__file__).resolve().parent.parent
# what is refused or asked for whatever its value needs no value quoted
FORM = re.compile(r"\S.* must (.+; got .*|be (left out|given) (for|with|where|because) .+)[^.]")

EXCEPTIONS = {
    "penalty_{}: {}",  # whose factor it is, before the engine's sentence
    "{}; {}",  # scikit-learn's sentence and a cure
    "{}; {} cannot be saved like this",  # after the sentence of the field
    "labels must be a file with a class for each sample, because {} has none",
    "report needs jinja2, which is not installed; {}",
}


# --- sentences --------------------------------------------------------------------------------------------------------


def template(node: ast.expr) -> str | None:
    """Return the text of a literal or an f-string, with {} for what is filled in; None for other expressions."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def sentences():
    for folder in ("visionnmf", "apps", "datasets"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ParameterError" and node.args:
                    text = template(node.args[0])
                    if text is not None:
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def test_argument_errors_have_one_form():
    found = dict(sentences())
    assert len(found) > 50
    odd = {place: text for place, text in found.items() if not FORM.fullmatch(text) and text not in EXCEPTIONS}
    assert not odd
    assert set(found.values()) >= EXCEPTIONS, "an exception that is none"


# --- the checks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "good", "bad", "sentence"),
    [
        (lambda x: check_count(x, "n"), [1, np.int8(5)], [0, 1.0, True, "1", None], "n must be a whole number >= 1"),
        (lambda x: check_count(x, "n", 0, 3), [0, 3], [-1, 4], "n must be a whole number from 0 to 3"),
        (lambda x: check_number(x, "a"), [0, 1e300, np.float32(2)], [-1, np.nan, np.inf, "1"], "a finite number >= 0"),
        (lambda x: check_number(x, "a", without_low=True), [1e-9], [0, 0.0], "a must be a finite number > 0"),
        (lambda x: check_number(x, "a", 0, 1), [0, 1], [-0.1, 1.1, True], "a must be a number from 0 to 1"),
        (
            lambda x: check_number(x, "a", 0, 1, without_low=True, without_high=True),
            [0.5],
            [0, 1],
            "a must be a number > 0 and < 1",
        ),
        (lambda x: check_choice(x, "c", ("x", "y")), ["x"], ["z", None, ["x"]], r"c must be one of \['x', 'y'\]"),
        (lambda x: check_flag(x, "f"), [True, np.False_], [0, "yes", None], "f must be True or False"),
        (
            lambda x: check_image_shape(x, n_pixels=12),
            [(3, 4), [12, 1], np.array([2, 6])],
            [(3, 5), (-3, -4), 12, (3, 4, 1), "34", (3.0, 4.0), None],
            "image_shape must be the height and width of an image, two whole numbers >= 1 with the product 12",
        ),
        (check_seed, [0, 2**32 - 1], [-1, 2**32, 1.5, True, "seed"], "random_state must be None, a whole number from"),
        (check_generator, [0, 2**40], [-1, 1.5, True, "seed"], "random_state must be None, a whole number >= 0"),
        (check_random_state, [0, None], [-1, 1.5, "seed"], "random_state must be None, a whole number from 0"),
        (
            lambda x: check_nonnegative_array(x, "W", (2,), float),
            [[0, 1]],
            [[1], [0, -1], [0, np.nan], "ab", [[1, 2], [3]]],
            "W must (have shape|hold finite|be an array)",
        ),
        (lambda x: check_sample_weight(x, 2, float), [[0, 1]], [[0, 0], [1, np.inf]], "sample_weight must (not )?"),
    ],
)
def test_checks_take_what_is_allowed_and_say_what_is_not(check, good, bad, sentence):
    for value in good:
        check(value)
    for value in bad:
        with pytest.raises(ParameterError, match=sentence) as caught:
            check(value)
        text = str(caught.value)
        assert FORM.fullmatch(text) and "\n" not in text and len(text) < 250


def test_seeds_and_generators_are_themselves_or_give_the_next():
    assert check_seed(7) == 7
    for make in (np.random.RandomState, np.random.default_rng):
        one, other = make(3), make(3)
        drawn = [check_seed(one) for _ in range(5)]
        assert drawn == [check_seed(other) for _ in range(5)] and len(set(drawn)) == 5
    assert check_seed(None) != check_seed(None)
    assert check_generator(7).random() == np.random.default_rng(7).random()
    rng = np.random.default_rng(0)
    assert check_generator(rng) is rng
    assert check_generator(np.random.RandomState(1)).random() == check_generator(np.random.RandomState(1)).random()


# --- estimators -------------------------------------------------------------------------------------------------------

X = np.random.default_rng(0).random((12, 8))
PEOPLE = np.arange(12) // 3
SESSIONS = [["ls", "cd", "vi"] * 3, ["cd", "make", "ls"] * 3] * 6
FITS = {
    NMF: (X,),
    MultiviewNMF: ([X],),
    ViewClassifier: ([X], PEOPLE),
    Preparation: ({"a": X},),
    SymmetricNMF: (X[:8] + X[:8].T,),
    ProjectiveNMF: (X,),
    ConservativeNMF: (X,),
    OnlineNMF: (X,),
    FaceRecognizer: (X, PEOPLE),
    ImageAnnotator: (X, np.eye(4)[PEOPLE]),
    BackgroundModel: (np.zeros((3, 8, 8), np.uint8),),
    OnlineBackgroundModel: (np.zeros((3, 8, 8), np.uint8),),
    SessionScorer: (SESSIONS,),
}
IMAGES = [np.zeros((8, 8), np.uint8)]
FITS |= dict.fromkeys([FeatureExtraction, *(type(make_extractor(kind)) for kind in KINDS)], (IMAGES,))
PARAMETERS = [(kind, name) for kind in FITS for name in inspect.signature(kind).parameters]


def subclasses(kind):
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


def test_no_estimator_is_forgotten():
    found = {kind for kind in subclasses(BaseEstimator) if kind.__module__.startswith("visionnmf.")}
    ours = {kind for kind in found if not inspect.isabstract(kind)}
    assert ours == {*FITS, Penalty}  # which has no `fit`


@pytest.mark.parametrize(("kind", "name"), PARAMETERS)
def test_nonsense_is_kept_when_an_estimator_is_made_and_refused_by_fit(kind, name):
    nonsense = object()
    estimator = kind(**{name: nonsense})
    assert getattr(estimator, name) is nonsense
    with pytest.raises(ParameterError, match=name) as caught:
        estimator.fit(*FITS[kind])
    assert FORM.fullmatch(str(caught.value))


OUT_OF_RANGE = {
    NMF: {"n_components": 0, "max_iter": 0, "tol": -1, "n_init": 0, "nuclear": -1, "zero_weight": -1, "solver": "x"},
    MultiviewNMF: {"group_norm": 1, "codes_l2": 0, "view_weight": "cv", "scale": "noise", "n_init": 0, "group_l1": -1},
    SymmetricNMF: {"n_components": 0, "n_init": 0, "max_iter": 0, "init": "spectral", "loss": "huber", "tol": -1},
    ProjectiveNMF: {
        "n_components": 0,
        "max_iter": 0,
        "tol": -1,
        "loss": "manhattan",
        "solver": "hals",
        "init": "zeros",
    },
    ConservativeNMF: {"n_components": 0, "w": 0, "batch_size": 0.5, "max_iter": 0, "shuffle": 1},
    OnlineNMF: {"n_components": 0, "batch_size": 0, "buffer": -1, "forget_factor": 2, "horizon": 0, "max_iter": 0},
    SessionScorer: {"false_alarm_rate": 0, "method": "x", "loss": "x"},
    FaceRecognizer: {"rule": "svm", "missing": "holes", "outliers": -1, "unknown_rate": 1, "n_components": 0},
    ImageAnnotator: {"method": "best", "coder": "all", "metrics": "manhattan", "pseudo_inverse": 1, "n_components": 0}
    | {"hellinger": 1, "n_neighbors": 0, "n_words": 0, "balance": 2},
    BackgroundModel: {"n_components": 1.5, "n_frames": 1, "threshold": 0, "random_state": -1},
    OnlineBackgroundModel: {"forgetting": 0, "warm_up": -1, "frame_rate": 0, "threshold": np.nan},
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, values in OUT_OF_RANGE.items() for name in values])
def test_values_out_of_range_are_refused(kind, name):
    value = OUT_OF_RANGE[kind][name]
    for fit in ("fit", "partial_fit"):
        if hasattr(kind, fit):
            with pytest.raises(ParameterError, match=f"^{name} must .*; got {re.escape(repr(value))}"):
                getattr(kind(**{name: value}), fit)(*FITS[kind])
