"""The network against loops and against PyTorch, where it is trained."""

import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from visionnmf.apps.segmentation import network, regions
from visionnmf.datasets import make_mosaic
from visionnmf.io import write_image

ROOT = Path(__file__).resolve().parents[3]


def random_image(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    return rng.random((height, width, 3), np.float32)


@pytest.mark.parametrize(("size", "stride", "dilation"), [(1, 1, 1), (3, 1, 1), (3, 2, 1), (5, 2, 1), (3, 1, 4)])
def test_convolutions_are_those_of_loops(rng: np.random.Generator, size: int, stride: int, dilation: int) -> None:
    x, weights = rng.integers(-255, 256, (8, 10, 3)), rng.integers(-127, 128, (size, size, 3, 4))
    gain, offsets = rng.random(4, np.float32), rng.standard_normal(4, np.float32)
    expected = np.zeros((8 // stride, 10 // stride, 4))
    for row, column in np.ndindex(expected.shape[:2]):
        for i, j in np.ndindex(size, size):
            place = row * stride + (i - size // 2) * dilation, column * stride + (j - size // 2) * dilation
            if 0 <= place[0] < 8 and 0 <= place[1] < 10:
                expected[row, column] += x[place] @ weights[i, j]
    numbers = {"a.w": weights.astype(np.float32), "a.gain": gain, "a.b": offsets, "a.step": np.float32(0.25)}
    values = (x * 0.25 + rng.uniform(-0.1, 0.1, x.shape)).astype(np.float32)  # rounded to steps of 0.25
    found = network._convolve(values, numbers, "a", stride=stride, dilation=dilation)
    np.testing.assert_allclose(found, expected * gain + offsets, rtol=1e-5, atol=1e-3)


def test_it_is_the_network_that_pytorch_trains(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    from _boundary_network import BoundaryNetwork, weights

    torch.manual_seed(0)
    trained = BoundaryNetwork()
    for name, value in trained.state_dict().items():
        if "running" in name or name.endswith("1.weight"):
            value.uniform_(0.5, 1.5)
    image = cv2.GaussianBlur(random_image(rng, 64, 96), (0, 0), 2)
    calm = np.rint(image * 255).astype(np.uint8)
    found = network.find_boundaries(image, {k: np.float32(v) for k, v in weights(trained.eval(), [calm]).items()})
    framed = np.pad(image, ((16, 16), (16, 16), (0, 0)), mode="symmetric")
    with torch.no_grad():
        outputs, vectors = trained((torch.from_numpy(framed).permute(2, 0, 1)[None] * 255 - 127.5) / 64)
    for ours, theirs in zip(found, (torch.sigmoid(outputs[0])[0, 0], vectors[0].permute(1, 2, 0)), strict=True):
        expected = cv2.resize(theirs.numpy(), framed.shape[1::-1])[16:-16, 16:-16]
        # 8 bits in place of 24
        assert np.abs(ours - expected).mean() < 0.05 * expected.std()


@pytest.mark.slow
def test_one_command_learns_from_photographs_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import _boundary_network
    import segmentation_train

    for k in range(8):
        made = make_mosaic(324, 404 + k, random_state=k)
        cv2.imwrite(str(tmp_path / f"{k}.jpg"), made.image)
        write_image(tmp_path / f"{k}_1.png", made.labels.astype(np.uint8))
    for name, value in (("FILE", tmp_path / "learnt.npz"), ("NETWORK", tmp_path / "network.npz"), ("TREES", 3)):
        monkeypatch.setattr(segmentation_train, name, value)
    monkeypatch.setattr(segmentation_train, "ROUNDS", 0)
    monkeypatch.setattr(segmentation_train, "SCALES", np.array([0.2, 0.4]))
    photographs = segmentation_train.load_photographs([tmp_path])
    _boundary_network.train("all", photographs, [], tmp_path / "runs", 1)  # a run that was ended after a step
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "runs"), "--photographs", str(tmp_path), "--steps", "2"])
    segmentation_train.main()
    model = regions.load_border_model(tmp_path / "learnt.npz")
    assert model.scale in (0.2, 0.4) and len(model.trees.roots) == 3
    weights = network.load_network(tmp_path / "network.npz")
    assert network.find_boundaries(np.zeros((40, 50, 3), np.float32), weights)[0].shape == (40, 50)
    # it went on as if it had not been ended
    straight = network.load_network(_boundary_network.train("all", photographs, [], tmp_path / "straight", 2))
    for name, values in weights.items():
        np.testing.assert_array_equal(straight[name], values)


@pytest.mark.parametrize("shape", [(1, 1), (3, 50), (37, 61)])
def test_any_size_and_any_number_of_threads_give_the_same(rng: np.random.Generator, shape: tuple[int, int]) -> None:
    image = random_image(rng, *shape)
    weights = network.load_network()
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(network.find_boundaries(image, weights))
    (boundary, vectors), others = found
    assert boundary.shape == shape and vectors.shape == (*shape, 8)
    assert (boundary >= 0).all() and (boundary <= 1).all()
    np.testing.assert_array_equal(boundary, others[0])
    np.testing.assert_array_equal(vectors, others[1])


def test_a_flat_picture_has_no_boundary_not_even_at_its_frame_and_the_weights_are_small():
    boundary, _ = network.find_boundaries(np.full((60, 80, 3), 0.4, np.float32), network.load_network())
    assert boundary.max() < 0.1
    assert network.FILE.stat().st_size <= 1_100_000
