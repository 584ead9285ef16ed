"""Segmentation of 60 test photographs of BSDS500: by default, of spoilt photographs, superpixels, and seconds.

    python benchmarks/segmentation.py                 all parts (a quarter of an hour)
    python benchmarks/segmentation.py corrupted       one part: defaults, boundaries, corrupted, small, superpixels,
                                                      wrong, seconds

``visionnmf evaluate segment`` scores the other methods at their best scales. The borders and the scale
of `segment` were learnt on training photographs (``segmentation_train.py``); the other methods have the scale that is
best for these very photographs.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import cv2
import numpy as np
from _boundaries import count_matches, label_boundaries, score_boundaries
from _main import main
from _photographs import SPOILERS, Image, mean, paired
from skimage.graph import cut_normalized, rag_mean_color
from skimage.segmentation import felzenszwalb, slic
from sklearn.cluster import spectral_clustering
from sklearn.exceptions import ConvergenceWarning

from visionnmf import SymmetricNMF
from visionnmf.apps.reproduce.data import Photograph, load_photographs
from visionnmf.apps.segmentation import segment, segmenter
from visionnmf.apps.segmentation.scores import contingency_table, covering, score_segmentation
from visionnmf.apps.segmentation.soft_parts import tree_connection

N_IMAGES = 60
SEGMENTS = 5
SCALES = tuple(np.linspace(0.02, 0.7, 35).round(4).tolist())  # at which boundaries are matched
KINDS = tuple(SPOILERS)
FELZENSZWALB = {"scale": 800, "sigma": 0.8, "min_size": 50}  # best for these 60 photographs
CUT = 0.001  # best for 21 of them
SMALL = (48, 80, 120, 160, 240)  # pixels of the longer side of reduced photographs
SMALL_SCALES = (10, 30, 100, 300, 800)  # of Felzenszwalb's method, of which the best for each size counts
SUPERPIXELS = (300, 1000)
LOSSES = ("manhattan", "frobenius")
WRONG = (0.0, 0.1, 0.3, 0.5)  # shares of the entries of an affinity of NODES groups of regions
NODES = 150
OTHERS = 20  # numbers of segments asked of one tree


def photographs() -> Iterator[Photograph]:
    return islice(load_photographs(), N_IMAGES)


def normalised_cuts(image: Image) -> Any:
    labels = slic(image, n_segments=200, compactness=10, start_label=1)
    return cut_normalized(labels, rag_mean_color(image, labels, mode="similarity"), thresh=CUT, rng=0)


def defaults() -> None:
    """Print the scores of the default number of segments, and of five, by each method."""
    print("\n| method | segments | covering | Rand index | variation of information, bits |\n|" + " --- |" * 5)
    for method, loss in (("tree", None), ("nmf", "manhattan"), ("nmf", "frobenius")):
        name = method if method == "tree" else f"{method}, {loss}"
        for count in (None, SEGMENTS):
            found = [
                score_segmentation(segment(p.image, count, method=method, loss=loss).labels, p.segmentations)
                for p in photographs()
            ]
            scores = " | ".join(mean([s[k] for s in found]) for k in (2, 0, 1))
            print(f"| {name} | {count or 'auto'} | {scores} |", flush=True)


def boundaries() -> None:
    """Print the scores of the boundaries of `segment`, matched with those of people."""
    counts = []
    for photograph in photographs():
        truths = [label_boundaries(labels) for labels in photograph.segmentations]
        result = segment(photograph.image)
        counts.append([count_matches(label_boundaries(result.at(scale=scale)), truths) for scale in SCALES])
    scores = score_boundaries(counts)
    print("\n| boundary F, ODS | OIS | average precision | precision at ODS | recall at ODS |\n|" + " --- |" * 5)
    print("| " + " | ".join(f"{score:.3f}" for score in scores) + " |", flush=True)


def corrupted() -> None:
    """Print how much covering falls, photograph by photograph, when photographs are spoilt."""
    ways: dict[str, Callable[[Image], Any]] = {
        "segment": lambda image: segment(image).labels,
        "Felzenszwalb": lambda image: felzenszwalb(image, **FELZENSZWALB),
        "SLIC + normalised cuts": normalised_cuts,
    }
    clean = {way: [covering(find(p.image), p.segmentations) for p in photographs()] for way, find in ways.items()}
    print("\n| photographs | " + " | ".join(f"{way} | minus clean" for way in ways) + " |\n|" + " --- |" * 7)
    print("| clean |", " | ".join(f"{mean(clean[way])} | " for way in ways), "|", flush=True)
    for kind in KINDS:
        cells = []
        for way, find in ways.items():
            spoil = SPOILERS[kind]
            found = [covering(find(spoil(p.image, i)), p.segmentations) for i, p in enumerate(photographs())]
            cells += [mean(found), paired(found, clean[way])]
        print(f"| {kind} |", " | ".join(cells), "|", flush=True)


def small() -> None:
    """Print covering of reduced photographs, with and without enlarging them, and that of a peer at its best scale."""
    print("\n| longer side | segment | minus not enlarged | Felzenszwalb |\n| --- | --- | --- | --- |")
    for side in SMALL:
        enlarged, plain, others = [], [], []
        for photograph in photographs():
            height, width = photograph.image.shape[:2]
            size = round(width * side / max(height, width)), round(height * side / max(height, width))
            image = cv2.resize(photograph.image, size, interpolation=cv2.INTER_AREA)
            people = [cv2.resize(each, size, interpolation=cv2.INTER_NEAREST) for each in photograph.segmentations]
            enlarged.append(covering(segment(image).labels, people))
            fewest, segmenter.FEWEST_PIXELS = segmenter.FEWEST_PIXELS, 0
            plain.append(covering(segment(image).labels, people))
            segmenter.FEWEST_PIXELS = fewest
            found = [felzenszwalb(image, scale=scale, sigma=0.5, min_size=20) for scale in SMALL_SCALES]
            others.append([covering(labels, people) for labels in found])
        best = np.transpose(others)[np.argmax(np.mean(others, axis=0))]
        print(f"| {side} | {mean(enlarged)} | {paired(enlarged, plain)} | {mean(best)} |", flush=True)


def cluster(affinity: Any, sizes: Any) -> Any:
    weighted = affinity * np.outer(sizes, sizes)
    return spectral_clustering(weighted, n_clusters=SEGMENTS, assign_labels="cluster_qr", random_state=0)


def superpixels() -> None:
    """Print the achievable accuracy of superpixels: the share of pixels in regions of people that hold most of each."""
    print("\n| superpixels asked for | fewest found | segment | SLIC |\n| --- | --- | --- | --- |")
    for count in SUPERPIXELS:
        found = [(segment(p.image, count).labels, slic(p.image, count), p.segmentations) for p in photographs()]
        tables = [[[contingency_table(each, truth) for truth in truths] for each in pair] for *pair, truths in found]
        ours, others = ([np.mean([t.max(axis=1).sum() / t.sum() for t in own[k]]) for own in tables] for k in (0, 1))
        print(
            f"| {count} | {min(int(own.max()) + 1 for own, *_ in found)} | {mean(ours)} | {mean(others)} |", flush=True
        )


def spoil_entries(affinity: Any, share: float, seed: int) -> Any:
    """Replace a share of the entries of an affinity by random numbers from 0 to 1."""
    rng, spoilt = np.random.default_rng(seed), np.triu(affinity, 1)
    wrong = np.triu(rng.random(spoilt.shape) < share, 1)
    spoilt[wrong] = rng.random(np.count_nonzero(wrong))
    return spoilt + spoilt.T + np.eye(len(spoilt))


def spoilt_coverings() -> dict[str, dict[float, list[float]]]:
    """Return the coverings of five segments by each method and share of wrong entries in the affinity."""
    found: dict[str, dict[float, list[float]]] = {}
    for seed, photograph in enumerate(photographs()):
        tree = segment(photograph.image).hierarchy
        nodes = tree.cut(n_segments=NODES)
        sizes = np.bincount(nodes, tree.sizes)
        if len(sizes) <= 2 * SEGMENTS:
            continue
        sizes, clean = sizes / sizes.mean(), tree_connection(tree, nodes)
        for share in WRONG:
            affinity = spoil_entries(clean, share, seed)
            labels = {"spectral clustering": cluster(affinity, sizes)}
            for loss in LOSSES:
                model = SymmetricNMF(SEGMENTS, loss=loss, n_init=2, max_iter=40, tol=1e-3, random_state=0)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    codes = model.fit_transform(affinity, sample_weight=sizes)
                labels[f"symmetric NMF, {loss.title()}"] = codes.argmax(axis=1)
            for way, each in labels.items():
                scores = found.setdefault(way, {}).setdefault(share, [])
                scores.append(covering(each[nodes][tree.labels], photograph.segmentations))
    return found


def wrong() -> None:
    """Print the covering of five segments when some entries of the affinity, heights in the tree, are wrong."""
    found = spoilt_coverings()
    base = found["spectral clustering"]
    print("\n| five segments by |", " | ".join(f"{s:.0%} wrong | minus spectral" for s in WRONG), "|")
    print("| --- |" + " --- |" * 2 * len(WRONG))
    for way, scores_of in found.items():
        cells = [f"{mean(scores_of[share])} | {paired(scores_of[share], base[share])}" for share in WRONG]
        print(f"| {way} |", " | ".join(cells), "|", flush=True)
    losses = [found[f"symmetric NMF, {loss.title()}"] for loss in LOSSES]
    cells = [f"| {paired(losses[0][share], losses[1][share])}" for share in WRONG]
    print("| Manhattan minus Frobenius |", " | ".join(cells), "|", flush=True)


def seconds() -> None:
    """Print processor seconds of the calls, without imports and compiling."""
    found: dict[str, list[float]] = {}

    def clock(name: str, *calls: Callable[[], Any]) -> Any:
        begin = time.process_time()
        results = [call() for call in calls]
        found.setdefault(name, []).append((time.process_time() - begin) / len(calls))
        return results[0]

    for number, photograph in enumerate(photographs()):
        image = photograph.image
        if not number:
            segment(image)  # compiles
        result = clock("segment", partial(segment, image))
        clock("Felzenszwalb", partial(felzenszwalb, image, **FELZENSZWALB))
        clock("another number of segments", *(partial(result.at, n_segments=2 + k) for k in range(OTHERS)))
        clock("another scale", *(partial(result.at, scale=0.02 + 0.6 * k / OTHERS) for k in range(OTHERS)))
        clock("five segments by NMF", partial(segment, image, SEGMENTS, method="nmf"))
    print("\n| call | median, s | largest, s |\n| --- | --- | --- |")
    for name, values in found.items():
        print(f"| {name} | {np.median(values):.4f} | {max(values):.4f} |")
    ratios = np.divide(found["segment"], found["Felzenszwalb"])
    print(f"| segment / Felzenszwalb | {np.median(ratios):.2f} | {ratios.max():.2f} |")


PARTS = {
    "defaults": defaults,
    "boundaries": boundaries,
    "corrupted": corrupted,
    "small": small,
    "superpixels": superpixels,
    "wrong": wrong,
    "seconds": seconds,
}
QUICK = {
    "N_IMAGES": 2,
    "SMALL": (48,),
    "SUPERPIXELS": (200,),
    "SCALES": (0.36,),
    "KINDS": ("20% black or white pixels",),
}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK)
