"""``--scheduler``: commands and jobs on two workers of Dask give what one process gives, also if workers are killed."""

import os
import re
import socket
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest
from helpers import json_lines, killed, killed_after_writing, run_command as run, slow, squares
from PIL import Image

from visionnmf.apps import ClusterError, cluster, on_cluster
from visionnmf.apps.cli.run import Input, attempt
from visionnmf.apps.cluster import LostJobError, open_workers
from visionnmf.apps.runner import run_jobs, run_parallel
from visionnmf.datasets import make_mosaic
from visionnmf.exceptions import OutputExistsError, VisionNMFError
from visionnmf.features import FeatureExtraction, extraction

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.slow

COLUMNS = ("number", "square")
JOBS = {f"job {number}": (number,) for number in range(5)}
ROWS = [{"number": number, "square": number**2} for number in range(5)]


def started(n_workers):
    """A scheduler, and processes of one thread each."""
    return distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address="127.0.0.1:0")


@pytest.fixture(scope="module")
def workers():
    with started(2) as workers:
        yield workers


@pytest.fixture
def address(workers):
    return workers.scheduler_address


def without_seconds(text):
    return re.sub(r'("(seconds\w*|\w+_per_second|\w+ing|total)": )[\d.e-]+', r"\1", text)


def assert_same_run(*command, workers):
    """Run a command here and on the workers: both say the same, and end with the same code."""
    one = run(*command, "--jobs", 1)
    before = workers.scheduler.transition_counter
    two = run(*[str(word).replace("one", "two") for word in command], "--scheduler", workers.scheduler_address)
    assert workers.scheduler.transition_counter > before  # they had something to do
    assert one.exit_code == two.exit_code
    lines = [sorted(without_seconds(run.stdout).replace("two", "one").splitlines()) for run in (one, two)]
    assert lines[0] == lines[1]
    progress = re.compile(r"(done|[a-z]+ing) \d|extract")  # comes on a slow machine only
    said = [[line for line in found.stderr.splitlines() if not progress.search(line)] for found in (one, two)]
    assert said[0] == [line.replace("two", "one") for line in said[1]]
    return two


def test_images_are_segmented_as_by_one_process(images, tmp_path, workers):
    found = assert_same_run("segment", *images, "-o", "one", "--json", workers=workers)
    assert found.exit_code == 1 and "c.png: " in found.stderr and "transparent" in found.stdout
    assert [entry["inputs"][0] for entry in json_lines(found)] == images
    written = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two")]
    assert written[0] == written[1] and len(written[0]) == 16
    again = run("segment", *images, "-o", "two", "--skip-existing", "--scheduler", workers.scheduler_address)
    assert again.exit_code == 1 and "4 of 5 images skipped" in again.stderr


def test_a_video_is_separated_as_by_one_process(tmp_path, workers):
    clip = ("background", "sample:surveillance", "--max-frames", 3, "--scale", 0.2, "-o", tmp_path / "one", "--json")
    assert_same_run(*clip, workers=workers)
    names = ["surveillance_background.mp4", "surveillance_background.png", "surveillance_foreground.mkv"]
    for name in ("one", "two"):
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == [*names, "surveillance_preview.mp4"]
    for name in names[:2]:  # the third holds a random number
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    live = run("background", "sample:surveillance", "--live", "--scheduler", workers.scheduler_address)
    assert live.exit_code == 2 and "--live and --scheduler exclude each other" in live.stderr


@pytest.mark.long
def test_an_evaluation_on_a_cluster_resumes(tmp_path, address):
    with on_cluster(address):
        assert run_jobs(JOBS, partial(squares, 3), COLUMNS, out=tmp_path)[1] == ["ValueError: 4 is too much"]
        kept = {path.name for path in (tmp_path / "jobs").iterdir()}
        assert "job 4.json" not in kept
        assert run_jobs(JOBS, partial(squares, 9), COLUMNS, out=tmp_path)[0] == ROWS


def collected(jobs, work, **more):
    found = {}
    run_parallel(jobs, work, 1, found.__setitem__, **more)
    return found


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # closing sockets of a killed worker warn
def test_the_job_of_a_killed_worker_is_done_again_over_its_own_results_only(tmp_path, address):
    (tmp_path / "2.txt").write_text("mine")
    os.utime(tmp_path / "2.txt", (time.time() - 60,) * 2)
    with on_cluster(address):
        assert collected({"0": (tmp_path, 0), "1": (tmp_path, 1)}, killed_after_writing) == {"0": 2, "1": 2}
        with pytest.raises(OutputExistsError, match=r"2\.txt: exists already"):
            collected({"2": (tmp_path, 2)}, killed_after_writing)
    assert [(tmp_path / f"{i}.txt").read_text() for i in range(3)] == ["result 0", "result 1", "mine"]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # closing sockets of a killed worker warn
def test_a_job_that_ends_workers_is_lost_alone(workers, monkeypatch):
    monkeypatch.setattr(workers.scheduler, "allowed_failures", 0)  # so that one worker is enough
    with on_cluster(workers.scheduler_address):
        with pytest.raises(LostJobError, match="workers were lost while they had it"):
            collected({"a": (1,)}, killed)
        assert str(collected({"a": (1,)}, killed, lost=repr)["a"]).startswith("LostJobError('workers were lost")
        assert collected({"a": (9, 3)}, squares) == {"a": ROWS[3:4]}


