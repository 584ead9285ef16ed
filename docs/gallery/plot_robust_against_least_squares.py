"""
Robust or least squares
=======================

A fifth of the entries of a matrix of rank 20 are lost. The Manhattan distance finds the clean matrix, least squares
does not: beside the given and the clean matrix is how far each fit is from the clean one.
"""

import numpy as np
from matplotlib import pyplot as plt

from visionnmf import NMF
from visionnmf.datasets import make_corrupted_low_rank
from visionnmf.plotting import ConvergenceDisplay

data = make_corrupted_low_rank(random_state=0)
fits = {loss: NMF(20, loss=loss, random_state=0).fit(data.X) for loss in ("manhattan", "huber", "frobenius")}
shown = {"given": data.X, "clean": data.clean}
for loss, model in fits.items():
    shown[loss] = np.abs(model.inverse_transform(model.transform(data.X)) - data.clean)
    error = np.linalg.norm(shown[loss]) / np.linalg.norm(data.clean)
    print(f"{loss:10s} relative error of the clean matrix {error:.4f}")

axes = plt.subplots(1, 5, figsize=(12, 2.7), layout="constrained")[1]
for ax, (name, matrix) in zip(axes, shown.items(), strict=True):
    ax.imshow(matrix[:40, :40], vmin=0, vmax=np.quantile(data.clean, 0.95))
    ax.set_title(name)
    ax.set_axis_off()
plt.show()

# %%
# The objectives fall on different scales, so each is divided by its first value.
ConvergenceDisplay.from_estimator(fits, relative=True)
plt.show()
