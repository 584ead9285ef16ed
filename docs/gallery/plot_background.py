"""
Background and foreground of a clip
===================================

``visionnmf background video.mp4`` does this for files. The model learns the scene in spite of what moves through it.
"""

from matplotlib import pyplot as plt

from visionnmf.apps.background import BackgroundModel
from visionnmf.datasets import make_surveillance
from visionnmf.plotting import ForegroundDisplay

clip = make_surveillance(150, 120, 160, random_state=0)
model = BackgroundModel(random_state=0).fit(clip.frames)
parts = list(model.apply(clip.frames))
ForegroundDisplay.from_result(parts)
plt.show()

# %%
# The clip is made, so the truth is known.
hits = sum(((part.mask > 0) & truth).sum() for part, truth in zip(parts, clip.masks, strict=True))
found, true = sum((part.mask > 0).sum() for part in parts), clip.masks.sum()
print(f"F measure {2 * hits / (found + true):.3f}")
