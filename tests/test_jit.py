"""The cache of compiled kernels: never stale, never compiled again without need, never in the way."""

import ast
import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from visionnmf._jit import kernel

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

ROOT = Path(__file__).resolve().parent.parent
KERNELS = Path("visionnmf", "engine", "kernels")
HELPER = "from visionnmf._jit import kernel\n\n\n@kernel\ndef helper():\n    return {value}\n"
CALLER = """
from visionnmf._jit import kernel

from .helper import helper


@kernel
def caller():
    return 2 * helper()
"""
RUN = """
from visionnmf._jit import on_first_compile
on_first_compile(lambda: print("compiled"))
from visionnmf.engine.kernels.caller import caller
import numba
print(caller(), numba.config.CACHE_DIR)
"""


@pytest.fixture
def copy(tmp_path):
    """Return a copy of the package whose kernels are one kernel and its helper, in two files."""
    package = ("__init__.py", "__init__.pyi", "_version.py", "_jit.py")
    for name in (*package, "engine/__init__.py", "engine/kernels/__init__.py"):
        target = tmp_path / "copy" / "visionnmf" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "visionnmf" / name, target)
    (tmp_path / "copy" / KERNELS / "helper.py").write_text(HELPER.format(value=1))
    (tmp_path / "copy" / KERNELS / "caller.py").write_text(CALLER)
    return tmp_path / "copy"


def run(copy, cache, *options, script=RUN, **environment):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "NUMBA_DISABLE_JIT": "0", **environment}
    command = [sys.executable, *options, "-c", script]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=True)


def files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_editing_a_helper_of_another_file_changes_what_runs(copy, tmp_path):
    cache = tmp_path / "cache"
    assert run(copy, cache).stdout.split() == ["compiled", "2", str(cache)]  # numba's own setting is as it was
    (copy / KERNELS / "helper.py").write_text(HELPER.format(value=5))
    assert run(copy, cache).stdout.split() == ["compiled", "10", str(cache)]


@pytest.mark.long
def test_a_docstring_elsewhere_recompiles_nothing(copy, tmp_path):
    cache = tmp_path / "cache"
    run(copy, cache)
    before = files(cache)
    with open(copy / "visionnmf" / "engine" / "__init__.py", "a") as stream:
        stream.write('\n"""More words."""\n')
    assert run(copy, cache).stdout.split() == ["2", str(cache)]
    assert files(cache) == before != {}


