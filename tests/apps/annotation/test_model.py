"""The annotator on made features whose words are known."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.exceptions import NotFittedError

from visionnmf import NMF, OnlineNMF
from visionnmf.apps.annotation import AnnotationModel, ImageAnnotator, load, save
from visionnmf.apps.annotation.training import no_better
from visionnmf.apps.evaluate.annotate import score_words
from visionnmf.exceptions import ParameterError, UnreadableError

VIEWS = {"good": slice(0, 30), "noise": slice(30, 50)}


def made(rng, n=240, n_words=8):
    """Two words an image, each a part of the first view; the second view says nothing."""
    Y = np.zeros((n, n_words), bool)
    for row in Y:
        row[rng.choice(n_words, 2, replace=False, p=np.arange(1, n_words + 1) / 36)] = True
    parts = rng.random((n_words, 30)) ** 6
    good = Y @ parts + 0.05 * rng.random((n, 30))
    return np.c_[good, rng.random((n, 20))].astype(np.float32), Y


@pytest.mark.parametrize("method", ["weighted", "jec", "jec-greedy"])
def test_words_are_found(method, rng):
    X, Y = made(rng)
    model = ImageAnnotator(method, n_components=8, n_words=2).fit(X[:200], Y[:200], views=VIEWS)
    found = score_words(Y[200:], model.predict(X[200:]), model.predict_proba(X[200:]))
    often = np.zeros_like(Y[200:])
    often[:, np.argsort(-Y.sum(0))[:2]] = True
    assert found.f1 > (0.9 if method == "weighted" else 0.6)
    assert score_words(Y[200:], often).f1 < 0.3  # the most frequent words alone


def test_the_view_that_says_something_counts_and_distances_that_count_nothing_are_forgotten(rng):
    X, Y = made(rng)
    model = ImageAnnotator(n_components=(4, 8)).fit(X, Y, views=VIEWS)
    good = np.array([block.view == "good" for block in model.blocks_])
    assert good.any() and model.weights_[good].sum() > 1.5 * model.weights_[~good].sum()
    model.weights_[-1] = 0
    codes, before = model.index_ * model._per_column(model.weights_ > 0), [block.view for block in model.blocks_]
    model.index_ = model._without_zero_weights(codes)
    assert [block.view for block in model.blocks_] == before[:-1]
    width = model.blocks_[-1].columns.stop
    assert model.index_.shape[1] == len(model.columns_) == width < codes.shape[1]
    np.testing.assert_array_equal(model.index_, codes[:, :width])
    assert np.isfinite(model.predict_proba(X[:5])).all()


def test_probabilities_are_calibrated(rng):
    X, Y = made(rng, 600)
    p = ImageAnnotator(n_components=8, n_neighbors=50).fit(X[:400], Y[:400]).predict_proba(X[400:])
    assert ((p >= 0) & (p <= 1)).all()
    assert p.mean() == pytest.approx(Y[400:].mean(), rel=0.1)
    sure = p > 0.8
    assert sure.any() and Y[400:][sure].mean() > 0.8


def test_balance_gives_rare_words_but_not_other_probabilities(rng):
    X, Y = made(rng, 300)
    even, often = (ImageAnnotator(n_components=8, n_words=3, balance=b).fit(X[:200], Y[:200]) for b in (0.8, 0.0))
    p = often.predict_proba(X[200:])
    np.testing.assert_array_equal(even.predict_proba(X[200:]), p)
    np.testing.assert_array_equal(often.choose(p, 3), np.argsort(-p, axis=1, kind="stable")[:, :3])
    rare = np.argsort(Y[:200].sum(axis=0))[:3]
    assert even.predict(X[200:])[:, rare].sum() > 1.2 * often.predict(X[200:])[:, rare].sum()
    chosen = even.choose(p, 3)
    assert (np.diff(np.take_along_axis(p, chosen, axis=1), axis=1) <= 0).all()  # the likeliest first


def test_the_regression_helps_where_neighbours_are_few(rng):
    X, Y = made(rng, 400)
    model = ImageAnnotator(coder="none", n_neighbors=3).fit(X[:300], Y[:300], views=VIEWS)
    both = np.log(np.where(Y[300:], *(lambda p: (p, 1 - p))(model.predict_proba(X[300:])))).mean()
    model.sigmoids_.slope[1] = 0
    assert np.log(np.where(Y[300:], *(lambda p: (p, 1 - p))(model.predict_proba(X[300:])))).mean() < both


@pytest.mark.parametrize("coder", ["frobenius", "manhattan", "none", NMF(max_iter=20), OnlineNMF()])
def test_codes_are_of_any_model_and_files_keep_them(coder, rng, tmp_path):
    X, Y = made(rng, 80)
    model = ImageAnnotator(coder=coder, n_components=5).fit(X, sp.csr_array(Y), views=VIEWS, words=list("abcdefgh"))
    before = model.annotate(X[:7])
    save(AnnotationModel(model, [f"{i}.jpg" for i in range(80)]), tmp_path / "m.npz")
    loaded = load(tmp_path / "m.npz")
    after = loaded.annotator.annotate(X[:7])
    for one, other in zip(vars(before).values(), vars(after).values(), strict=True):
        np.testing.assert_array_equal(one, other)
    kept = loaded.annotator.coder
    if isinstance(coder, str):
        assert kept == coder
    else:
        assert type(kept) is type(coder) and kept.max_iter == coder.max_iter and not hasattr(kept, "components_")
    assert loaded.files[3] == "3.jpg" and loaded.extraction is None
    assert loaded.annotator.words_.tolist() == list("abcdefgh")


@pytest.mark.parametrize("method", ["weighted", "jec", "jec-greedy"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_images(method, n):
    X = np.eye(4, dtype=np.float32)[:n]
    model = ImageAnnotator(method).fit(X, np.eye(4, dtype=bool)[:n])
    scores = model.predict_proba(X)
    assert scores.shape == (n, 4) and np.isfinite(scores).all()
    assert model.predict(np.zeros((1, 4))).sum() == 4  # five words of four


@pytest.mark.parametrize("method", ["weighted", "jec"])
def test_what_is_unlike_all_training_images_is_told(method, rng, tmp_path):
    """A black image had "sun 0.96": codes describe anything by what training images share."""
    X, Y = made(rng, 1000)
    X[:, 30:] = rng.random((1000, 2)) @ rng.random((2, 20))  # a narrow view of two directions
    model = ImageAnnotator(method, coder="none").fit(X[:400], Y[:400], views=VIEWS)
    found = model.annotate(X[400:]).unlikeness
    # by a decomposition of all training images, in each view, without the limit
    parts, scales = [], model.likeness_.scales
    for columns, (of_rest, of_nearest) in zip(VIEWS.values(), scales, strict=True):
        train, new = (np.sqrt(part / part.sum(axis=1, keepdims=True)) for part in (X[:400, columns], X[400:, columns]))
        V = np.linalg.svd(train.astype(float), full_matrices=False)[2][: min(20, train.shape[1] // 2)]
        parts.append(np.sqrt(np.maximum(1 - ((new @ V.T) ** 2).sum(axis=1), 0)) / of_rest)
        deviations = np.maximum((train @ V.T).std(axis=0), 2**-7)
        parts.append(cdist(new @ V.T / deviations, train @ V.T / deviations).min(axis=1) / of_nearest)
    np.testing.assert_allclose(found, np.max(parts, axis=0), atol=0.04)  # rounding is near the least scale
    assert (found > 1).mean() < 0.03  # one per cent is meant
    odd = np.repeat(X[400:420], 4, axis=0)
    odd[:20, :30] = np.eye(30)[:20]  # one bin of a histogram, as of a black image
    odd[20:40, :30] = rng.random((20, 30))
    odd[40:60, 30:] = rng.random((20, 20))  # in one view alone
    unlike = model.annotate(odd).unlikeness > 1
    assert unlike[:60].all() and not unlike[60:].any()
    save(AnnotationModel(model), tmp_path / "m.npz")
    np.testing.assert_array_equal(load(tmp_path / "m.npz").annotator.annotate(odd).unlikeness > 1, unlike)
    assert np.isnan(ImageAnnotator(method, coder="none").fit(X[:200], Y[:200]).annotate(odd).unlikeness).all()


def test_a_black_image_and_a_word_that_nobody_has(rng):
    X, Y = made(rng, 60)
    Y[:, 3] = False
    model = ImageAnnotator(n_components=5).fit(X, Y, views=VIEWS)
    p = model.predict_proba(np.r_[X[:5], np.zeros_like(X[:1])])
    assert np.isfinite(p).all() and p[:, 3].max() < 0.1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"coder": 3}, "coder must be one of .* or an estimator"),
        ({"method": "jec", "metrics": "cosine"}, "metrics must be one of"),
        ({"method": "jec", "metrics": {"all": "cosine"}}, "metrics must be one of"),
        ({"method": "jec", "metrics": {"lab": "euclidean"}}, "metrics must name views, all"),
        ({"method": "jec", "metrics": "chi-squared", "pseudo_inverse": True}, "metrics must be manhattan or euclid"),
        ({"coder": "none", "pseudo_inverse": True}, "pseudo_inverse must be left out with the coder 'none'"),
        ({"n_components": ()}, "n_components must be a whole number >= 1, or several"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ParameterError, match=message):
        ImageAnnotator(**parameters).fit(np.ones((3, 2)), np.ones((3, 2), bool))


def test_data_are_checked(rng):
    X, Y = made(rng, 20)
    for bad, message in ((-X, "X must hold finite numbers >= 0"), (X[:0], "X must have shape"), (X[0], "X must have")):
        with pytest.raises(ParameterError, match=message):
            ImageAnnotator().fit(bad, Y)
    with pytest.raises(ParameterError, match="Y must have a row for each image"):
        ImageAnnotator().fit(X, Y[:5])
    with pytest.raises(ParameterError, match="Y must hold 0 and 1"):
        ImageAnnotator().fit(X, 2 * Y.astype(int))
    with pytest.raises(ParameterError, match="views must divide the 50 columns"):
        ImageAnnotator().fit(X, Y, views={"a": slice(0, 20)})
    with pytest.raises(ParameterError, match="words must be a name for each column"):
        ImageAnnotator().fit(X, Y, words=["a"])
    with pytest.raises(NotFittedError):
        ImageAnnotator().annotate(X)
    with pytest.raises(ParameterError, match="X must have 50 features"):
        ImageAnnotator(n_components=3).fit(X, Y).annotate(X[:, :9])


def test_jec_has_the_distances_of_its_authors(rng, tmp_path):
    """Against a loop: each view's own distance, scaled to a largest of 1, and no deviations or roots."""
    X, Y = made(rng, 170)
    metrics = {"good": "chi-squared"}  # the other view has the Manhattan distance
    model = ImageAnnotator("jec", coder="none", metrics=metrics).fit(X[:160], Y[:160], views=VIEWS)
    total = np.zeros((10, 160))
    for view, columns in VIEWS.items():
        A = X[:, columns].astype(float)
        if view == "good":
            D = np.array([[((a - b) ** 2 / (a + b)).sum() for b in A[:160]] for a in A])
        else:
            D = cdist(A, A[:160], "cityblock")
        total += D[160:] / D[:160].max()
    found = model.annotate(X[160:])
    np.testing.assert_array_equal(found.neighbours, np.argsort(total, axis=1)[:, :5])
    np.testing.assert_allclose(found.distances, np.sort(total, axis=1)[:, :5], rtol=1e-4)
    np.testing.assert_array_equal(model.nearest(X[160:], 5)[0], found.neighbours)
    save(AnnotationModel(model), tmp_path / "m.npz")
    np.testing.assert_array_equal(load(tmp_path / "m.npz").annotator.annotate(X[160:]).scores, found.scores)
    rooted = ImageAnnotator("jec", coder="none").fit(X[:160], Y[:160], views=VIEWS)
    assert (rooted.annotate(X[160:]).neighbours != found.neighbours).any()


