"""Mistakes of users of FaceRecognizer in Python, and the sentence that each one gets."""

import copy

import numpy as np
import pytest
from helpers import SHAPE, made_faces, rows, run_command as run
from PIL import Image
from scipy.sparse import csr_array

from visionnmf.apps.faces import (
    FaceModel,
    FaceRecognizer,
    FaceTraining,
    add_person,
    cluster,
    cluster_faces,
    identify,
    load,
    remove_shadows,
    save,
    train,
    unshadow,
)
from visionnmf.apps.faces.images import white_of
from visionnmf.datasets import load_faces
from visionnmf.exceptions import ParameterError, UnreadableError

pytestmark = pytest.mark.slow

PIXELS = SHAPE[0] * SHAPE[1]


@pytest.fixture(scope="module")
def fitted():
    images, labels = made_faces(np.random.default_rng(0), 4, 4)
    return FaceRecognizer(image_shape=SHAPE, random_state=0).fit(rows(images), labels), rows(images), labels


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        (None, "X must be an array with images as rows; got None"),
        ("people/0.png", "X must be an array with images as rows; got 'people/0.png'; train and identify read files"),
        (["a.png", "b.png"], r"X must be an array with images as rows; got \['a.png', 'b.png'\]"),
        (np.ones(PIXELS), rf"X must have images as rows; got an array of shape \({PIXELS},\).*reshape\(1, -1\)"),
        (np.ones(SHAPE), r"got an array of shape \(.*\), which is that of one image; make a row of it"),
        (np.ones((2, *SHAPE)), r"X must have images as rows; .* make rows of it by reshape\(len\(array\), -1\)"),
        (np.full((16, PIXELS), np.nan), "X must not hold NaN; got 4096 of them; give a mask that is True for"),
    ],
)
def test_what_is_no_rows_of_images_is_refused_in_one_line(fitted, X, sentence):
    recognizer, _, labels = fitted
    calls = [recognizer.predict, lambda X: recognizer.add(X, labels)]
    if "that of one image" not in sentence:  # 16 images of 16 pixels can be fitted
        calls.append(lambda X: FaceRecognizer().fit(X, labels))
    calls += [remove_shadows, lambda X: cluster_faces(X, 2)] if X is None else []
    for call in calls:
        with pytest.raises(ParameterError, match=sentence) as caught:
            call(X)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([None] * 16, "y must have a label for each image; got None for image 0; leave it out"),
        (["ada", 3] * 8, "y must be all texts or all numbers; got"),
        (np.array(["ada"] * 15 + [None], object), "y must have a label for each image; got None for image 15"),
        ([float("nan")] + ["p01"] * 15, "y must have a label for each image; got nan for image 0; leave it out"),
        ("ada", "y must have a label for each image; got 'ada'; make a list of it"),
        (["ada"] * 12, "y must have a label for each of the 16 images; got 12"),
    ],
)
def test_labels_that_name_nobody_are_refused(fitted, labels, sentence):
    with pytest.raises(ParameterError, match=sentence):
        FaceRecognizer().fit(fitted[1], labels)


def test_labels_of_pandas_are_looked_at(fitted):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ParameterError, match=r"y must have a label for each image; got None for image 3"):
        FaceRecognizer().fit(fitted[1], pandas.Series(["ada"] * 3 + [None] * 13, dtype=object))
    for kind in (None, "string"):
        with pytest.raises(ParameterError, match=r"y must have a label .*; got (None|nan|<NA>) for image 1"):
            FaceRecognizer().fit(fitted[1], pandas.Series(["ada", None] * 8, dtype=kind))
    with pytest.raises(ParameterError, match=r"y must be all texts or all numbers; got \['ada', 3, 'ada'"):
        FaceRecognizer().fit(fitted[1], pandas.Series(["ada", 3] * 8))


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        (np.zeros((16, 3), bool), r"mask must have the shape of X, \(16, \d+\); got \(16, 3\)"),
        (np.zeros(SHAPE, bool), r"got \(16, 16\); make rows of it by reshape"),
        (np.full((16, PIXELS), "a"), "mask must hold True for missing pixels and False for others"),
        (np.ones((16, PIXELS), bool), "mask must leave pixels of the images; got True for all of them"),
    ],
)
def test_masks_that_do_not_fit_are_refused(fitted, mask, sentence):
    with pytest.raises(ParameterError, match=sentence):
        FaceRecognizer().fit(fitted[1], fitted[2], mask=mask)


