"""Learning from a stream: batches, passes, checkpoints, and continuing a run that was killed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from visionnmf._checks import check_callable, check_count, check_flag, check_seed
from visionnmf._text import one_line
from visionnmf.engine.online.begin import SAMPLES_A_COMPONENT
from visionnmf.exceptions import ParameterError
from visionnmf.io.inputs import check_path

from .chunks import ArrayRows, Iterated, joined, open_chunks
from .model_files import Saveable, load_checkpoint, restore, same_parameters, save_checkpoint

StreamCallback = Callable[[int, int | None], Any]

Chunks = ArrayRows | Iterated

BATCH = 1024  # samples in a batch of a model that has no `batch_size`
GATHERED = 16  # stored blocks whose samples are shuffled together


@dataclass(frozen=True)
class Checkpoint:
    """Where :func:`fit_stream` saves the model and its position while it learns, so that a killed run can continue.

    Parameters
    ----------
    path : str or Path
        A file, usually ``*.npz``, that is written every so many batches and at the end, as a whole or not at all, and
        replaced each time. If it exists already the stream continues from there. :func:`visionnmf.load_model` reads it.
    every : int, default=100
        Batches between two checkpoints.
    resume : bool, default=True
        False starts from the beginning and replaces an existing file.
    """

    path: str | Path
    every: int = 100
    resume: bool = True

    def __post_init__(self) -> None:
        check_count(self.every, "every")
        check_flag(self.resume, "resume")


def fit_stream(
    model: Any,
    source: Any,
    *,
    epochs: int = 1,
    batch_size: int | None = None,
    shuffle: bool = False,
    random_state: Any = 0,
    checkpoint: str | Path | Checkpoint | None = None,
    callback: StreamCallback | None = None,
) -> Any:
    """Learn from data that do not fit into memory, or that never end.

    The samples of the source are passed to ``model.partial_fit`` in batches of one size, whatever the sizes in which
    they come. Memory holds a chunk and a batch, however long the source is. With a `checkpoint`, a run that is killed
    and started again continues from the last checkpoint, and ends with exactly the model of an uninterrupted run.

    Parameters
    ----------
    model : OnlineNMF or ConservativeNMF
        Continues to learn if it has learnt before.
    source : array-like, sparse matrix or iterable of array-like
        Rows of numbers. The first axis counts the samples, others are features, so a stack of images has the shape
        (n_images, height, width). Besides arrays of NumPy, SciPy, pandas and Dask and memory maps it may be anything
        with a `shape` and a `dtype` that returns rows when it is sliced, such as ``h5py.Dataset`` and ``zarr.Array``,
        or an iterable whose items are arrays of some samples each; a generator can be read only once.
    epochs : int, default=1
        Passes over the source.
    batch_size : int or None, default=None
        Samples in a call of `partial_fit`; the last of a pass may have fewer, and the very first has at least four for
        each component. None takes the model's `batch_size`, or 1024.
    shuffle : bool, default=False
        Whether samples come in a new order in each pass. A source that can only be read in its order refuses it. Of
        arrays that are stored in blocks, such as those of h5py, sixteen blocks at a time are shuffled together, and the
        blocks come in random order.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the orders, which a checkpoint keeps.
    checkpoint : str, Path, Checkpoint or None, default=None
        Where the state is saved; a path stands for a :class:`Checkpoint` with default settings.
    callback : callable or None, default=None
        Called after each batch as ``callback(done, total)`` with the number of samples learnt in all passes and of all
        samples, None if that is unknown. A true return value ends the stream.

    Returns
    -------
    OnlineNMF or ConservativeNMF
        The model.

    Raises
    ------
    ParameterError
        If an argument is out of its range or does not fit the source, if the checkpoint is of another stream, or if the
        model refuses a batch (NaN, negative numbers). The model is then as it was after the previous batch.
    UnsupportedError
        If an array holds no rows of numbers.
    MediaError
        If the checkpoint cannot be read or written.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import ConservativeNMF, fit_stream
    >>> rng = np.random.default_rng(0)
    >>> parts = np.kron(np.eye(3), np.ones(4))
    >>> endless = (rng.random((50, 3)) @ parts for _ in range(100))  # a generator of chunks
    >>> model = fit_stream(ConservativeNMF(3, w=1, random_state=0), endless)
    >>> model.n_samples_seen_
    5000
    """
    if not hasattr(model, "partial_fit"):
        raise ParameterError(f"model must be an estimator with partial_fit; got {type(model).__name__}")
    if checkpoint is not None and not isinstance(model, Saveable):
        raise ParameterError(f"checkpoint must be None for a model without save; got one for {type(model).__name__}")
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        check_path(checkpoint, "checkpoint")
    saving = checkpoint if isinstance(checkpoint, Checkpoint) or checkpoint is None else Checkpoint(checkpoint)
    epochs, shuffle = check_count(epochs, "epochs"), check_flag(shuffle, "shuffle")
    own = getattr(model, "batch_size", None) or BATCH  # of the model, or 1024
    size = check_count(own if batch_size is None else batch_size, "batch_size")
    callback = check_callable(callback, "callback")
    chunks = open_chunks(source)
    if epochs > 1 and not chunks.repeatable:
        raise ParameterError(f"epochs must be 1 for a source that can be read only once; got {epochs}")
    if shuffle and not isinstance(chunks, ArrayRows):
        raise ParameterError("shuffle must be False for a source that can only be read in its order; got True")
    data = None if saving is None else _digest(chunks)
    stream = _Stream(model, chunks, size, check_seed(random_state) if shuffle else None, data)
    if saving is not None and saving.resume and os.path.lexists(saving.path):
        stream.restore(Path(saving.path), any_seed=random_state is None)  # without the user's, the checkpoint's
    stream.run(epochs, saving, callback)
    return model


class _Stream:
    """A model, the source from which it learns, and how far it has come."""

    def __init__(self, model: Any, chunks: Chunks, size: int, seed: int | None, data: int | None) -> None:
        self.model, self.chunks, self.size, self.seed, self.data = model, chunks, size, seed, data
        self.epoch = self.samples = 0  # passes that are done, and samples of the current pass that are learnt
        self.skip = 0  # samples at the beginning of the source that are already learnt
        self.done = 0  # samples learnt in all passes

    def run(self, epochs: int, checkpoint: Checkpoint | None, callback: StreamCallback | None) -> None:
        """Learn for `epochs` passes, or until the callback returns True, with checkpoints; refuse an empty source."""
        total = None if self.chunks.n_samples is None else epochs * self.chunks.n_samples
        batches, stopped = 0, False
        while self.epoch < epochs and not stopped:
            # the first batch of a new model may be larger than the others, because the model makes its start from it
            for batch in regrouped(self._chunks(), self.size, first=self._first_size()):
                self._learn(batch)
                batches += 1
                stopped = callback is not None and bool(callback(self.done, total))
                if stopped:
                    break
                if checkpoint is not None and batches % checkpoint.every == 0:
                    self._write(checkpoint.path)
            else:  # the pass ended without being stopped
                self.epoch, self.samples = self.epoch + 1, 0
            self.skip = 0  # only the first pass of a resumed run begins in the middle
        if not self.done:
            raise ParameterError("source must hold at least one sample; got none")
        if checkpoint is not None:
            self._write(checkpoint.path)

    def _first_size(self) -> int:
        """Return the size of the first batch; a model that has learnt nothing makes its start from it."""
        wanted = getattr(self.model, "n_components", None)
        if self.done or hasattr(self.model, "components_") or not isinstance(wanted, int):
            return self.size
        return -(-SAMPLES_A_COMPONENT * wanted // self.size) * self.size

    def _chunks(self) -> Iterator[Any]:
        """Return the chunks of the current pass, without the first `skip` samples, shuffled if there is a seed."""
        if self.seed is not None and isinstance(self.chunks, ArrayRows):
            return shuffled(self.chunks, self.size, self.skip, np.random.default_rng([self.seed, self.epoch]))
        return self.chunks.chunks(self.size, self.skip)

    def _learn(self, batch: Any) -> None:
        """Learn a batch and move the position on. Errors of the data say where in the source they are."""
        names = self.chunks.names
        if names is not None and not sp.issparse(batch):
            from pandas import DataFrame

            batch = DataFrame(batch, columns=names)
        try:
            self.model.partial_fit(batch)
        except ValueError as error:
            # An error about a parameter of the model begins with its name, and has nothing to do with the data.
            if str(error).partition(" ")[0] in self.model.get_params():
                raise
            what = one_line(error)
            where = f"samples {self.samples + 1} to {self.samples + batch.shape[0]} of pass {self.epoch + 1}"
            raise ParameterError(f"source must hold data that the model takes; got {where}: {what}") from error
        self.samples += batch.shape[0]  # in this pass
        self.done += batch.shape[0]  # in all passes

    def _about(self) -> dict[str, Any]:
        """Return what must be the same for a stream to continue."""
        about = {"batch_size": self.size, "random_state": self.seed, "n_samples": self.chunks.n_samples}
        return about | {"data": self.data}

    def _write(self, path: str | Path) -> None:
        """Write a checkpoint: the model, what must be the same to continue, and how far the stream has come."""
        position = {"epoch": self.epoch, "samples": self.samples, "done": self.done}
        save_checkpoint(self.model, path, {**self._about(), **position})

    def restore(self, path: Path, *, any_seed: bool) -> None:
        """Continue from a checkpoint; raise ParameterError if it is of another model or another stream."""
        saved, stream = load_checkpoint(path)
        if not same_parameters(saved, self.model):
            raise ParameterError(
                f"checkpoint must be of the same model with the same parameters; got {path}, which is not; remove it, "
                "or pass resume=False"
            )
        if any_seed and self.seed is not None and stream["random_state"] is not None:
            self.seed = stream["random_state"]
        for name, value in self._about().items():
            if stream[name] != value:
                what, got = f"a stream with {name}={value}", f" with {stream[name]}"
                if name == "data":
                    what, got = "the same data", ", where samples or names of features are others"
                raise ParameterError(f"checkpoint must be of {what}; got {path}{got}; remove it, or pass resume=False")
        restore(self.model, saved)
        self.done = stream["done"]  # samples learnt in all; `samples` only those of this epoch
        self.epoch, self.samples = stream["epoch"], stream["samples"]
        self.skip = self.samples


def _digest(chunks: Chunks) -> int | None:
    """Return a number by which the data of a source are known again, None without samples."""
    samples, names = chunks.some()
    if samples is None:
        return None
    digest = hashlib.blake2b(digest_size=6)
    digest.update(repr((samples.shape, names)).encode())
    for row in samples:
        digest.update(np.asarray(row.toarray() if sp.issparse(row) else row, np.float64).tobytes())
    return int.from_bytes(digest.digest())


def regrouped(chunks: Iterator[Any], size: int, first: int) -> Iterator[Any]:
    """Yield the rows of chunks, of any sizes, in batches of `size` rows; the first batch has `first` rows instead."""
    waiting: list[Any] = []
    count, wanted = 0, max(1, first)  # rows that wait, and rows that the next batch should have
    for chunk in chunks:
        start = 0
        while start < chunk.shape[0]:
            part = chunk[start : start + wanted - count]
            start += part.shape[0]
            count += part.shape[0]
            waiting.append(part if part.shape[0] == wanted else part.copy())  # the source may reuse its array
            if count == wanted:
                yield joined(waiting)
                waiting, count, wanted = [], 0, size
    if count:
        yield joined(waiting)


def shuffled(chunks: ArrayRows, size: int, skip: int, rng: np.random.Generator) -> Iterator[Any]:
    """Yield all samples in random order, in portions of about `size`, without the first `skip` of that order.

    If samples are stored in blocks, these come in random order, and the samples of GATHERED, or more if a batch needs
    more, are shuffled together. The same generator gives the same order, whatever is skipped. Skipped samples are not
    read, except in part of a portion.
    """
    n, block = chunks.n_samples, chunks.block
    order = rng.permutation(-(-n // block))  # of the blocks; the last block may be shorter
    together = max(GATHERED, -(-size // block)) if block > 1 else size
    for start in range(0, len(order), together):
        starts = order[start : start + together] * block
        lengths = np.minimum(starts + block, n) - starts
        count = int(lengths.sum())
        places = rng.permutation(count) if block > 1 else np.arange(count)
        if skip >= count:
            skip -= count
            continue
        if block > 1:
            ranges = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
            rows = joined([chunks.at(*each) for each in ranges])[places]
        else:
            rows = chunks.take(starts)
        yield rows[skip:]
        skip = 0
