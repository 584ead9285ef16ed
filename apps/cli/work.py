"""The work on one input of a batch. Its module is imported at the first call, here or in another process."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from visionnmf.io.inputs import takes_files


@dataclass(frozen=True)
class Work:
    """A function of one input, named by its module so that wrong paths are reported before anything heavy is imported.

    It is called with the input, `options` and, as ``out``, the folder for its results; with `takes_progress` also with
    a function ``progress`` that it calls as it advances.
    """

    module: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    takes_progress: bool = False

    def __call__(self, source: str, **more: Any) -> Any:
        """Process an input: import `module`, and call its function `name` with the `options` and `more`."""
        return getattr(import_module(self.module), self.name)(source, **self.options, **more)


@dataclass(frozen=True)
class Outcome:
    """The result for an input: a report and the warnings on the way, or an exception."""

    report: Any = None
    warnings: list[str] = field(default_factory=list)
    error: Exception | None = None


def call(process: Callable[..., Any], source: str, options: Mapping[str, Any]) -> Outcome:
    """Call `process` with an input and the keyword arguments `options`; return its report and its warnings."""
    with _kept_warnings() as sentences:
        report = process(source, **options)
    return Outcome(report, sentences)


@contextmanager
def _kept_warnings() -> Iterator[list[str]]:
    """Yield a list that holds each distinct UserWarning once the block has ended."""
    sentences: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield sentences
    sentences += dict.fromkeys(str(w.message) for w in caught if w.category is UserWarning)


def call_in_processes(
    process: Work,
    jobs: Mapping[str, tuple[str, Mapping[str, Any]]],
    processes: int,
    keep: Callable[[str, Outcome], None],
) -> None:
    """Process inputs in processes of one thread each, or on a cluster; `keep` gets each outcome as soon as it is there.

    `jobs` has an input and its keyword arguments by a key. An interrupt ends all of the processes. An input that has
    ended several workers of a cluster, or that was removed, has the error as its outcome.
    """
    from visionnmf.apps.runner import run_parallel

    work = {key: (process, *job) for key, job in jobs.items()}
    run_parallel(work, _attempt, processes, keep, lost=_outcome_of)


def _outcome_of(error: Exception) -> Outcome:
    """Return the outcome of a lost job."""
    return Outcome(error=error)


@takes_files
def _attempt(process: Work, source: str, options: Mapping[str, Any]) -> Outcome:
    """Process an input in another process, where an exception is an outcome too, so that the other inputs go on."""
    try:
        return call(process, source, options)
    except Exception as error:
        return Outcome(error=error)
