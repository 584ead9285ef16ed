"""``visionnmf multiview`` and files that hold something else than a view."""

import re
import time

import numpy as np
import pandas as pd
import pytest
from helpers import run_command
from model_files import rewrite

from visionnmf.apps.multiview import ViewFit, fit_views, impute_views, inputs, load, transform_views
from visionnmf.apps.multiview.inputs import read_labels, read_views
from visionnmf.exceptions import UnreadableError, UnsupportedError
from visionnmf.io import write_csv
from visionnmf.io.tables import read_tables

NOT_CONVERGED = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def here(tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", rng.random((20, 4)))
    return tmp_path


@NOT_CONVERGED
def test_columns_are_those_of_training_in_their_order(here, rng):
    """Reordered columns gave wrong codes in silence, and filled-in views lost their names."""
    frame = pd.DataFrame(rng.random((20, 4)) @ np.diag([1, 5, 20, 90]), columns=["=a", "b", "2", "d\ne"])
    write_csv("colours.csv", [frame.columns, *frame.to_numpy().tolist()])
    fit = run_command("multiview", "fit", "x=a.npy", "y=colours.csv", "--rank", 2, "--model", "m.npz")
    assert fit.exit_code == 0 and load("m.npz").columns == {"y": list(frame.columns)}
    other = frame.rename(columns={"b": "z"})
    for odd, told in (
        (frame.iloc[:, ::-1], "got them in another order; column 1 of the features must be '=a'"),
        (frame[["=a", "b", "d\ne", "2"]], "got them in another order; column 3 of the features must be '2'"),
        (other, "got none called 'b'; column 2 of the features must be 'b'"),
    ):
        write_csv("odd.csv", [odd.columns, *odd.to_numpy().tolist()], force=True)
        odd.to_csv("index.csv")
        odd.rename_axis("id").to_csv("keyed.csv")
        for source, key in (("odd.csv", []), ("index.csv", []), ("keyed.csv", ["--key", "id"])):
            for command in (["transform", "--codes", "c.csv"], ["impute", "--out", "filled"]):
                done = run_command("multiview", *command, "m.npz", f"y={source}", *key)
                assert done.exit_code == 2 and done.stderr.count("\n") == 1, done.stderr
                assert f"y: must have the columns of training in their order; {told}" in done.stderr
    assert not (here / "c.csv").exists() and not (here / "filled").exists()
    assert run_command("multiview", "impute", "m.npz", "y=colours.csv", "--out", "filled").exit_code == 0
    assert read_tables("filled/y.csv", key="key")[0].columns == list(frame.columns)
    assert run_command("multiview", "impute", "m.npz", "a.npy", "x=a.npy", "--out", "none").exit_code == 2
    assert run_command("multiview", "impute", "m.npz", "x=a.npy", "--out", "other").exit_code == 0
    assert (here / "other" / "y.csv").read_bytes().startswith(b"key,'=a,b,2,")
    assert (here / "other" / "x.csv").read_text().startswith("key,x_0,x_1,")


@NOT_CONVERGED
def test_files_without_names_of_columns_fit_those_with_names_and_are_noted(here, rng):
    frame = pd.DataFrame(np.load("a.npy"), columns=list("pqrs"))
    frame.to_csv("named.csv", index=False)
    frame.to_csv("bare.csv", index=False, header=False)
    codes = []
    for trained, given, note in (
        ("named.csv", "named.csv", ""),
        ("named.csv", "bare.csv", "because this file has no names"),
        ("bare.csv", "named.csv", "because that of training had no names"),
        ("a.npy", "bare.csv", ""),
    ):
        settings = ViewFit(n_components=2, loss="frobenius")
        fit_views([f"v={trained}"], "m.npz", settings=settings, force=True)
        report = transform_views("m.npz", [f"v={given}"], "c.npy", force=True)
        assert report.notes == [f"v: columns are taken to be in the order of training, {note}"] * bool(note)
        codes.append(np.load("c.npy"))
        impute_views("m.npz", [f"v={given}"], "filled", force=True)
        names = "p,q,r,s" if "named.csv" in (trained, given) else "v_0,v_1,v_2,v_3"
        assert (here / "filled" / "v.csv").read_text().splitlines()[0] == f"key,{names}"
    np.testing.assert_allclose(codes, codes[:1] * 4, rtol=1e-6)


@NOT_CONVERGED
@pytest.mark.parametrize(
    "columns", [{"dict": {"a": ["p"]}}, {"dict": {"a": "pqrs"}}, {"dict": {"a": None}}, {"dict": {"b": ["p"]}}, ["a"]]
)
def test_names_of_columns_in_a_model_file_fit_its_views(here, columns):
    fit_views(["a.npy"], "m.npz", settings=ViewFit(n_components=2, loss="frobenius"))
    rewrite(
        here / "m.npz",
        lambda state, arrays: state["dict"].update(columns={"dict": columns} if isinstance(columns, dict) else columns),
    )
    with pytest.raises(UnreadableError, match=r"m\.npz: damaged"):
        load("m.npz")


def test_a_key_that_stands_twice_is_found_at_once(here):
    """Keys were counted one by one, a minute for 60,000."""
    (here / "twice.csv").write_text("key,a\n" + "".join(f"k{i},1\n" for i in [*range(30_000), 29_999]))
    start = time.process_time()
    with pytest.raises(UnreadableError, match="twice: the key 'k29999' stands in two rows"):
        read_views(["twice.csv"], key="key")
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("view", "arguments", "message"),
    [
        (np.ones((20, 0)), [], r"b\.npy: must hold a number at least; got a matrix of shape \(20, 0\)"),
        (np.ones((0, 3)), [], r"b\.npy: must hold a number at least; got a matrix of shape \(0, 3\)"),
        (np.full((20, 3), np.inf), [], r"b\.npy: must hold finite numbers, NaN where one is missing; got infinity"),
        (np.full((20, 3), -1.0), ["--prepare", "none"], "b: must be >= 0 if it is not prepared; got -1; fit with"),
    ],
)
def test_what_is_no_view_is_told(here, view, arguments, message):
    """A fault of visionnmf's, said the command, or divided by zero."""
    np.save("b.npy", view)
    result = run_command("multiview", "fit", "a.npy", "b.npy", "--model", "m.npz", "--rank", 2, *arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert re.search(message, result.stderr)
    assert not (here / "m.npz").exists()


def test_keys_stay_on_their_line(here):
    (here / "one.csv").write_text('key,a\n"x\nwrote other.npz",1\ny,2\n' + "z" * 1000 + ",3\n")
    (here / "two.csv").write_text("key,b\ny,1\n")
    notes = read_views(["one.csv", "two.csv"], key="key").notes
    assert notes[1:] == [f"two is missing for 2 of 3 samples: x wrote other.npz, {'z' * 60}"]


def write_keys(path, keys):
    path.write_text("key,value\n" + "".join(f"{key},{number + 1}\n" for number, key in enumerate(keys)))


def test_views_without_a_common_key_are_refused(here):
    """The fit ended with exit code 0 and called components shared, although no sample had both views."""
    for name, keys in (("one", "abc"), ("two", "bcd"), ("three", "xyz")):
        write_keys(here / f"{name}.csv", keys)
    arguments = ("multiview", "fit", "one.csv", "two.csv", "three.csv", "--key", "key", "--model", "m.npz")
    refused = run_command(*arguments)
    assert refused.exit_code == 2 and refused.stderr.count("\n") == 1 and not (here / "m.npz").exists()
    assert "one and three have no key in common: one has keys such as a, b, the other such as x, y" in refused.stderr
    assert "match the rows by position" in refused.stderr
    write_keys(here / "bridge.csv", "cx")  # leads from one to three
    assert len(read_views(["one.csv", "three.csv", "bridge.csv"], key="key").keys) == 6


@pytest.mark.parametrize("names", [range(6), range(1, 7), [f"p{i}.jpg" for i in range(6)]])
def test_rows_of_the_same_names_in_another_order_are_refused(here, rng, names):
    frame = pd.DataFrame(rng.random((6, 3)), index=names, columns=list("abc"))
    for name, rows in (("one", frame), ("same", frame), ("other", frame.iloc[[3, 0, 1, 2, 4, 5]])):
        rows.to_csv(f"{name}.csv")
    frame.to_csv("plain.csv", index=False)
    assert read_views(["one.csv", "same.csv", "plain.csv"]).keys == list(map(str, names))
    with pytest.raises(UnreadableError, match="other: has the rows of an earlier view in another order; match them"):
        read_views(["one.csv", "plain.csv", "other.csv"])
    frame.iloc[::-1].to_csv("keyed.csv", index_label="id")
    frame.to_csv("first.csv", index_label="id")
    found = read_views(["first.csv", "keyed.csv"], key="id").views
    np.testing.assert_array_equal(found["first"], found["keyed"])


def test_samples_that_only_one_view_has_are_counted(here):
    for name, keys in (("one", "abcd"), ("two", "cdef"), ("three", "acd")):
        write_keys(here / f"{name}.csv", keys)
    assert read_views(["one.csv", "two.csv"], key="key").notes == [
        "2 of 6 samples have both views, 2 have only one, 2 have only two",
        "one is missing for 2 of 6 samples: e, f",
        "two is missing for 2 of 6 samples: a, b",
    ]
    assert read_views(["one.csv", "two.csv", "three.csv"], key="key").notes[0] == (
        "2 of 6 samples have all 3 views, 1 have only one, 2 have only two"
    )
    assert read_views(["one.csv", "one_again=one.csv"], key="key").notes == []


def test_keys_match_with_or_without_the_extension_of_an_image_unless_they_may_mean_two(here):
    """Keys of images have none, and tables often name the files."""
    write_keys(here / "one.csv", ["p1", "p2", "v1.2"])
    write_keys(here / "two.csv", ["p2.PNG", "p1.jpg", "v1.3"])
    found = read_views(["one.csv", "two.csv"], key="key")
    assert found.keys == ["p1", "p2", "v1.2", "v1.3"]
    np.testing.assert_array_equal(found.views["two"][:2], [[2], [1]])
    write_keys(here / "labels.csv", ["p2", "p1.png", "v1.3", "v1.2"])
    assert list(read_labels("labels.csv", found, by_key=True)) == ["2", "1", "4", "3"]
    write_keys(here / "one.csv", ["p.png", "p.jpg", "q"])
    write_keys(here / "two.csv", ["p", "q"])
    assert read_views(["one.csv", "two.csv"], key="key").keys == ["p.png", "p.jpg", "q", "p"]
    write_keys(here / "three.csv", ["q.png", "q.jpg", "p"])
    assert read_views(["two.csv", "three.csv"], key="key").keys == ["p", "q", "q.png", "q.jpg"]


def test_a_folder_of_folders_and_codes_of_another_kind_are_refused_with_advice_for_the_command_line(here):
    """The advice was recursive=True, which is no option of this command."""
    (here / "photos" / "one").mkdir(parents=True)
    refused = run_command("multiview", "fit", "photos", "--model", "m.npz")
    assert refused.exit_code == 2 and "recursive" not in refused.stderr
    assert "its sub-folders are not read; put the images of a view into one folder" in refused.stderr
    result = run_command("multiview", "transform", "m.npz", "a.npy", "--codes", "codes.parquet")
    assert result.exit_code == 2
    assert "codes.parquet: codes must be written to a file that ends in .csv or .npy" in result.stderr


def test_a_column_of_names_is_proposed_as_the_key(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("id,x,y\ns0,1,2\ns1,2,3\n")
    with pytest.raises(UnsupportedError, match=r"column id: must be a number; got s0; if .*give key='id'$"):
        read_views([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert read_views([tmp_path / "a.csv", tmp_path / "b.csv"], key="id").keys == ["s0", "s1"]


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("id,x\np0,1\np1,2\np2,3,4\n", "id", r"t\.csv: row 4 must have 2 cells as the first; got 3; put texts"),
        ("id,x\np0,sea;sky\np1,sea\np2,sky\n", "id", r"t\.csv: row 2, column x: .*; words need a column each"),
        ("x\n1\n2\n", None, "views must have the same number of rows; got photos 3, t 2"),
        ("id,x\na,1\nb,2\n", "id", "photos and t have no key in common"),
        ("id,x\np1,1\np1,2\n", "id", "t: the key 'p1' stands in two rows"),
    ],
)
@pytest.mark.parametrize("first", ["photos", "t.csv"])
def test_tables_are_read_before_photographs_are_described(here, monkeypatch, text, key, message, first):
    """A broken table was found a minute after the command began."""
    (here / "photos").mkdir()
    for number in range(3):
        (here / "photos" / f"p{number}.png").touch()
    (here / "t.csv").write_text(text)
    monkeypatch.setattr(inputs, "_describe", lambda *_, **__: pytest.fail("described"))
    with pytest.raises((UnreadableError, UnsupportedError), match=message):
        read_views(sorted(["photos", "t.csv"], key=lambda name: name != first), key=key)
