"""The parts of the background model for hard clips, each on a made clip that needs it; kernels against loops."""

import dataclasses
import tracemalloc

import cv2
import numpy as np
import pytest
from background_settings import f_measure, follow, masks_of, separate, tuned
from model_files import rewrite
from scipy import ndimage

from visionnmf.apps.background import BackgroundModel, OnlineBackgroundModel
from visionnmf.apps.background.frame_arrays import FrameSample
from visionnmf.apps.background.model import learning
from visionnmf.apps.background.model.camera_shake import Registration, find_camera_shake, shifted
from visionnmf.apps.background.model.dynamic_background import DynamicBackground
from visionnmf.apps.background.model.mask import MaskDecision
from visionnmf.datasets import make_surveillance
from visionnmf.exceptions import UnreadableError
from visionnmf.io import VideoWriter

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


def without(monkeypatch, part):
    """Leave a part out."""
    none = {"correct_scene": lambda frames, weights, H, *others: H}
    monkeypatch.setattr(learning, part, none.get(part, lambda *arguments: None))


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
    tuned(monkeypatch, "noise", ceiling=50 / 3)
    assert f_measure(masks_of(BackgroundModel().fit(frames), frames), truth) < 0.75


@pytest.mark.parametrize("level", [0.0, 4.0, 200.0])
def test_who_rests_longer_than_not_is_no_scene(level, monkeypatch):
    frames, truth, scene = resting_clip(level)
    model = BackgroundModel().fit(frames)
    assert f_measure(masks_of(model, frames), truth) > 0.9
    assert np.abs(model.background_ - scene).mean() < 3
    without(monkeypatch, "correct_scene")
    assert f_measure(masks_of(BackgroundModel().fit(frames), frames), truth) < 0.6


@pytest.mark.slow
def test_a_car_in_a_colour_as_bright_as_the_road_is_no_moving_background():
    """It stands there for half of the clip, and the mean over channels of what it changes is about 0."""
    clip = make_surveillance(120, 240, 180, random_state=72)
    model = BackgroundModel().fit(clip.frames)
    assert model._learnt.dynamic is None
    assert f_measure(masks_of(model, clip.frames), clip.masks) > 0.92


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
    share = BackgroundModel().fit(noisy(rng, frames))._learnt.dynamic.share
    assert share[:, 100:].mean() > 0.1 and share[:, :70].max() < 0.01
    assert BackgroundModel().fit(noisy(rng, [still] * 40))._learnt.dynamic is None


def test_where_the_scene_sways_live_as_in_a_batch(rng, monkeypatch, tmp_path):
    """Leaves of the right half change at random; a box goes by. The state that is saved knows where they are."""
    frames, truth = [], np.zeros((60, 120, 200), bool)
    for t in range(60):
        leaves = np.kron(rng.normal(135, 20, (60, 50)), np.ones((2, 2)))
        frame = np.concatenate([np.tile(np.linspace(20, 200, 100), (120, 1)), leaves], axis=1)
        truth[t, 40:80, 3 * t : 3 * t + 25] = t > 25
        frame[truth[t]] = 240
        frames.append(frame)
    frames = noisy(rng, frames)
    model = OnlineBackgroundModel(frame_rate=10)
    found = f_measure([part.mask for part in model.follow(frames)], truth)
    assert found > 0.7
    model.save(tmp_path / "state.npz")
    np.testing.assert_array_equal(
        OnlineBackgroundModel.load(tmp_path / "state.npz")._dynamic.share, model._dynamic.share
    )
    without(monkeypatch, "find_dynamic_background")
    assert f_measure([part.mask for part in OnlineBackgroundModel(frame_rate=10).follow(frames)], truth) < found - 0.1


@pytest.mark.parametrize("channels", [(), (3,)])
def test_what_is_usual_where_the_scene_sways_is_no_foreground(channels):
    frame, background = np.full((60, 80, *channels), 120, np.uint8), np.full((60, 80, *channels), 100, np.uint8)
    frame[20:40, 20:40] = 250
    noise = np.full((60, 80), 6.0, np.float32)
    share = np.zeros_like(noise)
    share[:, 40:] = 1
    dynamic = DynamicBackground(share, np.full_like(noise, 15), np.full_like(noise, 15))
    mask = MaskDecision(noise, 6.0, dynamic).mask(frame, background, 3.0)
    assert mask[:, :30].mean() > 200 and not mask[:, 55:].any() and mask[25:35, 25:35].all()


