"""Model files: what goes in comes out, and what is damaged, foreign or from the future is refused in one sentence."""

import random

import numpy as np
import pytest
from model_files import rewrite

from visionnmf.apps.masquerade import MasqueradeModel, SessionScorer, load, save, store as _masquerade_store
from visionnmf.exceptions import (
    MediaError,
    OutputExistsError,
    ParameterError,
    TooLargeError,
    UnreadableError,
)

SESSIONS = [["ls", "cd", "make", "vi", "é", ""] * 10, ["cd", "ls", "gcc", "ls"] * 15] * 10
TEST = [["ls", "cd"] * 30, ["nmap"] * 60, ["é", "gcc", "ls"] * 20]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def made(**parameters):
    scorer = SessionScorer(false_alarm_rate=0.05, **parameters).fit(SESSIONS)
    scorer.update(TEST[1])
    return MasqueradeModel({"alice": scorer, "b\u00f6b": SessionScorer(**parameters).fit(TEST)}, 60, 3.5, True)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"method": "nmf"},
        {"method": "mex-perera", "loss": "manhattan"},
        {"method": "wang"},
    ],
)
def test_a_loaded_model_goes_on_where_the_saved_one_was(parameters, path):
    model = made(**parameters)
    save(model, path)
    again = load(path)
    assert (again.size, again.idle, again.whole_lines) == (60, 3.5, True)
    assert list(again.scorers) == ["alice", "böb"]
    for user, scorer in model.scorers.items():
        other = again.scorers[user]
        assert other.get_params() == scorer.get_params()
        assert other.threshold_ == scorer.threshold_
        assert other.n_sessions_ == scorer.n_sessions_
        np.testing.assert_allclose(other.anomaly_score(TEST), scorer.anomaly_score(TEST), rtol=1e-12)
        np.testing.assert_allclose([other.update(s) for s in TEST], [scorer.update(s) for s in TEST], rtol=1e-12)


def test_nothing_is_overwritten_unless_told(path):
    path.write_text("mine")
    with pytest.raises(OutputExistsError):
        save(made(), path)
    assert path.read_text() == "mine"
    save(made(), path, force=True)
    assert load(path).size == 60
    with pytest.raises(MediaError, match="there is no folder"):
        save(made(), path.parent / "no" / "model.npz")


def test_only_text_commands_can_be_saved(path):
    with pytest.raises(ParameterError, match="the commands of u must be text to be saved; got 3"):
        save(MasqueradeModel({"u": SessionScorer().fit([[3, 4]])}), path)
    assert not path.exists()


def arrays_of(path):
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


DAMAGES = {
    "no users": lambda h, a: h.pop("users"),
    "users no list": lambda h, a: h.update(users=3),
    "too few commands": lambda h, a: h["users"][0].update(n_commands=2),
    "too many commands": lambda h, a: h["users"][1].update(n_commands=99),
    "negative commands": lambda h, a: h["users"][0].update(n_commands=-1),
    "fractional commands": lambda h, a: h["users"][0].update(n_commands=1.5),
    "pairs of no commands": lambda h, a: a.update(pair_first=a["pair_first"] + 99),
    "negative pairs": lambda h, a: a.update(pair_second=a["pair_second"] - 99),
    "fewer pairs": lambda h, a: a.update(pair_weights=a["pair_weights"][1:]),
    "weights not finite": lambda h, a: a.update(command_weights=a["command_weights"] * np.nan),
    "negative weights": lambda h, a: a.update(pair_weights=-a["pair_weights"]),
    "lengths": lambda h, a: a.update(text_lengths=a["text_lengths"] + 1),
    "negative lengths": lambda h, a: a.update(text_lengths=a["text_lengths"] * np.int32(-1)),
    "no utf-8": lambda h, a: a.update(text=a["text"] | np.uint8(0x80)),
    "cost not finite": lambda h, a: h["users"][0].update(usual_cost=float("nan")),
    "cost no number": lambda h, a: h["users"][0].update(usual_cost=[1]),
    "negative deviation": lambda h, a: h["users"][0].update(deviation=-1.0),
    "size": lambda h, a: h.update(size=0),
    "idle": lambda h, a: h.update(idle=-1),
    "same command twice": lambda h, a: a.update(text=np.full_like(a["text"], 97), text_lengths=_even(a)),
    "weights that overflow": lambda h, a: a.update(command_weights=a["command_weights"] + 1e308),
    "pair weights that overflow": lambda h, a: a.update(pair_weights=a["pair_weights"] + 1e308),
    "deviation that overflows": lambda h, a: h["users"][0].update(deviation=1e200),
    "cost that overflows": lambda h, a: h["users"][0].update(usual_cost=1e300),
    "infinite threshold": lambda h, a: h["users"][0].update(threshold=float("inf")),
    "sessions of no length": lambda h, a: h["users"][0].update(session_length=1e-300),
    "too many sessions": lambda h, a: h["users"][0].update(n_sessions=10**400),
    "same user twice": lambda h, a: h["users"][1].update(name="alice"),
    "name no text": lambda h, a: h["users"][1].update(name=["alice"]),
    "no loss": lambda h, a: h["users"][1].pop("loss"),
    "unknown entry": lambda h, a: h["users"][1].update(salt=""),
}