def test_other_units_of_grey_are_refused(fitted):
    recognizer, images, labels = fitted
    shares = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(images / 255, labels)
    assert (recognizer.white_, shares.white_) == (255, 1)
    with pytest.raises(ParameterError, match=r"grey values from 0 to 1, as the training images; got .* by 1 / 255"):
        shares.identify(images)
    with pytest.raises(ParameterError, match=r"grey values from 0 to 255, .*; multiply X by 255 / 65535"):
        recognizer.predict(images * 257)
    shares.predict(images / 255 * 1.04)  # scaling an image overshoots


@pytest.mark.parametrize("white", [1, 1023, 4095, 65535])
@pytest.mark.filterwarnings("ignore:X. 16-bit values are taken as")
def test_people_are_recognised_in_other_bits(fitted, white):
    """Arrays of 8 to 16 bits, and shares of white, show the same faces."""
    _, images, labels = fitted
    bits = {1: np.float64, 255: np.uint8}
    fitting, *probes = (
        (images / images.max() * each).astype(bits.get(each, np.uint16)) for each in (white, 1, 255, 1023, 16383)
    )
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(fitting, labels)
    assert recognizer.white_ == white
    for probe in probes:
        assert np.array_equal(recognizer.predict(probe), labels)
        if probe.dtype != float:  # floats are scaled when they are identified
            assert np.allclose(FaceModel(recognizer, False).read(probe[0]).rows, fitting[0], atol=0.02 * white)


def test_floats_that_would_be_dark_are_reported(fitted):
    _, images, labels = fitted
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(images * (4095 / 255), labels)
    with pytest.warns(UserWarning, match="206, .* 4095 .*; if 255 is its white, multiply it by 4095 / 255"):
        recognizer.predict(images)


def test_white_is_the_least_known_value_that_the_images_hardly_exceed():
    assert [white_of(value) for value in (0, 0.2, 1, 1.04, 20, 255, 256.3, 971, 4095, 65535, 1e6)] == [
        *(1, 1, 1, 1, 255, 255, 255, 1023, 4095, 65535, 65535)
    ]


def test_a_recogniser_of_shares_of_white_reads_files(folder, tmp_path, faces):
    names = np.array(faces.names)[faces.labels - 1]
    shares = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(rows(faces.images) / 255, names)
    image = folder / names[0] / "0.png"
    found = identify(shares, image)
    assert found.identity.person == names[0] and found.identity.reason is None
    added = add_person(shares, "Zoe", [image], tmp_path / "more.npz")
    assert added.people == 5 and (added.model.recognizer.cleaned_ <= 1.5).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda folder, out: train(folder, out, training={"rule": "auto"}),
            r"write training=FaceTraining\(rule=",
        ),
        (lambda folder, out: load(None), "model must be the path of a file; got None"),
        (lambda folder, out: train(None, out), "source must be the path of a file; got None"),
        (lambda folder, out: train(folder, None), "model must be the path of a file; got None"),
        (lambda folder, out: train(folder, out, progress=3), "progress must be callable or None; got 3"),
        (lambda folder, out: train(folder, out, reading={}), "reading must be a FaceReading"),
        (lambda folder, out: cluster(folder, clustering={}), "clustering must be a FaceClustering"),
        (lambda folder, out: unshadow(folder, out, removal={}), "removal must be a ShadowRemoval"),
        (lambda folder, out: identify("m.npz", "a.png", identification={}), "identification must be a FaceId"),
        (lambda folder, out: identify(None, "a.png"), "model must be a FaceModel, .* and comes first; got None"),
        (lambda folder, out: save("m.npz", FaceRecognizer()), "model must be .* and comes first; got 'm.npz'"),
        (lambda folder, out: add_person("m.npz", "Zoe", None, out), "sources must be a list of files of images"),
        (lambda folder, out: add_person("m.npz", "Zoe", [3], out), "sources must be a list of files of images"),
    ],
)
def test_other_kinds_of_arguments_are_refused_with_the_cure(folder, tmp_path, call, sentence):
    with pytest.raises(ParameterError, match=sentence):
        call(folder, tmp_path / "out.npz")


