from .extraction import extract_features as extract_features
from .settings import ExtractorFiles as ExtractorFiles
