"""Words for photographs: learn from images that have words, and give words to others.

:func:`train` learns from a folder or a table of features and writes a model. :func:`annotate` gives words with scores,
and names the training images behind each word. :func:`evaluate` compares them with known words, and :func:`similar`
finds the nearest training images. :class:`ImageAnnotator` is the model itself, for arrays.

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .annotator import ImageAnnotator as ImageAnnotator
    from .annotator import Neighbourhood as Neighbourhood
    from .evaluation import AnnotationScores as AnnotationScores
    from .evaluation import evaluate as evaluate
    from .metrics import Scores as Scores
    from .metrics import score_words as score_words
    from .prediction import AnnotatedImage as AnnotatedImage
    from .prediction import Annotations as Annotations
    from .prediction import Word as Word
    from .prediction import annotate as annotate
    from .settings import AnnotatorSettings as AnnotatorSettings
    from .settings import WordOutputs as WordOutputs
    from .similar_images import Similar as Similar
    from .similar_images import similar as similar
    from .store import AnnotationModel as AnnotationModel
    from .store import load as load
    from .store import save as save
    from .training import AnnotatorTrained as AnnotatorTrained
    from .training import train as train

_LAZY = {
    name: module
    for module, names in {
        ".annotator": ("ImageAnnotator", "Neighbourhood"),
        ".evaluation": ("AnnotationScores", "evaluate"),
        ".metrics": ("Scores", "score_words"),
        ".prediction": ("AnnotatedImage", "Annotations", "Word", "annotate"),
        ".settings": ("AnnotatorSettings", "WordOutputs"),
        ".similar_images": ("Similar", "similar"),
        ".store": ("AnnotationModel", "load", "save"),
        ".training": ("AnnotatorTrained", "train"),
    }.items()
    for name in names
}

__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name], __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
