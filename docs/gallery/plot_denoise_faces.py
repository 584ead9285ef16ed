"""
Denoise faces
=============

A tenth of the faces are hidden behind a block, the others have salt and pepper on a fifth of their pixels. NMF with the
Manhattan distance learns the faces in spite of that, and shows which pixels it does not believe. Damage that lies in
one place in many images would be learnt as a part.
"""

import numpy as np
from matplotlib import pyplot as plt
from skimage import data

from visionnmf import NMF
from visionnmf.datasets import corrupt
from visionnmf.plotting import ComponentsDisplay, ReconstructionDisplay

faces = (255 * data.lfw_subset()[:100]).astype(np.uint8)  # the second half of this set shows no faces
damaged = corrupt(faces, "salt_and_pepper", 0.2, random_state=0)
damaged[::10] = corrupt(faces[::10], "occlusion", 7, random_state=0)
X = damaged.reshape(100, -1).astype(np.float32)

model = NMF(18, random_state=0).fit(X)
ReconstructionDisplay.from_estimator(model, X[[0, 10, 3, 4]], faces.shape[1:])
plt.show()

# %%
# The components are parts of faces. They are drawn in the order of their use.
ComponentsDisplay.from_estimator(model, faces.shape[1:], X)
plt.show()
