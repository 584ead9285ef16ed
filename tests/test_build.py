"""Two builds from copies of the checkout, at other times and places, give equal files."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = "import sys; from setuptools import build_meta as b; out = sys.argv[1]; b.build_sdist(out); b.build_wheel(out)"
LEFT_OUT = shutil.ignore_patterns(".[!c]*", "build", "out", "*.egg-info", "__pycache__")


@pytest.mark.long
def test_wheel_and_sdist_are_reproducible(tmp_path):
    digests = []
    for name, copy in {"one": shutil.copy2, "another": shutil.copy}.items():  # with and without the times of files
        source, made = tmp_path / name / "source", tmp_path / name / "dist"
        shutil.copytree(ROOT, source, ignore=LEFT_OUT, copy_function=copy)
        if name == "another":  # as after `make docs` and in use
            (source / "docs" / "api").mkdir(exist_ok=True)
            (source / "docs" / "api" / "index.rst").write_text("made")
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        command = [sys.executable, "-c", BUILD, str(made)]
        made.mkdir()
        subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
        digests.append({file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in made.iterdir()})
    assert digests[0] == digests[1] and len(digests[0]) == 2
