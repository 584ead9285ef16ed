"""``visionnmf annotate``: train, predict."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from visionnmf.apps.annotation.settings import AnnotatorSettings, WordOutputs
from visionnmf.apps.settings import Option, comma_separated

from .options import Force, excludes, given, needs, with_records
from .run import check_exists, running

command = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


Model = Annotated[Path, typer.Argument(metavar="M.npz", help="A model written by train.")]
Images = Annotated[
    list[str], typer.Argument(metavar="IMAGE...", help="Files, patterns, folders; or a table, for a model of a table.")
]
Jobs = Annotated[int, Option("Processes that read images.", short="-j", metavar="N", low=1, high=256)]
Labels = Annotated[str | None, Option("CSV or JSON Lines; by default the photographs' keywords.", metavar="FILE")]


@command.command("train")
@with_records
def train(
    source: Annotated[str, typer.Argument(metavar="DIR", help="Folder of images, or a table of features (.npz).")],
    model: Annotated[Path, Option("The model file to write.", metavar="M.npz")],
    annotator: AnnotatorSettings,
    labels: Labels = None,
    kinds: Annotated[
        str | None, Option("Features of images, comma-separated; by default the usual eight.", flag="--kind")
    ] = None,
    jobs: Jobs = 1,
    force: Force = False,
) -> None:
    """Learn words from photographs that have some.

    Labels are a CSV file (on each line the name of a photograph, then its words), JSON Lines ({"file": ..., "words":
    [...]}), or the keywords that photo managers keep in IPTC, XMP and sidecars. In CSV, commas, semicolons and bars
    separate words, even within quotes. Write words that contain one of them in JSON Lines.

    \b
    Examples:
      visionnmf annotate train photos/ --labels words.csv --model words.npz
      visionnmf annotate train features.npz --labels words.jsonl --model words.npz --method jec
      visionnmf annotate train photos/ --model jec.npz --method jec --coder none --metric lab=kullback-leibler
    """
    needs("metrics", "--method jec or jec-greedy", annotator.method != "weighted")
    excludes("n_components pseudo_inverse", "--coder none", annotator.coder == "none")
    excludes("kinds jobs", "a table of features", source.endswith(".npz"))
    with running() as run:
        check_exists(source)
        from visionnmf.apps import annotation

        with run.progress(source, rate_of="") as progress:
            report = annotation.train(
                source,
                model,
                labels=labels,
                kinds=None if kinds is None else comma_separated(kinds),
                annotator=annotation.ImageAnnotator(**asdict(annotator)),
                n_jobs=jobs,
                force=force,
                progress=progress,
            )
        run.show(report)


@command.command("predict")
@with_records
def predict(model: Model, images: Images, outputs: WordOutputs, jobs: Jobs = 1, force: Force = False) -> None:
    """Give words to photographs, with probabilities (jec: points) and the training photographs behind each word.

    The photographs are never written to. A sidecar of another program is never replaced.

    \b
    Examples:
      visionnmf annotate predict words.npz new/*.jpg --top 5
      visionnmf annotate predict words.npz new/ --least 0.3 --sidecars --csv words.csv
    """
    needs("force", "--csv, --sidecars or --report", outputs.table or outputs.sidecars or "report" in given)
    with running() as run:
        check_exists(model)
        check_exists(*images)
        from visionnmf.apps import annotation

        known = annotation.load(model)
        with run.progress(str(images[0]), rate_of="images") as progress:
            report = annotation.annotate(known, images, outputs=outputs, n_jobs=jobs, force=force, progress=progress)
        run.show(report)
