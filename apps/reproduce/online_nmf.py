"""OR-NMF (Guan, Tao, Luo, Yuan 2012): objective curves, bases, recognition and annotation of section V."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from visionnmf.apps.drawing import components_picture
from visionnmf.apps.evaluate.drawing import Panel, curve_figure
from visionnmf.apps.evaluate.online_baselines import (
    ChunkNMF,
    DiagonalOMF,
    IncrementalNMF,
    ItakuraSaitoNMF,
    PrintedDiagonalOMF,
    PrintedOMF,
)
from visionnmf.datasets import Faces
from visionnmf.engine.losses import Loss
from visionnmf.engine.online import METHODS, Batch, OnlineOptions
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import solve_codes
from visionnmf.exceptions import VisionNMFError
from visionnmf.io import read_arrays
from visionnmf.models.multiview.view_measures import sparseness

from .data import data_file, load_face_set
from .drawing import sheet_figure
from .experiments import Experiment, Result, Row, Sizes, compared, comparisons, drawn_each, mean_curve

Array = NDArray[Any]

SAMPLES = 500  # of the paper's sets
FILES = {"CBCL": "cbcl_19x19.npz", "ORL": "orl_32x32.npz", "sparse": "corel5k_features.npz"}
RANKS = {"CBCL": (10, 50), "ORL": (10, 50), "sparse": (50, 80)}
STARTS, SLOW_STARTS = 5, 2  # the latter of methods whose steps are iterated to convergence
POINTS = 12  # of a curve
BASES = 16  # components of figure 1
EACH = (3, 5, 7)  # training images a person
SPLITS = 5
FACE_RANKS, QUICK_RANKS = tuple(range(10, 151, 20)), (10, 30)  # of the figures about recognition


class Setting(NamedTuple):
    """A method as its authors set it: a name of the engine's table, or a baseline."""

    name: str
    method: str | Callable[..., Any]
    chunk: int | None = 1  # samples that are learnt together; None for the number of components
    forget_factor: float = 1.0
    buffer: int | None = None
    simplex: bool = False
    most_starts: int = STARTS


class CurveClaim(NamedTuple):
    """The paper finds the first method better than the second in "objective", "seconds" or both; where it says so."""

    first: str
    second: str
    what: tuple[str, ...]
    paper: str


SINGLE = (
    Setting("OR-NMF", "or-nmf"),
    Setting("MOR-NMF, l = 20", "or-nmf", buffer=20),
    Setting("OMF, on the simplex", "surrogate", simplex=True),
    Setting("OMF, as printed", PrintedOMF, most_starts=SLOW_STARTS),
    Setting("OMF-DA, on the simplex", partial(DiagonalOMF, simplex=True), simplex=True),
    Setting("OMF-DA, as printed", PrintedDiagonalOMF, most_starts=SLOW_STARTS),
    Setting("INMF, S_old = S_new", IncrementalNMF),
)
CHUNKS = (
    Setting("WOR-NMF", "or-nmf", chunk=None),
    Setting("ONMF", ChunkNMF, chunk=None),
    Setting("OMF, forgetting .9", "surrogate", chunk=None, forget_factor=0.9),
)
ITAKURA = (
    Setting("OR-NMF-IS, as printed", "or-nmf-is"),
    Setting("OR-NMF-IS with floors", "or-nmf"),
    Setting("ONMF-IS", ItakuraSaitoNMF),
    Setting("ONMF-IS, forgetting .97", ItakuraSaitoNMF, forget_factor=0.97),
)
QUICKER = ("OMF, on the simplex", "OMF-DA, on the simplex")  # one sweep for each sample, not the printed forms
SEVEN = (*SINGLE[:3], SINGLE[4], SINGLE[6], *CHUNKS[:2])  # of the paper's figure 1


def paper_set(name: str, n_samples: int = SAMPLES) -> Array:
    """Return random samples of "CBCL", "ORL" or the features for the sparse set, of mean squared norm 1."""
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


