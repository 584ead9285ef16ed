"""``visionnmf multiview``: files to models, codes, filled-in views and comparisons."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import run_command
from scipy.spatial.distance import pdist
from sklearn.exceptions import NotFittedError

from visionnmf.apps.evaluate import Comparison, RandomSplits, ViewConditions, evaluate, view_methods
from visionnmf.apps.evaluate.multiview import COLUMNS, apply_condition, by_method, study_of, word_matrix
from visionnmf.apps.evaluate.settings import VIEW_CONDITIONS
from visionnmf.apps.evaluate.view_methods import FLSS, METHODS, SideBySide, fit_classifier
from visionnmf.apps.multiview import ViewFit, fit_views, impute_views, load, transform_views
from visionnmf.apps.multiview.fitting import _stems
from visionnmf.apps.multiview.inputs import read_views
from visionnmf.apps.multiview.view_model import Preparation, observed
from visionnmf.exceptions import ParameterError, UnreadableError, UnsupportedError
from visionnmf.io import write_image
from visionnmf.models.multiview.classifier import signed_roots

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

NOT_CONVERGED = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def compare(views, labels, *methods, splits=1, **conditions):
    """Compare methods on views in memory."""
    comparison, conditions = Comparison(methods=methods), ViewConditions(**conditions)
    return evaluate(study_of(views, labels, comparison, splits=RandomSplits(splits=splits), conditions=conditions))


@pytest.fixture
def made(rng):
    """Four classes; each view tells two pairs of them apart, so that one view is not enough."""
    labels = np.repeat(np.arange(4), 15)
    first, second = rng.random((2, 12)) ** 3, 50 * rng.random((2, 20)) ** 3
    a = first[labels // 2] * rng.uniform(0.5, 1.5, (60, 1)) + 0.05 * rng.random((60, 12))
    b = second[labels % 2] * rng.uniform(0.5, 1.5, (60, 1)) - 5 + 2 * rng.random((60, 20))
    return {"sounds": a, "images": b}, labels


@pytest.fixture
def files(made, tmp_path, monkeypatch):
    """The views, one by key with rows missing and in another order."""
    monkeypatch.chdir(tmp_path)
    views, labels = made
    np.savez("both.npz", labels=labels, **{f"view_{name}": view for name, view in views.items()})
    for name, rows in (("sounds", range(60)), ("images", [*range(59, 4, -1)])):
        with open(f"{name}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", *(f"f{i}" for i in range(views[name].shape[1]))])
            writer.writerows([f"s{row}", *views[name][row]] for row in rows)
    np.save("images.npy", views["images"])
    return tmp_path


@NOT_CONVERGED
def test_fit_transform_and_impute(files, made):
    views = made[0]
    result = run_command(
        "multiview", "fit", "both.npz", "--model", "m.npz", "--rank", 4, "--json", "--picture", "u.png"
    )
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["samples"] == 60 and [view["name"] for view in report["views"]] == ["sounds", "images"]
    assert report["outputs"] == ["m.npz", "u.png"] and (files / "u.png").stat().st_size > 1000
    assert all(view["error"] < 0.3 and view["weight"] == 1 for view in report["views"])
    assert run_command("multiview", "transform", "m.npz", "images=images.npy", "--codes", "c.csv").exit_code == 0
    with open("c.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["key", *(f"component{k}" for k in range(4))] and len(rows) == 61
    known = load("m.npz")
    expected = known.model.transform(known.preparation.transform({"images": views["images"]}))
    np.testing.assert_allclose(np.array([row[1:] for row in rows[1:]], float), expected, rtol=1e-5)
    filled = run_command("multiview", "impute", "m.npz", "images=images.npy", "--out", "filled")
    assert filled.exit_code == 0 and "60 missing views filled in" in filled.stdout and "and compare" in filled.stdout
    with open("filled/sounds.csv", newline="") as file:
        assert next(csv.reader(file))[:2] == ["key", "sounds_0"]
    images = read_views(["filled/images.csv"], key="key").views["images"]
    np.testing.assert_array_equal(images, views["images"])  # what was there stays to its last digit, signs too
    assert read_views(["filled/sounds.csv"], key="key").views["sounds"].shape == views["sounds"].shape
    np.save("words.npy", np.where(np.arange(600).reshape(60, 10) % 11 == 0, 3.0, 0.0))
    assert run_command("multiview", "fit", "images.npy", "words.npy", "--model", "w.npz", "--rank", 4).exit_code == 0
    refused = run_command("multiview", "impute", "w.npz", "images.npy", "--out", "none")
    assert refused.exit_code == 2 and "cannot be converted back" in refused.stderr and not (files / "none").exists()


@NOT_CONVERGED
def test_rows_are_matched_by_key_and_gaps_named(files, made):
    found = read_views(["sounds.csv", "images.csv"], key="id")
    np.testing.assert_allclose(found.views["sounds"], made[0]["sounds"])
    np.testing.assert_allclose(found.views["images"][5:], made[0]["images"][5:])
    assert np.isnan(found.views["images"][:5]).all()
    assert found.notes == [
        "55 of 60 samples have both views, 5 have only sounds",
        "images is missing for 5 of 60 samples: s0, s1, s2, s3, s4",
    ]
    result = run_command("multiview", "fit", "sounds.csv", "images.csv", "--key", "id", "--model", "m.npz", "--rank", 3)
    assert result.exit_code == 0 and "images is missing for 5 of 60 samples" in result.stdout


@NOT_CONVERGED
def test_the_key_of_training_is_that_of_new_samples(files, made):
    fit_views(["sounds.csv", "images.csv"], "m.npz", settings=ViewFit(n_components=3), key="id")
    assert load("m.npz").key == "id"
    transform_views("m.npz", ["sounds.csv"], "c.csv")
    transform_views("m.npz", ["sounds.csv"], "k.csv", key="id")
    assert Path("c.csv").read_text() == Path("k.csv").read_text()
    assert Path("c.csv").read_text().startswith("id,component0") and "\ns3," in Path("c.csv").read_text()
    impute_views("m.npz", ["sounds.csv"], "filled")
    assert Path("filled/images.csv").read_text().startswith("id,")
    lines = Path("sounds.csv").read_text().splitlines()
    Path("sounds.csv").write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")  # the rows in another order
    found = impute_views("m.npz", ["images.csv", "sounds.csv"], "both")
    assert found.notes[0] == "55 of 60 samples have both views, 5 have only sounds"
    np.save("bare.npy", made[0]["images"])  # has no keys, so rows are matched by position
    assert transform_views("m.npz", ["images=bare.npy"], "b.csv").figures["samples"] == 60
    assert Path("b.csv").read_text().startswith("key,component0")  # rows have numbers, which are no "id"
    found = transform_views("m.npz", ["images=bare.npy", "sounds.csv"], "p.csv")
    assert "rows are matched by position, because not all files have the key id of training" in found.notes
    Path("odd.csv").write_text("name,x\na,1\n")
    with pytest.raises(UnreadableError, match=r"odd.csv: has no column 'id'; it has name, x"):
        transform_views("m.npz", ["sounds=odd.csv"], "o.csv")


@pytest.mark.filterwarnings("default::UserWarning")  # the command prints it
@pytest.mark.parametrize(
    ("change", "said"), [(lambda X: 1000 * X, "0 times the size"), (lambda X: X - 200, " 0 times the size")]
)
def test_other_units_of_a_file_are_said(files, made, change, said):
    fit_views(["both.npz"], "m.npz", settings=ViewFit(n_components=3, prepare="range", loss="frobenius"))
    np.save("new.npy", change(made[0]["images"]))
    for command, arguments in (("transform", ["--codes", "c.npy"]), ("impute", ["--out", "filled"])):
        result = run_command("multiview", command, "m.npz", "images=new.npy", *arguments)
        assert result.exit_code == 0 and "the values of view images have " in result.stderr and said in result.stderr


def test_what_cannot_be_used_is_one_line(files):
    np.save("short.npy", np.ones((3, 2)))
    for arguments, sentence in (
        (["fit", "images.npy", "short.npy", "--model", "m.npz"], "the same number of rows; got images 60"),
        (["fit", "none.npy", "--model", "m.npz"], "none.npy: no such file"),
        (["fit", "sounds.csv", "--key", "name", "--model", "m.npz"], "sounds.csv: has no column 'name'; it has id, f0"),
        (["fit", "sounds.csv", "--model", "m.npz"], "if this column names the samples, give --key id\n"),
        (["fit", "both.npz", "images.npy", "--model", "m.npz"], "images: two views have this name"),
        (["transform", "both.npz", "images.npy", "--codes", "c.csv"], "both.npz"),
    ):
        result = run_command("multiview", *arguments)
        assert result.exit_code == 2 and sentence in result.stderr and result.stderr.count("\n") == 1, result.stderr
    for arguments, sentence in (
        (["--methods", "svd"], "--methods must be some of"),
        (["--ranks", "4,x"], "--ranks: must be whole numbers, separated by commas; got '4,x'"),
        (["--conditions", "dark"], "--conditions must be some of"),
    ):
        result = run_command("evaluate", "multiview", "both.npz", *arguments, "--out", "r")
        assert result.exit_code == 2 and sentence in result.stderr, result.stderr
    result = run_command("evaluate", "multiview", "images.npy")
    assert "--labels must be a file with a class for each sample, because images.npy has none" in result.stderr


def test_a_view_of_three_axes_is_refused_with_its_shape(files):
    np.savez("cube.npz", view_a=np.ones((5, 3, 2)), view_b=np.ones((5, 3)))
    told = run_command("multiview", "fit", "cube.npz", "--model", "m.npz").stderr
    assert "view_a: must hold a matrix of numbers; got float64 of shape (5, 3, 2); make rows of it by reshape" in told


@pytest.mark.long
@NOT_CONVERGED
def test_evaluate_goes_on_and_tells_methods_apart(files):
    plan = ("--splits", 2, "--ranks", 6, "--methods", "multiview,concatenation")
    arguments = ("both.npz", *plan, "--out", "r", "--json")
    first = run_command("evaluate", "multiview", *arguments, "--conditions", "clean,view-missing", "--plots")
    assert first.exit_code == 0, first.stderr
    scores = json.loads(first.stdout)["table"]
    found = {(row["condition"], row["missing"], row["method"]): row["accuracy"] for row in scores}
    assert found["clean", "", "multiview"] > 0.8  # one view alone tells two pairs apart, which is 0.5
    assert found["view-missing", "images", "multiview"] < 0.8  # the view that tells the pairs apart has gone
    assert (files / "r" / "scores.png").stat().st_size > 1000
    before = (files / "r" / "jobs" / "clean-multiview-0.json").stat().st_mtime_ns
    again = run_command("evaluate", "multiview", *arguments, "--conditions", "clean,view-missing")
    assert json.loads(again.stdout)["table"] == scores
    assert (files / "r" / "jobs" / "clean-multiview-0.json").stat().st_mtime_ns == before


@pytest.mark.long
@NOT_CONVERGED
@pytest.mark.parametrize("method", METHODS)
def test_every_method_beats_chance_by_far(made, method):
    views, labels = made
    found = compare(views, labels, method, ranks=(6,), splits=3)
    assert set(found.rows[0]) == set(COLUMNS)
    assert found.table[0]["accuracy"] > 0.7  # of three splits into 30 and 30 samples; chance is 0.25


def test_words_are_scored_by_average_precision_and_labels_of_one_sample_refused(made):
    views, labels = made
    words = np.array([[label // 2, label % 2] for label in labels])
    rows = compare(views, words, "concatenation").rows
    assert rows[0]["average_precision"] > 0.9 and np.isnan(rows[0]["accuracy"])
    with pytest.raises(ParameterError, match="labels must have two samples of each class; got a class of one"):
        compare(made[0], np.arange(60), "concatenation")


def test_more_words_than_a_byte_counts(rng):
    features = rng.standard_normal((40, 5))
    words = features[:, np.arange(260) % 5] > 0.5
    for kind in (bool, np.uint8, int):
        scores = fit_classifier(features, words.astype(kind))[0].decision_function(features)
        assert ((scores > 0) == words).mean() > 0.8, kind


def test_conditions_do_what_they_say(made, rng):
    views = Preparation().fit(made[0]).transform(made[0])
    for condition in VIEW_CONDITIONS:
        (name, train, test), *more = apply_condition(condition, views, views, np.random.default_rng(0))
        assert name == "" and set(train) == set(test) == set(views)
        np.testing.assert_array_equal(test["sounds"], views["sounds"])
        changed = np.mean(np.hstack([train[v] != views[v] for v in views]))
        low, high = {"salt-and-pepper": (0.1, 0.21), "view-corrupted": (0.1, 0.25), "train-missing": (0.15, 0.4)}.get(
            condition, (0, 0)
        )
        assert low <= changed <= high
        assert len(more) == (2 if condition == "view-missing" else 0)
    left = apply_condition("train-missing", views, views, rng)[0][1]
    assert not np.isnan(np.hstack(list(left.values()))).all(axis=1).any()


def test_preparation_goes_back_and_leaves_gaps(made):
    views = {**made[0], "words": np.where(np.arange(600).reshape(60, 10) % 11 == 0, 3.0, 0.0)}
    views["sounds"][3] = np.nan
    preparation = Preparation().fit(views)
    assert preparation.kinds_ == {"sounds": "range", "images": "range", "words": "rows"}
    ready = preparation.transform(views)
    assert all(np.nanmin(view) >= 0 for view in ready.values()) and np.isnan(ready["sounds"][3]).all()
    assert np.nanmax(ready["images"]) == pytest.approx(1)
    back = preparation.inverse_transform({"images": ready["images"]})["images"]
    np.testing.assert_allclose(back, views["images"])
    with pytest.raises(UnsupportedError, match="words: cannot be converted back from prepare='rows'"):
        preparation.inverse_transform({"words": ready["words"]})


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int8, np.float32])
def test_whole_numbers_do_not_wrap_around_in_a_preparation(dtype):
    preparation = Preparation("range").fit({"a": np.array([[10, 20], [30, 40]], dtype)})
    ready = preparation.transform({"a": np.array([[9, 25], [127, 30]], dtype)})["a"]
    np.testing.assert_allclose(ready, [[0, 0.25], [5.85, 0.5]], rtol=1e-6)
    assert ready.dtype == (np.float32 if dtype == np.float32 else np.float64)


@pytest.mark.parametrize(
    ("views", "sentence"),
    [
        ({"b": np.ones((2, 2))}, "views must be of training, a; got 'b'"),
        ({"a": np.ones((2, 3))}, "view a must have 2 features as in training; got 3"),
        ([np.ones((2, 2))], "views must be a dict of names and arrays; got "),
        ({"a": sp.csr_array(np.ones((2, 2)))}, "(?i)sparse"),
        ({"a": np.ones(2)}, "2D array"),
    ],
)
def test_a_preparation_refuses_other_views(views, sentence):
    preparation = Preparation("range")
    with pytest.raises(NotFittedError):
        preparation.transform(views)
    preparation.fit({"a": np.arange(4.0).reshape(2, 2)})
    with pytest.raises((ParameterError, TypeError, ValueError), match=sentence):
        preparation.transform(views)


def test_flss_falls_and_leaves_views_out(made, monkeypatch):
    side = SideBySide(Preparation().fit(made[0]).transform(made[0]))
    model = FLSS(4, side.groups, random_state=0).fit(side.train)
    assert (np.diff(model.objective_history_) <= 1e-9 * model.objective_history_[0]).all()
    left = np.linalg.norm(side.train - model.transform(side.train) @ model.components_)
    assert left < 0.5 * np.linalg.norm(side.train)
    monkeypatch.setattr(view_methods, "DICTIONARY_WEIGHT", 1e3)
    heavy = FLSS(4, side.groups, random_state=0).fit(side.train)
    assert not heavy.components_.any()


def test_inputs_are_never_overwritten(files, made):
    (files / "a=b").mkdir()
    np.save("a=b/images.npy", made[0]["images"])
    run_command("multiview", "fit", "images=images.npy", "--model", "m.npz", "--rank", 2)
    before = {path: path.read_bytes() for path in files.rglob("*") if path.is_file()}
    for arguments in (
        ["fit", "a=b/images.npy", "--model", "a=b/images.npy"],
        ["transform", "m.npz", "images=images.npy", "--codes", "images.npy"],
        ["impute", "m.npz", "images=images.csv", "--key", "id", "--out", "."],
    ):
        result = run_command("multiview", *arguments, "--force")
        assert result.exit_code == 2 and "would overwrite the input" in result.stderr, result.stderr
    assert before == {path: path.read_bytes() for path in files.rglob("*") if path.is_file()}


def test_folders_that_a_model_cannot_describe_are_refused(files):
    for name in ("here", "there"):
        (files / name).mkdir()
        (files / name / "a.png").write_bytes(b"")
    run_command("multiview", "fit", "both.npz", "--model", "m.npz", "--rank", 2)
    for arguments, sentence in (
        (["fit", "x=here", "y=there", "--kinds", "gist", "--model", "n.npz"], "there: a second folder of images"),
        (["transform", "m.npz", "images=here", "--codes", "c.csv"], "here: a folder, but the model was not fitted"),
    ):
        result = run_command("multiview", *arguments)
        assert result.exit_code == 2 and sentence in result.stderr and result.stderr.count("\n") == 1, result.stderr


def test_negative_counts_are_refused_and_missing_cells_are_no_zeros_of_counts(rng):
    gaps = np.where(rng.random((100, 20)) < 0.95, np.nan, 1 + rng.random((100, 20)))
    assert Preparation().fit({"dense": gaps}).kinds_ == {"dense": "range"}
    words = np.where(np.arange(600).reshape(60, 10) % 11 == 0, 3.0, 0.0)
    preparation = Preparation().fit({"words": words})
    with pytest.raises(UnsupportedError, match="words: must be >= 0 to be prepared by rows; got -2"):
        preparation.transform({"words": words - 2})


def test_each_rank_has_a_row_where_none_is_chosen(made):
    views, labels = made
    words = word_matrix(np.array([("sky; tree", "sea", " tree", "sky ;sea ")[label] for label in labels]))
    assert words.shape == (60, 3)  # sea, sky, tree
    found = compare(views, words, "pca", ranks=(1, 6), splits=2)
    first, second = found.table
    assert (first["rank"], second["rank"]) == (1, 6) and first["average_precision"] < second["average_precision"]
    deviation = np.std([found.rows[i]["average_precision"] for i in (0, 2)])
    assert first["average_precision_deviation"] == pytest.approx(deviation) and first["accuracy"] is None
    (chosen,) = by_method([{**row, "inner": row["rank"]} for row in found.rows])
    assert chosen["rank"] == 6


def test_samples_keep_a_view_that_they_have(made):
    views, labels = {name: view.copy() for name, view in made[0].items()}, made[1]
    views["sounds"][::2] = np.nan
    for seed in range(5):
        ((_, train, _),) = apply_condition("train-missing", views, views, np.random.default_rng(seed))
        assert observed(train).all()
    rows = compare(views, labels, "multiview", ranks=(2,), conditions=("view-missing",)).rows
    assert [row["missing"] for row in rows] == ["", "sounds", "images"]


def test_names_of_views_make_files_of_their_own():
    assert _stems(["a/b", "a b", "A_b", "a_b-1", "..\\é", ""]) == ["a_b", "a_b-1", "A_b-2", "a_b-1-3", ".._é", "view"]


@NOT_CONVERGED
def test_a_folder_of_images_and_a_parquet_file(tmp_path, monkeypatch, rng):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    red = np.arange(16) % 2 == 0
    for i in range(16):
        picture = rng.integers(0, 60, (24, 32, 3))
        picture[..., 0 if red[i] else 2] += 150
        write_image(tmp_path / "photos" / f"p{i}.png", picture.astype(np.uint8))
    words = np.where(red[:, None], [3, 0, 1], [0, 2, 1]) * rng.uniform(0.8, 1.2, (16, 3))
    known = range(15, 2, -1)  # in another order; three images have no words
    columns = {"image": [f"p{i}" for i in known], **{f"w{j}": words[list(known), j] for j in range(3)}}
    parquet.write_table(pyarrow.table(columns), "words.parquet")
    both = ["photos/", "words.parquet", "--key", "image"]
    fit = run_command(
        "multiview", "fit", *both, "--kinds", "lab", "--prepare", "range", "--model", "m.npz", "--rank", 2
    )
    assert fit.exit_code == 0, fit.stderr
    assert "words is missing for 3 of 16 samples: p0, p1, p2" in fit.stdout
    filled = run_command("multiview", "impute", "m.npz", "photos/", "--key", "image", "--out", "all")
    assert filled.exit_code == 0, filled.stderr
    found = read_views(["all/words.csv"], key="image")  # the key has the name that was given
    assert sorted(found.keys) == sorted(f"p{i}" for i in range(16))
    again = run_command("multiview", "transform", "m.npz", "all/words.csv", "--key", "image", "--codes", "c.csv")
    assert again.exit_code == 0 and Path("c.csv").read_text().startswith("image,component0,")
    for name, (first, second, _) in zip(found.keys, found.views["words"], strict=True):
        assert (first > second) == red[int(name[1:])]
    codes = run_command("multiview", "transform", "m.npz", "words.parquet", "--key", "image", "--codes", "c.npy")
    assert codes.exit_code == 0 and np.load("c.npy").shape == (13, 2)
    (tmp_path / "labels.csv").write_text("image,kind\n" + "".join(f"p{i},{'br'[int(red[i])]}\n" for i in range(16)))
    plan = ["--ranks", 2, "--splits", 1, "--methods", "multiview", "--out", "r"]
    scores = run_command("evaluate", "multiview", *both, "--labels", "labels.csv", "--column", "kind", *plan, "--json")
    assert scores.exit_code == 0, scores.stderr
    assert json.loads(scores.stdout)["table"][0]["accuracy"] == 1


@NOT_CONVERGED
def test_a_rare_view_may_be_in_no_training_sample(rng):
    codes = rng.gamma(1, size=(40, 3))
    views = {"many": codes @ rng.random((3, 8)), "few": np.full((40, 5), np.nan)}
    views["few"][:1] = codes[:1] @ rng.random((3, 5))  # in some splits no training sample has it
    classes, conditions = np.arange(40) % 2, ("clean", "train-missing")
    rows = compare(views, classes, "multiview", "pca", ranks=(2,), splits=3, conditions=conditions).rows
    assert len(rows) == 12 and all(0 <= row["accuracy"] <= 1 for row in rows)


def test_signed_roots_are_of_orthonormal_coordinates(rng):
    """Before the roots, distances are those of the reconstructions."""
    W, H = rng.random((9, 3)), rng.random((3, 20))
    roots = signed_roots(W, H @ H.T)
    turned = np.sign(roots) * roots**2
    np.testing.assert_allclose(pdist(turned), pdist(W @ H))
    np.testing.assert_allclose(signed_roots(W - 0.5), np.sign(W - 0.5) * np.sqrt(np.abs(W - 0.5)))
    y = np.repeat([0, 1, 2], 3)
    search, score = fit_classifier(W, y, H @ H.T)
    assert 0 <= score <= 1 and search.predict(W).shape == (9,)
    assert np.isnan(fit_classifier(W, np.arange(9))[1])
