"""Tables of numbers: their forms are recognised or refused."""

import csv

import numpy as np
import pandas as pd
import pytest

from visionnmf.exceptions import UnreadableError, UnsupportedError
from visionnmf.io import write_csv
from visionnmf.io.tables import read_column, read_tables


def test_cells_without_a_number_are_missing(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('name;x,"a ""b"", c",d\r\n\r\n"two\nlines", 1e3 ,\r\né,NA,-.5\r\n', encoding="utf-8-sig")
    (table,) = read_tables(path, key="name;x")
    assert table.keys == ["two\nlines", "é"] and table.columns == ['a "b", c', "d"]
    np.testing.assert_array_equal(table.X, [[1000, np.nan], [np.nan, -0.5]])
    path.write_text("1,2\n3,null\n")
    np.testing.assert_array_equal(read_tables(path)[0].X, [[1, 2], [3, np.nan]])
    assert read_tables(path)[0].columns is None
    path.write_text("key\na\nb\n")
    with pytest.raises(UnreadableError, match="must hold a number at least"):
        read_tables(path, key="key")


def test_tables_in_latin_1_are_refused_with_the_cure(tmp_path):
    path = tmp_path / "t.csv"
    for text in ("é,b\n1,2\n", "a,b\n" + "1,2\n" * 5000 + "3,é\n"):
        path.write_bytes(text.encode("latin-1"))
        line = 1 + text.split("é")[0].count("\n")
        for read in (read_tables, read_column):
            with pytest.raises(UnreadableError, match=f"t.csv: line {line} is not UTF-8; convert it first, .* iconv "):
                read(path)


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("\n\n", None, "has no rows"),
        ("a,b\n1,2\n3\n", None, "row 3 must have 2 cells as the first; got 1"),
        ("a,b\n1,x\n", None, "row 2, column b: must be a number; got x"),
        ("a,b\n1,2\n", "c", "has no column 'c'"),
        ('"a\nb",b\n1,2\n', "c", "has no column 'c'; it has a b, b$"),
        ("a" * 10**5 + ",b\n1,2\n", "c", "it has a{40}, b$"),
        ('"a\nb",b\n"1\nx",2\n', None, "column a b: must be a number; got 1 x; if this column .* give key='a b'$"),
        ("a\n" + "9" * 200_000, None, "field larger than field limit"),
        ("0,0.5,0.7\n1,0.2,0.3\n2,0.1,0.4\n", "0", "its first row holds numbers, so no column is called '0'"),
    ],
)
def test_what_is_wrong_with_text_is_told(tmp_path, text, key, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises((UnreadableError, UnsupportedError), match=message):
        read_tables(path, key=key)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"id": np.arange(2)}, "a: must have 2 rows, one for each key; got 3"),
        ({"id": np.array("abc")}, r"id must name the rows; got an array of shape \(\)"),
        ({"id": np.ones((3, 1))}, r"id must name the rows; got an array of shape \(3, 1\)"),
        ({"id": np.arange(3), "X": np.ones((3, 2)), "groups": np.zeros(3), "views": np.array(["v"])}, "do not fit X"),
    ],
)
def test_arrays_that_do_not_fit_are_told(tmp_path, arrays, message):
    np.savez(tmp_path / "t.npz", a=np.ones((3, 2)), **arrays)
    with pytest.raises(UnreadableError, match=message):
        read_tables(tmp_path / "t.npz", key="id")


@pytest.mark.parametrize("name", ["a\nwrote b", "a\x1b[31m", "a" * 201])
def test_names_that_would_garble_messages_are_refused(tmp_path, name):
    np.savez(tmp_path / "t.npz", **{name: np.ones((3, 2))})
    with pytest.raises(UnreadableError, match="names must be printable, of at most 200 letters; got 'a"):
        read_tables(tmp_path / "t.npz")


VALUES = np.random.default_rng(0).normal(size=(40, 6)).round(3)
PLAIN = pd.DataFrame(VALUES)
NAMED = pd.DataFrame(VALUES, columns=list("abcdef"))
WHOLE = pd.DataFrame(np.random.default_rng(1).integers(0, 9, (40, 6)))
TEXTS = NAMED.set_axis([f"s{i}" for i in range(40)])


