"""`visionnmf annotate` from folders to words."""

import contextlib
import csv
import json
import re
import shutil

import cv2
import numpy as np
import pytest
from helpers import run_command

from visionnmf.apps.annotation import likeness, load, train
from visionnmf.apps.annotation.images import images_with_words, read_words
from visionnmf.features import FeatureExtraction
from visionnmf.io import read_keywords, write_sidecar

from .conftest import THEMES, theme_image

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

SMALL = ("--kind", "rgb", "--ranks", "4")
TRAIN = ("annotate", "train")
PREDICT = ("annotate", "predict")


@pytest.fixture
def model(photos, tmp_path):
    folder, table = photos
    path = tmp_path / "m.npz"
    result = run_command(*TRAIN, folder, "--labels", table, "--model", path, *SMALL)
    assert result.exit_code == 0, result.stderr
    return path


@pytest.fixture
def sea(tmp_path, rng):
    path = tmp_path / "new.png"
    cv2.imwrite(str(path), theme_image(rng, THEMES["Meer"])[..., ::-1])
    return path


def test_a_picture_that_is_unlike_all_others_is_marked(photos, sea, tmp_path, monkeypatch):
    """Probabilities of what was never seen mean nothing."""
    monkeypatch.setattr(likeness, "LEAST", 30)
    folder, labels = photos
    black, table, page, model = (tmp_path / name for name in ("black.png", "found.csv", "page.html", "m.npz"))
    cv2.imwrite(str(black), np.zeros((24, 32, 3), np.uint8))
    assert run_command(*TRAIN, folder, "--labels", labels, "--model", model, *SMALL).exit_code == 0
    words = (*PREDICT, model, sea, black, "--top", 1)
    usual, odd = json.loads(run_command(*words, "--json").stdout)["images"]
    assert usual["unlikeness"] <= 1 < odd["unlikeness"]
    found = run_command(*words, "--csv", table, "--report", page)
    mark = "unlike the training photographs"
    lines = [line for line in found.stdout.splitlines() if line.startswith(str(tmp_path)[:1]) and ": " in line]
    assert [mark in line for line in lines[:2]] == [False, True]
    assert f"  {mark}, so that words and scores mean little: 1 of 2 images" in found.stdout
    assert [float(row["unlikeness"]) > 1 for row in csv.DictReader(table.read_text().splitlines())] == [False, True]
    text = page.read_text("utf-8")
    assert f"black.png, {mark}" in text and f"new.png, {mark}" not in text


@pytest.fixture
def points(photos, tmp_path):
    """A model whose scores are no probabilities."""
    folder, labels = photos
    path = tmp_path / "jec.npz"
    assert run_command(*TRAIN, folder, "--labels", labels, "--model", path, *SMALL, "--method", "jec").exit_code == 0
    return path


def test_bars_of_probabilities_end_at_one(model, points, photos, sea, tmp_path):
    """Scores of 0.56 and 0.95 looked alike; points of jec have no end."""
    folder, _ = photos
    for number, known in enumerate((model, points)):
        page = tmp_path / f"{number}.html"
        words = (*PREDICT, known, sea, folder / "0.png", "--top", 2, "--json", "--report", page)
        images = json.loads(run_command(*words).stdout)["images"]
        scores = [[word["score"] for word in image["words"]] for image in images]
        text = page.read_text("utf-8")
        widths = [float(width) for width in re.findall(r'class="bar"><i style="width: ([\d.]+)%', text)]
        expected = [100 * score / (max(own) if number else 1) for own in scores for score in own]
        assert widths[: len(expected)] == pytest.approx(expected, abs=0.1)
        assert text.count("Each bar is relative to") == 1  # of how often each word was given, too


def test_a_score_that_no_probability_reaches_is_refused(model, points, sea):
    refused = run_command(*PREDICT, model, sea, "--least", 1.5)
    assert refused.exit_code == 2 and "--least must be at most 1, because scores are probabilities" in refused.stderr
    assert run_command(*PREDICT, model, sea, "--least", 1).exit_code == 0
    found = run_command(*PREDICT, points, sea, "--top", 3, "--least", 4, "--json")
    assert [word["score"] for word in json.loads(found.stdout)["images"][0]["words"]] == [5, 4]


