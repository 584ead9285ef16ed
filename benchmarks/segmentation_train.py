"""Learn from photographs that people segmented what `segment` knows, and write its two files.

Three small networks are trained (``_boundary_network.py``): one on every second photograph, one on the others, and one
on all, which becomes ``apps/segmentation/network.npz``. Trees then learn how strong a border is, for ``learnt.npz``.
They learn from what a network finds in photographs that it never saw, because they would trust one that knows the
photograph too much. The strength is a sum of regression trees, fitted to the share of pairs of pixels, one on each side
of a border, that people put into different segments. The trees are fitted first on the borders of the first regions,
then twice on all borders that are met while the previous trees merge regions. The scale is the one with the best
covering out of fold: trees are learnt on every second photograph and scored on the others.

    python benchmarks/segmentation_train.py FOLDER                     # on the 300 photographs of BSDS500
    python benchmarks/segmentation_train.py FOLDER --photographs MINE  # on those of your own

FOLDER gets the checkpoints, from which a run that was ended goes on. MINE has pictures NAME.jpg, with at least 320
pixels on the shorter side once they are reduced to 2^18, and beside each what people drew: NAME.npz, NAME.mat or
NAME_1.png, NAME_2.png, ..., as for ``visionnmf evaluate segment``. A step takes about 0.12 s of one core.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from _machine import machine
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from visionnmf.apps.reproduce import data
from visionnmf.apps.segmentation.cues import find_cues
from visionnmf.apps.segmentation.hierarchy import Hierarchy
from visionnmf.apps.segmentation.kernels import FEATURES, BorderTrees
from visionnmf.apps.segmentation.network import FILE as NETWORK, load_network
from visionnmf.apps.segmentation.regions import FILE, BorderModel, Partition, find_regions, measure, merge_regions
from visionnmf.apps.segmentation.scores import score_tables

TREES, LEAVES, RATE, SMALLEST_LEAF = 150, 31, 0.08, 60  # 60 trees of 8 leaves lose 0.007
ROUNDS = 2
RECORDED, EVERY = 20_000, 2  # borders of a photograph; of those met in merging, every second one is learnt from
SCALES = np.linspace(0.02, 0.7, 69)
STEPS, PIXELS, SHORTEST = 7000, 2**18, 320


class Photograph(NamedTuple):
    """A photograph; `tables` count the pixels of each region in each segment, with one table for each annotator."""

    partition: Partition
    tables: list[np.ndarray]


def load_photographs(folders: list[Path]) -> list[data.Photograph]:
    """Read photographs and what people drew on them, reduced to PIXELS."""
    found = []
    for photograph in (each for folder in folders for each in data.load_photographs(folder)):
        name, image, people = photograph.name, photograph.image, photograph.segmentations
        height, width = image.shape[:2]
        times = min(1.0, (PIXELS / (height * width)) ** 0.5)
        size = int(width * times), int(height * times)
        if min(size) < SHORTEST:
            raise SystemExit(
                f"{name}: {size[0]} x {size[1]} pixels; leave it out, because a side has less than {SHORTEST}"
            )
        if times < 1:
            image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
            people = [cv2.resize(p.astype(np.int32), size, interpolation=cv2.INTER_NEAREST) for p in people]
        found.append(data.Photograph(name, image, people))
    if len(found) < 8:
        raise SystemExit(f"{len(found)} photographs that people segmented; give at least 8, better hundreds")
    return found


def look_at(image: np.ndarray, annotations: list[np.ndarray], network: dict[str, np.ndarray]) -> Photograph:
    """Measure a photograph, and count the pixels that people's segments share with its first regions."""
    cues = find_cues(image / np.float32(255), network)
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


def score(photographs: list[Photograph], learnt: BorderModel) -> np.ndarray:
    """Return covering, Rand index and variation of information of each photograph at each scale."""
    found = np.empty((len(photographs), len(SCALES), 3))
    for rows, photograph in zip(found, photographs, strict=True):
        tree, tables = tree_of(photograph, learnt), photograph.tables
        for row, scale in zip(rows, SCALES, strict=True):
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
    parser.add_argument("folder", type=Path, help="of the checkpoints")
    standard = [Path("bsds_train"), Path("bsds_val")]
    parser.add_argument("--photographs", type=Path, nargs="+", default=standard, help="folders; default BSDS500's")
    parser.add_argument(
        "--steps", type=int, default=STEPS, help=f"of each network; 0 takes those there; default {STEPS}"
    )
    parser.add_argument("--dry-run", action="store_true", help="only print out-of-fold scores")
    options = parser.parse_args()
    print(machine())
    with threadpool_limits(1, user_api="blas"):
        training = load_photographs(options.photographs)
        files = [options.folder / f"{name}.npz" for name in ("odd", "even", "all")]
        if options.steps:
            from _boundary_network import train

            halves = training[1::2], training[::2]
            for file, learnt_from, others in zip(files, (*halves, training), (*halves[::-1], []), strict=True):
                if file.stem != "all" or not options.dry_run:
                    train(file.stem, learnt_from, others, options.folder, options.steps)
        networks = [load_network(file) for file in files[:2]]
        photographs = [look_at(p.image, p.segmentations, networks[k % 2]) for k, p in enumerate(training)]
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
        shutil.copyfile(files[2], NETWORK)
        print(f"{len(learnt.trees[1])} nodes in {len(learnt.trees[0])} trees; wrote {FILE} and {NETWORK}")


if __name__ == "__main__":
    main()
