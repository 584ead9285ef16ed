"""
Scales of the tree
==================

One call finds segments at all scales; those at a smaller scale lie within those at a larger one.
"""

from matplotlib import pyplot as plt

from visionnmf.apps.segmentation import overlay, segment
from visionnmf.io import read_image

result = segment(read_image("sample:coffee"))
axes = plt.subplots(1, 4, figsize=(14, 2.8), layout="constrained")[1]
for ax, count in zip(axes, (2, 5, 15, 60), strict=True):
    ax.imshow(overlay(result.image, result.at(n_segments=count)))
    ax.set_title(f"{count} segments")
    ax.set_axis_off()
plt.show()