def of_another(sidecar):
    sidecar.write_bytes(sidecar.read_bytes().replace(b'xmptk="visionnmf', b'xmptk="XMP Core'))


def test_words_and_reasons(model, sea, tmp_path):
    before = sea.read_bytes()
    table = tmp_path / "found.csv"
    result = run_command(*PREDICT, model, sea, "--top", 2, "--json", "--csv", table, "--sidecars")
    assert result.exit_code == 0
    (image,) = json.loads(result.stdout)["images"]
    assert image["image"] == str(sea) and {word["word"] for word in image["words"]} == {"alle", "Meer"}
    reasons = next(word["because"] for word in image["words"] if word["word"] == "Meer")
    assert len(reasons) == 3 and all(int(reason.rpartition("/")[2].removesuffix(".png")) % 3 == 0 for reason in reasons)
    rows = list(csv.DictReader(table.read_text("utf-8").splitlines()))
    assert [row["word"] for row in rows] == [word["word"] for word in image["words"]]
    assert set(read_keywords(sea)) == {"alle", "Meer"} and sea.read_bytes() == before
    again = run_command(*PREDICT, model, sea, "--sidecars")
    assert again.exit_code == 0 and "skipped, because sidecars exist: 1 of 1 image" in again.stdout
    assert run_command(*PREDICT, model, sea, "--sidecars", "--force").exit_code == 0


def test_tables_name_files_by_their_places_in_the_folder(model, photos, tmp_path):
    """So the tables of words, of features and of predictions can be joined; what is printed has the same names."""
    folder, labels = photos
    table, features = tmp_path / "found.csv", tmp_path / "f.csv"
    told = run_command("annotate", "predict", model, folder, "--csv", table)
    assert told.exit_code == 0 and "\n0.png: " in "\n" + told.stdout and str(folder) not in told.stdout
    assert run_command("features", f"{folder}/", "--kind", "rgb", "--out", features).exit_code == 0
    known = set(read_words(labels))
    rows = list(csv.DictReader(table.read_text("utf-8").splitlines()))
    assert {row["file"] for row in rows} == known and {
        name for row in rows for name in row["because"].split(";")
    } <= known
    assert {row["file"] for row in csv.DictReader(features.read_text("utf-8").splitlines())} == known
    # with the names of an earlier folder in the table of words, features in a table still find them
    longer, table = tmp_path / "longer.csv", tmp_path / "f.npz"
    longer.write_text("\n".join(f"some//where/{name},{';'.join(words)}" for name, words in read_words(labels).items()))
    assert run_command("features", folder, "--kind", "rgb", "--out", table).exit_code == 0
    found = images_with_words(table, longer, None)
    assert set(found.files) == known and found.notes == [] and len(found.words) == 4
    both = run_command("features", folder, folder / "unter", "--kind", "rgb", "--out", features, "--force")
    assert both.exit_code == 0 and f"\n{folder}/0.png," in features.read_text("utf-8")  # of two folders


def test_the_page_of_a_training_has_words_with_counts_and_photographs(photos, tmp_path):
    folder, labels = photos
    page = tmp_path / "page.html"
    words = ("annotate", "train", folder, "--labels", labels, "--model", tmp_path / "m.npz", *SMALL, "--report", page)
    assert run_command(*words).exit_code == 0
    text = page.read_text("utf-8")
    assert text.count("<li><img") == 30 and "<span>unter/1.png: alle, łąka</span>" in text
    assert re.search(r">alle</td><td [^>]*>\s*30", text) and re.search(r">Meer</td><td [^>]*>\s*10", text)


def test_one_photograph_with_words_shows_nothing_about_others(photos, tmp_path):
    for method in ("weighted", "jec"):
        arguments = ("--labels", tmp_path / "one.csv", "--model", tmp_path / "m.npz", "--method", method, "--force")
        (tmp_path / "one.csv").write_text("file,words\n0.png,Meer\n", "utf-8")
        result = run_command("annotate", "train", photos[0], *arguments, "--kind", "rgb")
        assert result.exit_code == 0, result.stderr
        assert "only one image has words, so nothing shows whether words are right" in result.stdout


