"""Files of fitted estimators and of checkpoints; :data:`ESTIMATOR` is the part of a state for other files.

What a fit leaves is declared here for each class. Nothing else is saved, or set when a file asks for it.
"""

from __future__ import annotations

import copy
import math
from collections import ChainMap
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from visionnmf import choices
from visionnmf.engine.arrays.namespace import to_numpy
from visionnmf.engine.solving import SOLVERS
from visionnmf.exceptions import UnreadableError
from visionnmf.io.model_file import ModelFile
from visionnmf.io.model_state import (
    Array,
    Estimator,
    Field,
    Flag,
    List,
    Maybe,
    Number,
    Place,
    Record,
    Restorable,
    Text,
    Value,
    Whole,
)

__all__ = [
    *("ESTIMATOR", "PARAMETERS", "Saveable", "estimator_of", "load_checkpoint", "load_model", "restore"),
    *("same_parameters", "save_checkpoint"),
]


def _names(names: list[str]) -> Any:
    """Return names as an array of objects, as scikit-learn keeps them."""
    return np.array(names, object)


FLOATS = "float32 float64"
ANY_NUMBER = Number(also=(math.inf, -math.inf, math.nan))
HISTORY = Array(FLOATS, "iterations", empty=True, finite=False)
MATRIX = Array(FLOATS, "components features")
NONNEGATIVE = Array(FLOATS, "components features", low=0)

ALL: dict[str, Field] = {
    "n_features_in_": Whole(size="features"),
    "n_components_": Maybe(Whole(size="components")),
    "n_iter_": Maybe(Whole()),
    "objective_history_": Maybe(HISTORY),
    "optimality_": Maybe(ANY_NUMBER),
    "reconstruction_err_": Maybe(ANY_NUMBER),
    "feature_names_in_": Maybe(List(Text(), size="features", make=_names)),
    "_sklearn_output_config": Maybe(Record({"transform": Text(("default", "pandas", "polars"))})),
}
PLAIN: dict[str, Field] = {
    "components_": MATRIX,  # of both signs with the solver "svd"
    "component_norms_": Array(FLOATS, "components", above=0),
    "loss_": Maybe(Text(choices.AUTO_LOSSES)),
    "loss_parameter_": Number(low=-(2.0**63), high=2.0**63),  # what compiled code takes
    "ridge_": Number(low=0),
    "solver_": Text(tuple(SOLVERS)),
    **ALL,
}
VIEWS: dict[str, Field] = {
    "views_": List(Text(), size="views", distinct=True, make=_names),
    "view_groups_": Array("int64", "features", low=0, below="views"),
    "view_form_": Text(("matrix", "list", "dict")),
    "view_feature_names_": List(Maybe(List(Text())), empty=True),
    "view_frames_": List(Flag(), size="views"),
    "view_scales_": Array(FLOATS, "views", low=0),
    "view_noise_": Array(FLOATS, "views", above=0),
    "codes_mean_": Array(FLOATS, "components"),
    "codes_covariance_": Array(FLOATS, "components components"),
    "view_errors_": Maybe(Array(FLOATS, "views", finite=False)),
    "view_usage_": Maybe(Array(FLOATS, "components views", finite=False)),
    "view_weights_": Maybe(Array(FLOATS, "views", finite=False)),
}
CONSERVATIVE: dict[str, Field] = {
    "components_": NONNEGATIVE,
    "encoder_": MATRIX,
    "last_components_": NONNEGATIVE,
    "last_encoder_": MATRIX,
    "errors_": Array("float64", "batches", empty=True, finite=False),
    "best_error_": ANY_NUMBER,
    "n_samples_seen_": Whole(),
    "_open_batch": Value(),  # samples, and the sum of their errors
    **ALL,
}
ONLINE: dict[str, Field] = {
    "components_": NONNEGATIVE,
    "state_": Value(),  # each method checks its own
    "n_samples_seen_": Whole(),
    "n_steps_": Whole(),
    "chunk_loss_": Maybe(ANY_NUMBER),
    **ALL,
}
ROBUST: dict[str, Field] = {"components_": MATRIX, "singular_values_": Maybe(Array(FLOATS, "components")), **ALL}
STATES: Mapping[str, Mapping[str, Field]] = {
    "NMF": PLAIN,
    "ConservativeNMF": CONSERVATIVE,
    "GoDec": ROBUST,
    "MultiviewNMF": PLAIN | VIEWS,
    "OnlineNMF": ONLINE,
    "ProjectiveNMF": {"components_": NONNEGATIVE, **ALL},
    "RPCA": ROBUST,
    "SymmetricNMF": {"components_": NONNEGATIVE, "objectives_": Maybe(Array(FLOATS, "fits", finite=False)), **ALL},
}
STREAM = Record(
    {
        **{name: Whole() for name in ("epoch", "samples", "done", "batch_size")},
        **{name: Maybe(Whole()) for name in ("random_state", "n_samples")},
    }
)


def _find_class(name: str) -> type:
    """Return an estimator, or the class of penalties, which are parameters; raise KeyError for other names."""
    if name not in STATES and name != "Penalty":
        raise KeyError(name)
    cls: type = getattr(import_module(__package__), name)  # whose classes are imported when they are needed
    return cls


