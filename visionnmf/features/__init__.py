"""From images to what a model can factorise: extractors with one signature, and the checking of images.

An extractor is a scikit-learn transformer: after ``fit(images)``, ``transform(images)`` returns one row of
non-negative float32 for each image. `images` is a list of arrays or files of any sizes, grey or colour. :data:`KINDS`
is the table of extractors, :func:`make_extractor` makes one of them, and :class:`FeatureExtraction` uses several side
by side and knows which columns belong to which.

Images become 8-bit RGB. An image of more than `max_pixels` is first averaged down to so many pixels.

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from visionnmf._lazy import lazy_names

if TYPE_CHECKING:
    from .affinity import proximity_affinity as proximity_affinity
    from .extraction import Extracted as Extracted
    from .extraction import FeatureExtraction as FeatureExtraction
    from .extractor import Extractor as Extractor
    from .extractor_kinds import KINDS as KINDS
    from .extractor_kinds import Kind as Kind
    from .extractor_kinds import make_extractor as make_extractor
    from .gist import Gist as Gist
    from .hue import DenseHue as DenseHue
    from .hue import HarrisHue as HarrisHue
    from .images import check_image as check_image
    from .images import reduce_image as reduce_image
    from .interest_points import harris_laplace as harris_laplace
    from .patches import PatchNMF as PatchNMF
    from .pixels import ColorHistogram as ColorHistogram
    from .pixels import RawPixels as RawPixels
    from .sift import DenseSift as DenseSift
    from .sift import HarrisSift as HarrisSift
    from .store import load_extraction as load_extraction
    from .store import save_extraction as save_extraction
    from .texture import CENTRIST as CENTRIST
    from .texture import HOG as HOG
    from .texture import LBP as LBP

_MODULES = {
    "affinity": ["proximity_affinity"],
    "extraction": ["Extracted", "FeatureExtraction"],
    "extractor": ["Extractor"],
    "extractor_kinds": ["KINDS", "Kind", "make_extractor"],
    "gist": ["Gist"],
    "hue": ["DenseHue", "HarrisHue"],
    "images": ["check_image", "reduce_image"],
    "interest_points": ["harris_laplace"],
    "patches": ["PatchNMF"],
    "pixels": ["ColorHistogram", "RawPixels"],
    "sift": ["DenseSift", "HarrisSift"],
    "store": ["load_extraction", "save_extraction"],
    "texture": ["CENTRIST", "HOG", "LBP"],
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES)
