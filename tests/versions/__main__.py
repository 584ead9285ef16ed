"""Use visionnmf on every Python of this machine beside the newest libraries, and on the oldest beside the lowest.

``python -m tests.versions`` makes a wheel, a fresh environment for each Python that it finds, and one on the oldest
with exactly the lowest versions that pyproject.toml declares. In each it runs ``smoke.py``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRA = "report"  # which `reproduce` and --report need
LONGEST = 900  # seconds of one command; a machine under load takes five times as long as an idle one
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")


class Environment(NamedTuple):
    """What is installed beside visionnmf, and the Python that runs it."""

    name: str
    python: str
    constraints: list[str]


class Failure(Exception):
    """A command failed; the message is what it printed."""


def run(*command: str | Path, folder: Path) -> str:
    """Run a command in a folder of its own, without what the present environment would lend it; return its output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    kept["NUMBA_CACHE_DIR"] = str(folder / "kernels")
    line = f"$ {' '.join(map(str, command))}"
    output: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    try:
        done = subprocess.run(command, cwd=folder, env=kept, timeout=LONGEST, **output)
    except subprocess.TimeoutExpired as hanging:
        raise Failure(f"{line}\n{hanging.output or ''}\nhangs for {LONGEST} s") from hanging
    if done.returncode:
        raise Failure(f"{line}\n{done.stdout}")
    return done.stdout


def python_of(version: str) -> str | None:
    """Return the path of a Python that works, on the path or in the folder of pyenv; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)]
    for candidate in candidates:
        if (
            candidate
            and not subprocess.run([candidate, "-c", "import ensurepip, venv"], capture_output=True).returncode
        ):
            return str(candidate)
    return None


def lowest() -> list[str]:
    """Return the lowest versions that pyproject.toml declares, as constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [line.replace(">=", "==") for line in project["dependencies"] + project["optional-dependencies"][EXTRA]]


def environments() -> list[Environment]:
    """Return what is to be tried here, and name the Pythons that are missing."""
    found = {version: python_of(version) for version in PYTHONS}
    missing = [version for version, python in found.items() if python is None]
    if missing:
        print(f"skipped, because this machine has no Python {' and no '.join(missing)}", flush=True)
    pythons = {version: python for version, python in found.items() if python is not None}
    if not pythons:
        sys.exit(f"tests.versions: none of Python {', '.join(PYTHONS)} is here")
    tried = [Environment(f"Python {version}, newest", python, []) for version, python in pythons.items()]
    if PYTHONS[0] not in pythons:
        print(f"the lowest versions are not tried, because they need Python {PYTHONS[0]}", flush=True)
        return tried
    return [Environment(f"Python {PYTHONS[0]}, lowest", pythons[PYTHONS[0]], lowest()), *tried]


def attempt(environment: Environment, wheel: Path, folder: Path) -> str | None:
    """Install and use visionnmf in an environment; return what failed, or None."""
    folder.mkdir()
    began = time.perf_counter()
    try:
        run(environment.python, "-m", "venv", folder / "venv", folder=folder)
        python = folder / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        run(python, *PIP, "install", f"{wheel}[{EXTRA}]", *environment.constraints, folder=folder)
        installed = time.perf_counter()
        shutil.copy(Path(__file__).with_name("smoke.py"), folder)
        said = run(python, folder / "smoke.py", folder / "work", folder=folder)
        versions = run(python, "-m", "visionnmf", "--version", folder=folder).strip()
    except Failure as failure:
        return f"{environment.name}: failed\n{failure}"
    seconds = f"installed in {installed - began:.0f} s, used in {time.perf_counter() - installed:.0f} s"
    print(f"{environment.name}: {seconds}: {versions}", flush=True)
    print(*(f"  {line}\n" for line in said.splitlines() if line.startswith("newer ")), sep="", end="", flush=True)
    return None


def main() -> None:
    """Try all environments, as many at a time as there are processors."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tried = environments()
        shutil.copytree(ROOT, folder / "source", ignore=shutil.ignore_patterns(".git", ".venv", "*.egg-info", "out"))
        run(tried[-1].python, "-m", "venv", folder / "build", folder=folder)
        build = folder / "build" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        run(build, *PIP, "wheel", "--no-deps", "--wheel-dir", folder, folder / "source", folder=folder)
        (wheel,) = folder.glob("*.whl")
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            jobs = [pool.submit(attempt, each, wheel, folder / str(i)) for i, each in enumerate(tried)]
            failures = [job.result() for job in jobs if job.result() is not None]
    print("\n".join(failures))
    print(f"{len(tried) - len(failures)} passed, {len(failures)} failed, in {time.perf_counter() - began:.0f} s")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
