"""The kernels against numpy and slow loops."""

import itertools

import numpy as np
import pytest

from visionnmf.apps.background import kernels
from visionnmf.apps.background.frame_arrays import channel_mean, temporal_median
from visionnmf.apps.background.model.mask import median
from visionnmf.apps.background.online import kernels as online
from visionnmf.apps.background.tuning import TUNING


@pytest.mark.parametrize("channels", [1, 3])
def test_residuals_are_measured_as_by_numpy(channels, rng):
    frames = rng.integers(0, 256, (12, 30, channels), dtype=np.uint8)
    H = rng.uniform(0, 120, (2, 30, channels)).astype(np.float32)
    codes = rng.uniform(0.5, 1.5, (2, 12)).astype(np.float32)
    picks, limit = np.arange(0, 12, 2), np.linspace(0, 30000, 30, dtype=np.float32)
    means, colours = np.zeros((6, 30), np.int16), np.zeros((6, 30 * channels), np.int16)
    energy, above = np.zeros(30, np.float32), np.zeros(30, np.uint8)
    scratch = np.empty(28 * channels, np.float32), np.empty((2, 28), np.float32)
    clip = kernels.ModelledFrames(frames, picks, H, codes)
    kernels.measure_residuals(clip, (60.0, 40.0), limit, *scratch, (means, colours), energy, above, 2)
    y = frames[picks] - np.minimum(np.einsum("rt,rpc->tpc", codes[:, picks], H), 255)
    squares = (y**2).mean(axis=2)
    np.testing.assert_allclose(means[:, 2:] / 8, y.mean(axis=2)[:, 2:].clip(-60, 60), atol=0.07)
    np.testing.assert_allclose(colours.reshape(y.shape)[:, 2:] / 8, y[:, 2:].clip(-60, 60), atol=0.07)
    np.testing.assert_allclose(energy[2:], np.minimum(squares, 1600).sum(axis=0)[2:], rtol=1e-4)
    np.testing.assert_array_equal(above[2:], (squares > limit).sum(axis=0)[2:])
    assert 0 < above.sum() < 6 * 28
    assert not (means[:, :2].any() or colours[:, : 2 * channels].any() or energy[:2].any() or above[:2].any())
    for rank in (0, 2, 5):
        usual = np.zeros(30, np.float32)
        kernels.rank_residuals(clip, rank, np.array([3, 17]), usual)
        np.testing.assert_allclose(usual[[3, 17]], np.sqrt(np.sort(squares, axis=0)[rank, [3, 17]]), rtol=1e-4)
        assert np.count_nonzero(usual) == 2


@pytest.mark.parametrize("n", [1, 2, 3, 8, 75, 255, 256, 300])
def test_medians_of_bytes_are_those_of_numpy(n, rng):
    few, many = rng.integers(120, 124, (n, 40, 3)), rng.integers(0, 256, (n, 3000, 3))
    frames = np.concatenate([few, many, np.full((n, 1, 3), 255), np.zeros((n, 1, 3))], axis=1).astype(np.uint8)
    np.testing.assert_array_equal(temporal_median(frames), np.median(frames, axis=0))


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
    first, other = np.full((2, pixels, channels), -1, np.float32)  # the last pixel is left out
    share = np.full(pixels, -1, np.float32)
    modes = TUNING.alternating_modes
    rules = kernels.LevelRules(modes.near, modes.apart, modes.held, modes.stronger, modes.second_share)
    clip = kernels.ModelledFrames(frames, np.arange(n), H, codes)
    kernels.find_levels(clip, weights, rules, first, other, share, np.arange(pixels - 1))
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
    kernels.find_candidates(clip, weights[:, 9:39], rules, *scratch, asked, 9)
    levels = (share[9:39] > 0) | (first[9:39] != 0).any(axis=1)
    assert (asked >= levels).all()
    assert levels.any() and not asked.all()
    # each signature costs a third of a second while a user waits; without the compiler there are none
    assert len(getattr(kernels._densest_level, "signatures", ())) <= 1


