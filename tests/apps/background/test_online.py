"""The online background model: against the batch model, made truths, and slow loops."""

import numpy as np
import pytest
from background_settings import f_measure
from model_files import rewrite
from sklearn.exceptions import NotFittedError

from visionnmf.apps.background import BackgroundModel, OnlineBackgroundModel
from visionnmf.datasets import make_surveillance
from visionnmf.exceptions import ParameterError, UnreadableError


def followed(model, frames):
    return np.stack([part.mask for part in model.follow(frames)])


@pytest.fixture(scope="module")
def street():
    return make_surveillance(150, 96, 128, random_state=3)


def room(rng, n_frames, noise=2.0, shape=(48, 64, 3)):
    """An empty room, and what adds noise to it."""
    scene = rng.uniform(60, 200, shape)
    return scene, lambda picture: np.clip(picture + noise * rng.standard_normal(shape), 0, 255).round().astype(np.uint8)


# --- masks ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_as_good_as_the_batch_model_and_no_flood_at_the_start(street):
    masks = followed(OnlineBackgroundModel(frame_rate=10), street.frames)
    batch = np.stack([part.mask for part in BackgroundModel().fit(street.frames).apply(street.frames)])
    assert len(masks) == len(street.frames)
    assert f_measure(masks, street.masks) > max(0.88, f_measure(batch, street.masks) - 0.05)
    share = (masks > 0).mean(axis=(1, 2))
    assert share.max() < 1.5 * street.masks.mean(axis=(1, 2)).max()


@pytest.mark.slow
def test_frame_by_frame_nothing_is_marked_before_the_start_is_learnt(street):
    model = OnlineBackgroundModel(frame_rate=10, warm_up=2)
    masks = []
    for frame in street.frames[:40]:
        assert model.partial_fit(frame) is model
        masks.append(model.mask_)
        assert model.background_.shape == frame.shape
    assert model.n_frames_seen_ == 40
    assert not np.any(masks[:19]) and np.all([mask.any() for mask in masks[19:]])
    np.testing.assert_array_equal(masks[20:], followed(OnlineBackgroundModel(frame_rate=10), street.frames[:40])[20:])


def test_a_stream_that_ends_early_is_masked_too(street):
    assert followed(OnlineBackgroundModel(warm_up=60), street.frames[:7]).shape == (7, 96, 128)
    assert followed(OnlineBackgroundModel(), street.frames[:1]).sum() == 0


@pytest.mark.parametrize("after", [0.5, 1.4])
@pytest.mark.slow
def test_light_that_changes_at_once_is_followed_at_once(after, street):
    frames = street.frames.copy()
    frames[75:] = np.clip(frames[75:] * after, 0, 255)
    masks = followed(OnlineBackgroundModel(frame_rate=10), frames)
    assert f_measure(masks[75:], street.masks[75:]) > 0.8


@pytest.mark.slow
def test_a_lamp_over_half_of_the_room_is_scene_after_a_second(rng):
    scene, seen = room(rng, 100)
    lamp = scene.copy()
    lamp[:, 20:] = np.minimum(lamp[:, 20:] * 1.6 + 20, 250)
    frames = [seen(scene) for _ in range(50)] + [seen(lamp) for _ in range(50)] + [seen(scene) for _ in range(50)]
    masks = followed(OnlineBackgroundModel(frame_rate=10, forgetting=60), frames)
    share = (masks > 0).mean(axis=(1, 2))
    assert share[50] > 0.3 and share[70:100].max() < 0.02 and share[120:].max() < 0.02


@pytest.mark.slow
def test_the_forgetting_time_decides_when_what_stays_is_scene(rng):
    scene, seen = room(rng, 300)
    box = scene.copy()
    box[10:30, 10:30] = 255 - box[10:30, 10:30]
    frames = [seen(scene) for _ in range(100)] + [seen(box) for _ in range(200)]
    taken = {}
    for forgetting in (5.0, 20.0):
        masks = followed(OnlineBackgroundModel(frame_rate=10, forgetting=forgetting), frames)
        marked = (masks[100:, 14:26, 14:26] > 0).mean(axis=(1, 2)) > 0.5
        assert marked[0]
        taken[forgetting] = int(marked.sum())
    # .7 of the time, where the weights are steady
    assert 25 < taken[5.0] < 45 and taken[20.0] > 2 * taken[5.0]


