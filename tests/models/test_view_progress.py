"""Progress of MultiviewNMF: what is printed, who is called, and how the stages count."""

import numpy as np
import pytest

from visionnmf import MultiviewNMF

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Uncopyable:
    """A callback that cannot be copied, as the method of an object with a lock cannot be."""

    def __init__(self):
        self.seen = []

    def __call__(self, iteration, objective):
        self.seen.append((iteration, objective))

    def __deepcopy__(self, memo):
        raise TypeError("not to be copied")


@pytest.fixture
def views(rng):
    codes = rng.gamma(1, size=(40, 3))
    return {"sounds": codes @ rng.random((3, 8)), "images": codes @ rng.random((3, 10))}


def test_the_callback_counts_the_iterations_of_both_steps(views):
    called = Uncopyable()
    model = MultiviewNMF(3, max_iter=20, tol=0, random_state=0, callback=called).fit(views)
    assert [iteration for iteration, _ in called.seen] == list(range(1, 26))  # the second step has a quarter of them
    assert model.n_iter_ == 25
    np.testing.assert_allclose([objective for _, objective in called.seen[20:]], model.objective_history_[:-1])
    silent = MultiviewNMF(3, max_iter=20, tol=0, random_state=0).fit(views)
    np.testing.assert_array_equal(silent.components_, model.components_)


def test_a_callback_ends_each_step(views):
    model = MultiviewNMF(3, max_iter=20, tol=0, random_state=0, callback=lambda iteration, _: iteration >= 5).fit(views)
    assert model.n_iter_ == 6  # the second step has begun when it is called again
    model = MultiviewNMF(3, max_iter=20, tol=0, random_state=0, callback=lambda iteration, _: iteration == 5).fit(views)
    assert model.n_iter_ == 20


def test_verbose_prints_both_steps_and_no_other_fit(views, capsys):
    MultiviewNMF(3, max_iter=20, tol=0, random_state=0, verbose=1).fit(views)
    lines = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    second = "second step, in which views may stop using components"
    assert lines == ["iteration 10", "iteration 20", second, "iteration 25"]
    MultiviewNMF(3, max_iter=4, tol=0, random_state=0, group_l1=0, verbose=1).fit(views)
    assert "second" not in capsys.readouterr().out  # there is none


def test_the_iterations_are_reported_up_to_their_total(views):
    told = []
    MultiviewNMF(3, max_iter=8, tol=0, n_init=2, random_state=0).fit(views, progress=lambda *step: told.append(step))
    # two starts of eight iterations, and a quarter of eight
    assert told == [("finding the components", done, 18) for done in range(1, 19)]
