"""Conservative learning (Elser): images found in mixtures, errors on MNIST, features and their detectors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from visionnmf import ConservativeNMF
from visionnmf.apps.drawing import components_picture, grey_pictures, tiled
from visionnmf.apps.evaluate.drawing import Panel, curve_figure
from visionnmf.io import read_arrays

from .data import data_file, kept
from .experiments import Experiment, Result, Row, Sizes

Array = NDArray[Any]

FILE = "mnist_train.npz"
SHAPE = (28, 28)
N_PARTS, ACTIVE, N_MIXTURES = 64, 8, 10000
N_IMAGES = 60000
REPORTED = {50: 0.0177, 100: 0.0122, 200: 0.00770}  # errors by the number of components
SAME = 90  # of the 100 features of two starts
BINS = 20  # of a histogram of codes, from 0 to the quantile 0.995
CONTRAST = 0.2  # exponent of the grey values of figure 4


def digits(n_images: int = N_IMAGES) -> Array:
    """Return the first training images of MNIST, 0 to 1, a row each."""
    found = read_arrays(data_file(FILE), ["images"])["images"][:n_images]
    return np.asarray(found.reshape(len(found), -1) / 255.0)


def mixtures(
    seed: int, n_mixtures: int = N_MIXTURES, n_parts: int = N_PARTS, active: int = ACTIVE
) -> tuple[Array, Array]:
    """Return mixtures of `active` out of `n_parts` images with uniform coefficients, and the images, all as rows."""
    rng = np.random.default_rng(seed)
    pixels = digits()  # the images are drawn from these
    parts = pixels[rng.choice(len(pixels), n_parts, replace=False)]
    codes = np.zeros((n_mixtures, n_parts))
    for row in codes:
        row[rng.choice(n_parts, active, replace=False)] = rng.random(active)
    return codes @ parts, parts


def match(parts: Array, components: Array) -> Array:
    """Return the cosine between each part and its component, matched one to one for the largest sum of cosines."""
    true, found = (rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-300)[:, None] for rows in (parts, components))
    cosines = true @ found.T
    return np.asarray(cosines[linear_sum_assignment(-cosines)])


def made_images(sizes: Sizes) -> Result:
    """Repeat figure 1 of Elser's notes: the images of which the mixtures are made."""
    _, parts = mixtures(seed=0, n_mixtures=1)  # only the images of the mixtures are shown
    return Result([], {f"The {N_PARTS} images of MNIST.": components_picture(parts, SHAPE, most=N_PARTS, across=16)})


def made_mixtures(sizes: Sizes) -> Result:
    """Repeat figure 2 of Elser's notes: ten of the mixtures of images."""
    X, _ = mixtures(seed=0, n_mixtures=10)
    grey = grey_pictures(255 * X / X.max(axis=1, keepdims=True), SHAPE)
    return Result([], {f"Ten mixtures of {ACTIVE} images each, each scaled to white.": tiled([list(grey)])})


def found_images(sizes: Sizes) -> Result:
    """Repeat figure 3 of Elser's notes: the error by the number of data, and how many of the mixed images are found."""
    n_mixtures, passes, n_parts, active = sizes.pick(full=(N_MIXTURES, 200, N_PARTS, ACTIVE), quick=(1000, 60, 16, 4))
    X, parts = mixtures(seed=0, n_mixtures=n_mixtures, n_parts=n_parts, active=active)
    model = ConservativeNMF(n_parts, w=1.0, batch_size=len(X), max_iter=passes, random_state=0).fit(X)
    found = match(parts, model.components_)
    curve = {"w = 1": (len(X) * np.arange(1, passes + 1), model.errors_)}
    title, x_label, y_label = f"Mixtures of {active} images", "data processed", "mean norm of the error"
    panel = Panel(title, curve, x_label=x_label, y_label=y_label, log_x=True, log_y=True)
    rows = [
        Row(
            f"images found of {n_parts}, cosine above .99",
            int((found > 0.99).sum()),
            paper=sizes.pick(full="64 of 64, Fig. 3", quick=""),
        ),
        Row("mean cosine of an image and its component", paper="indistinguishable", ours=float(found.mean())),
        Row("mean norm of the error, first pass", ours=float(model.errors_[0])),
        Row("mean norm of the error, last pass", paper="falls towards 0", ours=float(model.errors_[-1])),
    ]
    sheet = components_picture(model.components_, SHAPE, most=N_PARTS, across=16)
    pictures = {
        f"Error over {passes} passes over {len(X)} mixtures.": curve_figure([panel]),
        "The components found.": sheet,
    }
    return Result(rows, pictures)


