"""``visionnmf evaluate``: faces."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from visionnmf import choices
from visionnmf.apps.evaluate.settings import Comparison, FaceConditions, RandomSplits
from visionnmf.apps.faces.settings import FaceReading

from .console import is_quiet, say
from .input_paths import check_exists
from .records import with_records
from .run import Run, running

if TYPE_CHECKING:
    from visionnmf.apps.evaluate import Study

command = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@command.callback()
def _evaluate() -> None:
    """Compare methods on data whose truth is known. With --out an interrupted run continues where it stopped.

    \b
    Examples:
      visionnmf evaluate faces people/ --corruption salt_and_pepper:0.3
    """


def _compare(run: Run, source: str, comparison: Comparison, study: Callable[[], Study]) -> None:
    """Make the study, which reads the data, run its jobs, and print the table."""
    from visionnmf.apps.evaluate import evaluate

    made = study()
    if len(made.jobs) > 1 and not is_quiet():
        say(f"{len(made.jobs)} jobs; --methods takes fewer methods, and --jobs runs several jobs at a time")
    with run.steps(source, "jobs") as progress:
        report = evaluate(made, comparison, progress=progress)
    run.report(report)


@command.command("faces")
@with_records
def faces(
    source: Annotated[
        str, typer.Argument(metavar="DIR", help="Folder with a sub-folder per person, .npz, .mat, or orl, yale, yaleb.")
    ],
    comparison: Comparison,
    splits: RandomSplits,
    conditions: FaceConditions,
    reading: FaceReading,
) -> None:
    """Compare methods of face recognition on random splits of a data set, by default ten.

    Kinds of corruption: occlusion (side of the block in pixels), salt_and_pepper and dead_lines (share), laplace and
    gaussian (grey levels), poisson (photons per grey level).

    \b
    Methods (default: all but occluded):
      recognizer        FaceRecognizer, as faces train has it
      occluded          the same with its rule for occluded faces; several times slower
      manhattan         NMF with the Manhattan loss and a nuclear penalty
      frobenius         least-squares NMF
      kullback-leibler  NMF with the Kullback-Leibler divergence
      pca               eigenfaces
      raw               the nearest training image
      lda               linear discriminants after PCA
      crc               collaborative representation

    \b
    Example:
      visionnmf evaluate faces people/ --corruption occlusion:12 --ranks 10-150/10 --plots --out results
    """
    with running() as run:
        check_exists(source, known=choices.FACE_SETS)
        from visionnmf.apps.evaluate import faces as application

        _compare(
            run,
            source,
            comparison,
            lambda: application.study(source, comparison, splits=splits, conditions=conditions, reading=reading),
        )
