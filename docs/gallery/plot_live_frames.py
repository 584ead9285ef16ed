"""
A live stream, frame by frame
=============================

The online model learns from each frame and answers at once.
"""

import numpy as np
from matplotlib import pyplot as plt

from visionnmf.apps.background import OnlineBackgroundModel
from visionnmf.datasets import make_surveillance

clip = make_surveillance(200, 120, 160, random_state=1)
model = OnlineBackgroundModel()
shares = []
for frame in clip.frames:
    model.partial_fit(frame)
    shares.append(100 * np.mean(model.mask_ > 0))

axes = plt.subplots(1, 3, figsize=(12, 2.8), layout="constrained")[1]
for ax, picture, title in zip(axes, (frame, model.mask_), ("the last frame", "foreground"), strict=False):
    ax.imshow(picture, cmap="gray")
    ax.set_title(title)
    ax.set_axis_off()
axes[2].plot(shares, label="found")
axes[2].plot(100 * clip.masks.mean(axis=(1, 2)), color="0.5", label="true")
axes[2].set_xlabel("frame")
axes[2].set_ylabel("foreground, %")
axes[2].legend()
plt.show()
