"""Model files: what goes in comes out, and what is damaged, foreign or from the future is refused in one sentence."""

import dataclasses
import io
import json
import random
import zipfile

import numpy as np
import pytest

from visionnmf.apps.masquerade import MasqueradeModel, SessionScorer, load, save
from visionnmf.apps.masquerade import store as _masquerade_store
from visionnmf.exceptions import (
    MediaError,
    OutputExistsError,
    ParameterError,
    TooLargeError,
    UnreadableError,
    UnsupportedError,
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


@pytest.mark.parametrize("parameters", [{}, {"hash_commands": True}, {"hash_commands": True, "key": "secret"}])
def test_a_loaded_model_goes_on_where_the_saved_one_was(parameters, path):
    model = made(**parameters)
    save(model, path)
    again = load(path, key=parameters.get("key"))
    assert (again.size, again.idle, again.whole_lines) == (60, 3.5, True)
    assert list(again.scorers) == ["alice", "böb"]
    for user, scorer in model.scorers.items():
        other = again.scorers[user]
        assert other.get_params() == scorer.get_params()
        assert other.threshold_ == scorer.threshold_
        assert other.n_sessions_ == scorer.n_sessions_
        np.testing.assert_allclose(other.anomaly_score(TEST), scorer.anomaly_score(TEST), rtol=1e-12)
        np.testing.assert_allclose([other.update(s) for s in TEST], [scorer.update(s) for s in TEST], rtol=1e-12)


def test_a_hashed_model_file_holds_no_command(path):
    save(made(hash_commands=True), path)
    with zipfile.ZipFile(path) as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
    assert b"make" not in content and b"gcc" not in content
    assert b"alice" in content


def test_the_key_is_needed_and_is_not_in_the_file(path):
    save(made(hash_commands=True, key="secret"), path)
    assert b"secret" not in path.read_bytes()
    with pytest.raises(
        ParameterError, match=r"key must be that of the training, with which the commands of .* are hashed; got none"
    ):
        load(path)
    with pytest.raises(ParameterError, match="got another key"):
        load(path, key="guess")


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


def limit(patch, **limits):
    patch.setattr(_masquerade_store, "FORMAT", dataclasses.replace(_masquerade_store.FORMAT, **limits))


def arrays_of(path):
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def changed(path, change):
    """Rewrite a good file with a changed header or changed arrays."""
    arrays = arrays_of(path)
    header = json.loads(arrays["header"].tobytes())
    change(header, arrays)
    arrays.setdefault("header", None)
    if arrays["header"] is None:
        del arrays["header"]
    else:
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(path, **arrays)


DAMAGES = {
    "no header": lambda h, a: a.update(header=None),
    "no text": lambda h, a: a.pop("text"),
    "no users": lambda h, a: h.pop("users"),
    "users no list": lambda h, a: h.update(users=3),
    "header no object": lambda h, a: (h.clear(), h.update(format=[])),
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
    "wrong kind": lambda h, a: a.update(pair_weights=a["pair_weights"].astype(np.float32)),
    "two dimensions": lambda h, a: a.update(text=a["text"].reshape(1, -1)),
    "cost not finite": lambda h, a: h["users"][0].update(usual_cost=float("nan")),
    "cost no number": lambda h, a: h["users"][0].update(usual_cost=[1]),
    "negative deviation": lambda h, a: h["users"][0].update(deviation=-1.0),
    "salt": lambda h, a: h["users"][0].update(salt="zz"),
    "short salt": lambda h, a: h["users"][0].update(salt="00"),
    "size": lambda h, a: h["sessions"].update(size=0),
    "idle": lambda h, a: h["sessions"].update(idle=-1),
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
    "no key": lambda h, a: h["users"][1].pop("key_check"),
    "another format": lambda h, a: h.update(format="other"),
}


def _even(arrays):
    lengths = np.ones_like(arrays["text_lengths"])
    lengths[-1] += len(arrays["text"]) - len(lengths)
    return lengths


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_models_are_refused(damage, path):
    save(made(), path)
    changed(path, lambda header, arrays: None)
    load(path)  # rewriting alone does no harm
    changed(path, damage)
    with pytest.raises(
        UnreadableError, match=r"model\.npz: (damaged, or )?not a masquerade model|damaged, or not"
    ) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_the_future_is_refused(path):
    save(made(), path)
    changed(path, lambda header, arrays: header.update(version=2))
    with pytest.raises(
        UnsupportedError, match=r"later version of visionnmf \(model version 2, this one reads up to 1\)"
    ):
        load(path)


def test_impossible_parameters_are_refused(path):
    save(made(), path)
    changed(path, lambda header, arrays: header["users"][0].update(false_alarm_rate=7.0))
    with pytest.raises(ParameterError, match="false_alarm_rate must be"):
        load(path)


def test_pickles_are_not_loaded(path):
    save(made(), path)
    changed(path, lambda header, arrays: arrays.update(text=np.array([{"evil": 1}], object)))
    with pytest.raises(UnreadableError, match="damaged"):
        load(path)


def test_a_small_file_that_asks_for_much_is_refused(path, monkeypatch):
    save(made(), path)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 60,)})
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["pair_weights.npy"] = header.getvalue() + b"\0" * 8
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(UnreadableError, match="pair_weights is not of the size it says"):
        load(path)
    save(made(), path, force=True)
    limit(monkeypatch, unpacked_bytes=100)
    with pytest.raises(TooLargeError, match="unpacks to"):
        load(path)


