"""
Choose the rank and the loss
============================

Both choices are made by hiding entries and predicting them. The data have rank 6, and a tenth of the entries is wrong.
"""

import numpy as np
from matplotlib import pyplot as plt

from visionnmf import select_loss, select_rank
from visionnmf.plotting import LossDisplay, RankDisplay

rng = np.random.default_rng(0)
clean = rng.gamma(0.5, size=(150, 6)) @ rng.gamma(0.5, size=(6, 80))
X = np.where(rng.random(clean.shape) < 0.1, clean.max(), clean + 0.02 * rng.random(clean.shape))

rank = select_rank(X, range(1, 12), random_state=0)
loss = select_loss(X, random_state=0)
axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")[1]
RankDisplay.from_result(rank, axes[0])
LossDisplay.from_result(loss, axes[1])
plt.show()