def test_exchanged_arguments_are_told(model, folder):
    path, image = model[0], next(folder.glob("*/0.png"))
    with pytest.raises(UnreadableError, match="an image, and a model of faces is needed, which comes before the image"):
        identify(image, path)
    with pytest.raises(ParameterError, match="source must be the file of one image, or its pixels"):
        identify(path, None)
    with pytest.raises(ParameterError, match="model must have an image_shape, to which images are scaled; got None"):
        identify(FaceRecognizer(random_state=0).fit(np.random.default_rng(0).random((6, 9)), list("aabbcc")), image)
    with pytest.raises(ParameterError, match="path must be the path of a file; got None"):
        model[1].save(None)


def test_the_shape_of_images_stays_that_of_fit(fitted):
    recognizer, images, labels = copy.copy(fitted[0]), fitted[1], fitted[2]
    for shape, said in ((None, "None"), ((8, 32), r"\(8, 32\)")):
        recognizer.set_params(image_shape=shape)
        sentence = rf"image_shape must stay that of fit, \(16, 16\); got {said}; set it back, or fit again"
        for call in (recognizer.identify, recognizer.predict, recognizer.explain, lambda X: recognizer.add(X, labels)):
            with pytest.raises(ParameterError, match=sentence):
                call(images)
    recognizer.set_params(image_shape=list(SHAPE))
    assert (recognizer.predict(images) == fitted[0].predict(images)).all()


def test_training_images_that_show_nothing_are_named_in_one_warning(fitted, folder, tmp_path):
    _, images, labels = fitted
    images, mask = images.copy(), np.zeros(images.shape, bool)
    images[2], images[5], mask[9], mask[10, 1:] = 0, 90, True, True
    sentence = r"images that show nothing, .*: 2 \('person 0'\), 5 \(.*\), 9 \(.*\), 10 \('person 2'\); leave them out"
    with pytest.warns(UserWarning, match=sentence) as caught:
        recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(images, labels, mask=mask)
    assert len(caught) == 1 and caught[0].filename == __file__
    for names, called in ((None, r"1 \('person 1'\)"), (["a.png", "b.png"], "b.png")):
        with pytest.warns(UserWarning, match=f"show nothing, .*: {called}; leave them out"):
            copy.copy(recognizer).add(fitted[1][3:5] * [[0.9], [0]], labels[3:5], names=names)


def test_pictures_that_show_nothing_are_nobody(model, folder, tmp_path):
    """A black picture was learnt as a person."""
    black, white, face = folder / "person 1" / "0.png", tmp_path / "white.png", folder / "person 2" / "0.png"
    Image.new("L", SHAPE).save(black)
    Image.new("RGB", (30, 40), (255, 255, 255)).save(white)
    nothing = "shows nothing, because all its pixels are equal"
    options = FaceTraining(n_components=4, missing="none")
    expected = load_faces(folder)
    report = train(folder, tmp_path / "m.npz", training=options)
    assert report.skipped == [f"person 1/0.png: {nothing}"] and report.images == len(expected.images) - 1
    np.testing.assert_array_equal(
        np.bincount(report.model.recognizer.labels_), np.bincount(expected.labels)[1:] - [0, 1, 0, 0]
    )
    assert run("faces", "train", folder, "--model", tmp_path / "n.npz").exit_code == 1
    words = ("faces", "add", model[0], "--name", "Eve", "--model", tmp_path / "more.npz")
    alone = run(*words, black, white)
    assert alone.exit_code == 2 and nothing in alone.stderr and not (tmp_path / "more.npz").exists()
    some = run(*words, black, face, white)
    assert some.exit_code == 1 and "Eve: 1 image added" in some.stdout
    assert all(f"left out: {path}: {nothing}" in some.stdout for path in (black, white))
    for file in folder.glob("*/*.png"):
        Image.new("L", SHAPE, 70).save(file)
    with pytest.raises(UnreadableError, match=nothing):
        train(folder, tmp_path / "none.npz")


