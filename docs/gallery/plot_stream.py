"""
A stream larger than memory
===========================

Chunks are learnt as they come. A checkpoint keeps what was learnt, and a second call goes on from there.
"""

import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from visionnmf import OnlineNMF, fit_stream
from visionnmf.plotting import ComponentsDisplay

rng = np.random.default_rng(0)
bars = np.zeros((10, 5, 5))
for k in range(5):
    bars[k, k], bars[5 + k, :, k] = 1, 1  # five rows and five columns


def chunks(count):
    """Yield chunks of pictures with a few bars each, and a tenth of the pixels wrong."""
    for _ in range(count):
        X = (rng.random((100, 10)) < 0.2) @ bars.reshape(10, 25)
        yield np.where(rng.random(X.shape) < 0.1, 2.0, X)


with tempfile.TemporaryDirectory() as folder:
    checkpoint = Path(folder) / "bars.npz"
    model = OnlineNMF(10, random_state=0)
    fit_stream(model, chunks(200), checkpoint=checkpoint)
    print(f"{model.n_samples_seen_} samples, {checkpoint.stat().st_size / 1000:.0f} kB on disk")

ComponentsDisplay.from_estimator(model, (5, 5)).figure_.suptitle("bars, found one chunk at a time")
plt.show()
