"""Fits of Dask arrays in blocks of rows equal the fits of the same data in memory."""

import gc
import shutil
import tempfile

import numpy as np
import pytest
import scipy.sparse as sp

from visionnmf import NMF, Penalty
from visionnmf.engine.losses import LOSSES
from visionnmf.engine.solving import SOLVERS
from visionnmf.exceptions import ParameterError, TooLargeError

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

da = pytest.importorskip("dask.array")

RNG = np.random.default_rng(0)
CLEAN = RNG.gamma(0.5, size=(150, 4)) @ RNG.gamma(0.5, size=(4, 60)) + 0.05 * RNG.random((150, 60))
X = np.where(RNG.random(CLEAN.shape) < 0.1, CLEAN.max(), CLEAN)
WEIGHTS = RNG.uniform(0.5, 1.0, X.shape)
GAPS = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
SAMPLES = RNG.integers(0, 3, len(X)).astype(float)
ELSEWHERE = [name for name, entry in SOLVERS.items() if entry.elsewhere]
BLOCK_SOLVERS = {loss: [name for name in ELSEWHERE if loss in SOLVERS[name].losses] for loss in LOSSES}


def in_blocks(array, rows=40):
    return da.from_array(array, chunks=(rows, *array.shape[1:]))


def both(data, fit=None, blocked=None, **parameters):
    """The same fit in memory and in blocks: models and codes."""
    found = []
    for rows, arguments in ((data, fit or {}), (in_blocks(data), blocked or fit or {})):
        model = NMF(4, random_state=0, **{"max_iter": 60, "tol": 0, **parameters})
        codes = model.fit_transform(rows, **arguments)
        found += [model, codes]
    memory, codes, dask, lazy = found
    assert isinstance(lazy, da.Array)
    return memory, codes, dask, lazy.compute()


