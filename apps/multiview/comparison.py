"""``visionnmf multiview evaluate``: a comparison of methods on the views of files, with a table and a plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from visionnmf.apps.report import Report
from visionnmf.apps.runner import RESULTS
from visionnmf.exceptions import UnreadableError
from visionnmf.io import check_outputs, output_file

from .evaluation import Plan, evaluate_views, summarise
from .inputs import read_files, read_labels, read_views

__all__ = ["EvaluationReport", "evaluate_files"]

FIGURE = "scores.png"


@dataclass(frozen=True, kw_only=True)
class EvaluationReport(Report):
    """What :func:`evaluate_files` found; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    samples, views, classes : int
    plan : dict
    scores : list of dict
        See :func:`.summarise`.
    """

    samples: int
    views: int
    classes: int
    plan: dict[str, Any]
    scores: list[dict[str, Any]]

    def summary(self) -> str:
        """Return the report as text for a person.

        Returns
        -------
        str
            A line, then one for each method and condition.
        """
        lines = [f"{self.samples} samples, {self.views} views, {self.classes} classes, {self.plan['n_splits']} splits"]
        heads = [(row["condition"], row["missing"], row["method"]) for row in self.scores]
        for row, head in zip(self.scores, heads, strict=True):
            what = row["condition"] + (f" ({row['missing']})" if row["missing"] else "")
            figures = [
                f"{word} {100 * row[name]:.1f} %"
                for name, word in (
                    ("accuracy", "accuracy"),
                    ("average_precision", "mean average precision"),
                    ("cluster_accuracy", "clustering"),
                    ("nmi", "NMI"),
                )
                if np.isfinite(row[name])
            ]
            rank = f", rank {row['rank']:.0f}" if heads.count(head) > 1 else ""
            lines.append(f"  {what}, {row['method']}{rank}: {', '.join(figures)}")
        return "\n".join([*lines, *(f"  {line}" for line in self._ending())])


def evaluate_files(
    sources: Sequence[str | Path],
    plan: Plan,
    *,
    labels: str | None = None,
    column: str | None = None,
    key: str | None = None,
    out: str | Path = ".",
    jobs: int = 1,
    plot: bool = False,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> EvaluationReport:
    """Compare methods on the views of files; an interrupted run goes on.

    Parameters
    ----------
    sources : sequence of str or path
        See :func:`.read_views`.
    plan : Plan
    labels : str or None, default=None
        A file of labels; several words of a sample are parted by ``;``. None: those of the views' own file.
    column, key : str or None, default=None
        See :func:`.read_labels` and :func:`.read_views`.
    out : str or Path, default="."
        Folder for ``results.csv``, the rows of each job and the plot.
    jobs : int, default=1
        Processes.
    plot : bool, default=False
        Draw scores against the rank (Guan et al. 2012, figure 20); needs matplotlib.
    force : bool, default=False
    progress : callable, optional

    Returns
    -------
    EvaluationReport

    Raises
    ------
    MediaError
        If views or labels cannot be read, or there are other results in `out`.
    ParameterError
        For a plan that is not allowed.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("labels.csv").write_text(chr(10).join("ab" * 15))
    >>> from visionnmf.apps.multiview import Plan, evaluate_files
    >>> plan = Plan(methods=("pca",), ranks=(2,), n_splits=1)
    >>> len(evaluate_files(["shape.npy", "colour.npy"], plan, labels="labels.csv", force=True).outputs) > 0
    True
    """
    plan.check()
    also = [FIGURE] if plot else []
    outputs = [str(Path(out) / name) for name in (RESULTS, *also)]
    check_outputs(outputs, force=True, inputs=[*read_files(sources), *([labels] if labels else [])])
    found = read_views(sources, key=key)
    y = found.labels if labels is None else read_labels(labels, found, column=column, by_key=key is not None)
    if y is None:
        raise UnreadableError(f"{sources[0]}: has no labels; give a file of them")
    y = _words(np.asarray(y))
    rows = evaluate_views(found.views, y, plan, out=out, jobs=jobs, force=force, progress=progress, also=also)
    if plot:
        _draw(rows, outputs[-1])
    return EvaluationReport(
        samples=len(found.keys),
        views=len(found.views),
        classes=int(len(np.unique(y)) if y.ndim == 1 else y.shape[1]),
        plan=asdict(plan),
        scores=summarise(rows),
        inputs=[str(source) for source in sources],
        outputs=outputs,
        skipped=found.skipped,
        notes=found.notes,
    )


def _words(labels: Any) -> Any:
    """Return lists of words as a matrix of 0 and 1; classes as they are."""
    if labels.ndim > 1 or labels.dtype.kind != "U" or not any(";" in value for value in labels):
        return labels
    sets = [{word.strip() for word in value.split(";")} - {""} for value in labels]
    words = sorted(set().union(*sets))
    return np.array([[word in own for word in words] for own in sets], int)


def _draw(rows: Sequence[Mapping[str, Any]], path: str) -> None:
    """Draw the scores of each method against its rank, in the mean over the splits."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    clean = [row for row in rows if not row["missing"]]
    name = "accuracy" if any(np.isfinite(row["accuracy"]) for row in clean) else "average_precision"
    for condition, method in dict.fromkeys((row["condition"], row["method"]) for row in clean):
        own = [row for row in clean if (row["condition"], row["method"]) == (condition, method)]
        ranks = sorted({row["rank"] for row in own})
        means = [100 * np.mean([row[name] for row in own if row["rank"] == rank]) for rank in ranks]
        if np.isfinite(means).all():
            axes.plot(ranks, means, marker="o", label=method if condition == "clean" else f"{method}, {condition}")
    axes.set_xticks(sorted({row["rank"] for row in clean}))
    axes.set_xlabel("rank (number of components)")
    axes.set_ylabel(f"{name.replace('_', ' ')}, %")
    axes.legend(fontsize=8)
    with output_file(path, force=True) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
