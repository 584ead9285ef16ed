from .annotator import ImageAnnotator as ImageAnnotator, Neighbourhood as Neighbourhood
from .evaluation import (
    AnnotationScores as AnnotationScores,
    Scores as Scores,
    evaluate as evaluate,
    score_words as score_words,
)
from .prediction import (
    AnnotatedImage as AnnotatedImage,
    Annotations as Annotations,
    Similar as Similar,
    Word as Word,
    annotate as annotate,
    similar as similar,
)
from .settings import AnnotatorSettings as AnnotatorSettings, WordOutputs as WordOutputs
from .store import AnnotationModel as AnnotationModel, load as load, save as save
from .training import AnnotatorTrained as AnnotatorTrained, train as train
