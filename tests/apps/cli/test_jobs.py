"""``--jobs``: which commands take it, the same results in the same order, and nothing left behind by an interrupt."""

import pickle
import re
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial

import pytest
from helpers import all_commands, json_lines, run_command as run
from PIL import Image

from visionnmf.apps import masquerade, pool
from visionnmf.apps.faces import load
from visionnmf.apps.faces.identification import Identifier
from visionnmf.apps.masquerade import scoring, training
from visionnmf.datasets import make_mosaic
from visionnmf.exceptions import ParameterError

# Commands of many inputs without the option, and why.
WITHOUT = {"faces add": "a few images of one person", "view": "one window"}
WITHOUT |= {f"multiview {name}": "one table" for name in ("fit", "transform", "impute")}


def commands():
    """Each command's name and its click command."""
    return dict(all_commands())


def options(command):
    return {option for parameter in command.params for option in parameter.opts}


def test_every_batch_and_every_evaluation_takes_jobs_and_results_have_a_short_option():
    batches, taking = set(), set()
    for name, command in commands().items():
        several = any(parameter.param_type_name == "argument" and parameter.nargs == -1 for parameter in command.params)
        if several or "evaluate" in name:
            batches.add(name)
        if "--jobs" in options(command):
            assert {"-j", "--scheduler"} <= options(command), name
            taking.add(name)
    assert {"segment", "background", "faces identify", "masquerade score"} <= taking
    assert batches - taking == set(WITHOUT)
    assert all("-o" in options(command) for command in commands().values() if "--out" in options(command))


class Elsewhere(ThreadPoolExecutor):
    """A pool of threads to which arguments and results come as to processes: copied."""

    def submit(self, work, *arguments):
        return super().submit(lambda sent: copied(work(*sent)), copied(arguments))


def copied(value):
    return pickle.loads(pickle.dumps(value))


@contextmanager
def elsewhere(processes):
    with Elsewhere(processes) as pool:
        yield pool


@pytest.mark.slow
def test_images_read_by_several_processes_are_identified_as_by_one(photographs):
    command = ("faces", "identify", photographs / "people.npz", photographs / "people", "--recursive", "--json")
    one, two = run(*command), run(*command, "--jobs", 2)
    assert one.exit_code == two.exit_code == 1 and len(json_lines(one)) == 14
    failures = [[line for line in found.stderr.splitlines() if "looking" not in line] for found in (one, two)]
    assert one.stdout == two.stdout and failures[0] == failures[1] and "transparent" in one.stderr


@pytest.mark.slow
def test_the_pool_reads_and_what_it_cannot_read_is_read_again(photographs, monkeypatch):
    read, sources = [], [str(photographs / "people" / name) for name in ("p0/0.png", "p1/bad.png", "p2/1.png")]
    with ThreadPoolExecutor(1, initializer=lambda: read.append("pool")) as pool:
        identifier = Identifier(load(photographs / "people.npz"), pool=pool)
        identifier.prepare(sources, [None] * 3)
    assert read == ["pool"] and set(identifier._prepared) == {sources[0], sources[2]}
    assert identifier.identify(sources[2]).identity.nearest == "p2"
    broken = Identifier(load(photographs / "people.npz"), pool=pool)  # which has ended, as one without memory
    broken.prepare(sources, [None] * 3)
    assert broken.identify(sources[2]).identity == Identifier(broken.model).identify(sources[2]).identity


@pytest.mark.long
@pytest.mark.slow
def test_sessions_judged_by_several_processes_are_as_by_one(logs):
    day = sorted((logs / "new").iterdir())
    command = ("masquerade", "score", logs / "users.npz", *day, "--keep", "--json")
    before = (logs / "users.npz").read_bytes()
    one, learnt = run(*command), (logs / "users.npz").read_bytes()
    (logs / "users.npz").write_bytes(before)
    two = run(*command, "--jobs", 2)
    assert one.exit_code == two.exit_code == 1 and '"alarm"' in one.stdout and '"unknown user"' in one.stdout
    assert sorted(one.stdout.splitlines()) == sorted(two.stdout.splitlines())  # several processes read ahead
    assert sorted(one.stderr.splitlines()) == sorted(two.stderr.splitlines()) and "b.csv" in one.stderr
    assert before != learnt == (logs / "users.npz").read_bytes()


