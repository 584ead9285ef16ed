"""``--upload``: workers in a mount namespace of their own, where the folder of the tests is empty, do the same work."""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import av
import numpy as np
import pytest
from helpers import killed_once, run_command as run

from visionnmf.apps import on_cluster, upload
from visionnmf.apps.runner import run_parallel
from visionnmf.datasets import make_mosaic, make_surveillance
from visionnmf.io import VideoWriter, output_file, read_arrays, takes_files, write_image

distributed = pytest.importorskip("distributed")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # sockets of workers that are ended warn

APART = ["unshare", "--user", "--map-root-user", "--mount"]


def is_possible():
    """Return whether this system lets us start a process with mounts of its own."""
    try:
        command = [*APART, "mount", "-t", "tmpfs", "none", "/mnt"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """A scheduler with two workers that find an empty folder in place of that of all tests, and a folder of theirs."""
    if not is_possible():
        pytest.skip("no mount namespaces")
    hidden = tmp_path_factory.getbasetemp()
    options = ["--nworkers", "2", "--nthreads", "1", "--no-dashboard", "--memory-limit", "1GB"]
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as found,
        tempfile.TemporaryDirectory() as own,
    ):
        script = 'mount -t tmpfs none "$0" && exec "$@"'
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", found.scheduler_address, *options]
        process = subprocess.Popen(
            [*APART, "sh", "-c", script, str(hidden), *worker, "--local-directory", own],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stderr=subprocess.DEVNULL,
        )
        found.own = Path(own)
        try:
            yield found
        finally:
            process.terminate()
            process.wait()


@pytest.fixture
def workers(apart):
    yield apart
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and list(apart.own.glob("*/*/tmp*")):
        time.sleep(0.1)
    assert not list(apart.own.glob("*/*/tmp*"))  # no private folder is left


def without_seconds(text):
    text = re.sub(r", \d+\.\d s ->", ", s ->", text)
    return re.sub(r'("(seconds\w*|\w+_per_second|\w+ing|total)": )[\d.e-]+', r"\1", text)


def assert_same_run(*command, workers):
    """Run a command here and on the workers: both say the same, and end with the same code."""
    one = run(*command, "--jobs", 1)
    words = [str(word).replace("one", "two") for word in command]
    two = run(*words, "--scheduler", workers.scheduler_address, "--upload")
    assert without_seconds(one.stdout) == without_seconds(two.stdout).replace("two", "one")
    said = [
        [line for line in found.stderr.splitlines() if not re.search(r"(done|ing|images|working for) \d", line)]
        for found in (one, two)
    ]
    assert said[0] == [line.replace("two", "one") for line in said[1]]
    assert one.exit_code == two.exit_code
    return two


def written(folder):
    """The content of all files below a folder by name; of H.264 the frames, whose bytes vary on a busy machine."""
    paths = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: frames_of(path) if path.suffix == ".mp4" else path.read_bytes() for name, path in paths.items()}


