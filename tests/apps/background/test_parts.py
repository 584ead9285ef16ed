"""The parts of the background model for hard clips, each on a made clip that needs it; kernels against loops."""

import dataclasses
import tracemalloc

import cv2
import numpy as np
import pytest
from model_files import rewrite

from visionnmf.apps.background import BackgroundModel, modes, shake, sway
from visionnmf.apps.background import fit as _background_fit
from visionnmf.apps.background.mask import MaskDecision
from visionnmf.apps.background.medians import temporal_median
from visionnmf.apps.background.residuals import measure_residual, weigh_levels
from visionnmf.apps.background.sway import Sway, measure_ranked
from visionnmf.datasets import make_surveillance
from visionnmf.exceptions import UnreadableError

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


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


def resting_clip(level):
    """Somebody of one grey level stands there for two thirds of the clip, and walks off."""
    rng = np.random.default_rng(1)
    scene = np.add.outer(np.linspace(90, 120, 90), np.linspace(0, 40, 120))
    frames, masks = [], []
    for t in range(90):
        x = 20 if t < 60 else 20 + 4 * (t - 59)
        mask = np.zeros((90, 120), bool)
        mask[20:80, x : x + 18] = True
        frames.append(np.where(mask, level, scene))
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


@pytest.mark.parametrize("level", [0.0, 4.0, 200.0])
def test_who_rests_longer_than_not_is_no_scene(level, monkeypatch):
    frames, truth, scene = resting_clip(level)
    model = BackgroundModel().fit(frames)
    assert f_measure(masks_of(model, frames), truth) > 0.9
    assert np.abs(model.background_ - scene).mean() < 3
    without(monkeypatch, "correct_scene")
    assert f_measure(masks_of(BackgroundModel().fit(frames), frames), truth) < 0.6


def test_who_comes_and_stays_is_no_scene():
    frames, _, scene = resting_clip(200.0)
    model = BackgroundModel().fit(frames[::-1][:75])  # stays for three fifths of the time
    assert np.abs(model.background_ - scene).mean() < 3


def test_where_the_scene_sways(rng):
    """The right half is displaced by some pixels, here one way and there another; the left one is noisy only."""
    still = texture(rng, 100, 180, 1.2, 40, 200)
    y, x = np.mgrid[:100, :180].astype(np.float32)
    frames = []
    for _ in range(40):
        away = [cv2.GaussianBlur(rng.normal(0, 36, still.shape).astype(np.float32), (0, 0), 5) for _ in range(2)]
        right, down = (each * (x >= 90) for each in away)
        frames.append(cv2.remap(still, x + right, y + down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT))
    share = BackgroundModel().fit(noisy(rng, frames))._learnt.sway.share
    assert share[:, 100:].mean() > 0.15 and share[:, :80].max() < 0.01
    assert BackgroundModel().fit(noisy(rng, [still] * 40))._learnt.sway is None


@pytest.mark.parametrize("channels", [(), (3,)])
def test_what_is_usual_where_the_scene_sways_is_no_foreground(channels):
    frame, background = np.full((60, 80, *channels), 120, np.uint8), np.full((60, 80, *channels), 100, np.uint8)
    frame[20:40, 20:40] = 250
    noise = np.full((60, 80), 6.0, np.float32)
    share = np.zeros_like(noise)
    share[:, 40:] = 1
    mask = MaskDecision(noise, 3.0, Sway(share, np.full_like(noise, 15), np.full_like(noise, 15))).mask(
        frame, background
    )
    assert mask[:, :30].mean() > 200 and not mask[:, 55:].any() and mask[25:35, 25:35].all()


