"""Tables of numbers: what they may hold, and how much memory untrusted files can ask for."""

import csv
import tracemalloc

import numpy as np
import pytest

from visionnmf.exceptions import TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io import tables, write_csv
from visionnmf.io.tables import read_column, read_tables


def test_cells_without_a_number_are_missing(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('name;x,"a ""b"", c",d\r\n\r\n"two\nlines", 1e3 ,\r\né,NA,-.5\r\n', encoding="utf-8-sig")
    (table,) = read_tables(path, key="name;x")
    assert table.keys == ["two\nlines", "é"]
    np.testing.assert_array_equal(table.X, [[1000, np.nan], [np.nan, -0.5]])
    path.write_text("1,2\n3,null\n")
    np.testing.assert_array_equal(read_tables(path)[0].X, [[1, 2], [3, np.nan]])
    path.write_text("key\na\nb\n")
    with pytest.raises(UnreadableError, match="must hold a number at least"):
        read_tables(path, key="key")


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("\n\n", None, "has no rows"),
        ("a,b\n1,2\n3\n", None, "row 3 must have 2 cells as the first; got 1"),
        ("a,b\n1,x\n", None, "row 2, column b: must be a number; got x"),
        ("a,b\n1,2\n", "c", "has no column 'c'"),
        ('"a\nb",b\n1,2\n', "c", "has no column 'c'; it has a b, b$"),
        ("a" * 10**5 + ",b\n1,2\n", "c", "it has a{40}, b$"),
        (
            '"a\nb",b\n"1\nx",2\n',
            None,
            "row 2, column a b: must be a number; got 1 x; if this column names the samples, give it as the key$",
        ),
        ("a\n" + "9" * 200_000, None, "field larger than field limit"),
    ],
)
def test_what_is_wrong_with_text_is_told(tmp_path, text, key, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises((UnreadableError, UnsupportedError), match=message):
        read_tables(path, key=key)


@pytest.mark.slow
def test_empty_cells_take_no_more_memory_than_numbers(tmp_path):
    """They took forty bytes each."""
    path = tmp_path / "t.csv"
    path.write_bytes((b"," * 19 + b"\n") * 5_000)
    tracemalloc.start()
    (table,) = read_tables(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.X.shape == (5_000, 20) and np.isnan(table.X).all()
    assert peak < 2 * table.X.nbytes + 1e6


def test_tables_are_bounded(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("key,a,b\n" + "k,1,2\n" * 50)
    with monkeypatch.context() as patch, pytest.raises(TooLargeError, match="has more than 99 numbers"):
        patch.setattr(tables, "MOST_NUMBERS", 99)
        read_tables(path, key="key")
    monkeypatch.setattr(tables, "MOST_TEXT", 49 * (tables.TEXT_BYTES + 1))
    with pytest.raises(TooLargeError, match="has keys or labels of more than 0 MiB"):
        read_tables(path, key="key")
    with pytest.raises(TooLargeError, match="has keys or labels of more than 0 MiB"):
        read_column(path)
    monkeypatch.setattr(tables, "LONGEST_ROW", 99)
    path.write_text('a,b\n"' + "\n" * 100 + '",1\n')
    with pytest.raises(TooLargeError, match="has a row of more than 0 MiB"):
        read_tables(path)


def test_packed_columns_are_bounded_by_what_they_unpack_to(tmp_path, monkeypatch):
    """A hundred million equal numbers are half a megabyte, and as many long keys that are equal fifty kilobytes."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    keys = pyarrow.DictionaryArray.from_arrays(np.zeros(1000, np.int32), ["x" * 100_000])
    parquet.write_table(pyarrow.table({"key": keys, "a": np.zeros(1000), "b": np.ones(1000, np.int8)}), path)
    monkeypatch.setattr(tables, "MOST_TEXT", 1 << 20)
    with pytest.raises(TooLargeError, match="has keys or labels of more than 1 MiB"):
        read_tables(path, key="key")
    monkeypatch.setattr(tables, "MOST_TEXT", 1 << 30)
    (table,) = read_tables(path, key="key")
    assert table.keys == ["x" * 100_000] * 1000
    np.testing.assert_array_equal(table.X, [[0, 1]] * 1000)
    monkeypatch.setattr(tables, "MOST_NUMBERS", 1999)
    with pytest.raises(TooLargeError, match="has more than 1999 numbers"):
        read_tables(path, key="key")
    parquet.write_table(pyarrow.table({"key": [[0.0]] * 3, "a": [1.0, None, 3.0]}), path)
    for key in (None, "key"):
        with pytest.raises(UnsupportedError, match="column key must hold"):
            read_tables(path, key=key)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"id": np.arange(2)}, "a: must have 2 rows, one for each key; got 3"),
        ({"id": np.array("abc")}, r"id must name the rows; got an array of shape \(\)"),
        ({"id": np.ones((3, 1))}, r"id must name the rows; got an array of shape \(3, 1\)"),
        (
            {"id": np.arange(3), "X": np.ones((3, 2)), "groups": np.zeros(3, int), "views": np.array(["v"])},
            "its groups and views do not fit X",
        ),
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


def test_headers_of_arrays_are_bounded(tmp_path):
    columns = np.zeros(1, [(f"f{i}", "<f4") for i in range(2000)])
    np.save(tmp_path / "t.npy", columns)
    with pytest.raises(UnreadableError, match=r"Header info length .* may not be safe") as refused:
        read_tables(tmp_path / "t.npy")
    assert "pickle" not in str(refused.value)  # numpy advises to trust the file


@pytest.mark.parametrize(
    ("shape", "message"),
    [((2**32, 2**32), "too big"), ((2**63 - 1, 3), "too big"), ((-1, 3), "negative"), ((10**30,), "too large")],
)
def test_sizes_that_no_array_has_are_refused(tmp_path, shape, message):
    with (tmp_path / "t.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        file.write(bytes(800))
    with pytest.raises(UnreadableError, match=message):  # numpy's own, where it warned as well before
        read_tables(tmp_path / "t.npy")


FORMULAS = ["=1+1", "+x", "-x", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "'=1", "''@x", "-", "'-1", "-1+2"]
HARMLESS = ["a.png", "-1.5", "+3e-4", "-inf", "", "'tis", "a=b", "écru", 1, -2.5, np.float32(-3), None]


def test_spreadsheets_do_not_take_texts_for_formulas(tmp_path):
    def written(rows, **options):
        write_csv(tmp_path / "t.csv", rows, force=True, **options)
        with (tmp_path / "t.csv").open(newline="") as file:
            return list(csv.reader(file))

    expected = [f"'{cell}" for cell in FORMULAS] + ["" if cell is None else str(cell) for cell in HARMLESS]
    assert written([[cell, cell] for cell in FORMULAS + HARMLESS]) == [[cell, cell] for cell in expected]
    assert written([FORMULAS], verbatim=True) == [FORMULAS]


@pytest.mark.parametrize("verbatim", [False, True])
def test_tables_are_read_as_they_were_before_they_were_written(tmp_path, verbatim):
    texts = [text for text in FORMULAS if text[0] != "'"] if verbatim else FORMULAS
    write_csv(tmp_path / "t.csv", [["=file", "score"], *([text, -1.5] for text in texts)], verbatim=verbatim)
    (table,) = read_tables(tmp_path / "t.csv", key="=file")
    assert table.keys == texts
    np.testing.assert_array_equal(table.X, np.full((len(texts), 1), -1.5))
    assert read_column(tmp_path / "t.csv", "=file")[0] == texts
