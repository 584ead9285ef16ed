"""Faces from end to end: model files, the comparison of methods, pictures and commands."""

import csv
import json
import math
import sys
import zipfile

import numpy as np
import pytest
from helpers import SHAPE, made_faces, rows
from PIL import Image
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist
from sklearn.model_selection import StratifiedKFold
from typer.testing import CliRunner

from visionnmf.apps.cli import app
from visionnmf.apps.faces import (
    FaceModel,
    FaceRecognizer,
    Plan,
    compare,
    comparison,
    curves_picture,
    find_face,
    load,
    open_faces,
    parse_corruption,
    parse_ranks,
    read_face,
    save,
    shadows_picture,
)
from visionnmf.apps.faces import methods as _faces_methods
from visionnmf.apps.faces.draw import montage_picture
from visionnmf.apps.faces.methods import CHOSEN, MODELS, RANKLESS, fit_model, score_chosen, score_model
from visionnmf.datasets import Faces
from visionnmf.exceptions import OutputExistsError, ParameterError, UnreadableError, UnsupportedError
from visionnmf.io import read_image


@pytest.fixture
def faces(rng):
    images, labels = made_faces(rng, 4, 6)
    return Faces(images, np.repeat(np.arange(1, 5), 6), tuple(np.unique(labels)))


@pytest.fixture
def folder(faces, tmp_path):
    place = tmp_path / "people"
    for label, name in enumerate(faces.names, 1):
        (place / name).mkdir(parents=True)
        for number, image in enumerate(faces.images[faces.labels == label]):
            Image.fromarray(image).save(place / name / f"{number}.png")
    return place


@pytest.fixture
def model(faces, tmp_path):
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0)
    recognizer.fit(rows(faces.images), np.array(faces.names)[faces.labels - 1])
    path = tmp_path / "people.npz"
    save(FaceModel(recognizer), path)
    return path, recognizer


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


# --- model files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["residual", "whitened", "codes", "pseudo-inverse"])
def test_a_saved_model_says_the_same(faces, tmp_path, rule):
    names = np.array(faces.names)[faces.labels - 1]
    recognizer = FaceRecognizer(rule=rule, image_shape=SHAPE, random_state=0).fit(rows(faces.images), names)
    save(FaceModel(recognizer, detect=True), tmp_path / "m.npz")
    again = load(tmp_path / "m.npz")
    assert again.detect
    assert np.allclose(again.recognizer.distances(rows(faces.images)), recognizer.distances(rows(faces.images)), 1e-4)
    assert again.recognizer.identify(rows(faces.images[:3])) == recognizer.identify(rows(faces.images[:3]))


def test_a_model_is_not_overwritten_unasked(model):
    with pytest.raises(OutputExistsError, match="--force"):
        save(FaceModel(model[1]), model[0])


def test_only_named_people_and_known_shapes_are_saved(faces, tmp_path):
    recognizer = FaceRecognizer(random_state=0).fit(rows(faces.images), faces.labels)
    with pytest.raises(ParameterError, match="only recognizers of named people with an image_shape"):
        save(FaceModel(recognizer), tmp_path / "m.npz")


def rewritten(path, **changes):
    """Change arrays of a model, or its header through a function."""
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(arrays["header"].tobytes())
    for name, change in changes.items():
        if name == "header":
            change(header)
        else:
            arrays[name] = change(arrays[name])
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"components": lambda a: a[:, 1:]},
        {"components": lambda a: -a},
        {"components": lambda a: a * np.nan},
        {"people": lambda a: a * 0},
        {"people": lambda a: a + 1},
        {"component_norms": lambda a: a * 0},
        {"cleaned": lambda a: a[:-1]},
        {"header": lambda h: h.update(names=h["names"][:-1])},
        {"header": lambda h: h.update(names=h["names"][::-1])},
        {"header": lambda h: h["numbers"].update(threshold_="infinity")},
        {"header": lambda h: h["parameters"].update(rule="svm")},
        {"header": lambda h: h.update(image_shape=[1, 1])},
        {"header": lambda h: h.pop("model")},
    ],
)
def test_a_damaged_model_is_refused(model, changes):
    with pytest.raises(UnreadableError, match="damaged, or not a model of faces"):
        load(rewritten(model[0], **changes))


