"""Corruption of face images: exact semantics, ranges, dtypes and refusals."""

import numpy as np
import pytest

from visionnmf.datasets import CORRUPTIONS, corrupt
from visionnmf.exceptions import ParameterError

REPLACING = {"occlusion", "salt_and_pepper", "dead_lines"}
DTYPES = {np.uint8: 255, np.uint16: 65535, np.float32: 1, np.float64: 1}


def ramp(n=40, height=20, width=24, dtype=np.uint8, white=None):
    white = DTYPES[dtype] if white is None else white
    levels = np.linspace(0.25, 0.75, height * width).reshape(height, width) * white
    return np.broadcast_to(levels, (n, height, width)).astype(dtype)


@pytest.mark.parametrize("kind", CORRUPTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_shape_dtype_range_and_input_are_kept(kind, dtype):
    images = ramp(dtype=dtype)
    before = images.copy()
    corrupted, mask = corrupt(images, kind, return_mask=True, random_state=0)
    assert corrupted.dtype == dtype
    assert corrupted.shape == mask.shape == images.shape
    assert mask.dtype == bool
    assert 0 <= corrupted.min() and corrupted.max() <= DTYPES[dtype]
    np.testing.assert_array_equal(images, before)
    assert not np.shares_memory(corrupted, images)
    assert np.array_equal(corrupted, images) == (kind == "none")
    assert mask.any() == (kind in REPLACING)
    if kind in REPLACING:
        np.testing.assert_array_equal(corrupted[~mask], images[~mask])


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_a_seed_reproduces_and_the_mask_is_only_an_extra(kind):
    images = ramp()
    alone = corrupt(images, kind, random_state=3)
    np.testing.assert_array_equal(alone, corrupt(images, kind, return_mask=True, random_state=3)[0])
    assert kind == "none" or not np.array_equal(alone, corrupt(images, kind, random_state=4))
    assert kind == "none" or not np.array_equal(alone[0], alone[1]), "each image has its own corruption"


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_the_default_severity_follows_the_range(kind):
    images = ramp(dtype=np.uint8)
    unit = corrupt(images / np.float64(255), kind, random_state=0)
    assert np.abs(corrupt(images, kind, random_state=0) - unit * 255).max() <= 0.5 + 1e-9


@pytest.mark.parametrize("kind", sorted(set(CORRUPTIONS) - {"none", "poisson"}))
def test_no_severity_changes_nothing(kind):
    images = ramp()
    np.testing.assert_array_equal(corrupt(images, kind, 0, random_state=0), images)


@pytest.mark.parametrize("kind", sorted(set(CORRUPTIONS) - {"none", "poisson"}))
def test_more_severity_is_more_error(kind):
    images = ramp()
    severities = {"occlusion": (2, 6, 12), "laplace": (5, 20, 60), "gaussian": (5, 20, 60)}.get(kind, (0.05, 0.2, 0.6))
    errors = [np.abs(corrupt(images, kind, s, random_state=0).astype(float) - images).mean() for s in severities]
    assert errors[0] < errors[1] < errors[2]


def test_occlusion_is_one_white_square_an_image_at_any_position():
    corrupted, mask = corrupt(ramp(2000, 6, 9), "occlusion", 4, return_mask=True, random_state=0)
    assert (corrupted[mask] == 255).all()
    rows, columns = mask.any(2), mask.any(1)
    np.testing.assert_array_equal(mask, rows[:, :, None] & columns[:, None, :])
    for axis, length in ((rows, 6), (columns, 9)):
        assert set(axis.sum(1)) == {4}
        assert set(np.abs(np.diff(axis.astype(int), axis=1, prepend=0, append=0)).sum(1)) == {2}, "contiguous"
        starts, counts = np.unique(axis.argmax(1), return_counts=True)
        np.testing.assert_array_equal(starts, np.arange(length - 4 + 1))
        assert counts.min() > 0.7 * 2000 / len(starts)


def test_occlusion_is_cut_to_the_image_and_salt_and_pepper_black_or_white_evenly():
    assert corrupt(ramp(3, 32, 40), "occlusion", return_mask=True, random_state=0)[1].sum((1, 2)).tolist() == [144] * 3
    assert corrupt(ramp(3, 5, 9), "occlusion", 99, return_mask=True, random_state=0)[1].all()
    corrupted, mask = corrupt(ramp(100), "salt_and_pepper", 0.4, return_mask=True, random_state=0)
    assert mask.mean() == pytest.approx(0.4, abs=0.01)
    levels, counts = np.unique(corrupted[mask], return_counts=True)
    assert levels.tolist() == [0, 255]
    assert counts[0] / counts.sum() == pytest.approx(0.5, abs=0.01)


def test_noise_has_the_size_asked_for_and_poisson_counts_photons():
    images = np.full((50, 40, 40), 1000, np.uint16)  # far from both ends, so that nothing is clipped
    laplace = corrupt(images, "laplace", 30, random_state=0).astype(float) - images
    assert np.abs(laplace).mean() == pytest.approx(30, rel=0.02)
    assert laplace.std() == pytest.approx(30 * np.sqrt(2), rel=0.02)
    gaussian = corrupt(images, "gaussian", 40, random_state=0).astype(float) - images
    assert gaussian.std() == pytest.approx(40, rel=0.02)
    assert np.abs(gaussian).mean() == pytest.approx(40 * np.sqrt(2 / np.pi), rel=0.02)
    for noise in (laplace, gaussian):
        assert noise.mean() == pytest.approx(0, abs=0.5)
    counted = corrupt(images, "poisson", 0.05, random_state=0).astype(float)
    np.testing.assert_array_equal(counted / 20, np.rint(counted / 20))  # whole photons
    assert counted.mean() == pytest.approx(1000, rel=0.01)
    assert counted.var() == pytest.approx(1000 / 0.05, rel=0.03)
    fewer = corrupt(images, "poisson", 0.01, random_state=0).astype(float)
    assert fewer.std() > 2 * counted.std()


def test_dead_lines_are_whole_and_integers_rounded_and_clipped():
    corrupted, mask = corrupt(ramp(300), "dead_lines", 0.2, return_mask=True, random_state=0)
    assert not corrupted[mask].any()
    rows, columns = mask.all(2), mask.all(1)
    np.testing.assert_array_equal(mask, rows[:, :, None] | columns[:, None, :])
    assert rows.mean() == pytest.approx(0.2, abs=0.02)
    assert columns.mean() == pytest.approx(0.2, abs=0.02)
    bright = np.full((20, 30, 30), 250, np.uint8)
    noisy = corrupt(bright, "gaussian", 30, random_state=0)
    assert (noisy == 255).mean() > 0.3
    assert noisy.min() > 90
    tiny = corrupt(bright, "gaussian", 0.1, random_state=0)
    np.testing.assert_array_equal(tiny, bright)  # cutting off would darken half of them


@pytest.mark.parametrize(
    ("images", "arguments", "sentence"),
    [
        (ramp(), {"kind": "rain"}, "kind must be one of \\['none', .*\\]; got 'rain'"),
        (ramp()[0], {}, r"images must have the shape .*; got \(20, 24\); give one image as image\[None\]"),
        (ramp()[:0], {}, r"not be empty; got \(0, 20, 24\)"),
        (ramp().astype(int), {}, "images must be uint8, .* or float64; got int64; convert them"),
        (ramp(dtype=np.float32, white=255), {}, r"images must lie in \[0, 1\]; got values from 63.75 to 191.25; scale"),
        (np.full((1, 2, 2), np.nan), {}, "images must not hold NaN; got 4 of them; fill them in"),
        (ramp(), {"severity": 2.5}, "severity must be a whole number >= 0; got 2.5"),
        (ramp(), {"severity": -1}, "severity must be a whole number >= 0; got -1"),
        (ramp(), {"kind": "laplace", "severity": -1}, "severity must be a finite number >= 0; got -1"),
        (ramp(), {"kind": "gaussian", "severity": np.nan}, "severity must be .* got nan"),
        (ramp(), {"kind": "salt_and_pepper", "severity": 30}, "severity must be a number from 0 to 1; got 30"),
        (ramp(), {"kind": "dead_lines", "severity": 1.5}, "severity must be a number from 0 to 1; got 1.5"),
        (ramp(), {"kind": "poisson", "severity": 0}, "severity must be a number > 0 .*; got 0"),
        (ramp(), {"kind": "poisson", "severity": 1e300}, "severity must be .* got 1e[+]300"),
        (ramp(), {"random_state": "seed"}, "random_state must be None, .*; got 'seed'"),
    ],
)
def test_a_bad_argument_is_named_with_its_value(images, arguments, sentence):
    with pytest.raises(ParameterError, match=sentence):
        corrupt(images, **{"kind": "occlusion", **arguments})
