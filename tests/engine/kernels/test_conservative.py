"""The kernel of conservative learning, against a loop over the paper's formulas."""

import naive
import numpy as np
import pytest
import scipy.sparse as sp

from visionnmf.engine.online import conservative


def state(rng, n_components, n_features, dtype=np.float64):
    """An encoder and components in the midst of learning, with dead components and unused features."""
    E = rng.standard_normal((n_components, n_features))
    H = np.maximum(0, rng.standard_normal((n_components, n_features)))
    H[-1] = 0
    H[:, 0] = 0
    return E.astype(dtype), H.astype(dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-10), (np.float32, 2e-4)])
@pytest.mark.parametrize("w", [1e-5, 0.3, 1.0, 50.0])
@pytest.mark.parametrize(("n_components", "n_features"), [(1, 1), (3, 7), (9, 4)])
def test_each_sample_is_the_papers_update(n_components, n_features, w, dtype, tolerance, rng):
    for E, H in (
        state(rng, n_components, n_features, dtype),
        conservative.start(n_components, n_features, np.random.RandomState(0), dtype),
    ):
        for _ in range(6):
            x = rng.gamma(1, 3, n_features) * (rng.random(n_features) < 0.7)
            x[0] += 0.1
            E_, D_, error = naive.conservative_step(E.astype(float), H.T.astype(float), x.astype(dtype), w)
            scale = np.abs(E_).max()
            (found,) = conservative.learn(x[None].astype(dtype), E, H, w)
            np.testing.assert_allclose(E, E_, rtol=tolerance, atol=tolerance * scale)
            np.testing.assert_allclose(H.T, D_, rtol=tolerance, atol=tolerance * np.abs(D_).max())
            assert found == pytest.approx(error, rel=tolerance, abs=tolerance)


def test_a_sample_of_zeros_one_that_is_known_and_one_without_a_code_change_nothing_they_should_not(rng):
    E, H = state(rng, 3, 5)
    before = E.copy(), H.copy()
    assert conservative.learn(np.zeros((2, 5)), E, H, 1.0).tolist() == [0, 0]
    np.testing.assert_array_equal((E, H), before)

    known = np.eye(3)  # each component is its own detector
    E, H = known.copy(), known.copy()
    assert conservative.learn(2 * known, E, H, 1.0).tolist() == [0, 0, 0]
    np.testing.assert_array_equal((E, H), (known, known))

    E, H = -known, np.zeros((3, 3))
    assert conservative.learn(known[:1], E, H, 1.0).tolist() == [1]
    np.testing.assert_array_equal(E[0], 0)  # the negative answer is put right
    assert not H.any()


def test_the_same_in_one_piece_in_many_and_sparse(rng):
    X = rng.random((40, 6)) * (rng.random((40, 6)) < 0.4)
    results = []
    for pieces in ([X], np.split(X, [1, 1, 17]), [sp.csr_array(X)], [np.asfortranarray(X)]):
        E, H = conservative.start(4, 6, np.random.RandomState(0), np.float64)
        errors = np.concatenate([conservative.learn(piece, E, H, 0.1) for piece in pieces])
        results.append((*E, *H, errors))
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
