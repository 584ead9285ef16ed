"""Data that would be taken for numbers, or followed out of their memory: refused by name, the model untouched."""

import datetime

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import random_array

from visionnmf import NMF, Penalty, ProjectiveNMF, SymmetricNMF
from visionnmf.exceptions import ParameterError

X = np.random.default_rng(0).random((12, 6))
MODELS = [NMF(2, loss="frobenius", max_iter=5, tol=0), ProjectiveNMF(2, max_iter=5, tol=0), SymmetricNMF(2, n_init=1)]
DAY = datetime.date(2026, 1, 1)

ODD = {
    "text": (X.astype(str), "got <U"),
    "bytes": (X.astype("S8"), r"got \|S8"),
    "dates": ((X * 1000).astype("datetime64[s]"), r"got datetime64\[s\]"),
    "spans": ((X * 1000).astype("timedelta64[s]"), r"got timedelta64\[s\]"),
    "text in a list": (X.astype(str).tolist(), "got <U"),
    "one text": (np.where(np.eye(12, 6) > 0, "1", X.astype(object)), "got str"),
    "one date": (np.where(np.eye(12, 6) > 0, DAY, X.astype(object)), "got date"),
    "masked": (np.ma.masked_less(X, 0.2), r"masked entries; pass X.filled\(numpy.nan\)"),
}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_number_is_refused(model, kind):
    odd, sentence = ODD[kind]
    square = odd[:6] if not isinstance(odd, list) else [row[:6] for row in odd[:6]]
    with pytest.raises(ParameterError, match=f"X must (hold numbers|not be a masked array); .*{sentence}"):
        model.fit(square if isinstance(model, SymmetricNMF) else odd)


def test_columns_of_a_frame_are_looked_at():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X).assign(when=pandas.Timestamp("2026-01-01"))
    with pytest.raises(ParameterError, match=r"X must hold numbers; got datetime64\[\w+\]"):
        MODELS[0].fit(frame.rename(columns=str))
    for kind in ("str", object, "category"):
        with pytest.raises(ParameterError, match="X must hold numbers; got str"):
            MODELS[0].fit(pandas.DataFrame(X.astype(str), dtype=kind).rename(columns=str))


def test_what_is_a_number_is_not_refused():
    expected = MODELS[0].set_params(random_state=0).fit(X).components_
    for same in (X.tolist(), X.astype(object), np.ma.array(X), np.ma.masked_less(X, -1)):
        np.testing.assert_array_equal(MODELS[0].fit(same).components_, expected)
    assert MODELS[0].fit((X > 0.5).astype(bool)).components_.dtype == np.float64


def broken(name):
    """A sparse matrix whose indices lead out of it; made by hand, as SciPy's constructors look at some."""
    matrix = random_array((12, 6), density=0.6, format="csr", rng=np.random.default_rng(1))
    columns = {"column far out": (0, 10**8), "column beyond": (-1, 6), "negative column": (3, -1)}
    starts = {"start far out": (5, 10**6), "starts fall": (5, 1), "end far out": (-1, 10**6), "first start": (0, 2)}
    starts["end that overflows"] = -1, -(2**31)
    for array, changes in ((matrix.indices, columns), (matrix.indptr, starts)):
        if name in changes:
            place, value = changes[name]
            array[place] = value
    if name == "too few starts":
        matrix.indptr = matrix.indptr[:-1]
    if name == "too few values":
        matrix.data = matrix.data[:-2]
    if name.startswith("csc"):
        matrix = matrix.tocsc()
        matrix.indices[0] = 12
    if name.startswith("bsr"):
        matrix = matrix.tobsr((2, 2))
        matrix.indices[0] = 3
    if name.startswith("coo"):
        matrix = matrix.tocoo()
        matrix.coords[0][0] = 12 if name == "coo row" else -1
    if name.startswith("lil"):
        matrix = matrix.tolil()
        matrix.rows[0][0] = 99
    return matrix


BROKEN = [
    *("column far out", "column beyond", "negative column", "start far out", "starts fall", "end far out", "lil"),
    *("end that overflows", "first start", "too few starts", "too few values", "csc row", "bsr block", "coo row"),
    "coo negative",
]


@pytest.mark.parametrize("name", BROKEN)
def test_malformed_sparse_data_are_refused(name):
    sentence = "must be a well-formed sparse matrix; got indices that do not fit its shape"
    model = NMF(2, loss="frobenius", max_iter=5, tol=0, random_state=0)
    with pytest.raises(ParameterError, match=f"X {sentence}"):
        model.fit(broken(name))
    model.fit(X)
    with pytest.raises(ParameterError, match=f"X {sentence}"):
        model.transform(broken(name))
    with pytest.raises(ParameterError, match=f"graph of penalty_W {sentence}"):
        NMF(2, loss="frobenius", penalty_W=Penalty(graph=broken(name)), max_iter=5, tol=0).fit(X)


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "lil", "dok", "dia"])
@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
def test_sound_sparse_data_of_every_format_are_taken(form):
    sparse = random_array((12, 6), density=0.6, format="csr", rng=np.random.default_rng(1))
    model = NMF(2, loss="frobenius", max_iter=5, tol=0, random_state=0)
    expected = model.fit(sparse).components_
    given = sparse.asformat(form)
    np.testing.assert_allclose(model.fit(given).components_, expected, rtol=1e-12)
    empty = sp.csr_array((3, 6)).asformat(form)
    assert not model.transform(empty).any()
