"""Segments by symmetric NMF, and their memberships."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import run_command

from visionnmf.apps.segmentation import segment
from visionnmf.apps.segmentation.hierarchy import Hierarchy
from visionnmf.apps.segmentation.scores import covering
from visionnmf.apps.segmentation.soft_parts import diffuse_affinity, tree_connection
from visionnmf.datasets import make_mosaic
from visionnmf.exceptions import ParameterError
from visionnmf.io import read_image, write_image


def test_groups_that_meet_low_in_the_tree_are_connected_best() -> None:
    # regions 0 and 1 join at 0.1, then 2 and 3 at 0.2, and both pairs at 0.5; groups are 0 with 1, 2, and 3
    children = np.array([[0, 1], [2, 3], [4, 5]])
    nothing = np.zeros((0, 2), np.int64)
    tree = Hierarchy(np.zeros((1, 4), np.int32), nothing, children, np.array([0.1, 0.2, 0.5]), np.zeros(0))
    heights = np.array([[0, 0.5, 0.5], [0.5, 0, 0.2], [0.5, 0.2, 0]])
    found = tree_connection(tree, tree.cut(n_segments=3))
    np.testing.assert_allclose(-np.log(found) * 0.2**2, heights**2, atol=1e-12)


@pytest.mark.parametrize("loss", ["manhattan", "frobenius"])
def test_segments_by_nmf_are_those_of_the_largest_memberships(loss: str) -> None:
    mosaic = make_mosaic(120, 160, n_segments=4, random_state=3)
    inside = np.ones((120, 160), bool)
    inside[:, :10] = False
    result = segment(mosaic.image, 4, method="nmf", loss=loss, mask=inside)
    assert result.memberships is not None and result.scale is None
    assert result.memberships.shape == (len(result.sizes), 120, 160)
    np.testing.assert_array_equal(result.memberships.argmax(axis=0)[inside], result.labels[inside])
    np.testing.assert_allclose(result.memberships.sum(axis=0), inside, atol=1e-5)
    np.testing.assert_array_equal(result.sizes, np.bincount(result.labels[inside]))
    assert (np.diff(result.sizes) <= 0).all()
    assert covering(result.labels[inside], [mosaic.labels[inside]]) > 0.7
    assert result.recut(n_segments=2).memberships is None  # a cut of the tree has none
    assert len(segment(mosaic.image, method="nmf", loss=loss).sizes) <= len(segment(mosaic.image).sizes)


def test_the_command_writes_memberships(tmp_path: Path) -> None:
    source = tmp_path / "tiles.png"
    write_image(source, make_mosaic(60, 90, n_segments=4, random_state=3).image)
    command = ("segment", source, "--method", "nmf", "--out", tmp_path / "out")
    found = run_command(*command, "--segments", 3, "--loss", "frobenius", "--memberships", "--json")
    assert found.exit_code == 0, found.output
    report = json.loads(found.stdout)
    assert report["scale"] is None
    files = [Path(file) for file in report["outputs"]]
    labels, sheet, *parts = (read_image(file) for file in (files[0], *files[4:]))
    assert files[4].name == "tiles_memberships.png" and sheet.shape == (60, 90, 3)
    assert [str(file.relative_to(tmp_path / "out")) for file in files[5:]] == [
        f"tiles_memberships/tiles_{k}.png" for k in range(len(report["sizes"]))
    ]
    shares = np.array([part[..., 0] for part in parts], int)
    assert (abs(shares.sum(axis=0) - 255) <= 2).all()
    largest = np.take_along_axis(shares, labels[np.newaxis, ..., 0].astype(int), 0)[0]
    assert (largest >= shares.max(axis=0)).all()
    for wrong in (["--scale", "0.1"], ["--markers", source], ["--method", "tree", "--memberships"]):
        refused = run_command(*command, *wrong, "--force")
        assert refused.exit_code == 2 and "method" in refused.stderr


@pytest.mark.filterwarnings("ignore:1 segment in place of")
def test_a_flat_picture_has_one_part() -> None:
    flat = np.zeros((20, 30), np.uint8)
    np.testing.assert_array_equal(segment(flat, 3, method="nmf").memberships, np.ones((1, 20, 30)))
    with pytest.raises(ParameterError, match="method must be one of"):
        segment(flat, method="paper")


def test_diffusion_is_the_power_of_the_random_walk(rng: np.random.Generator) -> None:
    sizes = rng.uniform(1, 9, 8)
    c = sizes / sizes.mean()
    base = rng.random((8, 8))
    affinity = base @ base.T  # positive semidefinite, as a power of any order asks for
    walk = affinity * c / (affinity @ c)[:, np.newaxis]  # row-stochastic: from region to region
    one = diffuse_affinity(affinity, sizes, 8)
    degrees = affinity @ c
    np.testing.assert_allclose(one, affinity / np.sqrt(np.outer(degrees, degrees)))
    trace = float(np.trace(np.linalg.matrix_power(walk, 3)))
    three = diffuse_affinity(affinity, sizes, trace)
    # D^(-1/2) (walk kernel) D^(1/2), divided by the sizes of the targets
    expected = np.linalg.matrix_power(walk, 3) * np.sqrt(degrees[:, None] / degrees[None, :]) / c
    np.testing.assert_allclose(three, expected, rtol=1e-4)


def test_diffusion_fills_blocks() -> None:
    # two chains: neighbours only before, whole blocks after
    chain = np.eye(10) + np.eye(10, k=1) + np.eye(10, k=-1)
    affinity = np.kron(np.eye(2), chain) + 1e-4
    filled = diffuse_affinity(affinity, np.ones(20), 2.1)
    inside = np.kron(np.eye(2), np.ones((10, 10))) > 0
    assert filled[inside].min() > 5 * filled[~inside].max()
