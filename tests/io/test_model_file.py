"""The schema of model files: what is declared is kept, and everything else is refused on one line."""

import importlib
import io
import json
import math
import re
import struct
import tracemalloc
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from model_files import rewrite
from sklearn.base import BaseEstimator

import visionnmf
from visionnmf._checks import shown
from visionnmf._text import one_line
from visionnmf.exceptions import (
    MediaError,
    OutputExistsError,
    ParameterError,
    TooLargeError,
    UnreadableError,
    UnsupportedError,
)
from visionnmf.io.model_file import ModelFile, count_outside_strings
from visionnmf.io.model_state import (
    Array,
    Estimator,
    Flag,
    FrameShape,
    List,
    Maybe,
    Number,
    Record,
    Restorable,
    Text,
    Value,
    Whole,
)


def kept(state):
    return ModelFile("visionnmf-test", 3, "a test", "make one", "make it smaller", state)


class Scene(SimpleNamespace):
    """A model: a picture, what moves in it, and people."""


SCENE = kept(
    Record(
        {
            "shape": FrameShape(),
            "picture": Array("float32 float64", "height width channels?", low=0, high=1),
            "places": Array("int64", "places", low=0, below="height*width", increasing=True),
            "moving": Maybe(Record({"share": Array("float32", "height width", above=0)}, SimpleNamespace)),
            "gain": Number(above=0, also=(math.inf,)),
            "n_seen": Whole(low=1),
            "rule": Text(("near", "far")),
            "detect": Flag(),
            "people": List(
                Record({"name": Text(), "n_views": Whole(size="views"), "codes": Array("float32", "views codes")}),
                size="people",
            ),
            "weights": Array("float64", "people"),
        },
        Scene,
    )
)


