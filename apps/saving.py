"""The methods ``save`` and ``load`` of estimators of applications; the application's ``store`` module does the work."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T", bound="SaveableEstimator")


class SaveableEstimator:
    """Give an estimator ``save`` and ``load`` by ``save`` and ``load_estimator`` of the module ``store`` beside it."""

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the fitted estimator to a file, without pickle.

        Parameters
        ----------
        path : str or Path
            The file to write, usually ``*.npz``. It appears whole or not at all.
        force : bool, default=False
            Whether an existing file may be replaced.

        Raises
        ------
        NotFittedError, ParameterError
            Before `fit`, or if the estimator holds something that files cannot store.
        OutputExistsError, MediaError
            If `path` exists and `force` is false, or cannot be written.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        store_of(type(self)).save(self, path, force=force)

    @classmethod
    def load(cls: type[T], path: str | Path) -> T:
        """Read an estimator that :meth:`save` has written. Untrusted files are safe to read.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        estimator
            The fitted estimator.

        Raises
        ------
        UnreadableError, UnsupportedError
            If the file is missing, damaged, or holds another kind of model, or a later version of visionnmf wrote it.
        """
        loaded: T = store_of(cls).load_estimator(path)
        return loaded

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        # scikit-learn's, on one line; N_CHAR_MAX, its own name, is the number of characters that are shown at most
        return " ".join(super().__repr__(N_CHAR_MAX).split())  # type: ignore[call-arg]


def store_of(cls: type[Any]) -> Any:
    """Import the module ``store`` of the application to which an estimator belongs."""
    return import_module(".store", cls.__module__.rpartition(".")[0])
