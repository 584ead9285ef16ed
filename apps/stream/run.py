"""From a source of samples to a model file."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from visionnmf import ConservativeNMF, OnlineNMF, choices, fit_stream, load_model
from visionnmf._checks import check_choice, check_count, check_image_shape
from visionnmf.apps.drawing import components_picture
from visionnmf.apps.report import Report
from visionnmf.engine.online import METHODS
from visionnmf.exceptions import ParameterError, TooLargeError
from visionnmf.io import check_outputs, transaction, write_image
from visionnmf.io.chunks import Chunks, open_chunks
from visionnmf.io.inputs import MAX_BYTES

__all__ = ["StreamReport", "learn_stream"]

Progress = Callable[[str, int, int | None], None]

MOST_SHOWN = 100  # components of a picture


@dataclass(frozen=True, kw_only=True)
class StreamReport(Report):
    """What :func:`learn_stream` did; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    method : str
    samples : int
        Learnt in all passes and runs.
    resumed : int
        Of them, those that an earlier run had learnt.
    features, n_components : int
    loss : float or None
        What the model leaves of a sample, by the method's loss, in the mean over the last batch before it was learnt;
        of "conservative" the mean norm that is left of samples of norm 1, in the best batch, None before one is full.
    seconds, samples_per_second : float
        Of this run.
    random_state : int
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
        figures = super()._figures()
        # the words of the command line
        return figures | {"rank": figures.pop("n_components"), "seed": figures.pop("random_state")}

    def summary(self) -> str:
        """Return the report as text for a person.

        Returns
        -------
        str
            A few lines.
        """
        before = f", {self.resumed} of them before" if self.resumed else ""
        lines = [
            f"{self.inputs[0]}: {self.n_components} components of {self.features} features from {self.samples} samples"
            f"{before}, {self.seconds:.1f} s ({self.samples_per_second:.0f} samples/s)",
        ]
        if self.loss is not None:
            lines.append(f"  loss of a sample: {self.loss:.4g} ({self.method})")
        return "\n".join([*lines, *(f"  {line}" for line in self._ending())])


