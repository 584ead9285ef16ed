"""From a source of samples to a model file."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from visionnmf import Checkpoint, ConservativeNMF, OnlineNMF, fit_stream, load_model
from visionnmf._checks import check_choice, check_image_shape
from visionnmf._progress import Progress
from visionnmf.apps.drawing import components_picture
from visionnmf.apps.report import Report
from visionnmf.engine.online import METHODS
from visionnmf.exceptions import TooLargeError
from visionnmf.io import check_outputs, check_parents, transaction, write_image
from visionnmf.io.chunks import Chunks, open_chunks
from visionnmf.io.inputs import MAX_BYTES

from .settings import CONSERVATIVE, Checkpoints, ComponentsPicture, SampleSource, StreamLearning

MAX_SHOWN = 100  # components in the picture


@dataclass(frozen=True, kw_only=True)
class StreamReport(Report):
    """What :func:`learn_stream` did, with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    method : str
        The method, given or chosen.
    samples : int
        Number of samples learnt in all passes and runs.
    resumed : int
        How many of them an earlier run had learnt.
    features, n_components : int
        Number of features and components.
    loss : float or None
        The mean loss of a sample in the last batch, before the batch was learnt. For "conservative" it is the mean norm
        of the error for samples of norm 1, in the best batch; None before a batch is full.
    seconds, samples_per_second : float
        Duration and speed of this run.
    random_state : int
        The seed.
    """

    method: str
    samples: int
    resumed: int
    features: int
    n_components: int
    loss: float | None
    seconds: float
    samples_per_second: float
    random_state: int

    def _figures(self) -> dict[str, Any]:
        """Return the figures for JSON, by their names there."""
        figures = super()._figures()
        # JSON documents have the words of the command line.
        return figures | {"rank": figures.pop("n_components"), "seed": figures.pop("random_state")}

    def summary(self) -> str:
        """Return the report for a person, in a few lines."""
        before = f", {self.resumed} of them before" if self.resumed else ""
        lines = [
            f"{self.inputs[0]}: {self.n_components} components of {self.features} features from {self.samples} samples"
            f"{before}, {self.seconds:.1f} s ({self.samples_per_second:.0f} samples/s)"
        ]
        if self.loss is not None:
            lines.append(f"  loss of a sample: {self.loss:.4g} ({self.method})")
        return "\n".join([*lines, *(f"  {line}" for line in self._notes_and_outputs())])


def learn_stream(
    source: str | Path,
    model: str | Path,
    *,
    learning: StreamLearning = StreamLearning(),
    checkpoints: Checkpoints = Checkpoints(),
    reading: SampleSource = SampleSource(),
    drawing: ComponentsPicture = ComponentsPicture(),
    force: bool = False,
    progress: Progress | None = None,
) -> StreamReport:
    """Learn components from a stream, and write the model.

    Parameters
    ----------
    source : str or Path
        A folder of images, a video, a ``.npy`` or text file of rows, or ``"-"`` for rows on standard input;
        see :mod:`visionnmf.io.chunks`.
    model : str or Path
        The file to write, for :func:`visionnmf.load_model`.
    learning, checkpoints, reading, drawing : StreamLearning, Checkpoints, SampleSource, ComponentsPicture, optional
        The method and its parameters, how an interrupted run is continued, how samples are read, and a picture of the
        components.
    force : bool, default=False
        Whether existing outputs may be replaced. A checkpoint always is.
    progress : callable, optional
        Called with ("learning", number of samples done, number of all samples or None).

    Returns
    -------
    StreamReport

    Raises
    ------
    MediaError
        If the source cannot be read, or an output exists or cannot be written.
    ParameterError
        If the model does not accept the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.stream import StreamLearning, learn_stream
    >>> np.save("data.npy", np.random.default_rng(0).random((60, 8)))
    >>> learn_stream("data.npy", "parts.npz", learning=StreamLearning(n_components=2), force=True).outputs
    ['parts.npz']
    """
    check_choice(learning.method, "method", ["auto", *METHODS, CONSERVATIVE])
    outputs = [Path(path) for path in (model, drawing.picture) if path is not None]
    check_outputs(outputs, force, inputs=[source])
    check_parents(outputs if checkpoints.checkpoint is None else [*outputs, checkpoints.checkpoint])
    start, resumed, saving = time.perf_counter(), 0, None
    if (path := checkpoints.checkpoint) is not None:
        check_outputs([*outputs, path], True, inputs=[source])  # it may exist, but not be another of these files
        if not checkpoints.restart and path.exists():
            resumed = load_model(path).n_samples_seen_
        saving = Checkpoint(path, every=checkpoints.every, resume=not checkpoints.restart, live=checkpoints.live)
    with open_chunks(source, longest_side=reading.longest_side) as chunks:
        _check_size(chunks, learning.n_components)
        learner = fit_stream(
            _unfitted(learning),
            chunks,
            epochs=learning.epochs,
            batch_size=learning.batch_size,
            shuffle=learning.shuffle,
            random_state=learning.random_state,
            checkpoint=saving,
            callback=partial(_after_batch, chunks, drawing, progress),
        )
        shape, skipped, notes = drawing.picture_shape or chunks.image_shape, chunks.skipped, chunks.notes
    _write(learner, model, drawing.picture, shape, force)
    samples, seconds = learner.n_samples_seen_, time.perf_counter() - start
    # The mean loss of the last batch before it was learnt; the conservative method has the error of its best batch.
    loss = learner.best_error_ if learning.method == CONSERVATIVE else learner.chunk_loss_
    few = f"there are fewer samples than components ({samples})"
    return StreamReport(
        method=CONSERVATIVE if learning.method == CONSERVATIVE else learner.method_,
        samples=samples,
        resumed=resumed,
        features=learner.n_features_in_,
        n_components=learning.n_components,
        loss=float(loss) if math.isfinite(loss) else None,
        seconds=seconds,
        samples_per_second=(samples - resumed) / seconds,
        random_state=learning.random_state,
        inputs=[str(source)],
        outputs=[str(path) for path in outputs],
        skipped=skipped,
        notes=notes if samples >= learning.n_components else [*notes, few],
    )


def _unfitted(learning: StreamLearning) -> Any:
    """Return the unfitted estimator of the chosen method, with the given number of components and seed."""
    # `learning.w`, how much the decoder changes, is for the conservative method; None leaves its default.
    common: dict[str, Any] = {"n_components": learning.n_components, "random_state": learning.random_state}
    if learning.method != CONSERVATIVE:
        return OnlineNMF(method=learning.method, **common)
    return ConservativeNMF(**common) if learning.w is None else ConservativeNMF(w=learning.w, **common)


def _check_size(chunks: Chunks, n_components: int) -> None:
    """Raise TooLargeError if the components would fill the memory."""
    size = 8 * n_components * (chunks.n_features or 0)  # bytes as float64; 0 where the features are not known yet
    if size > MAX_BYTES:
        raise TooLargeError(
            f"{chunks.name}: {n_components} components of {chunks.n_features} features take {size >> 20} MiB, "
            f"{MAX_BYTES >> 20} are allowed; take fewer components, or smaller images"
        )


def _after_batch(
    chunks: Chunks, drawing: ComponentsPicture, progress: Progress | None, done: int, total: int | None
) -> None:
    """Report progress; raise an error after the first batch, not the last, if components cannot be drawn."""
    # `fit_stream` calls this with the number of samples done and of all, None if that is not known.
    if drawing.picture is not None and chunks.n_features is not None:
        _shape(chunks.n_features, drawing.picture_shape or chunks.image_shape)
    if progress is not None:
        progress("learning", done, total)


def _shape(n_features: int, given: tuple[int, int] | None) -> tuple[int, int]:
    """Return height and width of components, square where none are given; ParameterError if `n_features` do not fit."""
    side = math.isqrt(n_features)
    return check_image_shape(given or (side, side), "picture_shape", n_features)


def _write(learner: Any, model: str | Path, picture: Path | None, shape: tuple[int, int] | None, force: bool) -> None:
    """Write the model and its picture, both or none; `shape` None makes the components square."""
    # `shape` is height and width. No picture is drawn if `picture` is None.
    drawn = None
    if picture is not None:
        drawn = components_picture(learner.components_, _shape(learner.n_features_in_, shape), most=MAX_SHOWN)
    with transaction():
        learner.save(model, force=force)
        if picture is not None and drawn is not None:
            write_image(picture, drawn, force=force)
