"""From images to what a model can factorise: extractors with one signature, and regions of one image.

An extractor is a scikit-learn transformer: ``fit(images)``, then ``transform(images)`` gives one row of non-negative
float32 an image. `images` is a list of arrays or files, of any sizes, grey or colour. :data:`KINDS` is the table of
what there is; :func:`make_extractor` makes one of its entries, and :class:`FeatureExtraction` puts several side by side
and knows which columns are whose.

Images become 8-bit RGB; one of more than `max_pixels` is averaged down to so many first.

==============================  ===========================================================================
:mod:`.kinds`                   the table, and the door
:mod:`.union`                   several kinds together; :mod:`.store` keeps them in files
:mod:`.colour`                  histograms of colours
:mod:`.hue`, :mod:`.sift`       local descriptors, as bags of words (:mod:`.words`) taken at :mod:`.points`
:mod:`.gist`, :mod:`.texture`   the shape of a scene; gradients and binary patterns
:mod:`.pixels`                  the pixels themselves
:mod:`.images`                  any image array as float RGB in [0, 1], and its reduction to fewer pixels
:mod:`.regions`                 an image as some hundred small regions, and how alike they are
==============================  ===========================================================================
"""

from .base import Extractor
from .colour import ColorHistogram
from .gist import Gist
from .hue import DenseHue, HarrisHue, hue_histograms
from .images import check_image, reduce_image
from .kinds import KINDS, Kind, make_extractor
from .pixels import RawPixels
from .points import harris_laplace
from .regions import (
    Superpixels,
    diffuse_affinity,
    find_superpixels,
    geodesic_affinity,
    geodesic_distances,
    proximity_affinity,
    region_adjacency,
)
from .sift import DenseSift, HarrisSift, sift_descriptors
from .store import load_extraction, pack_extraction, save_extraction, unpack_extraction
from .texture import CENTRIST, HOG, LBP, census_transform
from .union import Extracted, FeatureExtraction

__all__ = [
    "CENTRIST",
    "HOG",
    "KINDS",
    "LBP",
    "ColorHistogram",
    "DenseHue",
    "DenseSift",
    "Extracted",
    "Extractor",
    "FeatureExtraction",
    "Gist",
    "HarrisHue",
    "HarrisSift",
    "Kind",
    "RawPixels",
    "Superpixels",
    "census_transform",
    "check_image",
    "diffuse_affinity",
    "find_superpixels",
    "geodesic_affinity",
    "geodesic_distances",
    "harris_laplace",
    "hue_histograms",
    "load_extraction",
    "make_extractor",
    "pack_extraction",
    "proximity_affinity",
    "reduce_image",
    "region_adjacency",
    "save_extraction",
    "sift_descriptors",
    "unpack_extraction",
]