@pytest.mark.parametrize("leaves", [True, False])
def test_what_was_there_and_leaves_is_forgotten_and_what_comes_is_not(leaves, rng):
    scene, seen = room(rng, 0, shape=(96, 128, 3))
    scene[:] = np.linspace(120, 160, 128)[:, None]
    thing = scene.copy()
    thing[30:70, 50:80] = 40
    first, later = (thing, scene) if leaves else (scene, thing)
    frames = [seen(first) for _ in range(50)] + [seen(later) for _ in range(30)]
    model = OnlineBackgroundModel(frame_rate=10)
    masks = followed(model, frames)
    assert masks[51, 32:68, 52:78].all()  # what changes is seen at first
    assert masks[-1].any() != leaves
    assert (np.abs(model.background_ - scene) > 6).mean() < 0.02


def test_the_background_is_that_of_the_frame_s_light(rng):
    scene, seen = room(rng, 60)
    model = OnlineBackgroundModel(frame_rate=10)
    for frame in [seen(scene) for _ in range(60)] + [seen(scene * 0.7)]:
        model.partial_fit(frame)
    assert model.gain_ == pytest.approx(0.7, abs=0.02)
    assert np.abs(model.background_ - scene * 0.7).mean() < 1.5


def test_grey_frames_other_kinds_and_one_buffer_for_all(street):
    grey = np.ascontiguousarray(street.frames[:40, ..., 1])
    masks = followed(OnlineBackgroundModel(frame_rate=10), grey)
    np.testing.assert_array_equal(followed(OnlineBackgroundModel(frame_rate=10), grey / 255), masks)

    def reused():
        buffer = np.empty_like(grey[0])
        for frame in grey:
            buffer[:] = frame
            yield buffer

    np.testing.assert_array_equal(followed(OnlineBackgroundModel(frame_rate=10), reused()), masks)


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grey", [False, True])
@pytest.mark.slow
def test_it_goes_on_from_a_file_as_if_nothing_had_been(street, tmp_path, grey):
    frames = np.ascontiguousarray(street.frames[..., 0]) if grey else street.frames
    whole = OnlineBackgroundModel(frame_rate=10, forgetting=9, threshold=2.5)
    expected = followed(whole, frames)
    part = OnlineBackgroundModel(frame_rate=10, forgetting=9, threshold=2.5)
    followed(part, frames[:70])
    part.save(tmp_path / "at.npz")
    again = OnlineBackgroundModel.load(tmp_path / "at.npz")
    assert again.get_params() == part.get_params() and again.n_frames_seen_ == 70
    found = [(part.index, part.mask) for part in again.follow(frames[70:])]
    assert [index for index, _ in found] == list(range(70, 150))
    np.testing.assert_array_equal([mask for _, mask in found], expected[70:])
    again.save(tmp_path / "end.npz")
    whole.save(tmp_path / "whole.npz")
    assert (tmp_path / "end.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_files_that_are_none(street, tmp_path):
    model = OnlineBackgroundModel(frame_rate=10)
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "at.npz")
    followed(model, street.frames[:30])
    model.save(tmp_path / "at.npz")
    rewrite(tmp_path / "at.npz", lambda state, arrays: arrays["_support"].__setitem__((0, 0), np.nan))
    with pytest.raises(UnreadableError, match="_support must be finite"):
        OnlineBackgroundModel.load(tmp_path / "at.npz")
    BackgroundModel().fit(street.frames[:5]).save(tmp_path / "batch.npz")
    with pytest.raises(UnreadableError):
        OnlineBackgroundModel.load(tmp_path / "batch.npz")


# --- what is refused --------------------------------------------------------------------------------------------------


def test_frames_that_are_refused(street):
    model = OnlineBackgroundModel(frame_rate=10)
    model.partial_fit(street.frames[0], 3.0)
    with pytest.raises(ParameterError, match="later than that of the frame before"):
        model.partial_fit(street.frames[1], 3.0)
    with pytest.raises(ParameterError, match="must have the shape of the first"):
        model.partial_fit(street.frames[1, :50])
    model.partial_fit(street.frames[1])
    assert model.time_ == pytest.approx(3.1)


def test_each_call_is_checked():
    frame = np.full((12, 16), 90, np.uint8)
    model = OnlineBackgroundModel(warm_up=0).partial_fit(frame, time=1)
    with pytest.raises(ParameterError, match=r"time must be a number, later than .* 1; got 'a'"):
        model.partial_fit(frame, time="a")
    model.set_params(forgetting=-1)
    with pytest.raises(ParameterError, match="forgetting must be"):
        model.partial_fit(frame)
    assert model.n_frames_seen_ == 1
