"""Features of a stream: from every source to a model file, and the command line around it."""

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from helpers import run_command
from scipy.ndimage import gaussian_filter

from visionnmf import ConservativeNMF, fit_stream, load_model
from visionnmf.apps.stream import Checkpoints, ComponentsPicture, StreamLearning, learn_stream
from visionnmf.exceptions import OutputExistsError, ParameterError, TooLargeError, UnreadableError
from visionnmf.io import read_image, write_image

FAST = {"method": "conservative", "n_components": 3}
QUICK = StreamLearning(**FAST)
SHAPE = (6, 8)


@pytest.fixture
def images(rng):
    """Pictures made of three parts."""
    parts = gaussian_filter(rng.random((3, *SHAPE)), (0, 1, 1))
    mixed = np.tensordot(rng.random((40, 3)), parts, 1)
    return np.round(255 * mixed / mixed.max()).astype(np.uint8)


@pytest.fixture
def folder(images, tmp_path):
    path = tmp_path / "images"
    path.mkdir()
    for i, image in enumerate(images):
        write_image(path / f"{i:02}.png", image)
    return path


@pytest.fixture
def rows(images, tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, images)
    return path


def test_a_folder_of_images_gives_a_model_and_its_picture(folder, images, tmp_path):
    model, picture = tmp_path / "m.npz", tmp_path / "m.png"
    heard = []
    (folder / "torn.png").write_bytes(b"no image")
    report = learn_stream(
        folder,
        model,
        learning=QUICK,
        drawing=ComponentsPicture(picture=picture),
        progress=lambda *told: heard.append(told),
    )
    learnt = load_model(model)
    data = images.reshape(40, -1).astype(np.float32) / np.float32(255)
    expected = fit_stream(ConservativeNMF(3, random_state=0), data)
    np.testing.assert_array_equal(learnt.components_, expected.components_)
    assert (report.samples, report.features, report.resumed) == (40, 48, 0)
    assert report.outputs == [str(model), str(picture)] and len(report.skipped) == 1
    assert heard == [("learning", 40, None)]
    drawn = read_image(picture)
    assert drawn.shape == (6 * 8, 3 * 8 * 8 + 2 * 2, 3) and len(np.unique(drawn)) > 30  # three, enlarged, gaps between
    assert "3 components of 48 features from 40 samples" in report.summary()


def test_other_sources_give_the_same_rows(rows, images, tmp_path, monkeypatch):
    found = []
    text = "\n".join(",".join(map(str, row)) for row in images.reshape(40, -1).tolist())
    (tmp_path / "rows.csv").write_text(text)
    for source in (rows, tmp_path / "rows.csv", "-"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        learn_stream(source, tmp_path / "m.npz", learning=QUICK, force=True)
        found.append(load_model(tmp_path / "m.npz").components_)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "manhattan", "surrogate", "conservative"])
def test_components_explain_the_images(method, rows, images, tmp_path):
    learning = StreamLearning(method=method, n_components=3, epochs=60, batch_size=10, shuffle=True)
    learn_stream(rows, tmp_path / "m.npz", learning=learning)
    model, X = load_model(tmp_path / "m.npz"), images.reshape(40, -1).astype(float)
    left = np.linalg.norm(X - model.inverse_transform(model.transform(X))) / np.linalg.norm(X)
    assert left < 0.15 < np.linalg.norm(X - X.mean(axis=0)) / np.linalg.norm(X)


def test_a_run_that_was_stopped_is_reported(rows, tmp_path):
    at, once = Checkpoints(checkpoint=tmp_path / "at.npz"), StreamLearning(batch_size=20, **FAST)
    thrice = replace(once, epochs=3)
    learn_stream(rows, tmp_path / "a.npz", checkpoints=at, learning=once)
    report = learn_stream(rows, tmp_path / "b.npz", checkpoints=at, learning=thrice)
    assert (report.samples, report.resumed) == (120, 40) and "40 of them before" in report.summary()
    learn_stream(rows, tmp_path / "c.npz", learning=thrice)
    b, c = load_model(tmp_path / "b.npz"), load_model(tmp_path / "c.npz")
    np.testing.assert_array_equal(b.last_components_, c.last_components_)