def test_other_files_are_refused(model, tmp_path):
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(UnreadableError, match="damaged, or not a model of faces"):
        load(tmp_path / "text.npz")
    with pytest.raises(UnsupportedError, match="written by a later version"):
        load(rewritten(model[0], header=lambda h: h.update(version=3)))
    with pytest.raises(UnsupportedError, match="written by an earlier version of visionnmf; train it again"):
        load(rewritten(model[0], header=lambda h: h.update(version=1)))
    with pytest.raises(UnreadableError, match="not a model of faces; make one with"):
        load(rewritten(model[0], header=lambda h: h.update(format="other")))


def test_compressed_models_are_refused(model, tmp_path):
    packed = tmp_path / "packed.npz"
    with zipfile.ZipFile(model[0]) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    with pytest.raises(UnreadableError, match="it is compressed"):
        load(packed)


# --- the comparison of methods ----------------------------------------------------------------------------------------


def test_every_method_recognises_made_people(faces):
    methods = (*MODELS, *CHOSEN, *RANKLESS)
    plan = Plan(methods=methods, ranks=(8,), splits=1, per_person=4, iterations=50)
    means = compare(faces, plan).means()
    assert {key[2] for key in means} == set(methods)
    assert min(mean for mean, _ in means.values()) > 60
    assert means["none", None, "recognizer", None, None, "clean"][0] == 100


def test_rules_of_classification(faces):
    """By hand: nearest in angle to the codes, as they are and after division by the root of their second moments."""
    plan = Plan((("laplace", 60),), splits=1, per_person=3)
    rules = ("codes", "whitened", "pseudo-inverse")
    table = []
    for split in range(4):
        task = comparison.make_task(faces, plan.corruptions[0], split, plan)
        fitted = fit_model("frobenius", task, 5, 0, 20)
        model = fitted.model
        norms = np.linalg.norm(model.components_, axis=1)
        train, test = fitted.codes * norms, model.transform(task.tests["clean"]) * norms
        moments = train.T.astype(float) @ train / len(train)
        root = np.linalg.inv(sqrtm(moments + 0.1 * np.trace(moments) / 5 * np.eye(5)))
        pseudo = task.tests["clean"] @ np.linalg.pinv(model.components_ / norms[:, None])
        distances = (cdist(test, train, "cosine"), cdist(test @ root, train @ root, "cosine"), cdist(pseudo, train))
        expected = [100 * (task.people[each.argmin(axis=1)] == task.answers).mean() for each in distances]
        rows = score_model("frobenius", fitted, task, rules)
        assert [row["accuracy"] for row in rows] == pytest.approx(expected)
        assert rows[0]["test_error"] == rows[1]["test_error"] >= 0.9999 * rows[2]["test_error"]  # nearest: projection
        table.append(expected)
    assert len(set(zip(*table, strict=True))) == 3  # else the rules could not be told apart


def test_penalty_is_chosen_for_each_rule(faces, monkeypatch):
    """Each rule has the model that does best on left-out training images, told here; test images are not looked at."""
    task = comparison.make_task(faces, ("salt_and_pepper", 0.3), 0, Plan(splits=1, per_person=4))
    assert CHOSEN["manhattan-cv"] == ("manhattan", "manhattan-light")
    scores = {("manhattan", "codes"): 0.9, ("manhattan-light", "pseudo-inverse"): 0.9}
    names = {}

    def told(fitted, task, rule):
        assert not hasattr(task, "seen")
        return scores.get((names[fitted.model.nuclear], rule), 0.5)

    names |= {1.0: "manhattan", 0.3: "manhattan-light"}
    rules = ("pseudo-inverse", "codes", "whitened")
    with monkeypatch.context() as patch:
        patch.setattr(_faces_methods, "_cross_validated", told)
        rows = score_chosen("manhattan-cv", task, 5, 0, 50, rules)
    fits = {name: fit_model(name, task, 5, 0, 50) for name in CHOSEN["manhattan-cv"]}
    alone = [
        score_model(name, fits[name], task, (rule,))[0]
        for rule, name in zip(rules, ("manhattan-light", "manhattan", "manhattan"), strict=True)
    ]
    assert rows == alone  # in the order of the rules; the first where nothing tells