def assert_same(memory, codes, dask, codes_dask, rtol=1e-8):
    np.testing.assert_allclose(dask.components_, memory.components_, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(codes_dask, codes, rtol=rtol, atol=rtol * codes.max())
    np.testing.assert_allclose(dask.objective_history_, memory.objective_history_, rtol=rtol)
    assert dask.n_iter_ == memory.n_iter_ and dask.solver_ == memory.solver_
    np.testing.assert_allclose(dask.reconstruction_err_, memory.reconstruction_err_, rtol=rtol)
    assert dask.optimality_ == pytest.approx(memory.optimality_, rel=0.2, abs=1e-6)
    assert codes_dask.dtype == codes.dtype and dask.components_.dtype == memory.components_.dtype


@pytest.mark.parametrize("loss", [name for name in LOSSES if BLOCK_SOLVERS[name]])
def test_every_loss_in_blocks_equals_the_fit_in_memory(loss):
    assert_same(*both(X, loss=loss, solver=BLOCK_SOLVERS[loss][0]))


@pytest.mark.parametrize("loss", ["manhattan", "frobenius", "huber"])
@pytest.mark.parametrize(
    "options",
    [
        {"fit": {"weights": WEIGHTS}},
        {"fit": {"sample_weight": SAMPLES}},
        {"data": GAPS, "missing_values": np.nan},
        {"penalty_W": Penalty(l1=0.05, high=3.0), "penalty_H": Penalty(l2=0.1)},
        {"penalty_W": Penalty(l2=0.05), "penalty_H": Penalty(l2=0.1), "fit": {"sample_weight": SAMPLES}},
    ],
    ids=["weights", "sample weights", "missing", "penalties", "both"],
)
def test_weights_and_penalties_in_blocks_equal_the_fit_in_memory(loss, options):
    options = dict(options)
    data = options.pop("data", X)
    assert_same(*both(data, loss=loss, **options), rtol=1e-6)


def test_the_rule_stops_both_fits_at_the_same_iteration():
    memory, codes, dask, codes_dask = both(X, max_iter=400, tol=1e-3)
    assert memory.n_iter_ < 400
    assert_same(memory, codes, dask, codes_dask)


def test_given_factors_single_precision_and_features_in_chunks():
    W, H = RNG.random((150, 4)), RNG.random((4, 60))
    memory, codes, dask, codes_dask = both(X, fit={"W": W, "H": H}, blocked={"W": in_blocks(W, 70), "H": H})
    assert_same(memory, codes, dask, codes_dask)
    single = X.astype(np.float32)
    memory, dask = NMF(4, random_state=0).fit(single), NMF(4, random_state=0)
    dask.fit(da.from_array(single, chunks=(33, 25)))
    assert dask.components_.dtype == np.float32
    assert dask.reconstruction_err_ == pytest.approx(memory.reconstruction_err_, rel=1e-4)


def test_transform_is_lazy_and_equals_the_codes_of_the_fit():
    model = NMF(4, random_state=0, max_iter=30, tol=0)
    codes = model.fit_transform(in_blocks(X))
    lazy = model.transform(in_blocks(X, 25))
    assert isinstance(lazy, da.Array) and lazy.shape == (150, 4)
    np.testing.assert_array_equal(lazy.compute(), codes.compute())
    np.testing.assert_array_equal(model.transform(X), codes.compute())
    rebuilt = model.inverse_transform(codes)
    assert isinstance(rebuilt, da.Array)
    np.testing.assert_allclose(rebuilt.compute(), model.inverse_transform(codes.compute()))


def test_fixed_components_and_several_starts():
    H = NMF(4, random_state=0, max_iter=30, tol=0).fit(X).components_
    memory, codes, dask, codes_dask = both(X, components_init=H, update_components=False)
    assert_same(memory, codes, dask, codes_dask)
    assert_same(*both(X, n_init=2, max_iter=20))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "itakura-saito"}, "loss must be one of .*'manhattan'"),
        ({"solver": "rri"}, "solver must be able .*'admm'.* does not take data in blocks"),
        ({"init": "nndsvd"}, "init must be 'random' or 'custom' for a Dask array"),
        ({"penalty_W": Penalty(graph="knn", graph_weight=1)}, "penalty_W must be of box, l1, l2 and simplex"),
        ({"penalty_W": Penalty(high=[[1.0] * 3] * 2)}, "penalty_W must be of box.*; got high of each entry"),
        ({"penalty_H": Penalty(graph="knn", graph_weight=1)}, "graph of penalty_H must be a matrix"),
        ({"zero_weight": 0.5}, "zero_weight must be 1 for a Dask array"),
        ({"exact_codes": False}, "exact_codes must be True or None for a Dask array"),
    ],
)
def test_what_is_not_covered_is_refused_with_what_is(parameters, message):
    with pytest.raises(ParameterError, match=message) as error:
        NMF(2, **parameters).fit(in_blocks(X))
    assert "\n" not in str(error.value)


def test_bad_blocks_are_refused_as_in_memory():
    bad = X.copy()
    for bad[130, 3], message in ((np.nan, "NaN"), (-1.0, "[Nn]egative"), (np.inf, "infinity")):
        with pytest.raises(ValueError, match=message):
            NMF(2).fit(in_blocks(bad))
    with pytest.raises(ParameterError, match="at least one sample"):
        NMF(2).fit(in_blocks(X)[:0])
    with pytest.raises(ParameterError, match="compute_chunk_sizes"):
        NMF(2).fit(in_blocks(X)[in_blocks(X)[:, 0] > 0])
    with pytest.raises(ValueError, match="Negative"):
        NMF(2, loss="frobenius").fit(in_blocks(-COUNTS).map_blocks(sp.csr_matrix))


COUNTS = np.where(RNG.random(X.shape) < 0.7, 0.0, X)


