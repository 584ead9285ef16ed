"""Settings of multi-view learning: how a model is fitted."""

from __future__ import annotations

from typing import Annotated

from visionnmf import choices
from visionnmf.apps.settings import Option, Seed, comma_separated, settings


@settings
class ViewFit:
    """How a model is fitted to views; see :class:`visionnmf.MultiviewNMF`."""

    n_components: Annotated[
        int,
        Option(
            "Number of components. More than the smaller of the numbers of samples and of features are of no use.",
            flag="--rank",
            low=1,
            high=10_000,
        ),
    ] = choices.VIEW_COMPONENTS
    kinds: Annotated[
        tuple[str, ...] | None,
        Option("Features of a folder's images, separated by commas, such as gist,dense-sift.", parse=comma_separated),
    ] = None
    prepare: Annotated[str, Option("What is done to each view first.", choices=choices.VIEW_PREPARATIONS)] = "auto"
    loss: Annotated[
        str | None,
        Option(
            "Loss, such as manhattan or frobenius. If left out, frobenius for views that are 0 nearly everywhere, and "
            "manhattan for others."
        ),
    ] = None
    group_l1: Annotated[
        float,
        Option("Penalty that makes views use few components; 0 is none.", flag="--sparsity", metavar="ETA", low=0),
    ] = choices.VIEW_SPARSITY
    group_bound: Annotated[
        float | None, Option("Constraint in place of the penalty.", flag="--bound", metavar="GAMMA", low=0, above=True)
    ] = None
    scale: Annotated[str, Option("What each view is divided by.", choices=choices.VIEW_SCALES)] = "energy"
    nuclear: Annotated[float, Option("Ridge of both factors; take 1 if the rank is generous.", low=0)] = 0.0
    random_state: Seed = choices.RANDOM_STATE
