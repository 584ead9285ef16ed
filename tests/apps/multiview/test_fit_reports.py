"""What ``visionnmf multiview fit`` says about a fit."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers import run_command

from visionnmf.apps.cli import console
from visionnmf.apps.multiview import ViewFit, fit_views, fitting, load
from visionnmf.apps.multiview.fitting import NOTHING_PRIVATE, NOTHING_SHARED, fit_lines
from visionnmf.exceptions import ParameterError

pytestmark = pytest.mark.slow  # most of it runs fits

QUICK = ("--loss", "frobenius", "--model", "m.npz", "--force")


@pytest.fixture
def here(tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    codes = rng.gamma(0.5, size=(20, 2))
    np.save("a.npy", codes @ rng.random((2, 5)))
    np.save("b.npy", codes @ rng.random((2, 7)))
    # no test is of a good fit, and after three iterations no fit has converged
    monkeypatch.setattr(fitting, "MultiviewNMF", partial(fitting.MultiviewNMF, max_iter=3))
    return tmp_path


def test_a_fit_that_has_not_converged_says_so_in_one_note(here):
    """A raw ConvergenceWarning, with the line of a source file, went to standard error for each step."""
    done = run_command("multiview", "fit", "a.npy", "b.npy", "--rank", 2, *QUICK)
    assert done.exit_code == 0 and done.stdout.count("converged") == 1 and "onverge" not in done.stderr
    assert "  the fit stopped after 4 iterations before it had converged: " in done.stdout
    assert "max_iter" not in done.stdout
    notes = json.loads(run_command("multiview", "fit", "a.npy", "b.npy", "--rank", 2, *QUICK, "--json").stdout)["notes"]
    assert len(notes) == 1


def test_a_single_view_shares_nothing(here):
    report = fit_views(["a.npy"], "m.npz", settings=ViewFit(n_components=2, loss="frobenius"))
    assert (report.shared, report.private, report.unused) == (0, 2, 0)
    assert str(report).startswith("20 samples, 1 view: 2 components (")


def test_a_rank_beyond_the_data_is_mentioned_and_every_component_counted(here):
    report = fit_views(["a.npy", "b.npy"], "m.npz", settings=ViewFit(n_components=30, loss="frobenius"), force=True)
    assert (
        "30 components are more than 20 samples of 12 features can tell apart; a rank of 12 is enough" in report.notes
    )
    used = (load("m.npz").model.view_usage_ > 0).sum(axis=1)
    assert [report.shared, report.private, report.unused] == [int((used == n).sum()) for n in (2, 1, 0)]
    assert report.shared + report.private + report.unused == 30
    few = fit_views(["a.npy", "b.npy"], "m.npz", settings=ViewFit(n_components=12, loss="frobenius"), force=True)
    assert not any("can tell apart" in note for note in few.notes)


def test_empty_cells_are_counted(here):
    rows = ["1,2,3", "2,,1", ",,", ",5,", *["1,2,3"] * 10]
    (here / "gaps.csv").write_text("p,q,r\n" + "\n".join(rows) + "\n")
    np.save("whole.npy", np.arange(28.0).reshape(14, 2))
    done = run_command("multiview", "fit", "gaps.csv", "whole.npy", "--rank", 1, *QUICK)
    line = next(line for line in done.stdout.splitlines() if line.startswith("  gaps: "))
    assert ", missing for 1 sample, 3 single entries missing" in line
    assert "missing" not in next(line for line in done.stdout.splitlines() if line.startswith("  whole: "))


def test_the_loss_is_manhattan_but_for_views_of_zeros(here):
    """The Manhattan loss of counts of words is smallest for a model of zeros."""
    assert "\n  loss: frobenius\n" in run_command("multiview", "fit", "a.npy", "--rank", 1, *QUICK).stdout
    words = np.where(np.arange(600).reshape(20, 30) % 11 == 0, 3.0, 0.0)
    np.save("words.npy", words)
    for sources, prepare, loss in (
        (["a.npy", "b.npy"], "auto", "manhattan"),
        (["a.npy", "words.npy"], "auto", "frobenius"),
        (["words.npy"], "none", "frobenius"),
    ):
        settings = ViewFit(n_components=1, prepare=prepare)
        assert fit_views(sources, "w.npz", settings=settings, force=True).loss == loss


def test_verbose_says_how_views_were_prepared_and_how_long_steps_took(here, monkeypatch):
    monkeypatch.setattr(console, "_verbosity", console.Verbosity())  # which the command changes
    told = run_command("multiview", "fit", "a.npy", "b.npy", "--rank", 2, *QUICK, "--verbose").stderr
    assert "visionnmf: a: prepared by range, weight 1\n" in told and "visionnmf: 4 iterations\n" in told
    assert "visionnmf: a.npy: finding the components " in told


def test_views_without_components_and_bad_reconstructions_are_explained():
    """One view read "108 % not explained", another "0 components" without any reason."""
    view = {"features": 9, "missing": 0, "gaps": 0, "prepared": "range", "weight": 1.0}
    views = [{**view, "name": "bad", "used": 1, "error": 1.08}, {**view, "name": "idle", "used": 0, "error": 1.0}]
    figures = {"samples": 20, "n_components": 9, "shared": 2, "private": 3, "unused": 1, "usage": [], "seconds": 1.0}
    figures |= {"hardly_shared": 0, "views": views, "loss": "huber"}
    assert fit_lines(figures) == [
        "20 samples, 2 views: 9 components, 2 shared by all views, 3 shared by some, 3 private to one, 1 unused "
        "(1.0 s)",
        "  loss: huber",
        "  bad: 9 features, 1 component, nothing explained",
        "  idle: 9 features, 0 components (all are too weak here to count; more components or a weaker penalty may "
        "change that), nothing explained",
    ]
    assert "shared by some" not in fit_lines(figures | {"unused": 4})[0]
    told = fit_lines(figures | {"hardly_shared": 4})[0]
    assert "3 private to one, 4 of the shared with more than 90 % in one view, 1 unused" in told
    told = fit_lines(figures | {"shared": 0, "private": 8})
    assert "none shared by all views, 8 private to one" in told[0] and told[-1] == NOTHING_SHARED
    told = fit_lines(figures | {"shared": 9, "private": 0, "unused": 0})
    assert "9 shared by all views, none private to one" in told[0] and told[-1] == NOTHING_PRIVATE


def test_components_with_nearly_all_energy_in_one_view_are_counted(here, rng):
    """Thirteen were said to be shared by all views, though four had 95 % and more of their energy in one."""
    codes = rng.gamma(0.5, size=(20, 2))
    np.save("b.npy", codes @ np.array([[30.0] * 7, [1.0] * 7]) + 0.01 * rng.random((20, 7)))
    np.save("a.npy", codes @ np.array([[1.0] * 5, [30.0] * 5]) + 0.01 * rng.random((20, 5)))
    settings = ViewFit(n_components=2, loss="frobenius", prepare="none", group_l1=0)
    report = fit_views(["a.npy", "b.npy"], "m.npz", settings=settings, force=True)
    shares = np.array(report.usage)
    assert (shares > 0).all() and report.shared == 2  # without the penalty
    assert report.hardly_shared == (shares.max(axis=1) > 0.9).sum() == 2
    assert "2 of the shared with more than 90 % in one view" in str(report)


@pytest.mark.parametrize("sources", ["views.npz", Path("views.npz"), [np.ones((3, 2))]])
def test_sources_that_are_no_list_of_paths_are_refused_in_one_line(sources, tmp_path):
    with pytest.raises(ParameterError, match="sources must be a list of paths") as caught:
        fit_views(sources, tmp_path / "model.npz")
    assert "\n" not in str(caught.value)
