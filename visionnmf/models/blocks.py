"""Fits of data in blocks of rows: a ``dask.array`` with its samples in blocks.

The checks of the data run beside the blocks. The fit itself is that of :mod:`visionnmf.engine.distributed`, in the
threads of this process, or on the workers of the active Dask client.
"""

from __future__ import annotations

import contextlib
import copy
import math
import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from visionnmf._checks import check_nonnegative_array
from visionnmf._typing import Array
from visionnmf.engine.distributed import rows as engine
from visionnmf.engine.distributed.block import BlockData, Sums
from visionnmf.engine.distributed.crew import Crew, LocalCrew
from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import SEPARABLE, Simplex
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import Found, check_codes, choose
from visionnmf.engine.starts import Start
from visionnmf.engine.stopping import NO_FIT, Fit, PrintedProgress, fit_best
from visionnmf.exceptions import ParameterError, TooLargeError

from .data_checks import check_data, check_mean, check_weights, find_loss, loss_at_mean, weigh_samples
from .penalty import given_penalty, kinds_of_points

ROOM = 0.5  # share of the memory of this machine, or of a worker, that blocks may take; Dask stops a worker at 0.8
COPIES = 4  # of a block while it is read and checked


class DaskBlocks:
    """A Dask array `X` whose blocks hold whole rows, with what belongs to its rows, and the model that checks them."""

    def __init__(
        self,
        model: Any,
        X: Any,
        weights: Any = None,
        sample_weight: Any = None,
        codes: Any = None,
        *,
        reset: bool = True,
    ) -> None:
        """Check a Dask array, and cut it, its weights and its codes into the same blocks of whole rows."""
        import dask.array as da
        from dask.array.utils import meta_from_array

        if X.ndim != 2 or any(size != size for size in X.shape):  # Dask gives sizes that it does not know as NaN
            raise ParameterError(
                f"X must have two dimensions and chunks of known sizes; got shape {X.shape}; call "
                "X.compute_chunk_sizes()"
            )
        if not X.shape[0] or not X.shape[1]:
            raise ParameterError(f"X must have at least one sample and one feature; got shape {X.shape}")
        meta = meta_from_array(X)
        self.is_sparse = sp.issparse(meta)
        if not self.is_sparse and not isinstance(meta, np.ndarray):
            raise ParameterError(
                f"X must have blocks of NumPy arrays or SciPy sparse matrices; got blocks of {type(meta).__name__}"
            )
        if self.is_sparse and (weights is not None or model.missing_values is not None):
            raise ParameterError(
                "weights and missing_values must be None for sparse blocks; got some; call toarray() in map_blocks"
            )
        self.X = X.rechunk({1: -1})  # one chunk along the features, so that blocks hold whole rows
        self.X = self.X.rechunk({0: tuple(size for size in X.chunks[0] if size)}) if 0 in X.chunks[0] else self.X
        rows = self.X.chunks[0]
        self.model = light(model, X, reset=reset)  # a copy without its callback; the number of features is checked
        self.weights = None if weights is None else _like(weights, "weights", self.X)
        self.sample_weight = None
        if sample_weight is not None:
            self.sample_weight = da.asarray(sample_weight).astype(np.float64)
            if self.sample_weight.shape != X.shape[:1]:
                raise ParameterError(f"sample_weight must have shape {X.shape[:1]}; got {self.sample_weight.shape}")
            self.sample_weight = self.sample_weight.rechunk((rows,))
        self.codes = None if codes is None else da.asarray(codes).rechunk((rows, -1))

    @property
    def dtype(self) -> Any:
        """The dtype of the fit."""
        return np.dtype(np.float32 if self.X.dtype == np.float32 else np.float64)

    @property
    def sizes(self) -> list[int]:
        """The numbers of rows of the blocks."""
        return [int(size) for size in self.X.chunks[0]]

    def memory(self, loss: str, n_components: int) -> int:
        """Return the bytes of the data, their weights, their dual and the codes in all blocks together."""
        weighted = any(array is not None for array in (self.weights, self.sample_weight, self.model.missing_values))
        # Least squares without weights has no dual. Codes have three copies in the dtype of the fit, and three in
        # double precision.
        arrays, size = 1 + weighted + (weighted or loss != "frobenius"), self.dtype.itemsize
        n_samples, n_features = (int(length) for length in self.X.shape)
        return n_samples * (arrays * n_features * size + n_components * 3 * (size + 8))

    def recipes(self, check: BlockCheck) -> list[Any]:
        """Return a delayed object for each block that computes :class:`.BlockData`, checked as `check` says."""
        import dask

        read = dask.delayed(read_block, pure=False)  # so that equal blocks of two fits do not share a file
        parts = [_parts(array, len(self.sizes)) for array in (self.X, self.weights, self.sample_weight, self.codes)]
        return [read(check, *block) for block in zip(*parts, strict=True)]


