from .extraction import FeaturesReport as FeaturesReport, extract_features as extract_features
from .settings import ExtractorFiles as ExtractorFiles
