"""
Denoise faces
=============

A third of the images are hidden behind a block, others have salt and pepper. NMF with the Manhattan distance learns
the faces in spite of that, and shows which pixels it does not believe.
"""

import numpy as np
from matplotlib import pyplot as plt
from skimage import data

from visionnmf import NMF
from visionnmf.datasets import corrupt
from visionnmf.plotting import ComponentsDisplay, ReconstructionDisplay

faces = (255 * data.lfw_subset()[:100]).astype(np.uint8)  # the second half of this set shows no faces
damaged = faces.copy()
damaged[::3] = corrupt(faces[::3], "occlusion", 8, random_state=0)
damaged[1::3] = corrupt(faces[1::3], "salt_and_pepper", 0.1, random_state=0)
X = damaged.reshape(100, -1).astype(np.float32)

model = NMF(20, random_state=0).fit(X)
ReconstructionDisplay.from_estimator(model, X[[0, 1, 3, 4]], faces.shape[1:])
plt.show()

# %%
# The components are parts of faces. They are drawn in the order of their use.
ComponentsDisplay.from_estimator(model, faces.shape[1:], X)
plt.show()
