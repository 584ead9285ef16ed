"""The background model on clips whose truth is known, and its kernels against slow loops."""

import contextlib
import itertools

import cv2
import numpy as np
import pytest
from background_settings import f_measure, masks_of, tuned
from scipy import ndimage
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from visionnmf.apps.background import BackgroundModel, OnlineBackgroundModel, make_separator
from visionnmf.apps.background.frame_arrays import FrameSample
from visionnmf.apps.background.model.mask import foreground_mask, median_mask, without_holes, without_shadows
from visionnmf.apps.background.tuning import TUNING
from visionnmf.datasets import make_surveillance
from visionnmf.exceptions import ParameterError


@pytest.fixture(scope="module")
def street():
    return make_surveillance(90, 96, 128, random_state=3)


@pytest.fixture(scope="module")
def cloudy():
    return make_surveillance(90, 96, 128, illumination=0.3, random_state=1)


# --- quality ----------------------------------------------------------------------------------------------------------


def test_masks_and_background_of_a_street(street):
    model = BackgroundModel().fit(street.frames)
    ours = f_measure(masks_of(model, street.frames), street.masks)
    assert ours > 0.9

    # what the floor is worth: ways that do not model the background miss it
    light = street.frames.max(axis=3)
    mean = street.frames.mean(axis=0).astype(np.uint8)
    trivial = {
        "nothing": np.zeros_like(street.masks),
        "everything": np.ones_like(street.masks),
        "dark": light < np.median(light),
        "bright": light > np.median(light),
        "mean": np.stack([median_mask(frame, mean) for frame in street.frames]),
        "last frame": np.stack([median_mask(a, b) for a, b in itertools.pairwise(street.frames[[0, *range(90)]])]),
    }
    assert max(f_measure(masks, street.masks) for masks in trivial.values()) < 0.8
    assert np.abs(model.background_.astype(int) - street.background).mean() < 2.5


@pytest.mark.slow
def test_two_components_follow_the_light(cloudy):
    median = BackgroundModel(1).fit(cloudy.frames).temporal_median_
    baseline = f_measure([median_mask(frame, median) for frame in cloudy.frames], cloudy.masks)
    one = f_measure(masks_of(BackgroundModel(1).fit(cloudy.frames), cloudy.frames), cloudy.masks)
    two = f_measure(masks_of(BackgroundModel(2).fit(cloudy.frames), cloudy.frames), cloudy.masks)
    assert baseline < 0.5
    assert two > 0.85
    assert two > one + 0.01


@pytest.mark.slow
def test_a_second_light_is_kept_only_where_it_is_needed(cloudy, monkeypatch, tmp_path):
    even = make_surveillance(60, 96, 128, illumination=0.0, random_state=1).frames
    model = BackgroundModel().fit(even)
    assert model.n_components_ == 1 and model.components_.shape[0] == model.codes_.shape[1] == 1
    one = BackgroundModel(1).fit(even)
    np.testing.assert_array_equal(masks_of(model, even[::9]), masks_of(one, even[::9]))
    model.save(tmp_path / "even.npz")
    assert BackgroundModel.load(tmp_path / "even.npz").n_components_ == 1
    for most in (2, 3):
        assert BackgroundModel(most).fit(cloudy.frames).n_components_ == most
    tuned(monkeypatch, "illumination", needed=0.0)
    assert BackgroundModel().fit(even).n_components_ == 2


@pytest.mark.slow
@pytest.mark.parametrize("grey", [False, True])
def test_a_lamp_that_lights_a_small_part_of_the_scene_now_and_then_is_light(grey):
    street = make_surveillance(90, 192, 256, random_state=3)
    away = (np.mgrid[:192, :256] - np.array([[[80]], [[100]]])) / 32
    glow = np.exp(-(away**2).sum(axis=0) / 2)
    on = np.arange(90) // 7 % 3 == 1
    lit = 0.5 * street.frames * (1 + 0.7 * on[:, None, None, None] * glow[None, :, :, None])
    frames = lit.astype(np.uint8)[..., 0] if grey else lit.astype(np.uint8)
    model = BackgroundModel().fit(frames)
    masks = masks_of(model, frames)
    assert model.n_components_ == 2
    assert f_measure(masks[on], street.masks[on]) > f_measure(masks[~on], street.masks[~on]) - 0.15


