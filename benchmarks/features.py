"""Features of images: speed, agreement with published features, and accuracy in a classifier.

``python benchmarks/features.py`` runs everything, ``python benchmarks/features.py rates`` one part: rates (processor
time an image and a kind), agreement (nearest neighbours by our features and by those published for the same
photographs of Corel5k), themes (fifty themes of Corel5k by a linear SVM). One thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from _main import main
from numpy.typing import NDArray
from skimage.feature import hog, local_binary_pattern
from sklearn.metrics import pairwise_distances
from sklearn.svm import LinearSVC

from visionnmf.apps.reproduce.data import Corel, load_corel
from visionnmf.features import KINDS, FeatureExtraction, make_extractor
from visionnmf.features.extractor import PreparedImage
from visionnmf.features.interest_points import STEP, dense_grid
from visionnmf.features.sift import SIFT_SCALES, keypoints

RATE_IMAGES = 30
REPEATS = 2
AGREEMENT_IMAGES = 400
LEAST_SIMILARITY = 0.73  # of a JPEG's colours to the original's: below, the copies have flaws
NEIGHBOURS = 10
WORD_NEIGHBOURS = 5
PAIRS = {"rgb": "Rgb", "lab": "Lab", "dense-hue": "DenseHue", "dense-sift": "DenseSift"}
THEME_IMAGES: int | None = None  # all
TRAIN, TEST = 5, 5  # images a theme
SPLITS = 5
LEARN = 200  # other photographs, of which the words are learnt

Array = NDArray[Any]


def seconds(work: Callable[[Any], Any], items: list[Any]) -> float:
    """Return the processor time for an item, the least of some repetitions."""
    found = []
    for _ in range(REPEATS):
        start = time.process_time()
        for item in items:
            work(item)
        found.append((time.process_time() - start) / len(items))
    return min(found)


def rates() -> None:
    """Print the processor time of each kind, of the libraries' own functions, and of all kinds together."""
    images = load_corel("train", RATE_IMAGES).images
    union = FeatureExtraction(list(KINDS)).fit(images)
    print("| kind | features | ms an image | the library's own call, ms |\n| --- | --- | --- | --- |")
    own = library_calls(images[0].shape[0], images[0].shape[1])
    for view, extractor in union.extractors_.items():
        milliseconds = 1e3 * seconds(lambda image, each=extractor: each.describe(PreparedImage(image, None)), images)
        peer = f"{1e3 * seconds(own[view], images):.1f}" if view in own else ""
        print(f"| `{view}` | {extractor.n_features_out_} | {milliseconds:.1f} | {peer} |", flush=True)
    together = seconds(lambda image: union.transform([image]), images)
    print(f"| all together | {union.n_features_out_} | {1e3 * together:.1f} | |")
    print(f"\n{1 / together:.0f} images a second and processor")


def library_calls(height: int, width: int) -> dict[str, Callable[[Array], Any]]:
    """Return the functions of OpenCV and scikit-image for the same, without counting words or patterns."""
    points = keypoints(dense_grid(height, width, SIFT_SCALES, STEP))
    sift: Any = cv2.SIFT_create()  # type: ignore[attr-defined]

    def grey(image: Array) -> Array:
        return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))

    return {
        "dense-sift": lambda image: sift.compute(grey(image), points),
        "hog": lambda image: hog(cv2.resize(grey(image), (128, 128)), pixels_per_cell=(16, 16), cells_per_block=(2, 2)),
        "lbp": lambda image: local_binary_pattern(grey(image), 8, 1, "nri_uniform"),
        "rgb": lambda image: cv2.calcHist([image], [0, 1, 2], None, [16] * 3, [0, 256] * 3),
    }


def agreement() -> None:
    """Print how many of the ten nearest photographs are the same by our features as by the published ones."""
    corel = load_corel("train", AGREEMENT_IMAGES)
    kept = np.flatnonzero(corel.similarity >= LEAST_SIMILARITY)
    images = [corel.images[i] for i in kept]
    labels = corel.labels[kept]
    print(
        f"{len(kept)} of {len(corel.images)} photographs; of {NEIGHBOURS} drawn at random {NEIGHBOURS / len(kept):.3f}"
    )
    print("| kind | shared of ten | words shared, ours | words shared, published |\n| --- | --- | --- | --- |")
    for kind, name in PAIRS.items():
        ours = neighbours(make_extractor(kind).fit(images).transform(images))
        theirs = neighbours(corel.published[name][kept])
        same = np.mean([len(set(a) & set(b)) / NEIGHBOURS for a, b in zip(ours, theirs, strict=True)])
        print(f"| `{kind}` | {same:.3f} | {words(ours, labels):.4f} | {words(theirs, labels):.4f} |", flush=True)
    for kind in [kind for kind in KINDS if kind not in PAIRS]:
        ours = neighbours(make_extractor(kind).fit(images).transform(images))
        print(f"| `{kind}` | | {words(ours, labels):.4f} | |", flush=True)


