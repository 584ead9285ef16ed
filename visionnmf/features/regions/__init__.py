"""Regions of one image, and how alike they are; import the names from :mod:`visionnmf.features`."""

from .affinity import diffuse_affinity, geodesic_affinity, geodesic_distances, proximity_affinity
from .superpixels import Superpixels, find_superpixels, region_adjacency

__all__ = [
    "Superpixels",
    "diffuse_affinity",
    "find_superpixels",
    "geodesic_affinity",
    "geodesic_distances",
    "proximity_affinity",
    "region_adjacency",
]
