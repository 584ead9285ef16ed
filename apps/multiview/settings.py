"""Settings of multi-view learning: how a model is fitted, and what an evaluation compares."""

from __future__ import annotations

from typing import Annotated

from visionnmf import choices
from visionnmf.apps.settings import Option, Seed, comma_separated, comma_separated_numbers, settings
from visionnmf.exceptions import ParameterError

RANKS = (20, 40, 60)

# Methods of an evaluation; ``visionnmf multiview evaluate --help`` says what they are.
COMPARED = (
    *("multiview", "multiview-constraint", "multiview-frobenius", "eucnmf-gs", "flss"),
    *("manhattan", "frobenius", "joint", "pca", "concatenation"),
)

# What is done to the samples of an evaluation.
CONDITIONS = ("clean", "salt-and-pepper", "view-corrupted", "view-missing", "train-missing")


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
        float | None,
        Option("Constraint in place of the penalty.", flag="--bound", metavar="GAMMA", low=0, above=True),
    ] = None
    scale: Annotated[str, Option("What each view is divided by.", choices=choices.VIEW_SCALES)] = "energy"
    nuclear: Annotated[float, Option("Ridge of both factors; take 1 if the rank is generous.", low=0)] = 0.0
    random_state: Seed = choices.RANDOM_STATE


@settings
class Labels:
    """Where the classes or words of the samples are."""

    labels: Annotated[
        str | None,
        Option(
            "File with one label in each line, or words separated by semicolons. If left out, labels are those in the "
            "file of the views.",
            metavar="FILE",
        ),
    ] = None
    column: Annotated[str | None, Option("Column of the labels in a .csv file.")] = None


@settings
class Comparison:
    """Which methods are compared, with which ranks, on how many random splits, under which conditions."""

    methods: Annotated[tuple[str, ...], Option("Methods, separated by commas; see above.", parse=comma_separated)] = (
        *("multiview", "joint", "pca", "concatenation"),
    )
    ranks: Annotated[
        tuple[int, ...], Option("Numbers of components, separated by commas.", parse=comma_separated_numbers)
    ] = RANKS
    n_splits: Annotated[
        int,
        Option(
            "Number of random splits into training and test samples. The time grows with it. Published comparisons "
            "take 10, whose means differ less from run to run.",
            flag="--splits",
            low=1,
            high=1000,
        ),
    ] = 3
    conditions: Annotated[
        tuple[str, ...], Option("Conditions, separated by commas; see above.", parse=comma_separated)
    ] = ("clean",)
    prepare: Annotated[str, Option("What is done to each view first.", choices=choices.VIEW_PREPARATIONS)] = "auto"
    test_share: Annotated[float, Option("Share of the samples that are tested.", low=0.01, high=0.99)] = 0.5
    random_state: Seed = choices.RANDOM_STATE

    def check(self) -> None:
        """Raise ParameterError for names that are not known and for empty lists."""
        from visionnmf._checks import check_choice, check_count

        if not self.methods or not self.ranks:
            raise ParameterError(f"methods and ranks must not be empty; got {self.methods} and {self.ranks}")
        for method in self.methods:
            check_choice(method, "methods", COMPARED)
        for condition in self.conditions:
            check_choice(condition, "conditions", CONDITIONS)
        for rank in self.ranks:
            check_count(rank, "ranks")
