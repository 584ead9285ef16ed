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
markers[30:240, 222:230] = markers[100:108, 130:340] = 1  # the face, an ear, a cheek
markers[20:60, 90:96] = markers[150:270, 100:106] = 1
markers[20:280, 430:440] = markers[215:223, 370:440] = markers[10:100, 8:16] = 2  # what is behind the cat
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
