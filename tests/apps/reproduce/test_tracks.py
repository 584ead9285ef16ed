"""Following methods, and the figures that the experiments of MahNMF and sBCD compute, on made data."""

import numpy as np
import pytest
from helpers import made_faces

from visionnmf.apps.reproduce import Sizes, mahnmf
from visionnmf.apps.reproduce.data import Photograph
from visionnmf.apps.reproduce.mahnmf import cluster_people, foreign_share
from visionnmf.apps.reproduce.mahnmf_outliers import low_rank_parts
from visionnmf.apps.reproduce.sbcd import count_iterations, signal_to_interference, uniform_problem
from visionnmf.apps.reproduce.tracks import (
    Case,
    Track,
    arrival_rows,
    arrivals,
    curves_of,
    follow,
    follow_all,
    race,
    solver_track,
)
from visionnmf.datasets import Faces
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem

FAST = Track([0, 1, 2], [0.0, 1.0, 2.0], [8.0, 2.001, 2.0])
SLOW = Track([0, 3, 6], [0.0, 2.0, 4.0], [8.0, 4.0, 3.0])


def test_a_method_is_followed_to_its_budget_and_no_further():
    state = [5.0]

    def steps():
        for _ in range(9):
            state[0] -= 1
            yield

    track = follow(steps(), lambda: state[0], 10.0, most=3, looks=10**9)
    assert track.iterations == [0, 1, 2, 3] and track.objectives == [5, 4, 3, 2]
    assert track.seconds == sorted(track.seconds) and track.best()[0] == 2
    assert track.until(3.5, "iterations") == 2 and track.until(0) == np.inf


def test_a_track_has_the_objectives_of_the_solver():
    X, Wt, H = uniform_problem((12, 9), 3, 0)
    problem = Problem(X, Loss("frobenius"))
    track = solver_track("mu", problem, (Wt, H), problem.objective, 0.05)
    assert track.objectives[0] == problem.objective(Wt, H)  # the start is a copy
    assert track.iterations[-1] > 1 and (np.diff(track.objectives) <= 1e-9 * track.objectives[0]).all()


def test_arrivals_by_hand():
    found = arrivals({"fast": [FAST], "slow": [SLOW]}, "seconds")
    assert found["fast"] == [1.0]  # 2.001 is within .2 % of 2
    assert found["slow"] == [4.0 * 3 / 2]  # never near: the end, times 3 over 2
    assert arrivals({"fast": [FAST], "slow": [SLOW]}, "iterations", 0.5)["slow"] == [6]
    (row,) = arrival_rows("made", {"fast": [FAST], "slow": [SLOW]}, [("fast", "slow", "seconds", "yes, 5.1")])
    assert row.verdict == "confirmed; 1 pair only" and "1 against 6" in row.ours and row.paper == "yes, 5.1"


def test_solvers_race_from_the_same_starts():
    def make(seed):
        X, *start = uniform_problem((12, 9), 3, seed)
        problem = Problem(X, Loss("frobenius"))
        return problem, start, lambda *factors: problem.objective(*factors) / problem.objective(*start)

    case = Case("made", make, {"A": "mu", "B": "hals"}, [("B", "A", "iterations", "no")], 0.02)
    result = race([case], 2, "share of the start's")
    (row,) = result.rows
    assert row.what == "made: B is near the lowest objective before A, iterations" and "of 2 runs" in row.ours
    assert [line[:2] for line in result.tables["What was reached"][1:]] == [["made", "A"], ["made", "B"]]
    for name, runs in follow_all(case, 2).items():
        assert [run.objectives[0] for run in runs] == [1, 1] and min(runs[0].objectives) < 0.5, name


def test_curves_are_means_over_runs():
    other = Track([0, 1, 2], [0.0, 1.0, 2.0], [8.0, 4.0, 4.0])
    x, y, deviation = curves_of({"a": [FAST, other]}, "seconds", np.asarray)["a"]
    assert x[0] == 1 and x[-1] == pytest.approx(2)
    assert y[-1] == pytest.approx(3) and deviation[-1] == pytest.approx(1)


def test_signal_to_interference_knows_no_order_and_no_scale(rng):
    truth = rng.random((3, 40))
    found = 7 * truth[[2, 0, 1]]
    assert signal_to_interference(truth, found) > 200
    bent = found + 0.1 * rng.random(found.shape)
    unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in (truth[[2, 0, 1]], bent)]
    expected = np.mean(-10 * np.log10(np.square(unit[0] - unit[1]).sum(axis=1)))
    assert signal_to_interference(truth, bent) == pytest.approx(expected)


def test_iterations_end_where_one_gains_little():
    loss = Loss("itakura-saito")
    few, left = count_iterations((30, 20), 4, loss, "sbcd-plain", 1e-2, 50)
    more, less = count_iterations((30, 20), 4, loss, "sbcd-plain", 1e-5, 50)
    assert 0 < few < more <= 50 and less < left < 1


def test_components_outside_the_clean_images_are_foreign(rng):
    clean = rng.random((4, 30))
    outside = np.linalg.svd(clean)[2][10]
    components = np.stack([clean[0] + clean[2], clean[1], outside])
    assert foreign_share(components, clean) == pytest.approx(1 / 3)


def test_upright_and_other_photographs_share_a_sheet(monkeypatch):
    photographs = [Photograph("", np.zeros((*size, 3), np.uint8), [np.eye(*size)]) for size in ((240, 360), (360, 240))]
    monkeypatch.setattr(mahnmf, "load_photographs", lambda: photographs)
    monkeypatch.setattr(mahnmf, "paper_segments", lambda image, n_segments, method: np.zeros(image.shape[:2], np.uint8))
    (sheet,) = mahnmf.segment_sheet(Sizes(), n_segments=2, first=0, count=2).pictures.values()
    assert sheet.dtype == np.uint8 and np.ptp(sheet) > 0


def test_people_are_clustered_and_scored(rng):
    images, _ = made_faces(rng, 4, 6)
    faces = Faces(images, np.repeat(np.arange(1, 5), 6), tuple("abcd"))
    ((accuracy, information),) = cluster_people(faces, 3, ("none", None), ["EucNMF"], 0, 4, 50).values()
    assert 0.5 < accuracy <= 1 and 0 <= information <= 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_each_method_finds_the_low_rank_part(rng):
    truth = rng.random((30, 2)) @ rng.random((2, 80)) + 1
    X = np.where(rng.random(truth.shape) < 0.03, truth + 5, truth)
    parts = low_rank_parts(X, 3)
    assert set(parts) == {"RPCA", "GoDec", "MahNMF"}
    left, values, right = np.linalg.svd(X, full_matrices=False)
    plain = np.abs((left[:, :3] * values[:3]) @ right[:3] - truth).mean()
    for name, (part, seconds) in parts.items():
        assert np.abs(part - truth).mean() < 0.5 * plain, name
        assert seconds > 0
