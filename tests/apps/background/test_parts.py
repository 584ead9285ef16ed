"""The parts of the background model for hard clips, each on a made clip that needs it; kernels against loops."""

import dataclasses

import cv2
import numpy as np
import pytest

from visionnmf.apps.background import BackgroundModel, modes, shake
from visionnmf.apps.background import fit as _background_fit
from visionnmf.apps.background.sway import Sway
from visionnmf.datasets import make_surveillance


def f_measure(masks, truth):
    found = np.asarray(masks) > 0
    return 2 * (found & truth).sum() / (found.sum() + truth.sum())


def masks_of(model, frames):
    return np.stack([part.mask for part in model.apply(frames)])


def without(monkeypatch, part):
    """Leave a part out."""
    none = {"correct_scene": lambda frames, weights, H, *others: H}
    monkeypatch.setattr(_background_fit, part, none.get(part, lambda *arguments: None))


def texture(rng, height, width, smooth=2.0, low=60, high=200):
    grain = cv2.GaussianBlur(rng.random((height, width)).astype(np.float32), (0, 0), smooth)
    grain = (grain - grain.min()) / np.ptp(grain)
    return (low + (high - low) * grain).astype(np.float32)


def noisy(rng, frames):
    return np.clip(np.asarray(frames) + rng.normal(0, 2, np.shape(frames)), 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def leaves():
    """Leaves in the colours of the scene pass before the lens all the time, and hide two fifths of the picture."""
    rng = np.random.default_rng(0)
    scene = texture(rng, 80, 100, 4.0, 150, 220)
    frames, masks = [], []
    for _ in range(80):
        mask = cv2.GaussianBlur(rng.random((80, 100)), (0, 0), 6)
        mask = mask > np.quantile(mask, 0.6)
        leaf = scene - texture(rng, 80, 100, 3.0, 30, 48)
        frames.append(np.where(mask, leaf, scene))
        masks.append(mask)
    return noisy(rng, frames), np.array(masks), scene


@pytest.fixture(scope="module")
def resting():
    """Somebody stands there for two thirds of the clip, and walks off."""
    rng = np.random.default_rng(1)
    scene = np.add.outer(np.linspace(90, 120, 90), np.linspace(0, 40, 120))
    frames, masks = [], []
    for t in range(90):
        x = 20 if t < 60 else 20 + 4 * (t - 59)
        mask = np.zeros((90, 120), bool)
        mask[20:80, x : x + 18] = True
        frames.append(np.where(mask, 200.0, scene))
        masks.append(mask)
    return noisy(rng, frames), np.array(masks), scene


@pytest.fixture(scope="module")
def shaken():
    """A camera that shakes by several pixels before a scene full of edges."""
    rng = np.random.default_rng(2)
    wide = texture(rng, 140, 180, 1.5)
    frames, masks, shifts = [], [], rng.integers(-6, 7, (60, 2))
    for t, (dx, dy) in enumerate(shifts):
        mask = np.zeros((140, 180), bool)
        mask[50:85, 2 * t : 2 * t + 30] = True
        picture = np.where(mask, 20.0, wide)
        window = slice(20 + dy, 120 + dy), slice(20 + dx, 160 + dx)
        frames.append(picture[window])
        masks.append(mask[window])
    return noisy(rng, frames), np.array(masks), shifts


def test_leaves_before_the_lens(leaves, monkeypatch):
    frames, truth, scene = leaves
    model = BackgroundModel().fit(frames)
    assert f_measure(masks_of(model, frames), truth) > 0.92
    assert np.abs(model.background_ - scene).mean() < 4
    monkeypatch.setattr(_background_fit, "NOISE_CEILING", 50 / 3)
    assert f_measure(masks_of(BackgroundModel().fit(frames), frames), truth) < 0.75


def test_who_rests_longer_than_not_is_no_scene(resting, monkeypatch):
    frames, truth, scene = resting
    model = BackgroundModel().fit(frames)
    assert f_measure(masks_of(model, frames), truth) > 0.9
    assert np.abs(model.background_ - scene).mean() < 3
    without(monkeypatch, "correct_scene")
    assert f_measure(masks_of(BackgroundModel().fit(frames), frames), truth) < 0.6


def test_what_stays_for_the_last_third_is_no_scene(resting):
    frames, _, scene = resting
    model = BackgroundModel().fit(frames[::-1][:75])  # comes, and stays for less than half of the time
    assert np.abs(model.background_ - scene).mean() < 3


def test_frames_of_a_shaking_camera_are_laid_upon_each_other(shaken, monkeypatch):
    frames, truth, _ = shaken
    model = BackgroundModel().fit(frames)
    assert f_measure(masks_of(model, frames), truth) > 0.85
    (part,) = model.apply(frames[7])
    inner = (slice(10, -10),) * 2
    assert np.abs(part.background.astype(int) - frames[7])[inner][~truth[7][inner]].mean() < 4
    without(monkeypatch, "measure_shake")
    assert f_measure(masks_of(BackgroundModel().fit(frames), frames), truth) < 0.75


def test_a_saved_model_knows_the_shaking_and_the_sway(shaken, tmp_path):
    frames, _, _ = shaken
    model = BackgroundModel().fit(frames[:20])
    noise = model.noise_scale_
    sway = Sway(np.full_like(noise, 0.5), 2 * noise, noise)
    model._learnt = dataclasses.replace(model._learnt, sway=sway)
    model.save(tmp_path / "shaken.npz")
    again = BackgroundModel.load(tmp_path / "shaken.npz")
    assert again._learnt.anchors is not None
    np.testing.assert_array_equal(again._learnt.sway.noise, sway.noise)
    model._last_decision = None
    np.testing.assert_array_equal(masks_of(again, frames[:3]), masks_of(model, frames[:3]))


def test_shifts_are_found(shaken):
    frames, _, shifts = shaken
    anchors = shake.measure_shake(frames[..., None])
    found = np.array([anchors.shift(frame) for frame in frames])
    wanted = -(shifts - np.median(shifts, axis=0))  # of the camera, against that of the picture
    np.testing.assert_allclose(found - np.median(found, axis=0), wanted, atol=0.3)
    still = np.repeat(frames[:1], 20, axis=0)
    assert shake.measure_shake(still[..., None]) is None


def test_a_picture_moved_there_and_back(rng):
    picture = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    there = shake.moved_by(picture, (3.0, -2.0))
    np.testing.assert_array_equal(there[2:, :-3], picture[:-2, 3:])
    np.testing.assert_array_equal(shake.moved_by(there, (-3.0, 2.0))[:-2, 3:], picture[:-2, 3:])


@pytest.mark.parametrize("channels", [1, 3])
def test_levels_are_those_of_a_slow_search(channels, rng):
    n, pixels = 50, 40
    H = rng.uniform(80, 120, (2, pixels, channels)).astype(np.float32)
    codes = np.array([rng.uniform(0.5, 0.6, n), rng.uniform(0.4, 0.5, n)], np.float32)
    shown = np.einsum("rt,rpc->tpc", codes, H)
    offset = np.where(rng.random((n, pixels)) < 0.6, 60, 0)[..., None]  # more often than not, higher
    offset[:, 20:] = 0
    frames = np.clip(shown + offset + rng.normal(0, 2, shown.shape), 0, 255).astype(np.uint8)
    weights = rng.uniform(0.5, 1, (n, pixels)).astype(np.float32)
    first, other = np.full((2, pixels, channels), -1, np.float32)
    share = np.full(pixels, -1, np.float32)
    constants = modes.NEAR, modes.APART, modes.HELD, modes.STRONGER, modes.SECOND_SHARE
    picks = np.arange(n)
    modes.find_levels(frames, weights, picks, H, codes, *constants, first, other, share, 0, pixels - 1)
    assert (share[-1], first[-1, 0], other[-1, 0]) == (-1, -1, -1)
    for p in range(pixels - 1):
        y, w = frames[:, p] - shown[:, p], weights[:, p]
        present = w[(np.abs(y) <= 10).all(axis=1)].sum()
        high = (np.abs(y - 60) <= 12).all(axis=1)
        if present < 0.55 * w.sum() and w[high].sum() > 1.4 * present:
            np.testing.assert_allclose(first[p], np.average(y[high], axis=0, weights=w[high]), atol=0.5)
        elif w[high].sum() < 1.2 * present:
            np.testing.assert_array_equal(first[p], 0)
        rest = (np.abs(y - first[p]) > 20).any(axis=1)
        if w[rest].sum() > 0.12 * w.sum():
            np.testing.assert_allclose(other[p], np.average(y[rest], axis=0, weights=w[rest]), atol=0.5)
            assert share[p] == pytest.approx(w[rest].sum() / w.sum(), abs=0.02)
        elif w[rest].sum() < 0.08 * w.sum():
            assert share[p] == 0


def test_a_car_that_parks_while_another_passes_is_no_scene():
    clip = make_surveillance(50, 96, 128, random_state=3)
    model = BackgroundModel().fit(clip.frames)
    assert f_measure(masks_of(model, clip.frames), clip.masks) > 0.9
