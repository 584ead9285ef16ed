"""What comes back: kernels against loops, a made tree before the camera, and what must not pass for one."""

import dataclasses
from itertools import pairwise

import cv2
import numpy as np
import pytest

from visionnmf.apps.background import BackgroundModel, recurring
from visionnmf.apps.background import fit as _background_fit
from visionnmf.apps.background.mask import MaskDecision
from visionnmf.apps.background.recurring import Recurring, find_recurring, find_returning, measure_returns
from visionnmf.exceptions import ParameterError

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

HEIGHT, WIDTH = 120, 160


def f_measure(masks, truth):
    found = np.asarray(masks) > 0
    return 2 * (found & truth).sum() / (found.sum() + truth.sum())


def masks_of(model, frames):
    return np.stack([part.mask for part in model.apply(frames)])


def grain(rng, smooth):
    field = cv2.GaussianBlur(rng.standard_normal((HEIGHT, WIDTH)).astype(np.float32), (0, 0), smooth)
    return field / field.std()


def swaying(rng, amplitude=8.0, count=60):
    """Branches over the left two thirds sway; somebody crosses below, somebody rests beside."""
    scene = (140 + 25 * grain(rng, 6))[..., None] + np.array([0, 10, 25], np.float32)
    leaf = (70 + 20 * grain(rng, 2))[..., None] * np.array([0.9, 1.1, 0.6], np.float32)
    x = np.arange(WIDTH, dtype=np.float32)
    branches = ((grain(rng, 3) > 0) & (x < 105)).astype(np.float32)[..., None]
    rows, columns = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
    phase = 1.2 * grain(rng, 30)
    frames, truth = [], np.zeros((count, HEIGHT, WIDTH), bool)
    for t in range(count):
        away = sum(amplitude * s * np.sin(2 * np.pi * t / period + phase) for s, period in ((0.7, 7.3), (0.5, 11.9)))
        layer = cv2.remap(np.dstack([leaf, branches]), columns + away, rows + away / 3, cv2.INTER_LINEAR,
                          borderMode=cv2.BORDER_REFLECT)  # fmt: skip
        frame = scene + layer[..., 3:] * (layer[..., :3] - scene)
        for there, left, colour in (
            (8 <= t < 40, 4 * (t - 8), (220, 60, 60)),
            (12 <= t < 32, 118, (40, 40, 200)),
        ):
            if there:
                box = slice(60, 105), slice(left, left + 20)
                frame[box] = colour
                truth[t][box] = True
        frames.append(np.clip(frame + rng.normal(0, 2.5, frame.shape), 0, 255).astype(np.uint8))
    return np.array(frames), truth


@pytest.fixture(scope="module")
def tree():
    return swaying(np.random.default_rng(0))


def test_a_tree_near_the_camera_is_background(tree, monkeypatch):
    frames, truth = tree
    model = BackgroundModel().fit(frames)
    found = f_measure(masks_of(model, frames), truth)
    monkeypatch.setattr(_background_fit, "find_recurring", lambda *arguments: None)
    flooded = f_measure(masks_of(BackgroundModel().fit(frames), frames), truth)
    assert found > 0.45 and flooded < 0.25


def test_who_rests_beside_the_branches_does_not_come_back(tree):
    frames, _ = tree
    masks = masks_of(BackgroundModel().fit(frames), frames) > 0
    box = slice(65, 100), slice(121, 135)
    assert masks[14:30, *box].mean() > 0.8  # for a third of the clip, all at once


def test_traffic_and_a_still_scene_do_not_sway(rng):
    still, _ = swaying(rng, amplitude=0.0)
    assert BackgroundModel().fit(still)._learnt.recurring is None
    for t, frame in enumerate(still):  # cars of many colours, which hide the road half of the time
        for left in range(-40 + 7 * t % 80, WIDTH, 80):
            frame[40:100, max(left, 0) : max(left + 40, 0)] = np.random.default_rng(10 + (7 * t - left) // 80).integers(
                256
            )
    assert BackgroundModel().fit(still)._learnt.recurring is None


def test_where_nearly_all_is_restless_nothing_comes_back(rng, monkeypatch):
    frames, _ = swaying(rng)
    assert BackgroundModel().fit(frames)._learnt.recurring is not None
    monkeypatch.setattr(recurring, "MOST_SHARE", 0.1)
    assert BackgroundModel().fit(frames)._learnt.recurring is None


@pytest.mark.parametrize("shape", [(30, 2, 640), (30, 1, 640, 3), (40, 5, 1920, 3)])
def test_wide_flat_pictures_are_learnt(shape):
    frames = np.full(shape, 9, np.uint8)
    model = BackgroundModel().fit(frames)
    assert model._learnt.recurring is None and not masks_of(model, frames).any()


def as_model(frames):
    """One component, the median of each pixel, in the order that find_recurring takes."""
    flat = frames.reshape(len(frames), -1, frames.shape[-1])
    H = np.median(flat, axis=0)[None].astype(np.float32)
    return flat, H, np.ones((1, len(frames)), np.float32), frames.shape[1:3]


