"""Learn how strong a border is from photographs that people segmented, and write ``apps/segmentation/learnt.npz``.

Only the 200 training and the 100 validation photographs of BSDS500 are read. Textons are k-means centres of filter
responses. The strength is a sum of regression trees, fitted to the share of pairs of pixels, one on each side of a
border, that people put into different segments. The trees are fitted first on the borders of the first regions, then
twice on all borders that are met while the previous trees merge regions. The scale is the one with the best covering
out of fold: trees are learnt on every second photograph and scored on the others.

    python benchmarks/segmentation_train.py            # six minutes of processor time; writes the file
    python benchmarks/segmentation_train.py --dry-run  # out-of-fold scores only
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import cv2
import numpy as np
from _machine import machine
from _photographs import mean
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from visionnmf.apps.segmentation.cues import filter_responses, find_cues
from visionnmf.apps.segmentation.kernels import FEATURES, BorderTrees
from visionnmf.apps.segmentation.merging import FILE, BorderModel, merge_regions
from visionnmf.apps.segmentation.pictures import remove_blocks, remove_impulses, remove_noise
from visionnmf.apps.segmentation.regions import Partition, find_regions, measure
from visionnmf.apps.segmentation.segmenter import WORKING_PIXELS
from visionnmf.datasets.local import load_bsds
from visionnmf.features import reduce_image

N_TEXTONS = 32
RESPONSES = 1000  # taken from each photograph, for the textons
TREES, LEAVES, RATE, SMALLEST_LEAF = 150, 31, 0.08, 60  # 60 trees of 8 leaves lose 0.007
ROUNDS = 2
RECORDED = 20_000
DRAWN = 0.5  # of the borders; with two fifths of them the covering out of fold was 0.6244, with all of them 0.6241
SCALES = np.linspace(0.02, 0.7, 69)


class Photograph(NamedTuple):
    """A photograph; `tables` count the pixels of each region in each segment, with one table for each annotator."""

    partition: Partition
    tables: list[np.ndarray]


def learn_textons(images: list[np.ndarray]) -> np.ndarray:
    """Cluster filter responses at random pixels."""
    rng = np.random.default_rng(0)
    chosen = []
    for image in images:
        lightness = cv2.cvtColor(reduce_image(image, WORKING_PIXELS), cv2.COLOR_RGB2LAB)[..., 0]
        responses = filter_responses(np.ascontiguousarray(lightness)).reshape(-1, 10)
        chosen.append(responses[rng.choice(len(responses), RESPONSES, replace=False)])
    found = KMeans(N_TEXTONS, n_init=1, max_iter=40, random_state=0).fit(np.concatenate(chosen))
    return found.cluster_centers_.astype(np.float32)


def look_at(image: np.ndarray, annotations: np.ndarray, textons: np.ndarray) -> Photograph:
    """Measure a photograph, and count the pixels that people's segments share with its first regions."""
    clean = remove_impulses(remove_blocks(image))
    cues = find_cues(remove_noise(reduce_image(clean, WORKING_PIXELS)), textons)
    partition = measure(cues, find_regions(cues.energy))
    n, flat = len(partition.regions), partition.labels.ravel().astype(np.int64)
    tables = []
    for truth in annotations:
        count = int(truth.max()) + 1
        tables.append(np.bincount(flat * count + truth.ravel(), minlength=n * count).reshape(n, count))
    return Photograph(partition, tables)


def add_merges(table: np.ndarray, children: np.ndarray) -> np.ndarray:
    """Return the rows of the regions in a table, and below them those of all merges, which are sums of two rows."""
    n = len(table)
    nodes = np.concatenate([table, np.zeros((n - 1, table.shape[1]))])
    for merge, (i, j) in enumerate(children):
        nodes[n + merge] = nodes[i] + nodes[j]
    return nodes


def examples(photographs: list[Photograph], learnt: BorderModel, first: bool) -> tuple[np.ndarray, ...]:
    """Return features, targets and weights of borders: the first ones, or all that the merging meets."""
    features, targets, weights = [], [], []
    smaller = FEATURES.index("log share of the smaller")
    for partition, tables in photographs:
        recorded = len(partition.edges) if first else RECORDED
        merged = merge_regions(partition, learnt, n_recorded=recorded)
        apart = np.zeros(len(merged.pairs))
        for table in tables:
            nodes = add_merges(table, merged.children)
            a, b = nodes[merged.pairs[:, 0]], nodes[merged.pairs[:, 1]]
            apart += 1 - (a * b).sum(axis=1) / (a.sum(axis=1) * b.sum(axis=1))
        features.append(merged.features.astype(np.float32))
        targets.append(apart / len(tables))
        weight = np.exp(merged.features[:, smaller] / 2)
        weights.append(weight / weight.sum())
    return np.concatenate(features), np.concatenate(targets), np.concatenate(weights)


