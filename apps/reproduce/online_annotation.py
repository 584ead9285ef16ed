"""OR-NMF (Guan et al. 2012), section V.C: words for photographs by the codes of online models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from visionnmf import OnlineNMF
from visionnmf.apps.annotation.annotator import as_marks, best_words
from visionnmf.apps.annotation.neighbours import nearest, transfer_greedy
from visionnmf.apps.drawing import tiled
from visionnmf.apps.evaluate.annotate import score_words
from visionnmf.apps.evaluate.drawing import Panel, curve_figure
from visionnmf.apps.evaluate.online_baselines import ChunkNMF, DiagonalOMF, IncrementalNMF
from visionnmf.engine.losses import Loss
from visionnmf.engine.online import begin
from visionnmf.engine.problem import Problem

from .data import Corel, load_corel
from .drawing import in_square
from .experiments import Experiment, Result, Row, Sizes, comparisons

Array = NDArray[Any]

FILES = ("corel5k_features.npz", "corel5k_images.zip")
WORDS = 5  # of an image
EPOCHS = 2
COMPONENTS = 50  # of table III
SHOWN = 8  # photographs of table III
Learner = Mapping[str, Any] | Callable[..., Any]  # options of OnlineNMF, or a baseline
ANNOTATING: dict[str, Learner] = {
    "OR-NMF": {"method": "or-nmf", "buffer": None},
    "MOR-NMF, l = 20": {"method": "or-nmf", "buffer": 20},
    "WOR-NMF": {"method": "or-nmf", "buffer": None},
    "OMF, one sweep": {"method": "surrogate"},
    "OMF-DA, shorter steps": DiagonalOMF,
    "INMF": IncrementalNMF,
    "ONMF": ChunkNMF,
}


def transferred(codes: Array, others: Array, labels: Array) -> Array:
    """Return five words (n_others, n_words) for images, by greedy transfer from the 50 nearest rows of `codes`."""
    which, _ = nearest(np.ascontiguousarray(codes, np.float32), np.ascontiguousarray(others, np.float32), 50)
    scores = transfer_greedy(which, labels, WORDS)  # (n_others, n_words), the highest for the first word handed on
    return as_marks(best_words(scores, WORDS), scores.shape)


def annotation_scores(
    train: Corel, test: Corel, methods: Mapping[str, Learner], shares: Sequence[float], epochs: int
) -> dict[str, Array]:
    """Return accuracy, recall and normalised score of words in %, (n_shares, 3), by the method."""
    X, Z = (np.ascontiguousarray(part.published["DenseHue"]) for part in (train, test))

    def scores(train_codes: Array, test_codes: Array) -> list[float]:
        """Return accuracy, recall and normalised score, in %, of the words of the training images nearest in codes."""
        found = score_words(test.labels, transferred(train_codes, test_codes, train.labels))
        return [100 * value for value in (found.accuracy, found.recall, found.normalized)]

    found = {"features": np.tile(scores(X, Z), (len(shares), 1))}  # they have no number of components
    for name, learner in methods.items():
        values = []
        for share in shares:
            rank = max(1, round(share * X.shape[1]))
            if isinstance(learner, Mapping):
                window = {"batch_size": rank} if name == "WOR-NMF" else {}  # as many samples as components
                H = OnlineNMF(rank, max_iter=epochs, random_state=0, **window, **learner).fit(X).components_
            else:
                size = {"OMF-DA, shorter steps": 256, "INMF": 1}.get(name, rank)
                H = baseline_components(X, rank, learner, size, epochs)
            back = np.linalg.pinv(H)
            values.append(scores(X @ back, Z @ back))
        found[name] = np.array(values)
    return found


def baseline_components(X: Array, rank: int, method: Callable[..., Any], size: int, epochs: int) -> Array:
    """Return what a baseline learns from batches of `size` samples; start, order and forgetting are OnlineNMF's."""
    rng = RandomState(0)
    first = rng.permutation(len(X))[: max(size, begin.SAMPLES_A_COMPONENT * rank)]
    learner = method(begin.components(Problem(X[first], Loss("frobenius")), rank, "batch", rng), 0.9)
    for _ in range(epochs):
        order = rng.permutation(len(X))
        for start in range(0, len(X), size):
            learner.learn(X[order[start : start + size]])
    return np.asarray(learner.H)


