"""Every public name, every loss and estimator on small data, and every command on a small real input.

``python tests/versions/smoke.py FOLDER`` needs no test library, and ends with an error at the first part that fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import av
import numpy as np
import scipy.sparse as sp
import skimage.data
from PIL import Image
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

# What a library announces that it will remove is an error where our code uses it.
for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
    warnings.filterwarnings("error", category=kind, module=r"visionnmf\b")
warnings.filterwarnings("ignore", category=ConvergenceWarning)

VIDEOS = {"x.mp4": "libx264", "x.mkv": "libx264", "x.webm": "libvpx-vp9", "x.ts": "mpeg2video", "x.avi": "mjpeg"}

OPTIONAL = {"dask", "distributed", "hmmlearn", "jinja2", "matplotlib", "pyarrow", "torch", "h5py", "zarr", "pandas"}
OPTIONAL |= {"magicgui", "napari", "qtpy"}


def public_names() -> None:
    """Import all modules and all public names."""
    modules = set()
    for package in ("visionnmf", "visionnmf.apps", "visionnmf.datasets"):
        folder = Path(import_module(package).__file__).parent
        for path in folder.rglob("*.py"):
            inner = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix("__init__").strip(".")
            if not inner.endswith("__main__"):
                modules.add(f"{package}.{inner}".strip("."))
    for module in modules:
        try:
            imported = import_module(module)
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            continue
        for name in getattr(imported, "__all__", []):
            getattr(imported, name)


def estimators() -> None:
    """Fit every loss, penalty and estimator to small data, dense and sparse."""
    import visionnmf
    from visionnmf import NMF, OnlineNMF, Penalty, load_model
    from visionnmf.engine.losses import LOSSES
    from visionnmf.features import FeatureExtraction

    X = load_digits().data[:60]
    X = (X / 16 + 0.01).astype(np.float32)
    sparse = sp.csr_array(load_digits().data[:60] / 16)
    few = {"max_iter": 5, "random_state": 0}
    seen = set()

    def fitted(model: BaseEstimator, data: object = X) -> BaseEstimator:
        model.fit(data)
        found = model.transform(data) if hasattr(model, "transform") else model.components_
        assert np.isfinite(found).all(), model
        seen.add(type(model).__name__)
        return model

    for loss in (1.5 if name == "beta" else name for name in LOSSES):
        fitted(NMF(4, loss=loss, **few))
    for loss in ("manhattan", "frobenius", "kullback-leibler"):
        fitted(NMF(4, loss=loss, **few), sparse)
    graph = sp.csr_array(np.eye(60, k=1) + np.eye(60, k=-1))
    for penalty in (Penalty(graph=graph, graph_weight=0.1), Penalty(l1=0.1), Penalty(simplex=True)):
        NMF(4, loss="frobenius", penalty_W=penalty, **few).fit(X)
    for name in visionnmf.__all__:
        kind = getattr(visionnmf, name)
        if (
            not isinstance(kind, type)
            or not issubclass(kind, BaseEstimator)
            or name in ("NMF", "Penalty", "ViewClassifier")
        ):
            continue
        wanted = {"n_components": 4, "random_state": 0, "max_iter": 5}
        model = kind(**{name: value for name, value in wanted.items() if name in kind().get_params()})
        data = {"SymmetricNMF": X @ X.T, "MultiviewNMF": [X[:, :30], X[:, 30:]]}
        fitted(model, data.get(name, X))
    views, classes = [X[:, :30], X[:, 30:]], load_digits().target[:60]
    predicted = visionnmf.ViewClassifier(visionnmf.MultiviewNMF(4, **few)).fit(views, classes).predict(views)
    assert np.isin(predicted, classes).all()
    print(f"  {', '.join(sorted(seen))}")
    OnlineNMF(4, random_state=0).partial_fit(X).partial_fit(X)
    visionnmf.select_rank(X, [2, 4], random_state=0)
    visionnmf.select_loss(X, estimator=NMF(3), random_state=0)
    model = NMF(4, **few).fit(X)
    model.save("model.npz", force=True)
    np.testing.assert_array_equal(load_model("model.npz").components_, model.components_)
    assert FeatureExtraction(["gist"]).fit_transform([skimage.data.coffee()]).shape[0] == 1


def make_inputs() -> None:
    """Write a photograph, videos, faces, logs and tables, real ones where the libraries bring them."""
    from visionnmf.datasets import load_surveillance

    photographs = {name: Image.fromarray(getattr(skimage.data, name)()) for name in ("coffee", "chelsea", "astronaut")}
    Path("photos").mkdir()
    for number in range(4):
        for name, photograph in photographs.items():
            box = (8 * number, 8 * number, 8 * number + 240, 8 * number + 200)
            photograph.crop(box).save(f"photos/{name}{number}.jpg", quality=90)
    words = {"coffee": "cup,table", "chelsea": "cat,fur", "astronaut": "person,space"}
    table = [f'{name}{number}.jpg,"{words[name]}"\n' for name in photographs for number in range(4)]
    Path("words.csv").write_text("".join(line.replace('"', "") for line in table))
    Path("truth").mkdir()
    halves = np.repeat(np.array([[1, 2]], np.uint8), 120, axis=1)
    Image.fromarray(np.repeat(halves, 200, axis=0)).save("truth/coffee0.png")
    Path("few").mkdir()
    Image.open("photos/coffee0.jpg").save("few/coffee0.jpg")

    clip = load_surveillance()
    with av.open(str(clip.path)) as source:
        frames = [frame.reformat(160, 120).to_ndarray(format="rgb24") for frame in source.decode(video=0)][100:160]
    for name, codec in VIDEOS.items():
        with av.open(name, "w") as output:
            stream = output.add_stream(codec, rate=25, options={"cpu-used": "8", "deadline": "realtime"})
            stream.width, stream.height = 160, 120
            stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
            for frame in frames:
                output.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
            output.mux(stream.encode(None))
    for kind in ("input", "groundtruth"):
        Path("clip", kind).mkdir(parents=True)
    for number, frame in enumerate(frames, 1):
        Image.fromarray(frame).save(f"clip/input/in{number:06}.jpg")
        mask = clip.masks[99 + number, ::2, ::2].astype(np.uint8) * 255
        Image.fromarray(mask).save(f"clip/groundtruth/gt{number:06}.png")

    faces = skimage.data.lfw_subset()[:5]
    for person, face in enumerate(faces):
        Path("people", f"p{person}").mkdir(parents=True)
        picture = Image.fromarray((face * 255).astype(np.uint8)).resize((40, 40))
        for number in range(6):
            picture.crop((number, 1, number + 34, 38)).save(f"people/p{person}/{number}.png")

    rng = np.random.default_rng(0)
    for user, programs in {"ada": ["ls", "cd", "make", "vi"], "ben": ["cat", "grep", "sort", "uniq"]}.items():
        lines = [f"#{1700000000 + 30 * i}\n{command}" for i, command in enumerate(rng.choice(programs, 600))]
        Path(f"{user}.history").write_text("\n".join(lines) + "\n")

    digits = load_digits()
    X, y = digits.data[:80], digits.target[:80] % 3
    for name, part in {"left": X[:, :32], "right": X[:, 32:]}.items():
        header = ",".join(f"f{i}" for i in range(part.shape[1]))
        np.savetxt(f"{name}.csv", part, delimiter=",", fmt="%g", header=header, comments="")
    Path("classes.txt").write_text("\n".join(map(str, y)) + "\n")


COMMANDS = {
    "segment": ["segment photos/coffee0.jpg --out out --report out/report.html"],
    "evaluate segment": ["evaluate segment --images few --truth truth --methods visionnmf --out seg"],
    "background": [
        *(f"background {name} --out {name[2:]} --events objects --clips" for name in VIDEOS),
        "background x.mp4 --live --out live --warm-up 1",
    ],
    "evaluate background": ["evaluate background clip --out bg"],
    "faces train": ["faces train people --model people.npz --rank 8"],
    "faces identify": ["faces identify people.npz people/p1/2.png"],
    "faces add": ["faces add people.npz people/p1/2.png people/p1/3.png --name eve --model more.npz"],
    "faces cluster": ["faces cluster people --clusters 5 --out groups"],
    "faces shadows": ["faces shadows people/p0 --out light"],
    "evaluate faces": ["evaluate faces people --methods recognizer,raw --ranks 8 --splits 1 --out scores"],
    "annotate train": ["annotate train photos --labels words.csv --model words.npz"],
    "annotate predict": ["annotate predict words.npz photos/coffee1.jpg"],
    "evaluate annotate": ["evaluate annotate words.npz photos --labels words.csv"],
    "masquerade train": ["masquerade train ada.history ben.history --model users.npz --size 50"],
    "masquerade score": ["masquerade score users.npz ada.history"],
    "evaluate masquerade": ["evaluate masquerade ada.history ben.history --size 50"],
    "multiview fit": ["multiview fit left.csv right.csv --model views.npz --rank 6"],
    "multiview transform": ["multiview transform views.npz left=left.csv --codes codes.csv"],
    "multiview impute": ["multiview impute views.npz left=left.csv --out filled"],
    "evaluate multiview": [
        "evaluate multiview left.csv right.csv --labels classes.txt --splits 1 --methods joint --ranks 6 --out mv"
    ],
    "features": ["features few --kind all --out features.npz"],
    "reproduce": ["reproduce sbcd/fig-2 --quick --out papers"],
    "view": ["view --help"],  # napari is not installed
    "doctor": ["doctor"],
}


def leaf_commands(group: object, before: str = "") -> list[str]:
    """Return the full names of all commands."""
    names = []
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        full = f"{before}{name}"
        if hasattr(command, "list_commands"):
            inside = leaf_commands(command, f"{full} ")
            names += inside
        else:
            names.append(full)
    return names


def commands() -> None:
    """Run every command; a command that stands without a line here is an error."""
    from typer.main import get_command
    from typer.testing import CliRunner

    from visionnmf.apps.cli import app

    make_inputs()
    known = set(leaf_commands(get_command(app)))
    assert known == {*COMMANDS}, known ^ {*COMMANDS}
    for lines in COMMANDS.values():
        for line in lines:
            began = time.perf_counter()
            result = CliRunner().invoke(app, line.split())
            assert result.exit_code == 0, f"{line}: {result.exit_code}\n{result.output}\n{result.exception!r}"
            assert "compiled again" not in result.output
            print(f"  {time.perf_counter() - began:5.1f} s  {line}")
            if line.startswith("background x.") and "--live" not in line:
                assert re.search(r"60 frames of 160x120", result.output), result.output
    line = [sys.executable, "-m", "visionnmf", "segment", "photos/chelsea0.jpg", "--out", "out"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert "240 x 200 pixels" in done.stdout, done
    with Path("x.ts").open("rb") as video:
        line = [sys.executable, "-m", "visionnmf", "background", "-", "--out", "pipe"]
        done = subprocess.run(line, stdin=video, capture_output=True, text=True, check=True)
    assert "60 frames of 160x120" in done.stdout, done


def newest_versions() -> None:
    """Print which libraries are newer than those that the error lines call tried."""
    from packaging.version import Version

    from visionnmf.apps.cli.versions import TRIED

    for package, _, newest in TRIED.values():
        if Version(version(package)) > Version(newest):
            print(f"newer than in TRIED of apps/cli/versions.py: {package} {version(package)}")


def main(folder: Path, parts: list[Callable[[], None]]) -> None:
    """Run the parts in an empty folder."""
    import os

    folder.mkdir(parents=True)
    os.chdir(folder)
    for part in parts:
        began = time.perf_counter()
        part()
        print(f"{part.__name__}: {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), [public_names, estimators, commands, newest_versions])