@kept
def learnt(n_components: int, seed: int, quick: bool) -> ConservativeNMF:
    """Return the model of MNIST images of norm 1, with the default w = 1e-5."""
    X = digits(10000 if quick else N_IMAGES)
    X /= np.linalg.norm(X, axis=1)[:, None]
    passes = 2 if quick else 10
    return ConservativeNMF(n_components, batch_size=1000, max_iter=passes, random_state=seed).fit(X)


def last_error(model: ConservativeNMF) -> float:
    """Return the mean norm of the errors of the last pass over the images."""
    # batches of a pass; `errors_` has an entry for each batch of all `n_iter_` passes
    batches = model.n_samples_seen_ // model.n_iter_ // model.batch_size
    return float(model.errors_[-max(1, batches) :].mean())


def mnist_errors(sizes: Sizes) -> Result:
    """Repeat the errors in the text of Elser's notes: by the number of components, and of two starts."""
    rows = []
    for n_components, published in REPORTED.items():
        for seed in range(sizes.pick(full=2, quick=1)):
            error = last_error(learnt(n_components, seed, sizes.quick))
            # divided by the root of the number of pixels, norms agree with the published ones
            rows.append(Row(f"f = {n_components}, start {seed}: norm / 28", paper=published, ours=error / SHAPE[0]))
    return Result(rows)


def features(sizes: Sizes) -> Result:
    """Repeat figure 4 of Elser's notes: 100 features of MNIST, with exponentiated contrast."""
    H = learnt(100, 0, sizes.quick).components_
    scaled = H / np.maximum(H.max(axis=1, keepdims=True), 1e-300)
    grey = grey_pictures(255 * scaled**CONTRAST, SHAPE)
    return Result([], {f"100 features, grey values to the power {CONTRAST}.": _in_rows(grey)})


def detectors(sizes: Sizes) -> Result:
    """Repeat figure 5 of Elser's notes: the detectors of 100 features, positive in red and negative in blue."""
    E = learnt(100, 0, sizes.quick).encoder_  # a row maps an image to the code of one feature
    scaled = (E / np.maximum(np.abs(E).max(axis=1, keepdims=True), 1e-300)).reshape(-1, *SHAPE)
    colours = np.full((*scaled.shape, 3), 255.0)
    # from white, positive values take away green and blue, negative ones red and green
    colours[..., 1:] -= 255 * np.maximum(scaled, 0)[..., None]
    colours[..., :2] -= 255 * np.maximum(-scaled, 0)[..., None]
    return Result([], {"Detectors: red is positive, blue is negative.": _in_rows(colours.round().astype(np.uint8))})


def starts(sizes: Sizes) -> Result:
    """Compare the 100 features of MNIST that two random starts find, which Elser's notes only look at."""
    first, second = (learnt(100, seed, sizes.quick).components_ for seed in (0, 1))
    cosines = match(first, second)
    by_chance = match(first, digits(len(first)))  # as many images, which is how well anything of MNIST would match
    alike = int((cosines > 0.9).sum())
    verdict = "confirmed" if alike >= SAME else "reversed" if alike < SAME / 2 else "level"
    rows = [
        Row("mean cosine of matched features of two starts", float(cosines.mean())),
        Row("features with a cosine above .9", f"{alike} of 100", "reproducible, by a quick survey", verdict),
        Row("mean cosine after matching with random features of MNIST images", float(by_chance.mean())),
    ]
    return Result(rows)