def scene(colour=True):
    return Scene(
        shape=(4, 5, 3) if colour else (4, 5),
        picture=np.linspace(0, 1, 60).reshape(4, 5, 3) if colour else np.linspace(0, 1, 20).reshape(4, 5),
        places=np.array([0, 7, 19]),
        moving=SimpleNamespace(share=np.full((4, 5), 0.5, np.float32)) if colour else None,
        gain=2 if colour else math.inf,
        n_seen=np.int64(8),
        rule="far",
        detect=np.True_,
        people=[{"name": "\udc80é", "n_views": n, "codes": np.eye(n, 3, dtype=np.float32)} for n in (2, 5)],
        weights=np.array([0.5, -1]),
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.npz"


def same(a, b):
    """Whether two values are alike, in kind too."""
    if sp.issparse(a):
        return sp.issparse(b) and a.shape == b.shape and (a != b).nnz == 0
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    if isinstance(a, SimpleNamespace):
        return type(a) is type(b) and same(vars(a), vars(b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)


@pytest.mark.parametrize("colour", [True, False])
def test_what_is_saved_is_loaded(path, colour):
    SCENE.save(scene(colour), path)
    assert same(SCENE.load(path), scene(colour))
    with np.load(path, allow_pickle=False) as plain:  # NumPy reads the same
        np.testing.assert_array_equal(plain["people.1.codes"], np.eye(5, 3))
        assert json.loads(plain["header"].tobytes())["state"]["rule"] == "far"
    with pytest.raises(OutputExistsError):
        SCENE.save(scene(), path)
    SCENE.save(scene(), path, force=True)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    with pytest.raises(MediaError, match="there is no folder"):
        SCENE.save(scene(), path.parent / "no" / "x.npz")


WRONG = {  # a changed model: the line that refuses it
    "picture of another height": ({"picture": np.zeros((3, 5, 3))}, "picture must be .* got float64 of shape"),
    "picture of one dimension": ({"picture": np.zeros(4)}, "picture must be float32 or float64 of shape"),
    "grey levels": ({"picture": np.full((4, 5, 3), 2.0)}, "picture must be <= 1; got 2.0"),
    "negative levels": ({"picture": np.full((4, 5, 3), -1.0)}, "picture must be >= 0; got -1.0"),
    "not a number": ({"picture": np.full((4, 5, 3), np.nan)}, "picture must be finite"),
    "infinite": ({"weights": np.array([np.inf, 0])}, "weights must be finite"),
    "complex": ({"weights": np.zeros(2, complex)}, "weights must be float64"),
    "objects": ({"weights": np.array([None, 1])}, "weights must be float64"),
    "nothing": ({"weights": None}, "weights must be float64"),
    "a place beyond the picture": ({"places": np.array([20])}, r"places must be < height\*width; got 20"),
    "places that repeat": ({"places": np.array([1, 1])}, "places must be increasing"),
    "no places": ({"places": np.array([], int)}, r"places must be int64 of shape \(places\)"),
    "no share": ({"moving": SimpleNamespace(share=np.zeros((4, 5), np.float32))}, "moving.share must be > 0; got 0"),
    "gain of 0": ({"gain": 0.0}, "gain must be > 0; got 0"),
    "gain is not a number": ({"gain": math.nan}, "gain must be a finite number; got 'nan'"),
    "gain is true": ({"gain": True}, "gain must be a finite number; got True"),
    "nothing seen": ({"n_seen": 0}, "n_seen must be >= 1; got 0"),
    "half a frame seen": ({"n_seen": 1.5}, "n_seen must be a whole number; got 1.5"),
    "too much seen": ({"n_seen": 10**400}, "n_seen must be <= 9007199254740992; got 1000"),
    "unknown rule": ({"rule": "evil"}, "rule must be one of near, far; got 'evil'"),
    "no text": ({"rule": 3}, "rule must be text; got 3"),
    "detect is a number": ({"detect": 1}, "detect must be True or False; got 1"),
    "no people": ({"people": []}, "people must be a list of at least one"),
    "fewer people": ({"people": scene().people[:1]}, "weights must be float64 .* got float64 of shape"),
    "other views": (
        {"people": [{"name": "a", "n_views": 3, "codes": np.eye(2, dtype=np.float32)}]},
        r"people.0.codes must be float32 of shape \(views, codes\); got float32 of shape \(2, 2\)",
    ),
    "a shape of four": ({"shape": (4, 5, 3, 1)}, "shape must be a height and a width"),
    "no height": ({"shape": (0, 5)}, "shape must be a height and a width"),
}


@pytest.mark.parametrize(("change", "line"), WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_not_saved(path, change, line):
    with pytest.raises(ParameterError, match=line + ".*; a test cannot be saved like this"):
        SCENE.save(Scene(**vars(scene()) | change), path)
    assert not path.exists()


DAMAGES = {  # of the state and the arrays
    "no picture": lambda s, a: a.pop("picture"),
    "picture not mentioned": lambda s, a: s.pop("picture"),
    "picture is text": lambda s, a: s.update(picture="evil"),
    "picture is a list": lambda s, a: s.update(picture=[1]),
    "another picture": lambda s, a: a.update(picture=np.zeros((4, 4, 3))),
    "half precision": lambda s, a: a.update(picture=a["picture"].astype(np.float16)),
    "not finite": lambda s, a: a.update(picture=a["picture"] * np.nan),
    "objects": lambda s, a: a.update(picture=np.array([{"evil": 1}], object)),
    "text array": lambda s, a: a.update(picture=np.array(["a"])),
    "structured": lambda s, a: a.update(picture=np.zeros(3, [("a", "f8")])),
    "places from behind": lambda s, a: a.update(places=-a["places"]),
    "one more member": lambda s, a: a.update(evil=np.zeros(3)),
    "one more field": lambda s, a: s.update(evil=1),
    "one more field of a part": lambda s, a: s["people"][0].update(evil=1),
    "people are a dict": lambda s, a: s.update(people={"0": s["people"][0]}),
    "people are numbers": lambda s, a: s.update(people=[1, 2]),
    "a person fewer": lambda s, a: s["people"].pop(),
    "a name too few": lambda s, a: s["people"][0].pop("name"),
    "gain is an infinity that is not allowed": lambda s, a: s.update(gain="-inf"),
    "gain is JSON's own NaN": lambda s, a: s.update(gain=math.nan),
    "gain is enormous": lambda s, a: s.update(gain=10**400),
    "gain is a list": lambda s, a: s.update(gain=[[]] * 99),
    "shape is text": lambda s, a: s.update(shape="45"),
    "state is a list": lambda s, a: s.clear(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_files_are_refused(path, damage):
    SCENE.save(scene(), path)
    SCENE.load(rewrite(path))  # rewriting alone does no harm
    with pytest.raises(UnreadableError, match=r"x\.npz: damaged, or not a test \(") as caught:
        SCENE.load(rewrite(path, damage))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300 + len(str(path))


@pytest.mark.parametrize(
    ("header", "error", "line"),
    [
        (lambda h: h.update(format="other"), UnreadableError, r"x\.npz: not a test; make one$"),
        (lambda h: h.update(format=["visionnmf-test"]), UnreadableError, "not a test; make one$"),
        (lambda h: h.pop("format"), UnreadableError, "not a test; make one$"),
        (lambda h: h.pop("version"), UnreadableError, "damaged"),
        (lambda h: h.update(version="new"), UnreadableError, "damaged, or not a test"),
        (lambda h: h.update(version=4), UnsupportedError, r"a later .*\(model version 4, .* 3\); upgrade visionnmf$"),
        (lambda h: h.update(version=2), UnsupportedError, r"an earlier .*\(model version 2, .* 3\); make one$"),
        (lambda h: h.update(version=10**400), UnsupportedError, "a later version"),
        (lambda h: h.pop("state"), UnreadableError, "damaged, or not a test"),
    ],
)
def test_other_versions_and_other_files_are_refused(path, header, error, line):
    SCENE.save(scene(), path)
    with pytest.raises(error, match=line) as caught:
        SCENE.load(rewrite(path, header=header))
    assert len(str(caught.value)) < 300 + len(str(path))


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"no model", b"PK\x05\x06" + bytes(18), b"PK\x05\x06" + bytes(9), b"\x93NUMPY" * 9]
)
def test_what_is_no_archive_is_refused(path, content):
    path.write_bytes(content)
    for name in (path, path.with_name("missing"), path.parent):
        with pytest.raises(UnreadableError):
            SCENE.load(name)


# --- estimators and values --------------------------------------------------------------------------------------------


class Model(Restorable, BaseEstimator):
    def __init__(self, n=2, inner=None, random_state=None):
        self.n, self.inner, self.random_state = n, inner, random_state

    def fit(self, X):
        self.mean_ = X.mean(axis=0)
        return self

    def _restored(self):
        if self.n == 13:
            raise ValueError("n must not be 13")


CLASSES = {"Model": Model}
STATES = {"Model": {"mean_": Array("float64", "features"), "spread_": Maybe(Array("float64", "features"))}}
FITTED = kept(Estimator(STATES, CLASSES.__getitem__, Value(CLASSES.__getitem__)))
VALUES = {
    "nothing": None,
    "numbers": [1, -2.5, float("inf"), float("-inf"), True, 10**30],
    "nan": float("nan"),
    "tuple": (0, None, ("text", "\udc80é")),
    "dict": {"a": {"tuple": 3}, "array": [1]},
    "slice": slice(None, 4),
    "cube": np.arange(24, dtype=np.int16).reshape(2, 3, 4),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "zero-dimensional": np.array(3.5),
    "empty": np.zeros((0, 4), np.float32),
    "truth": np.array([True, False]),
    "names": np.array(["a", "é"], dtype=object),
    "sparse": sp.csr_array(np.eye(3)),
}


def test_odd_parameters_come_back(path):
    model = Model(n=VALUES | {"scalars": [np.float32(0.5), np.int64(3)], "big-endian": np.arange(3, dtype=">f8")})
    FITTED.save(model.fit(np.eye(3)), path)
    found = FITTED.load(path)
    assert same(found.n, VALUES | {"scalars": [0.5, 3], "big-endian": np.arange(3.0)})
    assert same(found.mean_, model.mean_) and not hasattr(found, "spread_")


def test_an_estimator_has_dimensions_of_its_own(path):
    inner, sized = FITTED.state, Estimator(STATES, CLASSES.__getitem__, sizes=(("features", "rows*2"),))
    file = kept(Record({"data": Array("float64", "rows features"), "model": inner, "sized": Maybe(sized)}))
    state = {"data": np.zeros((3, 4)), "model": Model().fit(np.eye(5)), "sized": Model().fit(np.eye(6))}
    file.save(state, path)
    assert same(file.load(path)["model"].mean_, state["model"].mean_)
    with pytest.raises(ParameterError, match=r"sized.mean_ must be float64 of shape \(features\)"):
        file.save(state | {"sized": Model().fit(np.eye(7))}, path, force=True)


def test_models_within_models_come_back_and_callables_do_not(path):
    model = Model(inner=[Model(4), len, np.random.default_rng(0)], random_state=np.random.RandomState(0))
    FITTED.save(model.fit(np.eye(3)), path)
    found = FITTED.load(path)
    assert type(found.inner[0]) is Model and found.inner[0].n == 4
    assert found.inner[1:] == [None, None] and found.random_state is None


@pytest.mark.parametrize(
    ("value", "line"),
    [({1: 2}, "a dict"), (object(), "a object"), (np.array([1j]), "an array of complex128")],
)
def test_parameters_that_cannot_be_kept_are_refused(path, value, line):
    with pytest.raises(ParameterError, match=f"parameters.* must be a number, text, an array .*; got {line}"):
        FITTED.save(Model(n=value).fit(np.eye(2)), path)


def test_only_declared_classes_are_saved(path):
    class Other(Model):
        pass

    with pytest.raises(
        ParameterError, match=r"model must be one of \['Model'\]; got a Other, whose parts can be saved"
    ):
        FITTED.save(Other().fit(np.eye(2)), path)


PARAMETERS = {
    "unknown form": {"pickle": "gASVAAAA"},
    "two forms": {"tuple": [], "dict": {}},
    "no form": {},
    "float is a list": {"float": [1]},
    "float of a word": {"float": "1e5"},
    "slice of text": {"slice": ["a", "b", "c"]},
    "a tuple of text": {"tuple": "abc"},
    "dict of a list": {"dict": [[1], [2]]},
    "unknown object": {"object": ["os.system", {"dict": [[], []]}]},
    "object of a list": {"object": [[1], {}]},
    "object with an unknown parameter": {"object": ["Model", {"dict": [["evil"], [1]]}]},
    "array of the model": {"array": None},
    "strings of numbers": {"strings": [1]},
    "sparse beyond its shape": {"csr": [[1, 3], [{"array": None}] * 3]},
    "13": 13,
}


@pytest.mark.parametrize("value", PARAMETERS.values(), ids=PARAMETERS)
def test_damaged_parameters_are_refused(path, value):
    FITTED.save(Model().fit(np.eye(3)), path)

    def change(state, arrays):
        state["parameters"]["dict"][1][1] = value
        if "csr" in str(value):
            arrays |= {f"parameters.1.{i}": np.array(part) for i, part in enumerate(([1.0], [9], [0, 1]))}

    with pytest.raises(UnreadableError, match="damaged, or not a test"):
        FITTED.load(rewrite(path, change))


def nested(levels):
    value = 1
    for _ in range(levels):
        value = {"tuple": [value]}
    return value


@pytest.mark.parametrize(
    "damage",
    [
        lambda s, a: s.update({"class": "BaseEstimator"}),
        lambda s, a: s.update({"class": ["Model"]}),
        lambda s, a: s.update(parameters=[1]),
        lambda s, a: s.update(fitted=[1]),
        lambda s, a: s["fitted"].update(transform=1),
        lambda s, a: s["fitted"].update(__class__=1),
        lambda s, a: s["fitted"].pop("mean_"),
        lambda s, a: s["parameters"]["dict"][1].__setitem__(2, 1.5),  # the seed
        lambda s, a: s["parameters"]["dict"][1].__setitem__(1, nested(300)),
    ],
)
def test_damaged_estimators_are_refused(path, damage):
    FITTED.save(Model().fit(np.eye(3)), path)
    with pytest.raises(UnreadableError, match="damaged, or not a test"):
        FITTED.load(rewrite(path, damage))


# --- memory -----------------------------------------------------------------------------------------------------------

PLAIN = kept(Record({"one": Array("float64", "n", empty=True), "more": Value()}))


def npy(shape, dtype="<f8", content=b""):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": dtype})
    return file.getvalue() + content


def replaced(path, method=zipfile.ZIP_STORED, **members):
    """Write the file `PLAIN` with other bytes as members."""
    PLAIN.save({"one": np.arange(3.0), "more": None}, path, force=True)
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()} | {f"{k}.npy": v for k, v in members.items()}
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return path


def header(more):
    text = b'{"format": "visionnmf-test", "version": 3, "state": {"one": "array", "more": %s}}' % more
    return npy((len(text),), "|u1", text)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (npy((1 << 60, 4), content=bytes(8)), "one is not of the size it says"),
        (npy((2,), content=bytes(8)), "one is not of the size it says"),
        (npy((1,), content=bytes(16)), "one is not of the size it says"),
        (npy((-1, -1), content=bytes(8)), "damaged"),
        (npy((1,), "|O", bytes(8)), "one holds objects"),
        (npy((1,), "<U2", bytes(8)), "one must be an array of numbers"),
        (npy((1,), "<c16", bytes(16)), "one must be an array of numbers"),
        (npy((1,), [("a", "<f8")], bytes(8)), "one must be an array of numbers"),
        (npy((2,), content=bytes(16)).replace(b"}", b"("), "damaged"),
        (npy((2,), content=bytes(16)).replace(b"}", b"'"), "damaged"),
        (b"no array", "damaged"),
        (b"\x93NUMPY\x09\x00" + bytes(99), "damaged"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 20) + bytes(1 << 20), "its header has 1048576 bytes"),
        (b"", "damaged"),
    ],
)
def test_bad_arrays(path, content, line):
    with pytest.raises(UnreadableError, match=line) as caught:
        PLAIN.load(replaced(path, one=content))
    assert "\n" not in str(caught.value)


