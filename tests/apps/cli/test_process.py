"""The command as a process: closed streams and signals."""

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from helpers import run_command as run
from PIL import Image

from visionnmf.apps import cli, masquerade
from visionnmf.apps.cli import signals
from visionnmf.exceptions import MediaError

COMMAND = [sys.executable, "-m", "visionnmf.apps.cli"]
posix = pytest.mark.skipif(os.name != "posix", reason="POSIX streams and signals")


@pytest.fixture
def history(tmp_path):
    path = tmp_path / "ann.log"
    rng = np.random.default_rng(0)
    path.write_text("\n".join(rng.choice(["ls", "cd", "vi", "make"], 400)) + "\n")
    return path


@pytest.mark.long
@pytest.mark.slow
@posix
@pytest.mark.parametrize("closed", [(2,), (0, 1, 2), (0,)])
def test_closed_streams_do_no_harm(closed, tmp_path):
    picture = tmp_path / "a.png"
    Image.fromarray(np.full((40, 50, 3), 90, np.uint8)).save(picture)

    def close():
        for number in closed:
            os.close(number)

    out = tmp_path / "out"
    command = [*COMMAND, "segment", str(picture), "--out", str(out)]
    process = subprocess.run(command, preexec_fn=close, capture_output=True, check=False)
    assert process.returncode == 0
    assert len(list(out.iterdir())) == 4
    failed = subprocess.run([*COMMAND, "segment", str(tmp_path / "none")], preexec_fn=close, check=False)
    assert failed.returncode == 2


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is full")
def test_help_that_cannot_be_written():
    with open("/dev/full", "w") as full:
        process = subprocess.run([*COMMAND, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert process.returncode == 1
    assert process.stderr == "visionnmf: standard output cannot be written (No space left on device)\n"


@posix
@pytest.mark.slow
@pytest.mark.parametrize(("words", "code"), [(["segment", "/nowhere.png"], 2), (["segment"], 1)])
def test_what_cannot_be_told_changes_no_exit_code(words, code, tmp_path):
    """Python ends with 120 where its standard error cannot be written."""

    import resource

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))

    with (tmp_path / "said").open("w") as said:
        process = subprocess.run([*COMMAND, *words], stderr=said, preexec_fn=fill, timeout=120, check=False)
    assert process.returncode == code
    assert (tmp_path / "said").stat().st_size == 20


@pytest.mark.long
@posix
@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_what_was_learnt_from_standard_input_is_kept_whatever_ends_it(number, code, history, tmp_path):
    model = tmp_path / "m.npz"
    assert run("masquerade", "train", history, "--model", model, "--size", 20).exit_code == 0
    before = model.read_bytes()
    command = [*COMMAND, "masquerade", "score", str(model), "-", "--user", "ann", "--keep", "--json"]
    heed = functools.partial(signal.signal, number, signal.SIG_DFL)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(command, text=True, preexec_fn=heed, **pipes)
    process.stdin.write("ls\ncd\nvi\nmake\n" * 15)
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["n_commands"] == 20  # a session was judged
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == code and "Traceback" not in stderr
    assert model.read_bytes() != before
    masquerade.load(model)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ann.log", "m.npz"]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is full")
def test_an_unwritable_cache_and_a_full_standard_output_are_one_line_each(tmp_path):
    picture, file = tmp_path / "a.png", tmp_path / "file"
    Image.fromarray(np.full((40, 50, 3), 90, np.uint8)).save(picture)
    file.touch()
    command = [*COMMAND, "segment", str(picture), "--out", str(tmp_path / "out")]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(file / "folder")}
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    assert done.returncode != 0 and done.stderr.count("visionnmf: ") == done.stderr.count("\n")
    assert "RuntimeWarning" not in done.stderr and "compiling kernels for this run only" in done.stderr
    assert "standard output: cannot be written" in done.stderr


