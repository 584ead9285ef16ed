"""`.ci/run first` runs the first commands of the README in a clone and checks the results that it names."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = "<!-- ci:demo -->\n```sh\nmkdir out\n{command}\n```\n\n```\nphoto -> out/photo_labels.png ...\n```\n"


def first(folder: Path, command: str, argument: str = "first") -> subprocess.CompletedProcess:
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    (folder / "README.md").write_text(README.format(command=command))
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "A README."]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    return subprocess.run(["bash", ".ci/run", argument], cwd=folder, capture_output=True, text=True)


def test_the_first_results_and_their_time_are_reported(tmp_path):
    done = first(tmp_path, "echo 1 > out/photo_labels.png")
    assert done.returncode == 0, done.stderr
    assert "first results (out/photo_labels.png)" in done.stdout.splitlines()[-1]
    assert not (tmp_path / "out").exists()  # it worked in a clone


MISSING = ".ci/run: out/photo_labels.png, which README.md names, is missing or empty"


@pytest.mark.parametrize(
    ("command", "argument", "code", "said"),
    [
        ("touch out/photo_labels.png", "first", 1, MISSING),
        ("true", "first", 1, MISSING),
        ("echo 1 > out/photo_labels.png; false", "first", 1, "failed (exit code 1)"),
        ("true", "last", 2, ".ci/run: no part 'last'"),
    ],
)
def test_what_fails_ends_the_run(command, argument, code, said, tmp_path):
    done = first(tmp_path, command, argument)
    assert done.returncode == code and said in done.stderr


LONG = "import pytest\n\n@pytest.mark.long\ndef test_long(): pass\n\ndef test_short(): pass\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["."], ["short"]),
        ([".", "--all"], ["long", "short"]),
        (["test_it.py"], ["long", "short"]),
        (["test_it.py::test_long"], ["long"]),
    ],
)
def test_long_tests_run_with_all_or_if_their_file_is_named(words, names, tmp_path):
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(LONG)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\n")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [line.partition("::test_")[2] for line in done.stdout.splitlines() if "::" in line] == names


def test_the_readme_runs_the_short_tests_and_ci_all():
    assert "pytest -q -n 2 --dist loadfile\n" in (ROOT / "README.md").read_text()
    assert "for target in test-all " in (ROOT / ".ci" / "run").read_text()