@pytest.mark.long
def test_processes_write_compiled_code_one_at_a_time(copy, tmp_path):
    cache = tmp_path / "cache"
    run(copy, cache)
    (folder,) = cache.iterdir()
    for path in folder.rglob("*.nb?"):
        path.unlink()
    command = [sys.executable, "-c", RUN]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "NUMBA_DISABLE_JIT": "0"}
    with open(folder / "lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with subprocess.Popen(command, cwd=copy, env=environment, stdout=subprocess.PIPE, text=True) as process:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(5)
            assert not list(folder.rglob("*.nb?"))
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert process.wait(60) == 0
    assert list(folder.rglob("*.nb?"))


@pytest.mark.long
def test_kernels_of_an_application_have_a_cache_of_their_own(copy, tmp_path):
    cache = tmp_path / "cache"
    target = copy / "visionnmf" / "scenes" / "kernels.py"
    target.parent.mkdir()
    target.write_text(HELPER.format(value=3))
    script = f"{RUN}\nfrom visionnmf.scenes.kernels import helper\nprint(helper())"
    assert run(copy, cache, script=script).stdout.split() == ["compiled", "2", str(cache), "3"]
    before = files(cache)
    target.write_text(HELPER.format(value=4))
    assert run(copy, cache, script=script).stdout.split() == ["2", str(cache), "compiled", "4"]
    assert before.items() <= files(cache).items()


@pytest.mark.long
def test_checked_bounds_have_a_cache_of_their_own(copy, tmp_path):
    cache = tmp_path / "cache"
    run(copy, cache, NUMBA_BOUNDSCHECK="0")
    assert "compiled" in run(copy, cache, NUMBA_BOUNDSCHECK="1").stdout


@pytest.mark.long
def test_folders_long_unused_go(copy, tmp_path):
    cache = tmp_path / "cache"
    ages = {"visionnmf-0000000000000000": 100, "visionnmf-1111111111111111": 10, "somebody-else": 100}
    for name, days in ages.items():
        (cache / name).mkdir(parents=True)
        os.utime(cache / name, (time.time() - days * 86400,) * 2)
    run(copy, cache)
    left = {path.name for path in cache.iterdir()}
    assert left >= {"somebody-else", "visionnmf-1111111111111111"} and "visionnmf-0000000000000000" not in left
    assert len(left) == 3


def test_without_a_folder_kernels_are_compiled_in_memory(copy, tmp_path):
    (tmp_path / "file").write_text("")
    done = run(copy, tmp_path / "file" / "cache")
    assert done.stdout.split()[:2] == ["compiled", "2"]
    assert done.stderr.count("kernels are compiled again in each process") == 1


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("kept", [0, 40, 0.9])
def test_a_damaged_cache_is_made_anew(copy, tmp_path, suffix, kept):
    cache = tmp_path / "cache"
    run(copy, cache)
    damaged = list(cache.rglob(f"*.{suffix}"))
    assert damaged
    for path in damaged:
        content = path.read_bytes()
        path.write_bytes(content[: kept if kept >= 1 else int(kept * len(content))])
    done = run(copy, cache)
    assert done.stdout.split() == ["compiled", "2", str(cache)] and not done.stderr
    assert run(copy, cache).stdout.split() == ["2", str(cache)]


@pytest.mark.long
def test_on_a_full_disk_kernels_are_compiled_in_memory(copy, tmp_path):
    cache = tmp_path / "cache"
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n" + RUN
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(cache),
        "NUMBA_DISABLE_JIT": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split()[:2] == ["compiled", "2"]
    assert done.stderr.count("kernels are compiled again in each process") == 1
    assert f"{cache}/visionnmf-" in done.stderr and "cannot be written (File too large)" in done.stderr


def sources_with_kernels():
    files = [path for folder in ("visionnmf", "apps", "datasets") for path in (ROOT / folder).rglob("*.py")]
    files = [path for path in files if not any(parent.is_symlink() for parent in path.parents)]  # `make links`
    return [path for path in files if "@kernel" in path.read_text("utf-8")]


def imported(path):
    """The modules that a file imports; those of its own folder are relative and left out."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.level != 1 or path.name == "kernels.py"):
            yield "." * node.level + (node.module or "")


def test_kernels_are_in_kernel_files_which_depend_on_nothing_else():
    """The digest in the cache's key covers `_jit.py` and the folder or file of kernels, and nothing besides."""
    found = sources_with_kernels()
    elsewhere = [path for path in found if path.parent.name != "kernels" and path.name != "kernels.py"]
    assert elsewhere == [] and len(found) > 10
    allowed = {"__future__", "collections.abc", "typing", "math", "numpy", "numpy.typing", "numba", "numba.extending"}
    for path in found:
        assert set(imported(path)) <= allowed | {"visionnmf._jit"}, path


def test_each_application_tests_its_kernels_without_the_compiler():
    """`make test-nojit` and `make test-bounds` run tests/engine/kernels and these files."""
    applications = {path.relative_to(ROOT / "apps").parts[0] for path in sources_with_kernels() if "apps" in path.parts}
    for name in applications:
        assert (ROOT / "tests" / "apps" / name / "test_kernels.py").is_file()


def test_kernels_are_compiled_without_the_unused_passes():
    @kernel(part=True)  # a part has no files in the cache
    def double(x):
        return 2 * x

    if not hasattr(double, "compile"):
        pytest.skip("without the compiler")
    double.compile("int64(int64)")
    (compiled,) = double.overloads.values()
    passes = " ".join(compiled.metadata["pipeline_times"]["nopython"])
    assert "native_lowering" in passes
    assert "nopython_rewrites" not in passes
    assert "inline_closure_likes" not in passes


FIT = """
import hashlib
import numpy as np
from visionnmf import NMF
rng = np.random.default_rng(0)
X = rng.random((40, 30), np.float32) @ rng.random((30, 600), np.float32)
model = NMF(41, max_iter=5, tol=0, exact_codes=False, measure_optimality=False, nuclear=1, random_state=0).fit(X)
print(hashlib.sha256(model.transform(X).tobytes()).hexdigest())
"""


@pytest.mark.long
def test_a_process_that_compiles_finds_the_bits_of_one_that_reads_the_cache(tmp_path):
    """Copies of a part that LLVM optimised with different kernels sum in another order."""
    first, second = (run(ROOT, tmp_path, "-Wignore", script=FIT).stdout for _ in range(2))
    assert first == second
