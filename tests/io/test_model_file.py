"""Model files: what is saved comes back, and everything else is refused on one line."""

import importlib
import io
import json
import math
import re
import tracemalloc
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from model_files import rewrite, same
from sklearn.base import BaseEstimator

import visionnmf
from visionnmf import exceptions
from visionnmf._checks import check_saved, shown
from visionnmf._text import one_line
from visionnmf.exceptions import MediaError, OutputExistsError, ParameterError, TooLargeError, UnreadableError
from visionnmf.io.model_file import KINDS, MAX_DEPTH, ModelFile, check_model, class_finder


class Model(BaseEstimator):
    """An estimator whose state is a mean."""

    saved_attributes = ("mean_", "note_")

    def __init__(self, n=2, inner=None, random_state=None):
        self.n, self.inner, self.random_state = n, inner, random_state

    def fit(self, X):
        self.mean_ = X.mean(axis=0)
        return self

    def _check_state(self):
        check_saved(self.mean_, "mean_", (None,))
        if self.n == 13:
            raise ValueError("n must not be 13")


@dataclass
class Pair:
    """An object that is no estimator."""

    first: object
    second: object = None


def kept(check=lambda state: state):
    return ModelFile("test", 3, "a test", "make one", "make it smaller", class_finder(Model, Pair), check)


FITTED, LATER = kept(check_model(Model)), exceptions.UnsupportedError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.npz"


def test_what_is_saved_is_loaded(path):
    model = Model(4).fit(np.eye(3))
    model.other_ = "not named"
    FITTED.save(model, path)
    found = FITTED.load(path)
    assert same(found.mean_, model.mean_) and found.n == 4 and not hasattr(found, "other_")
    with np.load(path, allow_pickle=False) as plain:  # NumPy reads the same
        np.testing.assert_array_equal(plain["mean_"], model.mean_)
        header = json.loads(plain["header"].tobytes())
    assert [header[key] for key in ("format", "kind", "version")] == ["visionnmf", "test", 3]
    assert header["written_by"] == visionnmf.__version__
    content = path.read_bytes()
    with pytest.raises(OutputExistsError):
        FITTED.save(model, path)
    FITTED.save(model, path, force=True)
    assert path.read_bytes() == content and [file.name for file in path.parent.iterdir()] == [path.name]
    with pytest.raises(MediaError, match="there is no folder"):
        FITTED.save(model, path.parent / "no" / "x.npz")


def test_what_could_not_be_read_is_not_saved(path):
    with pytest.raises(ParameterError, match="mean_ must be finite; a test cannot be saved like this"):
        FITTED.save(Model().fit(np.full((2, 2), np.nan)), path)
    assert not path.exists()


ODD = {
    "another dtype": (np.zeros(2, np.float16), {}, r"a must be float32 or float64 of shape \(any\)"),
    "complex": (np.zeros(2, complex), {}, "a must be float32"),
    "a list": ([0.0], {}, "a must be float32"),
    "nothing": (None, {}, "a must be float32"),
    "more dimensions": (np.zeros((2, 1)), {}, "a must be float32"),
    "no numbers": (np.zeros(0), {}, "a must be float32"),
    "another size": (np.zeros(2), {"shape": (3,)}, r"a must be float32 or float64 of shape \(3\)"),
    "not a number": (np.array([0, np.nan]), {}, "a must be finite"),
    "infinite": (np.array([0, -np.inf]), {}, "a must be finite"),
    "negative": (np.array([0, -1.0]), {"low": 0}, "a must be from 0 to inf; got -1.0 to 0.0"),
    "too large": (np.array([0, 2]), {"high": 1, "dtypes": "int64"}, "a must be from -inf to 1; got 0 to 2"),
    "zero": (np.array([0, 1.0]), {"positive": True}, "a must be > 0; got 0.0"),
    "not a number among numbers from 0": (np.array([np.nan]), {"low": 0, "finite": False}, "a must be from 0"),
}


