"""Words for photographs: train on images that have some, give some to others, see why.

:func:`train` learns from a folder or a table of features and writes a model; :func:`annotate` gives words with scores
and the training images because of which; :func:`evaluate` compares them with known words; :func:`similar` draws the
nearest training images. :class:`ImageAnnotator` is the model itself, of arrays.
"""

from .evaluation import AnnotationScores, evaluate
from .labels import Labels, find_labels, read_labels
from .metrics import Scores, score_words
from .model import ImageAnnotator, Neighbourhood
from .prediction import AnnotatedImage, Annotations, Word, annotate
from .similarity import Similar, similar
from .sources import Described, describe, usual_extractors
from .store import AnnotationModel, load, save
from .training import AnnotatorTrained, train

__all__ = [
    "AnnotatedImage",
    "AnnotationModel",
    "AnnotationScores",
    "Annotations",
    "AnnotatorTrained",
    "Described",
    "ImageAnnotator",
    "Labels",
    "Neighbourhood",
    "Scores",
    "Similar",
    "Word",
    "annotate",
    "describe",
    "evaluate",
    "find_labels",
    "load",
    "read_labels",
    "save",
    "score_words",
    "similar",
    "train",
    "usual_extractors",
]
