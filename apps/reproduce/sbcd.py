"""sBCD (Li, Lebanon, Park 2012): objective curves, recovered factors, and iterations for growing rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from visionnmf.apps.evaluate.drawing import Panel, curve_figure
from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import SOLVERS

from .data import load_face_set
from .experiments import Experiment, Result, Row, Sizes, Table, comparisons
from .tracks import Case, Measure, Start, Tracks, curves_of, follow_all, race

Array = NDArray[Any]

FACES = "orl_112x92.npz"
# The paper's beta is one less than ours, which is 2 for the Frobenius norm.
LOSSES = {
    "Frobenius": Loss("frobenius"),
    "KL": Loss("kullback-leibler"),
    "IS": Loss("itakura-saito"),
    "Beta": Loss("beta", 3.0),
}
SOLVER_NAMES = {
    "sBCD": "sbcd-plain", "multiplicative": "mu", "gradient descent": "gd", "CG": "cg", "BlockPivot": "bpp",
    "GCD": "gcd", "CCD": "ccd", "sBCD AL-A": "al-a", "sBCD AL-B": "al-b",
}  # fmt: skip
GENERAL = ("sBCD", "multiplicative", "gradient descent")
COMPARED = {  # table 3 of the paper
    "Frobenius": ("sBCD", "multiplicative", "gradient descent", "CG", "BlockPivot", "GCD"),
    "KL": ("sBCD", "multiplicative", "gradient descent", "CCD"),
    "IS": GENERAL,
    "Beta": GENERAL,
}
VARIANTS = ("sBCD", "sBCD AL-A", "sBCD AL-B")
Claims = Sequence[tuple[str, str]]  # the paper finds that the first method is faster than the second
VARIANT_CLAIMS: Claims = (("sBCD", "sBCD AL-B"), ("sBCD AL-B", "sBCD AL-A"))
CLAIMS: dict[str, Claims] = {
    "Frobenius": [("GCD", "sBCD"), *(("sBCD", other) for other in COMPARED["Frobenius"][1:5])],
    "KL": [("CCD", "sBCD"), ("sBCD", "multiplicative"), ("sBCD", "gradient descent")],
    "IS": [("sBCD", "multiplicative"), ("sBCD", "gradient descent")],
    "Beta": [("sBCD", "multiplicative"), ("sBCD", "gradient descent")],
}
ROUNDS = 100  # of figure 5's table
SHAPE, RANKS = (2000, 1500), (5, 10, 20, 30, 40, 60, 80)  # of table 4
ENOUGH, MOST = 1e-4, 1500
PUBLISHED_ITERATIONS = {  # of table 4, at these ranks
    ("IS", "multiplicative"): (85.74, 147.4, 221.6, 338.2, 416.8, 595.7, 784.6),
    ("IS", "sBCD"): (30.4, 41.1, 45, 50.1, 53.3, 62.8, 71.7),
    ("Beta", "multiplicative"): (91.2, 180.4, 213.1, 381.9, 466.5, 686.4, 865.3),
    ("Beta", "sBCD"): (26.1, 42.4, 46.6, 56.3, 63, 72.4, 81.3),
}
LENGTH, MIXTURES, SIGNALS = 1000, 10, 5  # of figure 2
LOW, HIGH = 0.5, 15.0  # of the starts
STARTS = 5
ALPHA, RIDGE = 10.0, 1.0  # of figure 5: weights of the l1 penalty of H, and of the norm of W (footnote 3)


def uniform_problem(shape: tuple[int, int], rank: int, seed: int) -> tuple[Array, Array, Array]:
    """Return data and a start, Wt (rank, n_rows) and H (rank, n_columns), all uniform in [0.5, 15]."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(LOW, HIGH, shape)
    return X, *uniform_start(X, rank, rng)


def uniform_start(X: Array, rank: int, rng: np.random.Generator) -> Start:
    """Return the start of section 4.1, Wt (rank, n_rows) and H (rank, n_columns)."""
    return rng.uniform(LOW, HIGH, (rank, X.shape[0])), rng.uniform(LOW, HIGH, (rank, X.shape[1]))


