"""What a global cue adds to the local ones of `segment`: eigenvectors of normalised cuts, or symmetric NMF.

    python benchmarks/segmentation_cues.py             half an hour
    python benchmarks/segmentation_cues.py --quick     whether it runs

Each photograph is segmented by local cues. How well its regions are connected over weak borders (``parts.connection``)
is embedded at three ranks, and the difference of two regions in each is a feature more of their border. Trees are
learnt anew with them, as ``segmentation_train.py`` learns them but half as many, on every second training photograph,
and scored on the others, which chooses the scale. Test photographs, clean and spoilt, are scored once at this scale by
the trees of both folds, whose mean counts. All embeddings come from trees that have not seen the photograph.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from itertools import islice

import numpy as np
import segmentation_train as train
from _main import main
from _photographs import SPOILERS, mean, paired
from numpy.typing import NDArray
from scipy.linalg import eigh
from segmentation_train import Photograph
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from visionnmf import SymmetricNMF
from visionnmf.apps.segmentation.cleaning import remove_impulses
from visionnmf.apps.segmentation.hierarchy import Hierarchy
from visionnmf.apps.segmentation.parts import MOST_NODES, connection
from visionnmf.apps.segmentation.strength import Learnt, load_learnt
from visionnmf.datasets.local import load_bsds
from visionnmf.features import diffuse_affinity

N_TRAINING, N_TEST = 200, 60
KINDS = ("20% black or white pixels", "lines of text", "40 specular spots")
TREES = 75
RANKS = (8, 16, 32)
SWEEPS = 8
BLOCKS_A_COMPONENT = 0.7

Array = NDArray[np.float64]


def eigenvectors(affinity: Array, sizes: Array, rank: int) -> Array:
    """Embed by the leading eigenvectors of normalised cuts but the first, times the roots of their eigenvalues."""
    degrees = affinity @ sizes
    scale = np.sqrt(sizes / degrees)
    n = len(affinity)
    values, vectors = eigh(affinity * np.outer(scale, scale), subset_by_index=[n - rank - 1, n - 2])
    vectors *= np.sqrt(np.maximum(values, 0)) / np.sqrt(sizes * degrees)[:, np.newaxis]
    return np.asarray(vectors / np.sqrt((sizes @ vectors**2).sum() / sizes.sum()), np.float64)


def symmetric_nmf(loss: str) -> Callable[[Array, Array, int], Array]:
    """Embed by memberships, which sum to 1."""

    def embed(affinity: Array, sizes: Array, rank: int) -> Array:
        diffused = diffuse_affinity(affinity, sizes, n_blocks=BLOCKS_A_COMPONENT * rank)
        model = SymmetricNMF(rank, loss=loss, n_init=1, max_iter=SWEEPS, tol=1e-3, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            codes = model.fit_transform(diffused, sample_weight=sizes)
        return np.asarray(codes / np.maximum(codes.sum(axis=1, keepdims=True), 1e-12), np.float64)

    return embed


CUES: dict[str, Callable[[Array, Array, int], Array] | None] = {
    "none": None,
    "eigenvectors of normalised cuts": eigenvectors,
    "symmetric NMF, Frobenius": symmetric_nmf("frobenius"),
    "symmetric NMF, Manhattan": symmetric_nmf("manhattan"),
}


def add_cues(photograph: Photograph, learnt: Learnt, times: dict[str, list[float]]) -> dict[str, Photograph]:
    """Return the photograph with each global cue, seen through borders that have been learnt without it."""
    tree: Hierarchy = train.tree_of(photograph, learnt)
    nodes = tree.cut(n_segments=MOST_NODES)
    pixels = np.bincount(nodes, photograph.partition.regions[:, 0])
    affinity, sizes = connection(tree, nodes), pixels / pixels.mean()
    found = {}
    for cue, embed in CUES.items():
        begin = time.process_time()
        embeddings: list[Array] = []
        if embed is not None:
            enough = len(sizes) > 2 * max(RANKS)
            embeddings = [embed(affinity, sizes, r) if enough else np.zeros((len(sizes), r)) for r in RANKS]
        times.setdefault(cue, []).append(time.process_time() - begin)
        found[cue] = photograph._replace(memberships=[each[nodes] for each in embeddings])
    return found


def look_at_tests(learnt: Learnt) -> dict[str, dict[str, list[Photograph]]]:
    """Return test photographs, clean and spoilt, with each global cue."""
    times: dict[str, list[float]] = {}
    found: dict[str, dict[str, list[Photograph]]] = {}
    for kind in ("clean", *KINDS):
        seen = []
        for seed, each in enumerate(islice(load_bsds(), N_TEST)):
            image = each.image if kind == "clean" else SPOILERS[kind](each.image, seed)
            seen.append(train.look_at(remove_impulses(image), each.segmentations, learnt.textons))
        cued = [add_cues(photograph, learnt, times) for photograph in seen]
        found[kind] = {cue: [each[cue] for each in cued] for cue in CUES}
    for cue, values in times.items():
        print(f"{cue}: {np.median(values):.3f} s a photograph")
    return found


def ablation() -> None:
    """Print covering with each global cue, and what it adds, photograph by photograph."""
    train.TREES = TREES
    textons = load_learnt().textons
    with threadpool_limits(1, user_api="blas"):
        photographs = [
            train.look_at(each.image, each.segmentations, textons) for each in islice(load_bsds("train"), N_TRAINING)
        ]
        local = [train.learn(photographs[fold::2], textons) for fold in (0, 1)]
        cued = [add_cues(each, local[1 - k % 2], {}) for k, each in enumerate(photographs)]
        tests = look_at_tests(local[0])
        print(
            "\n| global cue | training, out of fold | minus none | "
            + " | minus none | ".join(tests)
            + " | minus none |"
        )
        print("| --- | --- | --- |" + " --- | --- |" * len(tests), flush=True)
        base: list[Array] = []
        for cue in CUES:
            learning = [each[cue] for each in cued]
            folds = local if cue == "none" else [train.learn(learning[fold::2], textons) for fold in (0, 1)]
            curves = np.empty((len(learning), len(train.SCALES)))
            for fold in (0, 1):
                curves[1 - fold :: 2] = train.score(learning[1 - fold :: 2], folds[fold])[..., 0]
            best = int(curves.mean(axis=0).argmax())
            scores = [curves[:, best]]
            for each in tests.values():
                both = [train.score(each[cue], learnt, train.SCALES[[best]])[:, 0, 0] for learnt in folds]
                scores.append(np.mean(both, axis=0))
            base = base or scores
            cells = [f"{mean(score)} | {paired(score, other)}" for score, other in zip(scores, base, strict=True)]
            print(f"| {cue} |", " | ".join(cells), "|", flush=True)


PARTS = {"ablation": ablation}
QUICK = {"N_TRAINING": 4, "N_TEST": 2, "KINDS": KINDS[1:2], "TREES": 3, "RANKS": (8,), "SWEEPS": 2}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK)
