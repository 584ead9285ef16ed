"""
Sparse counts
=============

Word counts of documents stay sparse. Kullback-Leibler suits counts. The words of each topic are what its component
weighs most.
"""

from collections import Counter

import numpy as np
from matplotlib import pyplot as plt
from scipy import sparse

from visionnmf import NMF

TOPICS = {
    "kitchen": "oven pan salt butter flour sugar bake stir",
    "harbour": "ship sail anchor wind tide rope mast deck",
    "garden": "seed soil rose water spade leaf bloom hedge",
}
rng = np.random.default_rng(0)
words = [word for topic in TOPICS.values() for word in topic.split()]
rows = []
for _ in range(300):
    mixture = rng.dirichlet(np.full(len(TOPICS), 0.3))
    chances = np.repeat(mixture, 8) / 8
    counts = Counter(rng.choice(words, size=40, p=chances))
    rows.append([counts[word] for word in words])
X = sparse.csr_array(np.array(rows, float))

model = NMF(3, loss="kullback-leibler", random_state=0).fit(X)
axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")[1]
for ax, component in zip(axes, model.components_, strict=True):
    best = np.argsort(component)[::-1][:8]
    ax.barh([words[i] for i in best], component[best])
    ax.invert_yaxis()
    ax.set_xlabel("weight")
plt.show()
