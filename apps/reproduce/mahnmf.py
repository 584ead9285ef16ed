"""MahNMF (Guan, Tao, Luo, Shawe-Taylor 2012), sections 5.1 to 5.3: optimisation, faces, clusters and segments.

Section 5.4, background and shadows, is in :mod:`.mahnmf_outliers`, section 5.5 in :mod:`.multiview_words`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from visionnmf import NMF
from visionnmf.apps.drawing import grey_pictures, tiled
from visionnmf.apps.segmentation import paper_segments
from visionnmf.apps.segmentation.paper_method import factorise, normalised, pixel_graph
from visionnmf.apps.segmentation.scores import covering
from visionnmf.datasets import Faces, corrupt
from visionnmf.datasets.local import load_bsds, load_face_set
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem

from .drawing import Panel, curve_figure, sheet_figure
from .experiments import Experiment, Result, Row, Sizes, compared, drawn_each
from .face_clusters import cluster_people
from .face_methods import Condition, FacePlan, compare, means_of
from .mahnmf_outliers import EXPERIMENTS as OUTLIERS
from .multiview_words import EXPERIMENTS as WORDS
from .tracks import Track, arrival_rows, compile_solvers, end_table, solver_track, track_panels

__all__ = ["EXPERIMENTS", "FIGURE", "TABLE1"]

Array = NDArray[Any]

YALEB, ORL = "yaleb_32x32.npz", "orl_32x32.npz"
SOLVERS = {"RRI": "rri", "OGM": "ogm-paper", "OGM, as printed": "ogm-printed"}
NAMES = {"frobenius": "EucNMF", "kullback-leibler": "KLNMF", "manhattan-plain": "MahNMF", "pca": "PCA"}
PER_PERSON = 7
RACE_NEAR = 0.05  # RRI and OGM end in different minima
# Severities at which our Frobenius model has about the training error that table 1 gives for EucNMF.
TABLE1: tuple[Condition, ...] = (
    ("none", None), ("occlusion", 4), ("laplace", 50), ("salt_and_pepper", 0.19), ("gaussian", 85), ("poisson", 0.2)
)  # fmt: skip
FIGURE: tuple[Condition, ...] = (
    ("none", None), ("occlusion", 12), ("laplace", 50), ("salt_and_pepper", 0.3), ("gaussian", 80), ("poisson", 0.05)
)  # fmt: skip
# Of table 1, Yale B: EucNMF, KLNMF, MahNMF on the training set, and the same on the test set. The KLNMF error after
# occlusion is .117; the paper has .0117, a slip beside a deviation of .005 and a test error of .120.
PUBLISHED = {
    "none": (0.023, 0.032, 0.039, 0.055, 0.058, 0.060),
    "occlusion": (0.080, 0.117, 0.089, 0.095, 0.120, 0.097),
    "laplace": (0.155, 0.157, 0.127, 0.140, 0.146, 0.122),
    "salt_and_pepper": (0.245, 0.228, 0.082, 0.133, 0.134, 0.079),
    "gaussian": (0.241, 0.263, 0.246, 0.185, 0.194, 0.183),
    "poisson": (0.028, 0.034, 0.044, 0.059, 0.060, 0.062),
}
HEAVY = ("laplace", "salt_and_pepper")  # kinds of noise at which the paper's claims for MahNMF are clearest
BASES, RANK = 5, 50  # shown in figures 6 and 8
FIRST = 2  # split: settings of the application were chosen on splits 0 and 1


def load(name: str, n_people: int | None = None) -> Faces:
    """Return the set of faces with this file name, or only the images of its first `n_people` people."""
    faces = load_face_set(name.removesuffix(".npz"))
    chosen = np.isin(faces.labels, np.unique(faces.labels)[:n_people])
    return Faces(faces.images[chosen], faces.labels[chosen], faces.names)


# --- section 5.1 ------------------------------------------------------------------------------------------------------


class Race(NamedTuple):
    """A problem on which RRI and OGM are compared: data for a seed, the rank, and the CPU seconds of each method."""

    title: str
    make: Any
    rank: int
    budget: float


def half_normal_start(X: Array, rank: int, seed: int) -> tuple[Array, Array]:
    """Return random factors, Wt (rank, n_rows) and H (rank, n_columns), whose product is about as large as the data."""
    rng = np.random.default_rng(seed)
    size = np.sqrt(X.mean() / rank)
    Wt, H = (size * np.abs(rng.standard_normal((rank, n))) + 1e-6 for n in X.shape)
    return Wt, H


def race(cases: Sequence[Race], n_starts: int, claims: Sequence[Sequence[tuple[str, str, str]]]) -> Result:
    """Follow RRI and OGM, two solvers of the Manhattan loss, from the same `n_starts` starts on each case.

    `claims` has, for each case, methods of which the first arrives before the second along "iterations" or "seconds".
    Objectives are shares of the sum of the data. One arrives at most RACE_NEAR above the lowest. `track_panels` draws
    objectives unchanged (`np.asarray`), and `arrival_rows` compares when methods arrive. A case has a title, a function
    `make` from a seed to the data, the rank, and the CPU seconds of each method.
    """
    panels, rows, tracks = [], [], {}
    for case, own in zip(cases, claims, strict=True):
        found: dict[str, list[Track]] = {}
        for seed in range(n_starts):
            X = case.make(seed)
            problem, start = Problem(X, Loss("manhattan")), half_normal_start(X, case.rank, 100 + seed)
            if not seed:  # compile the solvers on a corner of the data, which takes little time
                corner = Problem(np.ascontiguousarray(X[:20, :15]), Loss("manhattan"))
                compile_solvers(SOLVERS.values(), corner, half_normal_start(corner.X, 2, 0))
            for name, solver in SOLVERS.items():
                run = solver_track(solver, problem, start, case.budget)
                shares = [value / X.sum() for value in run.objectives]
                found.setdefault(name, []).append(run._replace(objectives=shares))
        tracks[case.title] = found
        panels += track_panels(case.title, found, "objective / sum of X", ("iterations", "seconds"), np.asarray)
        for better, worse, axis in own:
            rows += arrival_rows(case.title, found, [(better, worse)], axis, RACE_NEAR)
    caption = f"Objective over the sum of the data, mean and standard deviation of {n_starts} starts."
    return Result(rows, {caption: curve_figure(panels)}, {"What was reached": end_table(tracks)})


SMALL_CLAIMS = (("RRI", "OGM", "iterations"), ("RRI", "OGM", "seconds"))
LARGE_CLAIMS = (("RRI", "OGM", "iterations"), ("OGM", "RRI", "seconds"))


def made_race(sizes: Sizes) -> Result:
    """Repeat figure 3 of the MahNMF paper: RRI and OGM on dense random matrices of two sizes, shorter if quick."""

    def make(shape: tuple[int, int], seed: int) -> Array:
        """Return the data of a case for a seed: uniform random numbers of a shape."""
        return np.random.default_rng(seed).random(shape)

    small, large = sizes.pick((3.0, 60.0), (0.3, 4.0))  # CPU seconds of each method, in a full and in a quick run
    cases = [
        Race("100 × 50, r = 5", partial(make, (100, 50)), 5, small),
        Race("1000 × 500, r = 50", partial(make, (1000, 500)), 50, large),
    ]
    return race(cases, sizes.pick(10, 1), (SMALL_CLAIMS, LARGE_CLAIMS))


def face_race(sizes: Sizes) -> Result:
    """Repeat figure 4 of the MahNMF paper: RRI and OGM on seven images a person, a face a column, at two ranks."""

    def make(name: str, seed: int) -> Array:
        """Return PER_PERSON images of each person of a set, as a seed draws them, (n_pixels, n_images), 1 is white."""
        faces = load(name)
        chosen = np.sort(drawn_each(faces.labels, PER_PERSON, seed))
        return np.ascontiguousarray(faces.images[chosen].reshape(len(chosen), -1).T / 255)

    budgets = sizes.pick((10.0, 30.0), (0.5, 2.0))  # CPU seconds at the low and high rank, in a full and a quick run
    sets = (("Yale B", YALEB), ("ORL", ORL))
    cases = [
        Race(f"{title}, r = {rank}", partial(make, name), rank, budget)
        for title, name in sets
        for rank, budget in zip((5, 50), budgets, strict=True)
    ]
    return race(cases, sizes.pick(10, 1), (SMALL_CLAIMS, LARGE_CLAIMS) * len(sets))


# --- section 5.2 ------------------------------------------------------------------------------------------------------


def relative_errors(sizes: Sizes) -> Result:
    """Repeat the half of table 1 of the MahNMF paper that is about Yale B: relative errors of reconstructions."""
    # PUBLISHED has six errors for each kind of noise: of the three methods on the training set, then on the test set.
    methods = ("frobenius", "kullback-leibler", "manhattan-plain")
    plan = FacePlan(  # `sizes.pick` has the value of a full run and that of a quick one; FIRST is the first split
        corruptions=TABLE1, methods=methods, ranks=(80,), rules=("pseudo-inverse",), splits=sizes.pick(10, 1),
        random_state=FIRST, most_test=sizes.pick(10, 5), iterations=sizes.pick(100, 60),  # `most_test`: of each person
    )  # fmt: skip
    found = compare(load(YALEB), plan)
    rows = []
    for i, column in enumerate(("train_error", "test_error")):
        # mean and deviation by kind of noise and method, which are entries 0 and 2 of the keys
        means = {(key[0], key[2]): value for key, value in means_of(found, column).items()}
        for kind, published in PUBLISHED.items():
            for j, method in enumerate(methods):
                mean, deviation = means[kind, method]
                what = f"{kind.replace('_', ' ')}, {NAMES[method]}, {'training' if i == 0 else 'test'} set"
                rows.append(Row(what, published[3 * i + j], mean, deviation=deviation if plan.splits > 1 else None))
        for kind in HEAVY:
            errors = {
                method: [row[column] for row in found if row["corruption"] == kind and row["method"] == method]
                for method in methods
            }
            for other in methods[:2]:
                what = f"{kind.replace('_', ' ')}, {('training', 'test')[i]} set: MahNMF below {NAMES[other]}"
                rows.append(compared(what, errors["manhattan-plain"], errors[other]))
    return Result(rows)


def accuracies(sizes: Sizes, *, name: str) -> Result:
    """Repeat figure 5 or 7 of the MahNMF paper: accuracy against rank, on the set of faces with the file `name`.

    Clean test images are recognised by the rule "pseudo-inverse", Algorithm 4, corrupted ones by "codes", Algorithm 5.
    PCA is compared in the curves only.
    """
    conditions = sizes.pick(FIGURE, FIGURE[:4])  # kinds and severities of corruption, in a full and in a quick run
    methods, ranks = (
        ("pca", "frobenius", "kullback-leibler", "manhattan-plain"),
        sizes.pick(tuple(range(10, 151, 20)), (10, 40, 80)),
    )
    panels, rows = [], []
    for test, rule, title in (("clean", "pseudo-inverse", "clean tests"), ("corrupted", "codes", "corrupted tests")):
        plan = FacePlan(
            corruptions=conditions, methods=methods, ranks=ranks, rules=(rule,), both=test == "corrupted",
            splits=sizes.pick(10, 1), random_state=FIRST, most_test=sizes.pick(10, 2), iterations=sizes.pick(50, 15),
        )  # fmt: skip
        found = [row for row in compare(load(name, sizes.pick(None, 15)), plan) if row["test"] == test]
        means = means_of(found)
        for kind, severity in conditions:
            curves = {}
            for method in methods:
                cells = [means[kind, severity, method, rank, rule, test] for rank in ranks]
                curves[NAMES[method]] = (ranks, *np.transpose(cells))  # means and deviations
            panels.append(Panel(f"{kind.replace('_', ' ')}, {title}", "rank", "accuracy, %", curves))
            for other in methods[1:3]:
                what = f"{kind.replace('_', ' ')}, {title}: MahNMF above {NAMES[other]}, mean of the ranks"
                both = [
                    [row["accuracy"] for row in found if row["corruption"] == kind and row["method"] == method]
                    for method in (methods[3], other)
                ]
                rows.append(compared(what, *both, higher=True))  # higher accuracies are better
    caption = "Accuracy against rank, mean and standard deviation of the splits."
    return Result(rows, {caption: curve_figure(panels, across=3)})


class CorruptedFits(NamedTuple):
    """Images of training, corrupted and clean, and clean images of testing, as rows, and the models of the first."""

    train: Array
    clean: Array
    test: Array
    models: dict[str, NMF]


def corrupted_fits(sizes: Sizes, name: str, condition: Condition) -> CorruptedFits:
    """Fit NMF with three losses, at rank 50, to seven images of each person, corrupted by a kind and a severity."""
    # `condition` is this kind and severity, and FIRST the seed of all draws.
    faces = load(name, sizes.pick(None, 12))  # everybody, or in a quick run 12 people
    train = drawn_each(faces.labels, PER_PERSON, FIRST)
    test = np.setdiff1d(np.arange(len(faces.labels)), train)
    images = corrupt(faces.images[train], *condition, random_state=FIRST)
    X, clean, Z = (
        part.reshape(len(part), -1).astype(np.float32) for part in (images, faces.images[train], faces.images[test])
    )
    models = {}
    for loss in ("kullback-leibler", "frobenius", "manhattan"):
        model = NMF(min(RANK, len(X)), loss=loss, max_iter=sizes.pick(100, 30), tol=0, random_state=FIRST)
        models[NAMES.get(loss, "MahNMF")] = model.fit(X)
    return CorruptedFits(X, clean, Z, models)


def foreign_share(components: Array, clean: Array) -> float:
    """Return the share of the components' energy outside the first 50 singular vectors of clean images, as rows."""
    unit = components / np.linalg.norm(components, axis=1, keepdims=True)
    faces = np.linalg.svd(clean, full_matrices=False)[2][:RANK]
    return 1 - float(np.square(unit @ faces.T).sum() / len(unit))