@pytest.mark.slow
def test_a_ring_that_closing_alone_fills_in_a_small_picture():
    """Its middle is a region of one pixel, of which no level was found."""
    frames = np.full((60, 20, 24, 3), 100, np.uint8)
    frames[22:44, 4:9, 8:13] = 200
    frames[:, 5:8, 9:12] = 100
    masks = [part.mask for part in BackgroundModel(random_state=0).fit(frames).apply(frames[[10, 30]])]
    assert not masks[0].any()


def test_the_background_behind_what_moves_most_of_the_time(rng):
    scene = rng.integers(100, 200, (40, 50)).astype(np.uint8)
    frames = np.repeat(scene[None], 80, axis=0)
    hidden = rng.random(80) < 0.65  # more often than not
    frames[hidden, :, :25] = rng.integers(0, 90, (hidden.sum(), 40, 25))
    model = BackgroundModel(1).fit(frames)
    assert np.abs(model.background_.astype(int) - scene).mean() < 3
    assert np.abs(model.temporal_median_.astype(int) - scene)[:, :25].mean() > 8


@pytest.mark.slow
def test_an_object_that_fills_most_of_a_frame_is_no_change_of_light():
    grey = np.add.outer(np.linspace(80, 120, 60), np.linspace(0, 80, 80))
    frames = np.repeat(grey[None].astype(np.uint8), 30, axis=0)
    frames += np.random.default_rng(0).integers(0, 6, frames.shape, dtype=np.uint8)
    model = BackgroundModel().fit(frames)
    frame = frames[0].copy()
    frame[:, 30:] = np.random.default_rng(1).integers(20, 60, (60, 50))
    (part,) = model.apply([frame])
    truth = np.zeros(frame.shape, bool)
    truth[:, 30:] = True
    assert f_measure(part.mask, truth) > 0.95
    # the same change everywhere is light
    (part,) = model.apply([frames[0] // 2])
    assert not part.mask.any()


def test_a_shadow_counts_less_than_an_object_of_another_colour():
    frames = np.full((20, 40, 60, 3), (120, 100, 80), np.uint8)
    model = BackgroundModel().fit(frames)
    shadow, object_ = frames[0].copy(), frames[0].copy()
    shadow[10:30, 20:40] = (90, 75, 60)  # three quarters of the light
    object_[10:30, 20:40] = (89, 100, 111)  # as far away, another hue
    shaded, seen = model.apply([shadow, object_])
    assert not shaded.mask.any()
    assert seen.mask[14:26, 24:36].all()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("case", "is_shadow"),
    [
        ("shadow", True),
        ("twice the width", True),  # windows grow with the picture
        ("another texture", False),
        ("no texture", False),
        ("no texture behind it", False),
        ("brighter", False),
        ("several factors", False),
        ("nothing beside it", False),
        ("two shadows, nothing beside them", False),
        ("another hue", False),
    ],
)
def test_shadows_that_show_the_texture_of_the_background_leave_the_mask(case, is_shadow, channels, rng):
    times = 2 if case == "twice the width" else 1
    light = rng.integers(80, 180, (120, 320)).astype(np.uint8).repeat(times, 0).repeat(times, 1)
    if case == "no texture behind it":
        light[:] = 120
    background = np.stack([light] * channels, axis=2)
    frame = background + rng.normal(0, 1, background.shape)
    region, shadow = np.zeros((2, *light.shape), bool)
    region[20 * times : 80 * times, 20 * times : 120 * times] = shadow[
        22 * times : 78 * times, 62 * times : 118 * times
    ] = True
    if "nothing beside" in case:
        region = shadow
    frame[region & ~shadow] = 220
    part = 0.6 * frame[shadow]
    if case == "two shadows, nothing beside them":
        part *= np.where(np.nonzero(shadow)[1] < 90 * times, 1.4, 0.7)[:, None]
    if case == "another texture":
        part = rng.permutation(part)
    if case == "no texture":
        part[:] = part.mean()
    if case == "brighter":
        part *= 2
    if case == "several factors":
        part *= rng.uniform(0.5, 1.5, (len(part), 1))
    if case == "another hue":
        part *= np.linspace(0.8, 1.2, channels) if channels == 3 else 2
    frame[shadow] = part
    frame = np.clip(frame, 0, 255).astype(np.uint8)
    mask = without_shadows(
        np.where(region, 255, 0).astype(np.uint8), frame, background, np.full(light.shape, 6.0, np.float32)
    )
    beside = region & ~shadow
    assert (mask[beside] == 0).sum() <= 0.05 * beside.sum()
    assert (mask[shadow] == 0).mean() > 0.9 if is_shadow else (mask[region] == 255).all()


def test_edges_stay_where_they_are():
    score = np.zeros((60, 60), np.float32)
    score[20:40, 20:40] = 60  # far above: smoothing must not widen it
    mask = foreground_mask(score, 3.0)
    truth = score > 0
    assert mask.dtype == np.uint8
    assert set(np.unique(mask)) == {0, 255}
    grown = cv2.dilate(truth.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    assert ((mask > 0) <= grown).all()
    assert f_measure(mask, truth) > 0.9


@pytest.mark.parametrize("gap", [0, 5, 10])
def test_gaps_and_holes_are_filled_as_scipy_fills_them(gap, rng, monkeypatch):
    tuned(monkeypatch, "mask", gap=gap, hole=1.0)
    mask = np.where(cv2.GaussianBlur(rng.normal(size=(70, 90)), (0, 0), 2) > -0.05, 255, 0).astype(np.uint8)
    weak = rng.choice(np.array([0, 255], np.uint8), mask.shape)
    side = gap | 1  # even sides are rounded up
    closed = ndimage.binary_closing(mask > 0, np.ones((side, side))) & (weak > 0)
    expected = ndimage.binary_fill_holes((mask > 0) | closed)
    assert expected.sum() > (mask > 0).sum() + 50
    np.testing.assert_array_equal(without_holes(mask.copy(), weak) > 0, expected)


def test_gaps_grow_with_wide_pictures_and_only_small_holes_are_filled():
    def filled(width, gap, hole, evidence=255):
        mask = np.zeros((240, width), np.uint8)
        mask[20:220, 20 : width - 20] = 255
        mask[0:200, 100 : 100 + gap] = 0  # open above
        mask[60 : 60 + hole, 200 : 200 + hole] = 0
        mask = without_holes(mask, np.full_like(mask, evidence))
        return bool(mask[120, 100 + gap // 2]), bool(mask[60 + hole // 2, 200 + hole // 2])

    assert filled(320, 10, 25) == (True, True)
    assert filled(320, 12, 31) == (False, False)
    assert filled(960, 30, 25) == (True, True)
    assert filled(960, 36, 60) == (False, False)
    assert filled(320, 10, 25, evidence=0) == (False, True)


def test_foreground_near_the_border_does_not_grow_to_it():
    mask = np.zeros((60, 80), np.uint8)
    mask[3:40, 4:30] = 255
    np.testing.assert_array_equal(without_holes(mask.copy(), np.full_like(mask, 255)), mask)


# --- what is promised -------------------------------------------------------------------------------------------------


def test_attributes(street):
    model = BackgroundModel(2, n_frames=20)
    assert model.fit(street.frames) is model
    assert model.n_frames_seen_ == 90
    assert 10 <= len(model.learnt_frames_) <= 20
    assert np.ptp(np.diff(model.learnt_frames_)) <= 2
    assert model.components_.shape == (2, 96, 128, 3)
    assert model.components_.dtype == model.codes_.dtype == model.noise_scale_.dtype == np.float32
    assert model.codes_.shape == (len(model.learnt_frames_), 2)
    assert (model.components_ >= 0).all()
    assert (model.codes_ >= 0).all()
    assert model.background_.shape == model.temporal_median_.shape == (96, 128, 3)
    assert model.background_.dtype == model.temporal_median_.dtype == np.uint8
    learnt = street.frames[model.learnt_frames_]
    np.testing.assert_array_equal(model.temporal_median_, np.floor(np.median(learnt, axis=0) + 0.5))
    assert model.noise_scale_.min() >= TUNING.noise.floor


def room(rng, noise, light):
    """Return frames of a room through which something goes that is 18 grey levels darker, and where it is."""
    scene = np.clip(light * np.add.outer(np.linspace(0.8, 1.2, 120), np.linspace(0.0, 0.2, 160)), 0, 200)
    frames = np.repeat(scene[None], 40, axis=0)
    truth = np.zeros((40, 120, 160), bool)
    for t in range(0, 40, 8):
        truth[t, 40:80, 4 + 2 * t : 44 + 2 * t] = True
    frames[truth] -= 18
    return (frames + noise * rng.normal(size=frames.shape)).round().clip(0, 255).astype(np.uint8), truth


@pytest.mark.parametrize("kind", ["batch", "from a file", "live"])
@pytest.mark.parametrize(("noise", "light", "found"), [(0.5, 30, True), (0.5, 150, False), (4.0, 30, False)])
def test_little_contrast_counts_in_the_dark_if_the_camera_shows_little_noise(noise, light, found, kind, rng, tmp_path):
    frames, truth = room(rng, noise, light)
    if kind == "live":
        parts = OnlineBackgroundModel(frame_rate=10).follow(np.concatenate([frames] * 10))
        masks = np.stack([part.mask for part in parts])[-40:]
    else:
        model = BackgroundModel().fit(frames)
        assert (model.noise_scale_.min() < TUNING.noise.floor) == (noise == 0.5)
        if kind == "from a file":
            model.save(tmp_path / "model.npz")
            model = BackgroundModel.load(tmp_path / "model.npz")
        masks = masks_of(model, frames)
    assert (f_measure(masks, truth) > 0.8) if found else (masks > 0).mean() < 0.001


def test_a_bright_frame_of_a_dark_room_is_judged_as_a_bright_one(rng):
    """The errors of a scene that was learnt in the dark grow with the light."""
    frames, truth = room(rng, 0.5, 30)
    frames[1:8] = (frames[1:8] * 3.9).round()
    frames[5][truth[16]] -= 18
    masks = masks_of(BackgroundModel().fit(frames), frames)
    assert f_measure(masks[16], truth[16]) > 0.85
    assert not masks[5].any()


def test_noise_is_estimated_without_the_foreground(rng, monkeypatch):
    tuned(monkeypatch, "noise", ceiling=50 / 3)
    frames = np.clip(rng.normal(128, 10, (60, 60, 60)), 0, 255).astype(np.uint8)
    frames[:, 20:40, 20:40] = rng.integers(0, 256, (60, 1, 1))
    scale = BackgroundModel().fit(frames).noise_scale_
    assert np.median(scale[:15]) == pytest.approx(10, rel=0.06)
    assert scale.max() <= 50 / 3 + 1e-3


@pytest.mark.slow
def test_frames_come_in_order_and_few_are_taken_ahead(street, monkeypatch):
    monkeypatch.setenv("VISIONNMF_NUM_THREADS", "2")
    model = BackgroundModel().fit(street.frames)
    taken = []

    def stream():
        for index, frame in enumerate(street.frames):
            taken.append(index)
            yield frame

    parts = model.apply(stream())
    for expected in range(10):
        part = next(parts)
        assert part.index == expected
        assert len(taken) <= expected + 6
        np.testing.assert_array_equal(part.frame, street.frames[expected])
    parts.close()  # left early: nothing hangs
    assert len(taken) < 20


@pytest.mark.slow
def test_grey_frames_and_one_buffer_for_all(street):
    grey = street.frames[..., 1]
    model = BackgroundModel().fit(grey)
    assert model.background_.shape == (96, 128)
    assert f_measure(masks_of(model, grey), street.masks) > 0.8

    buffer = np.empty_like(grey[0])

    def reused():
        for frame in grey:
            buffer[:] = frame
            yield buffer

    again = BackgroundModel().fit(reused())
    np.testing.assert_array_equal(again.components_, model.components_)
    np.testing.assert_array_equal(again.noise_scale_, model.noise_scale_)
    np.testing.assert_array_equal(masks_of(model, reused()), masks_of(model, grey))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(24, 32), (24, 32, 3), (1, 1), (1, 7, 3), (3, 2)])
@pytest.mark.parametrize("n_frames", [1, 2, 5])
@pytest.mark.parametrize("level", [0, 130, 255])
@pytest.mark.parametrize("rank", [1, 2, 4])
def test_clips_in_which_nothing_happens(shape, n_frames, level, rank):
    frames = np.full((n_frames, *shape), level, np.uint8)
    model = BackgroundModel(rank).fit(frames)
    assert np.isfinite(model.components_).all()
    assert np.abs(model.background_.astype(int) - level).max() <= 1
    for part in model.apply(frames):
        assert not part.mask.any()
        assert np.abs(part.background.astype(int) - level).max() <= 1
    # a black clip shows something at last: no crash, and it is seen
    (part,) = model.apply([np.full(shape, 255 - level, np.uint8)])
    assert part.mask.shape == shape[:2]


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (np.zeros((3, 8, 8), np.int16), "frame 0 must be uint8, uint16, or floating point from 0 to 1; got int16"),
        (np.full((3, 8, 8), 255.0), "frame 0 must be from 0 to 1 in floating point; got 255 to 255; divide by"),
        (np.full((3, 8, 8), np.nan), "frame 0 must be from 0 to 1 in floating point; got nan to nan"),
        ([np.zeros((8, 8), np.uint8), None], "frame 1 must be uint8, uint16, or floating .* got NoneType"),
        ([np.zeros((8, 8), np.uint8), np.zeros((8, 9), np.uint8)], r"of the first learnt, \(8, 8\); got \(8, 9\)"),
        (np.zeros((3, 8, 8, 2), np.uint8), r"frame 0 must have shape \(height, width\), or .*; got \(8, 8, 2\)"),
        (np.zeros((3, 0, 8), np.uint8), r"frame 0 must have shape .*; got \(0, 8\)"),
        (np.zeros(8, np.uint8), r"frames must be frames of shape .*, or a single one; got shape \(8,\)"),
        ([], "frames must hold at least one frame; got none"),
        (np.zeros((2, 3, 8, 9), np.uint8), r"got \(3, 8, 9\); move the channels to the end by numpy.moveaxis"),
        (np.zeros((8, 9, 3, 20), np.uint8), r"got \(9, 3, 20\); move the last axis of a stack to the front"),
        (5, r"frames must be an array of frames, a video, or frames one after another; got int"),
        (None, r"frames must be an array .*; got NoneType"),
    ],
)
def test_frames_that_are_refused(frames, message):
    with pytest.raises(ParameterError, match=message):
        BackgroundModel().fit(frames)


