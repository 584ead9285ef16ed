"""``visionnmf faces``, as a user meets it."""

import csv
import json
import math
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from helpers import json_lines, rows, run_command as run
from PIL import Image, ImageFilter

from visionnmf.apps.cli import console
from visionnmf.apps.faces import (
    FaceIdentification,
    FaceModel,
    FaceRecognizer,
    distances,
    identification,
    load,
    reading,
    save,
    training,
)
from visionnmf.apps.faces.identification import Identifier
from visionnmf.exceptions import MediaError
from visionnmf.io import read_image

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


def test_train_and_identify(folder, tmp_path):
    model, out = tmp_path / "m.npz", tmp_path / "pictures"
    trained = run(
        "faces", "train", folder, "--model", model, "--pictures", out, "--json", "--report", tmp_path / "p.html"
    )
    report = json.loads(trained.stdout)
    page = (tmp_path / "p.html").read_text("utf-8")
    assert page.count("<figure") == 3 and "4</" in page and "24</" in page  # also without --pictures
    assert page.count("data:image/svg+xml") == 1 and all(f"<span>person {i}</span>" in page for i in range(4))
    assert trained.exit_code == 0 and report["people"] == [f"person {i}" for i in range(4)] and report["images"] == 24
    assert sorted(path.name for path in out.iterdir()) == ["components.png", "corrupted.png"]
    image = folder / "person 2" / "3.png"
    found = run("faces", "identify", model, image, tmp_path / "none.png", "--pictures", out, "--json")
    (second, first) = json_lines(found)
    assert found.exit_code == 1 and first["identity"]["person"] == "person 2" and "no such file" in second["error"]
    assert (out / "3_corrupted.png").exists()
    again = run("faces", "train", folder, "--model", model)
    assert again.exit_code == 2 and "--force" in again.stderr


def test_searches_that_serve_equally_well_make_no_difference(model):
    known = model[1]
    for scores, told in (
        ({"blocks": 0.8, "none": 0.8}, "no difference, blocks taken; probability"),
        ({"blocks": 0.8, "none": 0.7}, "missing pixels: blocks; probability"),
    ):
        known.missing_scores_ = scores
        assert told in training._lines(known, 24)[1]
    known.rate_intervals_ = np.array([[0.01, 0.1], [0.02, 0.123]])
    known.false_acceptance_rate_, known.false_rejection_rate_ = 0.05, 0.06
    told = training._lines(known, 24)[-1]
    assert "estimated for new pictures like the training pictures, 5.0% of unknown people pass" in told
    assert (
        "6.0% of known people are rejected (95% confidence: up to 12%); pictures taken one after another are too much"
        in told
    )


def test_images_of_other_noise_are_counted_once_with_the_direction(folder, tmp_path, monkeypatch):
    """Each of a batch has the note on its own page and in its JSON; the text says it of the first and of all."""
    monkeypatch.setattr(distances, "ENOUGH_ALIKE", 4)
    assert run("faces", "train", folder, "--model", tmp_path / "m.npz").exit_code == 0
    smooth = tmp_path / "smooth"
    smooth.mkdir()
    for number in range(3):
        picture = Image.open(folder / "person 1" / f"{number}.png").filter(ImageFilter.GaussianBlur(3))
        picture.save(smooth / f"{number}.png")
    found = run("faces", "identify", tmp_path / "m.npz", smooth)
    note = "less noise and fine detail than in the training images, as after JPEG or blur: "
    reports = json_lines(run("faces", "identify", tmp_path / "m.npz", smooth, "--json"))
    less = [report for report in reports if report["identity"]["noise"] == "less"]
    assert len(less) > 1 and all(report["notes"][0].startswith(note) for report in less)
    assert found.stdout.count(note) == 2 and f"\n{len(less)} of 3 images: {note}" in found.stdout
    (tmp_path / "none.png").write_text("no picture")
    mixed = run("faces", "identify", tmp_path / "m.npz", tmp_path / "none.png", folder / "person 1", smooth)
    numbers = dict(re.findall(r"\n  \[note (\d)\] (.*)", mixed.stdout))  # each is said once
    assert len({*numbers.values()}) == len(numbers)
    (number,) = [number for number, text in numbers.items() if text.startswith(note)]
    lines = [line for line in mixed.stdout.splitlines() if line.startswith(str(smooth))]
    marked = [report["identity"]["noise"] == "less" for report in reports]
    marked[marked.index(True)] = False  # the note itself is below
    assert [line.endswith(f" [note {number}]") for line in lines] == marked
    read = sum(line.startswith(str(tmp_path)) for line in mixed.stdout.splitlines())  # without the one that failed
    assert f"\n{len(less)} of {read} images: {note}" in mixed.stdout