def test_other_byte_orders_become_the_machines(path):
    array = PLAIN.load(replaced(path, one=npy((3,), ">f8", np.arange(3, dtype=">f8").tobytes())))["one"]
    assert array.dtype.isnative and array.flags.writeable
    np.testing.assert_array_equal(array, [0, 1, 2])


def test_compressed_and_encrypted_files_are_refused(path):
    with pytest.raises(UnreadableError, match="it is compressed"):
        PLAIN.load(replaced(path, zipfile.ZIP_DEFLATED))
    data = bytearray(replaced(path).read_bytes())
    at = data.rfind(b"PK\1\2")  # a member in the directory; eight bytes further, its flags
    data[at + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(UnreadableError, match="it is encrypted"):
        PLAIN.load(path)


def test_members_that_share_their_bytes_are_refused(path):
    data = bytearray(replaced(path).read_bytes())
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(b"one.npy"))  # the directory at the end says how long members are
    for field in (20, 24):
        data[entry + field : entry + field + 4] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    with pytest.raises(UnreadableError, match="its members are larger than the file"):
        PLAIN.load(path)


SHORT = {  # short values take up to 20 times the memory of their text
    "numbers": b"[" + b"999," * 1_900_000 + b"0]",
    "strings": b"[" + b'"ab",' * 1_800_000 + b"0]",
    "keys": b"{" + b",".join(b'"%d":1' % number for number in range(1_000_000)) + b"}",
    "lists": b"[" + b"[]," * 300_000 + b"0]",
    "wide": b'"' + b"a" * (15 << 20) + b'\\ud83d\\ude00"',
    "words": b'"' + b"[,:" * 5_000_000 + b'"',  # one string
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHORT)
def test_what_a_header_decodes_to_is_bounded(path, kind):
    replaced(path, header=header(SHORT[kind]))
    tracemalloc.start()
    try:
        PLAIN.load(path)
        told = ""
    except TooLargeError as error:
        told = str(error)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2 * path.stat().st_size + 200e6
    refused = r"the values of its header take 1\d\d MiB, 160 are allowed|more than 250000 lists and objects"
    assert (told == "") == (kind in ("wide", "words")) and (not told or re.search(refused, told))


