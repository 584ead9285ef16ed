"""``visionnmf stream``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visionnmf import choices

from .common import running, say
from .options import Debug, Force, Json, Seed
from .paths import check_there

__all__ = ["command"]


def command(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="Folder of images, video, .npy, HDF5, Zarr, .csv; - is standard input."),
    ],
    model: Annotated[Path, typer.Option("--model", metavar="M.npz", help="The model file to write.")],
    rank: Annotated[int, typer.Option("--rank", metavar="N", min=1, help="Components.")] = choices.STREAM_COMPONENTS,
    method: Annotated[
        str, typer.Option("--method", help="manhattan (robust), surrogate (least squares), conservative, or another.")
    ] = choices.STREAM_METHOD,
    w: Annotated[
        float | None,
        typer.Option("--w", metavar="W", help="Of conservative: how much the decoder changes [1e-5]."),
    ] = None,
    epochs: Annotated[int, typer.Option("--epochs", metavar="N", min=1, help="Passes over the source.")] = 1,
    batch: Annotated[
        int | None, typer.Option("--batch", metavar="N", min=1, help="Samples that are learnt together.")
    ] = None,
    shuffle: Annotated[bool, typer.Option("--shuffle", help="Take rows of a file in random order.")] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="C.npz", help="Written as it learns; the same command goes on from it."),
    ] = None,
    every: Annotated[
        int, typer.Option("--every", metavar="N", min=1, help="Batches between two checkpoints.")
    ] = choices.STREAM_EVERY,
    restart: Annotated[bool, typer.Option("--restart", help="Begin anew, whatever the checkpoint holds.")] = False,
    live: Annotated[
        bool,
        typer.Option("--live", help="The source does not begin anew: going on from a checkpoint skips nothing."),
    ] = False,
    dataset: Annotated[
        str | None, typer.Option("--dataset", metavar="NAME", help="Which array of an HDF5 file or a Zarr group.")
    ] = None,
    size: Annotated[
        int, typer.Option("--size", metavar="N", min=1, help="Longer side of images, in pixels, at most.")
    ] = choices.STREAM_LONGEST_SIDE,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="P.png", help="Write a picture of the components.")
    ] = None,
    shape: Annotated[
        tuple[int, int] | None,
        typer.Option("--shape", metavar="H W", help="Height and width of the components, for the picture."),
    ] = None,
    seed: Seed = choices.RANDOM_STATE,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Learn features from more data than fit into memory, and write the model.

    Samples are the images of a folder or the frames of a video (grey), the rows of a file, or the lines of numbers on
    standard input. With --checkpoint a run that was killed goes on where it stood when the same command is given again.

    \b
    Examples:
      visionnmf stream photos/ --model parts.npz --picture parts.png
      visionnmf stream rows.npy --model parts.npz --epochs 3 --shuffle --checkpoint at.npz
      visionnmf stream data.h5 --dataset spectra --model parts.npz
      zcat rows.csv.gz | visionnmf stream - --model parts.npz
    """
    with running(json_, debug) as run:
        check_there(source)
        from visionnmf.apps.stream import learn_stream

        with run.progress(source, rate_of="samples") as progress:
            try:
                report = learn_stream(
                    source,
                    model,
                    n_components=rank,
                    method=method,
                    w=w,
                    epochs=epochs,
                    batch_size=batch,
                    shuffle=shuffle,
                    checkpoint=checkpoint,
                    every=every,
                    resume=not restart,
                    live=live,
                    dataset=dataset,
                    longest_side=size,
                    picture=picture,
                    picture_shape=shape,
                    random_state=seed,
                    force=force,
                    progress=progress,
                )
            except KeyboardInterrupt:
                if checkpoint is not None and checkpoint.exists():
                    say(f"interrupted; the same command goes on from {checkpoint}")
                raise
        run.report(report)