@pytest.mark.parametrize("channels", [1, 3])
def test_which_level_is_seen(channels, rng):
    n, pixels = 6, 30
    H = rng.uniform(80, 120, (2, pixels, channels)).astype(np.float32)
    codes, typical = rng.uniform(0.4, 0.6, (2, n)).astype(np.float32), np.array([0.5, 0.5], np.float32)
    frames = rng.integers(0, 256, (n, pixels, channels), dtype=np.uint8)
    first, other = rng.integers(0, 256, (2, pixels, channels), dtype=np.uint8)
    asked, picks = np.arange(3, 27), np.array([0, 2, 5])
    sides = np.empty((len(picks), len(asked)), np.int8)
    clip = kernels.ModelledFrames(frames, picks, H, codes)
    kernels.assign_levels(clip, typical, first, other, 60.0, asked, sides)
    for i, t in enumerate(picks):
        for at, p in enumerate(asked):
            y = frames[t, p] - codes[:, t] @ H[:, p] + typical @ H[:, p]
            away = np.abs(y - first[p]).max(), np.abs(y - other[p]).max()
            assert sides[i, at] == (0 if min(away) >= 60 else -1 if away[0] < away[1] else 1)
    assert set(sides.ravel()) == {-1, 0, 1}


@pytest.mark.parametrize("channels", [1, 3])
def test_scores_are_those_of_a_slow_loop(channels, rng):
    n = 50
    frame = rng.integers(0, 256, (n, channels), dtype=np.uint8)
    H = rng.uniform(0, 200, (2, n, channels)).astype(np.float32)
    codes = np.array([0.9, 0.4], np.float32)
    scale = rng.uniform(3, 12, n).astype(np.float32)
    background = np.zeros_like(frame)
    score = np.full(n, -1, np.float32)
    kernels.show_background(H, codes, background)
    floor, shadow = kernels.NoiseFloor(0.05, 4.0, 8.0), kernels.ShadowRule(0.7, 0.5)
    kernels.score_pixels(frame, background, scale, floor, shadow, score)
    for i in range(n):
        b = np.floor(np.minimum(codes @ H[:, i], 255).astype(float) + 0.5)
        x = frame[i].astype(float)
        residual = x - b
        ratio = (x @ b) / (b @ b + 1)
        if channels == 3 and 0.7 < ratio < 1:
            shade = (ratio - 1) * b
            along = shade * (residual @ shade) / (shade @ shade)
            total = ((residual - along) ** 2).sum() + 0.25 * (along**2).sum()
        else:
            total = (residual**2).sum()
        noise = max(scale[i], np.clip(0.05 * b.mean(), 4, 8))
        assert score[i] == pytest.approx(np.sqrt(total / channels) / noise, rel=2e-2, abs=2e-2)
        np.testing.assert_array_equal(background[i], b)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_background_of_any_number_of_lights(rank, rng):
    H = rng.uniform(0, 200, (rank, 30, 3)).astype(np.float32)
    codes = rng.uniform(0.2, 1, rank).astype(np.float32)
    background = np.full((30, 3), 7, np.uint8)
    kernels.show_background(H, codes, background)
    np.testing.assert_array_equal(background, np.floor(np.minimum(np.tensordot(codes, H, 1), 255) + 0.5))


def test_votes_and_mean_changes_are_those_of_numpy(rng):
    X, shown = rng.uniform(0, 200, (4, 50)).astype(np.float32), rng.uniform(0, 200, (3, 50)).astype(np.float32)
    near = rng.uniform(20, 100, 50).astype(np.float32)
    votes = np.zeros((4, 3), np.int64)
    kernels.count_explained(X, shown, near, votes)
    np.testing.assert_array_equal(votes, (np.abs(X[:, None] - shown) < near).sum(axis=2))
    change = np.array(list(itertools.product([0, 1, 2, 127, 128, 253, 254, 255], repeat=3)), np.uint8)
    expected = np.rint(change.mean(axis=1))
    np.testing.assert_array_equal(channel_mean(change[None])[0], expected)
    mean = np.zeros(len(change), np.uint8)
    kernels.mean_over_channels(change.reshape(-1), mean)
    np.testing.assert_array_equal(mean, expected)


