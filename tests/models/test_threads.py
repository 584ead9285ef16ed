"""Results do not depend on threads: how many there are, several fits at once, processes, a fork."""

import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import visionnmf
from visionnmf.apps.annotation import ImageAnnotator
from visionnmf.apps.background import BackgroundModel, OnlineBackgroundModel
from visionnmf.apps.faces import FaceRecognizer
from visionnmf.apps.masquerade import SessionScorer
from visionnmf.apps.segmentation import segment
from visionnmf.choices import ANNOTATION_METHODS
from visionnmf.datasets import make_mosaic, make_surveillance
from visionnmf.features import DenseHue, DenseSift, FeatureExtraction, HarrisHue, HarrisSift

# Large enough for a BLAS to use its threads, and for several blocks; few iterations, as differences grow with them.
MODELS = {
    "manhattan": lambda: visionnmf.NMF(6, max_iter=8, tol=0, random_state=0),
    "frobenius": lambda: visionnmf.NMF(6, loss="frobenius", max_iter=8, tol=0, random_state=0),
    "kullback-leibler": lambda: visionnmf.NMF(6, loss="kullback-leibler", max_iter=8, tol=0, random_state=0),
    "nndsvd": lambda: visionnmf.NMF(6, loss="frobenius", init="nndsvda", max_iter=8, tol=0, random_state=0),
    "projective": lambda: visionnmf.ProjectiveNMF(6, max_iter=8, tol=0, random_state=0),
    "projective kl": lambda: visionnmf.ProjectiveNMF(
        6, loss="kullback-leibler", init="random", max_iter=8, tol=0, random_state=0
    ),
    "symmetric": lambda: visionnmf.SymmetricNMF(4, n_init=2, max_iter=8, tol=0, random_state=0),
    "symmetric least squares": lambda: visionnmf.SymmetricNMF(
        4, loss="frobenius", n_init=2, max_iter=8, tol=0, random_state=0
    ),
    "online manhattan": lambda: visionnmf.OnlineNMF(6, max_iter=1, random_state=0),
    "online surrogate": lambda: visionnmf.OnlineNMF(6, method="surrogate", max_iter=2, random_state=0),
    "online or-nmf": lambda: visionnmf.OnlineNMF(6, method="or-nmf", batch_size=100, max_iter=1, random_state=0),
    "conservative": lambda: visionnmf.ConservativeNMF(6, max_iter=1, shuffle=True, random_state=0),
    "multiview": lambda: visionnmf.MultiviewNMF(6, max_iter=4, tol=0, random_state=0),
}
KINDS = [
    *(DenseHue(4), DenseSift(4), HarrisHue(4), HarrisSift(4)),
    *("rgb", "lab", "hsv", "gist", "hog", "lbp", "centrist", "raw-pixels"),
]


def digest(name):
    """Fit a model and return a digest of its components, to the bit."""
    rng = np.random.default_rng(3)
    X = rng.gamma(1, size=(500, 6)) @ rng.gamma(1, size=(6, 420))
    if name.startswith("symmetric"):
        X = X[:300] @ X[:300].T
        X /= X.max()
    if name.startswith("multiview"):
        X = [X[:, :300], X[:, 300:]]
    return hashlib.sha256(MODELS[name]().fit(X).components_.tobytes()).hexdigest()


def digests(_=None):
    return {name: digest(name) for name in MODELS} | applications()


def applications():
    """Run the applications and return digests of what they find."""
    rng = np.random.default_rng(4)
    image = make_mosaic(60, 80, random_state=0).image
    frames = make_surveillance(12, 48, 64, random_state=0).frames
    people = np.repeat(np.arange(5), 4)
    faces = np.clip(rng.random((5, 64))[people] * 200 + rng.normal(0, 5, (20, 64)), 0, 255)
    sessions = [rng.choice(["ls", "cd", "vi"], 30).tolist() for _ in range(12)]
    recognizer = FaceRecognizer(image_shape=(8, 8), random_state=0).fit(faces, people)
    photographs = [make_mosaic(48, 64, random_state=seed).image for seed in range(8)]
    extraction = FeatureExtraction(KINDS, max_pixels=3000).fit(photographs)
    features = extraction.transform(photographs)
    words = rng.random((8, 4)) < 0.5
    annotators = {
        f"annotation, {method}": ImageAnnotator(method, n_components=2, n_neighbors=3, random_state=0)
        .fit(features, words, views=extraction.views_)
        .predict_proba(features)
        for method in ANNOTATION_METHODS
    }
    live = OnlineBackgroundModel(frame_rate=10)
    found = annotators | {
        "features": features,
        "live background": np.stack([frame.mask for frame in live.follow(frames)]),
        "segmentation": segment(image).labels,
        "background": np.stack([frame.mask for frame in BackgroundModel(random_state=0).fit(frames).apply(frames)]),
        "faces": recognizer.distances(faces),
        "masquerade": SessionScorer().fit(sessions).score_samples(sessions),
    }
    return {name: hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for name, array in found.items()}


@pytest.fixture(scope="module")
def expected():
    """What one thread gives."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("VISIONNMF_NUM_THREADS", "1")
        return digests()


def in_a_process(threads, command="t.digests()"):
    # BLAS starts with one thread everywhere: on some processors OpenBLAS rounds in another way when it starts with more
    variables = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    start = "import json, warnings; warnings.simplefilter('ignore'); import test_threads as t; "
    found = subprocess.run(
        [sys.executable, "-c", f"{start}print(json.dumps({command}))"],
        env={**os.environ, **variables, "VISIONNMF_NUM_THREADS": threads},
        cwd=os.path.dirname(__file__),
        capture_output=True,
        check=True,
        text=True,
    )
    return json.loads(found.stdout)


def after_a_fork():
    """Fit all models, and do so again in two forks, with the applications: in a process without another thread.

    The applications come after the fork alone: OpenCV keeps a lock that an ending thread may hold at the fork, and what
    calls it in the fork then waits for ever.
    """
    before = {name: digest(name) for name in MODELS}
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        return [before, *pool.map(digests, range(2))]


pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]


def test_any_number_of_threads_gives_the_same_to_the_bit(expected):
    assert in_a_process("7") == expected


def test_fits_and_applications_in_four_threads_at_once_are_those_of_one(expected):
    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(MODELS, pool.map(digest, MODELS), strict=True))
        assert found.items() <= expected.items()
        for found in pool.map(lambda _: applications(), range(4)):
            assert found.items() <= expected.items()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_fits_after_a_fork_are_those_before(expected):
    before, *forks = in_a_process("2", "t.after_a_fork()")
    assert forks == [expected, expected]
    assert before.items() <= expected.items()