def test_a_header_that_is_too_long_is_refused_before_it_is_read(path):
    replaced(path, header=npy((33 << 20,), "|u1", bytes(33 << 20)))
    tracemalloc.start()
    with pytest.raises(TooLargeError, match="its header has 33 MiB, 32 are allowed; make it smaller"):
        PLAIN.load(path)
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


def test_a_header_that_would_not_be_read_is_not_written(path, monkeypatch):
    monkeypatch.setattr("visionnmf.io.model_file.MAX_VALUES", 16 << 20)
    with pytest.raises(TooLargeError, match="the values of its header take 18 MiB, 16 are allowed; make it smaller"):
        PLAIN.save({"one": np.zeros(1), "more": ["ab"] * 200_000}, path)
    assert not path.exists()
    names = ['a "quoted, odd": [name]\\' + end for end in ("", "\\", '"', '\\"')]
    PLAIN.save({"one": np.zeros(1), "more": names}, path)
    assert PLAIN.load(path)["more"] == names
    assert count_outside_strings(json.dumps({"names": names}).encode())[ord(",")] == len(names) - 1


def test_a_header_is_ascii(path):
    """A single character beyond U+FFFF would make four bytes of each other one."""
    with pytest.raises(UnreadableError, match="damaged, or not a test"):
        PLAIN.load(replaced(path, header=header('"\U0001f600"'.encode())))