def count_iterations(
    shape: tuple[int, int], rank: int, loss: Loss, solver: str, enough: float, most: int
) -> tuple[int, float]:
    """Return the iterations until one gains less than `enough` of the start's divergence, and what share is left."""
    X, Wt, H = uniform_problem(shape, rank, 0)
    H *= X.mean() / (Wt.T @ H).mean()  # else the first iteration gains nearly all, and `enough` is a share of the start
    objectives: list[float] = []
    for step in SOLVERS[solver].iterate(Problem(X, loss), Wt, H, max_iter=most):
        objectives.append(step.objective)  # that before the step
        # with no change at all a step has been taken back, and the solver goes on
        if len(objectives) > 1 and 0 < abs(objectives[-2] - objectives[-1]) < enough * objectives[0]:
            break
    return len(objectives) - 1, objectives[-1] / objectives[0]


def log_share(objectives: Array) -> Array:
    """Return the decimal logarithm of objectives that are shares of that of the start, as the paper draws it."""
    return np.log10(np.maximum(objectives, 1e-12))


class Data(NamedTuple):
    """Data of which the methods find the factors, their kind in words, and the start of each run, by its seed."""

    kind: str
    X: Array
    start: Callable[[int], Start]


def random_data(shape: tuple[int, int], rank: int) -> Data:
    """Return uniform random data, as :func:`uniform_problem` draws them."""
    return Data("", uniform_problem(shape, rank, 0)[0], lambda seed: uniform_problem(shape, rank, seed)[1:])


def faces(step: int) -> Data:
    """Return every `step`-th pixel of the faces of ORL, a face a column, with starts of rank 20."""
    images = load_face_set(FACES.removesuffix(".npz")).images
    X = np.ascontiguousarray(images.reshape(len(images), -1).T[::step] + 1.0)  # the IS divergence is infinite for zeros
    return Data("faces ", X, lambda seed: uniform_start(X, 20, np.random.default_rng(seed)))


def case(loss: str, data: Data, methods: Sequence[str], claims: Claims, budget: float, l1: float = 0.0) -> Case:
    """Return a case whose objectives are shares of that of the start; `l1` is the weight of a penalty of H."""
    problem = Problem(data.X, LOSSES[loss], Penalties(l2=RIDGE if l1 else 0.0), Penalties(l1=l1))
    section = "4.3" if methods == VARIANTS else "4.2"

    def make(seed: int) -> tuple[Problem, Start, Measure]:
        """Return the problem, the start of a seed, and the share of its objective."""
        start = data.start(seed)
        whole = problem.objective(*start)
        return problem, start, lambda Wt, H: problem.objective(Wt, H) / whole

    return Case(
        f"{loss}, {data.kind}{data.X.shape[0]} × {data.X.shape[1]}, K = {len(data.start(0)[0])}",
        make,
        {name: SOLVER_NAMES[name] for name in methods},
        [(first, second, "seconds", f"yes, {section}") for first, second in claims],
        budget,
    )


def followed(cases: Sequence[Case], n_starts: int) -> Result:
    """Follow the methods of each case, and draw the logarithm of the objectives as the paper does."""
    return race(cases, n_starts, "log10 of the share of the start's objective", ["seconds"], columns=6, show=log_share)


def random_curves(sizes: Sizes) -> Result:
    """Repeat figure 1 of the sBCD paper: random data of three sizes, or in a quick run of one, and four divergences."""
    problems = sizes.pick(full=(((2000, 1000), 30), ((2000, 1000), 60), ((3000, 2000), 30)), quick=(((400, 200), 15),))
    n_starts, seconds = sizes.pick(full=(STARTS, 4.0), quick=(1, 1.0))
    data = [random_data(shape, rank) for shape, rank in problems]
    return followed(
        [case(loss, one, COMPARED[loss], CLAIMS[loss], seconds) for loss in LOSSES for one in data], n_starts
    )


def face_curves(sizes: Sizes) -> Result:
    """Repeat the panels about faces of figure 3 of the sBCD paper, with two divergences."""
    step, n_starts, seconds = sizes.pick(full=(1, STARTS, 10.0), quick=(5, 1, 2.5))
    # the last two claims of each divergence are about the multiplicative updates and gradient descent
    data = faces(step)
    cases = [case(loss, data, COMPARED[loss], CLAIMS[loss][-2:], seconds) for loss in ("KL", "IS")]
    return followed(cases, n_starts)