@dataclass(frozen=True)
class BlockCheck:
    """What the check of a block needs to know.

    `loss` and `penalised`, whether there is a penalty of the codes, decide how samples are weighted. `is_sparse` says
    that the blocks are sparse, and `in_files` that the checked data go to files of the worker.
    """

    model: Any
    loss: str
    penalised: bool
    n_components: int
    is_sparse: bool = False
    in_files: bool = False


def read_block(check: BlockCheck, X: Array, weights: Any, sample_weight: Any, codes: Any) -> BlockData:
    """Check the rows of one block as `check` says; return them with their weights and `codes` to start from (or None).

    With `check.in_files` the data go to the folder for temporary files, because not all blocks fit into memory.
    """
    model, missing = check.model, check.model.missing_values
    # `part`: the mean, by which products stay in the range of the dtype, is checked for all blocks together
    data, observed = check_data(model, X, reset=False, missing=missing, sparse=check.is_sparse, part=True)
    data, entries = check_weights(weights, observed, data, fitting=False)  # the weights of one block may all be 0
    if codes is not None:
        codes = check_nonnegative_array(codes, "W", (data.shape[0], check.n_components), data.dtype)
    block = BlockData(data, entries, codes=codes)
    if sample_weight is not None:
        s = check_nonnegative_array(sample_weight, "sample_weight", data.shape[:1], np.float64)
        problem = Problem(data, Loss(check.loss), weights=entries)  # how samples are weighted depends on the loss
        # A penalty of the codes forbids weighting samples by scaling rows; any one will do, because only that counts.
        if check.penalised:
            problem = replace(problem, penalty_W=replace(problem.penalty_W, l1=1.0))
        fitted, row_scale = weigh_samples(problem, s)
        block = BlockData(data, entries, fitted.X, fitted.weights, row_scale, codes)
    return block.in_files(_directory()) if check.in_files else block


def _directory() -> str:
    """Return the folder for temporary files of this worker, or of this process if it is none."""
    if "distributed" in sys.modules:
        from distributed import get_worker

        with contextlib.suppress(ValueError):  # this process is not a worker
            return str(get_worker().local_directory)
    return tempfile.gettempdir()


def _parts(array: Any, n_blocks: int) -> list[Any]:
    """Return the blocks of rows of a Dask array as delayed objects; None for each if there is no array."""
    return [None] * n_blocks if array is None else list(array.to_delayed().ravel())


def _like(values: Any, name: str, X: Any) -> Any:
    """Return values that broadcast to `X` as a Dask array with the same blocks; `name` is for messages."""
    import dask.array as da

    array = da.asarray(values)
    try:
        return da.broadcast_to(array, X.shape).rechunk(X.chunks)
    except ValueError:
        raise ParameterError(f"{name} must have the shape of X, {X.shape}; got {array.shape}") from None


def light(model: Any, X: Any, *, reset: bool) -> Any:
    """Check the number of features of `X`, and return a copy of a model without callback, cheap to send."""
    validate_data(model, X, reset=reset, skip_check_array=True)
    other = copy.copy(model)
    other.callback = None
    return other


def active_client() -> Any:
    """Return the active client of a Dask cluster, or None if Dask works in this process."""
    import dask

    if dask.config.get("scheduler", "") not in ("dask.distributed", "distributed"):  # an active client sets it
        return None
    from distributed import default_client

    return default_client()


