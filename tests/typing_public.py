"""A user's code with the calls of the guides, which `make types` checks with ``mypy --strict``."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import visionnmf.apps.annotation
from visionnmf import NMF, MultiviewNMF, OnlineNMF, Penalty, fit_stream, load_model, select_loss, select_rank
from visionnmf.apps.annotation import WordOutputs, annotate
from visionnmf.apps.background import BackgroundModel, process_video
from visionnmf.apps.faces import FaceRecognizer
from visionnmf.apps.segmentation import SegmentationResult, overlay, segment
from visionnmf.datasets import make_corrupted_low_rank, make_mosaic, make_surveillance
from visionnmf.features import FeatureExtraction
from visionnmf.io import open_video, read_image, write_image
from visionnmf.metrics import clustering_accuracy
from visionnmf.plotting import ConvergenceDisplay, SegmentationDisplay


def factors(X: NDArray[np.float32], file: Path) -> float:
    """Fit, choose, save, load and plot models."""
    model = NMF(20, penalty_W=Penalty(l1=0.1), random_state=0).fit(X)
    codes = model.transform(X)
    clean = model.inverse_transform(codes)
    model.save(file, force=True)
    loaded = load_model(file)
    print(type(loaded).__name__, select_rank(X, [2, 4]).n_components, select_loss(X).loss)
    ConvergenceDisplay.from_estimator(model).figure_.savefig(file)
    fit_stream(OnlineNMF(5), [X, X])
    first, second = MultiviewNMF(4).fit([X, X]).impute([X, None])
    return float(np.abs(clean - X).sum()) + float(np.asarray(first).sum() + np.asarray(second).sum())


def pictures(file: str) -> SegmentationResult:
    """Divide, describe and annotate pictures."""
    image = read_image(file)
    result = segment(image, n_segments=5)
    write_image("out.png", overlay(image, result.labels), force=True)
    SegmentationDisplay.from_result(result)
    FeatureExtraction(["gist"]).fit_transform([image, make_mosaic(random_state=0).image])
    report = annotate(visionnmf.apps.annotation.load("words.npz"), [file], outputs=WordOutputs(top=3))
    print(report.figures["images"], report.outputs)
    print(result.at(n_segments=3).max())
    return result


def videos(file: str) -> list[NDArray[np.uint8]]:
    """Find what moves."""
    clip = make_surveillance(random_state=0)
    masks = [result.mask for result in BackgroundModel().fit(clip.frames).apply(clip.frames)]
    with open_video(file) as frames:
        print(sum(frame.shape[0] for frame in frames))
    print(process_video(file, out=Path("out")).seconds)
    return masks


def faces(X: NDArray[np.float32], names: list[str]) -> float:
    """Recognise people."""
    found = FaceRecognizer(outliers=3, random_state=0).fit(X, names).predict(X)
    return clustering_accuracy(names, found) + float(make_corrupted_low_rank(random_state=0).clean.mean())
