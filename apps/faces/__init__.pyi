from .clustering import cluster as cluster, cluster_faces as cluster_faces
from .identification import identify as identify
from .identities import Identity as Identity
from .images import Decomposition as Decomposition
from .recognizer import FaceRecognizer as FaceRecognizer
from .settings import (
    FaceClustering as FaceClustering,
    FaceIdentification as FaceIdentification,
    FaceReading as FaceReading,
    FaceTraining as FaceTraining,
    ShadowRemoval as ShadowRemoval,
)
from .shadows import remove_shadows as remove_shadows, unshadow as unshadow
from .store import FaceModel as FaceModel, load as load, save as save
from .training import add_person as add_person, train as train