def test_left_out_images_are_named_as_new_ones_are(faces):
    """By hand: of five folds, projected for the pseudo-inverse, else by their own codes."""
    task = comparison.make_task(faces, ("laplace", 60), 0, Plan(splits=1, per_person=4))
    fitted = fit_model("manhattan-light", task, 5, 0, 50)
    norms = np.linalg.norm(fitted.model.components_, axis=1)
    codes = fitted.codes * norms
    projected = task.train @ np.linalg.pinv(fitted.model.components_ / norms[:, None])
    for rule, new, metric in (("pseudo-inverse", projected, "euclidean"), ("codes", codes, "cosine")):
        hits = []
        for rest, left in StratifiedKFold(4, shuffle=True, random_state=0).split(codes, task.people):
            nearest = cdist(new[left], codes[rest], metric).argmin(axis=1)
            hits += list(task.people[rest][nearest] == task.people[left])
        assert _faces_methods._cross_validated(fitted, task, rule) == pytest.approx(np.mean(hits))
    untold = task._replace(people=np.arange(len(task.people)))
    assert _faces_methods._cross_validated(fitted, untold, "codes") == 0  # one image each: nothing to choose by


def test_blocks_count_as_missing(faces):
    plan = Plan((("occlusion", 10),), splits=1, per_person=4)
    task = comparison.make_task(faces, plan.corruptions[0], 0, plan)
    errors = {}
    for name in ("manhattan", "manhattan-blocks"):
        fitted = fit_model(name, task, 3, 0, 50)
        errors[name] = score_model(name, fitted, task, ("codes",))[0]["train_error"]
    assert errors["manhattan-blocks"] < 0.6 * errors["manhattan"]


def test_an_interrupted_comparison_goes_on(faces, tmp_path, monkeypatch):
    plan = Plan((("none", None), ("laplace", 20)), ("raw", "pca"), (2, 3), splits=2, per_person=3)
    whole = compare(faces, plan, out=tmp_path / "whole")
    job, done = comparison.run_job, []

    def stops(*arguments):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(arguments)
        return job(*arguments)

    monkeypatch.setattr(comparison, "run_job", stops)
    with pytest.raises(KeyboardInterrupt):
        compare(faces, plan, out=tmp_path / "parts")
    done.clear()
    parts = compare(faces, plan, out=tmp_path / "parts")
    assert len(done) == 1  # the fourth alone
    timeless = [[{**row, "seconds": None} for row in found.rows] for found in (whole, parts)]
    assert timeless[0] == timeless[1]
    with (tmp_path / "parts" / "results.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(parts.rows) == 2 * 2 * (1 + 2 * 3)


def test_another_plan_or_data_set_is_run_anew(faces, tmp_path):
    plan = Plan(methods=("raw",), splits=1, per_person=3)
    first = compare(faces, plan, out=tmp_path).rows[0]["accuracy"]
    other = Faces(faces.images[:, ::-1].copy() // 2, faces.labels[::-1].copy(), faces.names)
    seen = []
    with pytest.raises(OutputExistsError, match="of other options or images; give another --out, or --force"):
        compare(other, plan, out=tmp_path)
    compare(other, plan, out=tmp_path, force=True, progress=lambda *counts: seen.append(counts))
    assert seen == [(1, 1)] and first == 100


def test_results_of_somebody_else_are_kept(faces, tmp_path):
    (tmp_path / "results.csv").write_text("mine")
    plan = Plan(methods=("raw",), splits=1, per_person=3)
    with pytest.raises(OutputExistsError, match=r"results.csv: exists already"):
        compare(faces, plan, out=tmp_path)
    assert (tmp_path / "results.csv").read_text() == "mine"


def test_ranks_are_taken_down_to_what_there_is(faces):
    found = compare(faces, Plan(methods=("pca",), ranks=(2, 500, 900), splits=1, per_person=3))
    assert {row["rank"] for row in found.rows} == {2, 12}


def test_one_person_cannot_be_told_apart(faces):
    alone = Faces(faces.images[:6], faces.labels[:6], faces.names[:1])
    with pytest.raises(ParameterError, match="there must be two people at least"):
        compare(alone, Plan(methods=("raw",), per_person=3))


def test_processes_find_the_same(faces):
    plan = Plan((("salt_and_pepper", 0.2),), ("raw", "pca"), (4,), splits=2, per_person=3)
    one, two = (compare(faces, plan, jobs=jobs).means() for jobs in (1, 2))
    assert one == two


def test_corrupted_tests_are_corrupted(faces):
    plan = Plan((("occlusion", 14),), ("raw",), splits=2, per_person=4, tests=("clean", "corrupted"))
    task = comparison.make_task(faces, plan.corruptions[0], 0, plan)
    assert (task.tests["clean"] < 1).all() and (task.tests["corrupted"] == 1).mean() > 0.5
    assert (task.train == 1).mean() > 0.5 and (task.clean < 1).all()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"methods": ("svm",)}, "methods must be some of .* got 'svm'"),
        ({"corruptions": (("rain", None),)}, "corruption must be some of .* got 'rain'"),
        ({"per_person": 6}, "has 6 images; 6 to train leave none to test"),
        ({"corruptions": (("none", None), ("salt_and_pepper", 3)), "per_person": 3}, "at most 1, got 3"),
        ({"splits": 0}, "splits must be at least 1; got 0"),
        ({"ranks": ()}, "ranks must be whole numbers from 1"),
    ],
)
def test_plans_that_make_no_sense(faces, values, sentence):
    with pytest.raises(ParameterError, match=sentence):
        compare(faces, Plan(**values))