PARAMETERS = Value(_find_class)


def estimator_of(*names: str, **sizes: str) -> Estimator:
    """Return the declaration of a fitted estimator of one of the classes `names`, for the state of a model file.

    `sizes` gives dimensions of its arrays in terms of those of the file, such as ``features="height*width"``. `STATES`
    declares the fitted attributes of each class, and `PARAMETERS` checks parameters.
    """
    return Estimator({name: STATES[name] for name in names}, _find_class, PARAMETERS, tuple(sizes.items()))


ESTIMATOR = estimator_of(*STATES)

FILE = ModelFile(
    "visionnmf-model",
    version=2,
    title="a model of visionnmf's estimators",
    origin="write one with model.save",
    smaller="fit without feature names",
    state=Record({"model": ESTIMATOR, "stream": Maybe(STREAM)}),
)


class Saveable(Restorable):
    """Gives an estimator ``save``; :func:`load_model` is the way back."""

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the fitted model to a file, usually ``*.npz``, that :func:`visionnmf.load_model` reads.

        Parameters, fitted attributes and the output that ``set_output`` has chosen are kept: the loaded model's
        ``transform`` returns exactly the same. A `callback`, and a `random_state` that is a generator, are saved as
        None, and arrays on a device as those of NumPy. An existing file is replaced only with `force`, and completely
        or not at all.

        Raises
        ------
        ParameterError
            If a parameter is of a kind that files do not hold, or the class is not one of visionnmf's own.
        TooLargeError
            If there are too many names for one file.
        MediaError
            If the file exists and `force` is false, or if it cannot be written.
        """
        model = copy.copy(self)
        for name, value in vars(self).items():
            setattr(model, name, _in_numpy(value))
        FILE.save({"model": model}, path, force=force)

    def _restored(self) -> None:
        """Check a model that was read from a file; raise ValueError if its attributes do not fit together."""
        self._check_parameters()
        # only the solver "svd", and estimators without solvers, may have components of both signs
        if getattr(self, "solver_", "svd") != "svd" and (self.components_ < 0).any():  # type: ignore[attr-defined]
            raise ValueError("components_ must be >= 0")
        self._check_state()

    def _check_parameters(self) -> None:
        """Raise ParameterError if a parameter is not allowed."""

    def _check_state(self) -> None:
        """Raise ValueError if the fitted attributes do not fit together beyond what is declared."""


def _in_numpy(value: Any) -> Any:
    """Return an array, or the arrays of a dict, in NumPy, because they may lie on a device; all else as it is."""
    if isinstance(value, dict):
        return {name: _in_numpy(part) for name, part in value.items()}
    return to_numpy(value) if hasattr(value, "__dlpack__") else value


def load_model(path: str | Path) -> Any:
    """Read a model that its ``save`` has written.

    Untrusted files are safe to read: nothing in them is executed, and their arrays cannot ask for more memory than the
    file is long.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    NMF, ConservativeNMF, GoDec, MultiviewNMF, OnlineNMF, ProjectiveNMF, RPCA or SymmetricNMF
        The fitted model. Its ``transform`` returns exactly what that of the saved one did.

    Raises
    ------
    UnreadableError
        If the file is missing, damaged, or no model of visionnmf.
    UnsupportedError
        If another version of visionnmf wrote it.
    TooLargeError
        If its header has more than 32 MiB, 250,000 lists and objects, or values of 160 MiB.

    Examples
    --------
    >>> import numpy as np, tempfile, visionnmf
    >>> X = np.random.default_rng(0).random((20, 9))
    >>> model = visionnmf.NMF(2, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.npz")
    ...     again = visionnmf.load_model(f"{folder}/model.npz")
    >>> bool((again.transform(X) == model.transform(X)).all())
    True
    """
    return FILE.load(path)["model"]


def save_checkpoint(model: Any, path: str | Path, stream: dict[str, int | None]) -> None:
    """Write a model and how far the stream has come (:data:`STREAM`); replaces an earlier checkpoint."""
    FILE.save({"model": model, "stream": stream}, path, force=True)


def load_checkpoint(path: str | Path) -> tuple[Any, dict[str, Any]]:
    """Return the model and the stream that :func:`save_checkpoint` has written."""
    found = FILE.load(path)
    if found.get("stream") is None:
        raise UnreadableError(f"{path}: a model, not a checkpoint of a stream; name another file")
    return found["model"], found["stream"]


def same_parameters(one: Any, other: Any) -> bool:
    """Return whether two models are of one class and have the same parameters, as files hold them."""
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    # `pack` makes plain values of parameters, and moves arrays among them to the dict by their places
    packed = [
        PARAMETERS.pack(model.get_params(deep=False), Place("", arrays, ChainMap()))
        for model, arrays in ((one, first), (other, second))
    ]
    alike = type(one) is type(other) and packed[0] == packed[1]
    return alike and all(np.array_equal(array, second[key]) for key, array in first.items())


def restore(model: Any, saved: Any) -> None:
    """Give a model the state of `saved`, another one of its class: the fitted attributes that files hold."""
    for key, value in vars(saved).items():
        if key in STATES[type(saved).__name__]:
            setattr(model, key, value)