@pytest.mark.parametrize("kind", [sp.csr_matrix, pytest.param(sp.csr_array, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "options",
    [{}, {"fit": {"sample_weight": SAMPLES}}, {"penalty_W": Penalty(l1=0.05, high=3.0), "penalty_H": Penalty(l2=0.1)}],
    ids=["plain", "sample weights", "penalties"],
)
def test_sparse_blocks_reach_the_minimum_of_the_dense_fit_whatever_their_sizes(kind, options):
    options = {"loss": "frobenius", "max_iter": 300, "tol": 0, "random_state": 0, **options}
    arguments = options.pop("fit", {})
    memory = NMF(4, **options).fit(COUNTS, **arguments)
    found = [NMF(4, **options).fit(in_blocks(COUNTS, rows).map_blocks(kind), **arguments) for rows in (40, len(COUNTS))]
    for model in found:
        assert model.reconstruction_err_ == pytest.approx(memory.reconstruction_err_, rel=1e-6)
        assert model.optimality_ == pytest.approx(memory.optimality_, abs=1e-4)
        np.testing.assert_allclose(model.components_, memory.components_, atol=2e-3)
    np.testing.assert_allclose(found[0].components_, found[1].components_, rtol=1e-6, atol=1e-6)


def test_codes_of_sparse_blocks_are_those_of_the_fit_in_memory_and_keep_single_precision():
    model, blocks = NMF(4, loss="frobenius", random_state=0), in_blocks(COUNTS).map_blocks(sp.csr_matrix)
    codes = model.fit_transform(blocks)
    expected = model.transform(sp.csr_array(COUNTS))
    np.testing.assert_allclose(codes.compute(), expected, atol=1e-9)
    np.testing.assert_allclose(model.transform(blocks).compute(), expected, atol=1e-9)
    data = in_blocks(COUNTS.astype(np.float32)).map_blocks(sp.csr_matrix)
    model = NMF(3, loss="frobenius", random_state=0).fit(data)
    assert model.components_.dtype == np.float32 and model.transform(data).compute().dtype == np.float32


@pytest.mark.parametrize(
    ("parameters", "arguments", "message"),
    [
        ({"loss": "manhattan"}, {}, "does not take sparse X|takes? .*sparse"),
        ({"loss": "frobenius", "missing_values": 0}, {}, "missing_values must be None for sparse blocks"),
        ({"loss": "frobenius"}, {"weights": WEIGHTS}, "weights and missing_values must be None"),
    ],
)
def test_what_sparse_blocks_cannot_do_is_refused(parameters, arguments, message):
    with pytest.raises(ParameterError, match=message):
        NMF(2, **parameters).fit(in_blocks(COUNTS).map_blocks(sp.csr_matrix), **arguments)


@pytest.mark.parametrize("options", [{}, {"loss": "huber", "fit": {"weights": WEIGHTS}}, {"loss": "frobenius"}])
def test_blocks_that_do_not_fit_into_memory_go_to_files_and_give_the_same_result(monkeypatch, tmp_path, options):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    _, _, dask, codes_dask = both(X, **options)
    seen = []
    monkeypatch.setattr("visionnmf.models.blocks.ROOM", 0.0)
    filed, codes_filed = NMF(4, random_state=0, max_iter=60, tol=0, loss=options.get("loss", "manhattan")), None
    filed.callback = lambda iteration, objective: seen.append(len(list(tmp_path.iterdir()))) and False
    codes_filed = filed.fit_transform(in_blocks(X), **options.get("fit", {})).compute()
    assert min(seen) >= 4  # one of each block, and more of most kinds
    np.testing.assert_array_equal(filed.components_, dask.components_)
    np.testing.assert_array_equal(codes_filed, codes_dask)
    del filed.callback
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_too_large_blocks_and_a_full_disk_are_refused_with_a_cure(monkeypatch):
    monkeypatch.setattr("distributed.system.MEMORY_LIMIT", 3 * 40 * 60 * 8)
    with pytest.raises(TooLargeError, match=r"a block of 40 samples: .* smaller blocks by X.rechunk"):
        NMF(2).fit(in_blocks(X))
    monkeypatch.setattr("distributed.system.MEMORY_LIMIT", 5 * 40 * 60 * 8)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: shutil._ntuple_diskusage(1, 1, 0))
    with pytest.raises(TooLargeError, match="use OnlineNMF or a Dask cluster"):
        NMF(2).fit(in_blocks(X))
