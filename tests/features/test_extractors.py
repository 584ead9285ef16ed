"""What all extractors keep, whatever they find."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from model_files import rewrite
from PIL import Image
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.features import KINDS, ColorHistogram, DenseHue, FeatureExtraction, RawPixels, make_extractor
from visionnmf.features.extractor_kinds import make_extractors
from visionnmf.features.interest_points import harris_laplace
from visionnmf.features.store import load_extraction, save_extraction

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "features.md"


def small(kind):
    """An extractor of few words, where there are words."""
    few = {"n_words": 8, "n_components": 4}
    taken = make_extractor(kind).get_params()
    return make_extractor(kind, **{name: value for name, value in few.items() if name in taken})


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    smooth = rng.random((5, 7, 3)).repeat(9, axis=0).repeat(8, axis=1)
    return [
        (255 * smooth).astype(np.uint8),
        rng.integers(0, 256, (40, 30), dtype=np.uint8),
        rng.random((33, 90, 3)).astype(np.float32),
        rng.integers(0, 65536, (64, 48, 3), dtype=np.uint16),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_keeps_the_contract(kind, images):
    extractor = small(kind)
    before = [image.copy() for image in images]
    X = extractor.fit_transform(images)
    assert X.dtype == np.float32 and X.shape == (len(images), extractor.n_features_out_)
    assert np.isfinite(X).all() and (X >= 0).all() and X.any(axis=1).all()
    names = extractor.get_feature_names_out()
    assert len(set(names)) == len(names) == X.shape[1] and all(name.startswith(f"{kind}_") for name in names)
    np.testing.assert_array_equal(extractor.transform(images[1:2]), X[1:2])  # each image by itself
    np.testing.assert_array_equal(clone(extractor).fit(images).transform(images), X)
    assert all((a == b).all() for a, b in zip(images, before, strict=True))


@pytest.mark.filterwarnings("ignore:Can't test estimator")  # with matrices; it is told so
@pytest.mark.parametrize("kind", KINDS)
def test_scikit_learns_checks_pass(kind):
    """Their tags say that they take lists of images, for which scikit-learn has few; the rest is tested here."""
    check_estimator(make_extractor(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_describes_one_pixel_and_a_line(kind, images):
    tiny = [np.full((1, 1), 9, np.uint8), np.full((1, 200, 3), 50, np.uint8), np.zeros((3, 1), np.uint8)]
    X = small(kind).fit(images).transform(tiny)
    assert np.isfinite(X).all() and (X >= 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_guide_says_how_many_features(kind):
    extractor = make_extractor(kind)
    found = extractor.get_params().get("n_words") or sum(1 for _ in extractor._names())
    assert re.search(
        rf"^\| `{kind}` \| `{type(extractor).__name__}\(.*\)` \| {found} \|", GUIDE.read_text(), re.MULTILINE
    )


@pytest.mark.parametrize(
    ("kind", "number", "name"),
    [
        ("gist", 2 * 8 * 16 + 3 * 16 + 1, "gist_scale2_orient3_cell_0_1"),
        ("rgb", 3 * 256 + 15, "rgb_r3_g0_b15"),
        ("lab-3x1", 4096 + 1, "lab-3x1_l0_a0_b1_cell_1_0"),
        ("hog", 4 * 9 + 2 * 9 + 5, "hog_block_0_1_cell_1_0_orient5"),
        ("lbp", 59 + 3, "lbp_pattern3_cell_0_1"),
        ("centrist", 0, "centrist_code1"),
        ("raw-pixels", 33, "raw-pixels_row1_column1"),
    ],
)
def test_names_say_what_a_feature_is(kind, number, name, images):
    assert make_extractor(kind).fit(images).get_feature_names_out()[number] == name


def test_names_stand_at_what_they_say():
    """A red image of which the lower right quarter is black: the names of the two bins that are not empty say so."""
    image = np.zeros((40, 60, 3), np.uint8)
    image[..., 0] = 255
    image[20:, 30:] = 0
    extractor = make_extractor("rgb-2x2", n_bins=2)
    X = extractor.fit_transform([image])[0]
    names = extractor.get_feature_names_out()[X > 0]
    assert set(names) == {
        *(f"rgb-2x2_r1_g0_b0_cell_{cell}" for cell in ("0_0", "0_1", "1_0")),
        "rgb-2x2_r0_g0_b0_cell_1_1",
    }


def test_layouts_stand_side_by_side_and_a_preset_has_the_fifteen_features_of_tagprop(images):
    union = FeatureExtraction(["rgb", "rgb-3x1", make_extractor("lbp", layout=(2, 1)), "lbp"]).fit(images)
    assert list(union.views_) == ["rgb", "rgb-3x1", "lbp-2x1", "lbp"]
    with pytest.raises(ParameterError, match="kinds must be different; got 'lbp' twice"):
        FeatureExtraction(["lbp", "lbp-4x4"]).fit(images)
    made = make_extractors(["tagprop"])
    assert len({extractor.view for extractor in made}) == 15
    assert {e.n_bins for e in made if isinstance(e, ColorHistogram) and e.layout == (3, 1)} == {12}


@pytest.mark.slow
def test_a_union_is_its_extractors_side_by_side(images):
    kinds = [small("rgb"), small("dense-hue"), "raw-pixels"]
    union = FeatureExtraction(kinds).fit(images)
    X = union.transform(images)
    assert list(union.views_) == ["rgb", "dense-hue", "raw-pixels"]
    for number, (view, columns) in enumerate(union.views_.items()):
        np.testing.assert_array_equal(X[:, columns], small(view).fit(images).transform(images))
        assert (union.groups_[columns] == number).all()
        assert all(name.startswith(f"{view}_") for name in union.get_feature_names_out()[columns])
    assert X.shape[1] == len(union.groups_) == union.n_features_out_


def test_images_are_read_and_large_ones_reduced(images, tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(images[0]).save(path)
    for image in (str(path), path, images[0]):
        np.testing.assert_array_equal(
            RawPixels().fit([image]).transform([image]), RawPixels().fit_transform(images)[:1]
        )
    large = np.repeat(np.repeat(images[0], 20, axis=0), 20, axis=1)
    reduced = RawPixels(max_pixels=images[0][..., 0].size).fit_transform([large])
    np.testing.assert_allclose(reduced, RawPixels().fit_transform(images[:1]), atol=0.02)


def test_unreadable_images_are_left_out_and_named(images, tmp_path):
    text = tmp_path / "text.png"
    text.write_text("no image")
    union = FeatureExtraction(["rgb", small("dense-hue")])
    found = union.extract([images[0], str(text), tmp_path / "missing.png", images[1]], fit=True)
    assert found.readable.tolist() == [0, 3]
    assert [
        str(path) in sentence for path, sentence in zip([text, tmp_path / "missing.png"], found.skipped, strict=True)
    ]
    np.testing.assert_array_equal(found.X, union.fit(images[:2]).transform(images[:2]))
    with pytest.raises(UnreadableError, match="not a picture"):
        union.transform([images[0], text])
    with pytest.raises(UnreadableError, match="not a picture"):
        union.extract([text], fit=True)


def test_fitted_extractors_are_kept_in_a_file(images, tmp_path):
    kinds = ["lab", small("dense-sift"), DenseHue(5, layout=(3, 1))]
    union = FeatureExtraction(kinds, max_pixels=2000).fit(images)
    save_extraction(union, tmp_path / "f.npz")
    again = load_extraction(tmp_path / "f.npz")
    np.testing.assert_array_equal(again.transform(images), union.transform(images))
    np.testing.assert_array_equal(again.groups_, union.groups_)
    assert again.views_ == union.views_


def test_extractors_of_a_stranger_are_checked(images, tmp_path):
    union = FeatureExtraction([small("dense-hue"), "rgb"]).fit(images)

    def written(change):
        save_extraction(union, tmp_path / "e.npz", force=True)
        return rewrite(tmp_path / "e.npz", lambda state, arrays: change(state["dict"]["extractors"], arrays))

    def give(extractor, **parameters):
        extractor["object"][1].update(parameters)

    name = "extractors.0.dictionary_"
    wrong = [
        lambda extractors, arrays: arrays.update({name: arrays[name][:, :-1]}),
        lambda extractors, arrays: give(extractors[0], scales=[1e9]),
        lambda extractors, arrays: give(extractors[1], layout={"tuple": [64, 64]}, n_bins=64),
        lambda extractors, arrays: give(extractors[0], colour=1),
        lambda extractors, arrays: extractors.append(extractors[1]),
        lambda extractors, arrays: extractors.clear(),
    ]
    for change in wrong:
        with pytest.raises(UnreadableError, match="damaged, or not feature extractors"):
            load_extraction(written(change))


def test_what_one_image_takes_is_bounded(monkeypatch):
    """A stranger's file could ask for a point each pixel, of a descriptor of a thousand numbers."""
    kind, noise = DenseHue(5), np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    kind.fit([noise]).transform([noise])
    monkeypatch.setattr("visionnmf.features.extractor.MOST_BYTES", 30_000)
    with pytest.raises(ParameterError, match=r"must leave at most \d+ places in an image; got \d+; take larger steps"):
        kind.transform([noise])


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing(images):
    union = FeatureExtraction(["rgb", small("dense-sift")]).fit(images)
    several = union.transform(images * 9)
    np.testing.assert_array_equal(union.set_params(n_jobs=2).transform(images * 9), several)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: make_extractor("hue"), r"kind must be one of \['rgb'"),
        (lambda: make_extractor("rgb", space="lab"), "params must be parameters of ColorHistogram that 'rgb' leaves"),
        (lambda: RawPixels().fit("a.png"), "images must be a list of arrays or files; got 'a.png'"),
        (lambda: RawPixels().fit([]), "images must hold at least one image; got none"),
        (lambda: RawPixels().fit(np.zeros((4, 4))), "images must be a list of arrays or files; got an array of shape"),
        (lambda: RawPixels().fit(np.zeros((4, 5, 3))), r"images must be several; got one of shape \(4, 5, 3\); put it"),
        (lambda: RawPixels().fit_transform([np.zeros((3, 4, 5))]), r"got \(3, 4, 5\); move the channels to the end by"),
        (lambda: harris_laplace(np.zeros((4, 5, 3))), r"grey must have shape \(height, width\); got \(4, 5, 3\)"),
        (lambda: RawPixels(size=(0, 2)).fit([np.zeros((4, 4))]), "size must be the height and width"),
        (lambda: DenseHue(layout=(0, 1)).fit([np.zeros((4, 4))]), "layout must be the rows and columns of cells"),
        (lambda: DenseHue(scales=()).fit([np.zeros((4, 4))]), "scales must be 1 to 10 numbers from"),
        (lambda: RawPixels(size=(9999, 9999)).fit([np.zeros((4, 4))]), "parameters must give at most 4194304 features"),
        (lambda: FeatureExtraction("rgb").fit([np.zeros((4, 4))]), "kinds must be a list of at least one kind"),
        (lambda: FeatureExtraction(["rgb", "rgb"]).fit([np.zeros((4, 4))]), "kinds must be different; got 'rgb' twice"),
    ],
)
def test_wrong_arguments(call, sentence):
    with pytest.raises(ParameterError, match=sentence):
        call()


@pytest.mark.parametrize(
    ("whites", "is_said"), [((4095, 800), True), ((65535, 4000), True), ((4095, 3000), False), ((255, 4095), False)]
)
def test_whites_of_16_bit_images_that_differ_are_said(whites, is_said):
    """A dark image of a camera of 12 bits is taken for one of 10; alone it is not known to be dark."""
    pixels = np.random.default_rng(2).random((20, 30, 3))
    images = [(pixels * white).astype(np.uint8 if white == 255 else np.uint16) for white in whites]
    extraction = FeatureExtraction(["rgb"])
    notes = extraction.extract(images, fit=True).notes
    assert any("white differs" in note for note in notes) == is_said
    for transform in (extraction.transform, extraction.extractors_["rgb"].transform):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            transform(images)
        assert any("white differs" in str(each.message) for each in caught) == is_said