@pytest.mark.parametrize(("array", "options", "line"), ODD.values(), ids=ODD)
def test_arrays_of_files_are_checked(array, options, line):
    with pytest.raises(ValueError, match=line):
        check_saved(array, "a", **{"shape": (None,), **options})
    assert check_saved(np.ones((2, 3)), "a", (None, 3), low=1, high=1, positive=True) == (2, 3)
    assert check_saved(np.array([np.nan]), "a", (1,), finite=False) == (1,)
    assert check_saved(np.zeros((0, 2), np.uint8), "a", (None, 2), "uint8", empty=True) == (0, 2)


@pytest.mark.parametrize(
    ("header", "error", "line"),
    [
        (lambda h: h.update(kind="other"), UnreadableError, r"x\.npz: not a test; make one$"),
        (lambda h: h.update(kind=["test"]), UnreadableError, "not a test; make one$"),
        (lambda h: h.update(format="other"), UnreadableError, "not a test; make one$"),
        (lambda h: h.update(kind="faces"), UnreadableError, "of the kind 'faces', which FaceRecognizer.load .* reads"),
        (lambda h: h.pop("kind"), UnreadableError, "not a test; make one$"),
        (lambda h: h.pop("version"), UnreadableError, "damaged"),
        (lambda h: h.update(version="new"), UnreadableError, "damaged, or not a test"),
        (lambda h: h.update(version=4), LATER, r"a later .*\(model version 4, .* 3\); upgrade visionnmf$"),
        (lambda h: h.update(version=2), LATER, r"an earlier .*\(model version 2, .* 3\); make one$"),
        (lambda h: h.update(version=10**400), LATER, "a later version"),
        (lambda h: h.pop("state"), UnreadableError, "damaged, or not a test"),
    ],
)
def test_other_versions_and_other_files_are_refused(path, header, error, line):
    FITTED.save(Model().fit(np.eye(2)), path)
    with pytest.raises(error, match=line) as caught:
        FITTED.load(rewrite(path, header=header))
    assert len(str(caught.value)) < 300 + len(str(path))


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"no model", b"PK\x05\x06" + bytes(18), b"PK\x05\x06" + bytes(9), b"\x93NUMPY" * 9]
)
def test_what_is_no_archive_is_refused(path, content):
    path.write_bytes(content)
    for name in (path, path.with_name("missing"), path.parent):
        with pytest.raises(UnreadableError):
            FITTED.load(name)


# --- values -----------------------------------------------------------------------------------------------------------

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


def test_objects_within_models_come_back_and_callables_do_not(path):
    inner = [Model(4), Model(5).fit(np.eye(2)), Pair(np.eye(2)), len, np.random.default_rng(0)]
    FITTED.save(Model(inner=inner, random_state=np.random.RandomState(0)).fit(np.eye(3)), path)
    found = FITTED.load(path)
    unfitted, fitted, pair, *others = found.inner
    assert unfitted.n == 4 and not hasattr(unfitted, "mean_") and same(fitted.mean_, inner[1].mean_)
    assert type(pair) is Pair and same(pair.first, np.eye(2))
    assert others == [None, None] and found.random_state is None


class Other(Model):
    """A class that no kind of file finds."""


@pytest.mark.parametrize(
    ("value", "line"),
    [({1: 2}, "a dict"), (object(), "a object"), (np.array([1j]), "an array of complex128"), (Other(), "a Other")],
)
def test_parameters_that_cannot_be_kept_are_refused(path, value, line):
    with pytest.raises(ParameterError, match=f"n must be a number, text, an array .*; got {line}"):
        FITTED.save(Model(n=value).fit(np.eye(2)), path)


def nested(levels, form):
    value = 1
    for _ in range(levels):
        value = [value] if form is None else {form: {"a": value} if form == "dict" else [value]}
    return value