def test_ranks_and_corruptions_are_read():
    assert parse_ranks("5,10-30/10,5") == (5, 10, 20, 30)
    assert parse_corruption("laplace:20") == ("laplace", 20) and parse_corruption("none") == ("none", None)
    assert repr(parse_corruption("occlusion:12")) == "('occlusion', 12)"  # an int: the side of a block
    for text in ("laplace:nan", "laplace:inf"):
        with pytest.raises(ParameterError, match="--corruption must be KIND or KIND:SEVERITY"):
            parse_corruption(text)
    for text in ("", "a", "3-1", "1-9/0", "1-99999"):
        with pytest.raises(ParameterError, match="--ranks must be"):
            parse_ranks(text)
    with pytest.raises(ParameterError, match="--corruption must be KIND or KIND:SEVERITY"):
        parse_corruption("laplace:many")


def test_curves_are_drawn(faces, tmp_path):
    pytest.importorskip("matplotlib")
    plan = Plan((("none", None), ("laplace", 20)), ("raw", "pca"), (2, 3), splits=2, per_person=3)
    found = compare(faces, plan)
    curves_picture(found, tmp_path / "curves.png")
    assert np.ptp(np.asarray(Image.open(tmp_path / "curves.png"))) > 200


def test_montages_have_a_row_of_images_each(tmp_path):
    pytest.importorskip("matplotlib")
    rows = {"one": np.zeros((3, 256)), "two": np.ones((3, 256))}
    montage_picture(rows, SHAPE, tmp_path / "m.png")
    drawn = np.asarray(Image.open(tmp_path / "m.png"))[..., 0]
    half = drawn.shape[0] // 2
    assert (drawn[:half] == 0).mean() > 0.4 and (drawn[half:] == 0).mean() < 0.05


def test_shadows_are_dark_and_highlights_bright():
    images, shadows = np.full((2, 256), 100.0), np.zeros((2, 256))
    shadows[0], shadows[1] = -100, 100
    sheet = shadows_picture(images, images, shadows, SHAPE)
    assert sheet[0, 0, 0] == 100 and sheet[-1, 0, 0] < 100 < sheet[-1, -1, 0]


def test_without_matplotlib_it_is_said(faces, tmp_path, monkeypatch):
    found = compare(faces, Plan(methods=("raw",), splits=1, per_person=3))
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(
        ParameterError, match=r"plots need matplotlib; install it with: pip install 'visionnmf\[plots\]'"
    ):
        curves_picture(found, tmp_path / "curves.png")