FACTOR_DAMAGES = {
    "rows of no commands": lambda h, a: a.update(row_commands=a["row_commands"] + 99),
    "fewer rows": lambda h, a: h["users"][1].update(n_rows=1),
    "empty rows": lambda h, a: a.update(row_lengths=a["row_lengths"] * np.int32(0)),
    "rows without weight": lambda h, a: a.update(row_weights=a["row_weights"] * 0.0),
    "nothing of a user": lambda h, a: _without_factors(h, a),
    "no components": lambda h, a: h["users"][0].update(n_components=0),
    "components not finite": lambda h, a: a.update(components=a["components"] * np.nan),
    "too large components": lambda h, a: a.update(components=a["components"] + 2),
    "counts of another method": lambda h, a: h["users"][0].update(method="counts"),
    "no method": lambda h, a: h["users"][0].update(method="svd"),
}


def _without_factors(state, arrays):
    for user in state["users"]:
        user.update(n_rows=0, n_components=0)
    empty = ("row_lengths", "row_weights", "row_commands", "row_counts", "components")
    arrays.update({name: arrays[name][:0] for name in empty})


def _even(arrays):
    lengths = np.ones_like(arrays["text_lengths"])
    lengths[-1] += len(arrays["text"]) - len(lengths)
    return lengths


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_models_are_refused(damage, path):
    save(made(), path)
    load(rewrite(path))  # rewriting alone does no harm
    with pytest.raises(UnreadableError, match="damaged, or not a masquerade model") as caught:
        load(rewrite(path, damage))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", FACTOR_DAMAGES.values(), ids=FACTOR_DAMAGES.keys())
def test_damaged_factorisations_are_refused(damage, path):
    save(made(method="nmf"), path)
    load(rewrite(path))
    with pytest.raises(UnreadableError, match="damaged, or not a masquerade model"):
        load(rewrite(path, damage))


def test_impossible_parameters_are_refused(path):
    save(made(), path)
    with pytest.raises(ParameterError, match="false_alarm_rate must be"):
        load(rewrite(path, lambda state, arrays: state["users"][0].update(false_alarm_rate=7.0)))


def test_more_commands_or_pairs_than_a_profile_keeps_are_refused_before_they_are_decoded(path, monkeypatch):
    save(made(), path)
    arrays = arrays_of(path)
    monkeypatch.setattr(_masquerade_store, "PAIRS_KEPT", max(len(arrays["text_lengths"]), len(arrays["pair_first"])))
    load(path)
    monkeypatch.setattr(_masquerade_store, "PAIRS_KEPT", 5)
    rewrite(path, lambda state, arrays: arrays.update(text=arrays["text"] | np.uint8(0x80)))  # cannot be decoded
    with pytest.raises(UnreadableError, match="users must not have so many counts"):
        load(path)


def test_more_counts_than_a_file_may_hold_are_refused_on_both_ways(path, monkeypatch):
    save(made(), path)
    arrays = arrays_of(path)
    monkeypatch.setattr(_masquerade_store, "MAX_COUNTS", len(arrays["text_lengths"]) + len(arrays["pair_first"]))
    load(path)
    save(made(), path, force=True)
    monkeypatch.setattr(_masquerade_store, "MAX_COUNTS", len(arrays["text_lengths"]) + len(arrays["pair_first"]) - 1)
    with pytest.raises(UnreadableError, match="users must not have so many counts"):
        load(path)
    with pytest.raises(TooLargeError, match="commands and pairs of commands; train fewer users a model"):
        save(made(), path, force=True)


def test_what_could_not_be_loaded_is_not_saved(path):
    infinite = made()
    infinite.scorers["alice"].threshold_ = float("inf")
    with pytest.raises(ParameterError, match=r"users.0.threshold must be a finite number; got 'inf'"):
        save(infinite, path)
    endless = made()
    endless.idle = float("inf")
    with pytest.raises(ParameterError, match="idle must be a finite number; got 'inf'"):
        save(endless, path)
    assert not path.exists()


def test_texts_that_are_no_utf8_are_kept_apart(path):
    session = ["\udc80", "\udc81", "?", "\ufffd"] * 5
    scorer = SessionScorer(false_alarm_rate=1e-17).fit([session] * 5)
    save(MasqueradeModel({"u\udcff": scorer}), path)
    again = load(path).scorers["u\udcff"]
    assert again.profile_.commands == scorer.profile_.commands
    assert again.profile_.pairs == scorer.profile_.pairs


def test_any_cut_and_any_flipped_byte_is_refused_or_harmless(path):
    save(made(), path)
    good = path.read_bytes()
    rng = random.Random(1)
    refused = 0
    for _ in range(150):
        data = bytearray(good)
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        else:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(data))
        try:
            load(path)
        except (MediaError, ParameterError):
            refused += 1
    assert refused > 100