@pytest.mark.parametrize("channels", [1, 3])
def test_steps_are_those_of_a_slow_loop(channels, rng):
    shape = (9, 7)
    scene = rng.uniform(20, 200, (*shape, channels)).astype(np.float32)
    alternative = rng.uniform(20, 200, (*shape, channels)).astype(np.float32)
    near_what = rng.integers(0, 3, shape)[..., None]
    gain = 0.8
    shown = np.where(near_what == 0, scene, np.where(near_what == 1, alternative, rng.uniform(0, 255, scene.shape)))
    frame = np.clip(gain * shown + rng.normal(0, 2, scene.shape), 0, 255).astype(np.uint8)
    change, moved = (rng.integers(0, 20, shape, dtype=np.uint8) for _ in range(2))
    support, alternative_support = (rng.uniform(0, 3, shape).astype(np.float32) for _ in range(2))
    alternative_support[rng.random(shape) < 0.3] = 0
    noise = rng.uniform(1, 20, shape).astype(np.float32)
    before = [array.copy() for array in (scene, alternative, support, alternative_support, noise)]
    known = online.OnlineScene(scene, alternative, support, alternative_support, noise)
    scratch = np.full((4 + channels, shape[1]), np.nan, np.float32)
    online.update_rows(frame, change, moved, gain, known, online.OnlineSteps(0.9, 2.0, 6.0, 16.0), 1, 3, scratch)
    swapped = 0
    for y, x in np.ndindex(shape):
        b, r, held, against, sigma = (array[y, x].astype(float) for array in before)
        if y % 3 == 1:
            sigma += online.NOISE_STEP * max(sigma, 1) * (1 if change[y, x] / online.NORMAL_CHANGE > sigma else -1)
            sigma = max(sigma, 0)
            scale = min(max(sigma, 6), 16)
            weight = 3 * gain / (1 + (moved[y, x] / scale) ** 2)
            held, against = 0.9 * held, 0.9 * against
            value = frame[y, x].astype(float)
            if np.abs(value - gain * b).max() < 2 * scale:
                step = online.MEDIAN_STEP * weight * scale / (min(held, 2) + 1)
                b, held = b + np.clip(value / gain - b, -step, step), held + weight
            elif against > 0 and np.abs(value - gain * r).max() < 2 * scale:
                step = online.MEDIAN_STEP * weight * scale / (min(against, 2) + 1)
                r, against = r + np.clip(value / gain - r, -step, step), against + weight
            else:
                against -= weight
                if against < 0:
                    r, against = value / gain, weight
            if against > held:
                b, r, held, against, swapped = r, b, against, held, swapped + 1
        np.testing.assert_allclose(scene[y, x], b, rtol=1e-4)
        np.testing.assert_allclose(alternative[y, x], r, rtol=1e-4)
        assert (support[y, x], alternative_support[y, x], noise[y, x]) == pytest.approx(
            (held, against, sigma), rel=1e-4
        )
    assert swapped > 2


@pytest.mark.parametrize("channels", [1, 3])
def test_mean_residuals_are_those_of_numpy(channels, rng):
    frame, background = rng.integers(0, 256, (2, 500, channels), dtype=np.uint8)
    found = np.empty(500, np.float32)
    kernels.mean_residual(frame, background, 60.0, found)
    wanted = (frame.astype(int) - background).mean(axis=1).round().clip(-60, 60)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("half", [1, 2])
