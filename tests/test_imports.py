"""Nothing heavy is loaded before it is needed."""

import subprocess
import sys

import pytest

HEAVY = {"numpy", "scipy", "sklearn", "skimage", "cv2", "numba", "av", "PIL", "tifffile", "rich", "matplotlib"}


def loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    return HEAVY & set(output.split("\n")[-2].split())


@pytest.mark.parametrize("module", ["visionnmf", "visionnmf.apps", "visionnmf.datasets", "visionnmf.apps.cli"])
def test_importing_loads_no_heavy_library(module):
    assert loaded_by(f"import {module}") == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    ["--help", "--version", "segment --help", "background --help", "masquerade --help", "faces train --help"],
)
def test_help_loads_no_heavy_library(arguments):
    code = (
        "import visionnmf.apps.cli as cli\n"
        f"sys.argv = ['visionnmf', *{arguments.split()!r}]\n"
        "try:\n    cli.main()\nexcept SystemExit as stop:\n    assert not stop.code, stop.code"
    )
    assert loaded_by(code) == set()


@pytest.mark.slow
def test_a_public_name_is_loaded_when_it_is_used():
    assert "sklearn" in loaded_by("import visionnmf; visionnmf.NMF")


def test_an_unknown_name_is_an_attribute_error():
    import visionnmf

    with pytest.raises(AttributeError, match="has no attribute 'Nmf'"):
        _ = visionnmf.Nmf
    assert {"NMF", "SymmetricNMF"} <= set(dir(visionnmf))
