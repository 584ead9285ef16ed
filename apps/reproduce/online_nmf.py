"""OR-NMF (Guan, Tao, Luo, Yuan 2012): objective curves, bases, recognition and annotation of section V."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from visionnmf.datasets import Faces
from visionnmf.datasets.local import data_file, load_face_set
from visionnmf.engine.losses import Loss
from visionnmf.engine.online import METHODS, Batch, OnlineOptions
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import solve_codes
from visionnmf.io import read_arrays

from .drawing import Panel, curve_figure
from .experiments import Experiment, Result, Sizes, compared

Array = NDArray[Any]

SAMPLES = 500  # of the paper's sets
FILES = {"CBCL": "cbcl_19x19.npz", "ORL": "orl_32x32.npz", "sparse": "corel5k_features.npz"}
RANKS = {"CBCL": (10, 50), "ORL": (10, 50), "sparse": (50, 80)}
STARTS = 10
POINTS = 20  # of a curve
CURVE_AXES = ("samples", "CPU seconds")


class Rival(NamedTuple):
    """A method as its authors set it."""

    name: str
    method: str
    chunk: int | None = 1  # samples that are learnt together; None for the number of components
    forget_factor: float = 1.0
    buffer: int | None = None
    simplex: bool = False


SINGLE = (
    Rival("OR-NMF", "or-nmf"),
    Rival("MOR-NMF, l = 20", "or-nmf", buffer=20),
    Rival("OMF, on the simplex", "surrogate", simplex=True),
    Rival("OMF, as printed", "omf"),
    Rival("OMF, forgetting .95", "surrogate", forget_factor=0.95),
    Rival("OMF-DA, on the simplex", "surrogate-diagonal", simplex=True),
    Rival("INMF, S_old = S_new", "incremental"),
    Rival("INMF, .9 and .1", "incremental", forget_factor=0.9),
)
CHUNKS = (
    Rival("WOR-NMF", "or-nmf", chunk=None),
    Rival("ONMF", "onmf", chunk=None),
    Rival("OMF, forgetting .9", "surrogate", chunk=None, forget_factor=0.9),
)
ITAKURA = (
    Rival("OR-NMF-IS", "or-nmf"),
    Rival("ONMF-IS", "onmf-is"),
    Rival("ONMF-IS, forgetting .97", "onmf-is", forget_factor=0.97),
)
# The methods of the figures about single samples: ours, its form with a buffer, and the rivals.
FIGURE_SINGLE = tuple(SINGLE[number] for number in (0, 1, 2, 5, 6))
SEVEN = (*SINGLE[:3], SINGLE[5], SINGLE[6], *CHUNKS[:2])  # of the paper's figure 1


def paper_set(name: str, n_samples: int = SAMPLES) -> Array:
    """Return samples of "CBCL" or "ORL", or the features that stand for the sparse set, in double precision.

    The samples are drawn at random, and their mean squared norm is 1.
    """
    if name == "sparse":
        X = read_arrays(data_file(FILES[name]), ["test_DenseHue"])["test_DenseHue"].astype(np.float64)
    else:
        images = load_face_set(FILES[name].removesuffix(".npz")).images
        X = images.reshape(len(images), -1) / 255
    X = X[np.random.default_rng(0).permutation(len(X))[:n_samples]]
    return unit_energy(X)


def unit_energy(X: Array) -> Array:
    """Return samples scaled by one factor, so that their mean squared norm is 1."""
    return np.ascontiguousarray(X / np.sqrt(np.square(X).sum(axis=1).mean()))


def positive(X: Array) -> Array:
    """Return data for the Itakura-Saito divergence, which is infinite for zeros: a hundredth of the mean is added."""
    return X + 1e-2 * X.mean()


def follow(X: Array, start: Array, rival: Rival, loss: str, seed: int, marks: Sequence[int]) -> tuple[Array, Array]:
    """Learn two epochs from components `start` (r, m).

    Returns the components, and at each of `marks`, numbers of samples, the CPU seconds and the mean loss of all samples
    with their best codes, (n_marks, 2).
    """
    method = METHODS[rival.method]
    size = rival.chunk or len(start)
    options = OnlineOptions(size, rival.forget_factor, rival.buffer, horizon=2 * math.ceil(len(X) / size))
    penalty = Penalties(simplex="rows") if rival.simplex else Penalties()
    H, rng = start.copy(), RandomState(seed)
    penalty.feasible(H)
    state = method.start(H)
    whole = Problem(X, Loss(loss))
    found: list[tuple[float, float]] = []
    seconds, seen = 0.0, 0
    for epoch in range(2):
        order = np.random.default_rng(2 * seed + epoch).permutation(len(X))
        for first in range(0, len(X), size):
            problem = Problem(X[order[first : first + size]], Loss(loss), penalty_H=penalty)
            begin = time.process_time()
            method.learn(Batch(problem, options, rng), H, state)
            seconds += time.process_time() - begin
            seen += len(problem.X)
            while len(found) < len(marks) and seen >= marks[len(found)]:
                found.append((seconds, whole.loss_value(solve_codes(whole, H), H) / len(X)))
    return H, np.array(found).reshape(-1, 2)


def simplex_start(r: int, n_features: int, seed: int) -> Array:
    """Return random components (r, n_features) whose rows sum to 1."""
    H = np.random.default_rng(seed).random((r, n_features))
    return np.asarray(H / H.sum(axis=1, keepdims=True))


def objective_tracks(
    X: Array, r: int, rivals: Sequence[Rival], loss: str, n_starts: int, marks: Sequence[int]
) -> dict[str, Array]:
    """Return what :func:`follow` finds for each method from the same starts: name to (n_starts, n_marks, 2)."""
    starts = [simplex_start(r, X.shape[1], 100 + seed) for seed in range(n_starts)]
    for rival in rivals:  # loads the kernels, which is not to be timed
        follow(X[: 2 * r], starts[0], rival, loss, 0, [])
    return {
        rival.name: np.array([follow(X, start, rival, loss, seed, marks)[1] for seed, start in enumerate(starts)])
        for rival in rivals
    }


def objective_curves(
    sizes: Sizes, *, name: str, rivals: tuple[Rival, ...], claims: Sequence[tuple[str, str]], loss: str = "frobenius"
) -> Result:
    """Repeat a figure of objective values against samples and seconds.

    `claims` are pairs of methods of which the paper finds that the first has the lower objective.
    """
    X = paper_set(name)
    X = positive(X) if loss == "itakura-saito" else X
    n_starts, panels, rows = sizes.pick(STARTS, 1), [], []
    table = [["method", "r", "after one epoch", "after two epochs", "CPU seconds"]]
    marks = np.unique(np.geomspace(max(RANKS[name][0], 10), 2 * len(X), sizes.pick(POINTS, 10)).round().astype(int))
    marks = np.unique([*marks, len(X)])
    epoch = int(np.searchsorted(marks, len(X)))
    for r in RANKS[name]:
        tracks = objective_tracks(X, r, rivals, loss, n_starts, marks.tolist())
        for axis, label in enumerate(CURVE_AXES):
            curves = {}
            for method, values in tracks.items():
                x = marks if axis == 0 else values[:, :, 0].mean(axis=0)
                curves[method] = (x, values[:, :, 1].mean(axis=0), values[:, :, 1].std(axis=0))
            panels.append(Panel(f"{name}, r = {r}", label, "mean loss", curves, log_x=True, log_y=True))
        for method, values in tracks.items():
            ends = [f"{values[:, at, 1].mean():.4g} ± {values[:, at, 1].std():.1g}" for at in (epoch, -1)]
            table.append([method, str(r), *ends, f"{values[:, -1, 0].mean():.2f}"])
        for better, worse in claims:
            what = f"r = {r}: {better} ends below {worse}"
            rows.append(compared(what, tracks[better][:, -1, 1], tracks[worse][:, -1, 1]))
    caption = f"Mean loss of all samples, mean and standard deviation of {n_starts} starts."
    return Result(rows, {caption: curve_figure(panels, columns=3)}, {"Mean loss": table})


def recognition_accuracies(people: Faces, each: int, ranks: Sequence[int], n_splits: int) -> dict[str, Array]:
    """Return the accuracies of the nearest neighbour among codes ``H^+ x``, in %: method to (n_ranks, n_splits).

    `each` images of each person train, and the others test. "pixels" are the images themselves.
    """
    X = unit_energy(people.images.reshape(len(people.images), -1) / 255)
    drawn = [_split(people.labels, each, seed) for seed in range(n_splits)]
    pixels = np.array([_nearest(X, people.labels, train) for train in drawn])
    found = {"pixels": np.tile(pixels, (len(ranks), 1))}
    for rival in SEVEN:
        found[rival.name] = np.zeros((len(ranks), n_splits))
        for i, r in enumerate(ranks):
            for seed, train in enumerate(drawn):
                H = follow(X[train], simplex_start(r, X.shape[1], 200 + seed), rival, "frobenius", seed, [])[0]
                found[rival.name][i, seed] = _nearest(X @ np.linalg.pinv(H), people.labels, train)
    return found


def _split(labels: Array, each: int, seed: int) -> Array:
    """Return the training images: so many of each person, at random."""
    order = np.random.default_rng(seed).permutation(len(labels))
    return np.concatenate([order[labels[order] == person][:each] for person in np.unique(labels)])


def _nearest(codes: Array, labels: Array, train: Array) -> float:
    """Return the accuracy, in %, of the nearest training image's label for the others."""
    test = np.setdiff1d(np.arange(len(labels)), train)
    found = KNeighborsClassifier(1).fit(codes[train], labels[train]).predict(codes[test])
    return float(100 * (found == labels[test]).mean())