def test_arrays_are_identified_like_files(model, faces, tmp_path):
    recognizer = model[1]
    for detect in (False, True):  # an array is a face that was cut out
        known = FaceModel(recognizer, detect)
        for image in (faces.images[7], rows(faces.images)[7], faces.images[7].astype(float)):
            found = identify(known, image, pictures=tmp_path / "out", force=True)
            (expected,) = recognizer.identify(image.reshape(1, -1).astype(np.float32))
            assert found.identity.person == expected.person == "person 1" and found.inputs == ["array"]
            assert found.identity.distance == pytest.approx(expected.distance, abs=1e-4)
        assert (tmp_path / "out" / "array_corrupted.png").is_file()


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        (np.ones((8, 32)), r"source must be one image of shape \(16, 16\), or the row .*; got the shape \(8, 32\)"),
        (np.full(SHAPE, -1.0), "Negative values"),
        (np.full(SHAPE, 65535.0), "X must have grey values from 0 to 255"),
        ([[1, 2], [3, 4]], "source must be the file of one image, or its pixels as an array; got a list of 2"),
    ],
)
def test_arrays_that_are_no_image_like_the_others_are_refused(fitted, image, sentence):
    with pytest.raises(ValueError, match=sentence):
        identify(fitted[0], image)


def test_a_mask_in_the_place_of_weights_is_refused(fitted):
    recognizer, images, labels = fitted
    sentence = r"sample_weight must have a weight for each image; got .* \(16, 256\); if it is a mask of .*write mask="
    with pytest.raises(ParameterError, match=sentence):
        recognizer.score(images, labels, np.zeros(images.shape, bool))
    assert recognizer.score(images, labels, np.ones(16)) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"X": np.full((4, 9), np.inf)}, "X must not hold infinity; got 36 of them; give a mask"),
        ({"X": -np.eye(9)}, "Negative values in data passed to X, .*; got -1; add 1 to X, or clip it"),
        ({"X": 1j * np.eye(9)}, "X must hold real numbers; got complex128; take its real part"),
        ({"X": np.eye(9).astype(str)}, "X must hold real numbers; got <U.*; convert it by X.astype"),
        ({"X": [[1, 2], [3]]}, r"X must be an array of numbers; got \[\[1, 2\], \[3\]\]"),
        ({"X": csr_array(np.eye(9))}, r"X must be a dense array with images as rows; got .*; pass X.toarray\(\)"),
        ({"X": np.ones((0, 9))}, r"X must have images as rows, with a pixel at least; got .* \(0, 9\)"),
        ({"X": [np.eye(3)] * 9}, r"got an array of shape \(9, 3, 3\); make rows of them by numpy.reshape"),
        ({"mask": np.ones((9, 9))}, "mask must leave pixels of the images; got True for all of them"),
        ({"progress": 3}, "progress must be callable or None; got 3"),
        ({"n_clusters": 10}, "n_clusters must be a whole number from 1 to 9; got 10"),
    ],
)
def test_what_cannot_be_clustered_is_refused_in_one_line(arguments, sentence):
    with pytest.raises(ParameterError, match=sentence) as caught:
        cluster_faces(**{"X": np.eye(9), "n_clusters": 2} | arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("n_images", [1, 3])
def test_shadows_of_few_images_cannot_be_told_from_the_face(rng, n_images):
    with pytest.raises(ParameterError, match=f"X must have more than 3 images of one person .*; got {n_images}; give"):
        remove_shadows(rng.random((n_images, 20)))
    assert remove_shadows(rng.random((3, 20)), n_components=2)[0].shape == (3, 20)