def test_frames_of_a_shaking_camera_are_laid_upon_each_other(shaken, monkeypatch):
    frames, truth, _ = shaken
    model = BackgroundModel().fit(frames)
    assert f_measure(masks_of(model, frames), truth) > 0.85
    (part,) = model.apply(frames[7:8])
    inner = (slice(10, -10),) * 2
    assert np.abs(part.background.astype(int) - frames[7])[inner][~truth[7][inner]].mean() < 4
    without(monkeypatch, "find_camera_shake")
    assert f_measure(masks_of(BackgroundModel().fit(frames), frames), truth) < 0.75


def test_frames_of_a_shaking_camera_are_laid_upon_each_other_live(shaken, monkeypatch, tmp_path):
    frames, truth = (np.concatenate([both, both]) for both in shaken[:2])

    def followed(model, frames):
        return np.stack([part.mask for part in model.follow(frames)])

    whole = OnlineBackgroundModel(frame_rate=10, warm_up=6)  # the first half
    masks = followed(whole, frames)
    assert f_measure(masks[60:], truth[60:]) > 0.85
    inner = (slice(10, -10),) * 2
    assert np.abs(whole.background_.astype(int) - frames[-1])[inner][~truth[-1][inner]].mean() < 5
    part = OnlineBackgroundModel(frame_rate=10, warm_up=6)
    followed(part, frames[:90])
    part.save(tmp_path / "at.npz")
    np.testing.assert_array_equal(followed(OnlineBackgroundModel.load(tmp_path / "at.npz"), frames[90:]), masks[90:])
    rewrite(tmp_path / "at.npz", lambda state, arrays: arrays["_registration.scene"].fill(256))
    with pytest.raises(UnreadableError, match=r"_registration\.scene must be"):
        OnlineBackgroundModel.load(tmp_path / "at.npz")
    without(monkeypatch, "find_camera_shake")
    masks = followed(OnlineBackgroundModel(frame_rate=10, warm_up=6), frames)
    assert f_measure(masks[60:], truth[60:]) < 0.75


@pytest.mark.parametrize("spoil", ["black", "white", "half", "hidden"])
def test_one_frame_that_shows_nothing_hides_no_shaking(spoil, shaken):
    frames, _, _ = shaken
    frames = frames.copy()
    middle = frames[31]  # which is among those that are asked
    middle[:] = {"black": 0, "white": 255, "half": middle // 2, "hidden": middle}[spoil]
    if spoil == "hidden":
        middle[10:90, 10:150] = 20
    anchors = find_camera_shake(frames[..., None])
    assert anchors is not None
    assert anchors.shift(np.full_like(middle, 255)) == (0, 0)


def test_shaking_is_found_in_changing_light(shaken):
    frames, truth, _ = shaken
    dimmed = (frames * np.linspace(0.6, 1, len(frames))[:, None, None]).astype(np.uint8)
    assert f_measure(masks_of(BackgroundModel().fit(dimmed), dimmed), truth) > 0.85


def test_a_saved_model_knows_the_shaking_and_the_sway(shaken, tmp_path):
    frames, _, _ = shaken
    model = BackgroundModel().fit(frames[:20])
    noise = model._learnt.noise_scale
    sway = DynamicBackground(np.full_like(noise, 0.5), 2 * noise, noise)
    model._learnt = dataclasses.replace(model._learnt, dynamic=sway)
    model.save(tmp_path / "shaken.npz")
    again = BackgroundModel.load(tmp_path / "shaken.npz")
    assert again._learnt.registration is not None
    np.testing.assert_array_equal(again._learnt.dynamic.noise, sway.noise)
    again.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "shaken.npz").read_bytes()


def test_the_parts_of_an_untrusted_file_are_checked(shaken, tmp_path):
    path = tmp_path / "wrong.npz"
    small = BackgroundModel().fit(shaken[0][:20, :60, :60])
    flat = np.full_like(small._learnt.noise_scale, 1.5)
    scene = np.full_like(small.noise_scale_, 1.5)
    parts = {"dynamic": DynamicBackground(flat / 2, flat, flat), "registration": Registration(scene)}
    small._learnt = dataclasses.replace(small._learnt, **parts)
    for name, value in (
        ("dynamic.noise", 1e-45),
        ("dynamic.share", 2),
        ("registration.scene", 1e38),
    ):
        small.save(path, force=True)
        with pytest.raises(UnreadableError, match=f"_learnt.{name} must be"):
            BackgroundModel.load(rewrite(path, lambda state, arrays: arrays[f"_learnt.{name}"].fill(value)))  # noqa: B023


