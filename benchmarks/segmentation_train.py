"""Learn how strong a border is from photographs that people segmented, and write ``apps/segmentation/learnt.npz``.

The 200 training and 100 validation photographs of BSDS500 are read. Each is looked at by the network that was trained
without it (``boundary_train.py``), because trees would trust one that knows the photograph too much. The strength is
a sum of regression trees, fitted to the share of pairs of pixels, one on each side of a border, that people put into
different segments. The trees are fitted first on the borders of the first regions, then twice on all borders that are
met while the previous trees merge regions. The scale is the one with the best covering out of fold: trees are learnt on
every second photograph and scored on the others.

    python benchmarks/segmentation_train.py FOLDER            # of even.npz and odd.npz; writes the file
    python benchmarks/segmentation_train.py FOLDER --dry-run  # out-of-fold scores only
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _machine import machine
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from visionnmf.apps.reproduce.data import load_photographs
from visionnmf.apps.segmentation.cues import find_cues
from visionnmf.apps.segmentation.hierarchy import Hierarchy
from visionnmf.apps.segmentation.kernels import FEATURES, BorderTrees
from visionnmf.apps.segmentation.network import load_network
from visionnmf.apps.segmentation.regions import FILE, BorderModel, Partition, find_regions, measure, merge_regions
from visionnmf.apps.segmentation.scores import score_tables
from visionnmf.features import reduce_image

TREES, LEAVES, RATE, SMALLEST_LEAF = 150, 31, 0.08, 60  # 60 trees of 8 leaves lose 0.007
ROUNDS = 2
RECORDED, EVERY = 20_000, 2  # borders of a photograph; of those met in merging, every second one is learnt from
SCALES = np.linspace(0.02, 0.7, 69)


class Photograph(NamedTuple):
    """A photograph; `tables` count the pixels of each region in each segment, with one table for each annotator."""

    partition: Partition
    tables: list[np.ndarray]


def look_at(image: np.ndarray, annotations: list[np.ndarray], network: dict[str, np.ndarray]) -> Photograph:
    """Measure a photograph, and count the pixels that people's segments share with its first regions."""
    cues = find_cues(reduce_image(image, 2**18), network)
    partition = measure(cues, find_regions(cues.energy))
    n, flat = len(partition.regions), partition.labels.ravel().astype(np.int64)
    tables = []
    for truth in annotations:
        count = int(truth.max()) + 1
        tables.append(np.bincount(flat * count + truth.ravel(), minlength=n * count).reshape(n, count))
    return Photograph(partition, tables)


def examples(photographs: list[Photograph], learnt: BorderModel, first: bool) -> tuple[np.ndarray, ...]:
    """Return features, targets and weights of borders: the first ones, or all that the merging meets."""
    features, targets, weights = [], [], []
    smaller = FEATURES.index("log share of the smaller")
    for partition, tables in photographs:
        recorded = len(partition.edges) if first else RECORDED
        merged = merge_regions(partition, learnt, n_recorded=recorded)
        apart = np.zeros(len(merged.pairs))
        for table in tables:
            nodes = np.concatenate([table, np.zeros((len(table) - 1, table.shape[1]))])
            for merge, (i, j) in enumerate(merged.children):
                nodes[len(table) + merge] = nodes[i] + nodes[j]
            a, b = nodes[merged.pairs[:, 0]], nodes[merged.pairs[:, 1]]
            apart += 1 - (a * b).sum(axis=1) / (a.sum(axis=1) * b.sum(axis=1))
        features.append(merged.features.astype(np.float32))
        targets.append(apart / len(tables))
        weight = np.exp(merged.features[:, smaller] / 2)
        weights.append(weight / weight.sum())
    kept = slice(None, None, 1 if first else EVERY)
    return tuple(np.concatenate(part)[kept] for part in (features, targets, weights))