def test_words_and_names_are_no_formulas_in_tables(photos, tmp_path):
    folder, table = photos
    (folder / "0.png").rename(folder / "@0.png")
    table.write_text(table.read_text("utf-8").replace("0.png,Meer", "@0.png,Meer", 1).replace("Meer", "=1+1"), "utf-8")
    model, found = tmp_path / "m.npz", tmp_path / "found.csv"
    assert run_command(*TRAIN, folder, "--labels", table, "--model", model, *SMALL).exit_code == 0
    with contextlib.chdir(folder):
        assert run_command(*PREDICT, model, "@0.png", "--top", 2, "--csv", found).exit_code == 0
    rows = list(csv.DictReader(found.read_text("utf-8").splitlines()))
    assert {row["word"] for row in rows} == {"'=1+1", "alle"} and {row["file"] for row in rows} == {"'@0.png"}
    words = tmp_path / "words_again.csv"
    words.write_text("file,words\n'@0.png,'=1+1;alle\n", "utf-8")
    assert read_words(words) == {"@0.png": ["=1+1", "alle"]}


def test_keywords_of_sidecars_are_learnt(photos, sea, tmp_path):
    folder, table = photos
    for name, words in list(csv.reader(table.read_text("utf-8").splitlines()))[1:]:
        write_sidecar(folder / f"{name}.xmp", words.split(";"))
        of_another(folder / f"{name}.xmp")
    path = tmp_path / "k.npz"
    assert run_command(*TRAIN, folder, "--model", path, *SMALL).exit_code == 0
    result = run_command(*PREDICT, path, sea, "--top", 2)
    assert "Meer" in result.stdout and "because of" in result.stdout


def test_odd_files_in_a_folder(photos, tmp_path):
    """Unreadable ones, copies, one pixel, one without words, words of no file."""
    folder, table = photos
    (folder / "2 broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    shutil.copy(folder / "0.png", folder / "copy.png")
    cv2.imwrite(str(folder / "one.png"), np.full((1, 1, 3), 7, np.uint8))
    cv2.imwrite(str(folder / "nameless.png"), np.full((9, 9, 3), 70, np.uint8))
    with table.open("a", encoding="utf-8") as file:
        file.write("\ncopy.png,kopie\none.png,klein\nabsent.png,nichts\n2 broken.png,kaputt\n")
    result = run_command(*TRAIN, folder, "--labels", table, "--model", tmp_path / "m.npz", *SMALL, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert (document["images"], document["words"]) == (31, 6)
    assert [sentence for sentence in document["skipped"] if "broken" in sentence] == document["skipped"] != []
    notes = " ".join(document["notes"])
    for sentence in ("copies of other images: 1", "without words, and left out: 1 of 34", "not images here: 1 of 34"):
        assert sentence in notes
    result = run_command(*PREDICT, tmp_path / "m.npz", folder, "--json")
    assert result.exit_code == 1 and len(json.loads(result.stdout)["images"]) == 33


def test_a_table_of_features(photos, tmp_path):
    folder, table = photos
    features, path = tmp_path / "f.npz", tmp_path / "m.npz"
    assert run_command("features", folder, "--kind", "rgb,hsv", "--out", features).exit_code == 0
    result = run_command(*TRAIN, features, "--labels", table, "--model", path, "--method", "jec", "--ranks", "4")
    assert result.exit_code == 0
    result = run_command(*PREDICT, path, features, "--top", 1)
    assert result.exit_code == 0 and result.stdout.count("alle 5.00") == 30
    result = run_command(*PREDICT, path, folder)
    assert result.exit_code == 2 and "IMAGE must be a table of features" in result.stderr


def test_jec_as_its_authors_have_it(photos, tmp_path):
    folder, table = photos
    path = tmp_path / "m.npz"
    command = "annotate", "train", folder, "--labels", table, "--model", path, "--method", "jec", "--kind", "rgb,hsv"
    result = run_command(*command, "--coder", "none", "--metric", "rgb=chi-squared, hsv=kullback-leibler")
    assert result.exit_code == 0, result.stderr
    known = load(path).annotator
    assert known.metrics == {"rgb": "chi-squared", "hsv": "kullback-leibler"} and known.blocks_[0].coder is None
    assert run_command(*PREDICT, path, folder, "--top", 1).stdout.count("alle 5.00") == 30
    projected = "--coder", "or-nmf", "--pseudo-inverse", "--metric", "euclidean", "--ranks", "3", "--force"
    assert run_command(*command, *projected).exit_code == 0
    known = load(path).annotator
    assert known.pseudo_inverse and known.metrics == "euclidean" and known.blocks_[0].coder.method == "or-nmf"
    for metric, message in (("rgb=chi=l1", "--metric: must be a metric, or kind"), ("cosine", "--metric must be one")):
        result = run_command(*command, "--metric", metric, "--force")
        assert result.exit_code == 2 and message in result.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"\xff\xfe\x00", "iconv -f utf-16 -t utf-8"),
        ("a.csv", b"0.png,a\n1.png,caf\xe9\n", "line 2 is not UTF-8; convert it first"),
        ("a.csv", b"", "empty"),
        ("a.csv", b"other.jpg,word\n", "has no words for 30 images"),
        ("a.csv", b'0.png,"' + b"a" * 200_000, "field larger than field limit"),
        ("a.jsonl", b'{"file": 3, "words": []}', "line 1"),
        ("a.jsonl", b'{"file": "0.png"}', "line 1"),
        ("a.jsonl", b"[" * 5000, "line 1"),
    ],
)
def test_wrong_labels_are_one_sentence(name, content, message, photos, tmp_path):
    (tmp_path / name).write_bytes(content)
    result = run_command(*TRAIN, photos[0], "--labels", tmp_path / name, "--model", tmp_path / "m.npz", *SMALL)
    assert result.exit_code == 2 and message in result.stderr and result.stderr.count("\n") == 1