def variant_curves(sizes: Sizes, *, losses: Sequence[str], l1: float) -> Result:
    """Repeat figure 4 of the sBCD paper, or with a penalty `l1` on H figure 5: sBCD and its variants AL-A and AL-B."""
    shape, rank, step, n_starts, seconds = sizes.pick(
        full=((1500, 1000), 30, 1, STARTS, 4.0), quick=((300, 200), 15, 5, 1, 1.5 if l1 else 1.0)
    )
    pairs = product((random_data(shape, rank), faces(step)), losses)
    cases = [case(loss, data, VARIANTS, VARIANT_CLAIMS, seconds, l1) for data, loss in pairs]
    result = followed(cases, n_starts)
    return replace(result, tables={**result.tables, "What the penalty of H does": zeros_of_H(cases)}) if l1 else result


def zeros_of_H(cases: Sequence[Case]) -> Table:
    """Return how many components are left, their zeros in H, and norms, without and with the norm of W (footnote 3)."""
    table = [["data", "penalties", "components left", "share of zeros in their H", "norm of W", "norm of H"]]
    for one in cases:
        problem, start, _ = one.make(0)
        for words, sides in (
            ("none", (Penalties(), Penalties())),
            (f"alpha = {ALPHA:g}", (Penalties(), problem.penalty_H)),
            (f"alpha = {ALPHA:g} and the norm of W", (problem.penalty_W, problem.penalty_H)),
        ):
            Wt, H = (F.copy() for F in start)
            steps = SOLVERS["sbcd-plain"].iterate(Problem(problem.X, problem.loss, *sides), Wt, H, max_iter=ROUNDS)
            for _ in steps:
                pass
            left = H.any(axis=1) & Wt.any(axis=1)  # the zeros of a component that is gone do not make H sparse
            norms = [f"{np.linalg.norm(F):.3g}" for F in (Wt, H)]
            table.append([one.title, words, f"{left.sum()} of {len(H)}", f"{(H[left] == 0).mean():.2f}", *norms])
    return table


def smooth_signals(seed: int) -> tuple[Array, Array]:
    """Return smooth non-negative signals (5, 1000), each of three bumps, and random weights (5, 10) of ten mixtures."""
    rng = np.random.default_rng(seed)
    t = np.arange(LENGTH)
    middles, widths = rng.uniform(0, LENGTH, (SIGNALS, 3, 1)), rng.uniform(15, 60, (SIGNALS, 3, 1))  # of Gaussian bumps
    bumps = rng.uniform(0.3, 1, (SIGNALS, 3, 1)) * np.exp(-(((t - middles) / widths) ** 2))
    # the IS divergence is infinite for zeros
    return bumps.sum(axis=1) + 1e-3, rng.random((SIGNALS, MIXTURES)) + 1e-3


def signal_to_interference(truth: Array, found: Array) -> float:
    """Return the paper's SIR, signal to interference ratio, of factors (K, n) in dB: higher is better.

    Rows are scaled to norm 1 and matched one to one for the least sum of squared distances. The ratio of a row is the
    inverse of its squared distance, and the mean of all is returned.
    """
    rows = [part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-300) for part in (truth, found)]
    distances = np.square(rows[0][:, None] - rows[1][None]).sum(axis=2)
    return float(-10 * np.log10(np.maximum(distances[linear_sum_assignment(distances)], 1e-30)).mean())


def recovery_tracks(loss: str, n_draws: int, budget: float) -> tuple[Tracks, Tracks]:
    """Follow methods on mixtures of smooth signals; return the SIR of the signals and that of the weights."""

    def make(draw: int) -> tuple[Problem, Start, Measure]:
        """Return the mixtures of a draw, a start, and what the SIR of both factors is."""
        signals, weights = smooth_signals(draw)
        rng = np.random.default_rng(1000 + draw)
        start = rng.random((SIGNALS, LENGTH)) + 0.1, rng.random((SIGNALS, MIXTURES)) + 0.1
        sir = signal_to_interference
        return Problem(signals.T @ weights, LOSSES[loss]), start, lambda Wt, H: (sir(signals, Wt), sir(weights, H))

    found = follow_all(Case("", make, {name: SOLVER_NAMES[name] for name in COMPARED[loss]}, (), budget), n_draws)
    of_signals, of_weights = (
        {
            name: [run._replace(objectives=[pair[factor] for pair in run.objectives]) for run in runs]
            for name, runs in found.items()
        }
        for factor in (0, 1)
    )
    return of_signals, of_weights