@pytest.mark.parametrize("channels", [1, 3])
def test_residuals_are_measured_as_by_numpy(channels, rng):
    frames = rng.integers(0, 256, (12, 30, channels), dtype=np.uint8)
    H = rng.uniform(0, 120, (2, 30, channels)).astype(np.float32)
    codes = rng.uniform(0.5, 1.5, (2, 12)).astype(np.float32)
    picks, limit = np.arange(0, 12, 2), np.linspace(0, 30000, 30, dtype=np.float32)
    means, energy, above = np.zeros((6, 30), np.int16), np.zeros(30, np.float32), np.zeros(30, np.uint8)
    scratch = np.empty(28 * channels, np.float32), np.empty((2, 28), np.float32)
    measure_residual(frames, picks, H, codes, 40.0, limit, *scratch, means, energy, above, 2)
    y = frames[picks] - np.minimum(np.einsum("rt,rpc->tpc", codes[:, picks], H), 255)
    squares = (y**2).mean(axis=2)
    np.testing.assert_allclose(means[:, 2:] / 8, y.mean(axis=2)[:, 2:], atol=0.07)
    np.testing.assert_allclose(energy[2:], np.minimum(squares, 1600).sum(axis=0)[2:], rtol=1e-4)
    np.testing.assert_array_equal(above[2:], (squares > limit).sum(axis=0)[2:])
    assert 0 < above.sum() < 6 * 28
    assert not (means[:, :2].any() or energy[:2].any() or above[:2].any())
    for rank in (0, 2, 5):
        usual = np.zeros(30, np.float32)
        measure_ranked(frames, picks, H, codes, rank, np.array([3, 17]), usual)
        np.testing.assert_allclose(usual[[3, 17]], np.sqrt(np.sort(squares, axis=0)[rank, [3, 17]]), rtol=1e-4)
        assert np.count_nonzero(usual) == 2


@pytest.mark.parametrize("n", [1, 2, 3, 8, 75, 255, 256, 300])
def test_medians_of_bytes_are_those_of_numpy(n, rng):
    few, many = rng.integers(120, 124, (n, 40, 3)), rng.integers(0, 256, (n, 3000, 3))
    frames = np.concatenate([few, many, np.full((n, 1, 3), 255), np.zeros((n, 1, 3))], axis=1).astype(np.uint8)
    np.testing.assert_array_equal(temporal_median(frames), np.median(frames, axis=0))


def test_frames_of_a_shaking_camera_are_laid_upon_each_other(shaken, monkeypatch):
    frames, truth, _ = shaken
    model = BackgroundModel().fit(frames)
    assert f_measure(masks_of(model, frames), truth) > 0.85
    (part,) = model.apply(frames[7])
    inner = (slice(10, -10),) * 2
    assert np.abs(part.background.astype(int) - frames[7])[inner][~truth[7][inner]].mean() < 4
    without(monkeypatch, "measure_shake")
    assert f_measure(masks_of(BackgroundModel().fit(frames), frames), truth) < 0.75


