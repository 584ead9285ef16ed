"""Results that a change of the code must keep: list them before it and after it, and compare.

    python benchmarks/behaviour.py list --out before.json                 all areas (some minutes of one core)
    python benchmarks/behaviour.py list --only faces,recovery --out part.json
    python benchmarks/behaviour.py compare before.json after.json [--tolerance 0.001]     exit code 1 if any differs

The areas are segmentation, background, faces, multiview, masquerade and recovery. Each figure has a name such as
"background F, sbi_board". An area without its data is skipped with a line.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import background
import numpy as np
from _clips import load_clip
from _main import Missing, main
from _view_sets import view_set
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

from visionnmf import NMF, MultiviewNMF, ViewClassifier
from visionnmf.apps.evaluate.masquerade import roc_summary
from visionnmf.apps.faces import FaceRecognizer
from visionnmf.apps.masquerade import SessionScorer
from visionnmf.apps.multiview import Preparation
from visionnmf.apps.reproduce.data import load_face_set, load_photographs
from visionnmf.apps.reproduce.masquerade import load_sea, sea_scores
from visionnmf.apps.segmentation import segment
from visionnmf.apps.segmentation.scores import covering
from visionnmf.datasets import corrupt, make_corrupted_low_rank
from visionnmf.exceptions import UnreadableError

Figures = Iterator[tuple[str, float]]

EVERY_PHOTOGRAPH = 10
PHOTOGRAPHS = 60
CLIPS = background.WITH_MASKS
MASKS = 100  # of a clip, at most, evenly spaced
FACE_SETS = ("orl_32x32", "yale_32x32")
PEOPLE = 15
TRAINED = 6  # images of each person
CORRUPTIONS = (("none", None), ("occlusion", 12), ("salt_and_pepper", 0.3), ("gaussian", 40))
RULES = ("auto", "residual")
VIEW_SETS = ("msrcv1", "3sources")
VIEW_RANK = 40
USERS = 50
SHAPE = (240, 120)  # of the data of which a low rank is recovered
RANK = 8
LOSSES = ("manhattan", "frobenius", "kullback-leibler", "itakura-saito", 0.5, 1.5, "huber", "elastic-net", "l21")
SPOILT = ("none", "salt_and_pepper", "gaussian")
QUICK = {
    "EVERY_PHOTOGRAPH": 60,
    "CLIPS": ["sbi_cavignal"],
    "MASKS": 3,
    "FACE_SETS": ("yale_32x32",),
    "PEOPLE": 4,
    "CORRUPTIONS": (("none", None),),
    "RULES": ("residual",),
    "VIEW_SETS": ("3sources",),
    "VIEW_RANK": 4,
    "USERS": 2,
    "SHAPE": (30, 20),
    "RANK": 2,
    "LOSSES": ("manhattan", "frobenius"),
}


def segmentation_figures() -> Figures:
    """Yield the covering of each photograph, by the default number of segments and by five, and the means."""
    found: dict[str, list[float]] = {"default": [], "5 segments": []}
    for photograph in islice(load_photographs(), 0, PHOTOGRAPHS, EVERY_PHOTOGRAPH):
        for name, count in (("default", None), ("5 segments", 5)):
            found[name].append(covering(segment(photograph.image, count).labels, photograph.segmentations))
            yield f"segmentation covering, {name}, photograph {photograph.name}", found[name][-1]
    yield from ((f"segmentation covering, {name}, mean", float(np.mean(each))) for name, each in found.items())


def background_figures() -> Figures:
    """Yield F of the masks of each clip, and the mean."""
    found = []
    for name in CLIPS:
        video = load_clip(name)
        picks = np.unique(np.linspace(0, len(video.gt_index) - 1, MASKS).round().astype(int))
        model = background.BackgroundModel().fit(video.frames)
        masks = np.stack([part.mask for part in model.apply(video.frames[video.gt_index[picks]])])
        found.append(background.f_measure(background.count(masks, video.gt_masks[picks])))
        yield f"background F, {name}", found[-1]
    yield "background F, mean", float(np.mean(found))


def face_figures() -> Figures:
    """Yield the accuracies of rules on clean test images, in %, by set and corruption of the training images."""
    for name in FACE_SETS:
        faces, rng = load_face_set(name), np.random.default_rng(0)
        own = [rng.permutation(np.flatnonzero(faces.labels == person)) for person in np.unique(faces.labels)[:PEOPLE]]
        train, test = (np.concatenate([images[part] for images in own]) for part in (np.s_[:TRAINED], np.s_[TRAINED:]))
        X = faces.images[test].reshape(len(test), -1) / np.float32(255)
        for (kind, severity), rule in ((condition, rule) for condition in CORRUPTIONS for rule in RULES):
            spoilt = corrupt(faces.images[train], kind, severity, random_state=0) / np.float32(255)
            shape = faces.images.shape[1:]
            model = FaceRecognizer(rule=rule, n_components=60, image_shape=shape, calibrate=False, random_state=0)
            model.fit(spoilt.reshape(len(train), -1), faces.labels[train])
            yield f"faces accuracy, {name}, {kind}, {rule}", 100 * float(model.score(X, faces.labels[test]))


def multiview_figures() -> Figures:
    """Yield the accuracy of a classifier of views and codes on half of the samples, in %, and how sure it is."""
    for name in VIEW_SETS:
        views, labels = view_set(name)
        train, test = train_test_split(np.arange(len(labels)), test_size=0.5, stratify=labels, random_state=0)
        before, after = ({view: np.asarray(X[rows], float) for view, X in views.items()} for rows in (train, test))
        preparation = Preparation().fit(before)
        before, after = preparation.transform(before), preparation.transform(after)
        loss = "frobenius" if "rows" in preparation.kinds_.values() else "manhattan"  # "rows": counts of words
        model = MultiviewNMF(VIEW_RANK, loss=loss, missing_values=np.nan, random_state=0).fit(before)
        classifier = ViewClassifier(FrozenEstimator(model)).fit(before, labels[train])
        yield f"multiview accuracy, {name}", 100 * float((classifier.predict(after) == labels[test]).mean())
        yield f"multiview largest decision value, {name}", float(classifier.decision_function(after).max(axis=1).mean())


def masquerade_figures() -> Figures:
    """Yield the area under the ROC curve, missing alarms at 1, 5 and 10 % false alarms and the least cost, on SEA."""
    sessions, labels, _ = load_sea()
    for way, update in (("", False), (", with update", True)):
        scores, thresholds = sea_scores(SessionScorer, sessions[:USERS], update)
        area, missing, cost = roc_summary(scores, labels[:USERS])
        yield f"masquerade AUC{way}", area
        yield from ((f"masquerade missing % at {rate} %{way}", value) for rate, value in missing.items())
        yield f"masquerade least cost{way}", cost
        yield f"masquerade mean threshold{way}", float(np.mean(thresholds))


def recovery_figures() -> Figures:
    """Yield the relative error of the low-rank matrix that each loss recovers from corrupted data."""
    for spoilt in SPOILT:
        data = make_corrupted_low_rank(*SHAPE, RANK, corruption=spoilt, random_state=0)
        X = data.X + np.float32(1e-3)  # positive, which Itakura-Saito asks for
        for loss in LOSSES:
            model = NMF(RANK, loss=loss, random_state=0)
            found = model.inverse_transform(model.fit_transform(X))
            error = np.linalg.norm(found - data.clean) / np.linalg.norm(data.clean)
            yield f"recovery error, {spoilt}, {loss}", float(error)


AREAS: dict[str, Callable[[], Figures]] = {
    "segmentation": segmentation_figures,
    "background": background_figures,
    "faces": face_figures,
    "multiview": multiview_figures,
    "masquerade": masquerade_figures,
    "recovery": recovery_figures,
}


def list_figures(out: str | None = None, only: str | None = None) -> None:
    """Print the figures of all areas, or of some, and write them to a JSON file, by name."""
    found: dict[str, float] = {}
    print("\n| result | figure |\n| --- | --- |")
    for area in AREAS if only is None else only.split(","):
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                for name, figure in AREAS[area]():
                    found[name] = figure
                    print(f"| {name} | {figure:.6g} |", flush=True)
            except (Missing, UnreadableError) as error:
                print(f"{area}: skipped: {error}")
        print(f"{area}: {time.process_time() - begin:.0f} s of processor time", flush=True)
    if out is not None:
        Path(out).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def compare(before: str, after: str, tolerance: str | float = 0.0) -> None:
    """Print the figures that differ by more than the tolerance, or that one file lacks; exit with 1 where any does."""
    old, new = (json.loads(Path(path).read_text(encoding="utf-8")) for path in (before, after))
    print("\n| result | before | after | change |\n| --- | --- | --- | --- |")
    differ = 0
    for name in {**old, **new}:
        values = old.get(name), new.get(name)
        change = None if None in values else new[name] - old[name]
        if change is None or not abs(change) <= float(tolerance):
            differ += 1
            cells = ["none" if value is None else f"{value:.9g}" for value in (*values, change)]
            print(f"| {name} | {' | '.join(cells)} |")
    print(f"{differ} of {len({**old, **new})} figures differ by more than {float(tolerance):g}")
    if differ:
        raise SystemExit(1)


if __name__ == "__main__":
    main({"list": list_figures, "compare": compare}, globals(), QUICK, default=["list"])
