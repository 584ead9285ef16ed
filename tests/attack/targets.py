"""What reads a mutated file, and how large what it returns is."""

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import scipy.sparse as sp

import visionnmf
from visionnmf import io
from visionnmf.apps import annotation, faces, masquerade, multiview
from visionnmf.apps.background import BackgroundModel, OnlineBackgroundModel
from visionnmf.datasets import load_faces
from visionnmf.features import load_extraction
from visionnmf.io.keywords import find_keywords
from visionnmf.io.tables import read_tables

warnings.simplefilter("ignore")

Y = np.random.default_rng(1).random((3, 16))
FRAME = np.random.default_rng(3).integers(90, 110, (12, 16, 3)).astype(np.uint8)
PHOTOGRAPH = np.random.default_rng(2).integers(0, 256, (16, 24, 3), np.uint8)


def _picture(path: Path) -> int:
    return io.read_image(path, max_pixels=4_000_000).nbytes


def _video(path: Path) -> int:
    size = 0
    with io.VideoReader(path) as reader:
        for number, frame in enumerate(reader):
            size = max(size, frame.nbytes)
            if number == 50:
                break
    return size


def _model(path: Path) -> int:
    """Load a model; one that loads must work."""
    if path.name == "users.npz":
        users = masquerade.load(path).scorers.values()
        for scorer in users:
            scorer.score_samples([["ls", "cd", "nc"]])
        return path.stat().st_size
    if path.name == "faces.npz":
        recognizer = faces.load(path).recognizer
        recognizer.predict(np.full((1, int(np.prod(recognizer.image_shape))), 9.0))
        return path.stat().st_size
    if path.name == "extraction.npz":
        load_extraction(path).transform([PHOTOGRAPH])
        return path.stat().st_size
    if path.name in ("weighted.npz", "jec.npz"):
        annotated = annotation.load(path)
        X = np.ones((1, annotated.annotator.n_features_in_), np.float32)
        X = X if annotated.extraction is None else annotated.extraction.transform([PHOTOGRAPH])
        annotated.annotator.predict(X)
        assert np.isfinite(annotated.annotator.predict_proba(X)).all(), "probabilities that are not finite"
        return path.stat().st_size
    if path.name in ("background.npz", "live.npz"):
        if path.name == "live.npz":
            OnlineBackgroundModel.load(path).partial_fit(FRAME)
        else:
            list(BackgroundModel.load(path).apply([FRAME]))
        return path.stat().st_size
    if path.name == "views.npz":
        views = multiview.load(path)
        views.model.transform(views.preparation.transform({"seen": Y[:, :10], "heard": Y[:, 10:]}))
        return path.stat().st_size
    model = visionnmf.load_model(path)
    if isinstance(model, visionnmf.MultiviewNMF):  # by what it holds: mutations splice files of different models
        model.transform([Y[:, :10], Y[:, 10:]])
        return path.stat().st_size
    if path.name != "symmetric.npz" and model.n_features_in_ == 16:
        assert np.isfinite(model.transform(Y)).all(), "codes that are not finite"
    return path.stat().st_size


def _matrix(path: Path) -> int:
    if path.name.startswith("table"):
        key = None if path.suffix == ".npy" else "key"
        return sum(table.X.nbytes for table in read_tables(path, key=key))
    if path.suffix == ".mat":
        return sum(array.nbytes for array in io.read_mat(path, ["fea", "gnd"]).values())
    return load_faces(path).images.nbytes


def _log(path: Path) -> int:
    for number, _ in enumerate(masquerade.read_events(path)):
        if number == 200_000:
            break
    return path.stat().st_size


def _keywords(path: Path) -> int:
    """Read keywords of a photograph, or of one beside a sidecar, which need not be a picture."""
    photograph = path.with_suffix(".png") if path.suffix == ".xmp" else path
    photograph.touch()
    try:
        return path.stat().st_size + sum(map(len, find_keywords(photograph).words))
    finally:
        if photograph != path:
            photograph.unlink()


READERS: dict[str, Callable[[Path], int]] = {
    "pictures": _picture,
    "videos": _video,
    "models": _model,
    "matrices": _matrix,
    "logs": _log,
    "keywords": _keywords,
}


def sparse(random: Random) -> int:
    """Fit sparse data whose arrays were changed behind SciPy's back."""
    X = sp.random_array((30, 16), density=0.3, format="csr", rng=np.random.default_rng(random.randrange(9)))
    X = copy.deepcopy(X.asformat(random.choice(("csr", "csr", "csc", "coo", "bsr", "lil"))))
    names = ("rows",) if X.format == "lil" else ("indices", "indptr", "data", "row")
    name = random.choice([name for name in names if hasattr(X, name)])
    array = getattr(X, name)
    if name == "rows":
        array[random.randrange(len(array))] = [random.choice((-1, 16, 10**6))]
    elif random.random() < 0.2:
        setattr(X, name, array[: random.randrange(len(array))])
    else:
        array[random.randrange(len(array))] = random.choice((-1, 0, 15, 16, 30, 10**6, 2**31 - 1, -(2**31)))
    loss = random.choice(("frobenius", "manhattan", "kullback-leibler"))
    model: Any = visionnmf.NMF(2, loss=loss, max_iter=3, tol=0, random_state=0)
    model.fit(X)
    return 0


MADE: dict[str, Callable[[Random], int]] = {
    "sparse": sparse,
}  # cases without a file to mutate