def test_a_model_that_is_none_is_one_failure_of_the_command(folder, tmp_path):
    (tmp_path / "none.npz").write_bytes(b"no model")
    found = run(
        "faces", "identify", tmp_path / "none.npz", folder, "--recursive", "--pictures", tmp_path / "out" / "new"
    )
    assert found.exit_code == 2 and found.stderr.count("\n") == 1 and "not an .npz file" in found.stderr
    assert not (tmp_path / "out").exists()  # nothing was written to it


def test_a_model_that_cannot_be_written_leaves_no_pictures(folder, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise MediaError("m.npz: cannot be written (No space left on device)")

    monkeypatch.setattr(training, "save", fails)
    pictures = tmp_path / "pictures"
    result = run("faces", "train", folder, "--model", tmp_path / "m.npz", "--pictures", pictures)
    assert result.exit_code == 2  # a slow machine shows progress before
    assert result.stderr.endswith("visionnmf: m.npz: cannot be written (No space left on device)\n")
    assert not pictures.exists() and not (tmp_path / "m.npz").exists()


def test_the_form_of_a_folder_is_checked_before_its_images(tmp_path):
    """Images of several sizes, which are a fault as well, are not read."""
    loose = tmp_path / "loose"
    loose.mkdir()
    for size in (16, 18):
        Image.new("L", (size, 16)).save(loose / f"{size}.png")
    for command in (("faces", "train", loose, "--model", tmp_path / "m.npz"), ("evaluate", "faces", loose)):
        result = run(*command)
        assert result.exit_code == 2 and "must have a sub-folder for each person" in result.stderr, result.stderr


def test_images_whose_pictures_exist_are_not_looked_at(model, tmp_path):
    paths = [tmp_path / name for name in ("a.png", "b.png")]
    for path in paths:
        Image.new("L", (16, 16), 90).save(path)
    command = ("faces", "identify", model[0], *paths, "--pictures", tmp_path / "out")
    assert run(*command).exit_code == 0
    again = run(*command)
    assert again.exit_code == 0 and "2 of 2 images skipped" in again.stderr, again.stderr
    other = run(*command, "--top", 2)
    assert other.exit_code == 2 and "made with the usual settings, and not with --top 2; give --force" in other.stderr
    paths[0].write_text("no picture")  # which would fail if it was read
    assert run(*command).exit_code == 1
    assert run(*command, "--force").exit_code == 1


def test_progress_is_shown_beside_json_and_step_by_step(model, folder, monkeypatch, tmp_path):
    monkeypatch.setattr(console, "LINE_EVERY", 0.0)
    found = run("faces", "identify", model[0], folder / "person 1", "--json")
    assert ": looking 2 of 6" in found.stderr and len(json_lines(found)) == 6
    grouped = run("faces", "cluster", folder, "--out", tmp_path).stderr
    assert "learning components 50 of 100" in grouped and "learning components 100 of 100\n" in grouped


def test_many_images_end_with_how_many_are_known(model, folder, tmp_path):
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (16, 16), np.uint8)).save(tmp_path / "noise.png")
    found = run("faces", "identify", model[0], folder / "person 1", tmp_path / "noise.png")
    first, *_, last = found.stdout.splitlines()
    assert "person 1, distance 0." in first and "noise.png: nobody known (nearest: person " in last
    assert found.stdout.count("\n") == 7
    assert found.stderr.endswith("visionnmf: 7 images: 6 faces of known people, 1 of nobody known\n")
    assert run("faces", "identify", model[0], tmp_path / "noise.png").stderr == ""


