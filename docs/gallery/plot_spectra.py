"""
Spectra by Kullback-Leibler
===========================

Counts of photons at 200 wavelengths are mixtures of three spectra. Poisson noise is what Kullback-Leibler is made for;
it finds the spectra without being told what they look like.
"""

import numpy as np
from matplotlib import pyplot as plt

from visionnmf import NMF

rng = np.random.default_rng(0)
at = np.linspace(400, 800, 200)
spectra = np.array([np.exp(-(((at - centre) / width) ** 2)) for centre, width in ((480, 25), (560, 40), (660, 30))])
amounts = rng.gamma(0.4, size=(400, 3)) * 30
X = rng.poisson(amounts @ spectra).astype(float)

model = NMF(3, loss="kullback-leibler", random_state=0).fit(X)
found = model.components_[np.argsort(model.components_.argmax(axis=1))]
for true, component in zip(spectra, found, strict=True):
    plt.plot(at, true, color="0.6")
    plt.plot(at, component / component.max())
plt.xlabel("wavelength, nm")
plt.ylabel("true (grey) and found")
plt.show()
