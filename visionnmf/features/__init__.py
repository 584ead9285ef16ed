"""From images to what a model can factorise. Arrays in, arrays out.

==============================  ===========================================================================
:mod:`.images`                  any image array as float RGB in [0, 1], and its reduction to fewer pixels
:mod:`.superpixels`             an image as some hundred small regions with size, colour and position
:mod:`.affinity`                how alike regions are: by colour and place, along paths, by diffusion
==============================  ===========================================================================
"""

from .affinity import diffuse_affinity, geodesic_affinity, geodesic_distances, proximity_affinity
from .images import check_image, reduce_image
from .superpixels import Superpixels, find_superpixels, region_adjacency

__all__ = [
    "Superpixels",
    "check_image",
    "diffuse_affinity",
    "find_superpixels",
    "geodesic_affinity",
    "geodesic_distances",
    "proximity_affinity",
    "reduce_image",
    "region_adjacency",
]
