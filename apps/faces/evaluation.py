"""From a data set to a comparison of methods, with drawings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from visionnmf.datasets import Faces
from visionnmf.exceptions import ParameterError
from visionnmf.io import check_outside

from .comparison import Comparison, compare, make_task
from .draw import curves_picture, montage_picture
from .methods import MODELS, fit_model
from .plan import Corruption, Plan, corruption_name
from .sources import open_faces

__all__ = ["evaluate"]

CURVES = "accuracy.png"
MONTAGE = 10  # images a row


def evaluate(
    source: str | Path,
    plan: Plan,
    *,
    size: int | None = None,
    detect: bool = False,
    out: str | Path | None = None,
    jobs: int = 1,
    plots: bool = False,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare methods on a data set; see :func:`compare`.

    Parameters
    ----------
    source : str or Path
        See :func:`open_faces`.
    plan : Plan
    size : int or None, default=None
        See :func:`open_faces`.
    detect : bool, default=False
        See :func:`open_faces`.
    out : str or Path, optional
        Folder for ``results.csv``, the pictures, and what an interrupted run needs to go on.
    jobs : int, default=1
        Processes.
    plots : bool, default=False
        Whether to draw ``accuracy.png``, accuracy against rank, and for each corruption the ``components`` and
        ``reconstructions`` of the models with the largest rank, on the first split; needs matplotlib and `out`.
    force : bool, default=False
        Whether results of another plan or data set, and pictures beside none, may be replaced.
    progress : callable, optional
        Called as ``progress(done, total)``.

    Returns
    -------
    Comparison

    Raises
    ------
    ParameterError
        When the plan does not fit the data, plots would be written among the faces, or matplotlib is missing.
    OutputExistsError
        When `out` holds other results, or pictures of these names and no results, and `force` is false.

    Examples
    --------
    >>> from visionnmf.apps.faces import Plan, evaluate
    >>> plan = Plan(methods=("raw",), per_person=2, splits=1)
    >>> len(evaluate("people", plan).rows) > 0
    True
    """
    if plots and out is None:
        raise ParameterError("out must be given with plots; got None")
    if plots and out is not None:
        check_outside(out, source)
    if plots and find_spec("matplotlib") is None:  # before hours of work
        raise ParameterError("matplotlib must be installed for plots; got none; pip install 'visionnmf[plots]'")
    faces, skipped = open_faces(source, size=size, detect=detect)
    drawn = _pictures(plan) if plots else []
    found = compare(faces, plan, out=out, jobs=jobs, force=force, progress=progress, also=drawn)
    outputs = list(found.outputs)
    if plots and out is not None:
        curves_picture(found, Path(out) / CURVES, force=True)
        for corruption in plan.corruptions if _models(plan) else ():
            _draw_models(faces, corruption, plan, Path(out))
        outputs += [str(Path(out) / name) for name in drawn]
    return replace(found, inputs=[str(source)], outputs=outputs, skipped=skipped)


def _models(plan: Plan) -> list[str]:
    return [method for method in plan.methods if method in MODELS]


def _pictures(plan: Plan) -> list[str]:
    """Return the names of what is drawn."""
    sheets = [name for corruption in plan.corruptions for name in _sheets(corruption)]
    return [CURVES, *sheets] if _models(plan) else [CURVES]


def _sheets(corruption: Corruption) -> tuple[str, str]:
    kind = corruption_name(corruption)
    return f"components-{kind}.png", f"reconstructions-{kind}.png"


def _draw_models(faces: Faces, corruption: Corruption, plan: Plan, out: Path) -> None:
    """Draw components of the plan's models, and their reconstructions of training images."""
    task = make_task(faces, corruption, 0, plan)
    rank = min(max(plan.ranks), *task.train.shape)
    shown = np.linspace(0, len(task.train) - 1, min(MONTAGE, len(task.train))).astype(int)
    components, reconstructions = {}, {"clean": task.clean[shown], "as trained on": task.train[shown]}
    for method in _models(plan):
        model, codes = fit_model(method, task, rank, 0, plan.iterations)
        reconstructions[method] = model.inverse_transform(codes[shown])
        rows = model.components_[np.argsort(-model.components_.std(axis=1), kind="stable")[:MONTAGE]]
        low = np.minimum(rows.min(axis=1, keepdims=True), 0)  # eigenfaces are negative in part
        peaks = (rows - low).max(axis=1, keepdims=True)
        components[method] = (rows - low) / np.where(peaks > 0, peaks, 1)
    for name, sheet in zip(_sheets(corruption), (components, reconstructions), strict=True):
        title = f"{Path(name).stem.replace('-', ', ', 1)}, rank {rank}"
        montage_picture(sheet, task.image_shape, out / name, title=title, force=True)
