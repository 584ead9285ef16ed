"""MahNMF, section 5.4: background and shadows beside robust PCA and GoDec."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import NMF
from visionnmf.apps.drawing import grey_pictures, tiled
from visionnmf.apps.evaluate.robust_pca import godec, rpca
from visionnmf.features import reduce_image
from visionnmf.io import read_arrays

from .data import data_file, load_face_set
from .experiments import Experiment, Result, Row, Sizes

Array = NDArray[Any]

I2R = "video_i2r_gray_nogt.npz"
BOOTSTRAP = "video_wallflower_bootstrap.npz"
SHADOWS = "yaleb27_96x84.npz"
SPARSE = 0.1  # of the entries, for GoDec
FRAMES = 200  # of a video, in the paper
SCENES = {"Hall": "hall", "Lobby": "lobby", "Shopping Mall": "shoppingmall_resized"}
ALIKE = 5.0  # grey levels: below this mean difference two backgrounds count as alike


Parts = dict[str, tuple[Array, float]]  # the low-rank part of data, and the CPU seconds that it took, by method


def _factorised(X: Array, rank: int) -> Array:
    """Return the model of a Manhattan NMF."""
    model = NMF(rank, max_iter=100, tol=0, random_state=0)
    return np.asarray(model.inverse_transform(model.fit_transform(X)))


METHODS: dict[str, Callable[[Array, int], Array]] = {
    "RPCA": lambda X, rank: rpca(X, max_iter=60, tol=1e-4).low_rank,
    "GoDec": lambda X, rank: godec(X, rank, SPARSE).low_rank,
    "MahNMF": _factorised,
}


def low_rank_parts(X: Array, rank: int) -> Parts:
    """Return the low-rank part of data `X`, samples as rows, and the CPU seconds, by the name of a method."""
    found = {}
    for name, find in METHODS.items():
        begin = time.process_time()
        found[name] = find(X, rank), time.process_time() - begin
    return found


def scene(name: str, sizes: Sizes) -> Array:
    """Return grey frames (n, height, width) of a video, at most FRAMES; a quick run has 40 of half the size."""
    if name == "Bootstrap":
        frames = read_arrays(data_file(BOOTSTRAP), ["frames"])["frames"]
    else:
        frames = read_arrays(data_file(I2R), [SCENES[name]])[SCENES[name]]
    n_frames = min(len(frames), sizes.pick(full=FRAMES, quick=40))
    evenly_spread = np.linspace(0, len(frames) - 1, n_frames).astype(int)
    pixels = frames[0].size // sizes.pick(full=1, quick=4)
    return 255 * np.stack([reduce_image(frame, pixels) for frame in frames[evenly_spread]])


def picture_row(X: Array, parts: Parts, place: int, shape: tuple[int, int], *, signed: bool = False) -> list[Array]:
    """Return a picture of a row of `X`, then of its low-rank part and of the rest for each method."""
    row = [grey_pictures(X[place], shape)[0]]
    for low_rank, _ in parts.values():
        rest = X[place] - low_rank[place]
        shown = 127.5 + rest / 2 if signed else np.abs(rest)
        row += [grey_pictures(low_rank[place], shape)[0], grey_pictures(shown, shape)[0]]
    return row


def likeness_rows(what: str, parts: Parts, limit: float, section: str) -> list[Row]:
    """Return how far the low-rank part of MahNMF is from those of the others: comparable below `limit` grey levels."""
    rows = []
    for other in ("RPCA", "GoDec"):
        gap = float(np.abs(parts["MahNMF"][0] - parts[other][0]).mean())
        verdict = "comparable" if gap < limit else "different"
        rows.append(Row(f"{what} from {other}'s, grey levels", gap, paper=f"comparable, {section}", verdict=verdict))
    return rows


def backgrounds(sizes: Sizes, *, names: Sequence[str]) -> Result:
    """Repeat figure 16 or 17 of the MahNMF paper: background and foreground by each method, two frames a video."""
    pictures, rows = {}, []
    table = [["video", "frames", *(f"{method}, CPU seconds" for method in METHODS)]]
    for name in names:
        frames = scene(name, sizes)
        n, *shape = frames.shape
        X = frames.reshape(n, -1).astype(np.float32)
        parts = low_rank_parts(X, rank=2)
        sheet = [picture_row(X, parts, place, (shape[0], shape[1])) for place in (n // 3, 2 * n // 3)]
        pictures[f"{name}: frame, then background and foreground by {', '.join(METHODS)}."] = tiled(sheet)
        rows += likeness_rows(f"{name}: mean difference of MahNMF's background", parts, ALIKE, "5.4.1")
        table.append([name, str(n), *(f"{seconds:.1f}" for _, seconds in parts.values())])
    return Result(rows, pictures, {"Time": table})


def shadows(sizes: Sizes, *, people: Sequence[int]) -> Result:
    """Repeat figure 18 or 19 of the MahNMF paper: images of two people without shadows by each method."""
    faces = load_face_set(SHADOWS.removesuffix(".npz"))
    shape = (faces.images.shape[1], faces.images.shape[2])
    sheet, rows = [], []
    for person in people:
        X = faces.images[faces.labels == np.unique(faces.labels)[person]].reshape(-1, shape[0] * shape[1])
        X = X.astype(np.float32)[:: sizes.pick(full=1, quick=2)]
        parts = low_rank_parts(X, rank=3)
        # the share of each image that lies in shadow: pixels below a third of its median
        dark = (X < np.quantile(X, 0.5, axis=1, keepdims=True) / 3).mean(axis=1)
        middle, large = np.argsort(dark)[[len(X) // 2, 3 * len(X) // 4]]  # images with shadows of these sizes
        sheet += [picture_row(X, parts, place, shape, signed=True) for place in (middle, large)]
        # ALIKE is the limit for backgrounds; that for faces is twice as large
        rows += likeness_rows(f"person {person + 1}: mean difference of MahNMF's faces", parts, 2 * ALIKE, "5.4.2")
    caption = f"Image, then face and removed light by {', '.join(METHODS)}; darker than middle grey is a shadow."
    return Result(rows, {caption: tiled(sheet)})


OPEN = (
    "RPCA has lambda = 1 / sqrt(max(m, n)); GoDec has the rank of MahNMF and a tenth of the entries as outliers, "
    "because the paper only refers to demos.",
    "Ours is the package's solver of the Manhattan loss, 100 iterations, not the authors'.",
    "The paper shows pictures alone. Comparable is a mean difference below 5 grey levels, and 10 for faces.",
)


def _video(number: int, names: Sequence[str], replaced: str) -> Experiment:
    """Return the experiment of two videos in a figure of the MahNMF paper; `replaced` says how they differ from it."""
    files = (I2R,) if "Bootstrap" not in names else (I2R, BOOTSTRAP)
    return Experiment(
        f"mahnmf/fig-{number}",
        f"background and foreground, {names[0]} and {names[1]}",
        "MahNMF of rank 2 separates background and foreground without losing detail, comparably to RPCA and GoDec.",
        partial(backgrounds, names=names),
        data=f"I2R: {' and '.join(names)}.",
        files=files,
        replaced=replaced,
        protocol=OPEN,
    )


EXPERIMENTS = (
    _video(
        16, ("Hall", "Lobby"), "24 frames of Hall and 90 of Lobby in place of 200 of each, which are at hand in grey"
    ),
    _video(17, ("Bootstrap", "Shopping Mall"), "Shopping Mall is smaller than the paper's, and has 90 frames"),
    *(
        Experiment(
            f"mahnmf/fig-{number}",
            f"shadows and light removed, people {people[0] + 1} and {people[1] + 1}",
            "MahNMF of rank 3 removes shadows and highlights, comparably to RPCA and GoDec.",
            partial(shadows, people=people),
            "Extended Yale B, about 64 images of each person.",
            (SHADOWS,),
            "images of 96 × 84 pixels in place of 192 × 168",
            OPEN,
        )
        for number, people in ((18, (0, 1)), (19, (2, 3)))
    ),
)
