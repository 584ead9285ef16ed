"""Outputs are whole or absent, alone and together, and never written over an input."""

import errno
import json
import os
import re
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from visionnmf.apps.drawing import new_figure, save_figure
from visionnmf.exceptions import MediaError, OutdatedError, OutputExistsError, ParameterError
from visionnmf.io import VideoWriter, check_outputs, check_outside, output_file, output_folder, outputs, read_image
from visionnmf.io.images import write_image
from visionnmf.io.outputs import record_of, recording, together

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="2" height="2">\n<g/></svg>'


def _touch(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / name).write_bytes(b"x")
    return [str(folder / name) for name in names]


def test_output_appears_only_when_the_block_is_done(tmp_path):
    target = tmp_path / "out.png"
    with output_file(target, force=False) as temporary:
        assert temporary.parent == tmp_path and temporary.suffix == ".png"
        temporary.write_bytes(b"whole")
        assert not target.exists()
    assert target.read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["out.png"]


@pytest.mark.parametrize("name", ["a.png", "a.json", "a.geojson", "a.svg"])
def test_a_file_says_how_it_was_made_and_is_out_of_date_otherwise(name, tmp_path):
    path, settings = tmp_path / name, {"loss": "huber", "ranks": (1, 2)}
    made = {"version": "1", "input": "photo </metadata> & <svg> 1a", "settings": settings}
    image = np.arange(24, dtype=np.uint16).reshape(4, 6)

    def write(force=False, **made):
        with recording(**made):
            if path.suffix == ".png":
                write_image(path, image, force=force)
            else:
                with output_file(path, force=force) as temporary:
                    temporary.write_text(SVG if path.suffix == ".svg" else '{\n"count": 3}')

    write(**made)
    assert record_of(path) == made | {"settings": {"loss": "huber", "ranks": [1, 2]}}
    if path.suffix == ".png":
        np.testing.assert_array_equal(read_image(path)[..., 0], image)
        with Image.open(path) as picture:
            assert json.loads(picture.text["visionnmf"]) == record_of(path)
    elif path.suffix == ".svg":
        (metadata, group) = ElementTree.parse(path).getroot()
        assert metadata.tag.endswith("metadata") and json.loads(metadata.text) == record_of(path)
        assert group.tag.endswith("g")
    else:
        assert json.loads(path.read_text()) == {"visionnmf": record_of(path), "count": 3}
    with pytest.raises(OutputExistsError, match="exists already"):
        write(**made | {"version": "2"})
    for other, reason in (
        ({**made, "input": "photo 2b"}, "from an input with other content"),
        ({**made, "settings": {"loss": "manhattan", "ranks": [1, 2]}}, "with loss=huber, and not with loss=manhattan"),
        ({**made, "settings": {"loss": "huber"}}, "with ranks=1,2, and not with the usual settings"),
        ({**made, "settings": {}}, "and not with the usual settings"),
    ):
        with pytest.raises(OutdatedError, match=f"{name}: was made .*{reason}"):
            write(**other)
        with recording(**other), pytest.raises(OutdatedError):
            check_outputs([path], False)
    write(force=True, **other)
    assert record_of(path)["settings"] == {}
    path.write_bytes(b"by another program")
    assert record_of(path) is None
    with pytest.raises(OutdatedError, match="does not say how it was made"):
        write(**other)


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


def test_an_existing_output_needs_force_and_its_folder_must_exist(tmp_path):
    (target,) = map(Path, _touch(tmp_path, "out.png"))
    with pytest.raises(OutputExistsError, match="exists already; pass force=True to replace it"), output_file(target):
        pytest.fail("the block must not run")
    with output_file(target, force=True) as temporary:
        temporary.write_bytes(b"new")
    assert target.read_bytes() == b"new"
    with pytest.raises(MediaError, match=r"there is no folder .*missing; create it first"):
        output_file(tmp_path / "missing" / "out.png").__enter__()
    with pytest.raises(MediaError, match="is a folder; name a file"):
        output_file(tmp_path, force=True).__enter__()