@pytest.mark.parametrize("learn", [BackgroundModel().fit, OnlineBackgroundModel().fit])
def test_frames_on_the_last_axis_are_reported_and_others_are_not(learn, street):
    grey = street.frames[:40, :, :, 1]
    with pytest.warns(UserWarning, match="look as if their last axis were time; .*moveaxis") as told:
        learn(np.moveaxis(grey, 0, -1))
    assert told[0].filename == __file__
    learn(grey)
    learn(np.stack([np.roll(grey[0], 5 * i, axis=1) for i in range(20)]))  # a moving camera


def test_an_iterator_that_was_gone_through_is_no_clip_without_foreground(street):
    frames = street.frames[:4]
    for make in (list, iter, lambda some: (frame for frame in some)):
        for learn in (BackgroundModel().fit, OnlineBackgroundModel().fit, make_separator("mahnmf").fit):
            twice = make(frames)
            model = learn(twice)
            again = model.follow if isinstance(model, OnlineBackgroundModel) else model.apply
            if make is not list:
                with pytest.raises(ParameterError, match="at least one frame; got none; an iterator is empty once"):
                    list(again(twice))
            with pytest.raises(ParameterError, match=r"at least one frame; got none$"):
                list(again([]))


def test_frames_in_tuples_with_their_times_lead_to_partial_fit(street):
    model = OnlineBackgroundModel(warm_up=0.1)
    for pair in ((street.frames[0], 0.0), (0.0, street.frames[0])):
        with pytest.raises(ParameterError, match=r"got tuple; a frame with a time of yours goes to .*partial_fit$"):
            list(OnlineBackgroundModel().follow([pair]))
    for number, frame in enumerate(street.frames[:8]):  # the loop of the guide
        model.partial_fit(frame, time=7.0 + number / 25)
    assert model.time_ == 7.28 and model.mask_.shape == street.frames.shape[1:3]