def learn_stream(
    source: str | Path,
    model: str | Path,
    *,
    n_components: int = choices.STREAM_COMPONENTS,
    method: str = choices.STREAM_METHOD,
    w: float | None = None,
    epochs: int = 1,
    batch_size: int | None = None,
    shuffle: bool = False,
    checkpoint: str | Path | None = None,
    every: int = choices.STREAM_EVERY,
    resume: bool = True,
    live: bool = False,
    dataset: str | None = None,
    longest_side: int = choices.STREAM_LONGEST_SIDE,
    picture: str | Path | None = None,
    picture_shape: tuple[int, int] | None = None,
    random_state: int = choices.RANDOM_STATE,
    force: bool = False,
    progress: Progress | None = None,
) -> StreamReport:
    """Learn features from a stream, and write the model.

    Parameters
    ----------
    source : str or Path
        A folder of images, a video, a ``.npy``, HDF5, Zarr or text file of rows, or ``"-"`` for rows on standard input;
        see :mod:`visionnmf.io.chunks`.
    model : str or Path
        The file to write, for :func:`visionnmf.load_model`.
    n_components : int, default=50
    method : str, default="manhattan"
        One of :class:`.OnlineNMF`, or "conservative" for :class:`.ConservativeNMF`.
    w : float or None, default=None
        The parameter of :class:`.ConservativeNMF`; None takes its own.
    epochs : int, default=1
        Passes over the source.
    batch_size : int or None, default=None
        Samples that are learnt together; None takes the model's own, or 1024.
    shuffle : bool, default=False
        Whether the rows of a file come in a new order in each pass.
    checkpoint : str, Path or None, default=None
        A file from which a run that was killed goes on; see :func:`visionnmf.fit_stream`.
    every : int, default=100
        Batches between two checkpoints.
    resume : bool, default=True
        False begins anew and replaces an existing checkpoint.
    live : bool, default=False
        True: the source does not begin anew with the program, so that a run that goes on skips nothing.
    dataset : str or None, default=None
        Which array of an HDF5 file or a Zarr group; None takes the only one.
    longest_side : int, default=128
        Images and frames are scaled down where a side is longer, in pixels.
    picture : str or Path or None, default=None
        A PNG file for a picture of the components, those of most contrast first, 100 at most.
    picture_shape : tuple of two ints or None, default=None
        Height and width of the components in the picture, where the source does not say.
    random_state : int, default=0
        Seed of the start and of the order.
    force : bool, default=False
        Whether existing outputs may be replaced. A checkpoint always is.
    progress : callable, optional
        Called with ("learning", samples done, samples in all or None).

    Returns
    -------
    StreamReport

    Raises
    ------
    MediaError
        If the source cannot be read, an output exists, or cannot be written.
    ParameterError
        If an argument is out of its range, or the source holds what the model does not take.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.stream import learn_stream
    >>> np.save("data.npy", np.random.default_rng(0).random((60, 8)))
    >>> learn_stream("data.npy", "parts.npz", n_components=2, force=True).outputs
    ['parts.npz']
    """
    check_choice(method, "method", [*METHODS, "conservative"])
    check_count(n_components, "n_components")
    if picture_shape is not None:
        check_image_shape(picture_shape, "picture_shape")
    outputs = [Path(path) for path in (model, picture) if path is not None]
    check_outputs(outputs, force, inputs=[source])
    if checkpoint is not None:
        check_outputs([*outputs, checkpoint], True, inputs=[source])
    kind: Any = ConservativeNMF if method == "conservative" else OnlineNMF
    options: dict[str, Any] = {} if method == "conservative" else {"method": method}
    if w is not None:
        if method != "conservative":
            raise ParameterError(f"w must be None for method {method!r}; got {w!r}; it belongs to 'conservative'")
        options["w"] = w
    start, resumed = time.perf_counter(), 0
    if checkpoint is not None and resume and Path(checkpoint).exists():
        resumed = load_model(checkpoint).n_samples_seen_
    with open_chunks(source, dataset=dataset, longest_side=longest_side) as chunks:
        _check_size(chunks, n_components)
        learner = fit_stream(
            kind(n_components, random_state=random_state, **options),
            chunks,
            epochs=epochs,
            batch_size=batch_size,
            shuffle=shuffle,
            random_state=random_state,
            checkpoint=checkpoint,
            every=every,
            resume=resume,
            live=live,
            callback=partial(_heard, chunks, picture is not None, picture_shape, progress),
        )
        shape, skipped = chunks.image_shape, chunks.skipped
    drawn = None
    if picture is not None:
        shape = _shape(learner.n_features_in_, picture_shape or shape)
        drawn = components_picture(learner.components_, shape, most=MOST_SHOWN)
    with transaction():
        learner.save(model, force=force)
        if picture is not None and drawn is not None:
            write_image(picture, drawn, force=force)
    samples, seconds = learner.n_samples_seen_, time.perf_counter() - start
    loss = learner.best_error_ if method == "conservative" else learner.chunk_loss_
    return StreamReport(
        method=method,
        samples=samples,
        resumed=resumed,
        features=learner.n_features_in_,
        n_components=n_components,
        loss=float(loss) if math.isfinite(loss) else None,
        seconds=seconds,
        samples_per_second=(samples - resumed) / seconds,
        random_state=random_state,
        inputs=[str(source)],
        outputs=[str(path) for path in outputs],
        skipped=skipped,
        notes=[] if samples >= n_components else [f"there are fewer samples than components ({samples})"],
    )


def _check_size(chunks: Chunks, n_components: int) -> None:
    """Refuse components that would fill the memory."""
    size = 8 * n_components * (chunks.n_features or 0)
    if size > MAX_BYTES:
        raise TooLargeError(
            f"{chunks.name}: {n_components} components of {chunks.n_features} features take {size >> 20} MiB, "
            f"{MAX_BYTES >> 20} are allowed; take fewer components, or smaller images"
        )


def _heard(
    chunks: Chunks,
    drawing: bool,
    shape: tuple[int, int] | None,
    progress: Progress | None,
    done: int,
    total: int | None,
) -> None:
    """Take note of a batch; where components cannot be drawn, say so after the first, not the last."""
    if drawing and chunks.n_features is not None:
        _shape(chunks.n_features, shape or chunks.image_shape)
    if progress is not None:
        progress("learning", done, total)


def _shape(n_features: int, given: tuple[int, int] | None) -> tuple[int, int]:
    """Return height and width of components; a square number of features is taken for a square image."""
    side = math.isqrt(n_features)
    return check_image_shape(given or (side, side), "picture_shape", n_features)
