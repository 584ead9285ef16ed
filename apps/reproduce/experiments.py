"""What an experiment is: a table or figure of a paper, what the paper says of it, and the function that repeats it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from visionnmf.datasets.local import data_folder

T = TypeVar("T")
Table = list[list[str]]  # cells; the first row has the headings


@dataclass(frozen=True)
class Sizes:
    """How much of an experiment is run; `quick` means fewer splits, starts or ranks."""

    quick: bool = False

    def pick(self, *, full: T, quick: T) -> T:
        """Choose a value by the kind of run.

        Parameters
        ----------
        full, quick : object
            The value in a full run, and that in a quick one.

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
        """Format the row as texts.

        Returns
        -------
        list of str
            What is compared, the paper, ours, and the verdict or difference.
        """
        ours = f"{_shown(self.ours)} ± {self.deviation:.1g}" if self.deviation is not None else _shown(self.ours)
        verdict = self.verdict
        if not verdict and not isinstance(self.paper, str) and not isinstance(self.ours, str):
            verdict = f"{self.ours - self.paper:+.3g}"
        return [self.what, _shown(self.paper), ours, verdict]


@dataclass(frozen=True)
class Result:
    """What an experiment found.

    Attributes
    ----------
    rows : list of Row
        The comparison with the paper.
    pictures : dict of str to object
        Captions to pictures: figures of matplotlib, or arrays of uint8 (height, width) or (height, width, 3).
    tables : dict of str to list of list of str
        Captions to further tables, such as the values behind a curve.
    notes : list of str
        Sentences about the result.
    """

    rows: list[Row]
    pictures: Mapping[str, Any] = field(default_factory=dict)
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
    """A table or figure of a paper.

    Attributes
    ----------
    name : str
        The paper and the item, such as "mahnmf/fig-5".
    title : str
        What the item shows, in a few words.
    claim : str
        What the paper says about it, in our words.
    run : callable or None
        A function of :class:`Sizes` that returns a :class:`Result`; None if the item cannot be repeated.
    data : str
        The data, in words.
    files : tuple of str
        The files of the data folder that it reads.
    replaced : str
        Which data take the place of the paper's, and why; empty if the data are the paper's.
    protocol : tuple of str
        What the paper leaves open, and what is done here: a sentence each.
    missing : str
        Why the item cannot be repeated.
    """

    name: str
    title: str
    claim: str = ""
    run: Callable[[Sizes], Result] | None = None
    data: str = ""
    files: tuple[str, ...] = ()
    replaced: str = ""
    protocol: tuple[str, ...] = ()
    missing: str = ""

    @property
    def paper(self) -> str:
        """The first part of the name, such as "mahnmf" of "mahnmf/fig-5"."""
        return self.name.partition("/")[0]

    def state(self) -> str:
        """Tell whether the item can be repeated here.

        Returns
        -------
        str
            "runs", "nearest data: ...", "no data: ..." or "missing: ...".
        """
        if self.run is None:
            return f"missing: {self.missing}"
        folder = data_folder()
        absent = [name for name in self.files if folder is None or not (folder / name).exists()]
        if absent:
            return f"no data: {', '.join(absent)}"
        return f"nearest data: {self.replaced}" if self.replaced else "runs"


def drawn_each(labels: Any, each: int, seed: int) -> Any:
    """Return the positions of `each` images of each person in `labels` (n_images,), drawn at random by a seed."""
    order = np.random.default_rng(seed).permutation(len(labels))
    return np.concatenate([order[labels[order] == person][:each] for person in np.unique(labels)])


def compared(what: str, better: ArrayLike, worse: ArrayLike, *, higher: bool = False) -> Row:
    """Return the row for a claim that one method is better than another, from paired runs of both.

    The claim is confirmed or reversed if the mean difference is more than two standard errors, and otherwise the two
    are level. A single pair decides by its sign.

    Parameters
    ----------
    what : str
        The claim, such as "OR-NMF ends below INMF, r = 10".
    better, worse : array_like [shape=(n_runs,)]
        The figures of the method that the paper finds better, and of the other.
    higher : bool, default=False
        Whether higher figures are better, as with accuracies.

    Returns
    -------
    Row
    """
    first, second = np.atleast_1d(np.asarray(better, float)), np.atleast_1d(np.asarray(worse, float))
    gains = first - second if higher else second - first
    n = len(gains)
    error = float(gains.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    mean = float(gains.mean())
    verdict = "confirmed" if mean > 2 * error else "reversed" if mean < -2 * error else "level"
    runs = f" ({int((gains > 0).sum())} of {n} runs)" if n > 1 else ""
    return Row(what, paper="yes", ours=f"{first.mean():.4g} against {second.mean():.4g}{runs}", verdict=verdict)


def _shown(value: float | str) -> str:
    """Return a number with four digits, or the text."""
    return value if isinstance(value, str) else f"{value:.4g}"