def recovery(sizes: Sizes) -> Result:
    """Repeat figure 2 of the sBCD paper: how well the factors of mixtures of smooth signals are recovered."""
    n_draws, budget = sizes.pick(full=(STARTS, 5.0), quick=(3, 0.5))
    panels, rows = [], []
    table = [["divergence", "method", "SIR of the signals, dB", "SIR of the weights, dB"]]
    for loss in ("KL", "IS"):
        found = dict(zip(("signals", "weights"), recovery_tracks(loss, n_draws, budget), strict=True))
        for factor, tracks in found.items():
            curves = curves_of(tracks, "seconds")
            panels.append(Panel(f"{loss}, {factor}", curves, x_label="CPU seconds", y_label="SIR, dB", log_x=True))
        ends = {  # the SIR at the end of each draw
            factor: {name: np.array([run.objectives[-1] for run in runs]) for name, runs in tracks.items()}
            for factor, tracks in found.items()
        }
        for name in COMPARED[loss]:
            cells = [f"{values[name].mean():.1f} ± {values[name].std():.1f}" for values in ends.values()]
            table.append([loss, name, *cells])
        for factor, values in ends.items():
            firsts = [name for name in ("sBCD", "CCD") if name in values]  # CCD is for KL only
            what = f"{loss}: {{0}} has the higher SIR of the {factor} than {{1}}"
            rows += comparisons(what, values, firsts, dict.fromkeys(GENERAL[1:], "yes, 4.2"))
        by_factor = {factor: values["sBCD"] for factor, values in ends.items()}
        what = f"{loss}: {{0}} are recovered better than {{1}}"
        rows += comparisons(what, by_factor, ["signals"], {"weights": "yes, 4.2"})
    caption = f"SIR against CPU seconds, mean and standard deviation of {n_draws} draws; higher is better."
    return Result(rows, {caption: curve_figure(panels)}, {"SIR at the end": table})


def growing_rank(sizes: Sizes) -> Result:
    """Repeat table 4 of the sBCD paper: iterations until convergence for growing rank."""
    shape, ranks, most = sizes.pick(full=(SHAPE, RANKS, MOST), quick=((200, 150), (5, 20, 40), 600))
    rows, table = [], [["divergence", "method", *(f"K = {rank}" for rank in ranks)]]
    for (loss, method), iterations in PUBLISHED_ITERATIONS.items():
        published = dict(zip(RANKS, iterations, strict=True))
        found = [count_iterations(shape, rank, LOSSES[loss], SOLVER_NAMES[method], ENOUGH, most) for rank in ranks]
        counts = [count for count, _ in found]
        table.append([loss, method, *(f"{count} ({left:.4f})" for count, left in found)])
        what = f"{loss}, {method}: iterations at K = {ranks[-1]} over those at K = {ranks[0]}"
        growth = published[ranks[-1]] / published[ranks[0]]
        rows.append(Row(what, counts[-1] / max(counts[0], 1), paper=round(growth, 2)))
        if shape == SHAPE:
            for rank, count in zip(ranks, counts, strict=True):
                rows.append(Row(f"{loss}, {method}: iterations, K = {rank}", count, paper=published[rank]))
    caption = f"Iterations, {shape[0]} × {shape[1]} (share of the start's divergence that is left)"
    return Result(rows, tables={caption: table})


SECONDS = (
    "Seconds are CPU seconds of one thread, without the evaluation of the objective; the paper's are those of Matlab."
)
NEARNESS = "A method is near the lowest objective when it is within 0.2 % of the lowest one that any of them has found."
SAME_STARTS = "All methods have the same starts, and the same budget of seconds in place of a rule that stops them."
UNIFORM = (
    "Five starts are uniform in [0.5, 15], as in section 4.1. The paper does not say how data are drawn; here they are "
    "uniform in [0.5, 15] as well."
)
STEP = "Gradient descent has the fixed step of our baseline; the paper does not give its step."
LETTER = "sBCD is the update as printed (`sbcd-plain`), without the damping that our `sbcd` adds."

