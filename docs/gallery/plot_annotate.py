"""
Words for pictures
==================

Pictures that look alike share words. ``visionnmf annotate`` does the same on the command line. Beside the scores of the
words stand the training images because of which they were given.
"""

import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from visionnmf.apps.annotation import WordOutputs, annotate, train
from visionnmf.io import read_image, write_image
from visionnmf.plotting import AnnotationDisplay

WORDS = {
    "brick": "wall,stone",
    "grass": "plant,ground",
    "gravel": "stone,ground",
    "coffee": "cup,table",
    "chelsea": "cat,fur",
    "astronaut": "person,space",
    "hubble_deep_field": "stars,space",
}
SIDE = 96
rng = np.random.default_rng(0)

with tempfile.TemporaryDirectory() as folder:
    known, new = Path(folder, "known"), Path(folder, "new")
    known.mkdir()
    new.mkdir()
    table = ["photo,words"]
    for name, words in WORDS.items():
        picture = read_image(f"sample:{name}")
        corners = rng.integers(0, np.array(picture.shape[:2]) - SIDE, (25, 2))
        for i, (row, column) in enumerate(corners):
            file = (known if i < 20 else new) / f"{name}{i}.png"
            write_image(file, picture[row : row + SIDE, column : column + SIDE])
            if i < 20:
                table.append(f'{file.name},"{words}"')
    labels = Path(folder, "words.csv")
    labels.write_text("\n".join(table))

    model = train(known, Path(folder, "words.npz"), labels=labels, kinds=["lab", "lbp", "gist"]).model
    found = annotate(model, new, outputs=WordOutputs(top=4)).images
    for image in found[::12]:
        AnnotationDisplay.from_result(image.image, image.words)
    plt.show()