def annotation(sizes: Sizes) -> Result:
    """Repeat figure 12 of the paper of OR-NMF: scores of predicted words against the number of components."""
    train = load_corel("train", sizes.pick(full=None, quick=1000), pictures=False)  # only features and words
    test = load_corel("test", pictures=False)
    shares = sizes.pick(full=tuple(np.arange(1, 10) / 10), quick=(0.2, 0.5, 0.8))
    found = annotation_scores(train, test, ANNOTATING, shares, EPOCHS)
    x = 100 * np.array(shares)
    panels = []
    for column, title in enumerate(("(a) accuracy", "(b) recall", "(c) normalised score")):
        curves = {name: (x, values[:, column]) for name, values in found.items()}
        panels.append(Panel(title, curves, x_label="components, % of the features", y_label="%"))
    normalised = {name: values[None, :, 2] for name, values in found.items()}  # one run of all numbers of components
    papers = dict.fromkeys(("OMF, one sweep", "OMF-DA, shorter steps"), "")  # not the printed forms
    papers |= dict.fromkeys(("ONMF", "INMF"), "yes, V.C")
    what = "{0} has a higher normalised score than {1}, mean of the numbers of components"
    rows = comparisons(what, normalised, ("OR-NMF", "WOR-NMF"), papers)
    rows += comparisons(what, normalised, ["OR-NMF"], {"MOR-NMF, l = 20": "yes, V.C"})
    table = [["AC / RC / NS", *(f"{share:.0%}" for share in shares)]]
    table += [[name, *(" / ".join(f"{v:.1f}" for v in row) for row in values)] for name, values in found.items()]
    caption = "Scores of five words for each test image."
    return Result(rows, {caption: curve_figure(panels, across=3)}, {"Scores in %": table})


def keywords(sizes: Sizes) -> Result:
    """Repeat table III of the paper of OR-NMF: predicted and manual keywords of the best predicted images."""
    train = load_corel("train", sizes.pick(full=None, quick=1000), pictures=False)  # only features and words
    test = load_corel("test")
    X, Z = (np.ascontiguousarray(part.published["DenseHue"]) for part in (train, test))
    model = OnlineNMF(COMPONENTS, method="or-nmf", buffer=None, max_iter=EPOCHS, random_state=0).fit(X)
    back = np.linalg.pinv(model.components_)
    given = transferred(X @ back, Z @ back, train.labels)  # the words of the training images with the nearest codes
    right = (given & test.labels).sum(axis=1)
    manual = test.labels.sum(axis=1)
    whole = right == manual
    # most right words first, and among equals the images of which all manual keywords are predicted
    best = np.argsort(-(right + 0.1 * whole), kind="stable")[:SHOWN]
    table = [["image", "predicted", "manual"]]
    for i in best:
        table.append([str(test.ids[i]), ", ".join(test.words[given[i]]), ", ".join(test.words[test.labels[i]])])
    scores = score_words(test.labels, given)
    rows = [
        Row(
            "images of which all manual keywords are predicted", f"{whole.sum()} of {len(whole)}", paper="the examples"
        ),
        Row("recall, mean of the images (%)", 100 * scores.recall),
        Row("accuracy, mean of the images (%)", 100 * scores.accuracy),
    ]
    sheet = tiled([[in_square(test.images[i]) for i in best]])
    note = "As in the paper, the images shown are those with the best predictions."
    return Result(rows, {"Test images, in the order of the table.": sheet}, {"Keywords": table}, [note])


REPLACED = "Corel5k, 4500 and 499 photographs with 260 words; IAPR TC12 is not at hand"
PROTOCOL = (
    "DenseHue alone; the paper's HarrisHue was not published with Corel5k.",
    "Two epochs, and the package's batches: 256 samples for OMF and OMF-DA, one for OR-NMF, MOR-NMF and INMF. ONMF and "
    "WOR-NMF have windows of as many samples as components.",
    "Distances are Manhattan distances of the codes, and words go on by the greedy transfer of the paper.",
)

EXPERIMENTS = (
    Experiment(
        "or-nmf/fig-12",
        "accuracy, recall and normalised score of annotation against the number of components",
        "OR-NMF and WOR-NMF outperform ONMF, INMF, OMF and OMF-DA, above all with many components; MOR-NMF is behind "
        "OR-NMF.",
        annotation,
        "Images and words.",
        FILES[:1],
        REPLACED,
        PROTOCOL,
    ),
    Experiment(
        "or-nmf/table-3",
        "predicted and manual keywords of some images",
        "for the images shown, all manual keywords are among the predicted ones, and further ones are meaningful.",
        keywords,
        "Images and words.",
        FILES,
        REPLACED,
        (*PROTOCOL, f"{COMPONENTS} components of OR-NMF, and five words for each image."),
    ),
)
