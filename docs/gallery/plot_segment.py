"""
Segment a photograph
====================

``visionnmf segment photo.jpg`` does this for files.
"""

from matplotlib import pyplot as plt

from visionnmf.apps.segmentation import segment
from visionnmf.io import read_image
from visionnmf.plotting import SegmentationDisplay

result = segment(read_image("sample:coffee"))
SegmentationDisplay.from_result(result)
plt.show()

# %%
# The result knows the size, colour, place and neighbours of each segment.
for row in result.properties()[:3]:
    print(row)
