"""What an experiment is: a table or figure of a paper, what the paper says of it, and the function that repeats it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from .data import data_folder

FEW = 5  # pairs of runs

T = TypeVar("T")
Table = list[list[str]]  # cells; the first row has the headings


@dataclass(frozen=True)
class Sizes:
    """How much of an experiment is run; `quick` means fewer splits, starts or ranks."""

    quick: bool = False

    def pick(self, *, full: T, quick: T) -> T:
        """Return `full`, or in a quick run `quick`.

        Parameters
        ----------
        full, quick : object

        Returns
        -------
        object
        """
        return quick if self.quick else full


@dataclass(frozen=True)
class Row:
    """One line of the comparison with a paper: numbers or texts.

    `deviation` is the standard deviation of `ours` over starts or splits. `verdict` is what the comparison says, such
    as "confirmed"; where there is none, the difference of two numbers is shown.
    """

    what: str
    ours: float | str
    paper: float | str = ""
    verdict: str = ""
    deviation: float | None = None

    def cells(self) -> list[str]:
        """Return as texts what is compared, the paper, ours, and the verdict or difference.

        Returns
        -------
        list of str
        """
        ours = f"{_shown(self.ours)} ± {self.deviation:.1g}" if self.deviation is not None else _shown(self.ours)
        verdict = self.verdict
        if not verdict and not isinstance(self.paper, str) and not isinstance(self.ours, str):
            verdict = f"{self.ours - self.paper:+.3g}"
        return [self.what, _shown(self.paper), ours, verdict]


@dataclass(frozen=True)
class Result:
    """What an experiment found: the comparison with the paper; pictures and further tables by their captions; notes."""

    rows: list[Row]
    pictures: Mapping[str, Any] = field(default_factory=dict)  # figures of matplotlib, or images of uint8
    tables: Mapping[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """What became of one experiment: a result with the names of its picture files, or an error."""

    name: str
    result: Result | None = None
    seconds: float = 0.0
    cached: bool = False
    error: str = ""


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper."""

    name: str  # the paper and the item, such as "mahnmf/fig-5"
    title: str  # what the item shows, in a few words
    claim: str = ""  # what the paper says about it, in our words
    run: Callable[[Sizes], Result] | None = None  # None if the item cannot be repeated
    data: str = ""  # in words
    files: tuple[str, ...] = ()  # of the data folder
    replaced: str = ""  # which data take the place of the paper's, and why; empty if the data are the paper's
    protocol: tuple[str, ...] = ()  # what the paper leaves open, and what is done here: a sentence each
    missing: str = ""  # why the item cannot be repeated
    packages: tuple[str, ...] = ()  # that a part needs, which is left out without them

    @property
    def paper(self) -> str:
        """The first part of the name, such as "mahnmf" of "mahnmf/fig-5"."""
        return self.name.partition("/")[0]

    def state(self) -> str:
        """Return "runs", "nearest data: ...", "no data: ..." or "missing: ..."; and which packages are not installed.

        Returns
        -------
        str
        """
        if self.run is None:
            return f"missing: {self.missing}"
        folder = data_folder()
        absent = [name for name in self.files if folder is None or not (folder / name).exists()]
        if absent:
            return f"no data: {', '.join(absent)}"
        without = f"; in part, without {', '.join(found)}" if (found := self.uninstalled()) else ""
        return (f"nearest data: {self.replaced}" if self.replaced else "runs") + without

    def uninstalled(self) -> list[str]:
        """Return those of the `packages` that are not installed.

        Returns
        -------
        list of str
        """
        return [name for name in self.packages if find_spec(name) is None]


def drawn_each(labels: Any, each: int, seed: int) -> Any:
    """Return the positions of `each` images of each person in `labels` (n_images,), drawn at random by a seed."""
    order = np.random.default_rng(seed).permutation(len(labels))
    return np.concatenate([order[labels[order] == person][:each] for person in np.unique(labels)])


def mean_curve(x: ArrayLike, values: Any) -> tuple[ArrayLike, Any, Any]:
    """Return a curve: `x`, and the means and deviations over the runs, which are the last axis of `values`."""
    return x, np.mean(values, axis=-1), np.std(values, axis=-1)


def compared(what: str, first: ArrayLike, second: ArrayLike, *, higher: bool = False, paper: str = "yes") -> Row:
    """Return the row for a claim about two methods, from the figures of paired runs of both.

    The first method is better or worse if the mean difference is more than two standard errors, and otherwise level; a
    single pair decides by its sign, and verdicts of fewer than FEW pairs say how many these are. Higher figures are
    better if `higher`. `paper` begins with what the paper says of "the first is better", and may name the place: "yes"
    is confirmed, level or reversed, "no" is reversed by a better first method and otherwise confirmed, and "comparable"
    is confirmed by a level one. Any other word has no verdict.
    """
    ours, others = np.atleast_1d(np.asarray(first, float)), np.atleast_1d(np.asarray(second, float))
    gains = ours - others if higher else others - ours
    n = len(gains)
    error = float(gains.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    mean = float(gains.mean())
    found = "better" if mean > 2 * error else "worse" if mean < -2 * error else "level"
    verdicts = {
        "yes": {"better": "confirmed", "level": "level", "worse": "reversed"},
        "no": {"better": "reversed", "level": "confirmed", "worse": "confirmed"},
        "comparable": {"better": "better", "level": "confirmed", "worse": "reversed"},
    }
    verdict = verdicts.get(re.split(r"\W", paper)[0], {}).get(found, f"{found}; the paper does not say")
    verdict += f"; {n} pair{'s'[: n > 1]} only" if n < FEW else ""
    runs = f" ({int((gains > 0).sum())} of {n} runs)" if n > 1 else ""
    return Row(what, paper=paper, ours=f"{ours.mean():.4g} against {others.mean():.4g}{runs}", verdict=verdict)


def comparisons(
    what: str, figures: Mapping[str, Any], firsts: Iterable[str], papers: Mapping[str, str], *, higher: bool = True
) -> list[Row]:
    """Return a row for each method of `firsts` beside each other one, as :func:`compared`; `what` is "{0} ... {1}".

    `papers` has what the paper says about the other one. Runs are the first axis of the figures: those along others,
    such as the ranks of one split, are not runs of their own, and their mean is compared. Runs without a partner are
    left out.
    """
    rows = []
    for first, (other, paper) in product(firsts, papers.items()):
        pair = zip(*zip(_of_runs(figures[first]), _of_runs(figures[other]), strict=False), strict=True)
        rows.append(compared(what.format(first, other), *pair, higher=higher, paper=paper))
    return rows


def _of_runs(figures: ArrayLike) -> Any:
    """Return one figure of each run, which is the first axis: the mean over the others."""
    runs = np.atleast_1d(np.asarray(figures, float))
    return runs.reshape(len(runs), -1).mean(axis=1)


def _shown(value: float | str) -> str:
    """Return a number with four digits, or the text."""
    return value if isinstance(value, str) else f"{value:.4g}"