def follow(X: Array, start: Array, setting: Setting, loss: str, seed: int, marks: Sequence[int]) -> tuple[Array, Array]:
    """Return the components after two epochs of `X`, and at the `marks` CPU seconds and mean losses of all samples."""
    size = setting.chunk or len(start)  # samples that are learnt together
    H = start.copy()
    learn = _learner(setting, H, loss, size, 2 * math.ceil(len(X) / size), RandomState(seed))
    whole = Problem(X, Loss(loss))
    found: list[tuple[float, float]] = []
    seconds, seen = 0.0, 0
    for epoch in range(2):
        order = np.random.default_rng(2 * seed + epoch).permutation(len(X))
        for first in range(0, len(X), size):
            chunk = X[order[first : first + size]]
            begin = time.process_time()
            learn(chunk)
            seconds += time.process_time() - begin
            seen += len(chunk)
            while len(found) < len(marks) and seen >= marks[len(found)]:  # the next mark has been reached
                found.append((seconds, whole.loss_value(solve_codes(whole, H), H) / len(X)))
    return H, np.array(found).reshape(-1, 2)


def _learner(
    setting: Setting, H: Array, loss: str, size: int, n_chunks: int, rng: RandomState
) -> Callable[[Array], Any]:
    """Return the function that improves `H` with a chunk of samples, in place."""
    penalty = Penalties(simplex="rows") if setting.simplex else Penalties()
    penalty.feasible(H)  # in place: with `simplex`, every row gets the sum 1
    if not isinstance(setting.method, str):
        baseline: Callable[[Array], Any] = setting.method(H, setting.forget_factor).learn
        return baseline
    method, state = METHODS[setting.method], METHODS[setting.method].state.start(H)
    # for methods whose steps get shorter towards the end, the number of chunks is the horizon
    options = OnlineOptions(size, setting.forget_factor, setting.buffer, horizon=n_chunks)
    return lambda X: method.learn(Batch(Problem(X, Loss(loss), penalty_H=penalty), options, rng), H, state)


class MarkedRuns(NamedTuple):
    """CPU seconds of learning and mean losses of all samples at some marks, (n_starts, n_marks) each."""

    seconds: Array  # NaN, as the losses, for starts from which the method has refused the data
    losses: Array
    refusal: str = ""  # the sentence in which it did

    def ended(self) -> Array:
        """Return for each start whether the method has learnt all samples."""
        return ~np.isnan(self.losses[:, -1])


def simplex_start(r: int, n_features: int, seed: int) -> Array:
    """Return random components (r, n_features) whose rows sum to 1."""
    H = np.random.default_rng(seed).random((r, n_features))
    return np.asarray(H / H.sum(axis=1, keepdims=True))


def objective_tracks(
    X: Array, r: int, settings: Sequence[Setting], loss: str, n_starts: int, marks: Sequence[int]
) -> dict[str, MarkedRuns]:
    """Return the CPU seconds and losses of :func:`follow` for each setting, from the same starts of rank `r`."""
    starts = [simplex_start(r, X.shape[1], 100 + seed) for seed in range(n_starts)]
    found: dict[str, MarkedRuns] = {}
    for setting in settings:
        runs, refusal = np.full((min(n_starts, setting.most_starts), len(marks), 2), np.nan), ""
        with suppress(VisionNMFError):  # the first run loads the kernels, which is not to be timed
            follow(X[: 2 * r], starts[0], setting, loss, seed=0, marks=[])
        for seed in range(len(runs)):
            try:
                runs[seed] = follow(X, starts[seed], setting, loss, seed, marks)[1]
            except VisionNMFError as error:
                refusal = str(error)
        found[setting.name] = MarkedRuns(runs[..., 0], runs[..., 1], refusal)
    return found


def seconds_to(runs: MarkedRuns, losses: Array) -> Array:
    """Return the seconds (n_starts,) at the first mark where a run's loss is at most that of `losses` (n_starts,)."""
    reached = (runs.losses <= losses[:, None]).argmax(axis=1)
    return np.take_along_axis(runs.seconds, reached[:, None], axis=1)[:, 0]


