"""Fits on the workers of a Dask cluster equal those of one process, also if a worker is killed."""

import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp

from visionnmf import NMF, MultiviewNMF, OnlineNMF

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = [  # closing sockets of a killed worker warn
    *(pytest.mark.slow, pytest.mark.long),
    pytest.mark.filterwarnings("ignore"),
]

RNG = np.random.default_rng(0)
X = RNG.gamma(0.5, size=(400, 4)) @ RNG.gamma(0.5, size=(4, 80)) + 0.05 * RNG.random((400, 80))
X = np.where(RNG.random(X.shape) < 0.1, X.max(), X)


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def rows():
    return da.from_array(X, chunks=(60, 80))


def fitted(rows, **options):
    model = NMF(4, random_state=0, max_iter=40, tol=0, **options)
    return model, model.fit_transform(rows)


def test_sparse_blocks_on_two_workers_equal_those_of_one_process(client, rows):
    import dask

    blocks = rows.map_blocks(sp.csr_matrix)
    model, codes = fitted(blocks, loss="frobenius")
    with dask.config.set(scheduler="threads"):
        here, codes_here = fitted(blocks, loss="frobenius")
        codes_here = codes_here.compute()
    np.testing.assert_allclose(model.components_, here.components_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(codes.compute(), codes_here, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("loss", ["manhattan", "frobenius"])
def test_a_worker_killed_in_mid_fit_changes_nothing(client, rows, loss):
    killed = []

    def kill(iteration, objective):
        if iteration == 20 and not killed:
            killed.extend(list(client.run(os.getpid).values())[:1])
            os.kill(killed[0], signal.SIGKILL)

    memory = NMF(4, loss=loss, random_state=0, max_iter=40, tol=0).fit(X)
    model, codes = fitted(rows, loss=loss, callback=kill)
    assert killed
    np.testing.assert_allclose(model.components_, memory.components_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(codes.compute(), memory.transform(X), rtol=1e-7, atol=1e-8)


def test_bad_data_on_a_worker_are_refused_in_one_line(client):
    bad = X.copy()
    bad[300, 3] = -1
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        NMF(2).fit(da.from_array(bad, chunks=(60, 80)))


def test_views_on_two_workers_equal_those_of_one_process(client, rows):
    views = {"first": rows[:, :30], "second": rows[:, 30:]}
    memory = MultiviewNMF(3, random_state=0, max_iter=40, tol=0).fit({"first": X[:, :30], "second": X[:, 30:]})
    model = MultiviewNMF(3, random_state=0, max_iter=40, tol=0).fit(views)
    np.testing.assert_allclose(model.components_, memory.components_, rtol=1e-6, atol=1e-8)
    expected = memory.transform({"first": X[:, :30], "second": X[:, 30:]})
    np.testing.assert_allclose(model.transform(views).compute(), expected, rtol=1e-5, atol=1e-6)


def test_online_learning_reads_blocks_on_workers(client):
    seen = da.from_array(X, chunks=(60, 30)).map_blocks(_on_a_worker, dtype=X.dtype)
    found, memory = (OnlineNMF(4, shuffle=False, max_iter=2, random_state=0, batch_size=50).fit(A) for A in (seen, X))
    np.testing.assert_array_equal(found.components_, memory.components_)
    np.testing.assert_array_equal(found.transform(seen).compute(), memory.transform(X))


def _on_a_worker(block):
    distributed.get_worker()  # raises an error elsewhere
    return block
