"""The work on one input of a batch: imported when it is first called, and fit for other processes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

__all__ = ["Outcome", "Work", "call", "call_in_processes"]


@dataclass(frozen=True)
class Work:
    """A function of an input, named rather than imported: what is wrong with paths is said before numerics load.

    Parameters
    ----------
    module, name : str
        Where it is, and what it is called there.
    options : mapping of str
        With which it is called besides the input and, as ``out``, the folder for its results.
    takes_progress : bool, default=False
        Whether it tells how far it is by an argument ``progress``.
    """

    module: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    takes_progress: bool = False

    def __call__(self, source: str, **more: Any) -> Any:
        """Work on an input."""
        return getattr(import_module(self.module), self.name)(source, **self.options, **more)


@dataclass(frozen=True)
class Outcome:
    """What came of an input: a report and warnings, or an error."""

    report: Any = None
    said: list[str] = field(default_factory=list)
    error: Exception | None = None


def call(process: Callable[..., Any], source: str, options: Mapping[str, Any]) -> Outcome:
    """Work on an input, and keep what it warns of."""
    with _kept_warnings() as said:
        report = process(source, **options)
    return Outcome(report, said)


@contextmanager
def _kept_warnings() -> Iterator[list[str]]:
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield said
    said += dict.fromkeys(str(w.message) for w in caught if w.category is UserWarning)


def call_in_processes(
    process: Work,
    jobs: Mapping[str, tuple[str, Mapping[str, Any]]],
    processes: int,
    keep: Callable[[str, Outcome], None],
) -> None:
    """Work on inputs in processes of one thread each; `keep` gets each outcome as it comes.

    An interrupt ends the work on all of them.
    """
    from visionnmf.apps.runner import run_parallel

    run_parallel({key: (process, *job) for key, job in jobs.items()}, _attempt, processes, keep)


def _attempt(process: Work, source: str, options: Mapping[str, Any]) -> Outcome:
    """Work on an input in a process of its own; an error is an outcome."""
    try:
        return call(process, source, options)
    except Exception as error:
        return Outcome(error=error)
