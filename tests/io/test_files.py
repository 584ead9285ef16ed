"""Inputs of a command line, and outputs that are whole or absent."""

import os
from pathlib import Path

import pytest

from visionnmf.exceptions import MediaError, OutputExistsError, ParameterError, UnreadableError
from visionnmf.io import check_outputs, expand_inputs, output_file


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


def test_output_appears_only_when_the_block_is_done(tmp_path):
    target = tmp_path / "out.png"
    with output_file(target, force=False) as temporary:
        assert temporary.parent == tmp_path and temporary.suffix == ".png"
        temporary.write_bytes(b"whole")
        assert not target.exists()
    assert target.read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["out.png"]


def test_output_has_the_permissions_of_an_ordinary_file(tmp_path):
    (tmp_path / "ordinary").touch()
    with output_file(tmp_path / "out.png", force=False):
        pass
    assert (tmp_path / "out.png").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_an_interrupted_block_leaves_nothing_and_keeps_the_old_file(tmp_path, error):
    target = tmp_path / "out.png"
    target.write_bytes(b"old")
    with pytest.raises(error), output_file(target, force=True) as temporary:
        temporary.write_bytes(b"half")
        raise error
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.png"]


def test_an_existing_output_needs_force(tmp_path):
    (target,) = map(Path, _touch(tmp_path, "out.png"))
    with pytest.raises(OutputExistsError, match="exists already; pass force=True to replace it"), output_file(target):
        pytest.fail("the block must not run")
    with output_file(target, force=True) as temporary:
        temporary.write_bytes(b"new")
    assert target.read_bytes() == b"new"


def test_an_output_that_appears_meanwhile_is_not_overwritten(tmp_path):
    target = tmp_path / "out.png"
    with pytest.raises(OutputExistsError), output_file(target):
        target.write_bytes(b"somebody else's")
    assert target.read_bytes() == b"somebody else's"
    assert os.listdir(tmp_path) == ["out.png"]


def test_output_folder_must_exist(tmp_path):
    with pytest.raises(MediaError, match=r"there is no folder .*missing; create it first"):
        output_file(tmp_path / "missing" / "out.png").__enter__()
    with pytest.raises(MediaError, match="is a folder; name a file"):
        output_file(tmp_path, force=True).__enter__()


def test_check_outputs_refuses_before_the_work(tmp_path):
    existing, free = *_touch(tmp_path, "old.png"), str(tmp_path / "new.png")
    check_outputs([free], False)
    check_outputs([free, existing], True, inputs=["sample:coffee", str(tmp_path / "in.png")])
    with pytest.raises(OutputExistsError, match=r"old\.png: exists already; pass force=True"):
        check_outputs([free, existing], False)
    with pytest.raises(ParameterError, match=r"outputs must have different names; got .*new\.png twice"):
        check_outputs([free, existing, tmp_path / "." / "new.png"], True)
    with pytest.raises(MediaError, match="is a folder"):
        check_outputs([tmp_path], True)


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_an_input_is_never_overwritten_under_whatever_name(tmp_path, link):
    (source,) = _touch(tmp_path, "in.png")
    output = source
    if link is not None:
        output = str(tmp_path / "alias.png")
        link(source, output)
    with pytest.raises(OutputExistsError, match=r"would overwrite the input .*in\.png"):
        check_outputs([output], True, inputs=[source])