@pytest.mark.parametrize(
    ("frame", "options", "note"),
    [
        (NAMED, {"index": False}, ""),
        (PLAIN, {"index": False, "header": False}, ""),
        (PLAIN, {"index": False}, "the first row, 0, 1, 2..., as names"),
        (WHOLE, {"index": False}, "the first row, 0, 1, 2..., as names"),
        (PLAIN.set_axis(range(400, 460, 10), axis=1), {"index": False}, "the first row, 400, 410, 420"),  # wavelengths
        (PLAIN.set_axis(np.arange(6.0), axis=1), {"index": False}, "the first row, 0.0, 1.0, 2.0"),
        (PLAIN, {}, "without a name as an index"),
        (NAMED, {}, "without a name as an index"),
        (TEXTS, {}, "without a name as an index"),
        (NAMED.reset_index(names="Unnamed: 0"), {"index": False}, "without a name as an index"),
        (NAMED, {"sep": ";", "decimal": ",", "index": False}, "semicolons, decimal commas"),
        (NAMED, {"sep": ";", "index": False}, "semicolons"),
        (NAMED, {"sep": "\t", "decimal": ","}, "tabs, decimal commas, the column"),
        (NAMED, {"decimal": ",", "index": False}, "decimal commas"),  # in quotes
    ],
)
def test_forms_of_tables_are_recognised(tmp_path, frame, options, note):
    frame.to_csv(tmp_path / "t.csv", **options)
    (table,) = read_tables(tmp_path / "t.csv")
    np.testing.assert_array_equal(table.X, frame.select_dtypes("number").to_numpy()[:, -6:])
    assert note in table.note and bool(note) == bool(table.note)


@pytest.mark.parametrize("header", ["", "a,b,c,\n", ",a,b,\n"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_separator_at_the_end_makes_no_column(tmp_path, header, separator):
    text = header + "1,2.5,3,\n4,5,6,\n7,8.5,1,\n"
    (tmp_path / "t.csv").write_text(text.replace(",", separator))
    (table,) = read_tables(tmp_path / "t.csv")
    assert table.X[:, -2:].tolist() == [[2.5, 3], [5, 6], [8.5, 1]]
    assert table.X.shape[1] == (2 if header.startswith(",") else 3) and "the empty column at the end" in table.note


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1\n1,0\n1,1\n0,0\n", "its first row, 0, 1, may be a sample or name the columns; name them"),
        ("0\n1\n1\n", "its first row, 0, may be a sample"),
        ("0,1,2,3\n4,5,6,7\n8,9,10,11\n", "its first row, 0, 1, 2, 3, may be a sample"),  # numpy.arange
        ("5,6,7,8\n9,10,11,12\n", "its first row, 5, 6, 7, 8, may be a sample"),
        ("1,05,2,25\n3,5,0,75\n", "commas seem to be decimal marks"),
        ("-1,5,2,07\n3,25,-0,5\n", "commas seem to be decimal marks"),
        ("a,b\n1,5,2,5\n3,25,0,5\n", "commas seem to be decimal marks"),
        ("0,1\n1,5,2,5\n3,25,0,5\n", "commas seem to be decimal marks"),
        ("id,a\n0,0.5\n1,0.7\n2,0.1\n", "column id counts or names the rows; remove it"),
        ("id,a\n1,0.5\n2,0.7\n3,0.1\n", "column id counts or names the rows; remove it"),
        ("k,a\n1001,0.5\n1002,0.7\n1003,0.1\n", "column k counts or names the rows"),
        ("ID,a\n17,0.5\n5,0.7\n93,0.1\n", "column ID counts or names the rows"),
        ("ID,a\n17,0.5\n,0.7\n93,0.1\n", "column ID counts or names the rows"),
        ("0.4,0.5,0.6,0.7\n0.1,0.5,0.2,0.9\n0.3,0.5,0.1,0.9\n", "its first row, 0.4, 0.5, 0.6, 0.7, may be a sample"),
        ("0,0.5\n1,0.7\n2,0.1\n", "column 0 counts or names the rows"),
        (",a\n0.1,0.5\n1.2,0.7\n", "its first column has no name; give it one"),
        ("a,b\n1,2,3\n4,5,6\n", "row 2 must have 2 cells as the first; got 3"),
        ("a,b\n1,2\n3,4,5\n", "row 3 must have 2 cells as the first; got 3; put texts that hold commas in quotes"),
        ("a,b\n" + "1,2\n" * 40 + "3,4,5\n", "t.csv: row 42 must have 2 cells as the first; got 3; put texts that"),
        (
            "a,b\n" + "1,2\n" * 40 + '3,"4\n5,6\n',
            "t.csv: its rows cannot be told apart; look for",
        ),
        ("x,words\n2,sea\n4,sky;sea\n", "row 2, column words: must be a number; got sea; words need a"),
        ("a;b\n1,5;2.5\n", "row 2, column b: must be a number; got 2.5"),
        ("a,b\n1,1e999\n", "must hold finite numbers"),
    ],
)
def test_ambiguous_forms_are_refused(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises((UnreadableError, UnsupportedError), match=message):
        read_tables(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("1,05\n", (1, 2)),  # too little to judge by
        ("10,1,20,5\n30,2,10,70\n4,3,90,0\n", (3, 4)),
        ("1,2,3,9\n4,5,6,7\n7,0,9,9\n", (3, 4)),
        ("01,05\n02,07\n", (2, 2)),  # codes in all columns
        ("3,1,4,1\n5,9,2,6\n", (2, 4)),
        ("1,2,3,5\n5,9,2,6\n", (2, 4)),
        ("2019,2020,2021,2022\n5,9,2,6\n1,2,0,4\n", (2, 4)),  # years name columns
        ("1,2,3,4,5\n5,9,2,6,0\n", (1, 5)),
    ],
)
def test_whole_numbers_with_commas_are_samples(tmp_path, text, shape):
    (tmp_path / "t.csv").write_text(text)
    assert read_tables(tmp_path / "t.csv")[0].X.shape == shape


