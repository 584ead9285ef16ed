"""Recognition and clustering of faces with corrupted training images, against baselines; speed.

    python benchmarks/faces.py bars ORL [SPLITS]       the 12 conditions, clean and corrupted test images
    python benchmarks/faces.py groups ORL [SPLITS]     `cluster_faces` beside k-means; also DIGITS and MNIST
    python benchmarks/faces.py strangers ORL [DRAWS]   unknown people: which pass the threshold
    python benchmarks/faces.py coverage UMIST [DRAWS]  how often the printed error rates hold for new images
    python benchmarks/faces.py pictures ORL [DRAWS] [KNOWN]    photographs without a face, faces that are lost
    python benchmarks/faces.py occlusions ORL [SPLITS] sunglasses, scarves, hands, halves and blocks on the test images
    python benchmarks/faces.py covered ORL [DRAWS]     the same on unknown people: how many are named
    python benchmarks/faces.py left_out                constants of covered faces, chosen without the set they serve
    python benchmarks/faces.py missing ORL [SPLITS]    the choice of missing pixels against each of the three
    python benchmarks/faces.py large [N]               10,000 images of 32 x 32: time and memory of a fit
    python benchmarks/faces.py cost [REPEATS]          140, 280 and 700 images of 32 x 32: processor time of a fit

The data sets are ORL, YALEB, YALE, UMIST and LFW; for `strangers` also MIXED, the people of all sets but YALE. Settings
were chosen on splits 0 and 1 of ORL and split 0 of Extended Yale B; reported figures begin with split 2. The
experiments of the MahNMF paper are those of `visionnmf reproduce mahnmf`.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np
from _main import data_file, is_quick, main
from _occlusions import occluded
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from visionnmf import NMF
from visionnmf.apps.evaluate import Comparison, FaceConditions, RandomSplits, evaluate, faces as study
from visionnmf.apps.evaluate.faces import make_split
from visionnmf.apps.faces import FaceRecognizer, cluster_faces, occlusion
from visionnmf.apps.faces.clustering import whitened_codes
from visionnmf.apps.faces.images import flat_blocks
from visionnmf.apps.faces.reading import as_rows, read_probe
from visionnmf.apps.reproduce.face_methods import text_of
from visionnmf.datasets import Faces, corrupt, load_faces
from visionnmf.io import resize_grey
from visionnmf.metrics import clustering_accuracy

FILES = {
    "ORL": "orl_32x32", "YALEB": "yaleb_32x32", "YALE": "yale_32x32", "UMIST": "umist_28x23", "LFW": "lfw20_120x120"
}  # fmt: skip
FIRST = 2  # split
SPLITS = 10
JOBS = int(os.environ.get("JOBS", "2"))

CONDITIONS = (
    ("none", None), ("occlusion", 12), ("occlusion", 16), ("laplace", 30), ("laplace", 60), ("salt_and_pepper", 0.1),
    ("salt_and_pepper", 0.3), ("salt_and_pepper", 0.5), ("gaussian", 40), ("gaussian", 80), ("poisson", 0.05),
    ("poisson", 0.01),
)  # fmt: skip
GROUPED = tuple(CONDITIONS[i] for i in (0, 1, 6, 3))
STRANGERS = tuple(CONDITIONS[i] for i in (0, 1, 6, 3, 4, 9))
MOST_GROUPED = 700  # images
MOST_STRANGERS = 400  # images
DRAWS, TRAINED, TESTED = 200, 6, 10  # of `coverage`, and images of each person
SEEN = 0.2  # share of the new images that must be alike for a pair to count
OCCLUSIONS = ("none", "sunglasses", "scarf", "lower", "side", "hand", "block20", "block30")
COVERED_SETS = ("ORL", "UMIST", "YALE", "LFW")
COVERED_GRID = tuple((clear, weight) for clear in (0.3, 0.45, 0.6) for weight in (0.2, 0.4, 0.6, 0.8))
MOST_COVERED = 120  # test images of a split
NOISES = (CONDITIONS[5], CONDITIONS[6], CONDITIONS[9])
MISSING = tuple(CONDITIONS[i] for i in (0, 1, 6, 7, 9))
LARGE = 10_000  # images
COSTS = (("ORL", 20, 7), ("ORL", 40, 7), ("YALEB", 35, 20))  # people, and images of each
BLOCK_SHARE = 0.2  # of an image
RANK, PEOPLE = 100, 20


def load(name: str) -> Faces:
    if name == "DIGITS":
        digits = load_digits()
        faces = Faces(np.uint8(digits.images * 255 / 16), digits.target, ())
    elif name == "MNIST":
        with np.load(data_file("mnist_test.npz")) as file:
            faces = Faces(file["images"], file["labels"], ())
    else:
        faces = load_faces(data_file(f"{FILES[name]}.npz"), size=(32, 32) if name == "LFW" else None)
    few = np.isin(faces.labels, np.unique(faces.labels)[:4])
    return replace(faces, images=faces.images[few], labels=faces.labels[few]) if is_quick() else faces


def mixed() -> Faces:
    """Return the people of four data sets, with about ten images of each, at 32 x 32 pixels."""
    images, labels = [], []
    for name in ("ORL", "YALEB", "UMIST", "LFW"):
        faces = load(name)
        ranks = np.concatenate([np.arange(n) for n in np.unique(faces.labels, return_counts=True)[1]])
        few = np.empty(len(ranks), bool)
        few[np.argsort(faces.labels, kind="stable")] = ranks % (6 if name == "YALEB" else 1) == 0
        images += [resize_grey(image, (32, 32)) for image in faces.images[few]]
        labels.append(faces.labels[few] + 1000 * len(labels))
    return Faces(np.stack(images), np.concatenate(labels), ())


def bars(name: str = "ORL", splits: int = 0) -> None:
    methods = ("recognizer", "frobenius", "pca", "raw", "lda", "crc")
    comparison = Comparison(methods=methods, jobs=JOBS, out=os.environ.get("OUT"))
    conditions = FaceConditions(corruptions=tuple(map(text_of, CONDITIONS)), ranks=(RANK,), both=True)
    draws = RandomSplits(splits=splits or SPLITS, random_state=FIRST)
    table = evaluate(study.study(load(name), comparison, splits=draws, conditions=conditions), comparison).table
    for test in ("clean", "corrupted"):
        print(f"\n| {name}, {test} test images | {' | '.join(conditions.corruptions)} |")
        print("| --- " * (1 + len(CONDITIONS)) + "|")
        for method in methods:
            lines = [line for line in table if (line["method"], line["test"]) == (method, test)]
            cells = (f"{line['accuracy']:.1f} ± {line.get('accuracy_deviation', 0):.1f}" for line in lines)
            print(f"| {method} | {' | '.join(cells)} |")


def grouped(name: str = "ORL", splits: int = 0) -> None:
    """Cluster all images of 20 people or ten digits by `cluster_faces`, and by k-means on codes and on pixels."""
    faces = load(name)
    for condition in GROUPED if name in FILES else GROUPED[:1] + GROUPED[2:]:  # a block would cover all of a digit
        scores: dict[str, list[float]] = {}
        for split in range(FIRST, FIRST + (splits or SPLITS)):
            rng = np.random.default_rng(split)
            everybody = np.unique(faces.labels)
            people = rng.choice(everybody, min(PEOPLE, len(everybody)), replace=False)
            chosen = rng.permutation(np.flatnonzero(np.isin(faces.labels, people)))[:MOST_GROUPED]
            truth, images = faces.labels[chosen], corrupt(faces.images[chosen], *condition, random_state=split)
            X = as_rows(images)
            blocks = flat_blocks(images, 255).reshape(X.shape) if condition[0] == "occlusion" else None
            found = {"cluster_faces": cluster_faces(X, len(people), mask=blocks, random_state=split)}
            model = NMF(min(100, *X.shape), nuclear=1.0, max_iter=100, tol=0, random_state=split)
            codes = model.fit_transform(X, weights=None if blocks is None else ~blocks)
            rows = {"codes": whitened_codes(codes, model.components_), "pixels": X}
            for compared, features in rows.items():
                means = KMeans(len(people), n_init=10, random_state=split)
                found[f"k-means on {compared}"] = means.fit_predict(features)
            for method, labels in found.items():
                scores.setdefault(method, []).append(clustering_accuracy(truth, labels))
        for method, accuracies in scores.items():
            mean, deviation = 100 * np.mean(accuracies), 100 * np.std(accuracies)
            print(f"{condition[0]} {condition[1]}, {method}: accuracy {mean:.1f} ± {deviation:.1f}", flush=True)


def strangers(name: str = "ORL", draws: int = 0) -> None:
    """Train on half of the people; print reported and measured error rates of new images that are judged similar."""
    faces = mixed() if name == "MIXED" else load(name)
    pairs, above, below = 0, np.zeros(2, int), np.zeros(2, int)
    for kind, severity in STRANGERS:
        found: dict[str, list[tuple[float, ...]]] = {}
        for draw in range(FIRST, FIRST + (draws or SPLITS)):
            rng = np.random.default_rng(draw)
            people = rng.permutation(np.unique(faces.labels))
            halves = [np.isin(faces.labels, half) for half in np.array_split(people, 2)]
            images, others = (replace(faces, images=faces.images[h], labels=faces.labels[h]) for h in halves)
            task = make_split(images, text_of((kind, severity)), 0, FaceConditions(most_test=20), draw)
            recognizer = FaceRecognizer(image_shape=task.image_shape, random_state=draw).fit(task.train, task.people)
            announced = 100 * recognizer.false_acceptance_rate_, 100 * recognizer.false_rejection_rate_
            limits = 100 * recognizer.rate_intervals_.ravel()
            clean = np.round(255 * task.tests["clean"]).astype(np.uint8).reshape(-1, *task.image_shape)
            unknown = rng.permutation(others.images)[:MOST_STRANGERS]
            for new, level in STRANGERS:
                passed, known = (
                    [one for one in recognizer.identify(as_rows(images) / np.float32(255)) if one.calibrated]
                    for images in (corrupt(each, new, level, random_state=draw) for each in (unknown, clean))
                )
                rates = [100 * np.mean([one.person is not None for one in some]) for some in (passed, known) if some]
                if len(rates) == 2:
                    shares = len(passed) / len(unknown), len(known) / len(clean)
                    row = (*announced, *limits, rates[0], 100 - rates[1], *shares)
                    found.setdefault(f"{new} {level}", []).append(row)
        print(f"{name}, trained with {kind} {severity}: rates hold for", flush=True)
        for new_kind, scores in found.items():
            table = np.array(scores)
            seen = table[:, 8:].min(axis=1) > SEEN
            pairs += int(seen.sum())
            above += (table[seen, 6:8] > table[seen][:, [3, 5]]).sum(axis=0)
            below += (table[seen, 6:8] < table[seen][:, [2, 4]]).sum(axis=0)
            acceptance, rejection, low, high, least, most, passes, rejected, strange, own = table.mean(axis=0)
            print(
                f"  {new_kind}: reported {acceptance:.1f} ({low:.1f} to {high:.1f}) and {rejection:.1f} ({least:.1f} "
                f"to {most:.1f}) %; {passes:.1f} % of unknown pass, {rejected:.1f} % of the known are rejected; alike "
                f"are {strange:.2f} and {own:.2f} of the images",
                flush=True,
            )
    print(
        f"{name}: {pairs} pairs of training and new images of which more than {SEEN:.0%} are alike; the share of "
        f"unknown people who pass is above its interval in {above[0]} and below in {below[0]}, that of known people "
        f"who are rejected in {above[1]} and {below[1]}"
    )


def coverage(name: str = "UMIST", draws: int = 0) -> None:
    """Print how often the reported intervals hold the rates of new images: of images drawn at random, and later ones.

    Three fifths of the people are known, by six images each; the others are unknown. Later images get a quarter of the
    draws.
    """
    faces = load(name)
    shape = (faces.images.shape[1], faces.images.shape[2])
    for way, share in (("at random", 1), ("the first ones", 4)):
        found = []
        for draw in range(FIRST, FIRST + -(-(draws or DRAWS) // share)):
            rng = np.random.default_rng(draw)
            people = rng.permutation(np.unique(faces.labels))
            own = [np.flatnonzero(faces.labels == person) for person in people]
            own = [rng.permutation(one) for one in own] if way == "at random" else own
            known = own[: -(-3 * len(people) // 5)]
            unknown = np.concatenate(own[len(known) :])
            train, new = (
                np.concatenate([one[part] for one in known])
                for part in (slice(TRAINED), slice(TRAINED, TRAINED + TESTED))
            )
            recognizer = FaceRecognizer(n_components=20, image_shape=shape, random_state=draw)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "X has copies")
                recognizer.fit(as_rows(faces.images[train]), faces.labels[train])
            named = [
                np.mean([one.person is not None for one in recognizer.identify(as_rows(faces.images[some]))])
                for some in (unknown, new)
            ]
            rates = recognizer.false_acceptance_rate_, recognizer.false_rejection_rate_
            found.append([*rates, *recognizer.rate_intervals_.ravel(), named[0], 1 - named[1]])
        table = np.array(found)
        means, above = 100 * table.mean(axis=0), 100 * (table[:, 6:] > table[:, [3, 5]]).mean(axis=0)
        print(f"{name}, trained with images {way}, {len(table)} draws")
        for row, rate in enumerate(("unknown people who pass", "known people who are rejected")):
            print(
                f"  {rate}: reported {means[row]:.1f} % (at most {means[3 + 2 * row]:.1f}), measured "
                f"{means[6 + row]:.1f}, above the interval in {above[row]:.1f} % of the draws",
                flush=True,
            )


def pictures(name: str = "ORL", draws: int = 0, n_known: int = 0) -> None:
    """Train on half of the people, or some; print which photographs without a face are named, and who is lost."""
    faces = load(name)
    shape = (faces.images.shape[1], faces.images.shape[2])
    files = sorted(data_file("bsds").glob("*.jpg"))
    landscapes = np.concatenate([read_probe(shape, False, 1, 255, path).rows for path in files])
    print(
        "| set | photographs unlike | named by the distance | named | "
        + " | ".join(PROBES)
        + " | unknown people | named | called unlike: known | unknown | added people |"
    )
    print("| --- " * (len(PROBES) + 9) + "|")
    found = []
    for draw in range(FIRST, FIRST + (draws or SPLITS)):
        rng = np.random.default_rng(draw)
        people = rng.permutation(np.unique(faces.labels))
        known, unknown = np.split(people, [n_known or -(-len(people) // 2)])
        own = [rng.permutation(np.flatnonzero(faces.labels == person)) for person in known]
        train, test = (np.concatenate([one[part] for one in own]) for part in (slice(6), slice(6, 20)))
        recognizer = FaceRecognizer(image_shape=shape, random_state=draw)
        recognizer.fit(as_rows(faces.images[train]), faces.labels[train])
        others = rng.permutation(np.flatnonzero(np.isin(faces.labels, unknown)))[:MOST_STRANGERS]
        sets = [*(damage(faces.images[test], draw) for damage in PROBES.values()), faces.images[others]]
        judged = [recognizer.identify(images) for images in (landscapes, *map(as_rows, sets))]
        passed = [[one.distance <= one.threshold for one in some] for some in judged]
        named = [[one.person is not None for one in some] for some in judged]
        unlike = np.mean([one.reason == "unlike" for one in judged[0]])
        lost = [np.mean(before) - np.mean(after) for before, after in zip(passed[1:], named[1:], strict=True)]
        some = faces.labels[others]
        first = np.concatenate([np.flatnonzero(some == person)[:6] for person in unknown])
        rest = np.delete(np.arange(len(others)), first)
        pixels = as_rows(faces.images[others])
        judged.append(recognizer.add(pixels[first], some[first]).identify(pixels[rest]))
        called = [np.mean([one.reason == "unlike" for one in judged[k]]) for k in (1, -2, -1)]
        found.append([unlike, np.mean(passed[0]), np.mean(named[0]), *lost, np.mean(named[-1]), *called])
    cells = [f"{100 * mean:.1f}" for mean in np.mean(found, axis=0)]
    print(f"| {name} ({len(known)}) | " + " | ".join(cells) + " |", flush=True)


def occlusions(name: str = "ORL", splits: int = 0) -> None:
    """Print what is identified, trained on undamaged images, and by class residuals alone."""
    faces = load(name)
    files = sorted(data_file("bsds").glob("*.jpg"))
    heads = [*OCCLUSIONS, *(f"{kind} {severity}" for kind, severity in NOISES)]
    print(f"| {name} | {' | '.join(heads)} | ms of processor an image |" + "\n" + "| --- " * (len(heads) + 2) + "|")
    found: dict[str, list[list[float]]] = {"residual": [], "auto": []}
    plan = FaceConditions(most_test=6 if name == "YALEB" else 10)
    for split in range(FIRST, FIRST + (splits or SPLITS)):
        task = make_split(faces, "none", split, plan, FIRST)
        clean = (255 * task.tests["clean"]).round().astype(np.uint8).reshape(-1, *task.image_shape)
        probes = [clean] + [occluded(clean, kind, files, split) for kind in OCCLUSIONS[1:]]
        probes += [corrupt(clean, kind, severity, random_state=split) for kind, severity in NOISES]
        for rule, rows in found.items():
            recognizer = FaceRecognizer(rule=rule, image_shape=task.image_shape, calibrate=False, random_state=split)
            recognizer.fit(task.train, task.people)
            start = time.process_time()
            shares = [100 * (recognizer.predict(as_rows(images) / 255) == task.answers).mean() for images in probes]
            each = 1e3 * (time.process_time() - start) / len(clean) / len(probes)
            rows.append([*shares, each])
    for rule, rows in found.items():
        cells = [f"{mean:.1f} ± {spread:.1f}" for mean, spread in zip(np.mean(rows, 0), np.std(rows, 0), strict=True)]
        print(f"| {rule} | " + " | ".join(cells) + " |", flush=True)


def covered(name: str = "ORL", draws: int = 0) -> None:
    """Train on two thirds of the people, six images each; print which unknown and known people get a name."""
    faces = load(name)
    files = sorted(data_file("bsds").glob("*.jpg"))
    found = []
    for draw in range(FIRST, FIRST + (draws or SPLITS)):
        rng = np.random.default_rng(draw)
        people = rng.permutation(np.unique(faces.labels))
        own = [rng.permutation(np.flatnonzero(faces.labels == person)) for person in people]
        known = own[: round(2 * len(own) / 3)]
        train = np.concatenate([one[:TRAINED] for one in known])
        rest = [np.concatenate(some) for some in (own[len(known) :], [one[TRAINED:] for one in known])]
        recognizer = FaceRecognizer(image_shape=faces.images.shape[1:], random_state=draw)
        recognizer.fit(as_rows(faces.images[train]), faces.labels[train])
        row = [recognizer.false_acceptance_rate_, recognizer.rate_intervals_[0, 1]]
        for new in (rng.permutation(some)[:MOST_STRANGERS] for some in rest):
            for kind in OCCLUSIONS:
                images = faces.images[new] if kind == "none" else occluded(faces.images[new], kind, files, draw)
                row.append(np.mean([one.person is not None for one in recognizer.identify(as_rows(images))]))
        found.append(row)
    means = 100 * np.mean(found, axis=0)
    print(f"{name}: announced {means[0]:.1f} (at most {means[1]:.1f}) % of unknown images named")
    for who, shares in zip(("unknown", "known"), means[2:].reshape(2, -1), strict=True):
        cells = ", ".join(f"{kind} {share:.1f}" for kind, share in zip(OCCLUSIONS, shares, strict=True))
        print(f"  {who} people named: {cells}", flush=True)


def left_out() -> None:
    """Print what of covered and whole faces of each set's split 2 is identified by constants that others chose.

    These are the clearness up to which nothing is looked for, and the weight of robust distances. Splits 0 and 1 of the
    other sets choose them. The figures with the shipped constants, and without looking for covered parts, come next.
    """
    files = sorted(data_file("bsds").glob("*.jpg"))
    ways = [*COVERED_GRID, (occlusion.CLEAR, occlusion.WEIGHT), (np.inf, occlusion.WEIGHT)]
    shares = np.zeros((len(COVERED_SETS), 3, len(ways)))
    for row, name in enumerate(COVERED_SETS):
        faces = load(name)
        for split in range(3):
            task = make_split(faces, "none", split, FaceConditions(most_test=6), FIRST)
            clean = (255 * task.tests["clean"]).round().astype(np.uint8).reshape(-1, *task.image_shape)
            kept = np.random.default_rng(0).permutation(len(clean))[:MOST_COVERED]
            recognizer = FaceRecognizer(image_shape=task.image_shape, calibrate=False, random_state=split)
            recognizer.fit(task.train, task.people)
            for kind in ("none", "sunglasses", "scarf", "lower", "hand", "block20"):
                probes = as_rows(clean[kept] if kind == "none" else occluded(clean[kept], kind, files, split)) / 255
                for column, (occlusion.CLEAR, occlusion.WEIGHT) in enumerate(ways):
                    shares[row, split, column] += 100 / 6 * (recognizer.predict(probes) == task.answers[kept]).mean()
            occlusion.CLEAR, occlusion.WEIGHT = ways[-2]
    for row, name in enumerate(COVERED_SETS):
        chosen = int(np.delete(shares, row, axis=0)[:, :2, :-2].mean(axis=(0, 1)).argmax())
        others, shipped, plain = (shares[row, 2, column] for column in (chosen, -2, -1))
        print(f"{name}: {others:.1f} by {ways[chosen]}, {shipped:.1f} as shipped, {plain:.1f} without", flush=True)


def with_block(images: NDArray[Any], draw: int) -> NDArray[Any]:
    """Cover a fifth of each image by an even block of random grey."""
    rng, covered = np.random.default_rng(draw), images.copy()
    sides = [round(side * BLOCK_SHARE**0.5) for side in images.shape[1:]]
    for image in covered:
        row, column = (int(rng.integers(size - side + 1)) for size, side in zip(image.shape, sides, strict=True))
        image[row : row + sides[0], column : column + sides[1]] = rng.integers(256)
    return covered


PROBES: dict[str, Callable[[NDArray[Any], int], NDArray[Any]]] = {
    "lost: undamaged": lambda images, draw: images,
    "salt and pepper 0.1": lambda images, draw: corrupt(images, "salt_and_pepper", 0.1, random_state=draw),
    "salt and pepper 0.3": lambda images, draw: corrupt(images, "salt_and_pepper", 0.3, random_state=draw),
    "block of 20 %": with_block,
    "Gauss 40": lambda images, draw: corrupt(images, "gaussian", 40, random_state=draw),
}


def missing(name: str = "ORL", splits: int = 0) -> None:
    """Print what each search for missing pixels identifies, on clean and corrupted test images, and what is chosen."""
    ways = ("none", "blocks", "saturated", "auto")
    print("| set, training images | " + " | ".join(ways) + " | chosen |\n" + "| --- " * 6 + "|")
    faces = load(name)
    for condition in MISSING:
        named: dict[str, list[float]] = {way: [] for way in ways}
        chosen = []
        for split in range(splits or SPLITS):
            plan = FaceConditions(both=True, most_test=10)
            task = make_split(faces, text_of(condition), split, plan, FIRST)
            for way in ways:
                recognizer = FaceRecognizer(missing=way, image_shape=task.image_shape, random_state=split)
                recognizer.fit(task.train, task.people)
                for images in task.tests.values():
                    named[way].append(100 * (recognizer.distances(images).argmin(axis=1) == task.answers).mean())
            chosen.append(recognizer.missing_)
        cells = " | ".join(f"{np.mean(scores):.1f}" for scores in named.values())
        print(f"| {name}, {condition[0]} {condition[1] or ''} | {cells} | {', '.join(chosen)} |", flush=True)


def large(n: int = 0) -> None:
    """Print the time and memory of a fit to many images: Extended Yale B, mirrored and shifted into other people."""
    faces = load("YALEB")
    ways = [(side, shift) for side in (1, -1) for shift in (0, 2, -2)]
    images = np.concatenate([np.roll(faces.images[:, :, ::side], shift, axis=1) for side, shift in ways])
    labels = np.concatenate([faces.labels + 100 * way for way in range(len(ways))])
    n = min(n or LARGE, len(images))
    X = as_rows(images[:n])
    step = max(1, n // 200)
    FaceRecognizer(image_shape=(32, 32), random_state=0).fit(X[::step], labels[:n:step])  # compiles
    begin, clock = time.process_time(), time.perf_counter()
    recognizer = FaceRecognizer(image_shape=(32, 32), random_state=0).fit(X, labels[:n])
    spent, passed = time.process_time() - begin, time.perf_counter() - clock
    most = getrusage(RUSAGE_SELF).ru_maxrss / 2**20
    people = len(recognizer.classes_)
    print(f"{n} images of {people} people: {spent:.0f} s of the processor, {passed:.0f} s, {most:.2f} GB")


def cost(repeats: int = 0) -> None:
    """Print the processor seconds of fits to 140 to 700 images, the median of three."""
    for name, people, each in COSTS:
        faces = load(name)
        known = np.unique(faces.labels)[:people]
        rows = np.concatenate([np.flatnonzero(faces.labels == person)[:each] for person in known])
        X, y, shape = as_rows(faces.images[rows]), faces.labels[rows], faces.images.shape[1:]
        FaceRecognizer(image_shape=shape, random_state=0).fit(X[: 5 * each], y[: 5 * each])  # compiles
        spent = []
        for _ in range(repeats or 3):
            start = time.process_time()
            FaceRecognizer(image_shape=shape, random_state=0).fit(X, y)
            spent.append(time.process_time() - start)
        print(f"{len(X)} images of {name}: {np.median(spent):.1f} s of the processor", flush=True)


PARTS = {
    "bars": bars,
    "groups": grouped,
    "strangers": strangers,
    "coverage": coverage,
    "pictures": pictures,
    "occlusions": occlusions,
    "covered": covered,
    "left_out": left_out,
    "missing": missing,
    "large": large,
    "cost": cost,
}
QUICK = {
    "SPLITS": 1,
    "DRAWS": 1,
    "CONDITIONS": CONDITIONS[6:8],
    "STRANGERS": STRANGERS[1:2],
    "RANK": 3,
    "PEOPLE": 2,
    "MISSING": CONDITIONS[1:2],
    "COVERED_SETS": ("YALE", "UMIST"),
    "COVERED_GRID": COVERED_GRID[:2],
    "MOST_COVERED": 4,
    "LARGE": 150,
    "COSTS": (("ORL", 3, 4),),
}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK)