def fit_trees(features: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> tuple[BorderTrees, float]:
    """Fit regression trees to a part of the borders, and return them as plain arrays, children side by side."""
    # heavy borders are drawn more often, and then count less; the weights have a mean of 1
    chance = np.minimum(DRAWN * weights / weights.mean(), 1)
    drawn = np.random.default_rng(0).random(len(chance)) < chance
    features, targets, weights = features[drawn], targets[drawn], (weights / chance)[drawn]
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


def learn(photographs: list[Photograph], textons: np.ndarray) -> BorderModel:
    """Fit the trees on photographs."""
    leaf = (np.zeros(1, np.int32), np.full(1, -1, np.int8), *(np.zeros(1, t) for t in ("f4", "i4", "f4")))
    learnt = BorderModel(textons, BorderTrees(*leaf), 0.5, 0.5)
    rounds = [examples(photographs, learnt, first=True)]
    learnt = BorderModel(textons, *fit_trees(*rounds[0]), 0.5)
    for _ in range(ROUNDS):
        rounds = [*rounds[1:], examples(photographs, learnt, first=False)][-2:]
        learnt = BorderModel(textons, *fit_trees(*(np.concatenate(part) for part in zip(*rounds, strict=True))), 0.5)
    return learnt


def score(photographs: list[Photograph], learnt: BorderModel) -> np.ndarray:
    """Return the covering of each photograph at each scale."""
    found = np.empty((len(photographs), len(SCALES)))
    for row, (partition, tables) in zip(found, photographs, strict=True):
        merged = merge_regions(partition, learnt)
        n, sizes = len(partition.regions), np.concatenate([table.sum(axis=0) for table in tables])
        nodes = [add_merges(table, merged.children) for table in tables]
        overlaps = np.concatenate(
            [each / np.maximum(each.sum(axis=1, keepdims=True) + each[-1] - each, 1) for each in nodes], axis=1
        )
        made = np.append(np.zeros(n), np.arange(1, n))  # the number of merges with which a node begins
        joined = np.full(2 * n - 1, n)  # and with which it ends
        joined[merged.children] = np.arange(1, n)[:, np.newaxis]
        for place, done in enumerate(np.searchsorted(merged.heights, SCALES, side="right")):
            row[place] = overlaps[(made <= done) & (joined > done)].max(axis=0) @ sizes / sizes.sum()
    return found


def report(found: np.ndarray, best: int) -> str:
    """Describe coverings (n_photographs, n_scales) at the scale that is best for all, and at the best of each."""
    return (
        f"scale {SCALES[best]:.2f}: covering {mean(found[:, best])}; "
        f"best scale of each photograph: covering {mean(found.max(axis=1))}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    options = parser.parse_args()
    print(machine())
    with threadpool_limits(1, user_api="blas"):
        training = [*load_bsds("train"), *load_bsds("val")]
        textons = learn_textons([photograph.image for photograph in training])
        photographs = [look_at(p.image, p.segmentations, textons) for p in training]
        n_regions = np.mean([len(photograph.partition.regions) for photograph in photographs])
        print(f"{len(photographs)} photographs, {n_regions:.0f} regions each")
        found = np.empty((len(photographs), len(SCALES)))
        for fold in (0, 1):
            found[fold::2] = score(photographs[fold::2], learn(photographs[1 - fold :: 2], textons))
        best = int(found.mean(axis=0).argmax())
        print("out of fold,", report(found, best))
        if options.dry_run:
            return
        learnt = learn(photographs, textons)
        learnt = BorderModel(learnt.textons, learnt.trees, learnt.base, float(SCALES[best].round(4)))
        numbers = {"textons": learnt.textons, "base": learnt.base, "scale": learnt.scale}
        np.savez_compressed(FILE, **numbers, **learnt.trees._asdict())
        print(f"{len(learnt.trees[1])} nodes in {len(learnt.trees[0])} trees; wrote {FILE.name}")


if __name__ == "__main__":
    main()