PROTOCOL = (
    "The samples have a mean squared norm of 1; the paper does not say how it scales them.",
    "The objective is that of all samples with their best codes, so that all methods are judged alike.",
    "OMF and OMF-DA stay on the simplex, as the paper has it. Their codes are nearly exact, and one sweep over the "
    "components follows each sample: with the printed iteration to convergence, a step takes fifty times as long.",
    "INMF adds the new statistics to the old ones.",
    "Seconds are CPU seconds of learning on one thread; the paper's are those of Matlab.",
)
SINGLE_CLAIMS = [
    (better, worse)
    for better in ("OR-NMF", "MOR-NMF, l = 20")
    for worse in ("OMF, on the simplex", "OMF-DA, on the simplex", "INMF, S_old = S_new")
]


def _figure(number: int, name: str, title: str, claim: str, run: Any, data: str = "", replaced: str = "") -> Experiment:
    """Return the experiment of a figure of objective curves."""
    data = data or f"{name}: {'500 of 2429 faces of 19 × 19' if name == 'CBCL' else '400 faces of 32 × 32'} pixels."
    return Experiment(f"or-nmf/fig-{number}", title, claim, run, data, (FILES[name],), replaced, PROTOCOL)


EXPERIMENTS = (
    *(
        _figure(
            number,
            name,
            f"objective of single-sample methods, {name}",
            "OR-NMF and MOR-NMF reduce the objective faster than OMF, OMF-DA and INMF, in samples and in seconds.",
            partial(objective_curves, name=name, rivals=FIGURE_SINGLE, claims=SINGLE_CLAIMS),
        )
        for number, name in ((2, "CBCL"), (3, "ORL"))
    ),
)