@pytest.mark.parametrize("spoil", ["black", "white", "half", "hidden"])
def test_one_frame_that_shows_nothing_hides_no_shaking(spoil, shaken):
    frames, _, _ = shaken
    frames = frames.copy()
    middle = frames[31]  # which is among those that are asked
    middle[:] = {"black": 0, "white": 255, "half": middle // 2, "hidden": middle}[spoil]
    if spoil == "hidden":
        middle[10:90, 10:150] = 20
    anchors = shake.measure_shake(frames[..., None])
    assert anchors is not None
    assert anchors.compared(np.full_like(middle, 255))[0] == (0, 0)


def test_shaking_is_found_in_changing_light(shaken):
    frames, truth, _ = shaken
    dimmed = (frames * np.linspace(0.6, 1, len(frames))[:, None, None]).astype(np.uint8)
    assert f_measure(masks_of(BackgroundModel().fit(dimmed), dimmed), truth) > 0.85


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


def test_a_strangers_anchors_and_sway_are_looked_at(shaken, tmp_path):
    path = tmp_path / "wrong.npz"
    small = BackgroundModel().fit(shaken[0][:20, :20, :20])
    flat = np.full_like(small.noise_scale_, 1.5)
    small._learnt = dataclasses.replace(small._learnt, sway=Sway(flat / 2, flat, flat), anchors=shake.Anchors(flat))
    small.save(path)
    with pytest.raises(UnreadableError, match="frames must have at least 48 pixels a side"):
        BackgroundModel.load(path)
    for name, value in (("sway.noise", 1e-45), ("sway.share", 2), ("anchors.scene", 1e38)):
        small.save(path, force=True)
        with pytest.raises(UnreadableError, match=f"_learnt.{name} must be"):
            BackgroundModel.load(rewrite(path, lambda state, arrays: arrays[f"_learnt.{name}"].fill(value)))  # noqa: B023


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
    modes.find_levels(frames, weights, picks, H, codes, *constants, first, other, share, np.arange(pixels - 1))
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
    scratch = np.empty(30 * channels, np.float32), np.empty((4, 30), np.float32)
    asked = np.zeros(30, bool)
    near, apart, held, _, second = constants
    weigh_levels(frames, weights[:, 9:39], picks, H, codes, near, apart, held, second, *scratch, asked, 9)
    levels = (share[9:39] > 0) | (first[9:39] != 0).any(axis=1)
    assert (asked >= levels).all()
    assert levels.any() and not asked.all()
    assert len(modes._densest.signatures) <= 1  # each costs a third of a second while a user waits


def test_levels_are_found_by_one_compiled_kernel(monkeypatch):
    kernel, orders = modes.find_levels, []

    def noted(frames, weights, *others):
        orders.append((weights.shape[1] > 1, weights.flags.c_contiguous))
        assert weights.size
        kernel(frames, weights, *others)

    monkeypatch.setattr(modes, "find_levels", noted)
    BackgroundModel().fit(make_surveillance(60, 60, 80, random_state=3).frames)
    assert (True, True) in orders and (True, False) not in orders  # another order would be compiled again


@pytest.mark.parametrize("channels", [1, 3])
def test_which_level_is_seen(channels, rng):
    n, pixels = 6, 30
    H = rng.uniform(80, 120, (2, pixels, channels)).astype(np.float32)
    codes, typical = rng.uniform(0.4, 0.6, (2, n)).astype(np.float32), np.array([0.5, 0.5], np.float32)
    frames = rng.integers(0, 256, (n, pixels, channels), dtype=np.uint8)
    first, other = rng.integers(0, 256, (2, pixels, channels), dtype=np.uint8)
    asked, picks = np.arange(3, 27), np.array([0, 2, 5])
    sides = np.empty((len(picks), len(asked)), np.int8)
    modes.tell_levels(frames, picks, H, codes, typical, first, other, 60.0, asked, sides)
    for i, t in enumerate(picks):
        for at, p in enumerate(asked):
            y = frames[t, p] - codes[:, t] @ H[:, p] + typical @ H[:, p]
            away = np.abs(y - first[p]).max(), np.abs(y - other[p]).max()
            assert sides[i, at] == (0 if min(away) >= 60 else -1 if away[0] < away[1] else 1)
    assert set(sides.ravel()) == {-1, 0, 1}


def clip_that(what, rng):
    """Return 36 frames of 300 by 400: a camera shakes, a scene changes, one sways, or light moves."""
    height, width, count = 300, 400, 36
    one, other = (
        np.clip(
            128 + 12 * (cv2.GaussianBlur(rng.uniform(0, 256, (height + 16, width + 16, 3)), (0, 0), 2) - 128), 0, 255
        )
        for _ in range(2)
    )
    frames = np.empty((count, height, width, 3), np.uint8)
    for t in range(count):
        y, x = rng.integers(0, 17, 2) if what == "shakes" else (8, 8)
        x += round(6 * np.sin(1.7 * t)) if what == "sways" else 0
        frames[t] = (other if what == "turns" and 12 < t < 26 else one)[y : y + height, x : x + width]
        if what == "sways":
            frames[t, :, 300:] = one[:height, 300:400]
        elif what == "is lit":
            frames[t] = frames[t] * np.linspace(0.4 + 0.6 * t / count, 1, width)[:, None]
    return frames


@pytest.mark.parametrize("what", ["shakes", "turns", "sways", "is lit"])
def test_learning_takes_little_memory_beside_its_frames(what, rng, monkeypatch):
    frames = clip_that(what, rng)
    pixels = frames[0, ..., 0].size
    monkeypatch.setattr(sway, "HELD", 2 * pixels)  # as of large pictures
    monkeypatch.setattr(sway, "VALUES", 16 * pixels)
    peaks = []
    for _ in range(2):  # kernels are read in the first, and take memory themselves
        sample = _background_fit.Sample(len(frames))
        for frame in frames:
            sample.add(frame)
        tracemalloc.start()
        learnt = _background_fit.learn(sample, n_components=2, rng=np.random.default_rng(0))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    found = {"shakes": learnt.anchors, "sways": learnt.sway, "is lit": len(learnt.H) > 1 or None, "turns": True}[what]
    assert found is not None
    assert peaks[-1] / pixels < 170  # bytes