def frames_of(path):
    """The size and the number of the frames of a video, and what is seen on the last one in steps of 64 levels."""
    with av.open(path) as video:
        frames = [frame.to_ndarray(format="gray") for frame in video.decode(video=0)]
    means = frames[-1].reshape(2, frames[-1].shape[0] // 2, -1).mean(axis=(1, 2))
    return len(frames), frames[-1].shape, (means / 64).round().tolist()


@pytest.mark.parametrize("absolute", [False, True])
def test_photographs_are_segmented_as_here(images, tmp_path, workers, absolute):
    names = [tmp_path / name for name in images] if absolute else images
    out = tmp_path / "one" if absolute else "one"
    command = ("segment", *names, "-o", out, "--formats", "svg", "--cutouts", "--json")
    found = assert_same_run(*command, "--segments", 4, workers=workers)
    assert found.exit_code == 1 and "c.png: " in found.stderr and "transparent" in found.stdout
    assert written(tmp_path / "one") == written(tmp_path / "two")
    before = written(tmp_path / "two")
    assert sum(name.startswith("a_cutouts") for name in before) == 4
    assert assert_same_run(*command, "--segments", 3, workers=workers).stderr.count("exists already") == 4
    assert written(tmp_path / "two") == before
    assert_same_run(*command, "--segments", 3, "--force", workers=workers)  # also removes the fourth cut-out
    after = written(tmp_path / "two")
    assert after == written(tmp_path / "one") and sum(name.startswith("a_cutouts") for name in after) == 3


def test_markers_go_with_their_photograph(images, tmp_path, workers):
    lines = np.zeros((24, 32, 3), np.uint8)
    lines[:, 3], lines[:, 28] = (255, 0, 0), (0, 255, 0)
    write_image("marks.png", lines)
    assert assert_same_run("segment", "a.png", "--markers", "marks.png", "-o", "one", workers=workers).exit_code == 0
    assert written(tmp_path / "one") == written(tmp_path / "two")


def test_clips_and_a_folder_of_pictures_are_separated_as_here(tmp_path, monkeypatch, workers):
    monkeypatch.chdir(tmp_path)
    frames = make_surveillance(20, 60, 80, random_state=0).frames
    Path("pictures").mkdir()
    with VideoWriter("yard.mp4", width=80, height=60, frame_rate=10, codec="h264") as writer:
        for i, frame in enumerate(frames):
            writer.write(frame)
            write_image(f"pictures/{i}.png", frame)
    for name in ("gate.mp4", "door.mp4"):
        Path(name).write_bytes(Path("yard.mp4").read_bytes())
    mask = np.full((60, 80), 255, np.uint8)
    mask[:20] = 0
    write_image("region.png", mask)
    options = ("--roi", "region.png", "--masks", "png", "--events", "objects", "--coco", "--frame-table", "csv")
    clips = ("yard.mp4", "gate.mp4", "door.mp4")  # which share the region
    for number, sources in enumerate([clips, ["pictures"], [tmp_path / "pictures" / "*.png"]]):
        found = assert_same_run("background", *sources, "-o", f"one{number}", *options, "--json", workers=workers)
        one, two = (written(tmp_path / f"{name}{number}") for name in ("one", "two"))
        assert found.exit_code == 0 and len(one) > 24 * len(sources) and one == two


def test_a_clip_is_judged_as_here_and_its_masks_come_back(tmp_path, monkeypatch, workers):
    monkeypatch.chdir(tmp_path)
    clip = make_surveillance(12, 24, 32, random_state=0)
    for i, (frame, truth) in enumerate(zip(clip.frames, clip.masks, strict=True), 1):
        for folder, array in (("input/in", frame), ("groundtruth/gt", truth * 255)):
            Path("street", folder).parent.mkdir(parents=True, exist_ok=True)
            write_image(f"street/{folder}{i:06}.png", array.astype("uint8"))
    for _ in range(2):  # the second time over the masks of the first
        for out, more in (("one", ("--jobs", 1)), ("two", ("--scheduler", workers.scheduler_address, "--upload"))):
            assert run("background", "evaluate", "street", "--masks", "-o", out, "--force", *more).exit_code == 0
            for rows in (tmp_path / out / "jobs").iterdir():
                rows.unlink()
        one, two = (
            {name: data for name, data in written(tmp_path / out).items() if name.endswith(".png")}
            for out in ("one", "two")
        )
        assert len(one) == 48 and one == two


def test_segmentations_are_judged_as_here(images, tmp_path, workers):
    for number, name in enumerate(("a", "b", "d")):
        labels = make_mosaic(24, 32 + 8 * number, random_state=0).labels
        Path("truth").mkdir(exist_ok=True)
        write_image(f"truth/{name}.png", labels.astype(np.uint8))
    command = ("segment", "evaluate", "--images", ".", "--truth", "truth", "--methods", "whole,visionnmf", "-o", "one")
    found = assert_same_run(*command, "--json", workers=workers)
    assert '"n_images": 3' in found.stdout or '"images": 3' in found.stdout


def test_faces_sessions_and_features_are_as_here(photographs, logs, tmp_path, monkeypatch, workers):
    monkeypatch.chdir(tmp_path)
    faces = ("faces", "identify", "people.npz", photographs / "people", "--recursive", "--json")
    assert assert_same_run(*faces, "--pictures", "one", workers=workers).exit_code == 1
    assert written(tmp_path / "one") == written(tmp_path / "two") != {}
    day = sorted((logs / "new").iterdir())
    found = assert_same_run("masquerade", "score", logs / "users.npz", *day, "--json", workers=workers)
    assert found.exit_code == 1 and '"alarm"' in found.stdout
    assert_same_run("features", "people", "--kind", "rgb,lab", "--out", "one.npz", "--json", workers=workers)
    one, two = (read_arrays(tmp_path / f"{name}.npz", ["X"])["X"] for name in ("one", "two"))
    np.testing.assert_array_equal(one, two)


def test_without_upload_one_line_says_what_is_missing(images, photographs, tmp_path, workers):
    commands = [
        ("segment", *images, "-o", "one"),
        ("segment", tmp_path / "a.png", tmp_path / "b.png", "-o", "one"),
        ("features", *images, "--kind", "rgb", "--out", "one.npz"),
        ("faces", "identify", "people.npz", *images),
    ]
    for command in commands:
        found = run(*command, "--scheduler", workers.scheduler_address)
        assert found.exit_code == 2 and not found.stdout
        (line,) = [line for line in found.stderr.splitlines() if "extract" not in line]
        assert re.fullmatch(r"visionnmf: worker \S+ does not see .*; workers need a shared path, or --upload", line)
    found = run("segment", "a.png", "--upload")
    assert found.exit_code == 2 and "--upload needs --scheduler; give that, too" in found.stderr


def test_an_input_that_is_too_large_fails_alone(images, tmp_path, monkeypatch, workers):
    (tmp_path / "b.png").write_bytes((tmp_path / "b.png").read_bytes() + bytes(10**6))
    monkeypatch.setattr(upload, "PARTS_OF_MEMORY", 10**4)  # of 1 GB
    found = run("segment", *images, "-o", "two", "--scheduler", workers.scheduler_address, "--upload")
    assert found.exit_code == 1 and "2 of 5 images failed" in found.stderr
    assert "b.png: 1.0 MB are more than the 0.1 MB that may be uploaded, 1/10000 of a worker's memory" in found.stderr
    assert len(written(tmp_path / "two")) == 12


def test_the_job_of_a_killed_worker_is_done_again(tmp_path, workers):
    (tmp_path / "a.txt").write_text("text")
    found = {}
    with tempfile.TemporaryDirectory() as seen, on_cluster(workers.scheduler_address, upload=True):
        flag = Path(seen, "flag").parts[1:]  # not an absolute name, which would lie in the private folder
        job = tmp_path / "a.txt", tmp_path / "out", flag
        run_parallel({"a": job}, killed_once, 1, found.__setitem__)
        assert Path(seen, "flag").exists()
    assert found == {"a": "text"} and (tmp_path / "out" / "a_result.txt").read_text() == "TEXT"


# --- without a cluster ------------------------------------------------------------------------------------------------


@takes_files
def concatenated(source, more, out):
    """Write a file and what it names into a result, and return what a job may return or raise."""
    text = Path(source).read_text() + Path(more["file"]).read_text()
    Path(out).mkdir(exist_ok=True)
    with output_file(Path(out) / f"{Path(source).stem}_both.txt") as temporary:
        temporary.write_text(f"{source}\n{text}")
    if "wrong" in text:
        raise ValueError(f"{source}: wrong")
    return Path(source), [f"of {Path(source).resolve()}"]


def there_and_back(function, *args, limit=1e9):
    """Do a job as a worker does, in a folder of its own."""
    names = upload.names_of(function, args, {})
    upload.check_size(names.inputs, limit)
    contents = [upload.content_of(name) for name in names.inputs]
    with tempfile.TemporaryDirectory() as within:
        returned = upload.work_in_private(function, upload.parcel(names, args, {}, limit), contents, within)
        assert os.listdir(within) == []
    return returned


def test_names_and_results_of_a_job_travel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source, more, out = tmp_path / "a.txt", {"file": "b.txt", "other": "c.txt"}, tmp_path / "out"
    source.write_text("one ")
    (tmp_path / "b.txt").write_text("two")
    returned = there_and_back(concatenated, str(source), more, out)
    assert list(returned.files) == [str(out / "a_both.txt")] and not out.exists()
    assert upload.take_back(returned) == ((source, [f"of {source}"]), None)
    assert (out / "a_both.txt").read_text() == f"{source}\none two"
    result, error = upload.take_back(there_and_back(concatenated, str(source), more, out))
    assert result is None and str(error).startswith(f"{out / 'a_both.txt'}: exists already")
    (tmp_path / "b.txt").write_text("wrong")
    result, error = upload.take_back(there_and_back(concatenated, "a.txt", more, "new"))
    assert isinstance(error, ValueError) and str(error) == "a.txt: wrong" and len(os.listdir("new")) == 1
    _, error = upload.take_back(there_and_back(concatenated, "a.txt", more, "newer", limit=12))
    assert str(error).startswith("a.txt: results of 0.0 MB are more than") and not Path("newer").exists()


def test_names_are_found_where_a_job_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("coco", "frames"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").touch()
    found = upload.names_of(concatenated, ("frames", ["coco", "frames/1.png"], "coco"), {})
    assert found.inputs == ["frames", "frames/1.png"] and found.outs == ["coco"]  # a folder only as a source
    for name in ("http://a.b/c?d=[1]", "sample:coffee", "camera:0", "-", "gone.png"):
        assert upload.names_of(concatenated, (name, [], ""), {}).inputs == []
    assert not upload.takes_files(there_and_back)


def test_results_are_written_all_or_none(tmp_path):
    (tmp_path / "folder").mkdir()
    files = {str(tmp_path / "new" / "a.txt"): b"a", str(tmp_path / "folder"): b"b"}
    with pytest.raises(Exception, match="is a folder"):
        upload.take_back(upload.Returned(b"", files, []))
    assert written(tmp_path) == {}
