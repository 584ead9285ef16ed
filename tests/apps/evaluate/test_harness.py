"""What all evaluations share: means and deviations, the printed table, failures, processes."""

import csv
import json
from functools import partial

import pytest
from helpers import squares

from visionnmf.apps.evaluate import Comparison, Study, evaluate
from visionnmf.apps.evaluate.harness import averages, chosen_methods
from visionnmf.exceptions import OutputExistsError, ParameterError, UnreadableError


def study(most=9, numbers=range(5), **others):
    """A study of jobs that square a number, and fail above `most`."""
    jobs = {f"job {number}": (number,) for number in numbers}
    lines = partial(averages, by=(), scores=("square",))
    columns = ("number", "square")
    return Study(jobs=jobs, work=partial(squares, most), columns=columns, key="k", lines=lines, **others)


def test_means_and_deviations_by_hand():
    nan = float("nan")
    rows = [
        {"method": "a", "split": 0, "score": 0.5, "error": nan},
        {"method": "b", "split": 0, "score": 2.0, "error": None},
        {"method": "a", "split": 1, "score": 0.7, "error": 3.0},
    ]
    first, second = averages(rows, by=("method",), scores=("score", "error"))
    assert first == {"method": "a", "score": pytest.approx(0.6), "score_deviation": pytest.approx(0.1), "error": 3.0}
    assert second == {"method": "b", "score": 2.0, "error": None}


def test_the_table_has_a_deviation_where_there_are_several_values():
    lines = [
        {"method": "raw", "rank": None, "error": 0.5, "error_deviation": 0.125, "never": None},
        {"method": "pca", "rank": 10, "error": 2.0, "never": float("nan")},
    ]
    report = evaluate(Study(**{**vars(study()), "lines": lambda rows: lines, "heading": "two methods"}))
    assert report.as_lines() == [  # what is not known has no column
        "two methods",
        "method  rank       error",
        "raw           0.5 ± 0.12",
        "pca       10         2.0",
    ]
    document = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert document["table"][1]["never"] is None and document["table"][0]["error_deviation"] == 0.125


def test_without_any_score_nothing_is_drawn(tmp_path):
    lines = {"lines": lambda rows: [{"method": "a", "score": float("nan")}], "heading": "no score"}
    report = evaluate(Study(**{**vars(study()), **lines}), Comparison(out=tmp_path, plots=True))
    assert report.outputs == [str(tmp_path / "results.csv")] and not report.shown["drawings"]
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".png"] == []


def test_a_failed_job_is_one_sentence_and_is_tried_again(tmp_path):
    here = Comparison(out=tmp_path)
    found = evaluate(study(most=3), here)
    assert [row["number"] for row in found.rows] == [0, 1, 2, 3]
    assert len(found.skipped) == 1 and "4 is too much" in found.skipped[0] and "4 is too much" in str(found)
    with (tmp_path / "results.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 4
    whole = evaluate(study(), here)
    assert len(whole.rows) == 5 and whole.skipped == []
    with pytest.raises(UnreadableError, match="5 is too much"):
        evaluate(study(most=3, numbers=[5]))
    # a fault of ours is none
    with pytest.raises(TypeError):
        evaluate(Study(**{**vars(study()), "work": squares}))


@pytest.mark.slow
def test_processes_find_the_same_table(tmp_path):
    one, two = (evaluate(study(most=3), Comparison(jobs=jobs, out=tmp_path / str(jobs))) for jobs in (1, 2))
    assert (one.table, one.rows, one.skipped) == (two.table, two.rows, two.skipped)
    assert (tmp_path / "1" / "results.csv").read_bytes() == (tmp_path / "2" / "results.csv").read_bytes()


def test_methods_are_chosen_by_name():
    known = ("a", "b", "c")
    assert chosen_methods(Comparison(), known, ("b",)) == ("b",)
    assert chosen_methods(Comparison(methods=("all",)), known, ()) == known
    assert chosen_methods(Comparison(methods=("c", "a", "c")), known, ()) == ("c", "a")
    with pytest.raises(ParameterError, match=r"methods must be some of \['a', 'b', 'c'\]; got 'magic'"):
        chosen_methods(Comparison(methods=("magic",)), known, ())


@pytest.mark.parametrize("name", ["results.csv", "scores.png"])
def test_results_of_somebody_else_are_kept_before_the_jobs(name, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / name).write_text("mine")
    with pytest.raises(OutputExistsError, match=f"{name}: exists already"):
        evaluate(study(), Comparison(plots=True, out=tmp_path))
    assert (tmp_path / name).read_text() == "mine" and not list((tmp_path / "jobs").glob("*"))


def test_every_evaluation_draws_its_table(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(ParameterError, match="out must be a folder for the plots"):
        Comparison(plots=True)
    evaluate(study(), Comparison(plots=True, out=tmp_path))
    report = evaluate(study(), Comparison(plots=True, out=tmp_path))  # goes on: the picture is its own
    assert report.outputs == [str(tmp_path / "results.csv"), str(tmp_path / "scores.png")]
    assert (tmp_path / "scores.png").read_bytes().startswith(b"\x89PNG")
