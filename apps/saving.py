"""``save`` and ``load`` for estimators of applications, whose files are their application's ``store``'s."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from visionnmf.io.model_state import Restorable

__all__ = ["Saveable"]

T = TypeVar("T", bound="Saveable")


class Saveable(Restorable):
    """Gives an estimator ``save`` and ``load``; the module ``store`` beside its own knows how.

    The store has ``save(estimator, path, *, force)`` and ``load_estimator(path, **options)``.
    """

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the fitted estimator to a file that :meth:`load` reads; no pickle.

        Parameters
        ----------
        path : str or Path
            The file to write, as a rule ``*.npz``; written whole or not at all.
        force : bool, default=False
            Whether an existing file may be replaced.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ParameterError
            If it has what files do not hold.
        OutputExistsError
            If `path` exists and `force` is false.
        MediaError
            If `path` cannot be written.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        _store(type(self)).save(self, path, force=force)

    @classmethod
    def load(cls: type[T], path: str | Path, **options: Any) -> T:
        """Read an estimator that :meth:`save` has written; files of strangers are safe to read.

        Parameters
        ----------
        path : str or Path
        **options : dict
            Of sessions: ``key``, where commands are hashed, and ``user``, where the file has several.

        Returns
        -------
        estimator
            The fitted estimator.

        Raises
        ------
        UnreadableError
            If the file is missing, damaged, or holds another kind of model.
        UnsupportedError
            If a later version of visionnmf wrote it.
        """
        loaded: T = _store(cls).load_estimator(path, **options)
        return loaded

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        # scikit-learn's, on one line
        return " ".join(super().__repr__(N_CHAR_MAX).split())  # type: ignore[call-arg]


def _store(cls: type[Any]) -> Any:
    return import_module(".store", cls.__module__.rpartition(".")[0])
