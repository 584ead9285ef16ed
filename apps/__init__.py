"""The applications: read, choose features, fit, report. A folder each.

=====================================  ==========================================================
:mod:`visionnmf.apps.segmentation`     image segmentation by a tree of learnt borders
:mod:`visionnmf.apps.background`       video background model and foreground masks
:mod:`visionnmf.apps.faces`            recognition and clustering of faces, shadow removal
:mod:`visionnmf.apps.masquerade`       anomaly scores of command sessions
:mod:`visionnmf.apps.evaluate`         comparisons of methods, and the baselines
:mod:`visionnmf.apps.cli`              the command line
=====================================  ==========================================================
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from visionnmf.exceptions import VisionNMFError

if __name__ != "visionnmf.apps":
    raise ImportError("import this package as visionnmf.apps, not by the name of its folder")

__all__ = ["ClusterError", "cluster_address", "is_shared", "on_cluster"]

_scheduler: ContextVar[str | None] = ContextVar("scheduler", default=None)


class ClusterError(VisionNMFError):
    """The cluster of :func:`on_cluster` cannot go on: its scheduler was lost, or a worker does not see the files."""


@contextmanager
def on_cluster(scheduler: str) -> Iterator[None]:
    """Let the applications do their jobs on the workers of a Dask cluster in this block.

    It replaces their `jobs` and `n_jobs`; the results are the same. Workers read inputs and write results under the
    paths of this process, and relative paths start at its current folder. They must have one thread and the same
    version of visionnmf. The job of a worker that is lost is done again by another one.

    Parameters
    ----------
    scheduler : str
        The address of the scheduler, such as "tcp://127.0.0.1:8786". It is contacted when there are jobs.

    Raises
    ------
    VisionNMFError
        In the block, if Dask is not installed, the scheduler does not answer, or a worker does not suit.
    ClusterError
        In the block, a VisionNMFError, if the scheduler is lost, or a worker does not see the files of a job.

    Examples
    --------
    >>> from visionnmf.apps import on_cluster
    >>> with on_cluster("tcp://127.0.0.1:8786"):
    ...     pass  # for example visionnmf.apps.segmentation.process_image("photo.jpg")
    """
    before = _scheduler.set(scheduler)
    try:
        yield
    finally:
        _scheduler.reset(before)


def cluster_address() -> str | None:
    """Return the address of the scheduler that :func:`on_cluster` has named, or None outside of such a block.

    Examples
    --------
    >>> from visionnmf.apps import cluster_address
    >>> cluster_address() is None
    True
    """
    return _scheduler.get()


def is_shared(processes: int, jobs: int) -> bool:
    """Return whether jobs are shared among workers of a cluster, or, if there are two or more, among processes.

    Examples
    --------
    >>> from visionnmf.apps import is_shared
    >>> is_shared(2, 3), is_shared(2, 1)
    (True, False)
    """
    return jobs > 0 if cluster_address() is not None else min(processes, jobs) > 1