def test_what_cannot_be_is_refused_before_the_work(rows, folder, tmp_path):
    model = tmp_path / "m.npz"
    with pytest.raises(ParameterError, match=r"method must be one of \['auto', .*'conservative'\]; got 'svd'"):
        learn_stream(rows, model, learning=StreamLearning(method="svd"))
    with pytest.raises(OutputExistsError, match="would overwrite the input"):
        learn_stream(rows, rows, force=True)
    with pytest.raises(ParameterError, match="outputs must have different names"):
        learn_stream(rows, model, checkpoints=Checkpoints(checkpoint=model))
    with pytest.raises(OutputExistsError, match="would overwrite the input"):
        learn_stream(rows, model, checkpoints=Checkpoints(checkpoint=rows))
    with pytest.raises(TooLargeError, match=r"10000000 components of 48 features take .* MiB, 1024 are allowed"):
        learn_stream(rows, model, learning=StreamLearning(n_components=10**7))
    with pytest.raises(ParameterError, match=r"picture_shape must be .* with the product 48; got"):
        drawing = ComponentsPicture(picture=tmp_path / "m.png", picture_shape=(5, 5))
        learn_stream(rows, model, learning=QUICK, drawing=drawing)
    model.write_text("mine")
    with pytest.raises(OutputExistsError, match="exists already"):
        learn_stream(rows, model, learning=QUICK)
    with pytest.raises(UnreadableError, match="no such file"):
        learn_stream(tmp_path / "absent.npy", model, learning=QUICK, force=True)
    assert model.read_text() == "mine" and not (tmp_path / "m.png").exists()


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_and_reports(rows, tmp_path):
    model = tmp_path / "m.npz"
    arguments = ["stream", rows, "--model", model, "--method", "conservative", "--rank", 3, "--json"]
    done = run_command(*arguments, "--picture", tmp_path / "m.png", "--epochs", 2, "--shuffle", "--batch", 8)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert (document["samples"], document["rank"], document["method"]) == (80, 3, "conservative")
    assert document["loss"] is None  # no batch of 1024 is full
    assert load_model(model).n_samples_seen_ == 80
    done = run_command(*arguments)
    assert done.exit_code == 2 and "--force" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["absent.npy"], "no such file"),
        (["{rows}", "--method", "svd"], "method must be one of"),
        (["{rows}", "--shape", 5, 5, "--picture", "x.png"], "--shape must be the height and width"),
        (["{rows}", "--rank", 10**7], "take fewer components"),
        (["{text}"], "line 2: 'four' is not a number"),
        (["{nan}"], "X must not hold NaN"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(words, sentence, rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("1,2\n3,four\n")
    (tmp_path / "nan.csv").write_text("1,2\n3,nan\n")
    given = [str(word).format(rows=rows, text="x.csv", nan="nan.csv") for word in words]
    done = run_command(
        "stream", *given, "--model", "m.npz", *(["--method", "conservative"] * ("--method" not in given))
    )
    assert done.exit_code == 2 and sentence in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "m.npz").exists()


def test_pictures_of_several_sizes_are_reported(tmp_path):
    (tmp_path / "in").mkdir()
    for name, shape in (("a.png", (20, 30)), ("b.png", (20, 30)), ("c.png", (40, 60)), ("d.png", (30, 30))):
        write_image(tmp_path / "in" / name, np.full((*shape, 3), 90, np.uint8))
    found = run_command("stream", tmp_path / "in", "--model", tmp_path / "m.npz", "--rank", 2)
    sentence = "2 of 4 pictures do not have the size of the first, 30 x 20; all were scaled to 30 x 20 pixels"
    assert found.exit_code == 0 and f"{sentence}, and 1 are distorted by that" in found.stdout


def test_what_is_left_out_is_exit_code_1(folder, tmp_path):
    (folder / "torn.png").write_bytes(b"no image")
    done = run_command("stream", folder, "--model", tmp_path / "m.npz", "--method", "conservative", "--rank", 2)
    assert done.exit_code == 1 and "left out:" in done.stdout and "torn.png" in done.stdout


@pytest.mark.slow
def test_a_command_that_is_killed_goes_on_and_ends_with_the_same_file(rows, tmp_path):
    at, model = tmp_path / "at.npz", tmp_path / "m.npz"
    words = ["stream", rows, "--model", model, "--method", "conservative", "--rank", 3, "--checkpoint", at]
    words = [str(word) for word in [*words, "--every", 1, "--batch", 2, "--epochs", 10**6]]
    with subprocess.Popen([sys.executable, "-m", "visionnmf.apps.cli", *words], stderr=subprocess.PIPE) as process:
        while process.poll() is None and not at.exists():
            os.sched_yield()
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, process.stderr.read()
    seen = load_model(at).n_samples_seen_
    words[-1] = str(seen // 40 + 3)
    done = run_command(*words)
    assert done.exit_code == 0 and f"{seen} of them before" in done.stdout
    whole = tmp_path / "whole.npz"
    learn_stream(rows, whole, learning=StreamLearning(batch_size=2, epochs=seen // 40 + 3, **FAST))
    one, other = load_model(model), load_model(whole)
    for name in ("last_components_", "last_encoder_", "components_", "errors_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_w_of_conservative_learning(rows, images, tmp_path):
    result = run_command(
        "stream", rows, "--model", tmp_path / "m.npz", "--method", "conservative", "--rank", 3, "--w", 0.5
    )
    assert result.exit_code == 0, result.stderr
    data = images.reshape(40, -1)
    expected = fit_stream(ConservativeNMF(3, w=0.5, random_state=0), data)
    np.testing.assert_array_equal(load_model(tmp_path / "m.npz").components_, expected.components_)
    for words, sentence in (((), "w must be None for method 'auto'; got 0.5"), (("--method", "conservative"), "")):
        value = 0.5 if sentence else 0
        result = run_command("stream", rows, "--model", tmp_path / "n.npz", "--rank", 3, "--w", value, *words)
        assert result.exit_code == 2 and (sentence or "w must be a finite number > 0; got 0") in result.stderr


@pytest.mark.slow
def test_an_unwritable_cache_and_a_full_standard_output_are_one_line_each(rows, tmp_path):
    words = ["stream", rows, "--model", tmp_path / "m.npz", "--method", "surrogate", "--rank", 3]
    command = [sys.executable, "-m", "visionnmf.apps.cli", *map(str, words)]
    (tmp_path / "file").touch()
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "file" / "folder")}
    with open("/dev/full", "w") if os.path.exists("/dev/full") else open(os.devnull, "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    assert "RuntimeWarning" not in done.stderr and "compiling kernels for this run only" in done.stderr
    if os.path.exists("/dev/full"):
        assert done.returncode != 0 and "standard output: cannot be written" in done.stderr
        assert done.stderr.count("\n") == 2
