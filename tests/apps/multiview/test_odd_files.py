"""``visionnmf multiview`` and files that hold something else than a view."""

import re
import time

import numpy as np
import pytest
from helpers import run_command

from visionnmf.apps.multiview import read_views
from visionnmf.exceptions import UnreadableError


@pytest.fixture
def here(tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", rng.random((20, 4)))
    return tmp_path


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
    assert notes == [f"two is missing for 2 of 3 samples: x wrote other.npz, {'z' * 60}"]


def test_codes_are_written_as_what_their_name_says(here):
    result = run_command("multiview", "transform", "m.npz", "a.npy", "--codes", "codes.parquet")
    assert result.exit_code == 2
    assert "codes.parquet: codes must be written to a file that ends in .csv or .npy" in result.stderr
