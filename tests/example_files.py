"""What the examples of docstrings begin with: photographs with words, people, views, logs, and models of each."""

from pathlib import Path

import numpy as np

from visionnmf.apps import annotation, faces, masquerade, multiview
from visionnmf.io import write_image

COMMANDS = {"ada": ["ls", "cd", "make", "vi"], "ben": ["cat", "grep", "sort", "uniq"]}


def make_files(folder):
    """Write `photos`, `words.csv`, `people`, `shape.npy`, `colour.npy`, `ada.txt`, `ben.txt` and their models."""
    _make_photos(folder)
    _make_people(folder)
    _make_views(folder)
    for name, commands in COMMANDS.items():
        (folder / f"{name}.txt").write_text("\n".join(commands * 100))
    masquerade.train(
        [folder / f"{name}.txt" for name in COMMANDS], folder / "users.npz", cutting=masquerade.SessionCutting(size=20)
    )


def _make_photos(folder):
    rng, words = np.random.default_rng(0), []
    (folder / "photos").mkdir()
    for i in range(12):
        word, colour = (("sea", (40, 90, 220)), ("rose", (200, 80, 60)))[i % 2]
        write_image(folder / "photos" / f"{i}.png", _pixels(rng.normal(colour, 20, (16, 16, 3))))
        words.append(f"{i}.png,{word}\n")
    (folder / "words.csv").write_text("".join(words))
    options = {"kinds": ["lab"], "annotator": annotation.ImageAnnotator("jec", n_components=4)}
    annotation.train(folder / "photos", folder / "words.npz", labels=folder / "words.csv", **options)


def _make_people(folder):
    rng = np.random.default_rng(0)
    for name in ("ada", "ben", "cy"):
        Path(folder, "people", name).mkdir(parents=True)
        face = rng.integers(40, 200, (12, 10))
        for i in range(4):
            write_image(folder / "people" / name / f"{i}.png", _pixels(face + rng.integers(0, 9, face.shape)))
    training = faces.FaceTraining(n_components=6, missing="none")
    faces.train(folder / "people", folder / "people.npz", training=training)


def _make_views(folder):
    rng = np.random.default_rng(0)
    views = {"shape": 6, "colour": 5}
    for name, n_features in views.items():
        np.save(folder / f"{name}.npy", rng.random((30, n_features)))
    settings = multiview.ViewFit(n_components=3)
    multiview.fit_views([folder / f"{name}.npy" for name in views], folder / "views.npz", settings=settings)


def _pixels(values):
    return np.clip(values, 0, 255).astype(np.uint8)
