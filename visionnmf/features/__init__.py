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
:mod:`.patches`                 parts of patches, learnt by NMF
:mod:`.pixels`                  the pixels themselves
:mod:`.images`                  any image array as float RGB in [0, 1], and its reduction to fewer pixels
:mod:`.regions`                 an image as some hundred small regions, and how alike they are
==============================  ===========================================================================

Importing this package loads no numerical library; each name is loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import Extractor as Extractor
    from .colour import ColorHistogram as ColorHistogram
    from .gist import Gist as Gist
    from .hue import DenseHue as DenseHue
    from .hue import HarrisHue as HarrisHue
    from .hue import hue_histograms as hue_histograms
    from .images import check_image as check_image
    from .images import reduce_image as reduce_image
    from .kinds import KINDS as KINDS
    from .kinds import Kind as Kind
    from .kinds import make_extractor as make_extractor
    from .patches import PatchNMF as PatchNMF
    from .patches import split_patches as split_patches
    from .pixels import RawPixels as RawPixels
    from .points import harris_laplace as harris_laplace
    from .regions.affinity import diffuse_affinity as diffuse_affinity
    from .regions.affinity import geodesic_affinity as geodesic_affinity
    from .regions.affinity import geodesic_distances as geodesic_distances
    from .regions.affinity import proximity_affinity as proximity_affinity
    from .regions.superpixels import Superpixels as Superpixels
    from .regions.superpixels import find_superpixels as find_superpixels
    from .regions.superpixels import region_adjacency as region_adjacency
    from .sift import DenseSift as DenseSift
    from .sift import HarrisSift as HarrisSift
    from .sift import sift_descriptors as sift_descriptors
    from .store import load_extraction as load_extraction
    from .store import pack_extraction as pack_extraction
    from .store import save_extraction as save_extraction
    from .store import unpack_extraction as unpack_extraction
    from .texture import CENTRIST as CENTRIST
    from .texture import HOG as HOG
    from .texture import LBP as LBP
    from .texture import census_transform as census_transform
    from .union import Extracted as Extracted
    from .union import FeatureExtraction as FeatureExtraction

_LAZY = {
    "CENTRIST": ".texture",
    "ColorHistogram": ".colour",
    "DenseHue": ".hue",
    "DenseSift": ".sift",
    "Extracted": ".union",
    "Extractor": ".base",
    "FeatureExtraction": ".union",
    "Gist": ".gist",
    "HOG": ".texture",
    "HarrisHue": ".hue",
    "HarrisSift": ".sift",
    "KINDS": ".kinds",
    "Kind": ".kinds",
    "LBP": ".texture",
    "PatchNMF": ".patches",
    "RawPixels": ".pixels",
    "Superpixels": ".regions.superpixels",
    "census_transform": ".texture",
    "check_image": ".images",
    "diffuse_affinity": ".regions.affinity",
    "find_superpixels": ".regions.superpixels",
    "geodesic_affinity": ".regions.affinity",
    "geodesic_distances": ".regions.affinity",
    "harris_laplace": ".points",
    "hue_histograms": ".hue",
    "load_extraction": ".store",
    "make_extractor": ".kinds",
    "pack_extraction": ".store",
    "proximity_affinity": ".regions.affinity",
    "reduce_image": ".images",
    "region_adjacency": ".regions.superpixels",
    "save_extraction": ".store",
    "sift_descriptors": ".sift",
    "split_patches": ".patches",
    "unpack_extraction": ".store",
}

__all__ = list(_LAZY)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name], __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