@pytest.mark.slow
def test_what_is_quoted_of_a_large_value_takes_little_memory():
    value = [9] * 300_000
    tracemalloc.start()
    assert len(shown(value)) == 80
    assert len(one_line(ValueError("a " * 500_000))) < 10_000
    assert tracemalloc.get_traced_memory()[1] < 5e6
    tracemalloc.stop()


@pytest.mark.slow
def test_a_directory_of_many_members_is_refused_before_it_is_read(path):
    replaced(path, **{f"{i:06}": b"" for i in range(20_000)})
    with pytest.raises(UnreadableError, match=r"its directory has 1[0-9]{6} bytes"):
        PLAIN.load(path)


@pytest.mark.slow
def test_a_large_directory_of_a_zip64_file_is_refused(path):
    replaced(path, **{f"{i}": b"" for i in range(70_000)})  # more than the 16 bits of the plain record
    with pytest.raises(UnreadableError, match=r"its directory has [34][0-9]{6} bytes"):
        PLAIN.load(path)


def test_a_file_with_bytes_after_its_directory_is_read(path):
    replaced(path)
    with zipfile.ZipFile(path, "a") as file:
        file.comment = b"a comment that zip files may have" * 100
    np.testing.assert_array_equal(PLAIN.load(path)["one"], [0, 1, 2])


def test_files_of_other_kinds_are_named_as_their_stores_name_them():
    from visionnmf.io.model_file import OTHERS

    root = Path(visionnmf.__file__).parents[1]
    sources = [path.read_text() for folder in ("apps", "visionnmf") for path in (root / folder).rglob("*.py")]
    assert all(any(f'ModelFile(\n    "{name}"' in source for source in sources) for name in OTHERS)
    for _, reader in OTHERS.values():
        module = re.search(r"visionnmf[\w.]*$", reader)[0].removesuffix(".load_model")
        name = reader.split(" or ")[0].split(" of ")[0].split(".")[0]
        assert name == "visionnmf" or hasattr(importlib.import_module(module), name)
