"""Files of fitted estimators and of checkpoints.

Each class names the attributes that files hold. Nothing else is saved, or set when a file asks for it.
"""

from __future__ import annotations

import copy
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from visionnmf._checks import check_choice, check_count, check_number, check_saved, check_texts, check_type
from visionnmf.engine.arrays.namespace import to_numpy
from visionnmf.engine.solving import SOLVERS
from visionnmf.exceptions import UnreadableError
from visionnmf.io.model_file import ModelFile, Values

ESTIMATORS = ("ConservativeNMF", "MultiviewNMF", "NMF", "OnlineNMF", "ProjectiveNMF", "SymmetricNMF")
FACTORED = ("component_norms_", "loss_parameter_", "ridge_", "solver_")


def find_class(name: str) -> type:
    """Return an estimator, or the class of penalties, which are parameters; raise KeyError for other names."""
    if name not in ESTIMATORS and name != "Penalty":
        raise KeyError(name)
    cls: type = getattr(import_module(__package__), name)  # whose classes are imported when they are needed
    return cls


POSITION = ("epoch", "samples", "done", "batch_size")  # how far a stream has come
ABOUT = ("random_state", "n_samples", "data")  # may be None


def _check(state: Any) -> Any:
    """Return the parts of a file, `model` and `stream`, which is None or says how far a stream has come."""
    model, stream = state["model"], state["stream"]
    check_type(model, "model", Saveable)
    check_is_fitted(model)
    if stream is not None:
        if {*stream} != {*POSITION, *ABOUT}:
            raise ValueError(f"stream must have {', '.join((*POSITION, *ABOUT))}")
        for name, value in stream.items():
            if value is not None or name in POSITION:
                check_count(value, f"{name} of the stream", 0)
    return model, stream


FILE = ModelFile(
    "model",
    version=4,
    title="a model of visionnmf's estimators",
    origin="write one with model.save",
    smaller="fit without feature names",
    find_class=find_class,
    check=_check,
)


class Saveable:
    """Gives an estimator ``save``; :func:`load_model` is the way back."""

    saved_attributes: tuple[str, ...] = (
        *("components_", "n_features_in_", "n_components_", "n_iter_", "objective_history_", "optimality_"),
        *("reconstruction_err_", "feature_names_in_", "_sklearn_output_config"),
    )

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
        check_is_fitted(self)
        FILE.save({"model": _on_host(self), "stream": None}, path, force=force)

    def _check_parameters(self) -> None:
        """Raise ParameterError if a parameter is not allowed."""

    def _check_state(self, low: float = 0.0) -> None:
        """Raise ValueError unless what a file gave can be used; `low` is the least value of components."""
        self._check_parameters()
        given: Any = self
        n_components, n_features = check_saved(given.components_, "components_", (None, None), low=low)
        if (given.n_features_in_, getattr(self, "n_components_", n_components)) != (n_features, n_components):
            raise ValueError("n_features_in_ and n_components_ must be those of components_")
        for name in ("n_iter_", "n_samples_seen_", "n_steps_"):
            if getattr(self, name, None) is not None:
                check_count(getattr(self, name), name, 0)
        if getattr(self, "objective_history_", None) is not None:
            check_saved(given.objective_history_, "objective_history_", (None,), finite=False, empty=True)
        for name in ("optimality_", "reconstruction_err_"):
            check_type(getattr(self, name, None), name, float, int, type(None))
        if hasattr(self, "feature_names_in_"):
            check_texts(check_type(given.feature_names_in_, "names", np.ndarray).tolist(), "names", n_features)
        output = getattr(self, "_sklearn_output_config", {"transform": "default"})
        check_choice(output["transform"], "output", ("default", "pandas", "polars"))


def check_factored(model: Any) -> None:
    """Raise ValueError unless components from a file, and `FACTORED`, can be used to find codes."""
    check_choice(model.solver_, "solver_", SOLVERS)
    Saveable._check_state(model)
    check_saved(model.component_norms_, "component_norms_", (len(model.components_),), positive=True)
    check_number(model.loss_parameter_, "loss_parameter_", -(2.0**63), 2.0**63)  # what compiled code takes
    check_number(model.ridge_, "ridge_", 0.0, 2.0**63)  # finite in single precision


def _on_host(model: Any) -> Any:
    """Return a model whose arrays are those of NumPy, because they may lie on a device."""
    model = copy.copy(model)
    vars(model).update(_in_numpy(vars(model)))
    return model


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
    NMF, ConservativeNMF, MultiviewNMF, OnlineNMF, ProjectiveNMF or SymmetricNMF
        The fitted model. Its ``transform`` returns exactly what that of the saved one did.

    Raises
    ------
    UnreadableError
        If the file is missing, damaged, or no model of visionnmf.
    UnsupportedError
        If another version of visionnmf wrote it.
    TooLargeError
        If its header has more than 8 MiB, or more than 250,000 lists and objects.

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
    return FILE.load(path)[0]


def save_checkpoint(model: Any, path: str | Path, stream: dict[str, int | None]) -> None:
    """Write a model and how far the stream has come; replaces an earlier checkpoint."""
    FILE.save({"model": _on_host(model), "stream": stream}, path, force=True)


def load_checkpoint(path: str | Path) -> tuple[Any, dict[str, Any]]:
    """Return the model and the stream that :func:`save_checkpoint` has written."""
    model, stream = FILE.load(path)
    if stream is None:
        raise UnreadableError(f"{path}: a model, not a checkpoint of a stream; name another file")
    return model, stream


def same_parameters(one: Any, other: Any) -> bool:
    """Return whether two models are of one class and have the same parameters, as files hold them."""
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    # `pack` makes plain values of parameters, and moves arrays among them to the dict by their places
    packed = [
        Values(find_class, arrays).pack(model.get_params(deep=False), "")
        for model, arrays in ((one, first), (other, second))
    ]
    alike = type(one) is type(other) and packed[0] == packed[1]
    return alike and all(np.array_equal(array, second[key]) for key, array in first.items())


def restore(model: Any, saved: Any) -> None:
    """Give a model the state of `saved`, another one of its class: the fitted attributes that files hold."""
    vars(model).update({name: value for name, value in vars(saved).items() if name in saved.saved_attributes})