def test_numbers_are_read_exactly(tmp_path, rng):
    X = rng.normal(size=(100, 3)) * 10.0 ** rng.integers(-300, 300, (100, 3))
    (tmp_path / "t.csv").write_text("a,b,c\n" + "".join(",".join(map(repr, row)) + "\n" for row in X.tolist()))
    np.testing.assert_array_equal(read_tables(tmp_path / "t.csv")[0].X, X)


def test_an_index_in_a_parquet_file_is_no_feature(tmp_path):
    pytest.importorskip("pyarrow")
    frame = NAMED.assign(a=pd.array([None, *range(39)], "Int64"), key=TEXTS.index)
    frame.set_index("key").to_parquet(tmp_path / "t.parquet")
    for key, keys in ((None, None), ("key", list(TEXTS.index))):
        (table,) = read_tables(tmp_path / "t.parquet", key=key)
        assert table.keys == keys and table.columns == list(frame.columns.drop("key"))
        np.testing.assert_array_equal(table.X, np.column_stack([[np.nan, *range(39)], VALUES[:, 1:]]))
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(UnsupportedError, match="column key: must be a number"):
        read_tables(tmp_path / "t.parquet")


FORMULAS = ["=1+1", "+x", "-x", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "'=1", "''@x", "-", "'-1", "-1+2"]
HARMLESS = ["a.png", "-1.5", "+3e-4", "-inf", "", "'tis", "a=b", "écru", 1, -2.5, np.float32(-3), None]


def test_spreadsheets_do_not_take_texts_for_formulas(tmp_path):
    def written(rows, **options):
        write_csv(tmp_path / "t.csv", rows, force=True, **options)
        with (tmp_path / "t.csv").open(newline="") as file:
            return list(csv.reader(file))

    expected = [f"'{cell}" for cell in FORMULAS] + ["" if cell is None else str(cell) for cell in HARMLESS]
    assert written([[cell, cell] for cell in FORMULAS + HARMLESS]) == [[cell, cell] for cell in expected]


def test_tables_are_read_as_they_were_before_they_were_written(tmp_path):
    texts = FORMULAS
    write_csv(tmp_path / "t.csv", [["=file", "score"], *([text, -1.5] for text in texts)])
    (table,) = read_tables(tmp_path / "t.csv", key="=file")
    assert table.keys == texts
    np.testing.assert_array_equal(table.X, np.full((len(texts), 1), -1.5))
    assert read_column(tmp_path / "t.csv", "=file")[0] == texts
