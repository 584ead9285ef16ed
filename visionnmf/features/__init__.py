"""From images to what a model can factorise: extractors with one signature, and regions of an image.

An extractor is a scikit-learn transformer: after ``fit(images)``, ``transform(images)`` returns one row of
non-negative float32 for each image. `images` is a list of arrays or files of any sizes, grey or colour. :data:`KINDS`
is the table of extractors, :func:`make_extractor` makes one of them, and :class:`FeatureExtraction` uses several side
by side and knows which columns belong to which.

Images become 8-bit RGB. An image of more than `max_pixels` is first averaged down to so many pixels.

================================  ==================================================================================
:mod:`.extractor_kinds`           the table of extractors
:mod:`.extraction`                several extractors together; :mod:`.store` keeps them in files
:mod:`.feature_cache`             features that are kept between runs
:mod:`.colour`                    histograms of colours
:mod:`.hue`, :mod:`.sift`         local descriptors at :mod:`.interest_points`, counted as a :mod:`.bag_of_words`
:mod:`.gist`, :mod:`.texture`     the shape of a scene; gradients and binary patterns
:mod:`.patches`                   parts of patches, learnt by NMF
:mod:`.raw_pixels`                the pixels themselves
:mod:`.images`                    checking image arrays, and reducing them to fewer pixels
:mod:`.regions`                   an image as some hundred small regions, and how alike they are
================================  ==================================================================================

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .colour import ColorHistogram
    from .extraction import Extracted, FeatureExtraction
    from .extractor import Extractor
    from .extractor_kinds import KINDS, Kind, make_extractor
    from .gist import Gist
    from .hue import DenseHue, HarrisHue
    from .images import check_image, reduce_image
    from .interest_points import harris_laplace
    from .patches import PatchNMF
    from .raw_pixels import RawPixels
    from .regions.affinity import diffuse_affinity, geodesic_affinity, geodesic_distances, proximity_affinity
    from .regions.superpixels import Superpixels, find_superpixels, region_adjacency
    from .sift import DenseSift, HarrisSift
    from .store import load_extraction, save_extraction
    from .texture import CENTRIST, HOG, LBP

_MODULES = {
    "colour": ("ColorHistogram",),
    "extraction": ("Extracted", "FeatureExtraction"),
    "extractor": ("Extractor",),
    "extractor_kinds": ("KINDS", "Kind", "make_extractor"),
    "gist": ("Gist",),
    "hue": ("DenseHue", "HarrisHue"),
    "images": ("check_image", "reduce_image"),
    "interest_points": ("harris_laplace",),
    "patches": ("PatchNMF",),
    "raw_pixels": ("RawPixels",),
    "regions.affinity": ("diffuse_affinity", "geodesic_affinity", "geodesic_distances", "proximity_affinity"),
    "regions.superpixels": ("Superpixels", "find_superpixels", "region_adjacency"),
    "sift": ("DenseSift", "HarrisSift"),
    "store": ("load_extraction", "save_extraction"),
    "texture": ("CENTRIST", "HOG", "LBP"),
}

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
    "PatchNMF",
    "RawPixels",
    "Superpixels",
    "check_image",
    "diffuse_affinity",
    "find_superpixels",
    "geodesic_affinity",
    "geodesic_distances",
    "harris_laplace",
    "load_extraction",
    "make_extractor",
    "proximity_affinity",
    "reduce_image",
    "region_adjacency",
    "save_extraction",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f".{module}", __name__), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