def test_a_single_frame_is_reported(street):
    for frames in (street.frames[0], street.frames[:1], street.frames[:1, :, :, 1]):
        with pytest.warns(UserWarning, match="frames hold a single frame, of shape .*, all of which counts"):
            BackgroundModel().fit(frames)


def test_a_clone_and_any_kind_of_random_state_give_the_same_model(street):
    model = BackgroundModel(n_frames=10, random_state=5)
    again = clone(model)
    assert again.get_params() == {"n_components": 2, "n_frames": 10, "threshold": 3.0, "random_state": 5}
    expected = model.fit(street.frames).codes_
    np.testing.assert_array_equal(again.fit(street.frames).codes_, expected)
    for make in (np.random.RandomState, np.random.default_rng):
        first, second = (BackgroundModel(n_frames=10, random_state=make(3)).fit(street.frames).codes_ for _ in range(2))
        np.testing.assert_array_equal(first, second)
    BackgroundModel(n_frames=10, random_state=None).fit(street.frames)


@pytest.mark.slow
def test_of_large_pictures_fewer_are_worked_on(street, monkeypatch):
    model = BackgroundModel().fit(street.frames)
    monkeypatch.setenv("VISIONNMF_NUM_THREADS", "4")

    def taken():
        """Return how many frames are taken before the first is delivered."""
        rest = iter(street.frames)
        with contextlib.closing(model.apply(rest)) as parts:
            next(parts)
        return len(street.frames) - len(list(rest))

    assert taken() == 9
    tuned(monkeypatch, "learning", ahead_pixels=model._learnt.noise_scale.size * 6)
    assert taken() == 7
    tuned(monkeypatch, "learning", ahead_pixels=1)
    assert taken() == 5