def claim_rows(r: int, tracks: Mapping[str, MarkedRuns], claim: CurveClaim) -> list[Row]:
    """Return the rows of a claim: who ends lower, and who is sooner at the higher one of both end values."""
    pair = [tracks[claim.first], tracks[claim.second]]
    rows, n_starts = [], min(len(runs.losses) for runs in pair)
    both = np.flatnonzero(pair[0].ended()[:n_starts] & pair[1].ended()[:n_starts])
    for name, runs in zip(claim[:2], pair, strict=True):
        if runs.refusal:
            n = len(runs.losses)
            ours = f"{name} stops from {n - int(runs.ended().sum())} of {n} starts: {runs.refusal}"
            what = f"r = {r}: {claim.first} beside {claim.second}"
            rows.append(Row(what, ours, claim.paper, "" if len(both) else "does not run"))
    if not len(both):
        return rows
    pair = [MarkedRuns(runs.seconds[both], runs.losses[both]) for runs in pair]
    ends = [runs.losses[:, -1] for runs in pair]
    times = [seconds_to(runs, np.maximum(*ends)) for runs in pair]
    if "seconds" in claim.what:
        what = f"r = {r}: {claim.first} is sooner than {claim.second} at the higher of their end values, CPU seconds"
        rows.append(compared(what, *times, paper=claim.paper))
    if "objective" in claim.what:
        rows.append(compared(f"r = {r}: {claim.first} ends below {claim.second}", *ends, paper=claim.paper))
    return rows


def objective_curves(
    sizes: Sizes, *, name: str, settings: tuple[Setting, ...], claims: Sequence[CurveClaim], loss: str = "frobenius"
) -> Result:
    """Repeat a figure of the paper of OR-NMF: objective values against samples and seconds, on the data set `name`."""
    X = paper_set(name, sizes.pick(full=SAMPLES, quick=60))
    X = positive(X) if loss == "itakura-saito" else X
    n_starts, n_points = sizes.pick(full=(STARTS, POINTS), quick=(1, 10))
    panels, rows = [], []
    table = [["method", "r", "after one epoch", "after two epochs", "CPU seconds"]]
    spread = np.geomspace(max(RANKS[name][0], 10), 2 * len(X), n_points).round().astype(int)
    marks = np.unique([*spread, len(X)])  # numbers of samples, with the end of the first epoch
    epoch = marks.tolist().index(len(X))
    for r in sizes.pick(full=RANKS[name], quick=QUICK_RANKS[:1]):
        tracks = objective_tracks(X, r, settings, loss, n_starts, marks.tolist())
        by_samples, by_seconds = {}, {}
        for method, runs in tracks.items():
            ended = runs.ended()
            if not ended.any():
                table.append([method, str(r), "stops", "stops", ""])
                continue
            by_samples[method] = curve = mean_curve(marks, runs.losses[ended].T)
            by_seconds[method] = (runs.seconds[ended].mean(axis=0), *curve[1:])
            ends = [f"{curve[1][mark]:.4g} ± {curve[2][mark]:.1g}" for mark in (epoch, -1)]
            table.append([method, str(r), *ends, f"{runs.seconds[ended, -1].mean():.2f}"])
        for x_label, curves in (("samples", by_samples), ("CPU seconds", by_seconds)):
            panel = Panel(f"{name}, r = {r}", curves, x_label=x_label, y_label="mean loss", log_x=True, log_y=True)
            panels.append(panel)
        for claim in claims:
            rows += claim_rows(r, tracks, claim)
    caption = f"Mean loss of all samples, mean and standard deviation of up to {n_starts} starts."
    return Result(rows, {caption: curve_figure(panels, columns=3)}, {"Mean loss": table})


# --- table II and figure 1 -------------------------------------------------------------------------------------------


def data_sets(sizes: Sizes) -> Result:
    """Repeat table II of the paper of OR-NMF: sizes and Hoyer's sparseness of the data sets and of samples."""
    published = {"CBCL": (361, 500, 0.131), "ORL": (1024, 400, 0.042), "sparse": (100, 500, 0.745)}
    rows = []
    for name, (m, n, share) in published.items():
        X = paper_set(name)
        label = "Corel5k for IAPR TC12" if name == "sparse" else name
        rows += [
            Row(f"{label}: dimension m", X.shape[1], paper=m),
            Row(f"{label}: samples n", X.shape[0], paper=n),
            Row(f"{label}: sparseness of the matrix", mean_sparseness(X.reshape(1, -1)), paper=share),
            Row(f"{label}: mean sparseness of a sample", mean_sparseness(X), paper=share),
        ]
    return Result(rows)


