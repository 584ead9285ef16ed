"""The work on the inputs of a command, here or in other processes; what fails is returned, so that the rest goes on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from visionnmf.apps.report import Report
from visionnmf.io.inputs import takes_files

from .input_paths import Input

Process = Callable[..., Report]


@takes_files
def attempt(process: Process, given: Input) -> Report | Exception:
    """Return the report of an input, with the warnings on the way, or the exception that ended the work on it."""
    out = {"out": Path(given.place)} if given.place else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            report = process(given.source, **out)
        except Exception as error:
            return error
    sentences = dict.fromkeys(str(warning.message) for warning in caught if issubclass(warning.category, UserWarning))
    return replace(report, warnings=[*report.warnings, *sentences])


def attempt_in_processes(
    process: Process, inputs: Sequence[Input], processes: int
) -> Iterator[tuple[Input, Report | Exception]]:
    """Yield what became of each input, in their order, from processes of one thread each or from a cluster."""
    from visionnmf.apps.cluster import LostJobError
    from visionnmf.apps.pool import open_pool

    with open_pool(min(processes, len(inputs))) as pool:
        waiting = {given: pool.submit(attempt, process, given) for given in inputs}
        try:
            for given in inputs:
                try:
                    outcome = waiting[given].result()
                except LostJobError as error:  # it has ended several workers of the cluster, or its file is gone
                    outcome = error
                del waiting[given]
                yield given, outcome
        except KeyboardInterrupt:  # the results of inputs that have ended are written, so they are reported
            for given, future in waiting.items():
                ended = future.done() and not future.cancelled() and future.exception() is None
                if ended and isinstance(report := future.result(), Report):
                    yield given, report
            raise