EXPERIMENTS = (
    Experiment(
        "sbcd/fig-1",
        "objective against time, random data",
        "for the IS and beta divergences sBCD is better than the multiplicative updates and gradient descent; for the "
        "Frobenius norm GCD, and for KL CCD, is a little better than sBCD, and sBCD is better than all others.",
        random_curves,
        data="uniform random matrices of 2000 × 1000 and 3000 × 2000; a quick run has one of 400 × 200.",
        protocol=(UNIFORM, SAME_STARTS, NEARNESS, STEP, LETTER, SECONDS),
    ),
    Experiment(
        "sbcd/fig-2",
        "how well factors are recovered",
        "sBCD and CCD recover the factors much better than the multiplicative updates and gradient descent, and the "
        "given signals better than the random weights.",
        recovery,
        data="ten mixtures of five smooth signals of 1000 values, without noise.",
        replaced="made signals of three Gaussian bumps in place of the 5-smooth set of Xspectra",
        protocol=(
            "The paper adds Gaussian noise to the mixtures (4.1), and does not say how much; here there is none.",
            "Components are matched to the true ones by the least sum of distances; the paper does not say how.",
            "A thousandth is added to the signals, because the IS divergence is infinite for zeros.",
            SAME_STARTS,
            STEP,
            LETTER,
            SECONDS,
        ),
    ),
    Experiment(
        "sbcd/fig-3",
        "objective against time, faces",
        "on faces and ratings sBCD and CCD are far ahead of the multiplicative updates and gradient descent, above all "
        "in the first iterations.",
        face_curves,
        data="ORL: 400 faces of 112 × 92 pixels, K = 20; a quick run has every fifth pixel.",
        files=(FACES,),
        replaced="faces as in the paper, without Movielens and Netflix, whose ratings are not at hand",
        protocol=(
            "Starts are uniform in [0.5, 15], as in section 4.1.",
            "One grey level is added, because the IS divergence is infinite for zeros.",
            SAME_STARTS,
            STEP,
            LETTER,
            SECONDS,
        ),
    ),
    Experiment(
        "sbcd/fig-4",
        "sBCD beside its variants AL-A and AL-B",
        "sBCD is best, AL-B next, and AL-A the slowest with the worst solution; with IS sBCD gains most.",
        partial(variant_curves, losses=("KL", "IS"), l1=0.0),
        data="uniform random matrices of 1500 × 1000, K = 30, and ORL, 112 × 92 pixels, K = 20.",
        files=(FACES,),
        protocol=(UNIFORM, SAME_STARTS, NEARNESS, LETTER, SECONDS),
    ),
    Experiment(
        "sbcd/fig-5",
        "the same with a sparse factor",
        "with an l1 penalty on H the order of the three variants stays.",
        partial(variant_curves, losses=("KL",), l1=ALPHA),
        data="a uniform random matrix of 1500 × 1000, K = 30, and ORL, 112 × 92 pixels, K = 20; KL divergence.",
        files=(FACES,),
        protocol=(
            f"The paper does not give alpha; here it is {ALPHA:g}. Its footnote 3 adds the norm of W, here {RIDGE:g} / "
            "2 times its square; without it W grows and H shrinks; with it most components vanish: see the table.",
            "The penalty is that of the objective, alpha times the sum of H; the printed rule, with alpha in the "
            "denominator, minimises another one.",
            UNIFORM,
            SAME_STARTS,
            LETTER,
            SECONDS,
        ),
    ),
    Experiment(
        "sbcd/table-4",
        "iterations for growing rank",
        "the iterations of sBCD grow slowly with K, those of the multiplicative updates sharply.",
        growing_rank,
        data="a uniform random matrix of 2000 × 1500; a quick run has 200 × 150.",
        protocol=(
            f"An iteration that lowers the divergence by less than {ENOUGH:g} of the start's is the last one; the "
            "paper's threshold is garbled in the text that we have.",
            "The start is scaled to the mean of the data, because the threshold is a share of it.",
            "Gradient descent is left out: with a fixed step it gains less than that from the start.",
            UNIFORM,
            LETTER,
        ),
    ),
    Experiment(
        "sbcd/table-5", "summaries of texts", missing="the DUC 2001 texts with their summaries are not freely available"
    ),
)