@pytest.mark.parametrize("block", [nullcontext, together])
@pytest.mark.parametrize("name", ["plain.txt/x.npz", "x." + 245 * "y", 256 * "x", "plain.txt/" + 256 * "x"])
def test_what_cannot_be_cleaned_up_is_told_by_the_name_of_the_output(name, block, tmp_path):
    _touch(tmp_path, "plain.txt")
    with (
        pytest.raises(MediaError, match=rf"{name}: cannot be written \((Not a directory|File name too long)\)$"),
        block(),
        output_file(tmp_path / name),
    ):
        pytest.fail("the block must not run")
    assert _names(tmp_path) == ["plain.txt"]


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


def test_a_folder_for_outputs_is_made_or_refused_and_does_not_lie_among_the_faces(tmp_path):
    (file,) = _touch(tmp_path, "faces.npz")
    check_outside(tmp_path.parent, tmp_path)
    check_outside(tmp_path / "out", file)
    with pytest.raises(ParameterError, match=r"out must lie outside .* where results would be taken for faces; got"):
        check_outside(tmp_path / "deep" / "out", tmp_path)
    assert output_folder(tmp_path / "a" / "b").is_dir()
    assert output_folder(tmp_path / "a") == tmp_path / "a"
    (tmp_path / "file").touch()
    with pytest.raises(MediaError, match=r"file/out: cannot be written \(Not a directory\)"):
        output_folder(tmp_path / "file" / "out")


# --- several together -------------------------------------------------------------------------------------------------


def _names(folder):
    return sorted(os.listdir(folder))


def _visible(folder):
    return [name for name in _names(folder) if not name.startswith(".")]


FRAME = np.zeros((8, 8, 3), np.uint8)


def test_files_of_all_writers_appear_together(tmp_path):
    with together():
        write_image(tmp_path / "a.png", FRAME)
        with VideoWriter(tmp_path / "b.mkv", width=8, height=8, frame_rate=25, codec="ffv1") as writer:
            writer.write(FRAME)
        with output_file(tmp_path / "c.txt") as temporary:
            temporary.write_text("c")
        assert _visible(tmp_path) == []
    assert _names(tmp_path) == ["a.png", "b.mkv", "c.txt"]
    assert (read_image(tmp_path / "a.png") == 0).all()


def test_an_error_leaves_none_and_keeps_the_old(tmp_path):
    _touch(tmp_path, "a.png")
    with pytest.raises(KeyboardInterrupt), together():
        write_image(tmp_path / "a.png", FRAME, force=True)
        with output_file(tmp_path / "b.txt"):
            raise KeyboardInterrupt
    assert _names(tmp_path) == ["a.png"]
    assert (tmp_path / "a.png").read_bytes() == b"x"
    write_image(tmp_path / "b.png", FRAME)  # the block is over
    assert "b.png" in _names(tmp_path)


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("after", [True, False])
def test_an_interrupt_between_the_names_comes_after_the_last_name(after, force, tmp_path, monkeypatch):
    if force:
        _touch(tmp_path, "a.txt", "b.txt", "c.txt")
    replace, done = os.replace, []

    def interrupted(source, target):
        if after:
            replace(source, target)
        done.append(target)
        if len(done) == 2:
            raise KeyboardInterrupt
        if not after:
            replace(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt), together():
        _write(tmp_path, "a.txt", "b.txt", "c.txt", force=force)
    assert _names(tmp_path) == ["a.txt", "b.txt", "c.txt"]
    assert all((tmp_path / name).read_text() == "new" for name in _names(tmp_path))


def _write(folder, *names, force=False):
    for name in names:
        with output_file(folder / name, force=force) as temporary:
            temporary.write_text("new")


def test_a_full_disk_or_a_name_that_cannot_be_given_is_told_by_the_name_of_the_output(tmp_path, monkeypatch):
    sentence = r"a\.txt: cannot be written \(No space left on device\)$"
    with pytest.raises(MediaError, match=sentence) as caught, output_file(tmp_path / "a.txt") as temporary:
        raise OSError(errno.ENOSPC, "No space left on device", str(temporary))
    assert "\n" not in str(caught.value) and _names(tmp_path) == []
    with pytest.raises(FileNotFoundError), output_file(tmp_path / "a.txt"):  # another file's error stays its own
        (tmp_path / "none").read_text()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(MediaError, match=r"a\.txt: cannot be written \(Input/output error\)$"), together():
        _write(tmp_path, "a.txt", "b.txt")
    assert _names(tmp_path) == []