def bases(sizes: Sizes, *, name: str) -> Result:
    """Repeat figure 6 or 8 of the MahNMF paper: examples, and components of each method, for each corruption.

    The paper judges by eye. The rows compare how much of the components is no clean face, for the three corruptions
    that MahNMF suppresses according to the paper, FIGURE[1:4].
    """
    pictures, rows, shape = {}, [], (32, 32)
    for condition in FIGURE:
        fits, kind = corrupted_fits(sizes, name, condition), condition[0].replace("_", " ")
        chosen = np.random.default_rng(0).permutation(min(RANK, len(fits.train)))[:BASES]  # components to show
        row = list(grey_pictures(fits.train[:BASES], shape))
        for model in fits.models.values():
            H = model.components_[chosen]
            row += list(grey_pictures(255 * H / H.max(axis=1, keepdims=True), shape))
        pictures[kind] = tiled([row])
        shares = {way: foreign_share(model.components_, fits.clean) for way, model in fits.models.items()}
        if condition in FIGURE[1:4]:
            for other in ("KLNMF", "EucNMF"):
                what = f"{kind}: share of the components' energy that is no clean face, MahNMF below {other}"
                rows.append(compared(what, shares["MahNMF"], shares[other]))
    caption = "Five examples, and five components each of KLNMF, EucNMF and MahNMF, rank 50."
    return Result(rows, {caption: sheet_figure(pictures)})