@pytest.mark.slow
@pytest.mark.parametrize("metrics", [None, "euclidean"])
def test_codes_by_the_pseudo_inverse(metrics, rng, tmp_path):
    X, Y = made(rng, 60)
    model = ImageAnnotator("jec", coder="or-nmf", pseudo_inverse=True, n_components=5, metrics=metrics).fit(X, Y)
    (block,) = model.blocks_
    A = X if metrics else np.sqrt(X / X.sum(axis=1, keepdims=True))
    codes = A @ np.linalg.pinv(block.coder.components_)
    codes = codes if metrics else np.sign(codes) * np.sqrt(np.abs(codes) / np.abs(codes).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(model.index_, codes * model.columns_, rtol=1e-2, atol=1e-4)
    assert (model.index_ < 0).any()
    save(AnnotationModel(model), tmp_path / "m.npz")
    np.testing.assert_array_equal(load(tmp_path / "m.npz").annotator.annotate(X).scores, model.annotate(X).scores)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *(("regression_.votes", 3e38), ("regression_.votes", -3e38), ("regression_.mean", 3e38)),
        *(("regression_.width", 1e-45), ("index_", 3e38)),
        *(("blocks_.0.coder.components_", 1e-40), ("blocks_.0.coder.components_", 1e30)),
    ],
)
def test_numbers_that_give_no_probabilities_are_refused(name, number, rng, tmp_path):
    X, Y = made(rng, 40)
    path = tmp_path / "m.npz"
    save(AnnotationModel(ImageAnnotator(n_components=3).fit(X, Y)), path)
    with np.load(path) as held:
        arrays = dict(held)
    arrays[f"annotator.{name}"].flat[:] = number
    np.savez(path, **arrays)
    with pytest.raises(UnreadableError, match="damaged"):
        load(path)