def open_crew(data: DaskBlocks, check: BlockCheck, need: int) -> Crew:
    """Read all blocks, on the workers of the active Dask client or here, and return them as a crew.

    A crew passes messages to all blocks and adds up their answers. Blocks go to files if they would take more than the
    share :data:`ROOM` of the memory; `need` bytes is what all take. Raises TooLargeError if a block is too large or the
    files find no room.
    """
    import dask

    client = active_client()
    workers: list[Any] = []  # what the scheduler knows of each
    if client is None:
        from distributed.system import MEMORY_LIMIT  # of this machine, or of its container

        limits: list[float] = [MEMORY_LIMIT]
        share = need / limits[0]
    else:
        workers = list(client.scheduler_info(n_workers=-1)["workers"].values())
        limits = [worker["memory_limit"] or math.inf for worker in workers]
        threads = [worker["nthreads"] for worker in workers]
        # each worker is taken to get blocks in proportion to its threads; the fullest one decides
        parts = [need * count / sum(threads) for count in threads]
        share = max((part / limit for part, limit in zip(parts, limits, strict=True)), default=0.0)
    # rows of the largest block, and the bytes for reading and checking it
    largest = max(data.sizes)
    block = 0 if data.is_sparse else COPIES * largest * data.X.shape[1] * data.dtype.itemsize
    if block > min(limits, default=math.inf):
        raise TooLargeError(
            f"a block of {largest} samples: {block / 2**30:.2f} GiB of memory are needed and "
            f"{min(limits) / 2**30:.2f} GiB are there; pass float32, or smaller blocks by X.rechunk"
        )
    in_files = share > ROOM and not data.is_sparse
    recipes = data.recipes(replace(check, in_files=in_files))
    if client is not None:
        from visionnmf.engine.distributed.cluster import ClusterCrew

        return ClusterCrew(client, recipes, data.sizes, in_files=in_files)
    if in_files:
        _check_disk(need)
    return LocalCrew(dask.compute(*recipes), data.sizes)