@pytest.mark.long
@pytest.mark.slow
@posix
def test_what_decoders_print_stays_out_of_the_way(tmp_path):
    path = tmp_path / "a.tif"
    Image.fromarray(np.arange(3000, dtype=np.uint8).reshape(50, 20, 3)).save(path, compression="tiff_lzw")
    path.write_bytes(path.read_bytes().replace(bytes([0x80, 0x00]), bytes([0xFF, 0xFF]), 3))
    done = subprocess.run([*COMMAND, "segment", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and done.stderr.startswith(f"visionnmf: {path}: ")
    loud = subprocess.run([*COMMAND, "segment", str(path), "--debug"], capture_output=True, text=True, check=False)
    assert loud.stderr.split("Traceback")[0]  # libtiff


def test_a_signal_after_the_end_of_a_run_gives_its_exit_code(monkeypatch):
    ending, late = cli.ending_code, [cli.on_signal]

    def struck(ended):
        if late:
            late.pop()(signal.SIGHUP, None)
        return ending(ended)

    monkeypatch.setattr(cli, "ending_code", struck)
    monkeypatch.setattr(cli, "app", lambda: sys.exit(0))
    monkeypatch.setattr(cli, "_silence_decoders", lambda: None)
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    monkeypatch.setattr("visionnmf.apps.cli.signals._come", 0)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 128 + signal.SIGHUP


# Calls functions first with a model in a missing folder, so that all modules are imported, and then as an ordinary
# user, who may not write into the folder of the model.
AS_ORDINARY_USER = """
import os, sys
from visionnmf.apps.masquerade import train
from visionnmf.apps.multiview import ViewFit, fit_views
from visionnmf.exceptions import MediaError

os.chdir(sys.argv[1])

def attempt(model):
    for learn in (
        lambda: fit_views(["a=data.npy", "b=data.npy"], model, settings=ViewFit(n_components=2)),
        lambda: train(["ann.log"], model),
    ):
        try:
            learn()
        except MediaError as error:
            print(error)

attempt("missing/m.npz")
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
attempt("locked/m.npz")
"""


@pytest.mark.long
@posix
@pytest.mark.slow
def test_a_folder_that_an_ordinary_user_may_not_write_to_is_reported_before_the_work(history):
    with tempfile.TemporaryDirectory() as name:  # the folder of pytest may be closed to others
        folder = Path(name)
        np.save(folder / "data.npy", np.random.default_rng(0).random((40, 6)))
        (folder / "ann.log").write_bytes(history.read_bytes())
        (folder / "locked").mkdir(0o555)
        folder.chmod(0o755)
        command = [sys.executable, "-c", AS_ORDINARY_USER, name]
        process = subprocess.run(command, capture_output=True, text=True, check=True)
        assert not list((folder / "locked").iterdir())
    missing = "missing/m.npz: there is no folder missing; create it first"
    assert process.stdout.splitlines() == [missing] * 2 + ["locked/m.npz: cannot be written (Permission denied)"] * 2
    assert not process.stderr


@posix
@pytest.mark.parametrize(("number", "raised"), [(signal.SIGTERM, KeyboardInterrupt), (signal.SIGINT, MediaError)])
def test_a_source_that_fails_after_a_signal_does_not_hide_it(number, raised, monkeypatch):
    """The exit code was 2 where a signal came while a server let the command wait for its first frame."""
    monkeypatch.setattr(signals, "_come", 0)  # restored at the end of this test
    with pytest.raises(raised), signals.until_signal():
        os.kill(os.getpid(), number)
        raise MediaError("no video comes from there")


INTERRUPTED_WHILE_LOADING = """
import os, signal, sys
import llvmlite.binding.executionengine as engine
from visionnmf.apps.cli.signals import on_signal
signal.signal(signal.SIGINT, on_signal)
import numpy as np
import visionnmf
find = engine.ExecutionEngine._find_module_ptr

def interrupted(self, pointer):
    if sys._getframe(1).f_code.co_name == "_raw_object_cache_getbuffer" and len(sys.argv) > 1:
        os.kill(os.getpid(), signal.SIGINT)
    return find(self, pointer)

engine.ExecutionEngine._find_module_ptr = interrupted
try:
    visionnmf.NMF(2, loss="frobenius", max_iter=3, tol=0).fit(np.random.default_rng(0).random((30, 20)))
    while len(sys.argv) > 1:
        signal.pause()  # the signal is sent again
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.long
@pytest.mark.slow
def test_an_interrupt_while_a_cached_kernel_is_loaded_does_not_crash(tmp_path):
    """An exception in LLVM's callback is lost, and LLVM is left without the code that it asked for."""
    script = tmp_path / "loading.py"
    script.write_text(INTERRUPTED_WHILE_LOADING)
    for arguments, code in (((), 0), (("interrupt",), 130)):  # the first run fills the cache
        done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=300)
        assert done.returncode == code, done.stderr
