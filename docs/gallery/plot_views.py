"""
Several views, one of them missing
==================================

Two kinds of measurements of the same samples share some causes. The model finds which, and predicts one view from the
other.
"""

import numpy as np
from matplotlib import pyplot as plt

from visionnmf import MultiviewNMF, ViewClassifier
from visionnmf.plotting import ViewUsageDisplay

rng = np.random.default_rng(0)
codes = rng.gamma(0.5, size=(300, 5))
sounds = codes[:, :4] @ rng.random((4, 30))  # the fifth cause is seen only
images = codes[:, 1:] @ rng.random((4, 50))  # the first is heard only
train = slice(0, 250)

model = MultiviewNMF(5, max_iter=2000, random_state=0).fit({"sounds": sounds[train], "images": images[train]})
ViewUsageDisplay.from_estimator(model)
plt.show()

# %%
# New samples of which only the images are known:
new = model.transform({"images": images[250:]})
found = model.inverse_transform(new)["sounds"]
error = np.linalg.norm(found - sounds[250:]) / np.linalg.norm(sounds[250:])
mean = np.linalg.norm(sounds[train].mean(axis=0) - sounds[250:]) / np.linalg.norm(sounds[250:])
print(f"relative error of the sounds {error:.2f}; of their mean {mean:.2f}")

# %%
# Which of new samples have much of the second cause, if only the images are known:
loud = codes[:, 1] > np.median(codes[:, 1])
classifier = ViewClassifier(MultiviewNMF(5, loss="frobenius", random_state=0))
classifier.fit({"sounds": sounds[train], "images": images[train]}, loud[train])
print(
    f"{(classifier.predict({'images': images[250:]}) == loud[250:]).mean():.0%} of new samples are classified correctly"
)