@pytest.mark.parametrize("update", [True, False])
def test_rounds_keep_the_order_of_sessions(logs, update, monkeypatch):
    monkeypatch.setattr(scoring, "open_pool", elsewhere)
    monkeypatch.setattr(scoring, "ROUND", 7)
    day = sorted((logs / "new").iterdir())

    def told(n_jobs):
        failures = []
        model = masquerade.load(logs / "users.npz")
        judging = masquerade.Judging(update=update)
        results = list(masquerade.score(model, day, judging=judging, n_jobs=n_jobs, on_error=failures.append))
        return results, failures, {user: scorer.n_sessions_ for user, scorer in model.scorers.items()}

    assert told(1) == told(2) == told(5)
    results, failures, learnt = told(2)
    assert len(results) > 7 and len(failures) == 1
    before = masquerade.load(logs / "users.npz").scorers["ann"].n_sessions_
    assert (learnt["ann"] > before) == update


def test_users_are_learnt_by_several_processes(logs, monkeypatch):
    def apart(jobs, work, processes, keep):
        for name in reversed(list(jobs)):  # as they happen to end
            keep(name, work(*jobs[name]))

    histories = sorted((logs / "old").iterdir())
    cutting = masquerade.SessionCutting(size=20)
    one = masquerade.train(histories, cutting=cutting)
    monkeypatch.setattr(training, "run_parallel", apart)
    two = masquerade.train(histories, cutting=cutting, n_jobs=2)
    assert one.users == two.users and list(one.model.scorers) == list(two.model.scorers)


def test_standard_input_is_judged_in_one_process(logs):
    refused = run("masquerade", "score", logs / "users.npz", "-", "--jobs", 2)
    assert refused.exit_code == 2 and "--jobs and standard input exclude each other" in " ".join(refused.stderr.split())
    with pytest.raises(ParameterError, match="n_jobs must be 1 for standard input"):
        masquerade.score(logs / "users.npz", ["-"], n_jobs=2)
    with pytest.raises(ParameterError, match="n_jobs must be a whole number >= 1; got 0"):
        masquerade.train([logs / "old" / "ann.log"], n_jobs=0)


def test_several_processes_are_told_of_in_the_order_of_the_inputs(tmp_path, monkeypatch):
    """Whichever ends first; what has ended is told also where an interrupt comes."""
    for name in "abcd":
        Image.fromarray(make_mosaic(24, 32, random_state=0).image).save(tmp_path / f"{name}.png")
    order = [2, 0, 3, 1]

    class Ending(Future):
        """What ends in an `order`, or is interrupted."""

        def result(self, timeout=None):
            for number in order:
                if number is None:
                    order.clear()
                    raise KeyboardInterrupt
                if not begun[number].done():
                    begun[number].set_result(begun[number].work())
            return super().result()

    class Pool:
        def submit(self, work, *arguments):
            begun.append(Ending())
            begun[-1].work = partial(work, *arguments)
            return begun[-1]

    monkeypatch.setattr(pool, "open_pool", lambda processes: nullcontext(Pool()))
    names, begun = [tmp_path / f"{name}.png" for name in "abcd"], []
    found = run("segment", *names, "--jobs", 2, "-o", tmp_path / "out")
    assert found.exit_code == 0
    assert re.findall(r"(\w)\.png: ", found.stdout) == list("abcd")
    order[:], begun[:] = [2, 0, None], []
    ended = run("segment", *names, "--jobs", 2, "-o", tmp_path / "two", "--json")
    assert ended.exit_code == 130
    assert [entry["inputs"][0][-5] for entry in json_lines(ended)] == ["a", "c"]