def _check_disk(need: int) -> None:
    """Raise TooLargeError if the folder for temporary files has no room for `need` bytes."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if need > free:
        raise TooLargeError(
            f"{folder}: {need / 2**30:.1f} GiB are needed for blocks that do not fit into memory and "
            f"{free / 2**30:.1f} GiB are free; pass float32 or fewer samples, or use OnlineNMF or a Dask cluster"
        )


def checked_sums(crew: Crew, dtype: Any) -> Sums:
    """Return the sums over the data of all blocks, or raise ParameterError for data that no fit takes."""
    sums = Sums(*crew.sum_of("sums"))  # asks all blocks, whose answers are added up
    check_mean(sums.total / sums.n_entries, dtype)
    if not sums.n_given:
        raise ParameterError("X must not be missing in all entries; got no observed entry")
    if not sums.n_observed:
        raise ParameterError("weights must not be 0 for all entries; got only zeros")
    return sums


def fit_dask(
    model: Any, data: DaskBlocks, start: Start, report: PrintedProgress, ridge: float, *, with_codes: bool
) -> Found:
    """Fit an :class:`~visionnmf.NMF` to data in blocks, and return what it finds, with codes if wanted."""
    penalties = _penalties(model, data, ridge)
    record = find_loss(model.loss)
    assert record is not None
    check = BlockCheck(data.model, record.name, bool(penalties["W"].kinds), start.n_components, data.is_sparse)
    crew = open_crew(data, check, data.memory(record.name, start.n_components))
    try:
        sums = checked_sums(crew, data.dtype)
        loss = loss_at_mean(model.loss, model.loss_parameter, lambda: sums.observed / sums.n_given or 1.0)
        weights = np.ones((1, 1), data.dtype) if sums.n_weighted else None  # `n_weighted` blocks have weights
        # an empty matrix in place of the data says that they are sparse
        like = sp.csr_array((1, 1), dtype=data.dtype) if data.is_sparse else None
        problem = Problem(like, loss, penalties["W"], penalties["H"], weights)
        solver = choose(model.solver, problem, elsewhere="blocks")  # one that can work on blocks, without the data here
        check_codes(problem)  # raises now, if no codes could be found for this loss and penalty after the fit
        rows = engine.RowsInBlocks(crew, problem, sums, data.dtype, data.X.shape[1])
        if model.update_components:

            def fit_once() -> tuple[Fit, Array]:
                """Fit from another start; return the fit and its components, which it has changed in place."""
                H = rows.start(start.n_components, start.rng, start.components, start.with_codes)
                return engine.fit(rows, solver, H, max_iter=model.max_iter, tol=model.tol, callback=report), H

            result, H = fit_best(model.n_init, solver, fit_once, report)
            norms = problem.normalise(H)
        else:
            if start.components is None:
                raise ParameterError("components_init must be given with update_components=False; got None")
            result, H = NO_FIT, start.components.copy()
            norms = np.ones(len(H), H.dtype)
            crew.tell("begin", problem)  # the blocks learn the loss and the penalties from it
        final = replace(rows, problem=problem.rescaled(norms))
        crew.tell("finish", H, final.problem.penalty_W)  # each block finds its final codes
        found = engine.report(final, H)
        distance = engine.optimality(final, H) if model.measure_optimality else math.nan
        codes = codes_array(crew, len(H), data.dtype) if with_codes else None
        return Found(solver, loss, result, H, norms, codes, found, distance, (penalties["W"], penalties["H"]))
    finally:
        crew.close()


def _penalties(model: Any, data: DaskBlocks, ridge: float) -> dict[str, Any]:
    """Return the engine's penalties by factor, with the `ridge`; raise ParameterError if one links samples."""
    codes = given_penalty(model.penalty_W, "W")
    sides = {"W": codes.resolve("W", None, data.dtype)}  # None: such terms are left out, and refused in the next line
    refuse_coupled(codes, sides["W"])
    components = given_penalty(model.penalty_H, "H")
    if isinstance(components.graph, str):
        raise ParameterError(
            f"graph of penalty_H must be a matrix of affinities for a Dask array; got {components.graph!r}"
        )
    features = np.broadcast_to(np.zeros(1, data.dtype), (1, data.X.shape[1]))  # only their number counts
    sides["H"] = components.resolve("H", features, data.dtype)
    return {side: penalty.with_ridge(ridge) for side, penalty in sides.items()}


def refuse_coupled(penalty: Any, resolved: Any) -> None:
    """Raise ParameterError if a penalty of the codes ties samples together, which may lie in different blocks."""
    # the engine's form, made without training samples, lacks what refers to them
    kinds = [*resolved.beyond((*SEPARABLE, Simplex)), *kinds_of_points(penalty)]
    if kinds:
        raise ParameterError(
            f"penalty_W must be of box, l1, l2 and simplex for a Dask array; got {' and '.join(map(str, kinds))}"
        )


def codes_array(crew: Crew, n_components: int, dtype: Any) -> Any:
    """Return the final codes of all blocks, here or futures, as a Dask array [shape=(n_samples, n_components)]."""
    import dask.array as da

    parts = [
        da.from_array(codes, chunks=-1, name=False)
        if isinstance(codes, np.ndarray)
        else da.from_delayed(codes, (size, n_components), dtype)
        for size, codes in zip(crew.sizes, crew.codes(), strict=True)
    ]
    return da.concatenate(parts)


def transform_blocks(model: Any, X: Any, weights: Any) -> Any:
    """Return the codes (n_samples, n_components) of a Dask array, computed block by block when they are needed."""
    import dask.array as da

    data = DaskBlocks(model, X, weights, reset=False)
    arrays = [array for array in (data.X, data.weights) if array is not None]
    chunks = (data.X.chunks[0], (len(model.components_),))
    return da.map_blocks(
        _transform, *arrays, model=data.model, dtype=data.dtype, chunks=chunks, meta=np.empty((0, 0), data.dtype)
    )


def _transform(X: Array, weights: Array | None = None, *, model: Any) -> Array:
    """Return the codes of one block."""
    return np.asarray(model.transform(X, weights=weights))
