"""
Correct segments by scribbles
=============================

Pixels of one number become one segment. The tree of regions is there already, so an answer takes milliseconds.
"""

import numpy as np
from matplotlib import pyplot as plt

from visionnmf.apps.segmentation import segment
from visionnmf.io import read_image

cat = read_image("sample:chelsea")
result = segment(cat)
markers = np.zeros(cat.shape[:2], int)
markers[60:250:4, 130:330] = 1  # the face
markers[10:20, 20:440] = 2  # what is behind it
markers[270:290, 330:440] = 2
divided = result.recut(markers=markers)

axes = plt.subplots(1, 3, figsize=(12, 3), layout="constrained")[1]
drawn = cat.copy()
drawn[markers == 1], drawn[markers == 2] = (255, 40, 40), (40, 120, 255)
for ax, picture, title in zip(
    axes, (result.overlay(), drawn, divided.overlay()), ("by itself", "scribbles", "two segments"), strict=True
):
    ax.imshow(picture)
    ax.set_title(title)
    ax.set_axis_off()
plt.show()
