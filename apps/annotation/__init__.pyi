from .annotator import ImageAnnotator as ImageAnnotator, Neighbourhood as Neighbourhood
from .prediction import AnnotatedImage as AnnotatedImage, Annotations as Annotations, Word as Word, annotate as annotate
from .settings import AnnotatorSettings as AnnotatorSettings, WordOutputs as WordOutputs
from .store import AnnotationModel as AnnotationModel, load as load, save as save
from .training import AnnotatorTrained as AnnotatorTrained, train as train
