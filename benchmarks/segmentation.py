"""Segmentation of the 60 test photographs of BSDS500: as a user gets it, of spoilt photographs, parts, and seconds.

    python benchmarks/segmentation.py                 all parts (a quarter of an hour)
    python benchmarks/segmentation.py corrupted       one part: defaults, corrupted, partitions or seconds

The peers at their best scales, and boundaries: ``visionnmf segment evaluate``. What `segment` has learnt and its scale
come from training photographs (``segmentation_train.py``); the peers have the scale that is best for these very
photographs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from _main import main
from _photographs import SPOILERS, Image, mean, paired
from skimage.graph import cut_normalized, rag_mean_color
from skimage.segmentation import felzenszwalb, slic
from sklearn.cluster import spectral_clustering

from visionnmf.apps.segmentation import segment
from visionnmf.apps.segmentation.metrics import covering, score_segmentation
from visionnmf.apps.segmentation.parts import MOST_NODES, connection
from visionnmf.datasets.local import SegmentedImage, load_bsds

N_IMAGES = 60
SEGMENTS = 5
KINDS = tuple(SPOILERS)
FELZENSZWALB = {"scale": 800, "sigma": 0.8, "min_size": 50}  # scale and threshold: best covering of `segment evaluate`
CUT = 0.02
OTHERS = 20  # numbers of segments asked of one tree


def photographs() -> Iterator[SegmentedImage]:
    return islice(load_bsds(), N_IMAGES)


def normalised_cuts(image: Image) -> Any:
    labels = slic(image, n_segments=200, compactness=10, start_label=1)
    return cut_normalized(labels, rag_mean_color(image, labels, mode="similarity"), thresh=CUT, rng=0)


def defaults() -> None:
    """Print the scores of what a user gets."""
    print("\n| segments | covering | Rand index | variation of information, bits |\n| --- | --- | --- | --- |")
    for name, count in (("auto", None), (str(SEGMENTS), SEGMENTS)):
        found = [score_segmentation(segment(p.image, count).labels, p.segmentations) for p in photographs()]
        print(f"| {name} |", " | ".join(mean([s[k] for s in found]) for k in (2, 0, 1)), "|", flush=True)


def corrupted() -> None:
    """Print by how much covering falls, photograph by photograph, when photographs are spoilt."""
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


def partitions() -> None:
    """Print what symmetric NMF and spectral clustering of the same learnt connections give for five segments."""
    found: dict[str, list[float]] = {}
    for photograph in photographs():
        result = segment(photograph.image, SEGMENTS)
        tree = result.hierarchy
        nodes = tree.cut(n_segments=MOST_NODES)
        sizes = np.bincount(nodes, tree.sizes)
        weighted = connection(tree, nodes) * np.outer(sizes, sizes) / sizes.mean() ** 2
        labels = {"tree": result.labels}
        for loss in ("manhattan", "frobenius"):
            labels[f"symmetric NMF, {loss}"] = result.parts(SEGMENTS, loss=loss).argmax(axis=0)
        clusters = spectral_clustering(weighted, n_clusters=SEGMENTS, assign_labels="cluster_qr", random_state=0)
        labels["spectral clustering"] = clusters[nodes][tree.labels]
        for way, each in labels.items():
            found.setdefault(way, []).append(covering(each, photograph.segmentations))
    print("\n| five segments by | covering | minus the tree's |\n| --- | --- | --- |")
    for way, values in found.items():
        print(f"| {way} | {mean(values)} | {paired(values, found['tree'])} |")


def seconds() -> None:
    """Print processor seconds of the calls themselves, photograph by photograph, without imports and compiling."""
    found: dict[str, list[float]] = {}

    def clock(name: str, *calls: Callable[[], Any]) -> Any:
        begin = time.process_time()
        results = [call() for call in calls]
        found.setdefault(name, []).append((time.process_time() - begin) / len(calls))
        return results[0]

    for number, photograph in enumerate(photographs()):
        image = photograph.image
        if not number:
            segment(image).parts()  # compiles
        result = clock("segment", partial(segment, image))
        clock("Felzenszwalb", partial(felzenszwalb, image, **FELZENSZWALB))
        clock("another number of segments", *(partial(result.at, n_segments=2 + k) for k in range(OTHERS)))
        clock("another scale", *(partial(result.at, scale=0.02 + 0.6 * k / OTHERS) for k in range(OTHERS)))
        for loss in ("manhattan", "frobenius"):
            clock(f"five soft parts, {loss}", partial(result.parts, SEGMENTS, loss=loss))
    print("\n| call | median, s | largest, s |\n| --- | --- | --- |")
    for name, values in found.items():
        print(f"| {name} | {np.median(values):.4f} | {max(values):.4f} |")
    ratios = np.divide(found["segment"], found["Felzenszwalb"])
    print(f"| segment / Felzenszwalb | {np.median(ratios):.2f} | {ratios.max():.2f} |")


PARTS = {"defaults": defaults, "corrupted": corrupted, "partitions": partitions, "seconds": seconds}
QUICK = {"N_IMAGES": 2, "KINDS": ("20% black or white pixels",)}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK)
