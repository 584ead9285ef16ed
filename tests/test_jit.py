"""The cache of compiled kernels: never stale, never made anew without need, never in the way."""

import ast
import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
    for name in ("__init__.py", "_version.py", "_jit.py", "engine/__init__.py", "engine/kernels/__init__.py"):
        target = tmp_path / "copy" / "visionnmf" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "visionnmf" / name, target)
    (tmp_path / "copy" / KERNELS / "helper.py").write_text(HELPER.format(value=1))
    (tmp_path / "copy" / KERNELS / "caller.py").write_text(CALLER)
    return tmp_path / "copy"


def run(copy, cache, *options, **environment):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "NUMBA_DISABLE_JIT": "0", **environment}
    command = [sys.executable, *options, "-c", RUN]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=True)


def files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_editing_a_helper_of_another_file_changes_what_runs(copy, tmp_path):
    cache = tmp_path / "cache"
    assert run(copy, cache).stdout.split() == ["compiled", "2", str(cache)]  # numba's own setting is as it was
    (copy / KERNELS / "helper.py").write_text(HELPER.format(value=5))
    assert run(copy, cache).stdout.split() == ["compiled", "10", str(cache)]


def test_a_docstring_elsewhere_recompiles_nothing(copy, tmp_path):
    cache = tmp_path / "cache"
    run(copy, cache)
    before = files(cache)
    with open(copy / "visionnmf" / "engine" / "__init__.py", "a") as stream:
        stream.write('\n"""More words."""\n')
    assert run(copy, cache).stdout.split() == ["2", str(cache)]
    assert files(cache) == before != {}


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


def test_checked_bounds_have_a_cache_of_their_own(copy, tmp_path):
    cache = tmp_path / "cache"
    run(copy, cache, NUMBA_BOUNDSCHECK="0")
    assert "compiled" in run(copy, cache, NUMBA_BOUNDSCHECK="1").stdout


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
    assert done.stderr.count("kernels are compiled anew in each process") == 1


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
    assert done.stderr.count("kernels are compiled anew in each process") == 1
    assert f"{cache}/visionnmf-" in done.stderr and "cannot be written (File too large)" in done.stderr


def test_kernels_depend_on_kernel_files_only():
    """The digest in the cache's key covers `_jit.py` and the kernels' folder; numba itself a kernel's own file."""
    inside = sorted((ROOT / KERNELS).glob("*.py"))
    outside = [path for path in (ROOT / "apps").rglob("*.py") if "import kernel" in path.read_text()]
    assert len(inside) > 10
    assert {path.name for path in outside} >= {"merging.py", "score.py"}
    allowed = {"__future__", "collections.abc", "typing", "math", "numpy", "numpy.typing", "numba", "numba.extending"}
    allowed |= {"visionnmf._jit"}
    for path in inside + outside:
        tree = ast.parse(path.read_text())
        if path in outside:  # beside its kernels a file may import what they do not use
            foreign = set()
            for node in ast.walk(tree):
                own = isinstance(node, ast.ImportFrom) and "." * node.level + (node.module or "") in allowed
                if isinstance(node, ast.Import | ast.ImportFrom) and not own:
                    foreign |= {alias.asname or alias.name for alias in node.names} - {"np", "math"}
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef) and any("kernel" in ast.unparse(d) for d in node.decorator_list):
                    used = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
                    assert not used & foreign, f"{path.name}, {node.name}"
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                local = node.level == 1
                names = set() if local else {"." * node.level + (node.module or "")}
            else:
                continue
            assert names <= allowed, f"{path.name}, line {node.lineno}"
