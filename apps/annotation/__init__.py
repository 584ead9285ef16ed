"""Words for photographs: train on images that have some, give some to others, see why.

:func:`train` learns from a folder or a table of features and writes a model; :func:`annotate` gives words with scores
and the training images because of which. :class:`ImageAnnotator` is the model itself, of arrays.
"""

from .labels import Labels, find_labels, read_labels
from .metrics import Scores, score_words
from .model import ImageAnnotator, Neighbourhood
from .prediction import AnnotatedImage, Annotations, Word, annotate
from .sources import Described, describe
from .store import AnnotationModel, load, save
from .training import AnnotatorTrained, train

__all__ = [
    "AnnotatedImage",
    "AnnotationModel",
    "Annotations",
    "AnnotatorTrained",
    "Described",
    "ImageAnnotator",
    "Labels",
    "Neighbourhood",
    "Scores",
    "Word",
    "annotate",
    "describe",
    "find_labels",
    "load",
    "read_labels",
    "save",
    "score_words",
    "train",
]
