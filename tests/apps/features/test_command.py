"""``visionnmf features``: from files to a table."""

import csv
import json
import os
import signal
import time

import numpy as np
import pytest
from helpers import run_command
from joblib.externals.loky import get_reusable_executor
from PIL import Image

from visionnmf.apps.feature_tables import read_table
from visionnmf.apps.features import extract_features
from visionnmf.exceptions import UnreadableError, VisionNMFError
from visionnmf.features import FeatureExtraction, RawPixels

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


@pytest.fixture
def folder(tmp_path, rng):
    folder = tmp_path / "photos"
    (folder / "below").mkdir(parents=True)
    for i, name in enumerate(("a.png", "b.JPG", "below/ü c.png", "below/d.png")):
        pixels = rng.integers(0, 256, (20 + 3 * i, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name)
    return folder


def test_a_folder_becomes_a_table(folder, tmp_path):
    done = run_command("features", folder, "--kind", "rgb, lbp", "--out", tmp_path / "f.npz", "--jobs", 1)
    assert done.exit_code == 0, done.output
    assert "4 images, 5040 features (rgb 4096, lbp 944)" in done.output
    table = read_table(tmp_path / "f.npz")
    assert table.files == ["a.png", "b.JPG", "below/d.png", "below/ü c.png"]  # as a table of words has them
    files = [str(folder / name) for name in table.files]
    np.testing.assert_array_equal(table.X, FeatureExtraction(["rgb", "lbp"]).fit_transform(files))
    assert table.views == ["rgb", "lbp"] and table.feature_names[4096] == "lbp_pattern0_cell_0_0"
    assert np.bincount(table.groups).tolist() == [4096, 944]


def test_what_cannot_be_read_is_named_and_the_rest_done(folder, tmp_path):
    (folder / "b2.png").write_bytes((folder / "a.png").read_bytes()[:99])
    arguments = ("features", folder, tmp_path / "missing.png", "--kind", "raw-pixels", "--out", tmp_path / "f.npz")
    done = run_command(*arguments, "--jobs", 1, "--json")
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    assert report["images"] == 4 and report["features"] == {"raw-pixels": 1024}
    assert "b2.png" in report["skipped"][0] and "missing.png: no such file" in report["skipped"][1]
    assert len(read_table(tmp_path / "f.npz").files) == 4


def test_a_table_that_could_not_be_read_is_not_computed(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("visionnmf.apps.feature_tables.MAX_BYTES", 4 * 1024 * 4 - 1)
    arguments = ("features", folder, "--kind", "raw-pixels", "--jobs", 1)
    done = run_command(*arguments, "--out", tmp_path / "f.npz")
    assert done.exit_code == 2 and "the table has 16384 bytes, and .npz files may have 16383" in done.output
    assert not (tmp_path / "f.npz").exists()
    assert run_command(*arguments, "--out", tmp_path / "f.csv").exit_code == 0


def test_new_images_are_described_by_the_words_of_earlier_ones(folder, tmp_path):
    first = ("--kind", "dense-hue", "--save", tmp_path / "e.npz")
    assert run_command("features", folder, "--out", tmp_path / "f.npz", *first, "--jobs", 1).exit_code == 0
    again = ("features", folder / "b.JPG", "--use", tmp_path / "e.npz", "--out", tmp_path / "g.npz", "--jobs", 1)
    assert run_command(*again).exit_code == 0
    np.testing.assert_array_equal(read_table(tmp_path / "g.npz").X, read_table(tmp_path / "f.npz").X[1:2])


def test_tables_for_other_programs_hold_the_same(folder, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    for suffix in ("npz", "csv", "parquet"):
        arguments = ("--kind", "raw-pixels", "--out", tmp_path / f"f.{suffix}", "--jobs", 1)
        assert run_command("features", folder, *arguments).exit_code == 0
    table = read_table(tmp_path / "f.npz")
    with open(tmp_path / "f.csv", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["file", *table.feature_names] and [row[0] for row in rows] == table.files
    np.testing.assert_allclose(np.array([row[1:] for row in rows], float), table.X, rtol=1e-6)
    frame = parquet.read_table(tmp_path / "f.parquet").to_pandas()
    assert list(frame.columns) == header and frame["file"].tolist() == table.files
    np.testing.assert_array_equal(frame[table.feature_names].to_numpy(), table.X)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--kind", "broken", "--out", "no/f.npz"], "there is no folder no"),
        (["--kind", "broken", "--out", "f.npz", "--save", "no/e.npz"], "there is no folder no"),
        (["--use", "a.png", "--out", "f.npz"], "not feature extractors of visionnmf, because it is not an .npz file"),
        (["--kind", "rgb", "--out", "f.npz", "--save", "f.npz"], "f.npz"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(arguments, sentence, folder, monkeypatch):
    monkeypatch.chdir(folder)
    done = run_command("features", "a.png", *arguments)
    assert done.exit_code == 2 and sentence in done.stderr and done.stderr.count("\n") == 1
    assert not (folder / "f.npz").exists()


def test_messages_name_the_option_and_progress_the_steps(folder, tmp_path):
    form = run_command("features", folder, "--out", "f.xyz")
    assert form.stderr == "visionnmf: --out must end in .npz, .csv, .parquet; got 'f.xyz'\n"
    kind = run_command("features", folder, "--out", "f.npz", "--kind", "sift")
    assert kind.stderr.startswith("visionnmf: --kind must be one of rgb, lab, ") and "[" not in kind.stderr
    said = []
    extract_features([folder], tmp_path / "f.npz", kinds=["rgb"], progress=lambda *step: said.append(step))
    assert {stage for stage, _, _ in said} == {"checking", "learning", "extracting"}
    assert said[-1] == ("extracting", 4, 4)


@pytest.mark.long
@pytest.mark.timeout(120)  # less than the 300 s after which idle processes end
def test_a_worker_that_is_killed_is_one_sentence(folder):
    """Also if the workers of an earlier call have ended in the meantime, as they do when they were idle for long."""
    ours = os.getpid()

    class Killed(RawPixels):  # a local class, so that the other process gets its text
        def describe(self, image):
            assert os.getpid() != ours
            os.kill(os.getpid(), signal.SIGKILL)

    extract_features([folder], folder / "f.npz", kinds=["rgb"], n_jobs=2)
    executor = get_reusable_executor(reuse=True)
    for _ in range(2):
        executor._call_queue.put(None)  # ends an idle worker
    while executor._processes:
        time.sleep(0.01)
    time.sleep(2)  # until joblib has taken note and waits again
    with pytest.raises(VisionNMFError, match="a process was ended from outside"):
        extract_features([folder], folder / "g.npz", kinds=[Killed()], n_jobs=2)


def test_names_of_files_are_no_formulas_in_tables(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "a.png").rename(folder / "=1+1.png")
    arguments = ("--kind", "raw-pixels", "--out", tmp_path / "f.csv", "--jobs", 1)
    assert run_command("features", "=1+1.png", *arguments).exit_code == 0
    assert (tmp_path / "f.csv").read_text("utf-8").splitlines()[1].startswith("'=1+1.png,")


def test_nothing_usable_is_code_2(tmp_path):
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "empty").mkdir()
    for source, sentence in (
        ("text.png", "not a picture"),
        ("empty", "no file in this folder"),
        ("*.gif", "no file matches"),
    ):
        done = run_command("features", tmp_path / source, "--kind", "rgb", "--out", tmp_path / "f.npz", "--jobs", 1)
        assert done.exit_code == 2 and sentence in done.stderr


def test_a_table_of_a_stranger_is_checked(folder, tmp_path):
    run_command("features", folder, "--kind", "raw-pixels", "--out", tmp_path / "f.npz", "--jobs", 1)
    with np.load(tmp_path / "f.npz") as file:
        good = dict(file)
    wrong = (
        {"X": good["X"][:-1]},
        {"X": -good["X"]},
        {"X": good["X"] * np.nan},
        {"groups": good["groups"] + 1},
        {"files": np.arange(4)},
        {"files": np.array(["a", "b", "c", 1], object)},
    )
    for change in wrong:
        np.savez(tmp_path / "g.npz", **(good | change))
        with pytest.raises(UnreadableError, match="cannot be read"):
            read_table(tmp_path / "g.npz")


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_left_out_of_files_is_noted_once(jobs, tmp_path, rng):
    pictures = [Image.fromarray(rng.integers(0, 255, (20, 30, 3)).astype(np.uint8)) for _ in range(3)]
    for name in ("a.gif", "b.webp", "c.png"):
        pictures[0].save(tmp_path / name, save_all=True, append_images=pictures[1:])
    pictures[0].convert("RGBA").resize((30, 20)).save(tmp_path / "plain.png")
    glass = pictures[0].convert("RGBA")
    glass.putalpha(90)
    glass.save(tmp_path / "glass.png")
    found = run_command("features", tmp_path, "--kind", "lab", "--out", tmp_path / "f.npz", "--jobs", jobs, "--json")
    assert set(json.loads(found.stdout)["notes"]) == {
        "an animation; only its first picture is read, in 3 of 5 images",
        "has transparent parts; they are blended onto white, in 1 of 5 images",
    }
