"""Inputs of a command line."""

from pathlib import Path

import pytest

from visionnmf.exceptions import UnreadableError
from visionnmf.io import expand_images, expand_inputs, stem_of


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