def mean_sparseness(rows: Array) -> float:
    """Return the mean of Hoyer's sparseness of some rows."""
    one_group = np.zeros(rows.shape[1], int)  # to which all columns belong
    return float(sparseness(rows, one_group, 1).mean())


def bases(sizes: Sizes) -> Result:
    """Repeat figure 1 of the paper of OR-NMF: images, and the components that seven methods learn from them."""
    sheets: dict[str, Array] = {}
    found: dict[str, list[str]] = {setting.name: [] for setting in SEVEN}
    for name, shape in (("CBCL", (19, 19)), ("ORL", (32, 32))):
        X = paper_set(name, sizes.pick(full=SAMPLES, quick=100))
        sheets[f"{name}: images"] = components_picture(X[:BASES], shape, across=BASES)
        for setting in SEVEN:
            start = simplex_start(BASES, X.shape[1], seed=0)
            H, _ = follow(X, start, setting, "frobenius", seed=0, marks=[])  # no objectives are recorded
            found[setting.name].append(f"{mean_sparseness(H):.3f}")
            sheets[f"{name}: {setting.name}"] = components_picture(H, shape, across=BASES)
    rows = []
    for method, values in found.items():
        # the paper claims of these two that they learn a representation by parts
        look = "parts" if method.startswith(("OR-NMF", "MOR-NMF")) else ""
        what = f"{method}: sparseness (Hoyer) of the components, CBCL and ORL"
        rows.append(Row(what, " and ".join(values), paper=look))
    caption = f"Images of CBCL and ORL, and {BASES} components of each method, each scaled to its largest value."
    return Result(rows, {caption: sheet_figure(sheets)})


# --- recognition -----------------------------------------------------------------------------------------------------


def recognition_accuracies(people: Faces, each: int, ranks: Sequence[int], n_splits: int) -> dict[str, Array]:
    """Return the accuracies of the nearest neighbour among codes ``H^+ x``, in %: method to (n_ranks, n_splits)."""
    X = unit_energy(people.images.reshape(len(people.images), -1) / 255)
    drawn = [drawn_each(people.labels, each, seed) for seed in range(n_splits)]
    pixels = np.array([_nearest(X, people.labels, train) for train in drawn])
    found = {"pixels": np.tile(pixels, (len(ranks), 1))}
    for setting in SEVEN:
        found[setting.name] = np.zeros((len(ranks), n_splits))
        for i, r in enumerate(ranks):
            for seed, train in enumerate(drawn):
                # `seed` drew the split and draws the order of samples; another seed makes the start independent of them
                start = simplex_start(r, X.shape[1], 200 + seed)
                H, _ = follow(X[train], start, setting, "frobenius", seed=seed, marks=[])
                found[setting.name][i, seed] = _nearest(X @ np.linalg.pinv(H), people.labels, train)
    return found


def _nearest(codes: Array, labels: Array, train: Array) -> float:
    """Return the accuracy, in %, of the nearest training image's label for the images that are not in `train`."""
    test = np.setdiff1d(np.arange(len(labels)), train)
    found = KNeighborsClassifier(1).fit(codes[train], labels[train]).predict(codes[test])
    return float(100 * (found == labels[test]).mean())


