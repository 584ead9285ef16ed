"""Inputs of commands that process many of them."""

import numpy as np
import pytest
from helpers import run_command as run
from PIL import Image

from visionnmf.datasets import make_mosaic
from visionnmf.io import decoding


@pytest.fixture
def photographs(tmp_path):
    """Images, one that is none, one that warns; and a model of people."""
    from visionnmf.apps import faces

    rng = np.random.default_rng(0)
    for person in range(3):
        (tmp_path / "people" / f"p{person}").mkdir(parents=True)
        face = rng.integers(40, 200, (12, 10))
        for i in range(4):
            pixels = (face + rng.integers(0, 9, face.shape)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "people" / f"p{person}" / f"{i}.png")
    training = faces.FaceTraining(n_components=6, missing="none")
    faces.train(tmp_path / "people", tmp_path / "people.npz", training=training)
    (tmp_path / "people" / "p1" / "bad.png").write_text("no picture")
    Image.new("RGBA", (12, 10), (90, 80, 70, 120)).save(tmp_path / "people" / "p1" / "glass.png")
    return tmp_path


@pytest.fixture
def images(tmp_path, monkeypatch):
    """Images by relative names: three that are some, one that is none between them, and one that warns."""
    for i, name in enumerate(["a", "b", "d"]):
        Image.fromarray(make_mosaic(24, 32 + 8 * i, random_state=i).image).save(tmp_path / f"{name}.png")
    (tmp_path / "c.png").write_text("no picture")
    Image.new("RGBA", (12, 10), (90, 80, 70, 120)).save(tmp_path / "glass.png")
    monkeypatch.chdir(tmp_path)
    return ["a.png", "b.png", "c.png", "d.png", "glass.png"]


@pytest.fixture
def logs(tmp_path):
    """Histories of three users, and a day on which one is another, in files that are not a user's each."""
    rng = np.random.default_rng(1)
    habits = {name: rng.choice([f"{name}{i}" for i in range(9)], 900) for name in ("ann", "bea", "cyd")}
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    for name, commands in habits.items():
        (tmp_path / "old" / f"{name}.log").write_text("\n".join(commands[:500]) + "\n")
    rows = [(name, command) for name, commands in habits.items() for command in commands[500:]]
    rows = [rows[i] for i in np.argsort(np.arange(len(rows)) + rng.integers(0, 300, len(rows)), kind="stable")]
    rows += [("ann", "nmap"), ("ann", "nc")] * 20 + [("dee", "ls")] * 30
    for part, name in enumerate(("a.csv", "c.csv")):
        text = "".join(f"{user},{command} -x\n" for user, command in rows[part::2])
        (tmp_path / "new" / name).write_text("user,command\n" + text)
    (tmp_path / "new" / "b.csv").write_text("user,command\n")
    old = sorted((tmp_path / "old").iterdir())
    assert run("masquerade", "train", *old, "--size", 20, "--model", tmp_path / "users.npz").exit_code == 0
    return tmp_path


@pytest.fixture(autouse=True)
def decoded_here(monkeypatch):
    """Decode in this process, also in tests after one that has called the entry point, which decodes in a child."""
    monkeypatch.setattr(decoding._State, "apart", False)
