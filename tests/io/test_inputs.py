"""Inputs of a command line."""

import re
from pathlib import Path

import pytest

from visionnmf.exceptions import UnreadableError
from visionnmf.io import expand_images, expand_inputs, stem_of
from visionnmf.io.inputs import numbered


def _touch(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / name).write_bytes(b"x")
    return [str(folder / name) for name in names]


def test_files_patterns_and_samples_keep_their_order_without_repeats(tmp_path):
    a, b, c = _touch(tmp_path, "a.png", "b.png", "c.jpg")
    pattern = str(tmp_path / "*.png")
    assert expand_inputs([c, "sample:coffee", pattern, a, "sample:coffee", c]) == [c, "sample:coffee", a, b]
    assert expand_inputs([a, f"{tmp_path}/./a.png"]) == [a]
    odd, _ = _touch(tmp_path, "photo[1].png", "photo1.png")
    assert expand_inputs([odd, "nothing.png"]) == [odd, "nothing.png"]  # so that a batch can go on
    with pytest.raises(UnreadableError, match=r"\*\.webp: no file matches this pattern"):
        expand_inputs([str(tmp_path / "*.webp")])


def test_a_pattern_goes_into_folders_but_does_not_name_them(tmp_path):
    (tmp_path / "deep").mkdir()
    inner, outer = _touch(tmp_path, "deep/x.png", "y.png")
    assert expand_inputs([str(tmp_path / "**" / "*.png")]) == [inner, outer]
    assert expand_inputs([str(tmp_path / "*")]) == [outer]


@pytest.mark.parametrize("name", ["clips/highway/input", "clips/highway/input/", "clips/highway/input/in*.jpg"])
def test_results_of_a_folder_of_input_are_named_after_the_clip(name):
    assert stem_of(name) == "highway" and stem_of("a/input.png") == "input"


def test_hidden_images_of_a_folder_are_left_out(tmp_path):
    folder = tmp_path / ".photos"  # named itself, it is meant
    (folder / ".thumbnails").mkdir(parents=True)
    seen, *_ = _touch(folder, "a.jpg", "._a.jpg", ".thumbnails/b.jpg")
    assert expand_images([str(folder)]) == [seen]


ALL = [*range(1, 151)]
FOUND = [n for n in ALL if not 50 <= n <= 69 and n not in (100, 130)]


@pytest.mark.parametrize(
    ("names", "positions", "said"),
    [
        (ALL, range(150), ""),
        (FOUND, [n - 1 for n in FOUND], "22 numbers are missing: 50 to 69, 100, 130; later pictures keep"),
        ([1, 2, 3, 5, 6], [0, 1, 2, 4, 5], "1 number is missing: 4; later pictures keep"),
        (range(5, 100, 5), range(19), ""),  # every fifth frame
        ([5, 10, 15, 25, 30], [0, 1, 2, 4, 5], "1 number is missing: 20;"),
        ([1, 2, 4, 5, 7, 8, 10, 11, 13, 14], [0, 1, 3, 4, 6, 7, 9, 10, 12, 13], "4 numbers .* 3, 6, 9, ...;"),
        ([3, 17, 20, 44], range(4), ""),  # chosen frames, and not a run of one step
        ([1, 2, 3, 10, 12], range(5), ""),  # mostly by no step
        ([7], range(1), ""),
        (["115958", "115959", "120000", "120001"], range(4), ""),  # of a clock
        (["20240130", "20240131", "20240201", "20240202"], range(4), ""),
        (["0900", "0930", "1000", "1030"], range(4), ""),
        (["0958", "0959", "1000", "1001"], range(4), ""),
        (["240130", "240131", "240201", "240202"], range(4), ""),  # of days
        (["20240129", "20240130", "20240201", "20240202"], range(4), ""),  # without the 31st
        (["20240101", "20240102", "20240103", "20240105"], [0, 1, 2, 4], "1 number is missing: 20240104;"),
        (["000001", "000002", "000003", "000005"], [0, 1, 2, 4], "1 number is missing: 4;"),
        (["1700000000000", "1700000000001", "1700000000003", "1700000000004"], range(4), ""),  # milliseconds
        (["1_1", "1_2", "2_1", "2_2"], range(4), ""),  # two numbers
        (["a1", "b2", "c3", "d5"], range(4), ""),
        (["a", "b", "c"], range(3), ""),
    ],
)
def test_pictures_are_placed_by_the_numbers_in_their_names(names, positions, said):
    found, note = numbered([f"clips/3/img{name}.jp2" for name in names])
    assert list(found) == list(positions) and re.match(said, note) and bool(note) == bool(said)
    assert list(numbered(["a1.bmp", "a1.jpg", "a1.png", "a2.png"])[0]) == [0, 1, 2, 3]  # which are no run
