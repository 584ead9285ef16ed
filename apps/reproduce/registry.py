"""All tables and figures, in the order of the papers; how a new one is added.

A paper has a module here with a tuple ``EXPERIMENTS``. To add a table or figure, write a function of :class:`.Sizes`
that returns a :class:`.Result` in the paper's module, and append an :class:`.Experiment` that names it to that tuple.
The function reads its data through :mod:`.data` (which honours ``--data``), uses
``sizes.pick(full=..., quick=...)`` so that a quick run takes less than a minute, and returns figures of matplotlib
(:mod:`.drawing`) or images as arrays, which the run writes and puts on the page. An item that cannot be repeated has no
function, but a reason in `missing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

from visionnmf.exceptions import ParameterError

from . import conservative, mahnmf, masquerade, nenmf, online_annotation, online_nmf, projective, sbcd
from .experiments import Experiment


class Paper(NamedTuple):
    """A paper as the page names it, and its experiments."""

    title: str
    experiments: tuple[Experiment, ...]


PAPERS: dict[str, Paper] = {
    "or-nmf": Paper(
        "Guan, Tao, Luo, Yuan: Online nonnegative matrix factorization with robust stochastic approximation, "
        "IEEE TNNLS 23(7), 2012",
        online_nmf.EXPERIMENTS + online_annotation.EXPERIMENTS,
    ),
    "nenmf": Paper(
        "Guan, Tao, Luo, Yuan: NeNMF: an optimal gradient method for nonnegative matrix factorization, IEEE TSP 60(6), "
        "2012",
        nenmf.EXPERIMENTS,
    ),
    "p-nmf": Paper(
        "Yuan, Oja: Projective nonnegative matrix factorization for image compression and feature extraction, SCIA "
        "2005",
        projective.EXPERIMENTS,
    ),
    "mahnmf": Paper(
        "Guan, Tao, Luo, Shawe-Taylor: MahNMF: Manhattan non-negative matrix factorization, arXiv:1207.3438, 2012",
        mahnmf.EXPERIMENTS,
    ),
    "masquerade": Paper(
        "Mex-Perera, Posadas, Nolazco et al.: An improved non-negative matrix factorization method for masquerade "
        "detection",
        masquerade.EXPERIMENTS,
    ),
    "conservative": Paper(
        "Elser: Online non-negative matrix factorization by conservative learning", conservative.EXPERIMENTS
    ),
    "sbcd": Paper(
        "Li, Lebanon, Park: Fast Bregman divergence NMF using Taylor expansion and coordinate descent, KDD 2012",
        sbcd.EXPERIMENTS,
    ),
}
EXPERIMENTS: dict[str, Experiment] = {one.name: one for paper in PAPERS.values() for one in paper.experiments}


def find(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments of names, each once and in the papers' order; a paper's name means all of its items."""
    wanted: set[str] = set()
    for name in names:
        if name in PAPERS:
            wanted.update(one.name for one in PAPERS[name].experiments)
        elif name in EXPERIMENTS:
            wanted.add(name)
        else:
            near = [f"the nearest is {each}, and " for each in get_close_matches(name, [*PAPERS, *EXPERIMENTS], 1)]
            raise ParameterError(
                f"names must be those of a paper or of its items; got {name!r:.80}; {''.join(near)}"
                "`visionnmf reproduce --list` has all"
            )
    return [one for name, one in EXPERIMENTS.items() if name in wanted]
