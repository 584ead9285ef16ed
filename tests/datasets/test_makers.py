"""The makers: seeds, truth, ranges and refusals."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.ndimage import label

from visionnmf.datasets import (
    iter_surveillance,
    load_surveillance,
    make_corrupted_low_rank,
    make_mosaic,
    make_surveillance,
)
from visionnmf.exceptions import ParameterError
from visionnmf.io import VideoReader

CORRUPTIONS = ("none", "salt_and_pepper", "laplace", "gaussian", "occlusion", "poisson")
few = settings(max_examples=15, deadline=None, derandomize=True, database=None)


def small(corruption="salt_and_pepper", **options):
    return make_corrupted_low_rank(60, 70, 4, corruption=corruption, **{"random_state": 0, **options})


# --- what all makers share


@pytest.mark.parametrize(
    "make",
    [
        *(lambda seed, c=c: small(c, random_state=seed) for c in CORRUPTIONS),
        lambda seed: make_surveillance(8, 40, 50, random_state=seed),
        lambda seed: make_mosaic(40, 50, random_state=seed),
    ],
)
def test_a_seed_reproduces_bit_for_bit_and_another_does_not(make):
    first, again, other = (dataclasses.asdict(make(seed)) for seed in (3, 3, 4))
    for name, value in first.items():
        np.testing.assert_array_equal(value, again[name], err_msg=name)
    assert any(not np.array_equal(value, other[name]) for name, value in first.items() if value is not None)


def test_a_generator_serves_as_seed_and_moves_on():
    rng = np.random.default_rng(3)
    first, second = make_mosaic(20, 20, random_state=rng), make_mosaic(20, 20, random_state=rng)
    np.testing.assert_array_equal(first.image, make_mosaic(20, 20, random_state=3).image)
    assert not np.array_equal(first.image, second.image)


@pytest.mark.parametrize(
    ("make", "arguments", "sentence"),
    [
        (make_corrupted_low_rank, {"n_samples": 0}, "n_samples must be a whole number >= 1; got 0"),
        (make_corrupted_low_rank, {"n_features": 2.5}, "n_features must be a whole number >= 1; got 2.5"),
        (make_corrupted_low_rank, {"n_components": True}, "n_components must be a whole number >= 1; got True"),
        (make_corrupted_low_rank, {"corruption": "rain"}, "corruption must be one of \\['none', .*\\]; got 'rain'"),
        (make_corrupted_low_rank, {"amount": 1.1}, "amount must be a number from 0 to 1; got 1.1"),
        (make_corrupted_low_rank, {"corruption": "laplace", "amount": np.nan}, "amount must be .* got nan"),
        (make_corrupted_low_rank, {"corruption": "gaussian", "amount": -1}, "amount must be .* got -1"),
        (make_corrupted_low_rank, {"corruption": "occlusion", "amount": 0.5}, "amount must be a whole number .*; got"),
        (make_corrupted_low_rank, {"corruption": "poisson", "amount": 0}, "amount must be a number > 0 .*; got 0"),
        (make_corrupted_low_rank, {"dtype": np.int32}, "dtype must be float32 or float64; got int32"),
        (make_corrupted_low_rank, {"random_state": "seed"}, "random_state must be None, .*; got 'seed'"),
        (make_surveillance, {"n_frames": 0}, "n_frames must be a whole number >= 1; got 0"),
        (make_surveillance, {"height": -1}, "height must be .* got -1"),
        (make_surveillance, {"width": "9"}, "width must be .* got '9'"),
        (make_surveillance, {"n_objects": -1}, "n_objects must be a whole number >= 0; got -1"),
        (make_surveillance, {"noise": 2}, "noise must be .* got 2"),
        (make_surveillance, {"illumination": 0.6}, "illumination must be a number from 0 to 0.5; got 0.6"),
        (make_surveillance, {"random_state": -1}, "random_state must be None, .*; got -1"),
        (iter_surveillance, {"n_frames": 0}, "n_frames must be .* got 0"),
        (make_mosaic, {"height": 0}, "height must be .* got 0"),
        (make_mosaic, {"width": None}, "width must be .* got None"),
        (make_mosaic, {"height": 2, "width": 2, "n_segments": 5}, "n_segments must be a whole number from 1 to 4; got"),
        (make_mosaic, {"texture": -0.1}, "texture must be .* got -0.1"),
        (make_mosaic, {"noise": np.inf}, "noise must be .* got inf"),
    ],
)
def test_a_bad_argument_is_named_with_its_value(make, arguments, sentence):
    with pytest.raises(ParameterError, match=sentence):
        make(**arguments)


# --- the corrupted low-rank matrix


@pytest.mark.parametrize("corruption", CORRUPTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_low_rank_truth(corruption, dtype):
    data = small(corruption, dtype=dtype)
    assert {a.dtype for a in (data.X, data.clean, data.W, data.H)} == {np.dtype(dtype)}
    np.testing.assert_array_equal(data.clean, data.W @ data.H)
    assert np.linalg.matrix_rank(data.clean) == 4
    assert np.quantile(data.clean, 0.99) == pytest.approx(1, abs=1e-5)
    assert min(a.min() for a in (data.X, data.clean, data.W, data.H)) >= 0
    assert not np.shares_memory(data.X, data.clean)


def test_the_clean_matrix_does_not_depend_on_the_corruption_and_none_changes_nothing():
    first, *others = (small(c).clean for c in CORRUPTIONS)
    assert all(np.array_equal(first, other) for other in others)
    data = small("none")
    np.testing.assert_array_equal(data.X, data.clean)
    assert not data.mask.any()


def test_occlusion_covers_a_seventh_of_the_image_by_default_and_is_cut_to_a_flat_one():
    assert make_corrupted_low_rank(3, 1024, corruption="occlusion", random_state=0).mask.sum(1).tolist() == [144] * 3
    assert make_corrupted_low_rank(3, 476, corruption="occlusion", random_state=0).mask.sum(1).tolist() == [64] * 3
    flat = make_corrupted_low_rank(3, 13, corruption="occlusion", amount=99, random_state=0)
    assert flat.mask.all() and not flat.X.any()


@few
@given(sizes=st.tuples(*[st.integers(1, 6)] * 3), corruption=st.sampled_from(CORRUPTIONS))
def test_low_rank_at_any_size(sizes, corruption):
    data = make_corrupted_low_rank(*sizes, corruption=corruption, random_state=0)
    assert data.X.shape == data.clean.shape == sizes[:2]
    assert np.isfinite(data.X).all()
    assert data.X.min() >= 0


# --- the surveillance clip


@pytest.mark.parametrize("n_objects", [3, 15])  # many objects hide each other
def test_masks_are_where_the_objects_change_the_frame_and_nowhere_else(n_objects):
    seen = make_surveillance(60, 60, 80, n_objects=n_objects, noise=0, random_state=1)
    empty = make_surveillance(60, 60, 80, noise=0, n_objects=0, random_state=1)
    changed = (seen.frames != empty.frames).any(-1)
    assert not (changed & ~seen.masks).any()
    assert changed[seen.masks].mean() > 0.99  # an object may have the colour of what it hides, rarely
    assert 0.002 * n_objects < seen.masks.mean() < 0.05 * n_objects
    assert not empty.masks.any()


def test_noise_has_the_deviation_asked_for_whatever_the_objects():
    seen, empty = (make_surveillance(5, 30, 40, n_objects=n, random_state=1) for n in (3, 0))
    np.testing.assert_array_equal(seen.frames[~seen.masks], empty.frames[~seen.masks])
    noisy, clean = (make_surveillance(5, 60, 80, n_objects=0, noise=n, random_state=4).frames for n in (0.03, 0))
    assert (noisy.astype(float) - clean).std() == pytest.approx(0.03 * 255, rel=0.05)


def test_the_background_is_the_scene_in_mean_light_and_the_empty_clip_has_rank_two():
    still = make_surveillance(4, 60, 80, n_objects=0, noise=0, illumination=0, random_state=2)
    assert (still.frames == still.background).all()
    lit = make_surveillance(200, 60, 80, n_objects=0, noise=0, random_state=2)
    np.testing.assert_array_equal(lit.background, still.background)
    assert np.abs(lit.frames.mean(0) - lit.background).max() < 1
    clip = make_surveillance(40, 30, 40, n_objects=0, noise=0, random_state=3)
    u, s, vt = np.linalg.svd(clip.frames.reshape(40, -1).astype(float), full_matrices=False)
    errors = [np.abs((u[:, :r] * s[:r]) @ vt[:r] - clip.frames.reshape(40, -1)).max() for r in (1, 2)]
    assert errors[0] > 5  # grey levels
    assert errors[1] < 1  # rounding


@pytest.mark.parametrize("seed", range(4))
def test_objects_move_enter_leave_and_one_rests(seed):
    def centres(n_objects):
        masks = make_surveillance(400, 60, 80, n_objects=n_objects, random_state=seed).masks
        inside = masks[:, :, 1:-1].any((1, 2)) & ~masks[:, :, 0].any(1) & ~masks[:, :, -1].any(1)
        return masks.any((1, 2)), np.where(inside, masks.any(1).argmax(1), -1)

    visible, left = centres(1)
    assert 0.1 < visible.mean() < 0.95
    assert (np.diff(visible.astype(int)) == 1).sum() >= 2  # enters, and comes back
    runs = [len(list(run)) for place, run in itertools.groupby(left[:120]) if place >= 0]
    assert max(runs) >= 20
    assert max(runs) < 60, "a rest as long as half the clip would be background"
    assert len(runs) > 10


def test_streaming_gives_the_same_clip_and_the_same_background():
    clip = make_surveillance(10, 33, 41, random_state=5)
    frames, masks = zip(*iter_surveillance(10, 33, 41, random_state=5), strict=True)
    np.testing.assert_array_equal(clip.frames, frames)
    np.testing.assert_array_equal(clip.masks, masks)
    np.testing.assert_array_equal(clip.background, make_surveillance(1, 33, 41, random_state=5).background)


@pytest.mark.slow
def test_the_video_of_the_package_is_the_made_clip():
    made = make_surveillance(300, 240, 320, illumination=0.25, random_state=0)
    clip = load_surveillance()
    np.testing.assert_array_equal(clip.masks, made.masks)
    reader = VideoReader(clip.path)
    differences = [np.abs(frame - made.frames[i].astype(int)).mean() for i, frame in enumerate(reader)]
    assert len(differences) == 300 and max(differences) < 6 and reader.problem is None  # the sensor noise is lost
    assert reader.frame_rate == 10


@few
@given(height=st.integers(1, 30), width=st.integers(1, 30), n_objects=st.integers(0, 6), seed=st.integers(0, 9))
def test_surveillance_at_any_size(height, width, n_objects, seed):
    clip = make_surveillance(3, height, width, n_objects=n_objects, random_state=seed)
    assert clip.frames.shape == (3, height, width, 3)
    assert clip.background.shape == (height, width, 3)
    assert clip.masks.shape == (3, height, width)
    assert {clip.frames.dtype, clip.background.dtype} == {np.dtype(np.uint8)}
    assert clip.masks.dtype == bool


# --- the mosaic


def pieces(labels):
    return [label(labels == segment)[1] for segment in range(labels.max() + 1)]


@pytest.mark.parametrize("n_segments", [40, 200])  # so many that the warp tears some cells
def test_many_segments_are_one_piece_each(n_segments):
    assert pieces(make_mosaic(60, 60, n_segments=n_segments, random_state=0).labels) == [1] * n_segments


@pytest.mark.parametrize("seed", range(5))
def test_each_segment_is_one_piece_of_its_own_colour(seed):
    mosaic = make_mosaic(120, 160, n_segments=6, random_state=seed)
    assert mosaic.image.dtype == np.uint8
    assert mosaic.labels.dtype == np.int32
    assert pieces(mosaic.labels) == [1] * 6
    means = np.array([mosaic.image[mosaic.labels == segment].mean(0) for segment in range(6)])
    gaps = np.linalg.norm(means[:, None] - means[None], axis=2)[np.triu_indices(6, 1)]
    assert gaps.min() > 5


def test_mosaic_segments_do_not_depend_on_the_look_and_the_look_can_be_turned_off():
    rich = make_mosaic(60, 80, texture=1, random_state=1)
    flat = make_mosaic(60, 80, texture=0, noise=0, random_state=1)
    np.testing.assert_array_equal(rich.labels, flat.labels)
    for segment in range(5):
        inside = flat.labels == segment
        assert (flat.image[inside] == flat.image[inside][0]).all()
        assert rich.image[inside].std(0).min() > 5


@few
@given(height=st.integers(1, 20), width=st.integers(1, 20), share=st.floats(0, 1), seed=st.integers(0, 99))
def test_mosaic_at_any_size(height, width, share, seed):
    n_segments = max(1, int(share * height * width))
    mosaic = make_mosaic(height, width, n_segments=n_segments, random_state=seed)
    assert mosaic.image.shape == (height, width, 3)
    assert pieces(mosaic.labels) == [1] * n_segments