def reconstructions(sizes: Sizes) -> Result:
    """Repeat figure 9 of the MahNMF paper: average reconstructions of images from their projections on components."""
    pictures: dict[str, list[Array]] = {}
    for name, title in ((YALEB, "Yale B"), (ORL, "ORL")):
        for condition in FIGURE:
            fits = corrupted_fits(sizes, name, condition)
            for way, model in fits.models.items():
                inverse = np.linalg.pinv(model.components_)
                means = [(part @ inverse @ model.components_).mean(axis=0) for part in (fits.train, fits.test)]
                pictures.setdefault(f"{title}, {way}", []).extend(grey_pictures(np.array(means), (32, 32)))
    caption = (
        "Average reconstruction of training (left) and test images (right): " + ", ".join(k for k, _ in FIGURE) + "."
    )
    sheet = sheet_figure({name: tiled([row]) for name, row in pictures.items()})
    return Result(
        [],
        {caption.replace("_", " "): sheet},
        notes=["The paper shows pictures alone, so there is no figure to compare."],
    )


# --- section 5.3 ------------------------------------------------------------------------------------------------------


def clusterings(sizes: Sizes, *, name: str, counts: Sequence[int], each: int) -> Result:
    """Repeat figure 10 or 11 of the MahNMF paper: accuracy and mutual information against the number of people."""
    # `counts` are the numbers of people, and `each` is the largest number of images of a person.
    faces = load(name)
    conditions, trials = FIGURE, sizes.pick(20, 2)
    counts = sizes.pick(tuple(counts), tuple(counts[:2]))  # in a full run, and in a quick one
    # accuracy and mutual information, (n_trials, 2), by corruption, number of people and model
    found: dict[Any, Array] = {}
    for condition in conditions:
        for count in counts:
            models = {
                NAMES[method]: NMF(count, loss=loss, max_iter=sizes.pick(100, 40), tol=0)
                for method, loss in (("frobenius",) * 2, ("kullback-leibler",) * 2, ("manhattan-plain", "manhattan"))
            }
            runs = [
                cluster_people(faces, count, condition, models, FIRST + trial, most=each) for trial in range(trials)
            ]
            for model in models:
                found[condition[0], count, model] = np.array([run[model] for run in runs])
    panels, rows = [], []
    for i, measure in enumerate(("accuracy, %", "mutual information")):
        for kind, _ in conditions:
            curves = {}
            for model in ("EucNMF", "KLNMF", "MahNMF"):
                values = [found[kind, count, model][:, i] * (100, 1)[i] for count in counts]  # accuracies in %
                curves[model] = (counts, [v.mean() for v in values], np.array([v.std() for v in values]))
            panels.append(Panel(kind.replace("_", " "), "people", measure, curves))
    for kind, _ in conditions:
        of = {
            m: np.concatenate([found[kind, count, m][:, 0] for count in counts]) for m in ("EucNMF", "KLNMF", "MahNMF")
        }
        rows += [
            compared(
                f"{kind.replace('_', ' ')}: MahNMF clusters better than {other}", of["MahNMF"], of[other], higher=True
            )
            for other in ("EucNMF", "KLNMF")
        ]
    caption = f"Clusters of k-means against the number of people, mean and deviation of {trials} draws."
    return Result(rows, {caption: curve_figure(panels, across=3)})