PARAMETERS = {
    **{"unknown form": {"pickle": "gASVAAAA"}, "two forms": {"tuple": [], "dict": {}}, "no form": {}},
    **{"float is a list": {"float": [1]}, "float of a word": {"float": "1e5"}},
    "JSON's own NaN": math.nan,
    "slice of text": {"slice": ["a", "b", "c"]},
    "a tuple of text": {"tuple": "abc"},
    "a tuple of a tuple": {"tuple": {"tuple": [1]}},
    "dict of a list": {"dict": [[1], [2]]},
    "unknown object": {"object": ["os.system", {}]},
    "object of a list": {"object": [[1], {}]},
    "object with an unknown parameter": {"object": ["Model", {"evil": 1}]},
    "object with an attribute that it does not have": {"object": ["Model", {}, {"fit": 1}]},
    "an object that is no estimator with attributes": {"object": ["Pair", {"first": 1}, {"second": 1}]},
    "object with too many parts": {"object": ["Model", {}, {}, {}]},
    "array of another place": {"array": "mean_"},
    "array that is not there": {"array": "n"},
    "strings of numbers": {"strings": [1]},
    "sparse beyond its shape": {"csr": [[1, 3], [{"array": f"n.{i}"} for i in range(3)]]},
    "sparse of a shape that is larger than the file": {"csr": [[1 << 40, 3], [{"array": f"n.{i}"} for i in range(3)]]},
    "13": 13,
    **{f"{form} within each other": nested(300, form) for form in (None, "tuple", "dict")},
}


@pytest.mark.parametrize("value", PARAMETERS.values(), ids=PARAMETERS)
def test_damaged_parameters_are_refused(path, value):
    FITTED.save(Model().fit(np.eye(3)), path)

    def change(state, arrays):
        state["object"][1]["n"] = value
        if "csr" in str(value):
            arrays |= {f"n.{i}": np.array(part) for i, part in enumerate(([1.0], [9], [0, 1]))}

    with pytest.raises(UnreadableError, match=r"x\.npz: damaged, or not a test \(") as caught:
        FITTED.load(rewrite(path, change))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300 + len(str(path))


def test_depth_is_limited_where_it_is_written(path):
    value = nested(MAX_DEPTH - 1, None)
    FITTED.save(Model(n=value).fit(np.eye(2)), path)
    assert FITTED.load(path).n == value
    with pytest.raises(ParameterError, match="is nested more than 50 levels deep"):
        FITTED.save(Model(n=[[value]]).fit(np.eye(2)), path, force=True)


@pytest.mark.parametrize(
    "damage",
    [
        lambda s, a: s["object"].__setitem__(0, "BaseEstimator"),
        lambda s, a: s["object"].__setitem__(0, "Pair"),
        lambda s, a: s["object"].__setitem__(1, [1]),
        lambda s, a: s["object"].__setitem__(2, [1]),
        lambda s, a: s["object"].pop(),  # of a model that is not fitted
        lambda s, a: s["object"][2].update(transform=1),
        lambda s, a: s["object"][2].update(__class__=1),
        lambda s, a: s["object"][2].pop("mean_"),
        lambda s, a: s["object"][1].update(random_state=1.5),
        lambda s, a: s.update(evil=1),
        lambda s, a: s.clear(),
        lambda s, a: a.update(evil=np.zeros(3)),
        lambda s, a: a.update(mean_=np.array([{"evil": 1}], object)),
        lambda s, a: a.update(mean_=np.array(["a"])),
        lambda s, a: a.update(mean_=np.zeros(3, [("a", "f8")])),
    ],
)
def test_damaged_files_are_refused(path, damage):
    FITTED.save(Model().fit(np.eye(3)), path)
    FITTED.load(rewrite(path))  # rewriting alone does no harm
    with pytest.raises(UnreadableError, match=r"x\.npz: damaged, or not a test \("):
        FITTED.load(rewrite(path, damage))


# --- memory -----------------------------------------------------------------------------------------------------------

PLAIN = kept()


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
    """Return the header of a file of the kind `PLAIN` with a value as JSON."""
    about = b'{"format": "visionnmf", "kind": "test", "version": 3, "state": {"dict": {"one": {"array": "one"}, '
    text = about + b'"more": ' + more + b"}}}"
    return npy((len(text),), "|u1", text)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (npy((1 << 60, 4), content=bytes(8)), "damaged"),
        (npy((2,), content=bytes(8)), "damaged"),
        (npy((-1, -1), content=bytes(8)), "damaged"),
        (npy((1,), "|O", bytes(8)), "Object arrays cannot be loaded"),
        (npy((1,), "<U2", bytes(8)), "one must be an array of numbers"),
        (npy((1,), "<c16", bytes(16)), "one must be an array of numbers"),
        (npy((1,), [("a", "<f8")], bytes(8)), "one must be an array of numbers"),
        (npy((2,), content=bytes(16)).replace(b"}", b"("), "damaged"),
        (npy((2,), content=bytes(16)).replace(b"}", b"'"), "damaged"),
        (b"no array", "damaged"),
        (b"\x93NUMPY\x09\x00" + bytes(99), "damaged"),
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


