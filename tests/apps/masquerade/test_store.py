"""Model files: what goes in comes out, and what is damaged, foreign or from the future is refused in one sentence."""

import numpy as np
import pytest
from model_files import rewrite

from visionnmf.apps.masquerade import MasqueradeModel, SessionScorer, load, save, store as _masquerade_store
from visionnmf.apps.masquerade.store import Learnt
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError

SESSIONS = [["ls", "cd", "make", "vi", "é", ""] * 10, ["cd", "ls", "gcc", "ls"] * 15] * 10
TEST = [["ls", "cd"] * 30, ["nmap"] * 60, ["é", "gcc", "ls"] * 20]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def made(**parameters):
    scorer = SessionScorer(false_alarm_rate=0.05, **parameters).fit(SESSIONS)
    scorer.update(TEST[1])
    users = {"alice": scorer, "b\u00f6b": SessionScorer(**parameters).fit(TEST)}
    return MasqueradeModel(users, 60, 3.5, True, {"alice": Learnt({-(2**63): None, 2**63 - 1: None, 5: None}, 1.7e9)})


@pytest.mark.parametrize(
    "parameters", [{}, {"method": "nmf"}, {"method": "mex-perera", "loss": "manhattan"}, {"method": "wang"}]
)
def test_a_loaded_model_goes_on_where_the_saved_one_was(parameters, path):
    model = made(**parameters)
    save(model, path)
    again = load(path)
    assert (again.size, again.idle, again.whole_lines) == (60, 3.5, True)
    assert again.learnt == model.learnt | {"böb": Learnt()} and list(again.learnt["alice"].digests)[-1] == 5
    assert list(again.scorers) == ["alice", "böb"]
    for user, scorer in model.scorers.items():
        other = again.scorers[user]
        assert other.get_params() == scorer.get_params()
        assert other.threshold_ == scorer.threshold_
        assert other.n_sessions_ == scorer.n_sessions_
        np.testing.assert_allclose(other.anomaly_score(TEST), scorer.anomaly_score(TEST), rtol=1e-12)
        np.testing.assert_allclose([other.update(s) for s in TEST], [scorer.update(s) for s in TEST], rtol=1e-12)


def test_only_text_commands_can_be_saved(path):
    with pytest.raises(ParameterError, match="the commands of u must be text to be saved; got 3"):
        save(MasqueradeModel({"u": SessionScorer().fit([[3, 4]])}), path)
    assert not path.exists()


def arrays_of(path):
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def test_more_commands_or_pairs_than_a_profile_keeps_are_refused_before_they_are_decoded(path, monkeypatch):
    save(made(), path)
    arrays = arrays_of(path)
    n_commands, n_pairs = len(arrays["arrays.text_lengths"]), len(arrays["arrays.pairs"])
    monkeypatch.setattr(_masquerade_store, "PAIRS_KEPT", max(n_commands, n_pairs))
    load(path)
    monkeypatch.setattr(_masquerade_store, "PAIRS_KEPT", 5)
    rewrite(path, lambda state, arrays: arrays["arrays.text"].fill(0x80))  # cannot be decoded
    with pytest.raises(UnreadableError, match="users must not have so many counts"):
        load(path)
    monkeypatch.undo()
    save(made(), path, force=True)
    monkeypatch.setattr(_masquerade_store, "DIGESTS_KEPT", 1)
    with pytest.raises(UnreadableError, match="users must not have so many counts"):
        load(path)


def test_more_counts_than_a_file_may_hold_are_refused_on_both_ways(path, monkeypatch):
    save(made(), path)
    arrays = arrays_of(path)
    n_counts = len(arrays["arrays.text_lengths"]) + len(arrays["arrays.pairs"])
    monkeypatch.setattr(_masquerade_store, "MAX_COUNTS", n_counts)
    load(path)
    save(made(), path, force=True)
    monkeypatch.setattr(_masquerade_store, "MAX_COUNTS", n_counts - 1)
    with pytest.raises(UnreadableError, match="users must not have so many counts"):
        load(path)
    with pytest.raises(TooLargeError, match="commands and pairs of commands; train fewer users a model"):
        save(made(), path, force=True)


def test_what_could_not_be_loaded_is_not_saved(path):
    infinite = made()
    infinite.scorers["alice"].threshold_ = float("inf")
    with pytest.raises(ParameterError, match=r"threshold_ must be a number from -1e.06 to 1e.06; got inf"):
        save(infinite, path)
    endless = made()
    endless.idle = float("inf")
    with pytest.raises(ParameterError, match="idle must be a finite number > 0; got inf"):
        save(endless, path)
    late = made()
    late.learnt["alice"].latest = 1e12
    with pytest.raises(ParameterError, match=r"latest must be a number from 0 to 1e\+?11"):
        save(late, path)
    assert not path.exists()


def test_texts_that_are_no_utf8_are_kept_apart(path):
    session = ["\udc80", "\udc81", "?", "\ufffd"] * 5
    scorer = SessionScorer(false_alarm_rate=1e-17).fit([session] * 5)
    save(MasqueradeModel({"u\udcff": scorer}), path)
    again = load(path).scorers["u\udcff"]
    assert again.profile_.commands == scorer.profile_.commands
    assert again.profile_.pairs == scorer.profile_.pairs