# --- detection --------------------------------------------------------------------------------------------------------


def test_a_face_is_found_at_any_size():
    image = read_image("sample:astronaut")
    row, column, height, width = find_face(image)
    assert 40 < row < 110 and 150 < column < 200 and 60 < height < 150 and 60 < width < 150
    large = image.repeat(3, axis=0).repeat(3, axis=1)
    found = np.array(find_face(large)) / 3
    assert np.abs(found - (row, column, height, width)).max() < 25


def test_where_there_is_no_face_it_is_said(tmp_path):
    assert find_face(np.zeros((100, 100, 3), np.uint8)) is None
    assert find_face(np.zeros((10, 10, 3), np.uint8)) is None
    Image.new("RGB", (80, 80)).save(tmp_path / "black.png")
    with pytest.raises(UnreadableError, match="no upright frontal face was found"):
        read_face(tmp_path / "black.png")


def test_detection_is_for_folders_and_fetched_faces_are_scaled(faces, tmp_path, monkeypatch):
    np.savez(tmp_path / "faces.npz", images=faces.images, labels=faces.labels)
    for source in (tmp_path / "faces.npz", "orl"):
        with pytest.raises(ParameterError, match="--detect looks for faces on the photographs of a folder"):
            open_faces(source, detect=True)
    monkeypatch.setattr("visionnmf.datasets.fetch_orl", lambda: faces)
    assert open_faces("orl", size=8)[0].images.shape == (24, 8, 8)


# --- commands ---------------------------------------------------------------------------------------------------------


def test_train_and_identify(folder, tmp_path):
    model, out = tmp_path / "m.npz", tmp_path / "pictures"
    trained = run("faces", "train", folder, "--model", model, "--pictures", out, "--json")
    report = json.loads(trained.stdout)
    assert trained.exit_code == 0 and report["people"] == [f"person {i}" for i in range(4)] and report["images"] == 24
    assert sorted(path.name for path in out.iterdir()) == ["components.png", "corrupted.png"]
    image = folder / "person 2" / "3.png"
    found = run("faces", "identify", model, image, tmp_path / "none.png", "--pictures", out, "--json")
    (first, second) = json.loads(found.stdout)["images"]
    assert found.exit_code == 1 and first["person"] == "person 2" and "no such file" in second["error"]
    assert (out / "3_corrupted.png").exists()
    again = run("faces", "train", folder, "--model", model)
    assert again.exit_code == 2 and "--force" in again.stderr


def test_images_of_one_name_are_identified_and_their_pictures_kept_apart(model, folder, tmp_path):
    same = [folder / f"person {i}" / "0.png" for i in (0, 1)]
    both = run("faces", "identify", model[0], *same)
    assert both.exit_code == 0 and both.stdout.count("\n") == 2
    drawn = run("faces", "identify", model[0], *same, "--pictures", tmp_path / "out")
    assert drawn.exit_code == 1 and "would have the names of those of" in drawn.stderr


def test_an_interrupted_evaluation_says_that_it_can_go_on(folder, tmp_path, monkeypatch):
    def stops(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "run_job", stops)
    result = run("faces", "evaluate", folder, "--train", 3, "--out", tmp_path / "out")
    assert result.exit_code == 130 and result.stderr.count("\n") == 1 and "finished splits are kept" in result.stderr


def test_identify_in_words(model, folder):
    result = run("faces", "identify", model[0], folder / "person 1" / "0.png", "sample:coins")
    first, second = result.stdout.splitlines()
    assert "person 1, distance 0." in first
    assert "nearest: person" in second or "person" in second


def test_a_picture_that_cannot_be_read_is_left_out(folder, tmp_path):
    (folder / "person 0" / "7.png").write_text("no picture")
    result = run("faces", "train", folder, "--model", tmp_path / "m.npz")
    assert result.exit_code == 1 and "7.png" in result.stdout and (tmp_path / "m.npz").exists()