def test_what_reading_an_image_warns_of_is_said_of_that_image(model, tmp_path):
    Image.new("RGBA", (16, 16), (90, 80, 70, 120)).save(tmp_path / "glass.png")
    Image.new("L", (16, 16), 90).save(tmp_path / "plain.png")
    result = run("faces", "identify", model[0], tmp_path / "plain.png", tmp_path / "glass.png", "--json")
    plain, glass = json_lines(result)
    assert plain["warnings"] == [] and len(glass["warnings"]) == 1 and "transparent" in glass["warnings"][0]
    assert result.stderr == f"visionnmf: {glass['warnings'][0]}\n"


def test_a_fault_while_looking_at_images_together_ends_no_batch(model, folder, monkeypatch):
    identify = FaceRecognizer.identify

    def fails(self, X, **options):
        if len(X) > 1:
            raise RuntimeError("together")
        return identify(self, X, **options)

    images = [folder / f"person {i}" / "0.png" for i in (1, 2)]
    expected = run("faces", "identify", model[0], *images).stdout
    monkeypatch.setattr(FaceRecognizer, "identify", fails)
    result = run("faces", "identify", model[0], *images)
    assert result.exit_code == 0 and result.stdout == expected


def test_a_picture_that_cannot_be_read_is_left_out_and_named_once(folder, tmp_path):
    (folder / "person 0" / "7.png").write_text("no picture")
    for command, option, made in (("train", "--model", "m.npz"), ("cluster", "--out", "out/clusters.csv")):
        result = run("faces", command, folder, option, tmp_path / made.split("/")[0])
        assert result.exit_code == 1 and result.stdout.count("left out: ") == 1 and "7.png" in result.stdout
        assert (tmp_path / made).exists()


def test_what_cannot_be_calibrated_is_not_claimed(folder, tmp_path):
    for i in range(4):
        for path in list((folder / f"person {i}").iterdir())[1:]:
            path.unlink()
    few = run("faces", "train", folder, "--model", tmp_path / "a.npz")
    assert few.exit_code == 0 and "the share of known people who are rejected is not known" in few.stdout
    assert "of unknown people pass (" in few.stdout and "(90% confidence: " in few.stdout
    assert math.isnan(load(tmp_path / "a.npz").recognizer.false_rejection_rate_)
    np.testing.assert_array_equal(load(tmp_path / "a.npz").recognizer.rate_intervals_[1], [0, 1])
    for i in (2, 3):
        (folder / f"person {i}" / next((folder / f"person {i}").iterdir()).name).unlink()
    two = run("faces", "train", folder, "--model", tmp_path / "b.npz")
    assert two.exit_code == 0 and "identify will name nobody" in two.stdout and "unknown people pass" not in two.stdout
    again = run("faces", "train", folder, "--model", tmp_path / "c.npz", "--json")
    assert json.loads(again.stdout)["false_rejection_rate"] is None


def test_a_model_that_names_nobody_says_so(folder, tmp_path):
    for path in sorted(folder.iterdir())[1:]:
        shutil.rmtree(path)
    assert run("faces", "train", folder, "--model", tmp_path / "m.npz").exit_code == 0
    words = ("faces", "identify", tmp_path / "m.npz", folder)
    found = run(*words, "--recursive", "--report", tmp_path / "page.html")
    note = "the model knows only 1 person and names nobody, because it has no threshold"
    assert found.stdout.count(note) == 2 and "or give --threshold X" in found.stdout
    assert f"\n  [note 1] {note}" in found.stdout and f"\n6 of 6 images: {note}" in found.stdout
    assert f": {note}" in (tmp_path / "page.html").read_text("utf-8")
    assert note not in run(*words, "--recursive", "--threshold", "2").stdout