@pytest.mark.long
def test_an_interrupt_withdraws_what_has_not_begun(tmp_path, address):
    def interrupted(name, result):
        raise KeyboardInterrupt

    with on_cluster(address), pytest.raises(KeyboardInterrupt):
        run_parallel({str(i): (tmp_path, i) for i in range(20)}, slow, 1, interrupted)
    time.sleep(0.6)
    assert 2 <= len(list(tmp_path.iterdir())) <= 8


def refusal(scheduler):
    """Return what a command says, in one line, that cannot use its scheduler."""
    found = run("segment", "sample:coffee", "--scheduler", scheduler)
    assert found.exit_code == 2 and not found.stdout
    (line,) = found.stderr.splitlines()
    return line


def test_a_scheduler_that_cannot_be_used_is_refused_in_one_line(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    for wrong in ("tcp://127.0.0.1:1", "127.0.0.1", "ftp://127.0.0.1:1"):
        assert f"scheduler {wrong}: does not answer (" in (line := refusal(wrong))
        assert line.endswith("`dask scheduler` starts one")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # which is no scheduler
        port = silent.getsockname()[1]
        assert refusal(f"127.0.0.1:{port}").endswith("`dask scheduler` starts one")
    with started(0) as empty:
        cure = f"has no worker; `dask worker {empty.scheduler_address}` starts one (with nthreads 1)"
        assert cure in refusal(empty.scheduler_address)
    monkeypatch.setattr(cluster, "__version__", "99.0")
    assert re.search(r"worker tcp://\S+: has visionnmf [\d.]+; install 99.0 there", refusal(address))
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "a scheduler needs Dask, which is not installed; `sh setup.sh dask`" in refusal(address)
    assert not list(tmp_path.iterdir())
    both = run("segment", "sample:coffee", "--scheduler", address, "--jobs", 2)
    assert both.exit_code == 2 and "--jobs and --scheduler exclude each other" in both.stderr


@pytest.mark.long
def test_a_scheduler_that_is_lost_ends_the_command_with_one_line(tmp_path):
    """It may have done some of the images: one result at least is there."""
    sources = [tmp_path / f"{i}.png" for i in range(40)]
    for source in sources:
        Image.fromarray(make_mosaic(96, 128, random_state=0).image).save(source)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    port = address.rpartition(":")[2]
    options = ["--no-dashboard", "--host", "127.0.0.1"]
    dask = [
        ("distributed.cli.dask_scheduler", "--port", port, *options),
        ("distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1", "--death-timeout", "60", *options),
    ]
    command = ("visionnmf", "segment", *map(str, sources), "-o", "out", "-q", "--scheduler", address)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    begun = []
    for words, output in [*((each, subprocess.DEVNULL) for each in dask), (command, subprocess.PIPE)]:
        line = [sys.executable, "-m", *words]
        begun.append(subprocess.Popen(line, env=environment, cwd=tmp_path, stdout=output, stderr=output, text=True))
    try:
        deadline = time.monotonic() + 90
        while not list(tmp_path.glob("out/*_labels.png")) and time.monotonic() < deadline:
            time.sleep(0.02)
        begun[0].kill()
        said, problems = begun[2].communicate(timeout=20)
    finally:
        for process in begun:
            process.kill()
            process.communicate()
    assert (begun[2].returncode, said) == (2, "")
    assert problems == f"visionnmf: scheduler {address}: was lost; start it and the run again\n"


@pytest.mark.long
def test_a_worker_that_comes_later_must_suit_as_well():
    with pytest.raises(VisionNMFError, match=r"^worker w: has no visionnmf; install 1 there"):
        cluster._check_worker("w", None, "1", 1)
    with pytest.raises(VisionNMFError, match=r"^worker w: has 4 threads; start it with nthreads 1"):
        cluster._check_worker("w", "1", "1", 4)


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="no name that only this process sees")
def test_a_file_that_a_worker_does_not_see_ends_the_run(address):
    name = f"/proc/self/task/{os.getpid()}"
    with on_cluster(address), pytest.raises(ClusterError, match=rf"not see {name}; workers need a shared folder$"):
        collected({"a": (len, Input(name))}, attempt)
    given = partial(len, file=name), Input("gone.png", ".")
    assert cluster._files_of(attempt, given, {}) == [name, "."]
    assert cluster._files_of(squares, (name,), {}) == []


def test_a_folder_that_is_gone_is_reported(tmp_path, monkeypatch, address):
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "away")
    with on_cluster(address), open_workers() as pool:
        (tmp_path / "away").rmdir()
        with pytest.raises(VisionNMFError, match=r"away: was removed before its turn came"):
            pool.submit(squares, 9, 3).result()


@pytest.mark.long
def test_batches_of_images_come_in_their_order(monkeypatch):
    """Also if more of them wait than the pool may have."""
    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setattr(extraction, "BATCH", 2)
    monkeypatch.setattr(extraction, "AHEAD", 2)
    images = [make_mosaic(16, 16, random_state=seed).image for seed in range(9)]
    model = FeatureExtraction(["rgb"]).fit(images)
    with ThreadPoolExecutor(2) as pool:
        np.testing.assert_array_equal(model.extract(images, pool=pool).X, model.transform(images))
