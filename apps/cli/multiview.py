"""``visionnmf multiview``: fit, transform, impute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visionnmf.apps.multiview.settings import ViewFit
from visionnmf.apps.settings import Option

from .options import Force, Out, with_records
from .run import running

command = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


Sources = Annotated[
    list[str],
    typer.Argument(metavar="VIEWS...", help="PATH or NAME=PATH of .npy, .npz, .csv, .parquet or a folder of images."),
]
Key = Annotated[
    str | None,
    Option(
        "Match rows by this column; if left out, by that of the model where all files have it, or by position. The key "
        "of an image in a folder is its file name, with or without the extension.",
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
        run.show(report)


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

        run.show(multiview.transform_views(model, views, codes, key=key, force=force))


@command.command("impute")
def impute(model: Model, views: Sources, out: Out = Path("."), key: Key = None, force: Force = False) -> None:
    """Fill in missing views and entries, and write a .csv file for each view of the model.

    \b
    Example:
      visionnmf multiview impute views.npz images=new.npy --out filled
    """
    with running() as run:
        from visionnmf.apps import multiview

        run.show(multiview.impute_views(model, views, out, key=key, force=force))
