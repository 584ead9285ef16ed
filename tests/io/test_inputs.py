"""Inputs of a command line."""

from pathlib import Path

import pytest

from visionnmf.exceptions import TooLargeError, UnreadableError
from visionnmf.io import check_memory, expand_images, expand_inputs, inputs


def _touch(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / name).write_bytes(b"x")
    return [str(folder / name) for name in names]


def test_files_patterns_and_samples_keep_their_order_without_repeats(tmp_path):
    a, b, c = _touch(tmp_path, "a.png", "b.png", "c.jpg")
    pattern = str(tmp_path / "*.png")
    assert expand_inputs([c, "sample:coffee", pattern, a, "sample:coffee", c]) == [c, "sample:coffee", a, b]
    assert expand_inputs([a, f"{tmp_path}/./a.png"]) == [a]


def test_a_pattern_goes_into_folders_but_does_not_name_them(tmp_path):
    (tmp_path / "deep").mkdir()
    inner, outer = _touch(tmp_path, "deep/x.png", "y.png")
    assert expand_inputs([str(tmp_path / "**" / "*.png")]) == [inner, outer]
    assert expand_inputs([str(tmp_path / "*")]) == [outer]


def test_a_pattern_without_a_match_is_an_error(tmp_path):
    with pytest.raises(UnreadableError, match=r"\*\.webp: no file matches this pattern"):
        expand_inputs([str(tmp_path / "*.webp")])


def test_a_file_with_brackets_in_its_name_is_that_file(tmp_path):
    odd, _ = _touch(tmp_path, "photo[1].png", "photo1.png")
    assert expand_inputs([odd]) == [odd]


def test_a_missing_plain_file_passes_so_that_a_batch_can_go_on():
    assert expand_inputs(["nothing.png"]) == ["nothing.png"]


def test_hidden_images_of_a_folder_are_left_out(tmp_path):
    folder = tmp_path / ".photos"  # named itself, it is meant
    (folder / ".thumbnails").mkdir(parents=True)
    seen, *_ = _touch(folder, "a.jpg", "._a.jpg", ".thumbnails/b.jpg")
    assert expand_images([str(folder)]) == [seen]


# --- memory -----------------------------------------------------------------------------------------------------------


def _system(monkeypatch, **files):
    """Let the system's files hold what is given."""
    group, first = "/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/memory"
    names = {"meminfo": "/proc/meminfo", "most": f"{group}.max", "used": f"{group}.current", "stat": f"{group}.stat"}
    names |= {"most1": f"{first}.limit_in_bytes", "used1": f"{first}.usage_in_bytes", "stat1": f"{first}.stat"}
    content = {names[key]: text.splitlines() for key, text in files.items()}
    monkeypatch.setattr(inputs, "_lines", lambda path: content.get(path, []))


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, None),
        ({"meminfo": "MemTotal: 100 kB\nMemAvailable:     7 kB\n"}, 7 << 10),
        ({"meminfo": "MemAvailable: 7 kB", "most": "max\n", "used": "5\n"}, 7 << 10),
        ({"meminfo": "MemAvailable: 7 kB", "most": "5000\n", "used": "3000\n"}, 2000),
        ({"most": "5000\n", "used": "6000\n"}, 0),
        ({"most": "5000\n", "used": "4000\n", "stat": "active_file 7\ninactive_file 1500\n"}, 2500),
        ({"most": "5000\n", "used": "4000\n", "stat": "inactive_file 4500\n"}, 5000),
        ({"most1": "5000\n", "used1": "4000\n"}, 1000),
        ({"most1": "5000\n", "used1": "4000\n", "stat1": "inactive_file 9\ntotal_inactive_file 1500\n"}, 2500),
        ({"meminfo": "MemAvailable: 7 kB", "most1": "9223372036854771712\n", "used1": "4000\n"}, 7 << 10),
        ({"meminfo": "MemAvailable: 7 MB\nodd line"}, None),
    ],
)
def test_free_memory_is_the_least_of_what_the_system_says(files, free, monkeypatch):
    _system(monkeypatch, **files)
    assert inputs.available_memory() == free


def test_what_the_free_memory_cannot_hold_is_refused(monkeypatch):
    _system(monkeypatch, meminfo="MemAvailable: 1048576 kB")
    check_memory("x", 1 << 30)
    with pytest.raises(TooLargeError, match=r"x: 2\.0 GiB of memory are needed and 1\.0 GiB are free; make it smaller"):
        check_memory("x", 2 << 30)
    _system(monkeypatch)
    check_memory("x", 1 << 60)


def test_the_limit_of_the_process_counts():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    if not inputs._lines("/proc/self/statm"):
        pytest.skip("this system does not say how large a process is")
    try:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 40, before[1]))
        assert inputs.available_memory() < 1 << 40
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