def segment_sheet(sizes: Sizes, *, n_segments: int, first: int, count: int) -> Result:
    """Repeat figure 12, 13 or 14 of the MahNMF paper: segments by MahNMF-SYM with k-means, and by normalised cuts."""
    # Shown are `count` test photographs of BSDS500 from number `first` on, and each of their segments alone.
    count = sizes.pick(count, min(count, 2))  # a quick run shows two at most
    sheet: list[list[Array]] = []
    scores: dict[str, list[float]] = {"manhattan": [], "ncut": []}
    for photograph in islice(load_bsds(), first, first + count):
        step = max(1, photograph.image.shape[0] // 110)  # to show pictures some 110 pixels high
        image = photograph.image[::step, ::step]
        # a white square as a frame, so that upright pictures and others get one size
        small = np.full((max(image.shape[:2]),) * 2 + (3,), 255, np.uint8)
        row = [_framed(image, small)]
        for method, found in scores.items():
            labels = paper_segments(photograph.image, n_segments, method=method)
            found.append(covering(labels, photograph.segmentations))
            thin = labels[::step, ::step]
            row += [
                _framed(np.where((thin == k)[..., None], image, 235).astype(np.uint8), small) for k in range(n_segments)
            ]
        sheet.append(row)
    rows = [compared("MahNMF-SYM covers people's segments better than normalised cuts", *scores.values(), higher=True)]
    caption = f"Photographs, {n_segments} segments by MahNMF-SYM and k-means, and {n_segments} by normalised cuts."
    table = [["method", "mean covering"], *([name, f"{np.mean(found):.3f}"] for name, found in scores.items())]
    return Result(rows, {caption: tiled(sheet)}, {"Covering of people's segmentations": table})


def _framed(image: Array, frame: Array) -> Array:
    """Return an image in the top left corner of `frame`, a white square that is at least as large."""
    framed = frame.copy()
    framed[: image.shape[0], : image.shape[1]] = image
    return framed


def similarity_matrices(sizes: Sizes) -> Result:
    """Repeat figure 15 of the MahNMF paper: similarities of pixels, ordered by segment, and their approximation."""
    sheet: list[list[Array]] = []
    rows, most = [], sizes.pick(1200, 400)  # in a full run, and in a quick one
    for photograph in islice(load_bsds(), sizes.pick(4, 2)):
        # similarities of at most `most` pixels, divided by the roots of the degrees of both
        S = normalised(pixel_graph(photograph.image, most)[0])
        H = factorise(S, 5, np.random.RandomState(0))  # (5, n_pixels), with S nearly H.T @ H
        order = np.argsort(KMeans(3, n_init=10, random_state=0).fit_predict(H.T), kind="stable")
        step = -(-len(S) // 300)  # blocks of so many entries are averaged, to show at most 300 x 300 pixels
        parts = []
        for matrix in (S, H.T @ H):
            ordered = matrix[np.ix_(order, order)]
            n = len(ordered) // step
            means = ordered[: n * step, : n * step].reshape(n, step, n, step).mean(axis=(1, 3))
            parts.append(
                grey_pictures(255 * (1 - np.minimum(means / np.quantile(means, 0.99), 1)).reshape(1, -1), (n, n))[0]
            )
        # matrices of photographs of other sizes differ a little; all are cut to the smallest
        least = min(len(part) for row in [*sheet, parts] for part in row)
        sheet = [[part[:least, :least] for part in row] for row in [*sheet, parts]]
        rows.append(Row(f"photograph {photograph.name}: relative error of the approximation", "",
                        float(np.abs(S - H.T @ H).sum() / S.sum())))  # fmt: skip
    caption = "Similarity of pixels (left) and its approximation of rank 5 (right), by three segments; dark is similar."
    return Result(rows, {caption: tiled(sheet)})


# --- what can be run --------------------------------------------------------------------------------------------------

PIE = "ORL, 40 people at 32 × 32 pixels, in place of PIE, which is not freely available"
NEAREST = (
    "A method is near the lowest objective when it is within 5 % of the lowest one of all, because minima differ.",
    "OGM is the authors' code, with lambda_0 = 1 in the units of the data and steps that grow like the root of the "
    "iteration; as printed it has lambda_0 = 0.1 and the stop of equation 22, and takes far more steps.",
    "Starts are half-normal, with a product about as large as the data; the paper does not give them.",
    "Seconds are CPU seconds of one thread, without the evaluation of the objective; RRI has our selection of medians "
    "in place of the paper's sort, which is several times slower.",
)
SEVERITIES = (
    "The paper does not give the severities; they are "
    + ", ".join(f"{kind.replace('_', ' ')} {severity:g}" for kind, severity in FIGURE if severity is not None)
    + " (see `visionnmf.datasets.corrupt`)."
)
MODELS = "All models have a fixed number of iterations from random starts. MahNMF has no penalty."
RULES = "Clean test images are recognised by Algorithm 4, corrupted ones by Algorithm 5, at most ten a person."


def _accuracy(number: int, name: str, data: str, claim: str, replaced: str = "") -> Experiment:
    """Return the experiment of figure `number` on the file `name`, the faces `data`; `replaced` says why these ones."""
    run, protocol = partial(accuracies, name=name), (SEVERITIES, MODELS, RULES)  # what the paper leaves open
    return Experiment(
        f"mahnmf/fig-{number}", f"accuracy against rank, {data}", claim, run, data, (name,), replaced, protocol
    )


def _clusters(number: int, name: str, counts: Sequence[int], each: int, replaced: str = "") -> Experiment:
    """Return the experiment of figure `number` by :func:`clusterings`; `replaced` says why data are not the paper's."""
    # `counts` are the numbers of people, and `each` is the largest number of images of a person.
    return Experiment(
        f"mahnmf/fig-{number}",
        "clusters against the number of people",
        "MahNMF is above EucNMF and KLNMF, also with occlusion, Laplace noise, and salt and pepper.",
        partial(clusterings, name=name, counts=counts, each=each),
        f"{'Extended Yale B' if name == YALEB else 'ORL'}, {each} images a person.",
        (name,),
        replaced,
        (
            SEVERITIES,
            MODELS + " The rank is the number of people.",
            "The paper says neither the rank nor how codes are clustered; here whitened codes are grouped by k-means.",
            "The paper reweights the images; here they are as they are.",
        ),
    )


def _segments(number: int, n_segments: int, first: int, count: int) -> Experiment:
    """Return the experiment of a figure of segments of `count` photographs, from number `first` of the test set on."""
    return Experiment(
        f"mahnmf/fig-{number}",
        f"{n_segments} segments of {count} photographs",
        "MahNMF-SYM with k-means finds the objects, mostly comparably to normalised cuts, and in some cases better.",
        partial(segment_sheet, n_segments=n_segments, first=first, count=count),
        "BSDS500, test photographs.",
        ("bsds",),
        "the paper does not name its photographs; these are the first ones of the test set",
        ("Thumbnails have at most 1200 pixels, three starts and 50 sweeps, none of which the paper gives.",),
    )


_BASES = "MahNMF suppresses occlusion, Laplace noise, and salt and pepper in its components, KLNMF and EucNMF do not."
_BASIS_NOTE = (
    SEVERITIES,
    MODELS,
    "The energy outside the first 50 singular vectors of the clean training images stands for the look of a component.",
)

EXPERIMENTS = (
    *(
        Experiment(
            f"mahnmf/fig-{number}",
            "smoothing of a piecewise linear function",
            missing="an illustration of the derivation",
        )
        for number in (1, 2)
    ),
    Experiment(
        "mahnmf/fig-3",
        "RRI and OGM on made data",
        "on the small matrix RRI needs fewer iterations and seconds than OGM; on the large one OGM is faster.",
        made_race,
        "uniform random matrices of 100 × 50, r = 5, and 1000 × 500, r = 50.",
        protocol=NEAREST,
    ),
    Experiment(
        "mahnmf/fig-4",
        "RRI and OGM on faces",
        "as on made data: RRI is faster at rank 5, OGM at rank 50.",
        face_race,
        "seven images of each person of Extended Yale B (1024 × 266) and ORL (1024 × 280), as shares of white.",
        (YALEB, ORL),
        PIE,
        NEAREST,
    ),
    _accuracy(
        5,
        YALEB,
        "Extended Yale B",
        "MahNMF is above EucNMF and KLNMF without noise, with Laplace noise, and salt and pepper, not with Gaussian.",
    ),
    Experiment(
        "mahnmf/fig-6",
        "components, Yale B",
        _BASES,
        partial(bases, name=YALEB),
        "Extended Yale B.",
        (YALEB,),
        protocol=_BASIS_NOTE,
    ),
    _accuracy(
        7, ORL, "ORL", "MahNMF is far above EucNMF and KLNMF with occlusion, Laplace noise, and salt and pepper.", PIE
    ),
    Experiment("mahnmf/fig-8", "components, PIE", _BASES, partial(bases, name=ORL), "ORL.", (ORL,), PIE, _BASIS_NOTE),
    Experiment(
        "mahnmf/fig-9",
        "average reconstructions",
        "MahNMF's reconstructions are clearer than those of EucNMF and KLNMF.",
        reconstructions,
        "Extended Yale B and ORL.",
        (YALEB, ORL),
        protocol=(SEVERITIES, MODELS, "Images are reconstructed from their projections on the components."),
    ),
    Experiment(
        "mahnmf/table-1",
        "relative errors of reconstructions at rank 80",
        "MahNMF reconstructs training and test images best after Laplace noise, and salt and pepper.",
        relative_errors,
        "Extended Yale B, seven training images of each person.",
        (YALEB,),
        "the half about Yale B; PIE is not freely available",
        (
            "Severities are those at which our EucNMF has about the training error of the paper's; it gives none.",
            MODELS,
            "Test images are projected. Our errors of test images are lower throughout: compare methods, not numbers.",
        ),
    ),
    _clusters(10, YALEB, (4, 12, 20, 28, 36), 15),
    _clusters(11, ORL, (10, 20, 30, 40), 10, PIE),
    _segments(12, 3, 0, 4),
    _segments(13, 3, 4, 2),
    _segments(14, 5, 6, 4),
    Experiment(
        "mahnmf/fig-15",
        "similarity matrices and their approximations",
        "the approximation of rank 5 shows the classes of pixels clearly.",
        similarity_matrices,
        "BSDS500, test photographs.",
        ("bsds",),
        "the paper does not name its photographs; these are the first ones of the test set",
    ),
    *OUTLIERS,
    *WORDS,
)