@pytest.mark.parametrize("command", ["cluster", "evaluate"])
def test_what_is_left_out_is_said_once(folder, tmp_path, command):
    (folder / "person 0" / "7.png").write_text("no picture")
    options = ("--methods", "raw", "--splits", 1, "--train", 3) if command == "evaluate" else ()
    result = run("faces", command, folder, *options, "--out", tmp_path / "out")
    assert result.exit_code == 1 and result.stdout.count("left out: ") == 1 and "7.png" in result.stdout


def test_what_cannot_be_calibrated_is_not_claimed(folder, tmp_path):
    for i in range(4):
        for path in list((folder / f"person {i}").iterdir())[1:]:
            path.unlink()
    few = run("faces", "train", folder, "--model", tmp_path / "a.npz")
    assert few.exit_code == 0 and "of the known are rejected is not known" in few.stdout
    assert math.isnan(load(tmp_path / "a.npz").recognizer.false_rejection_rate_)
    for i in (2, 3):
        (folder / f"person {i}" / next((folder / f"person {i}").iterdir()).name).unlink()
    two = run("faces", "train", folder, "--model", tmp_path / "b.npz")
    assert two.exit_code == 0 and "all pass here" in two.stdout and "of strangers pass" not in two.stdout
    again = run("faces", "train", folder, "--model", tmp_path / "c.npz", "--json")
    assert json.loads(again.stdout)["false_rejection_rate"] is None


def test_bad_places_for_results_are_refused_by_their_name(folder, model, tmp_path):
    image = folder / "person 1" / "0.png"
    refused = run("faces", "identify", model[0], image, "--pictures", image)
    assert refused.exit_code == 2 and refused.stderr.startswith("visionnmf: --pictures ")
    refused = run("faces", "train", folder, "--model", tmp_path / "none" / "m.npz", "--pictures", tmp_path / "out")
    assert refused.exit_code == 2 and "create it first" in refused.stderr and not list((tmp_path / "out").iterdir())