def test_a_header_that_would_fill_the_memory_is_refused_before_it_is_decoded(path, monkeypatch):
    save(made(), path)
    changed(path, lambda header, arrays: header.update(bomb=[[]] * (4 << 20)))
    monkeypatch.setattr(json, "loads", lambda data: pytest.fail("decoded"))
    with pytest.raises(TooLargeError, match="its header has 16 MiB, 8 are allowed"):
        load(path)


def test_more_commands_or_pairs_than_a_profile_keeps_are_refused_before_they_are_decoded(path, monkeypatch):
    save(made(), path)
    arrays = arrays_of(path)
    monkeypatch.setattr(_masquerade_store, "PAIRS_KEPT", max(len(arrays["text_lengths"]), len(arrays["pair_first"])))
    load(path)
    monkeypatch.setattr(_masquerade_store, "PAIRS_KEPT", 5)
    changed(path, lambda header, arrays: arrays.update(text=arrays["text"] | np.uint8(0x80)))  # cannot be decoded
    with pytest.raises(UnreadableError, match="its counts cannot be"):
        load(path)


def test_more_counts_than_a_file_may_hold_are_refused_on_both_ways(path, monkeypatch):
    save(made(), path)
    arrays = arrays_of(path)
    monkeypatch.setattr(_masquerade_store, "MOST_COUNTS", len(arrays["text_lengths"]) + len(arrays["pair_first"]))
    load(path)
    save(made(), path, force=True)
    monkeypatch.setattr(_masquerade_store, "MOST_COUNTS", len(arrays["text_lengths"]) + len(arrays["pair_first"]) - 1)
    with pytest.raises(UnreadableError, match="its counts cannot be"):
        load(path)
    with pytest.raises(TooLargeError, match="commands and pairs of commands; train fewer users a model"):
        save(made(), path, force=True)


def test_more_pairs_than_one_profile_keeps_are_refused(path, monkeypatch):
    save(made(), path)
    most, few = (len(scorer.profile_.pairs) for scorer in made().scorers.values())
    assert few < most - 1
    monkeypatch.setattr(_masquerade_store, "PAIRS_KEPT", most - 1)
    with pytest.raises(UnreadableError, match="its counts cannot be"):
        load(path)


def test_what_could_not_be_loaded_is_not_saved(path, monkeypatch):
    infinite = made()
    infinite.scorers["alice"].threshold_ = float("inf")
    with pytest.raises(
        ParameterError, match=r"the model of 'alice' must make sense to be saved; .*its threshold cannot be"
    ):
        save(infinite, path)
    endless = made()
    endless.idle = float("inf")
    with pytest.raises(ParameterError, match="idle must be a finite number > 0; got inf"):
        save(endless, path)
    for name in ("header_bytes", "unpacked_bytes"):
        with monkeypatch.context() as patch:
            limit(patch, **{name: 100})
            with pytest.raises(TooLargeError, match="train fewer users a model"):
                save(made(), path)
    assert not path.exists()


@pytest.mark.parametrize("name", ["header_bytes", "unpacked_bytes"])
def test_what_is_just_small_enough_to_save_can_be_loaded(name, path, monkeypatch):
    save(made(), path)
    with zipfile.ZipFile(path) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    size = sizes["header.npy"] - 128 if name == "header_bytes" else sum(sizes.values())
    limit(monkeypatch, **{name: size})
    load(path)
    save(made(), path, force=True)
    limit(monkeypatch, **{name: size - 1})
    with pytest.raises(TooLargeError):
        load(path)


def test_texts_that_are_no_utf8_are_kept_apart(path):
    session = ["\udc80", "\udc81", "?", "\ufffd"] * 5
    scorer = SessionScorer(false_alarm_rate=1e-17).fit([session] * 5)
    save(MasqueradeModel({"u\udcff": scorer}), path)
    again = load(path).scorers["u\udcff"]
    assert again.profile_.commands == scorer.profile_.commands
    assert again.profile_.pairs == scorer.profile_.pairs


@pytest.mark.parametrize("content", [b"", b"PK", b"no model", b"PK\x05\x06" + bytes(18), b"\x93NUMPY" * 9])
def test_other_files_are_refused(content, path):
    path.write_bytes(content)
    with pytest.raises(UnreadableError):
        load(path)
    with pytest.raises(UnreadableError, match="no such file"):
        load(path.with_name("missing"))


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
