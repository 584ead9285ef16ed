"""Segmentation quality on the Berkeley photographs, beside k-means and spectral clustering.

    python benchmarks/segmentation.py                 all 60 images (about ten minutes on two cores)
    python benchmarks/segmentation.py --images 20     the first 20
    python benchmarks/segmentation.py --no-paper      without the row of the paper's own affinity

Needs the folder ``bsds`` of the research data (``../shared/data``, or where VISIONNMF_DATA points). Every parameter of
`segment` was chosen on the first 20 images by number; the other 40 were looked at only by this script.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from collections.abc import Callable

import cv2
import numpy as np
from _machine import machine
from metrics import score_segmentation
from sklearn.cluster import KMeans, spectral_clustering

from visionnmf import SymmetricNMF
from visionnmf.apps.segmentation import region_affinity, segment
from visionnmf.datasets.local import load_bsds
from visionnmf.features import (
    find_superpixels,
    geodesic_affinity,
    geodesic_distances,
    proximity_affinity,
    reduce_image,
)

SEGMENTS = RANK = 5
SEEDS = 3  # of ours; the peers, which vary less, run with one
CHOSEN_ON = 20

OURS = "**visionnmf segment**"
Row = tuple[float, float, float, float]  # PRI, VoI, covering, seconds


def grid(shape: tuple[int, int], side: int) -> np.ndarray:
    rows, columns = (np.arange(length) * side // length for length in shape)
    return rows[:, np.newaxis] * side + columns


def k_means(image: np.ndarray, xy_scale: float | None, seed: int) -> np.ndarray:
    """Cluster pixels by CIELAB and position; each feature has unit variance when `xy_scale` is None."""
    lab = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB).reshape(-1, 3)
    rows, columns = np.indices(image.shape[:2]).reshape(2, -1)
    place = np.stack([rows, columns], axis=1).astype(np.float32)
    features = np.hstack([lab, place * (1 if xy_scale is None else xy_scale)])
    if xy_scale is None:
        features = (features - features.mean(axis=0)) / features.std(axis=0)
    return KMeans(SEGMENTS, n_init=3, random_state=seed).fit_predict(features).reshape(image.shape[:2])


def spectral(affinity: np.ndarray, weights: np.ndarray | None, assign: str, seed: int) -> np.ndarray:
    if weights is not None:
        affinity = affinity * np.outer(weights, weights)  # the pixels' graph, with superpixels for nodes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "graph is not fully connected": a fact about the image
        return spectral_clustering(affinity, n_clusters=SEGMENTS, assign_labels=assign, random_state=seed)


def as_in_the_paper(regions, weights: np.ndarray, seed: int) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Use the affinity of MahNMF 5.3.2 on superpixels, normalised; random starts; plain k-means of the codes."""
    affinity = proximity_affinity(regions.colours, regions.centres)
    degrees = affinity @ weights
    model = SymmetricNMF(RANK, n_init=4, tol=1e-3, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        codes = model.fit_transform(affinity / np.sqrt(np.outer(degrees, degrees)), sample_weight=weights)
    return KMeans(SEGMENTS, n_init=10, random_state=seed).fit_predict(codes, sample_weight=weights)


def methods(image: np.ndarray, paper: bool) -> dict[str, Callable[[int], np.ndarray]]:
    """Return the methods by name; each takes a seed and returns a label map."""
    regions = find_superpixels(reduce_image(image, 10**6))
    weights = regions.sizes / regions.sizes.mean()
    kept = {
        "the model's affinity": region_affinity(regions, RANK),
        "the same before diffusion": geodesic_affinity(
            geodesic_distances(regions.colours, regions.edges), regions.sizes
        ),
    }
    rows: dict[str, Callable[[int], np.ndarray]] = {
        OURS: lambda seed: segment(image, SEGMENTS, n_components=RANK, random_state=seed).labels,
        "k-means, Lab + xy, standardised": lambda seed: k_means(image, None, seed),
        "k-means, Lab + .1 xy": lambda seed: k_means(image, 0.1, seed),
    }
    forms = itertools.product(kept, ("sizes", "no sizes"), ("kmeans", "cluster_qr"))
    for affinity, sizes, assign in forms:
        rows[f"spectral, {affinity}, {sizes}, {assign}"] = (
            lambda seed, A=kept[affinity], c=weights if sizes == "sizes" else None, assign=assign: spectral(
                A, c, assign, seed
            )[regions.labels]
        )
    if paper:
        rows["symmetric NMF, the paper's affinity"] = lambda seed: as_in_the_paper(regions, weights, seed)[
            regions.labels
        ]
    for name, side in (("whole image", 1), ("2 x 2 grid", 2), ("4 x 4 grid", 4)):
        rows[name] = lambda seed, side=side: grid(image.shape[:2], side)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--no-paper", action="store_true")
    options = parser.parse_args()

    segment(np.zeros((64, 64, 3), np.uint8) + np.arange(64, dtype=np.uint8)[:, np.newaxis], 3)  # compile first
    table: dict[str, list[list[Row]]] = {}
    for photograph in itertools.islice(load_bsds(), options.images):
        print(photograph.name, end=" ", file=sys.stderr, flush=True)
        for name, method in methods(photograph.image, not options.no_paper).items():
            rows = []
            for seed in range(SEEDS if name == OURS else 1):
                begin = time.perf_counter()
                labels = method(seed)
                seconds = time.perf_counter() - begin
                rows.append((*score_segmentation(labels, photograph.segmentations), seconds))
            table.setdefault(name, []).append(rows)

    print(machine())
    print(
        f"\n{SEGMENTS} segments, rank {RANK}; mean over images (ours: and {SEEDS} seeds; ± their standard deviation). "
        "Ours better by: difference in covering over all images, ± its standard error\n"
    )
    parts = {f"first {CHOSEN_ON}": slice(0, CHOSEN_ON), "the others": slice(CHOSEN_ON, None), "all": slice(None)}
    print(
        "| method | "
        + " | ".join(f"{part}: PRI / VoI / covering" for part in parts)
        + " | ours better by | s an image |"
    )
    print("| --- |" + " --- |" * (len(parts) + 2))
    ours = np.array([np.mean(rows, axis=0) for rows in table[OURS]])
    for name, images in table.items():
        cells = []
        for part in parts.values():
            values = np.array(images[part])  # images, seeds, scores
            if not values.size:
                cells.append("")
                continue
            pri, voi, covering = values[..., :3].mean(axis=(0, 1))
            spread = values[..., 2].mean(axis=0).std()
            cells.append(f"{pri:.3f} / {voi:.2f} / {covering:.3f}" + (f" ± {spread:.3f}" if spread else ""))
        each = np.array([np.mean(rows, axis=0) for rows in images])
        gain = (ours - each)[:, 2]  # in covering, image by image; and its standard error
        cells.append("" if name == OURS else f"{gain.mean():.3f} ± {gain.std(ddof=1) / np.sqrt(len(gain)):.3f}")
        print(f"| {name} | " + " | ".join(cells) + f" | {each[:, 3].mean():.2f} |")


if __name__ == "__main__":
    main()
