"""Words for the photographs of Corel5k: 4500 to learn from, 499 that each get exactly five words.

``python benchmarks/annotation.py`` runs everything, ``python benchmarks/annotation.py corel`` one part: corel (the four
published features: JEC on features and on codes, the default), jpegs (the same photographs from their JPEGs, by our own
extractors), unlike (how many photographs, blank pictures and noise are unlike the training photographs), online (Figure
12 of Guan et al. 2012: AC, RC and NS by the dimension of online models) or scale (100,000 made images). Scores are
means over the 260 words of the test images, except AC, RC and NS, which are means over images. Seconds are of one
processor: run it with OMP_NUM_THREADS=1. All choices were made on training images.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
from _main import main
from numpy.typing import NDArray

from visionnmf import NMF
from visionnmf.apps.annotation import ImageAnnotator
from visionnmf.apps.annotation.images import usual_extractors
from visionnmf.apps.annotation.likeness import fit_likeness
from visionnmf.apps.evaluate.annotate import score_words
from visionnmf.apps.reproduce.data import load_corel
from visionnmf.apps.reproduce.online_annotation import ANNOTATING, EPOCHS, WORDS, annotation_scores
from visionnmf.features import FeatureExtraction

Array = NDArray[Any]

WORDS_CHI_SQUARED = {"DenseHue": "chi-squared", "DenseSift": "chi-squared"}  # as Guillaumin et al. (2009)
AUTHORS = WORDS_CHI_SQUARED | {"Lab": "kullback-leibler"}  # as Makadia et al. (2008), who have no words

N_TRAIN: int | None = None
N_TEST: int | None = None
RANKS: tuple[int, ...] = (50, 100, 200)
ONE = 100
N_KNOWN = 1400  # training photographs, of which draws are learnt from, and the others held out
DRAWS, DRAWN = 4, (300, 500, 1000)
SCALE_IMAGES, SCALE_FEATURES, SCALE_WORDS = 100_000, 400, 300
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the features
METHODS = ANNOTATING | {"manhattan": {"method": "manhattan"}}


def variants() -> dict[str, ImageAnnotator]:
    """Return what is compared."""
    plain: dict[str, Any] = {"coder": "none"}
    codes: dict[str, Any] = {"n_components": RANKS, "n_neighbors": 2}
    robust = NMF(loss="l21", max_iter=100)
    return {
        "JEC, features divided by their deviations": ImageAnnotator("jec", hellinger=False, **plain),
        "JEC, features as they are, Manhattan": ImageAnnotator("jec", metrics="manhattan", **plain),
        "JEC, features as they are, chi-squared for words": ImageAnnotator("jec", metrics=WORDS_CHI_SQUARED, **plain),
        "JEC, features as they are, the distances of the authors": ImageAnnotator("jec", metrics=AUTHORS, **plain),
        "JEC, roots of shares": ImageAnnotator("jec", **plain),
        "JEC, L2,1 codes, two neighbours": ImageAnnotator("jec", coder=robust, **codes),
        "JEC, L2,1 codes of rank 100, two neighbours": ImageAnnotator(
            "jec", coder=robust, **codes | {"n_components": ONE}
        ),
        "JEC, least-squares codes, two neighbours": ImageAnnotator("jec", **codes),
        "weighted (the default)": ImageAnnotator(n_components=RANKS),
    }


def heading() -> None:
    """Begin the table of a part."""
    print("| | P | R | F1 | N+ | mAP | AC | RC | NS | train s | ms an image | bytes an image |")
    print("| --- | " + "--- | " * 11)


def row(name: str, model: ImageAnnotator, train: tuple[Array, Array], test: tuple[Array, Array], views: Any) -> None:
    """Fit, annotate, score, print."""
    start = time.process_time()
    model.fit(*train, views=views)
    fitted = time.process_time()
    scores = model.predict_proba(test[0])
    given = model.choose(scores, WORDS)
    done = time.process_time()
    print(
        f"| {name} | {figures(test[1], scores, given)} | {fitted - start:.0f} | "
        f"{1000 * (done - fitted) / len(scores):.1f} | {4 * model.index_.shape[1]} |",
        flush=True,
    )


def figures(truth: Array, scores: Array, words: Array) -> str:
    """Return the scores of the words given to each image, in per cent."""
    given = np.zeros(truth.shape, bool)
    np.put_along_axis(given, words, True, axis=1)
    found = score_words(truth, given, scores)
    of_words = f"{100 * found.word_precision:.1f} | {100 * found.word_recall:.1f} | {100 * found.f1:.1f}"
    of_images = " | ".join(f"{100 * value:.1f}" for value in (found.accuracy, found.recall, found.normalized))
    return f"{of_words} | {found.n_plus} | {100 * found.mean_average_precision:.1f} | {of_images}"


def corel() -> None:
    """Compare methods on the published features."""
    print("\n## Corel5k, published features (DenseHue, DenseSift, Rgb, Lab)\n")
    train, test = load_corel("train", N_TRAIN), load_corel("test", N_TEST)
    views, X = side_by_side(train.published)
    _, Z = side_by_side(test.published)
    heading()
    for name, model in variants().items():
        row(name, model, (X, train.labels), (Z, test.labels), views)


def side_by_side(features: dict[str, Array]) -> tuple[dict[str, slice], Array]:
    """Return the columns of each kind of features, and all of them in one matrix."""
    ends = np.cumsum([0, *(values.shape[1] for values in features.values())]).tolist()
    views = {name: slice(*ends[i : i + 2]) for i, name in enumerate(features)}
    return views, np.concatenate(list(features.values()), axis=1)


def jpegs() -> None:
    """Go the whole way from photographs."""
    print("\n## Corel5k, from the JPEGs\n")
    train, test = load_corel("train", N_TRAIN), load_corel("test", N_TEST)
    start = time.process_time()
    extraction = FeatureExtraction(usual_extractors())
    X = extraction.fit(train.images).transform(train.images)
    Z = extraction.transform(test.images)
    seconds = time.process_time() - start
    print(f"features of {len(X) + len(Z)} images: {seconds:.0f} s\n")
    heading()
    for name, model in variants().items():
        if name in ("JEC, least-squares codes, two neighbours", "weighted (the default)"):
            row(name, model, (X, train.labels), (Z, test.labels), extraction.views_)


def unlike() -> None:
    """Count what is said to be unlike the training photographs: held-out and test photographs, and made pictures."""
    print("\n## Unlike the training photographs, %, in draws\n")
    print("| photographs | held out | test | blank | noise | large noise |\n| --- | --- | --- | --- | --- | --- |")
    train = load_corel("train", None if N_TRAIN is None else max(N_TRAIN, N_KNOWN))
    test, rng = load_corel("test", N_TEST), np.random.default_rng(0)
    some = np.sort(rng.choice(len(train.images), min(N_KNOWN, len(train.images)), replace=False))
    images, shape = [train.images[i] for i in some], train.images[0].shape
    extraction = FeatureExtraction(usual_extractors()).fit(images)
    X, Z = extraction.transform(images), extraction.transform(list(test.images))
    blank = extraction.transform([np.full(shape, grey, np.uint8) for grey in (0, 128, 255)])
    noise, large = (
        extraction.transform([rng.integers(0, 256, size).astype(np.uint8) for _ in range(6)])
        for size in (shape, (480, 640, 3))
    )
    for n in DRAWN:
        for seed in range(DRAWS):
            order = np.random.default_rng(seed).permutation(len(X))
            known = fit_likeness(X[order[:n]], extraction.views_)
            assert known is not None
            found = [known.unlikeness(part, extraction.views_) for part in (X[order[n:]], Z, blank, noise, large)]
            print(f"| {n} | {' | '.join(f'{100 * (part > 1).mean():.1f}' for part in found)} |", flush=True)


def online() -> None:
    """Compare online models by the words of nearest neighbours in their codes, as Figure 12 does."""
    train, test = load_corel("train", N_TRAIN), load_corel("test", N_TEST)
    print(f"\n## DenseHue by pseudo-inverses, {EPOCHS} epochs: AC / RC / NS\n")
    print(f"| | {' | '.join(f'{share:.0%}' for share in SHARES)} |")
    print("| --- | " + "--- | " * len(SHARES))
    for name, values in annotation_scores(train, test, METHODS, SHARES, EPOCHS).items():
        cells = [" / ".join(f"{value:.1f}" for value in scores) for scores in values]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def scale() -> None:
    """Train on many made images, and annotate one at a time."""
    rng = np.random.default_rng(0)
    parts = rng.random((SCALE_WORDS, SCALE_FEATURES), np.float32) ** 8
    Y = rng.random((SCALE_IMAGES, SCALE_WORDS), np.float32) < 4 / SCALE_WORDS
    X = Y.astype(np.float32) @ parts + np.float32(0.05) * rng.random((SCALE_IMAGES, SCALE_FEATURES), np.float32)
    views = {f"view {i}": slice(i * SCALE_FEATURES // 4, (i + 1) * SCALE_FEATURES // 4) for i in range(4)}
    print(f"\n## {SCALE_IMAGES} made images of {SCALE_FEATURES} features in four views, {SCALE_WORDS} words\n")
    print("| train s | train CPU s | ms one image | CPU ms | largest memory, MB |\n| --- | --- | --- | --- | --- |")
    begin, cpu = time.perf_counter(), time.process_time()
    model = ImageAnnotator(n_components=RANKS).fit(X, Y, views=views)
    trained = time.perf_counter() - begin, time.process_time() - cpu
    begin, cpu = time.perf_counter(), time.process_time()
    for image in X[:20]:
        model.annotate(image[None])
    one = [50 * (time.perf_counter() - begin), 50 * (time.process_time() - cpu)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"| {trained[0]:.0f} | {trained[1]:.0f} | {one[0]:.0f} | {one[1]:.0f} | {memory:.0f} |")


if __name__ == "__main__":
    main(
        {"corel": corel, "jpegs": jpegs, "unlike": unlike, "online": online, "scale": scale},
        globals(),
        {
            "N_TRAIN": 60,
            "N_KNOWN": 340,
            "DRAWN": (300,),
            "DRAWS": 1,
            "N_TEST": 20,
            "RANKS": (5,),
            "ONE": 5,
            "SCALE_IMAGES": 500,
            "SCALE_FEATURES": 40,
            "SHARES": (0.1,),
            "EPOCHS": 1,
            "METHODS": {"OR-NMF": METHODS["OR-NMF"]},
        },
    )