@pytest.mark.parametrize("wrong", ["of one byte", "too many", "of no image"])
def test_words_of_images_take_no_more_memory_than_their_file(wrong, rng, tmp_path):
    """20 MB of numbers of one byte took 249 MiB."""
    X, Y = made(rng, 40)
    path = tmp_path / "m.npz"
    save(AnnotationModel(ImageAnnotator("jec", n_components=3).fit(X, Y)), path)
    with np.load(path) as held:
        arrays = dict(held)
    start = np.append(np.zeros(40, np.int64), 4 << 20)
    of_one_byte, many = np.zeros(4 << 20, np.uint8), np.zeros(4 << 20, np.int32)
    arrays |= {
        "of one byte": {"annotator.Y_.0": many, "annotator.Y_.1": of_one_byte, "annotator.Y_.2": start},
        "too many": {"annotator.Y_.0": many, "annotator.Y_.1": many, "annotator.Y_.2": start},
        "of no image": {"annotator.Y_.1": many},
    }[wrong]
    np.savez(path, **arrays)
    tracemalloc.start()
    with pytest.raises(UnreadableError, match="Y_"):
        load(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 3 * path.stat().st_size


@pytest.mark.parametrize("method", ["weighted", "jec", "jec-greedy"])
@pytest.mark.parametrize(("n", "informative"), [(3, True), (12, False), (120, False), (120, True), (1, True)])
def test_words_are_compared_with_the_most_frequent_ones(method, n, informative, rng):
    """By images that are left out: features that say nothing, and very few images, do not beat the frequencies."""
    X, Y = made(rng, max(n, 3))
    X = X[:n] if informative else rng.random((n, X.shape[1])).astype(np.float32)
    model = ImageAnnotator(method, n_components=8).fit(X, Y[:n])
    ours, often = model.left_out_recall_.T
    assert len(ours) == n and ((ours >= 0) & (ours <= 1)).all()
    frequent = np.argsort(-Y[:n].sum(0), kind="stable")[:2]  # each image has two words
    np.testing.assert_allclose(np.sort(often), np.sort(Y[:n][:, frequent].mean(axis=1)))
    assert bool(no_better(model)) != (n == 120 and informative)
