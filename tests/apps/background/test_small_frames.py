"""Frames that are enlarged before they are looked at, because they are small."""

import numpy as np
import pytest
from background_settings import f_measure, masks_of, tuned
from model_files import rewrite

from visionnmf.apps.background import BackgroundModel, OnlineBackgroundModel
from visionnmf.apps.background.frame_arrays import enlarged, enlargement, reduced, reduced_mask
from visionnmf.datasets import make_surveillance
from visionnmf.exceptions import UnreadableError


@pytest.mark.parametrize(
    ("shape", "times"),
    [((120, 160), 1), ((144, 144, 3), 1), ((119, 160), 2), ((60, 80, 3), 3), ((24, 32), 8), ((1, 1), 208)],
)
def test_only_small_frames_are_enlarged_to_about_one_size(shape, times):
    assert enlargement(shape) == times


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_what_was_enlarged_is_reduced_to_what_it_was(shape, dtype, rng):
    picture = (255 * rng.random(shape)).astype(dtype)
    large = enlarged(picture, 3)
    assert large.shape == (15, 21, *shape[2:])
    np.testing.assert_allclose(reduced(large, 3), picture, rtol=1e-6)
    assert reduced(large, 3).dtype == dtype


def test_a_pixel_is_foreground_if_half_of_it_is():
    large = np.zeros((4, 6), np.uint8)
    large[:2, 0], large[2:, 2], large[3, 3] = 255, 255, 255  # two of four pixels, two, one
    np.testing.assert_array_equal(reduced_mask(large, 2), [[255, 0, 0], [0, 255, 0]])


def test_a_small_still_scene_is_its_background_to_the_grey_level(rng):
    scene = rng.integers(40, 200, (20, 30, 3), dtype=np.uint8)
    model = BackgroundModel().fit([scene] * 10)
    np.testing.assert_array_equal(model.background_, scene)
    part = next(model.apply([scene]))
    np.testing.assert_array_equal(part.background, scene)
    assert not part.mask.any()


def test_files_keep_whether_frames_were_enlarged(monkeypatch, tmp_path):
    """A file from before small frames were enlarged masks as it did."""
    frames = make_surveillance(20, 40, 50, random_state=0).frames
    new = BackgroundModel().fit(frames)
    tuned(monkeypatch, "small_frames", small=0)
    old = BackgroundModel().fit(frames)
    monkeypatch.undo()
    before = masks_of(old, frames), masks_of(new, frames)
    assert (before[0] != before[1]).any()
    for model, expected in zip((old, new), before, strict=True):
        model.save(tmp_path / "model.npz", force=True)
        np.testing.assert_array_equal(masks_of(BackgroundModel.load(tmp_path / "model.npz"), frames), expected)


def test_a_file_whose_noise_is_of_other_frames_is_refused(tmp_path):
    path = tmp_path / "model.npz"
    BackgroundModel().fit(make_surveillance(5, 40, 50, random_state=0).frames).save(path)

    def spoil(state, arrays):
        state["object"][2]["frame_shape_"] = {"tuple": [50, 40, 3]}  # as many pixels

    with pytest.raises(UnreadableError, match="a whole number of times as high and wide"):
        BackgroundModel.load(rewrite(path, spoil))


@pytest.mark.parametrize("kind", ["learnt", "from the batch model", "from a file"])
def test_live_masks_of_small_frames(kind, tmp_path):
    clip = make_surveillance(120, 60, 80, random_state=5)
    model = OnlineBackgroundModel(frame_rate=10)
    if kind == "from the batch model":
        batch = BackgroundModel().fit(clip.frames)
        model.start_from(batch.background_, batch.noise_scale_, np.full((60, 80), 20.0))
    parts = list(model.follow(clip.frames[:60]))
    if kind == "from a file":
        model.save(tmp_path / "live.npz")
        model = OnlineBackgroundModel.load(tmp_path / "live.npz")
    assert model.frame_shape_ == (60, 80, 3)
    parts += model.follow(clip.frames[60:])
    assert parts[-1].background.shape == (60, 80, 3)
    assert f_measure([part.mask for part in parts], clip.masks) > 0.9


@pytest.mark.parametrize("shape", [(1, 1), (1, 30), (30, 1, 3), (7, 5, 3)])
def test_frames_of_one_row_or_column(shape, rng):
    frames = rng.integers(0, 256, (6, *shape), dtype=np.uint8)
    for model in (BackgroundModel().fit(list(frames)), OnlineBackgroundModel(warm_up=0.1).fit(list(frames))):
        assert model.background_.shape == shape
    parts = list(BackgroundModel().fit(list(frames)).apply(list(frames)))
    assert [part.mask.shape for part in parts] == [shape[:2]] * 6


@pytest.mark.parametrize("weight", [20.0, np.array(20.0), np.full((1, 80), 20), [[20.0] * 80] * 60])
def test_a_weight_of_any_form_starts_a_live_model(weight):
    clip = make_surveillance(30, 60, 80, random_state=5)
    model = OnlineBackgroundModel(frame_rate=10).start_from(clip.background, np.full((60, 80), 5.0), weight)
    assert f_measure([part.mask for part in model.follow(clip.frames)], clip.masks) > 0.8


def test_the_memory_of_learning_is_bounded_for_small_frames(monkeypatch):
    tuned(monkeypatch, "sample", max_bytes=4 * 240 * 180 * 20)  # for twenty frames once they are enlarged
    model = BackgroundModel(n_frames=500).fit(np.zeros((200, 30, 40, 3), np.uint8))
    assert 10 <= len(model.learnt_frames_) <= 20