def test_compressed_and_encrypted_files_and_members_that_share_their_bytes_are_refused(path):
    with pytest.raises(UnreadableError, match="it is compressed"):
        PLAIN.load(replaced(path, zipfile.ZIP_DEFLATED))
    data = bytearray(replaced(path).read_bytes())
    at = data.rfind(b"PK\1\2")  # a member in the directory; eight bytes further, its flags
    data[at + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(UnreadableError, match="is encrypted"):
        PLAIN.load(path)
    data = bytearray(replaced(path).read_bytes())
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(b"one.npy"))  # the directory at the end says how long members are
    for field in (20, 24):
        data[entry + field : entry + field + 4] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    with pytest.raises(UnreadableError, match="its members are larger than the file"):
        PLAIN.load(path)
    data = bytearray(replaced(path).read_bytes())
    data[data.index(b"visionnmf")] ^= 1  # in the header, whose checksum is then another
    path.write_bytes(data)
    with pytest.raises(UnreadableError, match="damaged"):
        PLAIN.load(path)


SHORT = {  # an eighth of what a header may have; short values take many times the memory of their text
    "numbers": b"[" + b"999," * 237_500 + b"0]",
    "strings": b"[" + b'"ab",' * 200_000 + b"0]",
    "keys": b"{" + b",".join(b'"%d":1' % number for number in range(87_500)) + b"}",
    "lists": b"[" + b"[]," * 337_500 + b"0]",
    "objects": b"[" + b"{}," * 337_500 + b"0]",
    "wide": b'"' + b"a" * (7 << 17) + b'\\ud83d\\ude00"',
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHORT)
def test_what_a_header_decodes_to_is_bounded(path, kind):
    replaced(path, header=header(SHORT[kind]))
    tracemalloc.start()
    with suppress(UnreadableError, TooLargeError):  # a dict of more than one key, and too many lists
        PLAIN.load(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2 * path.stat().st_size + 25e6


def test_a_header_has_a_limit_when_written_and_read_and_is_ascii(path):
    with pytest.raises(TooLargeError, match=r"its header has 1\d\.\d MiB, 8 are allowed; make it smaller"):
        PLAIN.save({"one": np.zeros(1), "more": ["ab" * 50] * 120_000}, path)
    assert not path.exists()
    replaced(path, header=npy((33 << 20,), "|u1", bytes(33 << 20)))
    tracemalloc.start()
    with pytest.raises(TooLargeError, match=r"its header has 33\.0 MiB, 8 are allowed; make it smaller"):
        PLAIN.load(path)
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()
    # A single character beyond U+FFFF would make four bytes of each other one.
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


def test_a_file_with_bytes_after_its_directory_is_read(path):
    replaced(path)
    with zipfile.ZipFile(path, "a") as file:
        file.comment = b"a comment that zip files may have" * 100
    np.testing.assert_array_equal(PLAIN.load(path)["one"], [0, 1, 2])


def test_files_of_other_kinds_are_named_as_their_stores_name_them():
    root = Path(visionnmf.__file__).parents[1]
    sources = [path.read_text() for folder in ("apps", "visionnmf") for path in (root / folder).rglob("*.py")]
    found = {kind for source in sources for kind in re.findall(r'ModelFile\(\n    "([a-z-]+)"', source)}
    assert found == set(KINDS)
    for reader in KINDS.values():
        module = re.search(r"visionnmf[\w.]*$", reader)[0].removesuffix(".load_model")
        name = reader.split(" or ")[0].split(" of ")[0].split(".")[0]
        assert name == "visionnmf" or hasattr(importlib.import_module(module), name)