def test_windows_are_those_of_least_squares(half, rng):
    shape = (13, 17)
    inside = (rng.random(shape) < 0.7).astype(np.uint8)
    behind = rng.integers(1, 256, shape) * inside
    seen = (behind * np.where(np.arange(17) < 9, 0.6, 0.99) + rng.normal(0, 2, shape)).clip(0).astype(np.uint8) * inside
    noise = rng.uniform(0.5, 3, shape).astype(np.float32)
    pictures = np.pad(np.stack([inside, seen, behind]).astype(np.uint8), ((0, 0), (half + 1, half), (half, half)))
    numbers, fits = np.full((3, *shape), np.nan, np.float32), np.full(shape, 7, np.uint8)
    rule = kernels.WindowRule(half, 0.3, 0.9, 2.0)
    scratch = np.full((12, 17 + 2 * half), 9, np.int32)
    kernels.fit_windows(pictures, noise, rule, scratch, numbers[0], numbers[1:], fits)
    for y, x in np.ndindex(shape):
        window = slice(max(0, y - half), y + half + 1), slice(max(0, x - half), x + half + 1)
        used = inside[window] == 1
        a, b = seen[window][used].astype(float), behind[window][used].astype(float)
        factor, left = 0.0, 0.0
        if len(a):
            (factor,), left, *_ = np.linalg.lstsq(b[:, None], a, rcond=None)
            left = ((a - factor * b) ** 2).sum()
        wanted = factor, seen[y, x] - a.sum() / max(len(a), 1), behind[y, x] - b.sum() / max(len(b), 1)
        np.testing.assert_allclose(numbers[:, y, x], wanted, rtol=1e-4, atol=1e-4)
        bound = len(a) * (2 * noise[y, x]) ** 2
        if abs(left - bound) > 1e-3 * bound:
            assert fits[y, x] == (inside[y, x] and 0.3 < factor < 0.9 and left < bound)
    assert 10 < fits.sum() < inside.sum() - 10


@pytest.mark.parametrize("channels", [1, 3])
def test_parts_are_measured_as_by_numpy(channels, rng):
    labels = rng.integers(0, 4, (9, 11)).astype(np.int32)
    frame, background = rng.integers(0, 256, (2, 9, 11, channels), dtype=np.uint8)
    factor, *details = numbers = rng.normal(size=(3, 9, 11)).astype(np.float32)
    sums = np.zeros((4, 6 + 2 * channels))
    kernels.measure_parts(labels, frame, background, factor, numbers[1:], sums)
    assert not sums[0].any()
    for part in (1, 2, 3):
        own = labels == part
        one, other, a = (picture[own].astype(float) for picture in (*details, factor))
        colours, shown = frame[own].astype(float), background[own].astype(float)
        wanted = [own.sum(), one @ one, other @ other, one @ other, a.sum(), a @ a]
        wanted += [*(colours * shown).sum(axis=0), *(shown**2).sum(axis=0)]
        np.testing.assert_allclose(sums[part], wanted, rtol=1e-9)


def test_values_that_a_gain_explains_are_counted_as_by_numpy(rng):
    scene = rng.uniform(0, 200, (300, 3)).astype(np.float32)
    x = (1.2 * scene + rng.normal(0, 8, scene.shape)).astype(np.float32)
    near, found = rng.uniform(6, 14, 300).astype(np.float32), np.empty((300, 3), np.bool_)
    values, pixels = online.count_explained(x, scene, near, 1.2, found)
    wanted = np.abs(x - np.float32(1.2) * scene) < near[:, None]
    np.testing.assert_array_equal(found, wanted)
    assert 0 < pixels < values == wanted.sum()
    assert pixels == wanted.all(axis=1).sum()


@pytest.mark.parametrize("n", [1, 2, 3, 10, 11])
def test_the_quick_median_is_that_of_numpy(n, rng):
    values = rng.normal(size=n).astype(np.float32)
    assert median(values) == np.median(values)