def recognition(sizes: Sizes, *, name: str) -> Result:
    """Repeat figure 10 or 11 of the paper of OR-NMF: accuracy against the number of components, on the faces `name`."""
    people = load_face_set(name)
    n_splits, ranks, numbers = sizes.pick(full=(SPLITS, FACE_RANKS, EACH), quick=(1, QUICK_RANKS, EACH[:1]))
    panels, rows = [], []
    table = [["training images a person", "method", *(f"r = {r}" for r in ranks)]]
    for each in numbers:
        found = recognition_accuracies(people, each, ranks, n_splits)
        curves = {method: mean_curve(ranks, values) for method, values in found.items()}
        title = f"{each} training images a person"
        panels.append(Panel(title, curves, x_label="components", y_label="accuracy (%)"))
        for method, values in found.items():
            cells = [f"{row.mean():.1f} ± {row.std():.1f}" for row in values]
            table.append([str(each), method, *cells])
        what = f"{each} images: {{0}} recognises more than {{1}}, mean of the ranks"
        papers = dict.fromkeys(QUICKER, "") | dict.fromkeys(("INMF, S_old = S_new", "ONMF"), "yes, V.B")
        by_split = {method: values.T for method, values in found.items()}
        rows += comparisons(what, by_split, ("OR-NMF", "MOR-NMF, l = 20"), papers)
    caption = f"Accuracy of the nearest neighbour, mean and standard deviation of {n_splits} splits."
    return Result(rows, {caption: curve_figure(panels, across=3)}, {"Accuracy in %": table})


PROTOCOL = (
    "The samples have a mean squared norm of 1; the paper does not say how it scales them.",
    "The objective is that of all samples with their best codes, so that all methods are judged alike.",
    f"OMF and OMF-DA are run as printed, to convergence at each sample (from {SLOW_STARTS} starts), and with one "
    "sweep over the components for each sample. The claims are judged with the printed forms; the paper has no others.",
    "Sooner means: fewer seconds until the loss is that of the method of the two that ends higher.",
    "INMF adds the new statistics to the old ones.",
    "Seconds are CPU seconds of learning on one thread; the paper's are those of Matlab.",
)
COMPARED = ("OMF, as printed", "OMF-DA, as printed", "INMF, S_old = S_new", *QUICKER)
BOTH = ("seconds", "objective")


def claims_of(
    firsts: Sequence[str], seconds: Sequence[str], paper: str, what: tuple[str, ...] = BOTH
) -> list[CurveClaim]:
    """Return a claim for each pair; those against our quicker forms say nothing, because the paper has others."""
    return [
        CurveClaim(first, second, what, "" if second in QUICKER else paper) for first in firsts for second in seconds
    ]


FACES = {"CBCL": "500 of the 2429 faces of CBCL, 19 × 19 pixels.", "ORL": "the 400 faces of ORL, 32 × 32 pixels."}
SPARSE = "DenseHue features of 499 photographs of Corel5k; IAPR TC12 is not at hand"


def _figure(number: int, name: str, title: str, claim: str, **options: Any) -> Experiment:
    """Return the experiment of a figure of objective curves; `options` are those of :func:`objective_curves`."""
    run = partial(objective_curves, name=name, **options)
    replaced = SPARSE if name == "sparse" else ""
    title = f"objective of {title}, {'sparse data' if name == 'sparse' else name}"
    data = FACES.get(name, "500 samples of 100 features of IAPR TC12 in the paper.")
    files = (FILES[name],)
    return Experiment(
        f"or-nmf/fig-{number}", title, claim, run, data=data, files=files, replaced=replaced, protocol=PROTOCOL
    )


def _recognition(number: int, name: str, replaced: str = "") -> Experiment:
    """Return the experiment of a figure of accuracies; `replaced` says why other faces stand for the CBCL set."""
    people = "UMIST, 575 faces of 20 people" if replaced else "ORL, 400 faces of 40 people"
    return Experiment(
        f"or-nmf/fig-{number}",
        f"recognition against the number of components, {'CBCL' if replaced else 'ORL'}",
        "OR-NMF and MOR-NMF recognise more than the other methods, also with many components.",
        partial(recognition, name=name),
        data=f"{people}; 3, 5 or 7 images of each person train, and the others test.",
        files=(f"{name}.npz",),
        replaced=replaced,
        protocol=(
            "Two epochs over the training images, each method as in the objective curves. OMF and OMF-DA have one "
            "sweep for each sample, because as printed they would take days; so claims about them have no verdict.",
            "The codes are the images times the pseudo-inverse of the components, as in the paper's section V.C.",
            "Ranks above the number of training images are run as they are.",
        ),
    )


