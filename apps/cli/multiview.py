"""``visionnmf multiview``: fit, transform, impute, evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visionnmf import choices

from .common import running
from .options import Debug, Force, Json, Out, Processes, Seed, one_of

__all__ = ["command"]

command = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@command.callback()
def _multiview() -> None:
    """Learn from several views of the same samples; find which view uses what; fill in missing views.

    \b
    Examples:
      visionnmf multiview fit sounds.csv images.npy --model views.npz --picture usage.png
      visionnmf multiview transform views.npz images=new.npy --codes codes.csv
      visionnmf multiview impute views.npz images=new.npy --out filled
      visionnmf multiview evaluate sounds.csv images.npy --labels classes.txt --out results
    """


Views = Annotated[
    list[str],
    typer.Argument(metavar="VIEWS...", help="PATH or NAME=PATH: .npy, .npz, .csv, .parquet, a folder of images."),
]
Key = Annotated[
    str | None, typer.Option("--key", metavar="COLUMN", help="Match rows by this column; by position if left out.")
]
Prepare = Annotated[str, typer.Option("--prepare", help=one_of(choices.VIEW_PREPARATIONS))]
Model = Annotated[Path, typer.Argument(metavar="M.npz", help="A model that `fit` has written.")]


@command.command("fit")
def fit(
    views: Views,
    model: Annotated[Path, typer.Option("--model", metavar="M.npz", help="The model file to write.")],
    rank: Annotated[int, typer.Option("--rank", min=1, max=10_000, help="Components.")] = choices.VIEW_COMPONENTS,
    key: Key = None,
    kinds: Annotated[
        str | None, typer.Option("--kinds", help="Features of images, comma-separated, as gist,dense-sift.")
    ] = None,
    prepare: Prepare = "auto",
    loss: Annotated[
        str | None, typer.Option("--loss", help="manhattan, frobenius or another; by the data if left out.")
    ] = None,
    sparsity: Annotated[
        float, typer.Option("--sparsity", metavar="ETA", min=0, help="Penalty of views in use; 0 is none.")
    ] = choices.VIEW_SPARSITY,
    bound: Annotated[
        float | None, typer.Option("--bound", metavar="GAMMA", min=1e-9, help="A constraint in place of the penalty.")
    ] = None,
    scale: Annotated[str, typer.Option("--scale", help=one_of(choices.VIEW_SCALES))] = "energy",
    weigh: Annotated[bool, typer.Option("--weigh", help="Choose a weight for each view by cross-validation.")] = False,
    nuclear: Annotated[
        float, typer.Option("--nuclear", min=0, help="Ridge of both factors: 1 where the rank is generous.")
    ] = 0.0,
    outliers: Annotated[
        float,
        typer.Option(
            "--outliers",
            metavar="Z",
            min=0,
            help="Leave out views that do not fit their sample, where that helps; 0: none.",
        ),
    ] = choices.VIEW_OUTLIERS,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="P.png", help="Draw which view uses which component.")
    ] = None,
    seed: Seed = choices.RANDOM_STATE,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Fit a model to views, and say which of them share what.

    \b
    Examples:
      visionnmf multiview fit mv.npz --model views.npz --rank 40
      visionnmf multiview fit photos/ words.csv --key image --model views.npz
    """
    with running(json_, debug) as run:
        from visionnmf.apps import multiview

        with run.status("fitting"):
            report = multiview.fit_views(
                views,
                model,
                key=key,
                kinds=None if kinds is None else kinds.split(","),
                n_components=rank,
                prepare=prepare,
                loss=loss,
                group_l1=sparsity,
                group_bound=bound,
                scale=scale,
                weigh=weigh,
                nuclear=nuclear,
                view_outliers=outliers or None,
                picture=picture,
                random_state=seed,
                force=force,
            )
        run.report(report)


@command.command("transform")
def transform(
    model: Model,
    views: Views,
    codes: Annotated[Path, typer.Option("--codes", metavar="CODES.csv", help="What to write: .csv or .npy.")],
    key: Key = None,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Find the codes of samples from the views that they have.

    \b
    Example:
      visionnmf multiview transform views.npz images=new.npy --codes codes.csv
    """
    with running(json_, debug) as run:
        from visionnmf.apps import multiview

        run.report(multiview.transform_views(model, views, codes, key=key, force=force))


@command.command("impute")
def impute(
    model: Model,
    views: Views,
    out: Out = Path("."),
    key: Key = None,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Fill in missing views and entries; writes a .csv file for each view of the model.

    \b
    Example:
      visionnmf multiview impute views.npz images=new.npy --out filled
    """
    with running(json_, debug) as run:
        from visionnmf.apps import multiview

        run.report(multiview.impute_views(model, views, out, key=key, force=force))


@command.command("evaluate")
def evaluate(
    views: Views,
    labels: Annotated[
        str | None, typer.Option("--labels", metavar="FILE", help="A label a line; words parted by ;.")
    ] = None,
    column: Annotated[str | None, typer.Option("--column", help="Of the labels, in a .csv file.")] = None,
    key: Key = None,
    methods: Annotated[
        str, typer.Option("--methods", help="Comma-separated; see below.")
    ] = "multiview,joint,pca,concatenation,consensus",
    ranks: Annotated[str, typer.Option("--ranks", help="Comma-separated.")] = "20,40,60",
    conditions: Annotated[str, typer.Option("--conditions", help="Comma-separated; see below.")] = "clean",
    splits: Annotated[int, typer.Option("--splits", min=1, max=1000, help="Random splits, half and half.")] = 10,
    prepare: Prepare = "auto",
    plot: Annotated[bool, typer.Option("--plot", help="Draw scores against ranks (needs matplotlib).")] = False,
    jobs: Processes = 1,
    out: Out = Path("."),
    seed: Seed = choices.RANDOM_STATE,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Compare methods on random splits of labelled samples; an interrupted run goes on where it was.

    Accuracy of a linear support vector machine on the codes of new samples (mean average precision of words), and
    accuracy and NMI of clusters. Methods: multiview, multiview-all
    (leaves no view out), multiview-nuclear, multiview-constraint, multiview-frobenius,
    eucnmf-gs, flss, manhattan, frobenius, joint, pca, concatenation; consensus clusters by several fits. Conditions:
    clean, salt-and-pepper, view-corrupted, view-missing, train-missing. Writes results.csv.

    \b
    Example:
      visionnmf multiview evaluate mv.npz --conditions clean,view-missing --plot --out results
    """
    with running(json_, debug) as run:
        from visionnmf.apps.multiview import Plan, evaluate_files
        from visionnmf.exceptions import ParameterError

        if not all(rank.strip().isdigit() for rank in ranks.split(",")):
            raise ParameterError(f"ranks must be whole numbers, parted by commas; got {ranks!r:.60}")
        plan = Plan(
            methods=tuple(methods.split(",")),
            ranks=tuple(int(rank) for rank in ranks.split(",")),
            n_splits=splits,
            conditions=tuple(conditions.split(",")),
            prepare=prepare,
            random_state=seed,
        )
        with run.progress(views[0], rate_of="") as progress:
            report = evaluate_files(
                views,
                plan,
                labels=labels,
                column=column,
                key=key,
                out=out,
                jobs=jobs,
                plot=plot,
                force=force,
                progress=None if progress is None else lambda done, total: progress("comparing", done, total),
            )
        run.report(report)
