"""Nothing heavy is loaded before it is needed, and a fit runs through few files."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

HEAVY = {"numpy", "scipy", "sklearn", "skimage", "cv2", "numba", "av", "PIL", "tifffile", "rich", "matplotlib"}
HEAVY |= {"dask", "distributed", "torch", "array_api_compat", "jinja2", "napari", "magicgui", "qtpy"}


def run(code: str) -> str:
    """Return the last line that a new interpreter prints."""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return output.split("\n")[-2]


def loaded_by(code: str) -> set[str]:
    return HEAVY & set(run(f"import sys\n{code}\nprint(*sys.modules)").split())


@pytest.mark.parametrize(
    "module", ["visionnmf", *(f"visionnmf.{name}" for name in ("apps", "datasets", "io", "apps.cli", "apps.viewer"))]
)
def test_importing_loads_no_heavy_library(module):
    assert loaded_by(f"import {module}") == set()


@pytest.mark.parametrize(
    "arguments",
    [
        *("--help", "--version", "segment --help", "background --help", "masquerade --help", "faces train --help"),
        *("features --help", "view --help"),
    ],
)
def test_help_loads_no_heavy_library(arguments):
    code = (
        "import visionnmf.apps.cli as cli\n"
        f"sys.argv = ['visionnmf', *{arguments.split()!r}]\n"
        "try:\n    cli.main()\nexcept SystemExit as stop:\n    assert not stop.code, stop.code"
    )
    assert loaded_by(code) == set()


def test_background_walks_through_at_most_sixty_files(tmp_path):
    ran = run(
        "import sys, visionnmf.apps.cli as cli\n"
        "sys.argv = 'visionnmf background sample:surveillance -q --max-frames 3 --scale 0.2'.split()\n"
        f"sys.argv += ['--out', {str(tmp_path)!r}]\n"
        "try:\n    cli.main()\nexcept SystemExit as stop:\n    assert not stop.code, stop.code\n"
        "print(*sorted(name for name in sys.modules if name.split('.')[0] == 'visionnmf'))"
    )
    executed = ran.split()
    assert "visionnmf.apps.background.pipeline" in executed
    assert len(executed) <= 60, executed


WALKS = {  # fits, and in how many files functions of ours may run
    "NMF(4, random_state=0, max_iter=20).fit(X)": 20,
    "MultiviewNMF(4, random_state=0, max_iter=20).fit([X[:, :20], X[:, 20:]])": 25,
    "segment(image)": 25,
    "BackgroundModel().fit(frames)": 25,
    "FaceRecognizer(random_state=0).fit(X, np.arange(60) % 6)": 22,
}
WALK = f"""
import os, sys, warnings
import numpy as np
import visionnmf, visionnmf.apps
from visionnmf import MultiviewNMF, NMF
from visionnmf.apps.background import BackgroundModel
from visionnmf.apps.faces import FaceRecognizer
from visionnmf.apps.segmentation import segment

warnings.simplefilter("ignore")  # of fits that have not converged
rng = np.random.default_rng(0)
X = rng.random((60, 40))
image = rng.integers(0, 256, (120, 160, 3), np.uint8)
frames = rng.integers(100, 120, (60, 48, 64, 3), np.uint8)
ours = tuple(os.path.dirname(os.path.realpath(package.__file__)) + os.sep for package in (visionnmf, visionnmf.apps))

def note(frame, event, argument):
    if event == "call" and frame.f_code.co_name != "<module>":
        files.add(frame.f_code.co_filename)

walks = []
for fit in {[*WALKS]!r}:
    files = set()
    exec(fit)  # loads and compiles
    sys.setprofile(note)
    exec(fit)
    sys.setprofile(None)
    walks.append("\\t".join(sorted(file for file in map(os.path.realpath, files) if file.startswith(ours))))
print(*walks, sep="|")
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="kernels would be walked through as well")
def test_a_fit_walks_through_few_files():
    """Whoever follows a plain fit of dense data needs to open no more than the files in which functions run."""
    for (fit, most), walk in zip(WALKS.items(), run(WALK).split("|"), strict=True):
        files = walk.split("\t")
        assert 10 <= len(files) <= most, (fit, files)


def test_names_and_files_load_what_they_need():
    assert "sklearn" in loaded_by("import visionnmf; visionnmf.NMF")
    code = "import numpy, visionnmf; visionnmf.NMF(2, max_iter=2, tol=0).fit(numpy.ones((4, 3)))"
    assert loaded_by(code) & {"dask", "distributed", "torch", "array_api_compat"} == set()
    assert loaded_by("from visionnmf.io import check_outputs, expand_inputs, output_file, together") == set()
    assert loaded_by("from visionnmf.io import read_arrays, read_mat") == {"numpy"}


def test_datasets_know_files_and_checks_alone():
    code = "import sys, visionnmf.datasets as d\n[getattr(d, name) for name in d.__all__]"
    loaded = run(f"{code}\nprint(*sys.modules)").split()
    rooms = {name.split(".")[1] for name in loaded if name.startswith("visionnmf.")}
    assert rooms <= {
        "_checks",
        "_pixel_range",
        "_text",
        "_typing",
        "_version",
        "choices",
        "datasets",
        "exceptions",
        "io",
    }


def test_an_unknown_name_is_an_attribute_error():
    import visionnmf

    with pytest.raises(AttributeError, match="Nmf"):
        _ = visionnmf.Nmf
    assert {"NMF", "SymmetricNMF"} <= set(dir(visionnmf))
