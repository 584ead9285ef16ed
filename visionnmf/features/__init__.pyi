from .affinity import proximity_affinity as proximity_affinity
from .extraction import Extracted as Extracted, FeatureExtraction as FeatureExtraction
from .extractor import Extractor as Extractor
from .extractor_kinds import KINDS as KINDS, PRESETS as PRESETS, Kind as Kind, make_extractor as make_extractor
from .gist import GIST as GIST
from .hue import DenseHue as DenseHue, HarrisHue as HarrisHue
from .images import check_image as check_image, reduce_image as reduce_image
from .interest_points import harris_laplace as harris_laplace
from .pixels import ColorHistogram as ColorHistogram, RawPixels as RawPixels
from .sift import DenseSift as DenseSift, HarrisSift as HarrisSift
from .store import load_extraction as load_extraction, save_extraction as save_extraction
from .texture import CENTRIST as CENTRIST, HOG as HOG, LBP as LBP
