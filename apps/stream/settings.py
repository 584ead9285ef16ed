"""The settings of the stream application; imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from visionnmf import choices
from visionnmf.apps.settings import Option, settings
from visionnmf.exceptions import ParameterError

CONSERVATIVE = "conservative"


@settings
class StreamLearning:
    """What is learnt, and how. See :class:`~visionnmf.OnlineNMF` and :class:`~visionnmf.ConservativeNMF`."""

    n_components: Annotated[int, Option("Number of components.", flag="--rank", metavar="N", low=1)] = (
        choices.STREAM_COMPONENTS
    )
    method: Annotated[
        str,
        Option(
            "auto (the first samples choose one of the next two), manhattan (robust), surrogate (least squares), "
            "conservative, or another one of OnlineNMF."
        ),
    ] = choices.STREAM_METHOD
    w: Annotated[
        float | None, Option("For conservative: how much the decoder changes [1e-5].", metavar="W", low=0, above=True)
    ] = None
    epochs: Annotated[int, Option("Passes over the source.", metavar="N", low=1)] = 1
    batch_size: Annotated[
        int | None, Option("Samples learnt together; the method's default or 1024.", flag="--batch", metavar="N", low=1)
    ] = None
    shuffle: Annotated[bool, Option("Read the rows of a file in random order.")] = False
    random_state: Annotated[
        int, Option("Seed of the start and of the order.", flag="--seed", low=0, high=2**32 - 1)
    ] = choices.RANDOM_STATE

    def check(self) -> None:
        """Raise ParameterError if `w` is given to a method without it."""
        if self.w is not None and self.method != CONSERVATIVE:
            raise ParameterError(
                f"w must be None for method {self.method!r}; got {self.w!r}; it belongs to {CONSERVATIVE!r}"
            )


@settings
class Checkpoints:
    """How an interrupted run is continued; see :func:`visionnmf.fit_stream`."""

    checkpoint: Annotated[
        Path | None, Option("A file written while learning; the same command continues from it.", metavar="C.npz")
    ] = None
    every: Annotated[int, Option("Batches between two checkpoints.", metavar="N", low=1)] = choices.STREAM_EVERY
    restart: Annotated[bool, Option("Start again, and replace an existing checkpoint.")] = False
    live: Annotated[
        bool, Option("The source does not start again with the program, so nothing is skipped when continuing.")
    ] = False


@settings
class SampleSource:
    """How samples are read from the source; see :mod:`visionnmf.io.chunks`."""

    longest_side: Annotated[
        int, Option("Scale images down to this longer side, in pixels.", flag="--size", metavar="N", low=1)
    ] = choices.STREAM_LONGEST_SIDE


@settings
class ComponentsPicture:
    """A picture of the components: the 100 with the most contrast."""

    picture: Annotated[Path | None, Option("Write a picture of the components.", metavar="P.png")] = None
    picture_shape: Annotated[
        tuple[int, int] | None,
        Option("Height and width of the components, if the source has none.", flag="--shape", metavar="H W"),
    ] = None

    def check(self) -> None:
        """Raise ParameterError for a shape that is not two positive numbers."""
        if self.picture_shape is not None:
            from visionnmf._checks import check_image_shape

            check_image_shape(self.picture_shape, "picture_shape")