def test_bad_places_for_results_are_refused_by_their_name(folder, model, tmp_path):
    image = folder / "person 1" / "0.png"
    refused = run("faces", "identify", model[0], image, "--pictures", image)
    assert refused.exit_code == 2 and refused.stderr.startswith("visionnmf: --pictures ")
    refused = run("faces", "train", folder, "--model", tmp_path / "none" / "m.npz", "--pictures", tmp_path / "out")
    assert refused.exit_code == 2 and "create it first" in refused.stderr and not (tmp_path / "out").exists()
    refused = run("faces", "train", folder, "--model", tmp_path / "m.npz", "--pictures", folder / "p")
    assert refused.exit_code == 2 and "would be taken for faces" in refused.stderr, refused.output
    assert not (folder / "p").exists()


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
        (run("faces", "shadows", source, "--out", source / "out", "--force"), "taken for faces; got"),
        (
            run("faces", "shadows", source, "--rank", 40, "--out", tmp_path / "more"),
            "DIR must have more than 40 images of a person under different light; got at most 40 in",
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


def test_images_mostly_in_shadow_are_counted(rng, tmp_path):
    images = rng.random((30, 3)) @ rng.random((3, 400)) * 80
    images[:4, 80:] = 0
    source = tmp_path / "faces.npz"
    shaped = images.reshape(-1, 20, 20).astype(np.uint8)
    np.savez(source, images=shaped, labels=np.ones(30, np.int64))
    result = run("faces", "shadows", source, "--out", tmp_path / "out")
    assert "mostly in shadow, and dark in the results: 4 images" in result.stdout


def test_the_next_nearest_and_another_threshold(model, folder):
    image = folder / "person 1" / "0.png"
    (found,) = json_lines(run("faces", "identify", model[0], image, "--top", 3, "--json"))
    ranking = found["identity"]["ranking"]
    assert len(ranking) == 3 and ranking[0] == ["person 1", found["identity"]["distance"]]
    assert ranking[0][1] < ranking[1][1] <= ranking[2][1]
    text = run("faces", "identify", model[0], image, "--top", 2).stdout
    assert f"; then {ranking[1][0]} {ranking[1][1]:.3f}" in text
    strict = run("faces", "identify", model[0], image, "--threshold", 0.0001, "--json")
    assert json.loads(strict.stdout)["identity"]["person"] is None


def test_every_face_of_a_photograph_has_a_box_and_a_name(model, folder, tmp_path, monkeypatch):
    """Two faces side by side; the larger one is what is named without the option."""
    known = FaceModel(model[1], detect=True)
    save(known, tmp_path / "m.npz")
    left, right = (read_image(folder / f"person {i}" / "0.png") for i in (1, 2))
    both = np.concatenate([left, right], axis=1)
    Image.fromarray(both).save(tmp_path / "both.png")
    boxes = [(0, 16, 16, 16), (0, 0, 16, 16)]
    monkeypatch.setattr(reading, "find_faces", lambda image: boxes)
    monkeypatch.setattr(reading, "CROP", 1.0)
    result = run("faces", "identify", tmp_path / "m.npz", tmp_path / "both.png", "--all-faces", "--json")
    found = json.loads(result.stdout)
    assert found["identity"]["person"] == "person 2" and found["boxes"] == [[0, 16, 16, 16], [0, 0, 16, 16]]
    assert [other["person"] for other in found["others"]] == ["person 1"]
    lines = run("faces", "identify", tmp_path / "m.npz", tmp_path / "both.png", "--all-faces").stdout.splitlines()
    assert "(row 0, column 16, 16 x 16): person 2" in lines[0] and "column 0, 16 x 16): person 1" in lines[1]
    (alone,) = json_lines(run("faces", "identify", tmp_path / "m.npz", tmp_path / "both.png", "--json"))
    assert alone["identity"]["person"] == "person 2" and alone["others"] == []
    model[1].noise_ = np.zeros((2, 4))
    model[1].false_acceptance_rate_ = 0.05  # rates are announced
    identifier = Identifier(FaceModel(model[1], detect=True), identification=FaceIdentification(all_faces=True))
    first, second = model[1].identify(rows(np.stack([left, right])[..., 0]))
    told = (replace(first, noise=None), replace(second, noise="more"))
    monkeypatch.setattr(FaceRecognizer, "identify", lambda *_, **__: list(told))
    (note,) = identifier.identify(tmp_path / "both.png").notes
    assert note.startswith("1 of the 2 faces: more noise than in the training images: the error rates")
    model[1].false_acceptance_rate_ = math.nan
    assert identifier.identify(tmp_path / "both.png").notes == [
        note.rpartition(": ")[0] + ": " + identification.NAME_DOUBTFUL
    ]
    told = (replace(first, noise=None), replace(second, noise="more", person=None))
    assert identifier.identify(tmp_path / "both.png").notes == []  # nobody was named wrongly
    refused = run("faces", "identify", model[0], tmp_path / "both.png", "--all-faces")
    assert refused.exit_code == 2 and "--all-faces must be left out for a model of whole images" in refused.stderr
    assert "train with --detect" in refused.stderr


def test_a_person_is_added_without_training(folder, tmp_path, rng):
    rest, new = tmp_path / "rest", folder / "person 3"
    rest.mkdir()
    for i in range(3):
        (rest / f"person {i}").symlink_to(folder / f"person {i}", target_is_directory=True)
    assert run("faces", "train", rest, "--model", tmp_path / "a.npz").exit_code == 0
    images = [new / f"{k}.png" for k in range(4)]
    added = run(
        "faces", "add", tmp_path / "a.npz", *images, tmp_path / "no.png", "--name", "Di", "--model", tmp_path / "b.npz"
    )
    assert added.exit_code == 1 and "Di: 4 images added, 4 people" in added.stdout and "no.png" in added.stderr
    assert f"wrote {tmp_path / 'b.npz'}" in added.stdout
    before, after = (
        json.loads(run("faces", "identify", tmp_path / name, new / "5.png", "--json").stdout)["identity"]
        for name in ("a.npz", "b.npz")
    )
    assert before["nearest"] != "Di" and after["nearest"] == "Di" and after["distance"] < before["distance"]
    assert after["threshold"] == before["threshold"]
    again = run("faces", "add", tmp_path / "a.npz", *images, "--name", "Di", "--model", tmp_path / "b.npz")
    assert again.exit_code == 2 and "--force" in again.stderr
    hint = run("faces", "add", tmp_path / "b.npz", rest, "--name", "Di", "--model", tmp_path / "d.npz")
    assert hint.exit_code == 2 and "--recursive looks into its folders" in hint.stderr


def test_no_input_is_replaced(model, folder, faces, tmp_path):
    data, image = tmp_path / "faces.npz", folder / "person 1" / "0.png"
    np.savez(data, images=faces.images, labels=faces.labels)
    for file, command in (
        (data, ("train", data, "--model", data)),
        (image, ("add", model[0], image, "--name", "Di", "--model", image)),
    ):
        before = file.read_bytes()
        refused = run("faces", *command, "--force")
        assert refused.exit_code == 2 and "would overwrite the input" in refused.stderr and file.read_bytes() == before
    assert run("faces", "add", model[0], image, "--name", "Di", "--model", model[0], "--force").exit_code == 0
