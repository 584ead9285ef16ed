"""NeNMF (Guan, Tao, Luo, Yuan, IEEE TSP 2012): how fast it is beside its baselines, and clusters of documents."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfTransformer

from visionnmf import NMF
from visionnmf.apps.evaluate.drawing import Panel, curve_figure
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.io import read_arrays, read_mat
from visionnmf.metrics import clustering_accuracy, clustering_information

from .data import data_file
from .experiments import Experiment, Result, Sizes, comparisons, mean_curve
from .tracks import Case, Measure, Start, race

SOLVERS = {
    "NeNMF": "nenmf-paper", "MUR": "mu", "PNLS": "pnls", "PG": "pg", "QN": "qn", "CBGP": "cbgp", "PBB": "pbb",
    "AS": "as", "BPP": "bpp",
}  # fmt: skip
SETS = {
    "TDT2": ("tdt2.mat", ""),
    "BBCSport": ("mv_bbcsport.npz", "view_seg1"),
    "3Sources": ("mv_3sources.npz", "view_BBC"),
}
METHODS = ("NeNMF", "MUR", "k-means")
TOPICS = (2, 4, 6, 8, 10)
Array = NDArray[Any]


def uniform(shape: tuple[int, int], rank: int, seed: int) -> tuple[Problem, Start, Measure]:
    """Return uniform data, uniform factors whose product has about the mean of the data, 0.5, and the objective."""
    rng = np.random.default_rng(seed)
    problem = Problem(rng.random(shape), Loss("frobenius"))
    size = np.sqrt(0.5 / rank)
    start = size * 2 * rng.random((rank, shape[0])), size * 2 * rng.random((rank, shape[1]))
    return problem, start, problem.objective


def efficiency(sizes: Sizes) -> Result:
    """Repeat the comparison of section IV of the NeNMF paper on two random matrices, or in a quick run on one."""
    problems = sizes.pick(  # shape, rank, and the CPU seconds of each method
        full=(((500, 100), 50, 5.0), ((5000, 1000), 100, 20.0)), quick=(((500, 100), 50, 1.0),)
    )
    claims = [("NeNMF", other, "seconds", "yes, abstract") for other in SOLVERS if other != "NeNMF"]
    cases = [
        Case(f"{shape[0]} × {shape[1]}, r = {rank}", partial(uniform, shape, rank), SOLVERS, claims, budget)
        for shape, rank, budget in problems
    ]
    return race(cases, sizes.pick(full=5, quick=2), "objective", columns=5)


# --- clusters of documents --------------------------------------------------------------------------------------------


def documents(name: str) -> tuple[Any, Array]:
    """Return the counts of terms (n_documents, n_terms) of a set, sparse, and the topic of each document."""
    if name == "TDT2":  # the last columns of its matrix are the topic and another number
        counts = sp.csr_array(read_mat(data_file(SETS[name][0]), ["fea"], nested=True)["fea"])
        return counts[:, :-2], counts[:, [-2]].toarray().ravel().astype(int)
    found = read_arrays(data_file(SETS[name][0]), ["labels", SETS[name][1]])
    return sp.csr_array(found[SETS[name][1]].astype(float)), found["labels"]


def clustered(counts: Any, labels: Array, seed: int) -> dict[str, tuple[float, float]]:
    """Return the accuracy in % and the mutual information of as many clusters as topics, by each method."""
    k = len(np.unique(labels))
    X = sp.csr_array(TfidfTransformer().fit_transform(counts))  # rows of norm 1
    found = {"k-means": KMeans(k, n_init=10, random_state=seed).fit_predict(X)}
    for name, solver in (("NeNMF", "nenmf-paper"), ("MUR", "mu")):
        model = NMF(k, loss="frobenius", solver=solver, stop="projected-gradient", random_state=seed, max_iter=100)
        found[name] = model.fit_transform(X).argmax(axis=1)  # components have norm 1
    return {
        name: (100 * clustering_accuracy(labels, clusters), clustering_information(labels, clusters))
        for name, clusters in found.items()
    }


def clustering(sizes: Sizes) -> Result:
    """Repeat the clusterings of documents of the NeNMF paper: topics of TDT2 at random, and two other sets."""
    n_draws, counts = sizes.pick(full=(20, TOPICS), quick=(2, TOPICS[:2]))
    rows, panels, table = [], [], [["documents", "topics", "method", "accuracy, %", "mutual information"]]
    scores = {name: np.zeros((2, len(counts), n_draws)) for name in METHODS}
    terms, topics = documents("TDT2")
    cases = [("TDT2", k) for k in counts] + [(name, 0) for name in SETS if name != "TDT2"]
    for i, (name, k) in enumerate(cases):
        data, labels = (terms, topics) if k else documents(name)
        found = []
        for draw in range(n_draws):
            of = np.unique(labels)
            of = np.random.default_rng(draw).choice(of, k, replace=False) if k else of
            chosen = np.flatnonzero(np.isin(labels, of))
            found.append(clustered(data[chosen], labels[chosen], draw))
        for method in METHODS:
            values = np.array([run[method] for run in found]).T  # (2, n_draws)
            if k:
                scores[method][:, i] = values
            cells = [f"{v.mean():.{d}f} ± {v.std():.{d}f}" for v, d in zip(values, (1, 3), strict=True)]
            table.append([name, str(len(of)), method, *cells])
        what = f"{name}, {len(of)} topics: {{0}} clusters better than {{1}}, accuracy"
        accuracies = {method: [run[method][0] for run in found] for method in METHODS}
        rows += comparisons(what, accuracies, ["NeNMF"], dict.fromkeys(("k-means", "MUR"), "nothing in our text"))
    for number, y_label in enumerate(("accuracy, %", "mutual information")):
        curves = {method: mean_curve(counts, values[number]) for method, values in scores.items()}
        panels.append(Panel("TDT2", curves, x_label="topics", y_label=y_label))
    caption = f"Clusters of documents of TDT2 against the number of topics, mean and deviation of {n_draws} draws."
    return Result(rows, {caption: curve_figure(panels)}, {"All sets": table})


EXPERIMENTS = (
    Experiment(
        "nenmf/efficiency",
        "objective against iterations and seconds, made data",
        "NeNMF reduces the objective faster than the multiplicative updates, PNLS, PG, QN, CBGP, PBB, AS and BPP.",
        efficiency,
        "uniform random matrices of 500 × 100, r = 50, and 5000 × 1000, r = 100; a quick run has the first.",
        protocol=(
            "A method is near the lowest objective when it is within 0.2 % of the lowest one of all.",
            "BFGS, a search for a vector of step lengths, is left out.",
            "Seconds are CPU seconds of one thread, without the evaluation of the objective.",
        ),
    ),
    Experiment(
        "nenmf/clustering",
        "clusters of documents",
        "NeNMF is effective in clustering documents.",
        clustering,
        "TDT2, 9394 documents of 30 topics, of which 2 to 10 are drawn; BBCSport and 3Sources (BBC) whole.",
        tuple(file for file, _ in SETS.values()),
        "TDT2 is the paper's; Reuters is not at hand, and BBCSport and 3Sources stand beside it",
        (
            "Our text of the paper ends before its figures of clusters; only its abstract speaks of them.",
            "Counts are weighted by tf-idf, and a document has norm 1. Its cluster is its largest code.",
            "NeNMF and the multiplicative updates (MUR) stop by equation 22 with 1e-3, or after 100 iterations.",
        ),
    ),
)
