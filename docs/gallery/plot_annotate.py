"""
Words for pictures
==================

Pictures that look alike share words. ``visionnmf annotate`` does this for folders.
"""

import numpy as np
from matplotlib import pyplot as plt

from visionnmf.apps.annotation import ImageAnnotator
from visionnmf.features import FeatureExtraction
from visionnmf.io import read_image
from visionnmf.plotting import AnnotationDisplay

WORDS = {
    "brick": ["wall", "stone"],
    "grass": ["plant", "ground"],
    "gravel": ["stone", "ground"],
    "coffee": ["cup", "table"],
    "chelsea": ["cat", "fur"],
    "astronaut": ["person", "space"],
    "hubble_deep_field": ["stars", "space"],
}
SIDE = 96
rng = np.random.default_rng(0)
crops, words = [], []
for name, of_name in WORDS.items():
    picture = read_image(f"sample:{name}")
    corners = rng.integers(0, np.array(picture.shape[:2]) - SIDE, (25, 2))
    crops += [picture[row : row + SIDE, column : column + SIDE] for row, column in corners]
    words += [of_name] * len(corners)

extraction = FeatureExtraction(["lab", "lbp", "gist"])
X = extraction.fit_transform(crops)
names = sorted({word for of_name in WORDS.values() for word in of_name})
Y = np.array([[word in of_one for word in names] for of_one in words])
new = np.arange(len(crops)) % 25 >= 20
annotator = ImageAnnotator().fit(X[~new], Y[~new], views=extraction.views_, words=names)
scores = annotator.predict_proba(X[new])

for i in (0, 17, 27):
    best = annotator.choose(scores[i : i + 1], 4)[0]
    found = [(names[j], scores[i, j], []) for j in best]
    AnnotationDisplay.from_result(crops[np.flatnonzero(new)[i]], found)
plt.show()
