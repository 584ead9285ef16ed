"""Views of the same samples with parts that all views share, that two share, and that one has alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import RandomState, brief, check_count, check_generator, check_number

WIDTHS = (40, 60, 30, 50)  # features of the views
USAGE = (  # which of the four views use each part
    (1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 0, 0), (0, 0, 1, 1), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1),
)  # fmt: skip
DENSITY = 0.5  # share of codes, and of a part's entries, that are not 0


@dataclass(frozen=True)
class PlantedViews:
    """Views of the same samples, and the parts they were made of.

    Attributes
    ----------
    views : dict of str to ndarray [shape=(n_samples, n_features of the view), >= 0]
        Four views, with noise and outliers.
    codes : ndarray [shape=(n_samples, 8), >= 0]
    components : ndarray [shape=(8, 180), >= 0]
        The parts, with the features of all views side by side.
    usage : ndarray of bool [shape=(8, 4)]
        Which view uses which part: all views share two parts, two pairs share one each, four parts are private.
    """

    views: dict[str, NDArray[np.float64]]
    codes: NDArray[np.float64]
    components: NDArray[np.float64]
    usage: NDArray[np.bool_]

    __repr__ = brief


def make_views(
    n_samples: int = 600, *, noise: float = 0.1, outliers: float = 0.1, random_state: RandomState = None
) -> PlantedViews:
    """Make four views of the same samples from eight parts.

    Parameters
    ----------
    n_samples : int, default=600
    noise : float, default=0.1
        Standard deviation of the normal noise, as a share of the mean of the positive entries.
    outliers : float, default=0.1
        Share of the entries that are replaced by uniform random numbers up to the largest entry.
    random_state : int, RandomState, Generator or None, default=None

    Returns
    -------
    PlantedViews

    Raises
    ------
    ParameterError
        If an argument is out of its range.

    Examples
    --------
    >>> from visionnmf.datasets import make_views
    >>> sorted(vars(make_views(20, random_state=0)))
    ['codes', 'components', 'usage', 'views']
    """
    check_count(n_samples, "n_samples")
    check_number(noise, "noise")
    check_number(outliers, "outliers", 0, 1)
    rng = check_generator(random_state)
    groups = np.repeat(np.arange(len(WIDTHS)), WIDTHS)  # the view of each feature; WIDTHS has the features of each view
    usage = np.array(USAGE, bool)  # (n_parts, n_views): which view uses which part
    # About half of the codes and of the entries of the parts are 0, and a part is 0 in views that do not use it.
    shape = (n_samples, len(usage))
    codes = rng.gamma(1, 1, shape) * (rng.random(shape) < DENSITY)
    shape = (len(usage), len(groups))
    components = rng.gamma(1, 1, shape) * (rng.random(shape) < DENSITY) * usage[:, groups]
    X = codes @ components
    X = np.maximum(X + noise * X[X > 0].mean() * rng.standard_normal(X.shape), 0)
    replaced = rng.random(X.shape) < outliers
    X[replaced] = X.max() * rng.random(int(replaced.sum()))
    return PlantedViews({f"view{v}": X[:, groups == v] for v in range(len(WIDTHS))}, codes, components, usage)
