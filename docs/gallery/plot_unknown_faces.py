"""
Unknown people
==============

A recogniser that always names somebody is of little use at a door. The distance of each face from the nearest person
decides; the curves show both kinds of error over all thresholds.
"""

import numpy as np
from matplotlib import pyplot as plt
from skimage import data

from visionnmf.apps.faces import FaceRecognizer
from visionnmf.plotting import ThresholdDisplay

# Made people: twenty faces, each in twelve images that differ in light, noise and a shift of one pixel.
rng = np.random.default_rng(0)
images, people = [], []
for person, face in enumerate(data.lfw_subset()[:20]):
    for _ in range(12):
        light = rng.uniform(0.7, 1.3)
        moved = np.roll(face, rng.integers(-1, 2, 2), (0, 1))
        images.append(np.clip(255 * light * moved + rng.normal(0, 6, face.shape), 0, 255))
        people.append(person)
X, y = np.reshape(images, (len(images), -1)), np.array(people)

known, new = y < 12, np.arange(len(y)) % 12 >= 8
model = FaceRecognizer(image_shape=(25, 25), random_state=0).fit(X[known & ~new], y[known & ~new])
distances = np.array([found.distance for found in model.identify(X[new])])
ThresholdDisplay.from_predictions(~known[new], distances, threshold=model.threshold_)
plt.show()