def fit_trees(features: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> tuple[BorderTrees, float]:
    """Fit regression trees, and return them as plain arrays, children side by side."""
    model = HistGradientBoostingRegressor(
        max_iter=TREES,
        max_leaf_nodes=LEAVES,
        learning_rate=RATE,
        min_samples_leaf=SMALLEST_LEAF,
        early_stopping=False,
        random_state=0,
    ).fit(features, targets, weights / weights.mean())
    rows: list[list[float]] = []  # feature, threshold, left child, value
    roots = []
    for (tree,) in model._predictors:
        roots.append(len(rows))
        waiting = [(0, len(rows))]
        rows.append([])
        for node, place in waiting:
            record = tree.nodes[node]
            if record["is_leaf"]:
                rows[place] = [-1, 0, 0, record["value"]]
                continue
            rows[place] = [record["feature_idx"], record["num_threshold"], len(rows), 0]
            waiting += [(record["left"], len(rows)), (record["right"], len(rows) + 1)]
            rows += [[], []]
    table = np.array(rows)
    trees = BorderTrees(
        np.array(roots, np.int32),
        table[:, 0].astype(np.int8),
        table[:, 1].astype(np.float32),
        table[:, 2].astype(np.int32),
        table[:, 3].astype(np.float32),
    )
    return trees, float(np.ravel(model._baseline_prediction)[0])


def learn(photographs: list[Photograph]) -> BorderModel:
    """Fit the trees on photographs."""
    leaf = (np.zeros(1, np.int32), np.full(1, -1, np.int8), *(np.zeros(1, t) for t in ("f4", "i4", "f4")))
    learnt = BorderModel(BorderTrees(*leaf), 0.5, 0.5)
    rounds = [examples(photographs, learnt, first=True)]
    learnt = BorderModel(*fit_trees(*rounds[0]), 0.5)
    for _ in range(ROUNDS):
        rounds = [*rounds[1:], examples(photographs, learnt, first=False)][-2:]
        learnt = BorderModel(*fit_trees(*(np.concatenate(part) for part in zip(*rounds, strict=True))), 0.5)
    return learnt


def tree_of(photograph: Photograph, learnt: BorderModel) -> Hierarchy:
    partition = photograph.partition
    merged = merge_regions(partition, learnt)
    return Hierarchy(partition.labels, partition.edges, merged.children, merged.heights, merged.strengths)


def score(photographs: list[Photograph], learnt: BorderModel, scales: np.ndarray = SCALES) -> np.ndarray:
    """Return covering, Rand index and variation of information of each photograph at each scale."""
    found = np.empty((len(photographs), len(scales), 3))
    for rows, photograph in zip(found, photographs, strict=True):
        tree, tables = tree_of(photograph, learnt), photograph.tables
        for row, scale in zip(rows, scales, strict=True):
            cut = tree.cut(scale=scale)
            sums = [np.zeros((cut.max() + 1, table.shape[1])) for table in tables]
            for total, table in zip(sums, tables, strict=True):
                np.add.at(total, cut, table)
            scores = score_tables([total[:, total.any(axis=0)] for total in sums])
            row[:] = scores.covering, scores.pri, scores.voi
    return found


def report(found: np.ndarray, best: int) -> str:
    means = found.mean(axis=0)
    return (
        f"scale {SCALES[best]:.2f}: covering {means[best, 0]:.4f}, Rand index {means[best, 1]:.4f}, "
        f"variation of information {means[best, 2]:.3f}; best scale a photograph: covering "
        f"{found[..., 0].max(axis=1).mean():.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the networks even.npz and odd.npz")
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    options = parser.parse_args()
    print(machine())
    with threadpool_limits(1, user_api="blas"):
        training = [p for folder in ("bsds_train", "bsds_val") for p in load_photographs(folder)]
        others = [load_network(options.folder / f"{name}.npz") for name in ("odd", "even")]
        photographs = [look_at(p.image, p.segmentations, others[k % 2]) for k, p in enumerate(training)]
        n_regions = np.mean([len(photograph.partition.regions) for photograph in photographs])
        print(f"{len(photographs)} photographs, {n_regions:.0f} regions each")
        found = np.empty((len(photographs), len(SCALES), 3))
        for fold in (0, 1):
            found[fold::2] = score(photographs[fold::2], learn(photographs[1 - fold :: 2]))
        best = int(found[..., 0].mean(axis=0).argmax())
        print("out of fold,", report(found, best))
        if options.dry_run:
            return
        learnt = learn(photographs)
        learnt = BorderModel(learnt.trees, learnt.base, float(SCALES[best].round(4)))
        numbers = {"base": learnt.base, "scale": learnt.scale}
        np.savez_compressed(FILE, **numbers, **learnt.trees._asdict())
        print(f"{len(learnt.trees[1])} nodes in {len(learnt.trees[0])} trees; wrote {FILE.name}")


if __name__ == "__main__":
    main()
