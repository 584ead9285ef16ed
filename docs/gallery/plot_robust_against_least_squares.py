"""
Robust or least squares
=======================

A fifth of the entries of a matrix of rank 20 are lost. The Manhattan distance finds the clean matrix, least squares
does not. The objectives fall on different scales, so each is divided by its first value.
"""

import numpy as np
from matplotlib import pyplot as plt

from visionnmf import NMF
from visionnmf.datasets import make_corrupted_low_rank
from visionnmf.plotting import ConvergenceDisplay

data = make_corrupted_low_rank(random_state=0)
fits = {loss: NMF(20, loss=loss, random_state=0).fit(data.X) for loss in ("manhattan", "huber", "frobenius")}
for loss, model in fits.items():
    found = model.inverse_transform(model.transform(data.X))
    error = np.linalg.norm(found - data.clean) / np.linalg.norm(data.clean)
    print(f"{loss:10s} relative error of the clean matrix {error:.4f}")

ConvergenceDisplay.from_estimator(fits, relative=True)
plt.show()