def test_a_model_is_fitted_first_and_its_threshold_is_checked_again(street):
    with pytest.raises(NotFittedError, match="BackgroundModel instance is not fitted yet"):
        next(BackgroundModel().apply(street.frames))
    with pytest.raises(ParameterError, match="threshold must be a finite number > 0; got 0"):
        next(BackgroundModel().fit(street.frames[:5]).set_params(threshold=0).apply(street.frames))


# --- sampling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_frames", [1, 2, 3, 7, 8, 9, 64, 65])
@pytest.mark.parametrize("room", [2, 3, 8])
def test_the_sample_is_even_and_knows_the_neighbours(n_frames, room, rng):
    frames = rng.integers(0, 256, (n_frames, 4, 5), dtype=np.uint8)
    sample = FrameSample(room)
    for frame in frames:
        sample.add(frame)
    kept, positions = sample.taken()
    moved = sample.hand_over_changes()
    assert sample.seen == n_frames
    assert min(n_frames, (room + 1) // 2) <= len(positions) <= room
    assert positions[0] == 0
    step = 2 ** round(np.log2(np.median(np.diff(positions)))) if len(positions) > 1 else n_frames
    assert (np.abs(np.diff(positions) - step) <= (step > 1)).all()
    assert n_frames - 1 - positions[-1] <= 2 * step
    np.testing.assert_array_equal(kept[..., 0], frames[positions].reshape(len(positions), 20))
    for position, difference in zip(positions, moved, strict=True):
        neighbours = [other for other in (position - 1, position + 1) if 0 <= other < n_frames]
        changes = [np.abs(frames[position].astype(int) - frames[other]) for other in neighbours]
        np.testing.assert_array_equal(difference, np.max(changes, axis=0) if changes else np.zeros((4, 5)))


def test_large_frames_take_fewer(monkeypatch):
    tuned(monkeypatch, "sample", max_bytes=6 * (3 + 1) * 100)
    tuned(monkeypatch, "small_frames", small=0)
    model = BackgroundModel().fit(np.zeros((50, 10, 10, 3), np.uint8))
    assert 3 <= len(model.learnt_frames_) <= 6
