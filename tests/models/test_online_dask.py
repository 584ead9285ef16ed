"""OnlineNMF on Dask arrays and memory maps learns what it learns from the same array in memory."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from visionnmf import OnlineNMF, Penalty
from visionnmf.exceptions import ParameterError
from visionnmf.models import batches

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

da = pytest.importorskip("dask.array")

RNG = np.random.default_rng(0)
CLEAN = 0.1 + RNG.gamma(0.5, size=(170, 4)) @ RNG.gamma(0.5, size=(4, 24))
X = np.where(RNG.random(CLEAN.shape) < 0.1, CLEAN.max(), CLEAN)
WEIGHTS = RNG.uniform(0.5, 1.0, X.shape)
GAPS = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
GAPS[60:70] = np.nan  # a batch without any observed entry
SAMPLES = RNG.integers(0, 3, len(X)).astype(float)
SAMPLES[40:80] = 0  # a block of which no sample is learnt


def in_blocks(array, rows=40):
    return da.from_array(array, chunks=(rows, *array.shape[1:]))


def online(**options):
    """A model whose batches of 10 samples cross blocks of 33 or 40 rows, and whose start needs parts of two blocks."""
    return OnlineNMF(4, **{"batch_size": 10, "init": "random", "random_state": 0, "max_iter": 3, **options})


def assert_same(one, other):
    np.testing.assert_array_equal(one.components_, other.components_)
    np.testing.assert_array_equal(one.objective_history_, other.objective_history_)
    for name, value in one.state_.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(other.state_[name], value)
    for name in ("n_samples_seen_", "n_steps_", "n_iter_", "chunk_loss_", "n_features_in_"):
        assert getattr(one, name) == getattr(other, name)


CASES = {
    "manhattan": {},
    "surrogate": {"method": "surrogate"},
    "or-nmf": {"method": "or-nmf", "buffer": 3},  # whose steps depend on the number of batches
    "whole blocks": {"batch_size": 40},
    "large batches": {"batch_size": 100},
    "batch start": {"init": "batch"},
    "weights": {"fit": {"weights": WEIGHTS}},
    "weights of Dask": {"fit": {"weights": WEIGHTS}, "blocked": {"weights": da.from_array(WEIGHTS, chunks=(50, 11))}},
    "weights of features": {"fit": {"weights": WEIGHTS[0]}},
    "samples": {"fit": {"sample_weight": SAMPLES}},
    "samples of Dask": {"fit": {"sample_weight": SAMPLES}, "blocked": {"sample_weight": in_blocks(SAMPLES, 25)}},
    "missing": {"data": GAPS, "missing_values": np.nan},
    "single precision": {"data": X.astype(np.float32)},
    "whole numbers": {"data": (X * 20).astype(np.uint8)},
    "penalties": {"penalty_W": Penalty(l1=0.05), "penalty_H": Penalty(l2=0.1)},
}


@pytest.mark.parametrize("case", CASES)
def test_blocks_in_order_equal_the_array_in_memory(case):
    options = dict(CASES[case])
    data, fit = options.pop("data", X), options.pop("fit", {})
    blocked = options.pop("blocked", fit)
    model = online(shuffle=False, **options)
    expected = clone(model).fit(data, **fit)
    assert_same(clone(model).fit(in_blocks(data), **blocked), expected)
    assert_same(clone(model).fit(da.from_array(data, chunks=(33, 7)), **blocked), expected)
    expected, found = clone(model), clone(model)
    for rows in (slice(0, 90), slice(90, None)):
        parts = [{name: _part(value, rows) for name, value in given.items()} for given in (fit, blocked)]
        expected.partial_fit(data[rows], **parts[0])
        found.partial_fit(in_blocks(data[rows]), **parts[1])
    assert_same(found, expected)


@pytest.mark.parametrize("method", ["manhattan", "surrogate"])
def test_sparse_blocks_equal_the_sparse_array_in_memory(method):
    sparse = sp.csr_array(np.where(X < np.median(X), 0, X))
    blocked = in_blocks(sparse.toarray()).map_blocks(sp.csr_array, meta=sp.csr_array((0, 0)))
    model = online(method=method, shuffle=False)
    found, expected = (clone(model).fit(data, sample_weight=SAMPLES) for data in (blocked, sparse))
    assert_same(found, expected)
    assert_same(found.partial_fit(blocked), expected.partial_fit(sparse))
    np.testing.assert_array_equal(found.transform(blocked).compute(), expected.transform(sparse))
    with pytest.raises(TypeError, match="Sparse data"):
        online(method="or-nmf").fit(blocked)


def _part(values, rows):
    """The weights of some rows; those of the features are the same for all rows."""
    return values if values.shape == X.shape[1:] else values[rows]


def test_one_block_is_shuffled_as_an_array_and_many_are_learnt_as_well():
    model = online(max_iter=2)
    whole, single = clone(model).fit(X), clone(model).fit(in_blocks(X, 170))
    assert single.n_samples_seen_ == whole.n_samples_seen_ == 340
    several = [OnlineNMF(4, random_state=seed, max_iter=20, batch_size=32).fit(in_blocks(X)) for seed in (0, 0, 1)]
    assert_same(*several[:2])
    assert (several[0].components_ != several[2].components_).any()
    expected = OnlineNMF(4, random_state=0, max_iter=20, batch_size=32).fit(X)
    assert several[0].chunk_loss_ == pytest.approx(expected.chunk_loss_, rel=0.1)


def test_a_shuffled_pass_takes_each_sample_once_and_the_blocks_one_after_the_other():
    samples = batches.BlockSamples(online(), in_blocks(X), None, reset=True)
    kept = np.flatnonzero(RNG.random(170) < 0.7)
    orders = [samples.order(kept, np.random.RandomState(seed)) for seed in (0, 1)]
    assert (np.sort(orders[0]) == kept).all() and (orders[0] != orders[1]).any()
    block_of = orders[0] // 40
    assert np.count_nonzero(np.diff(block_of)) == 4 and (np.diff(block_of) < 0).any()
    assert not (np.diff(orders[0][block_of == block_of[0]]) > 0).all()


def test_one_block_is_read_ahead_and_none_is_kept():
    """The rows of each block are made when it is read, and counted."""
    log, lock = [], threading.Lock()

    def make(block, block_info=None):
        with lock:
            log.append(block_info[0]["chunk-location"][0])
        return block

    data = in_blocks(X, 17).map_blocks(make, dtype=X.dtype)
    samples = batches.BlockSamples(online(), data, None, reset=True)
    held = []
    for batch in samples.read(np.arange(170), [(i, i + 17) for i in range(0, 170, 17)]):
        held.append(sorted(samples._held))
        np.testing.assert_array_equal(batch[0], X[17 * (len(held) - 1) : 17 * len(held)])
    assert held == [[i, i + 1] for i in range(9)] + [[9]]
    assert log == list(range(10))
    log.clear()
    online(method="manhattan", shuffle=False, max_iter=2).fit(data)
    # the start takes 16 samples of the first block, which is not read again for the first pass
    assert log == [*range(10), *range(10)]


def test_codes_are_computed_when_they_are_needed():
    model = online()
    codes = model.fit_transform(in_blocks(X))
    assert isinstance(codes, da.Array) and codes.chunks == ((40, 40, 40, 40, 10), (4,))
    np.testing.assert_array_equal(codes.compute(), model.transform(X))
    lazy = model.transform(in_blocks(X), weights=WEIGHTS)
    np.testing.assert_array_equal(lazy.compute(), model.transform(X, weights=WEIGHTS))
    rebuilt = model.inverse_transform(codes)
    assert isinstance(rebuilt, da.Array)
    np.testing.assert_allclose(rebuilt.compute(), model.inverse_transform(model.transform(X)))


@pytest.mark.parametrize(
    ("change", "message"), [(np.nan, "must not hold NaN"), (-1.0, "[Nn]egative"), (np.inf, "infinity")]
)
@pytest.mark.parametrize("begun", [False, True])
def test_a_bad_block_leaves_the_model_as_it_was(change, message, begun, tmp_path):
    bad = X.copy()
    bad[150, 3] = change
    np.save(tmp_path / "bad.npy", bad)
    for data in (in_blocks(bad), np.load(tmp_path / "bad.npy", mmap_mode="r")):
        model = online().partial_fit(X) if begun else online()
        with pytest.raises(ValueError, match=message):
            model.partial_fit(data)
        if begun:
            assert_same(model, online().partial_fit(X))
            assert_same(model.partial_fit(X), online().partial_fit(X).partial_fit(X))
        else:
            assert not [name for name in vars(model) if name.endswith("_")]
        with pytest.raises(ValueError, match=message):
            online().fit(data)


def test_what_is_refused_or_cannot_be_read_says_why():
    model = online().partial_fit(X)
    with pytest.raises(ValueError, match="23 features"):
        model.partial_fit(in_blocks(X)[:, :23])
    with pytest.raises(ParameterError, match="compute_chunk_sizes"):
        online().fit(in_blocks(X)[in_blocks(X)[:, 0] > 0])
    with pytest.raises(ParameterError, match="two dimensions"):
        online().fit(in_blocks(X)[0])
    with pytest.raises(ParameterError, match="weights must have the shape of X"):
        online().fit(in_blocks(X), weights=np.ones(7))
    with pytest.raises(ParameterError, match="sample_weight must"):
        online().fit(in_blocks(X), sample_weight=in_blocks(SAMPLES)[1:])
    with pytest.raises(ParameterError, match="no observed entry"):
        online(missing_values=np.nan).fit(in_blocks(np.full(X.shape, np.nan)))

    def fail(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 3:
            raise OSError("the disk is gone")
        return block

    model = online().partial_fit(X)
    with pytest.raises(OSError, match="the disk is gone"):
        model.partial_fit(in_blocks(X).map_blocks(fail, dtype=X.dtype))
    assert_same(model, online().partial_fit(X))
