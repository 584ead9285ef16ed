"""
Clusters of a graph
===================

Symmetric NMF of an affinity finds clusters that are no balls: two half moons. A code says how far a point belongs to
each.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_moons
from sklearn.neighbors import kneighbors_graph

from visionnmf import SymmetricNMF

points, _ = make_moons(400, noise=0.06, random_state=0)
near = kneighbors_graph(points, 12, mode="connectivity")
near = near.maximum(near.T)
# the share of neighbours that two points have in common after a few steps of a random walk
walk = near.multiply(1 / near.sum(axis=1)).toarray()
walk = np.linalg.matrix_power(walk, 16)
model = SymmetricNMF(2, random_state=0)
codes = model.fit_transform((walk + walk.T) / 2)

share = codes[:, 0] / np.maximum(codes.sum(axis=1), 1e-12)
plt.scatter(*points.T, c=share, cmap="coolwarm", s=12)
plt.colorbar(label="share of the first cluster")
plt.show()