@pytest.mark.parametrize("seed", [1, 5, 7])
def test_what_moves_apart_is_no_shake(seed, monkeypatch):
    """Each quarter of the picture is displaced by itself, and one shift still explains much of it."""
    rng = np.random.default_rng(seed)
    wide = ndimage.gaussian_filter(rng.normal(size=(2, 2, 68, 84)), (0, 0, 2, 2))
    wide = 120 + 40 * wide / wide.std()
    frames = np.empty((40, 96, 128, 1))
    for frame in frames[..., 0]:
        for i, j in np.ndindex(2, 2):
            right, down = rng.integers(-3, 4, 2)
            frame[48 * i : 48 * i + 48, 64 * j : 64 * j + 64] = wide[
                i, j, 10 + down : 58 + down, 10 + right : 74 + right
            ]
    frames = frames.round().clip(0, 255).astype(np.uint8)
    assert find_camera_shake(frames) is None
    tuned(monkeypatch, "camera_shake", halves=np.inf)
    assert find_camera_shake(frames) is not None


def test_a_camera_shakes_also_where_all_that_is_to_be_seen_is_in_one_corner():
    """Half of the pixels then show noise alone, of which no shift is seen."""
    rng = np.random.default_rng(1)
    patch = ndimage.gaussian_filter(rng.normal(size=(30, 30)), 1.5)
    frames = np.full((40, 240, 320, 1), 90.0)
    for frame in frames[..., 0]:
        down, right = rng.integers(-3, 4, 2)
        frame[168 + down : 198 + down, 225 + right : 255 + right] = 110 + 60 * patch / patch.std()
    frames += 2 * rng.normal(size=frames.shape)
    assert find_camera_shake(frames.round().clip(0, 255).astype(np.uint8)) is not None


def test_shifts_are_found(shaken):
    frames, _, shifts = shaken
    anchors = find_camera_shake(frames[..., None])
    found = np.array([anchors.shift(frame) for frame in frames])
    wanted = -(shifts - np.median(shifts, axis=0))  # of the camera, against that of the picture
    np.testing.assert_allclose(found - np.median(found, axis=0), wanted, atol=0.3)
    still = np.repeat(frames[:1], 20, axis=0)
    assert find_camera_shake(still[..., None]) is None


def test_the_report_says_how_far_a_camera_shook(shaken, tmp_path):
    frames, _, shifts = shaken
    path, still = tmp_path / "shaken.mkv", tmp_path / "still.mkv"
    for file, pictures in ((path, frames), (still, np.stack(60 * [frames[0]]))):
        with VideoWriter(file, width=frames.shape[2], height=frames.shape[1], frame_rate=30, codec="ffv1") as writer:
            for frame in pictures:
                writer.write(np.stack(3 * [frame], axis=-1))
    most = np.hypot(*(shifts - np.median(shifts, axis=0)).T).max()
    for report in (separate(path, out=tmp_path, videos=False), follow(path, out=tmp_path, force=True)):
        assert report.camera_shake == pytest.approx(most, abs=1)
        assert f"\n  camera shake: compensated, up to {report.camera_shake:.1f} pixels\n" in str(report)
    for report in (separate(still, out=tmp_path, videos=False), follow(still, out=tmp_path, force=True)):
        assert report.camera_shake == 0 and "shake" not in str(report).replace("shaken", "")


def test_a_picture_moved_there_and_back(rng):
    picture = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    there = shifted(picture, (3.0, -2.0))
    np.testing.assert_array_equal(there[2:, :-3], picture[:-2, 3:])
    np.testing.assert_array_equal(shifted(there, (-3.0, 2.0))[:-2, 3:], picture[:-2, 3:])


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
    tuned(monkeypatch, "dynamic_background", held=2 * pixels, values=16 * pixels)  # as of large pictures
    peaks = []
    for _ in range(2):  # kernels are read in the first, and take memory themselves
        sample = FrameSample(len(frames))
        for frame in frames:
            sample.add(frame)
        tracemalloc.start()
        learnt = learning.learn_background(sample, n_components=2, rng=np.random.default_rng(0))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    lit = len(learnt.H) > 1 or None
    found = {"shakes": learnt.registration, "sways": learnt.dynamic, "is lit": lit, "turns": True}[what]
    assert found is not None
    assert peaks[-1] / pixels < 170  # bytes