def rises_again(counts: Array, factor: float) -> bool:
    """Return whether a histogram of codes has a second peak: a bin so much higher than the least one before it."""
    return bool((counts >= factor * np.maximum(np.minimum.accumulate(counts), 1)).any())


def code_distributions(sizes: Sizes) -> Result:
    """Count the features of MNIST whose codes have a bimodal distribution, of which Elser's notes speak."""
    X = digits(sizes.pick(full=N_IMAGES, quick=10000))
    X /= np.linalg.norm(X, axis=1)[:, None]
    codes = learnt(100, 0, sizes.quick).transform(X)
    counts = [np.histogram(code, BINS, (0, max(np.quantile(code, 0.995), 1e-300)))[0] for code in codes.T]
    rows = [
        Row(f"features whose codes have a second peak, {words} the valley", f"{alike} of {len(counts)}", "almost all")
        for words, factor in (("a tenth above", 1.1), ("twice as high as", 2.0))
        for alike in [sum(rises_again(each, factor) for each in counts)]
    ]
    curves = {f"feature {i}": (np.arange(1, BINS + 1), counts[i] / len(X)) for i in range(5)}
    panel = Panel("five features", curves, x_label="bin of the code", y_label="share of the images", log_y=True)
    return Result(rows, {"Distributions of codes.": curve_figure([panel])})


def _in_rows(pictures: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return colour pictures as a sheet, ten in a row."""
    return tiled([list(pictures[first : first + 10]) for first in range(0, len(pictures), 10)])


OPEN = (
    "The notes do not name the norm of the error. For images of norm 1, the norm divided by 28, the root of the number "
    "of pixels, agrees with all three figures.",
    "They do not say how many data were processed: here ten passes (two passes over 10000 images in a quick run).",
)
MADE = "64 images of MNIST, and 10000 mixtures of eight of them with uniform coefficients."

_mnist = partial(Experiment, data="the 60000 training images of MNIST.", files=(FILE,), protocol=OPEN[1:])

EXPERIMENTS = (
    Experiment("conservative/fig-1", "the images in the mixtures", "64 images.", made_images, MADE, (FILE,)),
    Experiment("conservative/fig-2", "ten mixtures", "ten samples.", made_mixtures, MADE, (FILE,)),
    Experiment(
        "conservative/fig-3",
        "reconstruction error of mixtures by the number of data",
        "the error falls, and the components found are the 64 images, with w of order 1.",
        found_images,
        MADE,
        (FILE,),
        protocol=("The notes do not say how many passes: here 200 (a quick run has 16 images and 1000 mixtures).",),
    ),
    _mnist(
        "conservative/errors",
        "reconstruction errors of MNIST by the number of features",
        "0.0177 with 50 features, 0.0122 with 100 and 0.00770 with 200, whatever the start, with w = 1e-5.",
        mnist_errors,
        protocol=OPEN,
    ),
    _mnist(
        "conservative/fig-4",
        "100 features of MNIST",
        "the features found, with the contrast to the power 0.2.",
        features,
    ),
    _mnist(
        "conservative/fig-5",
        "the detectors of these features",
        "detectors are positive and negative: red and blue.",
        detectors,
    ),
    _mnist(
        "conservative/starts",
        "features of two random starts",
        "a quick survey supports that the features are the same; a quantitative comparison has not been made.",
        starts,
        protocol=(
            "Features of two starts are matched one to one by their cosines. They are the same if "
            f"{SAME} of 100 have a cosine above .9, and are not if fewer than half of these have.",
        ),
    ),
    _mnist(
        "conservative/codes",
        "distributions of the codes of MNIST",
        "almost all codes are strongly bimodal: a feature is absent, or present with a fixed magnitude.",
        code_distributions,
        protocol=(
            "The notes do not say what strongly means, so there is no verdict.",
            f"Histograms have {BINS} bins, from 0 to the quantile 0.995.",
        ),
    ),
)