SINGLE_TITLE = "single-sample methods"
CHUNK_TITLE, CHUNK_CLAIM = "methods that learn in chunks", "WOR-NMF outperforms ONMF in objective and seconds."
IS_TITLE, IS_CLAIM = "Itakura-Saito methods", "OR-NMF-IS reduces the objective faster than ONMF-IS."
OURS = ("OR-NMF", "MOR-NMF, l = 20")
SINGLES: dict[str, Any] = {"settings": SINGLE}
IN_CHUNKS: dict[str, Any] = {"settings": CHUNKS}
IN_IS: dict[str, Any] = {
    "settings": ITAKURA,
    "claims": [
        CurveClaim("OR-NMF-IS, as printed", "ONMF-IS", BOTH, "yes, V.A.3"),
        CurveClaim("OR-NMF-IS with floors", "ONMF-IS", BOTH, ""),
    ],
    "loss": "itakura-saito",
}
CHUNK_PAIR = ("WOR-NMF",), ("ONMF",)

EXPERIMENTS = (
    Experiment(
        "or-nmf/table-2",
        "sizes and sparseness of the data sets",
        "sizes, and a sparseness of .131 for CBCL, .042 for ORL and .745 for IAPR TC12.",
        data_sets,
        "CBCL, ORL, and features of Corel5k.",
        tuple(FILES.values()),
        f"{SPARSE}; the faces are the paper's",
        ("The paper does not define its sparseness. Hoyer's is given for the whole matrix and for samples.",),
    ),
    Experiment(
        "or-nmf/fig-1",
        "components of seven methods",
        "OR-NMF and MOR-NMF learn a representation by parts on CBCL and ORL.",
        bases,
        "CBCL and ORL.",
        (FILES["CBCL"], FILES["ORL"]),
        protocol=(
            f"The paper does not say how many components it shows. Here there are {BASES}.",
            "Its judgement is by eye. Here Hoyer's sparseness of the components is given as well.",
            "Two epochs from one start, each method as in the objective curves.",
        ),
    ),
    _figure(
        2, "CBCL", SINGLE_TITLE, "OR-NMF and MOR-NMF reduce the objective faster than OMF, OMF-DA and INMF.", **SINGLES,
        claims=claims_of(OURS, COMPARED, "yes, V.A.1", ("seconds",)),
    ),
    _figure(
        3, "ORL", SINGLE_TITLE, "OR-NMF and MOR-NMF outperform OMF, OMF-DA and INMF in objective and seconds.",
        **SINGLES, claims=claims_of(OURS, COMPARED, "yes, V.A.1"),
    ),
    _figure(4, "CBCL", CHUNK_TITLE, CHUNK_CLAIM, **IN_CHUNKS, claims=claims_of(*CHUNK_PAIR, "yes, V.A.1")),
    _figure(5, "ORL", CHUNK_TITLE, CHUNK_CLAIM, **IN_CHUNKS, claims=claims_of(*CHUNK_PAIR, "yes, V.A.1")),
    _figure(
        6, "sparse", SINGLE_TITLE, "OR-NMF outperforms OMF, OMF-DA and INMF; MOR-NMF may end higher at the low rank.",
        **SINGLES, claims=[
            *claims_of(["OR-NMF"], COMPARED, "yes, V.A.2"),
            CurveClaim("OR-NMF", "MOR-NMF, l = 20", ("objective",), "yes, at a low rank, V.A.2"),
        ],
    ),
    _figure(
        7, "sparse", CHUNK_TITLE, "WOR-NMF outperforms ONMF in objective, though ONMF sometimes takes fewer seconds.",
        **IN_CHUNKS, claims=claims_of(*CHUNK_PAIR, "yes, V.A.2", ("objective",)),
    ),
    _figure(8, "CBCL", IS_TITLE, IS_CLAIM, **IN_IS),
    _figure(9, "ORL", IS_TITLE, IS_CLAIM, **IN_IS),
    _recognition(10, "umist_28x23", "UMIST; the names of the people of CBCL are not at hand"),
    _recognition(11, "orl_32x32"),
)  # fmt: skip
