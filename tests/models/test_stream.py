"""fit_stream: whatever the pieces the same model, a killed stream ends as one that was not, constant memory."""

import tracemalloc
from contextlib import nullcontext

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from model_files import rewrite
from sklearn.base import clone
from sklearn.decomposition import MiniBatchNMF

from visionnmf import NMF, Checkpoint, ConservativeNMF, OnlineNMF, fit_stream, load_model
from visionnmf.engine.online import METHODS
from visionnmf.exceptions import MediaError, ParameterError, UnreadableError
from visionnmf.models.chunks import open_chunks
from visionnmf.models.stream import regrouped, shuffled

X = np.random.default_rng(1).gamma(1, size=(97, 12))
MODEL = ConservativeNMF(2, batch_size=10, random_state=0)


def same(one, other):
    """Assert that two values are alike, to the bit."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    else:
        np.testing.assert_array_equal(one, other)


def same_model(one, other):
    """Assert that two models have learnt the same."""
    same(*({key: value for key, value in vars(model).items() if key.endswith("_")} for model in (one, other)))


def learnt(source, **options):
    return fit_stream(clone(MODEL), source, **options)


class Recorder:
    """Keeps the batches it is given."""

    def __init__(self):
        self.batches = []

    def get_params(self):
        return {}

    def partial_fit(self, batch):
        self.batches.append(batch.toarray() if sp.issparse(batch) else np.array(batch))


def batches(source, **options):
    model = fit_stream(Recorder(), source, **options)
    return model.batches


@pytest.mark.parametrize(
    "source", [X, (X[i : i + 7] for i in range(0, 97, 7)), [sp.csr_array(X[:25]), X[25:25], X[25:]]]
)
def test_batches_have_one_size_however_the_samples_come(source):
    found = batches(source, batch_size=10)
    assert [len(batch) for batch in found] == [10] * 9 + [7]
    np.testing.assert_array_equal(np.concatenate(found), X)


def test_a_source_that_uses_one_array_again():
    def refilled():
        buffer = np.empty((7, 12))
        for i in range(0, 91, 7):
            buffer[:] = X[i : i + 7]
            yield buffer

    np.testing.assert_array_equal(np.concatenate(batches(refilled(), batch_size=10)), X[:91])


def test_passes_later_calls_and_the_models_own_batch_size():
    model = learnt(X, epochs=3)
    same_model(model, load_same(X, 3))
    assert model.n_iter_ == 30 and len(batches(X)) == 1
    first = learnt(X[:40])
    same_model(fit_stream(first, X[40:90]), learnt(X[:90]))
    model = fit_stream(MiniBatchNMF(2, batch_size=20, random_state=0), X)
    assert model.components_.shape == (2, 12) and model.n_steps_ == 5


def load_same(data, epochs):
    model = clone(MODEL)
    for _ in range(epochs):
        for start in range(0, len(data), 10):
            model.partial_fit(data[start : start + 10])
    return model


def test_the_first_batch_is_enough_for_a_start():
    model = Recorder()
    model.n_components = 6
    fit_stream(model, X, batch_size=10)
    assert [len(batch) for batch in model.batches] == [30] + [10] * 6 + [7]
    np.testing.assert_array_equal(np.concatenate(model.batches), X)
    model.batches.clear()
    model.components_ = X[:6]
    fit_stream(model, X, batch_size=10)
    assert [len(batch) for batch in model.batches] == [10] * 9 + [7]


@pytest.mark.parametrize("block", [1, 4])
def test_shuffling_hands_over_every_sample_once_in_an_order_of_its_own(block):
    rows = open_chunks(np.arange(97)[:, None])
    rows.block = block
    orders = []
    for epoch in range(2):
        whole = np.concatenate(list(shuffled(rows, 10, 0, np.random.default_rng([5, epoch])))).ravel()
        assert sorted(whole) == list(range(97))
        assert np.abs(np.diff(whole)).mean() > 20
        orders.append(whole.tolist())
        for skip in (1, 10, 63, 64, 65, 97):
            rest = list(shuffled(rows, 10, skip, np.random.default_rng([5, epoch])))
            assert [row for chunk in rest for row in chunk.ravel()] == whole[skip:].tolist()
    assert orders[0] != orders[1]
    same_model(learnt(X, shuffle=True, random_state=3), learnt(X, shuffle=True, random_state=3))
    assert not np.allclose(learnt(X, shuffle=True).last_components_, learnt(X).last_components_)


def test_names_of_columns_are_kept_and_must_agree():
    frame = pandas.DataFrame(X, columns=[f"f{k}" for k in range(12)])
    for source in (frame, [frame[:40], frame[40:]], iter([frame])):
        model = learnt(source)
        assert model.feature_names_in_.tolist() == [*frame.columns]
        np.testing.assert_array_equal(model.components_, learnt(X).components_)
        fit_stream(model, [frame[:9]])
    with pytest.raises(ParameterError, match=r"chunk 2 must have the columns of the chunks before it, in their order"):
        learnt([frame[:40], frame[frame.columns[::-1]][40:]])
    with pytest.raises(ParameterError, match="feature names"):
        fit_stream(model, [frame[frame.columns[::-1]]])
    assert not hasattr(learnt(pandas.DataFrame(X)), "feature_names_in_")  # numbers are no names


def test_regrouped_rows_of_nothing():
    assert list(regrouped(iter([]), 3, 3)) == []
    for nothing in ([], [X[:0]], iter(())):
        with pytest.raises(ParameterError, match="source must hold at least one sample; got none"):
            learnt(nothing)


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (np.full((1, 12), np.nan), "source must hold data .*; got samples 31 to 40 of pass 1: X must not hold NaN"),
        (-X[:1], "samples 31 to 40 of pass 1: Negative values"),
        (X[:2, :9], "chunk 2 must have 12 features as the chunks before it; got 9"),
        (["text"], "chunk 2 must be an array of numbers"),
        (X[0], "chunk 2 must have shape"),
    ],
)
def test_what_is_refused_leaves_the_state_as_it_was(bad, sentence, tmp_path):
    path = tmp_path / "checkpoint.npz"
    model = clone(MODEL)
    with pytest.raises(ParameterError, match=sentence):
        fit_stream(model, [X[:35], bad, X[35:]], checkpoint=Checkpoint(path, every=2))
    same_model(model, learnt(X[:30]))
    same_model(load_model(path), learnt(X[:20]))
    same_model(learnt([X[:35], X[35:]], checkpoint=path), learnt(X))  # mended, it goes on


def test_the_callback_hears_of_each_batch_and_can_stop(tmp_path):
    heard = []
    learnt(X, epochs=2, callback=lambda *told: heard.append(told))
    assert heard[:2] == [(10, 194), (20, 194)] and heard[-1] == (194, 194)
    path = tmp_path / "checkpoint.npz"
    model = learnt(X, epochs=2, callback=lambda done, total: done >= 120, checkpoint=path)
    assert model.n_samples_seen_ == 127
    same_model(load_model(path), model)
    same_model(learnt(X, epochs=2, checkpoint=path), learnt(X, epochs=2))
    heard.clear()
    learnt(iter([X]), callback=lambda *told: heard.append(told))
    assert heard[-1] == (97, None)


# --- checkpoints ------------------------------------------------------------------------------------------------------

WHOLE = {"batch_size": 10, "epochs": 2}
STREAMS = {
    "conservative": lambda: (clone(MODEL), X, {"epochs": 3}),
    "shuffled": lambda: (clone(MODEL), X, {"epochs": 3, "shuffle": True}),
    "generator": lambda: (clone(MODEL), (X[i : i + 7] for i in range(0, 97, 7)), {}),
    "sparse": lambda: (clone(MODEL), sp.csr_array(X), {"epochs": 2}),
    "online": lambda: (OnlineNMF(2, batch_size=10, random_state=0), X, {"epochs": 2, "shuffle": True}),
    **{
        method: lambda method=method: (OnlineNMF(2, method=method, random_state=0), X, WHOLE)
        for method in METHODS
        if method != "or-nmf-is"  # as printed, it ends where a gradient is infinite
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "stops"),
    [("conservative", (10,)), ("shuffled", (50,)), ("online", (97, 98)), *((how, (20, 30, 90)) for how in STREAMS)],
)
def test_wherever_a_stream_breaks_off_it_ends_as_one_that_did_not(how, stops, tmp_path):
    def run(stop):
        def callback(done, total):
            if done >= stop:
                raise KeyboardInterrupt

        model, source, options = STREAMS[how]()
        options |= {"checkpoint": Checkpoint(tmp_path / "x.npz", every=3), "callback": callback}
        return fit_stream(model, source, **options)

    for stop in stops:
        with pytest.raises(KeyboardInterrupt) if stop < 98 or "epochs" in STREAMS[how]()[2] else nullcontext():
            run(stop)
    assert (tmp_path / "x.npz").exists() == (stops[-1] > 30)
    model, source, options = STREAMS[how]()
    same_model(run(10**9), fit_stream(model, source, **options))


def test_an_order_of_any_seed_is_kept(tmp_path, monkeypatch):
    path, rows = tmp_path / "x.npz", np.arange(1.0, 31)[:, None]
    seen = []
    learn = ConservativeNMF.partial_fit
    monkeypatch.setattr(ConservativeNMF, "partial_fit", lambda self, X: seen.extend(X.ravel()) or learn(self, X))
    options = {"shuffle": True, "random_state": None, "batch_size": 1, "checkpoint": path}
    for stop in (11, 100):
        fit_stream(ConservativeNMF(1, random_state=0), rows, callback=lambda n, _, stop=stop: n == stop, **options)
    assert sorted(seen) == rows.ravel().tolist()


def test_a_stream_that_has_ended_is_not_learnt_again_but_may_have_more_passes(tmp_path):
    path = tmp_path / "checkpoint.npz"
    learnt(X, checkpoint=path)
    same_model(learnt(X, checkpoint=path), learnt(X))
    same_model(learnt(X, checkpoint=path, epochs=3), learnt(X, epochs=3))
    same_model(learnt(X, checkpoint=Checkpoint(path, resume=False)), learnt(X))


def test_a_live_stream_skips_nothing(tmp_path):
    path = tmp_path / "checkpoint.npz"
    learnt(iter([X[:40]]), checkpoint=path)
    model = fit_stream(load_model(path), iter([X[40:]]), checkpoint=Checkpoint(path, resume=False))
    same_model(model, learnt(X))
    assert load_model(path).n_samples_seen_ == 97


def test_checkpoints_of_other_streams_are_refused(tmp_path):
    path = tmp_path / "checkpoint.npz"
    learnt(X, checkpoint=path)
    before = path.read_bytes()
    for model, options, sentence in (
        (ConservativeNMF(4, batch_size=10, random_state=0), {}, "the same model with the same parameters"),
        (ConservativeNMF(2, batch_size=10, random_state=1), {}, "the same model with the same parameters"),
        (clone(MODEL), {"batch_size": 11}, "batch_size=11; got .* with 10; remove it, or pass resume=False"),
        (clone(MODEL), {"shuffle": True}, "random_state=0; got .* with None"),
    ):
        with pytest.raises(ParameterError, match=f"checkpoint must be of .*{sentence}"):
            fit_stream(model, X, checkpoint=path, **options)
    with pytest.raises(ParameterError, match="n_samples=96"):
        learnt(X[:96], checkpoint=path)
    assert path.read_bytes() == before
    learnt(X).save(path, force=True)
    with pytest.raises(UnreadableError, match="a model, not a checkpoint of a stream"):
        learnt(X, checkpoint=path)
    path.write_text("mine")
    with pytest.raises(UnreadableError, match="not a model"):
        learnt(X, checkpoint=path)
    assert path.read_text() == "mine"
    with pytest.raises(MediaError, match="there is no folder"):
        learnt(X, checkpoint=tmp_path / "no" / "checkpoint.npz")


@pytest.mark.parametrize("form", [lambda X: X, sp.csr_array, lambda X: [X[:30], X[30:]], lambda X: iter([X])])
def test_a_checkpoint_is_of_the_same_data(form, tmp_path):
    path = tmp_path / "checkpoint.npz"
    model = learnt(form(X), checkpoint=path)
    np.testing.assert_array_equal(learnt(form(X), checkpoint=path).components_, model.components_)  # learns no more
    before = path.read_bytes()
    for other in (X[:, :3], X[::-1].copy(), X + 1):
        with pytest.raises(ParameterError, match=r"checkpoint must be of the same data; got .*, where samples or"):
            learnt(form(other), checkpoint=path)
    assert path.read_bytes() == before


def test_the_same_data_may_come_in_other_chunks(tmp_path):
    path = tmp_path / "checkpoint.npz"
    model = learnt([X[:10], X[10:]], checkpoint=path)
    for pieces in ([X[:3], X[3:60], X[60:]], iter([X])):
        np.testing.assert_array_equal(learnt(pieces, checkpoint=path).components_, model.components_)


def test_a_checkpoint_is_of_the_same_names(tmp_path):
    path, frame = tmp_path / "checkpoint.npz", pandas.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    for form in (lambda each: each, lambda each: [each]):
        learnt(form(frame), checkpoint=Checkpoint(path, resume=False))
        with pytest.raises(ParameterError, match="checkpoint must be of the same data"):
            learnt(form(frame.rename(columns={"x1": "y"})), checkpoint=path)


@pytest.mark.parametrize("change", [{"epoch": -1}, {"done": 1.5}, {"samples": "1"}, {"random_state": True}, {"x": 1}])
def test_damaged_checkpoints_are_refused(change, tmp_path):
    path = tmp_path / "checkpoint.npz"
    learnt(X, checkpoint=path)
    rewrite(path, lambda state, arrays: state["dict"]["stream"]["dict"].update(change))
    with pytest.raises(UnreadableError, match=r"damaged, or not a model .*stream"):
        learnt(X, checkpoint=path)


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        (lambda: learnt(X, epochs=0), "epochs must be a whole number >= 1; got 0"),
        (lambda: learnt(X, batch_size=0), "batch_size must be a whole number >= 1; got 0"),
        (lambda: learnt(X, shuffle="yes"), "shuffle must be True or False"),
        (lambda: learnt(X, callback=3), "callback must be callable or None"),
        (lambda: learnt(X, shuffle=True, random_state=-1), "random_state must be"),
        (lambda: Checkpoint("x.npz", every=0.5), r"every must be a whole number >= 1; got 0\.5"),
        (lambda: Checkpoint("x.npz", resume=None), "resume must be True or False"),
        (lambda: learnt(iter([X]), epochs=2), "epochs must be 1 for a source that can be read only once; got 2"),
        (lambda: learnt([X], shuffle=True), "shuffle must be False for a source that can only be read in its order"),
        (lambda: fit_stream(NMF(2), X), "model must be an estimator with partial_fit; got NMF"),
        (lambda: fit_stream(ConservativeNMF(2, w=-1), X), "w must be a finite number > 0; got -1"),
        (lambda: fit_stream(Recorder(), X, checkpoint="x.npz"), "checkpoint must be None for a model without save"),
    ],
)
def test_what_is_not_allowed(stream, sentence):
    with pytest.raises(ParameterError, match=sentence):
        stream()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_stream():
    def endless(n):
        chunk = np.random.default_rng(0).random((50, 400))
        for _ in range(n):
            yield chunk

    peaks = []
    for n in (20, 20, 400):  # the first loads and compiles
        tracemalloc.start()
        fit_stream(ConservativeNMF(5, batch_size=100, random_state=0), endless(n))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.05 * peaks[1]
