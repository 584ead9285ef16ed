"""The runner of evaluations: what is done is kept, what is kept is taken only where it belongs."""

import csv
import json
from functools import partial

import numpy as np
import pytest
from helpers import squares

from visionnmf.apps.runner import run_jobs, settings_key
from visionnmf.exceptions import OutputExistsError, UnreadableError

COLUMNS = ("number", "square")
JOBS = {f"job {number}": (number,) for number in range(5)}
ROWS = [{"number": number, "square": number**2} for number in range(5)]


def test_rows_come_in_the_order_of_the_jobs_and_are_written(tmp_path):
    seen = []
    rows, problems = run_jobs(
        JOBS, partial(squares, 9), COLUMNS, out=tmp_path / "out", progress=lambda *n: seen.append(n)
    )
    assert rows == ROWS and not problems and seen == [(done, 5) for done in range(1, 6)]
    with (tmp_path / "out" / "results.csv").open(newline="") as file:
        assert [{name: int(value) for name, value in row.items()} for row in csv.DictReader(file)] == ROWS
    assert len(list((tmp_path / "out" / "jobs").iterdir())) == 5


@pytest.mark.slow
def test_processes_return_the_same_rows_and_their_errors(tmp_path):
    assert run_jobs(JOBS, partial(squares, 9), COLUMNS, processes=2)[0] == ROWS
    rows, problems = run_jobs(JOBS, partial(squares, 2), COLUMNS, processes=2, out=tmp_path)
    assert rows == ROWS[:3] and problems == ["ValueError: 3 is too much", "ValueError: 4 is too much"]


def test_what_is_done_is_not_done_again(tmp_path):
    done = []

    def work(number):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(number)
        return squares(9, number)

    with pytest.raises(KeyboardInterrupt):
        run_jobs(JOBS, work, COLUMNS, key="k", out=tmp_path)
    assert done == [0, 1, 2] and not (tmp_path / "results.csv").exists()
    done.clear()
    assert run_jobs(JOBS, work, COLUMNS, key="k", out=tmp_path)[0] == ROWS
    assert done == [3, 4]
    more = JOBS | {"job 5": (5,)}
    assert run_jobs(more, work, COLUMNS, key="k", out=tmp_path)[0][:5] == ROWS and done == [3, 4, 5]


def test_rows_of_another_key_are_not_taken(tmp_path):
    run_jobs(JOBS, partial(squares, 9), COLUMNS, key="one", out=tmp_path)
    other = partial(lambda number: [{"number": number, "square": -1}])
    with pytest.raises(OutputExistsError, match=r"job 0.json: belongs to other settings or data; pass force=True"):
        run_jobs(JOBS, other, COLUMNS, key="two", out=tmp_path)
    assert run_jobs(JOBS, other, COLUMNS, key="one", out=tmp_path)[0] == ROWS
    assert run_jobs(JOBS, other, COLUMNS, key="two", out=tmp_path, force=True)[0][0]["square"] == -1


@pytest.mark.parametrize("text", ["", "[]", "{", '{"key": "k"}', '{"key": "k", "rows": [{"number": 1}]}'])
def test_damaged_rows_are_named_and_replaced_only_by_force(tmp_path, text):
    run_jobs(JOBS, partial(squares, 9), COLUMNS, key="k", out=tmp_path)
    (tmp_path / "jobs" / "job 2.json").write_text(text)
    with pytest.raises(UnreadableError, match=r"job 2.json: damaged; remove it to run this job again"):
        run_jobs(JOBS, partial(squares, 9), COLUMNS, key="k", out=tmp_path)
    assert run_jobs(JOBS, partial(squares, 9), COLUMNS, key="k", out=tmp_path, force=True)[0] == ROWS
    assert json.loads((tmp_path / "jobs" / "job 2.json").read_text())["rows"] == ROWS[2:3]


def test_a_table_of_somebody_else_is_kept(tmp_path):
    (tmp_path / "results.csv").write_text("mine")
    with pytest.raises(OutputExistsError, match=r"results.csv: exists already"):
        run_jobs(JOBS, partial(squares, 9), COLUMNS, out=tmp_path)
    assert (tmp_path / "results.csv").read_text() == "mine"
    assert run_jobs(JOBS, partial(squares, 9), COLUMNS, out=tmp_path, force=True)[0] == ROWS


def test_keys_tell_settings_and_data_apart():
    settings, data = {"a": 1, "b": (2, "c")}, np.arange(6)
    key = settings_key(settings, data)
    assert key == settings_key(dict(reversed(settings.items())), data[::-1][::-1])
    others = [settings_key(settings | {"a": 2}, data), settings_key(settings, data + 1), settings_key(settings)]
    assert len({key, *others}) == 4