def test_an_output_that_appears_before_the_names_are_given_is_kept(tmp_path):
    with pytest.raises(OutputExistsError, match=r"a\.png: exists already; pass force=True"), together():
        write_image(tmp_path / "b.png", FRAME)
        write_image(tmp_path / "a.png", FRAME)
        _touch(tmp_path, "a.png")
    assert _names(tmp_path) == ["a.png"]
    assert (tmp_path / "a.png").read_bytes() == b"x"


def test_a_block_within_another_is_part_of_it_and_other_threads_do_not_wait_for_it(tmp_path):
    with pytest.raises(ValueError, match="late"), together():
        with together():
            write_image(tmp_path / "a.png", FRAME)
        assert _visible(tmp_path) == []
        raise ValueError("late")
    assert _names(tmp_path) == []
    with together():
        thread = threading.Thread(target=write_image, args=(tmp_path / "a.png", FRAME))
        thread.start()
        thread.join()
        assert _names(tmp_path) == ["a.png"]


def test_what_is_given_up_within_another_block_drops_its_own_files_alone(tmp_path):
    with together(), output_file(tmp_path / "a"), pytest.raises(KeyError), together():
        with output_file(tmp_path / "b") as b:
            b.write_text("b")
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_block_may_have_more_files_than_a_process_may_open(tmp_path):
    resource = pytest.importorskip("resource")
    (tmp_path / "within").mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(os.listdir("/dev/fd")) + 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        with together():
            for number in range(2 * few):
                with output_file(tmp_path / ("within" if number % 2 else "") / f"{number}.txt") as path:
                    path.write_text(str(number))
            assert _visible(tmp_path) == ["within"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(_names(tmp_path)) == few + 1 and len(_names(tmp_path / "within")) == few


def test_what_a_killed_block_has_left_is_removed_by_the_next(tmp_path):
    code = """
import os, sys, time
from visionnmf.io import output_file, together
with together():
    for name in "ab":
        with output_file(os.path.join(sys.argv[1], name)):
            pass
    print("written", flush=True)
    time.sleep(100)
"""
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None and writer.stdout.readline() == "written\n"
            left = _names(tmp_path)
            assert len(left) == 2
            elsewhere = re.sub("-[0-9a-f]{8}", "-0badc0de", left[0])  # another machine's, whose processes are not seen
            _touch(tmp_path, ".mine.part.png", elsewhere)
            _sweep(tmp_path)
            assert _names(tmp_path) == sorted([*left, ".mine.part.png", elsewhere, "next"])
        finally:
            writer.kill()
    _sweep(tmp_path)
    assert _names(tmp_path) == sorted([".mine.part.png", elsewhere, "next"])


def test_what_a_signal_kept_from_being_removed_is_removed_at_the_end_of_the_process(tmp_path):
    code = (
        "import os\n"
        "from visionnmf.io import outputs\n"
        "def interrupted(*_): raise KeyboardInterrupt\n"
        "remove, outputs._remove = outputs._remove, interrupted\n"
        "try:\n"
        "    with outputs.output_file('b.txt'): raise ValueError\n"
        "except KeyboardInterrupt: print(len(os.listdir()))\n"
        "outputs._remove = remove\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ran.stdout.split() == ["1"], ran.stderr
    assert _names(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_the_end_of_a_fork_leaves_the_files_of_its_parent(tmp_path):
    code = (
        "import atexit, os\n"
        "from visionnmf.io import output_file\n"
        "with output_file('a.txt') as temporary:\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        atexit._run_exitfuncs()\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "    assert temporary.exists()\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert _names(tmp_path) == ["a.txt"]


def _sweep(folder):
    outputs._clear.cache_clear()
    with output_file(folder / "next", force=True):
        pass


@pytest.mark.parametrize("name", ["a<svg>b.mp4", "a<svg.mp4"])
def test_a_json_file_that_speaks_of_pictures_is_no_picture(name, tmp_path):
    with recording(input=name), output_file(tmp_path / "a.json") as partial:
        partial.write_text(json.dumps({"input": name}))
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["input"] == name and record_of(tmp_path / "a.json") == {"input": name}


def test_a_figure_of_matplotlib_says_how_it_was_made(tmp_path):
    pytest.importorskip("matplotlib")
    with recording(input="clip"):
        save_figure(new_figure(2, 2), tmp_path / "a.svg")
    assert record_of(tmp_path / "a.svg") == {"input": "clip"}
    assert ElementTree.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")
