"""The paper's recipe: its sweep against brute force, its cuts against all cuts, and that made areas are found."""

import json
from itertools import combinations
from pathlib import Path

import cv2
import naive
import numpy as np
import pytest
from helpers import run_command

from visionnmf import choices
from visionnmf.apps.segmentation import paper_method, paper_segments
from visionnmf.apps.segmentation.scores import covering
from visionnmf.datasets import make_mosaic
from visionnmf.engine.blocks import sum_rounding
from visionnmf.engine.kernels import manhattan
from visionnmf.exceptions import ParameterError

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

MOSAIC = make_mosaic(60, 90, n_segments=4, random_state=6)


@pytest.mark.parametrize(("n", "r"), [(7, 2), (5, 4), (2, 1)])
def test_a_sweep_solves_equation_61_for_each_variable(n: int, r: int, rng: np.random.Generator) -> None:
    S = rng.random((n, n))
    S = S + S.T
    H = rng.random((r, n))
    expected = H.copy()
    for j in range(n):  # twice over each node's codes
        for _ in range(2):
            for k in range(r):
                z = S[j] - expected[:, j] @ expected + expected[k, j] * expected[k]
                weights = np.where(np.arange(n) == j, 0.0, 1.0)
                _, lowest, highest = naive.minimise_1d(expected[k], z, weights, b=1.0)
                expected[k, j] = min(max(expected[k, j], lowest), highest)
    ones = np.ones(n)
    manhattan.rri_symmetric_sweep(S, H, H.copy(), ones, sum_rounding(np.float64), np.empty((3, n)), 1.0)
    np.testing.assert_allclose(H, expected, atol=1e-9)


def test_the_first_cut_is_the_least_of_all_that_the_eigenvector_orders() -> None:
    rng = np.random.default_rng(0)
    groups = np.array([0, 0, 0, 1, 1, 1, 1])
    affinity = np.where(groups[:, np.newaxis] == groups, 0.8, 0.05) + 0.05 * rng.random((7, 7))
    affinity = affinity + affinity.T

    def cost(side: tuple[int, ...]) -> float:
        inside = np.isin(np.arange(7), side)
        between = affinity[inside][:, ~inside].sum()
        return between / affinity[inside].sum() + between / affinity[~inside].sum()

    best = min((side for size in range(1, 7) for side in combinations(range(7), size)), key=cost)
    found = paper_method.recursive_cuts(affinity, 2)
    assert {tuple(np.flatnonzero(found == k)) for k in (0, 1)} >= {best}
    assert len(np.unique(paper_method.recursive_cuts(affinity, 7))) == 7


@pytest.mark.parametrize("method", choices.PAPER_METHODS)
def test_areas_of_one_brightness_are_found(method: str) -> None:
    grey = np.array([20, 100, 170, 240], np.uint8)[MOSAIC.labels]
    labels = paper_segments(grey, 4, method=method)
    assert labels.shape == grey.shape and labels.dtype == np.uint8
    assert (np.diff(np.bincount(labels.ravel())) <= 0).all()
    whole = covering(np.zeros_like(labels), [MOSAIC.labels])
    assert covering(labels, [MOSAIC.labels]) > whole + 0.2  # places count much: a large area is cut
    np.testing.assert_array_equal(labels, paper_segments(grey, 4, method=method))


def test_the_factorisation_is_no_trivial_one(rng: np.random.Generator) -> None:
    groups = np.repeat([0, 1, 2], 8)
    S = paper_method.normalised(np.where(groups[:, np.newaxis] == groups, 1.0, 0.01))
    H = paper_method.factorise(S, 3, np.random.RandomState(0))
    np.testing.assert_array_equal(len(set(zip(groups, H.argmax(axis=0), strict=True))), 3)
    assert np.abs(S - H.T @ H).sum() < 0.5 * np.abs(S).sum()


@pytest.mark.parametrize("method", choices.PAPER_METHODS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 2), (5, 4)])
def test_tiny_and_flat_images(method: str, shape: tuple[int, int]) -> None:
    for n_segments in (1, 2, 5):
        labels = paper_segments(np.full(shape, 9, np.uint8), n_segments, method=method)
        assert labels.shape == shape
        assert labels.max() < min(n_segments, shape[0] * shape[1])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_segments": 0}, "n_segments must be a whole number from 1 to 100; got 0"),
        ({"method": "kmeans"}, "method must be one of"),
        ({"n_components": 0}, "n_components must be a whole number >= 1"),
    ],
)
def test_arguments_out_of_range(options: dict, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        paper_segments(MOSAIC.image, **options)


def test_the_command_writes_three_methods_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_method, "MOST_PIXELS", 200)
    source = tmp_path / "tiles.png"
    cv2.imwrite(str(source), MOSAIC.image[..., ::-1])
    out = tmp_path / "out"
    found = run_command("segment", source, "--method", "paper", "--segments", 3, "--out", out, "--json")
    assert found.exit_code == 0, found.output
    report = json.loads(found.stdout)
    names = ["tiles_paper.png", *(f"tiles_paper_{method}.png" for method in choices.PAPER_METHODS)]
    assert [Path(file).name for file in report["outputs"]] == names
    assert list(report["sizes"]) == list(choices.PAPER_METHODS)
    for method, sizes in report["sizes"].items():
        labels = cv2.imread(str(out / f"tiles_paper_{method}.png"), cv2.IMREAD_UNCHANGED)
        assert np.bincount(labels.ravel()).tolist() == sizes and len(sizes) == 3
    assert cv2.imread(str(out / "tiles_paper.png")).shape == (84, 360, 3)
    text = run_command("segment", source, "--method", "paper", "--out", out, "--force")
    assert text.exit_code == 0 and "manhattan 5 segments, ncut 5 segments, spectral 5 segments" in text.stdout
    for options in (["--scale", "0.1"], ["--cutouts"], ["--formats", "csv"], ["--markers", source]):
        assert run_command("segment", source, "--method", "paper", *options, "--out", out).exit_code == 2