def test_cluster(folder, tmp_path):
    result = run("faces", "cluster", folder, "--out", tmp_path / "out", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 0 and report["accuracy"] > 0.7 and len(report["clusters"]) == 24
    with (tmp_path / "out" / "clusters.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["file"] == "person 0/0.png"


def test_shadows(rng, tmp_path):
    lights = rng.random((40, 3)) @ rng.random((3, 24 * 20)) * 80  # grey levels
    dark = np.where(rng.random(lights.shape) < 0.15, 0, lights)
    source, out = tmp_path / "ada", tmp_path / "out"
    source.mkdir()
    for number, image in enumerate(dark.astype(np.uint8).reshape(-1, 24, 20)):
        Image.fromarray(image).save(source / f"{number}.png")
    result = run("faces", "shadows", source, "--out", out, "--json")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["people"], report["images"]) == (1, 40) and 0.1 < report["changed"] < 0.2
    assert {path.name for path in out.iterdir()} == {"shadows.png"} | {f"{k}_unshadowed.png" for k in range(40)}
    found = np.stack([read_image(out / f"{k}_unshadowed.png")[..., 0] for k in range(40)]).reshape(40, -1)
    assert np.abs(found - lights)[dark == 0].mean() < 3  # of about 60
    assert read_image(out / "shadows.png").shape[0] > 3 * 24
    for refused, reason in (
        (run("faces", "shadows", source, "--out", out), "exists"),
        (run("faces", "shadows", source, "--out", source / "out", "--force"), "taken for faces; give another folder"),
        (
            run("faces", "shadows", source, "--rank", 40, "--out", tmp_path / "more"),
            "images: 40; at least 41 under different light",
        ),
    ):
        assert refused.exit_code == 2 and reason in refused.stderr and refused.stderr.count("\n") == 1
    assert len(list(source.iterdir())) == 40


def test_shadows_of_several_people(rng, tmp_path):
    """Each has a model of their own; whoever has too few images is left out, and named."""
    source, out = tmp_path / "people", tmp_path / "out"
    for name, count in (("ada", 20), ("bob", 20), ("cy", 3)):
        (source / name).mkdir(parents=True)
        images = rng.random((count, 3)) @ rng.random((3, 400)) * 80
        for number, image in enumerate(images.reshape(-1, 20, 20)):
            Image.fromarray(image.astype(np.uint8)).save(source / name / f"{number}.png")
    (source / "ada" / "0.bmp").write_bytes((source / "ada" / "0.png").read_bytes())
    result = run("faces", "shadows", source, "--out", out)
    assert result.exit_code == 1 and "41 images of 2 people; 0.0%" in result.stdout
    assert "left out: cy: images: 3; at least 4 under different light" in result.stdout
    assert len(list((out / "ada").glob("*.png"))) == 21 and not (out / "cy").exists()
    assert (out / "ada" / "0.bmp_unshadowed.png").exists() and (out / "ada" / "0.png_unshadowed.png").exists()
    for name in ("ada", "bob"):  # six dimensions are not three
        pictures = [read_image(source / name / f"{k}.png").astype(int) for k in range(20)]
        cleaned = [read_image(out / name / f"{k}.png_unshadowed.png").astype(int) for k in range(20)]
        assert np.abs(np.array(pictures) - cleaned).mean() < 2


def test_shadows_of_an_archive_stay_in_the_folder(rng, tmp_path):
    """Names inside it are a stranger's: they could lead anywhere."""
    archive, out = tmp_path / "faces.npz", tmp_path / "in" / "out"
    images = rng.integers(0, 255, (8, 12, 12)).astype(np.uint8)
    names = np.array([f"../escaped/{k}.png" for k in range(8)])
    np.savez(archive, images=images, labels=np.ones(8, np.int64), names=names)
    result = run("faces", "shadows", archive, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert {path.name for path in out.iterdir()} == {"shadows.png"} | {f"{k:04d}_unshadowed.png" for k in range(8)}
    assert {path.name for path in tmp_path.iterdir()} == {"faces.npz", "in"}
    assert not (tmp_path / "in" / "escaped").exists()


def test_images_are_never_overwritten_by_those_without_shadows(rng, tmp_path):
    source = tmp_path / "ada"
    source.mkdir()
    for name in ("0", "0_unshadowed", "1", "2", "3"):
        Image.fromarray(rng.integers(0, 255, (12, 12)).astype(np.uint8)).save(source / f"{name}.png")
    for name in ("people", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ada").symlink_to(source, target_is_directory=True)
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    refused = run("faces", "shadows", tmp_path / "people", "--out", tmp_path / "out", "--force")
    assert refused.exit_code == 2 and "would overwrite the input" in refused.stderr
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before


def test_images_mostly_in_shadow_are_counted(rng, tmp_path):
    images = rng.random((30, 3)) @ rng.random((3, 400)) * 80
    images[:4, 80:] = 0
    source = tmp_path / "faces.npz"
    shaped = images.reshape(-1, 20, 20).astype(np.uint8)
    np.savez(source, images=shaped, labels=np.ones(30, np.int64))
    result = run("faces", "shadows", source, "--out", tmp_path / "out")
    assert "4 of them lie mostly in shadow and come out dark" in result.stdout


def test_pictures_are_not_written_among_the_faces(folder, tmp_path):
    for command in (
        ("train", folder, "--model", tmp_path / "m.npz", "--pictures", folder / "p"),
        ("evaluate", folder, "--plots", "--methods", "raw", "--splits", 1, "--train", 3, "--out", folder / "p"),
    ):
        refused = run("faces", *command)
        assert refused.exit_code == 2 and "would be taken for faces" in refused.stderr, refused.output
        assert not (folder / "p").exists()


def test_evaluate(folder, tmp_path):
    pytest.importorskip("matplotlib")
    options = ("--methods", "raw,pca", "--ranks", "2,3", "--splits", 2, "--train", 3, "--plots", "--both")
    result = run("faces", "evaluate", folder, "--corruption", "occlusion:6", *options, "--out", tmp_path / "out")
    assert result.exit_code == 0 and "occlusion 6, both" in result.stdout and "pca 3, codes" in result.stdout
    written = {"results.csv", "accuracy.png", "components-occlusion-6.png", "reconstructions-occlusion-6.png"}
    assert written | {"jobs"} == {path.name for path in (tmp_path / "out").iterdir()}
    bad = run("faces", "evaluate", folder, "--corruption", "rain")
    assert bad.exit_code == 2 and bad.stderr.count("\n") == 1