def neighbours(X: Array) -> Array:
    """Return the nearest other rows, by the Hellinger distance of shares."""
    distances = pairwise_distances(np.sqrt(X))
    np.fill_diagonal(distances, np.inf)
    return np.argsort(distances, axis=1, kind="stable")[:, :NEIGHBOURS]


def words(nearest: Array, labels: Array) -> float:
    """Return the share of their words that two neighbours have in common, in the mean over the nearest five."""
    pairs = [(i, j) for i, row in enumerate(nearest) for j in row[:WORD_NEIGHBOURS]]
    first, second = (labels[list(part)] for part in zip(*pairs, strict=True))
    return float(np.mean((first & second).sum(axis=1) / (first | second).sum(axis=1)))


def themes() -> None:
    """Print how many photographs of Corel5k's fifty themes a linear SVM puts into their own."""
    corel = load_corel("train", THEME_IMAGES)
    rows, theme = sample_of_themes(corel)
    images = [corel.images[i] for i in rows]
    others = np.setdiff1d(np.arange(len(corel.images)), rows)[:: max(1, (len(corel.images) - len(rows)) // LEARN)]
    union = FeatureExtraction(list(KINDS)).fit([corel.images[i] for i in others])  # words of other photographs
    X = union.transform(images)
    cells = {"pixels_per_cell": (16, 16), "cells_per_block": (2, 2)}
    features = {
        "scikit-image's HOG": [np.stack([hog(image, channel_axis=-1, **cells) for image in images])],
        **{view: [X[:, columns]] for view, columns in union.views_.items()},
        "all side by side": [X[:, columns] for columns in union.views_.values()],
    }
    print(f"{len(np.unique(theme))} themes, {TRAIN} images each to learn from and {TEST} to test, {SPLITS} divisions")
    print("| features | accuracy, % |\n| --- | --- |")
    for name, views in features.items():
        scores = [100 * accuracy(views, theme, *division(theme, split)) for split in range(SPLITS)]
        print(f"| {name} | {np.mean(scores):.1f} ± {np.std(scores):.1f} |", flush=True)


def division(theme: Array, split: int) -> tuple[Array, Array]:
    """Return rows to learn from and rows to test, so many of each theme."""
    rng = np.random.default_rng(split)
    order = np.stack([rng.permutation(np.flatnonzero(theme == each)) for each in np.unique(theme)])
    return order[:, :TRAIN].ravel(), order[:, TRAIN:].ravel()


def sample_of_themes(corel: Corel) -> tuple[Array, Array]:
    """Return the wanted number of images of each theme, and the theme of each."""
    theme = np.array([int(number) // 1000 for number in corel.ids])
    rng = np.random.default_rng(0)
    chosen = []
    for each in np.unique(theme):
        members = rng.permutation(np.flatnonzero(theme == each))
        if len(members) >= TRAIN + TEST:
            chosen.append(np.sort(members[: TRAIN + TEST]))
    rows = np.concatenate(chosen)
    return rows, theme[rows]


def accuracy(views: list[Array], theme: Array, train: Array, test: Array) -> float:
    """Fit a linear SVM to views of one norm each, square roots of the features, and score it."""
    roots = [np.sqrt(view) for view in views]
    X = np.hstack([root / np.linalg.norm(root[train], axis=1).mean() for root in roots])
    model = LinearSVC(C=1.0, random_state=0).fit(X[train], theme[train].astype(str))
    return float(model.score(X[test], theme[test].astype(str)))


if __name__ == "__main__":
    main(
        {"rates": rates, "agreement": agreement, "themes": themes},
        globals(),
        {
            "RATE_IMAGES": 4,
            "REPEATS": 1,
            "AGREEMENT_IMAGES": 24,
            "THEME_IMAGES": 100,
            "TRAIN": 1,
            "TEST": 1,
            "SPLITS": 1,
            "LEARN": 6,
        },
    )