def test_models_that_are_none_and_folders_that_are_not_there(model, photos, sea, tmp_path):
    folder, table = photos
    for arguments, said in (
        ((*TRAIN, folder, "--labels", table, "--model", tmp_path / "no" / "m.npz"), "there is no folder"),
        ((*PREDICT, table, sea), "not a model of annotations"),
        ((*PREDICT, model, tmp_path / "absent.jpg"), "no such file"),
    ):
        result = run_command(*arguments)
        assert result.exit_code == 2 and said in result.stderr


def test_no_input_is_replaced(model, photos, sea, tmp_path):
    folder, table = photos
    photo = folder / "0.png"
    train, labels = ("annotate", "train", folder, *SMALL), ("--labels", table)
    for arguments, given in (
        ((*train, *labels, "--model", table), table),
        ((*train, *labels, "--model", photo), photo),
        (("annotate", "predict", model, sea, "--csv", sea), sea),
        (("annotate", "predict", model, sea, "--csv", model), model),
    ):
        before = given.read_bytes()
        result = run_command(*arguments, "--force")
        assert result.exit_code == 2 and "would overwrite the input" in result.stderr
        assert given.read_bytes() == before


def test_a_table_of_other_features_is_refused(photos, tmp_path):
    folder, labels = photos
    for kinds in ("rgb,hsv", "hsv,rgb"):
        assert run_command("features", folder, "--kind", kinds, "--out", tmp_path / f"{kinds}.npz").exit_code == 0
    model = tmp_path / "m.npz"
    train = ("annotate", "train", tmp_path / "rgb,hsv.npz", "--labels", labels, "--model", model, "--ranks", "4")
    assert run_command(*train, "--method", "jec").exit_code == 0
    other = tmp_path / "hsv,rgb.npz"
    for name, *arguments in (
        ("IMAGE", "annotate", "predict", model, other),
        ("DIR", "evaluate", "annotate", model, other, "--labels", labels),
    ):
        result = run_command(*arguments)
        assert result.exit_code == 2 and result.stderr.count("\n") == 1
        assert f"{name} must have the features rgb 4096, hsv 4096; got hsv 4096, rgb 4096" in result.stderr


