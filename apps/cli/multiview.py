"""``visionnmf multiview``: fit, transform, impute, evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visionnmf.apps.multiview.settings import Comparison, Labels, ViewFit
from visionnmf.apps.settings import Option

from .console import is_quiet, say
from .options import Force, Out, Processes
from .records import with_records
from .run import running

WORDS = ("method", "split", "condition")  # what an evaluation goes through

command = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@command.callback()
def _multiview() -> None:
    """Learn from several views of the same samples; find which view uses what; fill in missing views.

    \b
    Examples:
      visionnmf multiview fit sounds.csv images.npy --model views.npz
      visionnmf multiview transform views.npz images=new.npy --codes codes.csv
      visionnmf multiview impute views.npz images=new.npy --out filled
      visionnmf multiview evaluate sounds.csv images.npy --labels classes.txt --out results
    """


Sources = Annotated[
    list[str],
    typer.Argument(metavar="VIEWS...", help="PATH or NAME=PATH of .npy, .npz, .csv, .parquet or a folder of images."),
]
Key = Annotated[
    str | None,
    Option(
        "Match rows by this column; by position if left out. The key of an image in a folder is its file name, "
        "with or without the extension.",
        metavar="COLUMN",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="M.npz", help="A model that `fit` has written.")]


@command.command("fit")
@with_records
def fit(
    views: Sources,
    model: Annotated[Path, Option("The model file to write.", metavar="M.npz")],
    settings: ViewFit,
    key: Key = None,
    picture: Annotated[
        Path | None, Option("Draw which view uses which component (needs matplotlib).", metavar="P.png")
    ] = None,
    force: Force = False,
) -> None:
    """Fit a model to views, and report which of them share what.

    \b
    Examples:
      visionnmf multiview fit mv.npz --model views.npz --rank 40
      visionnmf multiview fit photos/ words.csv --key image --model views.npz
    """
    with running() as run:
        from visionnmf.apps import multiview

        with run.progress(views[0], rate_of="") as progress:
            report = multiview.fit_views(
                views, model, settings=settings, key=key, picture=picture, force=force, progress=progress
            )
        for view in report.views:
            run.detail(f"{view['name']}: prepared by {view['prepared']}, weight {view['weight']:.3g}")
        run.detail(f"{report.iterations} iterations")
        run.report(report)


@command.command("transform")
def transform(
    model: Model,
    views: Sources,
    codes: Annotated[Path, Option("The file to write: .csv or .npy.", metavar="CODES.csv")],
    key: Key = None,
    force: Force = False,
) -> None:
    """Find the codes of samples from the views that they have.

    \b
    Example:
      visionnmf multiview transform views.npz images=new.npy --codes codes.csv
    """
    with running() as run:
        from visionnmf.apps import multiview

        run.report(multiview.transform_views(model, views, codes, key=key, force=force))


@command.command("impute")
def impute(model: Model, views: Sources, out: Out = Path("."), key: Key = None, force: Force = False) -> None:
    """Fill in missing views and entries, and write a .csv file for each view of the model.

    \b
    Example:
      visionnmf multiview impute views.npz images=new.npy --out filled
    """
    with running() as run:
        from visionnmf.apps import multiview

        # `key` names the column by which rows of the tables are matched
        run.report(multiview.impute_views(model, views, out, key=key, force=force))


@command.command("evaluate")
@with_records
def evaluate(
    views: Sources,
    labels: Labels,
    comparison: Comparison,
    key: Key = None,
    plot: Annotated[bool, Option("Draw scores against ranks (needs matplotlib).")] = False,
    jobs: Processes = 1,
    out: Out = Path("."),
    force: Force = False,
) -> None:
    """Compare methods on random splits of labelled samples; an interrupted run continues where it was.

    The scores are the accuracy of a linear support vector machine on new samples (mean average precision for words),
    and the accuracy and normalised mutual information of clusters of codes. The machine gets the codes, and for
    MultiviewNMF the views as well. The command writes results.csv.

    The default, four methods on three splits, takes two to three minutes of one processor for 400 samples of two views
    with 300 features together. --splits 10 takes ten thirds of that, and the means differ less from run to run.

    \b
    Methods:
      multiview             MultiviewNMF
      multiview-constraint  its constraint form (equation 40 of Guan et al. 2012)
      multiview-frobenius   MultiviewNMF by least squares
      eucnmf-gs             NMF with group sparsity (Kim et al. 2012, equation 64 of Guan et al. 2012)
      flss                  factorised latent spaces with structured sparsity (Jia et al. 2010)
      manhattan             Manhattan NMF of the views side by side
      frobenius             least-squares NMF of the views side by side
      joint                 scikit-learn's NMF of the views side by side
      pca                   PCA of the views side by side
      concatenation         the views themselves

    \b
    Conditions:
      clean, salt-and-pepper, view-corrupted (one view of a third of the samples is noise),
      view-missing (each view in turn, at test), train-missing (30 % of the views)

    \b
    Example:
      visionnmf multiview evaluate mv.npz --conditions clean,view-missing --out results
    """
    with running() as run:
        from visionnmf.apps import multiview

        with run.steps(views[0], "comparing") as progress:
            report = multiview.evaluate_files(
                views,
                comparison,
                labels=labels,
                key=key,
                out=out,
                jobs=jobs,
                plot=plot,
                force=force,
                begin=None if is_quiet() else lambda: say(_cost(comparison)),
                progress=progress,
            )
        run.report(report)


def _cost(comparison: Comparison) -> str:
    """Return a sentence that says, before an evaluation begins, how much work it is: methods, splits, conditions."""
    counts = [len(comparison.methods), comparison.n_splits, len(comparison.conditions)]
    words = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in zip(counts, WORDS, strict=True)]
    ranks = ", ".join(map(str, comparison.ranks))
    return (
        f"comparing {words[0]} on {words[1]} under {words[2]}: {counts[0] * counts[1] * counts[2]} jobs, each with the "
        f"ranks {ranks}; --splits, --ranks and --methods change that, and --jobs runs several at a time"
    )
