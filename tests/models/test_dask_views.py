"""Fits of views in Dask arrays equal those of the same views in memory."""

import numpy as np
import pytest
import scipy.sparse as sp

from visionnmf import MultiviewNMF
from visionnmf.exceptions import ParameterError
from visionnmf.models.multiview import dask_views

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

da = pytest.importorskip("dask.array")

RNG = np.random.default_rng(0)
CODES = RNG.gamma(0.5, size=(160, 4))
VIEWS = {
    "sound": CODES[:, :3] @ RNG.gamma(0.5, size=(3, 30)) + 0.05 * RNG.random((160, 30)),
    "image": 20 * CODES[:, 1:] @ RNG.gamma(0.5, size=(3, 45)) + RNG.random((160, 45)),
}
SEEN = RNG.random((160, 2)) < 0.8
SEEN[:, 0] |= ~SEEN[:, 1]


def in_blocks(views, rows=50):
    return {name: da.from_array(view, chunks=(rows, 20)) for name, view in views.items()}


def both(memory, blocked, **parameters):
    options = {"random_state": 0, "max_iter": 60, "tol": 0, **parameters}
    return MultiviewNMF(4, **options).fit(*memory), MultiviewNMF(4, **options).fit(*blocked)


def assert_same(memory, blocked, rtol=1e-6):
    np.testing.assert_allclose(blocked.components_, memory.components_, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(blocked.codes_covariance_, memory.codes_covariance_, rtol=1e-4, atol=1e-6)
    for name in ("view_scales_", "view_noise_", "view_errors_"):
        np.testing.assert_allclose(getattr(blocked, name), getattr(memory, name), rtol=1e-5, err_msg=name)
    assert blocked.views_.tolist() == memory.views_.tolist() and blocked.n_iter_ == memory.n_iter_
    np.testing.assert_allclose(blocked.view_usage_, memory.view_usage_, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loss", ["manhattan", "frobenius"])
def test_views_in_blocks_equal_the_views_in_memory(loss):
    memory, blocked = both([VIEWS], [in_blocks(VIEWS)], loss=loss)
    assert_same(memory, blocked)
    lazy = blocked.transform(in_blocks(VIEWS))
    assert isinstance(lazy, da.Array) and lazy.numblocks == (4, 1)
    np.testing.assert_allclose(lazy.compute(), memory.transform(VIEWS), rtol=1e-4, atol=1e-5)
    restored = blocked.inverse_transform(lazy)
    assert list(restored) == ["sound", "image"]
    expected = memory.inverse_transform(memory.transform(VIEWS))
    for name, view in restored.items():
        np.testing.assert_allclose(view.compute(), expected[name], rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_missing_views_in_blocks_equal_those_in_memory():
    memory, blocked = both([VIEWS, None, SEEN], [in_blocks(VIEWS), None, SEEN])
    assert_same(memory, blocked)
    codes = blocked.transform(in_blocks(VIEWS), da.from_array(SEEN, chunks=(30, 2)))
    np.testing.assert_allclose(codes.compute(), memory.transform(VIEWS, SEEN), rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_missing_entries_a_list_of_views_and_a_matrix_with_groups():
    gaps = {name: np.where(RNG.random(view.shape) < 0.1, np.nan, view) for name, view in VIEWS.items()}
    memory, blocked = both([list(gaps.values())], [list(in_blocks(gaps).values())], missing_values=np.nan)
    assert_same(memory, blocked)
    matrix, groups = np.hstack([*VIEWS.values()]), [0] * 30 + [1] * 45
    memory, blocked = both([matrix], [da.from_array(matrix, chunks=(70, 40))], groups=groups)
    assert_same(memory, blocked)
    codes = blocked.fit_transform(da.from_array(matrix, chunks=(70, 40)))
    np.testing.assert_allclose(codes.compute(), memory.transform(matrix), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_a_view_that_is_missing_for_all_new_samples_is_predicted_as_in_memory():
    memory, blocked = both([VIEWS], [in_blocks(VIEWS)])
    expected = memory.transform({"sound": VIEWS["sound"]})
    for new in ({"sound": in_blocks(VIEWS)["sound"]}, {**in_blocks(VIEWS), "image": None}):
        np.testing.assert_allclose(blocked.transform(new).compute(), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_single_precision_and_views_of_numpy_beside_dask():
    views = {name: view.astype(np.float32) for name, view in VIEWS.items()}
    model = MultiviewNMF(3, random_state=0, max_iter=10).fit({**in_blocks(views), "image": views["image"]})
    assert model.components_.dtype == np.float32 and model.transform(in_blocks(views)).dtype == np.float32


@pytest.mark.filterwarnings("ignore")
def test_of_many_samples_some_judge_the_views_and_all_give_the_components(monkeypatch):
    monkeypatch.setattr(dask_views, "SAMPLE", 60)
    memory, blocked = both([VIEWS], [in_blocks(VIEWS)], scale="none")
    np.testing.assert_allclose(blocked.components_, memory.components_, rtol=1e-6, atol=1e-6)
    assert (blocked.view_errors_ != memory.view_errors_).all()


@pytest.mark.parametrize(
    ("views", "arguments", "parameters", "message"),
    [
        ({}, {}, {"group_bound": 0.5}, "group_bound must be None"),
        ({"image": VIEWS["image"][:50]}, {}, {}, "same number of samples"),
        ({"image": sp.csr_array(VIEWS["image"])}, {}, {}, "dense arrays with two axes"),
        ({}, {"observed": SEEN.astype(int)}, {}, "True or False for each sample"),
    ],
)
def test_what_views_in_blocks_cannot_be_is_refused_in_one_line(views, arguments, parameters, message):
    with pytest.raises(ParameterError, match=message) as caught:
        MultiviewNMF(2, **parameters).fit({**in_blocks(VIEWS), **views}, **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore")
def test_new_views_in_blocks_of_another_width_are_refused_before_they_are_read():
    model = MultiviewNMF(2, random_state=0, max_iter=5).fit(in_blocks(VIEWS))
    with pytest.raises(ParameterError, match="view sound must have 30 features"):
        model.transform({"sound": in_blocks(VIEWS)["image"]})
