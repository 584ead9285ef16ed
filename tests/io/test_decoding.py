"""Decoding in a child process: whatever happens to it costs one line and one input."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers import run_command
from scipy.io import savemat

from visionnmf.exceptions import MediaError, UnreadableError
from visionnmf.io import decoding, read_arrays, read_image, read_mat, write_image
from visionnmf.io.decoding import Child, apart

pytestmark = pytest.mark.skipif(os.name == "nt", reason="limits of processes need POSIX")


@apart
def odd(name, what):
    """Behave as a decoder that a file has brought down; what the child runs."""
    if what == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "loops":
        while True:
            pass
    if what == "waits":
        time.sleep(1000)
    if what == "asks for 8 GB":
        return np.ones(1 << 30)
    if what == "raises":
        raise KeyError("a\nb")
    print("decoders print")
    return {"array": np.arange(6).reshape(2, 3), "texts": ["a"], "text": Path(name).read_text()}


ODD = {
    "crashes": "its decoder crashed (SIGSEGV)",
    "is killed": "the process that decodes it was killed",
    "loops": "took more than 2 s of the processor",
    "waits": "took more than 5 s",
    "asks for 8 GB": "takes more than 6 GiB of memory",
    "raises": r"cannot be read ('a\nb')",
}


@pytest.fixture
def child():
    child = Child(seconds=2)
    yield child
    child.stop()


@pytest.mark.slow
@pytest.mark.parametrize("what", ODD)
def test_a_decoder_that_fails_is_one_line(child, what):
    child = child if what != "waits" else Child(deadline=5.0)
    with pytest.raises(MediaError) as caught:
        child.call(odd, "x.png", what)
    assert str(caught.value).startswith("x.png: ") and ODD[what] in str(caught.value) and "\n" not in str(caught.value)
    assert child.ended == (what not in ("asks for 8 GB", "raises"))


def test_results_come_back_whole_and_errors_as_they_are(child, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the child follows
    (tmp_path / "a.txt").write_text("text")
    found = child.call(odd, "a.txt", "nothing")
    np.testing.assert_array_equal(found["array"], [[0, 1, 2], [3, 4, 5]])
    assert found["texts"] == ["a"] and found["text"] == "text" and found["array"].flags.writeable
    with pytest.raises(UnreadableError, match=r"^b\.png: no such file$"):
        child.call(read_image, "b.png")
    assert odd("a.txt", "nothing")["texts"] == ["a"]  # here, as this process does not decode apart


def test_a_file_may_be_passed_by_its_name(tmp_path):
    """Also one that cannot be read, whose message begins with it."""
    assert read_arrays(path=write_arrays(tmp_path)) == {}
    for call in (partial(odd, what="raises", name="a.png"), partial(odd, "a.png", what="raises")):
        with pytest.raises(UnreadableError, match=r"^a\.png: cannot be read"):
            call()
    with pytest.raises(UnreadableError, match=r"^none\.mat: "):
        read_mat(names=[], path=Path("none.mat"))
    with pytest.raises(TypeError, match="missing a required argument: 'path'"):
        read_mat(names=[])


def write_arrays(folder):
    """Return a file without arrays."""
    np.savez(folder / "a.npz")
    return folder / "a.npz"


def test_neither_numba_nor_scikit_learn_is_imported(child, tmp_path):
    write_image(tmp_path / "a.png", np.zeros((4, 5), np.uint8))
    child.call(read_image, tmp_path / "a.png")
    assert not {"numba", "sklearn", "cv2"} & set(child.call(modules, "x"))


@apart
def modules(_name):
    return list(sys.modules)


@pytest.mark.slow
def test_the_child_ends_with_its_process():
    """Also if that is killed while a file is decoded."""
    program = f"""
        import sys
        sys.path[:] = {[os.path.dirname(__file__), *sys.path]!r}
        import test_decoding as tests
        child = tests.Child()
        print(child._process.pid, flush=True)
        child.call(tests.odd, "x", "loops")
    """
    first = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE)
    number = int(first.stdout.readline())
    time.sleep(1)
    first.kill()
    first.wait()
    first.stdout.close()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and is_running(number):
        time.sleep(0.05)
    assert not is_running(number)


def is_running(number):
    """Whether a process is there; one that nobody has waited for is not."""
    try:
        with open(f"/proc/{number}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


HARM = {"is killed": "os.kill(os.getpid(), 9)", "loops": "while True: pass", "asks for 8 GB": "bytearray(8 << 30)"}


@pytest.mark.slow
@pytest.mark.parametrize("what", HARM)
def test_a_command_loses_one_input(what, tmp_path, monkeypatch):
    """Of three pictures the second does harm: in the child, the function that reads files is patched."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, pathlib\n"
        "whole = pathlib.Path.read_bytes\n"
        "def read(path):\n"
        "    if path.name == 'b.png':\n"
        f"        {HARM[what]}\n"
        "    return whole(path)\n"
        "pathlib.Path.read_bytes = read\n"
    )
    for name in "abc":
        write_image(tmp_path / f"{name}.png", np.full((40, 50, 3), 90, np.uint8))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(decoding._State, "apart", True)
    monkeypatch.setattr(decoding._State, "child", None)
    monkeypatch.setattr(decoding, "Child", partial(Child, seconds=2))
    files = (tmp_path / f"{name}.png" for name in "abc")
    done = run_command("features", *files, "--kind", "lab", "--jobs", "1", "--out", tmp_path / "f.npz")
    assert done.exit_code == 1
    assert [line.count(ODD[what]) for line in done.output.splitlines() if "b.png" in line] == [1]
    assert len(read_arrays(tmp_path / "f.npz", ["X"])["X"]) == 2
    decoding._State.child.stop()


def test_the_command_line_decodes_apart():
    program = """
        import sys
        from visionnmf.apps import cli
        from visionnmf.io import decoding
        sys.argv = ["visionnmf", "--version"]
        try:
            cli.main()
        finally:
            print(decoding.decodes_apart(), decoding._State.child)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "True None"


@pytest.mark.slow
def test_damaged_files_never_end_the_process(tmp_path, rng):
    """SciPy ends by a segmentation fault for some of them."""
    child = Child()
    path = tmp_path / "x.mat"
    savemat(path, {"X": np.eye(3), "cell": np.array([{"a": 1}, "b"], object)})
    whole = path.read_bytes()
    for place in rng.integers(128, len(whole), 60):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        child = Child() if child.ended else child
        try:
            child.call(read_mat, path, ["X", "cell"], nested=True)
        except MediaError as error:
            assert "\n" not in str(error)
    child.stop()