def test_own_guesses_are_no_truth(photos, tmp_path):
    folder, _ = photos
    for name in ("0.png", "2.png"):
        write_sidecar(folder / f"{name}.xmp", ["geraten"])
    write_sidecar(folder / "4.png.xmp", ["wahr"])
    of_another(folder / "4.png.xmp")
    images = [str(folder / f"{i}.png") for i in (0, 2, 4)]
    found = images_with_words(images, None, FeatureExtraction(["lab"]), fit=True)
    assert found.words == ["wahr"] and found.files == images[2:]
    assert "2 sidecars of visionnmf left out" in found.notes[0]


def test_a_sidecar_in_the_way_stops_no_other(model, points, photos):
    folder, _ = photos
    foreign = folder / "0.png.xmp"
    write_sidecar(foreign, ["Sterne"])
    of_another(foreign)
    before = foreign.read_bytes()
    result = run_command(*PREDICT, model, folder, "--sidecars", "--json")
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    assert len(document["outputs"]) == 29 and "another program's sidecar" in document["skipped"][0]
    assert foreign.read_bytes() == before
    again = run_command(*PREDICT, points, folder / "2.png", "--sidecars", "--least", 99, "--force", "--json")
    assert again.exit_code == 0 and json.loads(again.stdout)["outputs"] == []


def test_words_are_looked_for_before_the_work(model, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(FeatureExtraction, "extract", None)
    for command in (
        ("annotate", "train", photos[0], "--model", tmp_path / "new.npz"),
        ("evaluate", "annotate", model, photos[0]),
    ):
        result = run_command(*command)
        assert result.exit_code == 2
        assert "no keywords (IPTC, XMP or a sidecar) in 30 images" in result.stderr
        assert "--labels must be a CSV" in result.stderr
    result = run_command(*PREDICT, model, photos[0], "--csv", tmp_path / "no" / "t.csv")
    assert result.exit_code == 2 and "there is no folder" in result.stderr


def test_each_step_of_training_is_reported_and_lines_of_json_end_at_newlines_alone(photos, tmp_path):
    folder, table = photos
    seen = []
    train(folder, tmp_path / "m.npz", labels=table, kinds=["rgb", "lab"], progress=lambda *step: seen.append(step))
    assert list(dict.fromkeys(stage for stage, _, _ in seen))[-3:] == ["extracting", "coding", "learning words"]
    assert seen[-1][1] == seen[-1][2] == 3 and ("coding", 2, 2) in seen
    path = tmp_path / "a.jsonl"
    path.write_text('{"file": "a.jpg", "words": ["Meer\u2028See"]}\n', "utf-8")
    assert read_words(path) == {"a.jpg": ["Meer See"]}


def test_evaluation(model, photos):
    folder, table = photos
    with table.open("a", encoding="utf-8") as file:
        file.write("\n0.png,neues Wort\n")
    arguments = (model, folder, "--labels", table, "--top", 2)
    result = run_command("evaluate", "annotate", *arguments, "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    ours, often = document["table"]
    assert document["heading"].startswith("30 images, 5 words, 2 each; AC, ") and ours["N+"] == 4
    assert ours["AC"] == 1 and ours["recall"] == 0.8  # of 'neues Wort' 0
    assert often["method"] == "most frequent words" and often["F1"] < ours["F1"]
    notes = " ".join(document["notes"])
    assert "no training image has 1 of the words, such as 'neues Wort'" in notes
    assert "training images are among these" in notes
    result = run_command("evaluate", "annotate", *arguments)
    assert result.exit_code == 0 and "most frequent words" in result.stdout


def test_the_usual_features(photos, sea, tmp_path):
    folder, table = photos
    model = tmp_path / "usual.npz"
    result = run_command(*TRAIN, folder, "--labels", table, "--model", model, "--ranks", "3")
    assert result.exit_code == 0, result.stderr
    result = run_command(*PREDICT, model, sea, "--top", 2)
    assert "Meer" in result.stdout and "alle" in result.stdout