def test_wider_pictures_are_asked_on_a_grid(tree):
    frames, _ = tree
    wide = np.ascontiguousarray(frames.repeat(2, axis=1).repeat(2, axis=2))  # the grid has the pixels of the other
    once, twice = find_recurring(*as_model(frames)), find_recurring(*as_model(wide))
    shares = np.zeros((HEIGHT, WIDTH), np.float32), np.zeros((2 * HEIGHT, 2 * WIDTH), np.float32)
    for share, back in zip(shares, (once, twice), strict=True):
        share.ravel()[back.pixels] = back.share
    reduced = cv2.resize(shares[1], (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
    np.testing.assert_allclose(reduced, shares[0], atol=0.1)
    assert shares[1].mean() > 0.1


def test_shares_are_none_beyond_one(tree, monkeypatch):
    blur = cv2.blur

    def rounds_beyond(picture, side):
        blurred = blur(picture, side)
        return blurred * np.float32(1.001) - np.float32(4e-4) if side[0] == recurring.FEATHER else blurred

    monkeypatch.setattr(cv2, "blur", rounds_beyond)
    share = find_recurring(*as_model(tree[0])).share
    assert share.min() > 0 and share.max() <= 1


def naive_returns(y, radius, away, parts):
    def near(a, b):
        return np.sqrt(np.mean((a.astype(float) - b) ** 2)) <= radius

    k = len(y)
    far = [j for j in range(k) if np.sqrt(np.mean(y[j].astype(float) ** 2)) > away]
    bounds = [part * k // parts for part in range(parts + 1)]
    back = [j for j in far if all(any(near(y[i], y[j]) for i in range(a, b)) for a, b in pairwise(bounds))]
    return len(far) / k, len(back) / k


def naive_returning(y, radius, away, times, gap, count):
    left = [j for j in range(len(y)) if np.sqrt(np.mean(y[j].astype(float) ** 2)) > away]
    found = []
    while left and len(found) < count:
        best, most = [], 0
        for j in left:
            near = [i for i in left if np.sqrt(np.mean((y[i].astype(float) - y[j]) ** 2)) <= radius]
            episodes = 1 + sum(b - a > gap + 1 for a, b in pairwise(near))
            if episodes > most:
                best, most = near, episodes
        if most < times:
            break
        found.append(np.rint(y[best].astype(np.float32).mean(axis=0)))
        left = [j for j in left if j not in best]
    return np.array(found + [np.zeros(y.shape[1])] * (count - len(found)))


@pytest.mark.parametrize("channels", [1, 3])
def test_what_comes_back_is_found_as_by_loops(channels, rng):
    centres = rng.integers(-80, 80, (30, 4, channels))
    values = np.stack([c[rng.integers(0, 4, 37)] for c in centres]) + rng.integers(-9, 10, (30, 37, channels))
    values = values.astype(np.int16)
    returned = np.zeros((2, 30), np.float32)
    levels = np.full((30, 3, channels), 99, np.int16)
    measure_returns(values, 11.0, 20.0, 4, returned, 1, 30)
    find_returning(values, 11.0, 20.0, 4, 1, levels, 1, 30)
    for pixel in range(1, 30):
        expected = naive_returns(values[pixel], 11.0, 20.0, 4)
        np.testing.assert_allclose(returned[:, pixel], expected, rtol=1e-6)
        np.testing.assert_allclose(levels[pixel], naive_returning(values[pixel], 11.0, 20.0, 4, 1, 3), atol=1)
    assert not returned[:, 0].any() and (levels[0] == 99).all()
    assert 0 < returned[1].mean() < returned[0].mean()
    assert levels[1:].any(axis=(1, 2)).sum() > 20


@pytest.mark.parametrize("channels", [(), (3,)])
def test_what_is_near_a_value_that_comes_back_is_no_foreground(channels):
    background = np.full((60, 80, *channels), 100, np.uint8)
    frame = background + np.uint8(60)
    frame[20:40, 20:40] = frame[20:40, 60:75] = 30
    noise = np.full((60, 80), 6.0, np.float32)
    pixels = np.arange(60 * 80).reshape(60, 80)[:, 40:].ravel()
    levels = np.zeros((len(pixels), recurring.LEVELS, channels[0] if channels else 1), np.int16)
    levels[:, 1] = 55
    back = Recurring(pixels, np.ones(len(pixels), np.float32), levels)
    mask = MaskDecision(noise, 3.0, recurring=back).mask(frame, background)
    assert mask[:, :30].mean() > 200 and not mask[:15, 55:].any() and mask[25:35, 64:71].all()


def test_a_saved_model_knows_what_comes_back(tree, tmp_path):
    frames, _ = tree
    model = BackgroundModel().fit(frames)
    model.save(tmp_path / "tree.npz")
    again = BackgroundModel.load(tmp_path / "tree.npz")
    np.testing.assert_array_equal(masks_of(again, frames[:3]), masks_of(model, frames[:3]))
    back = model._learnt.recurring
    for wrong in (
        {"pixels": back.pixels[::-1].copy()},
        {"pixels": back.pixels + frames[0, ..., 0].size},
        {"share": back.share * np.float32(2)},
        {"levels": back.levels[:, :2].copy()},
    ):
        model._learnt = dataclasses.replace(model._learnt, recurring=dataclasses.replace(back, **wrong))
        with pytest.raises(ParameterError, match="recurring"):
            model.save(tmp_path / "wrong.npz")
