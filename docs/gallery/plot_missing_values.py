"""
Missing values
==============

Digits of which a third of the pixels are not known: NaN does not count, and the model fills it in.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

from visionnmf import NMF

X = load_digits().data
rng = np.random.default_rng(0)
holes = np.where(rng.random(X.shape) < 1 / 3, np.nan, X)

model = NMF(8, loss="frobenius", missing_values=np.nan, random_state=0).fit(holes)
found = model.inverse_transform(model.transform(holes))
hidden = np.isnan(holes)
error = np.sqrt(np.mean((found - X)[hidden] ** 2))
of_mean = np.sqrt(np.mean((np.nanmean(holes, axis=0) - X)[hidden] ** 2))
print(f"error of the hidden pixels {error:.2f}; by the mean of each pixel {of_mean:.2f}")

axes = plt.subplots(3, 8, figsize=(8, 3.2), layout="constrained")[1]
for row, (name, values) in zip(axes, {"true": X, "given": holes, "filled": found}.items(), strict=True):
    row[0].set_ylabel(name)
    for ax, image in zip(row, values, strict=False):
        ax.imshow(image.reshape(8, 8), cmap="gray", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
plt.show()
