"""``visionnmf stream``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visionnmf.apps.settings import Option
from visionnmf.apps.stream.settings import Checkpoints, ComponentsPicture, SampleSource, StreamLearning

from .console import say
from .input_paths import check_exists
from .options import Force
from .records import with_records
from .run import running


@with_records
def command(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="Folder of images, video, .npy, .csv; - is standard input."),
    ],
    model: Annotated[Path, Option("The model file to write.", metavar="M.npz")],
    learning: StreamLearning,
    checkpoints: Checkpoints,
    reading: SampleSource,
    drawing: ComponentsPicture,
    force: Force = False,
) -> None:
    """Learn components from more data than fit into memory, and write the model.

    Samples are the images of a folder or the frames of a video (grey), the rows of a file, or the lines of numbers on
    standard input. With --checkpoint, the same command continues a run that was killed.

    \b
    Examples:
      visionnmf stream photos/ --model parts.npz --picture parts.png
      visionnmf stream rows.npy --model parts.npz --epochs 3 --shuffle --checkpoint at.npz
      zcat rows.csv.gz | visionnmf stream - --model parts.npz
    """
    with running() as run:
        check_exists(source)
        from visionnmf.apps.stream import learn_stream

        with run.progress(source, rate_of="samples") as progress:
            try:
                report = learn_stream(
                    source,
                    model,
                    learning=learning,
                    checkpoints=checkpoints,
                    reading=reading,
                    drawing=drawing,
                    force=force,
                    progress=progress,
                )
            except KeyboardInterrupt:
                if checkpoints.checkpoint is not None and checkpoints.checkpoint.exists():
                    say(f"interrupted; the same command continues from {checkpoints.checkpoint}")
                raise
        run.report(report)
