from .annotator import ImageAnnotator as ImageAnnotator, Neighbourhood as Neighbourhood
from .prediction import AnnotatedImage as AnnotatedImage, Word as Word, annotate as annotate
from .settings import AnnotatorSettings as AnnotatorSettings, WordOutputs as WordOutputs
from .store import AnnotationModel as AnnotationModel, load as load, save as save
from .training import train as train
