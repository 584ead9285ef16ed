"""Faces: recognition, clustering and shadow removal, also with corrupted training images.

====================================  ==================================================================================
:class:`FaceRecognizer`               learn people from corrupted images, identify them on new ones, reject unknown ones
:func:`cluster_faces`                 group images by person, without names
:func:`remove_shadows`                images of one person under different light: the face, and its shadows
:func:`train`, :func:`add_person`     from a folder of images to a model file; a further person in a model file
:func:`identify`, :func:`verify`      who is on an image; whether two images show one person
:func:`cluster`, :func:`unshadow`     a folder of images in groups; the images of a folder without shadows
:func:`evaluate`                      methods on splits of a data set: parallel, resumable, CSV, curves
:func:`save`, :func:`load`            model files: arrays with a JSON header, never pickle
:func:`find_faces`                    the faces on a photograph
:func:`residual_picture`              what was judged corrupted; :func:`components_picture` the components
====================================  ==================================================================================

Settings such as :class:`FaceTraining` are records that the commands and the functions share. Images are rows of grey
values, from 0 to 255 or from 0 to 1. The application is that of Guan, Tao, Luo, Shawe-Taylor, "MahNMF: Manhattan
Non-negative Matrix Factorization", arXiv:1207.3438, 2012, section 5; the paper's rules of classification are among
those of :class:`FaceRecognizer`. The guide is ``docs/faces.md``.

Importing this package loads no numerical library; each name is loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from visionnmf.apps.drawing import components_picture as components_picture
    from visionnmf.metrics import clustering_accuracy as clustering_accuracy
    from visionnmf.metrics import clustering_information as clustering_information

    from .cleaning import Decomposition as Decomposition
    from .clustering import FaceClustersReport as FaceClustersReport
    from .clustering import cluster as cluster
    from .clustering import cluster_faces as cluster_faces
    from .evaluation import FaceComparisonReport as FaceComparisonReport
    from .evaluation import evaluate as evaluate
    from .identification import IdentificationReport as IdentificationReport
    from .identification import Identifier as Identifier
    from .identification import VerificationReport as VerificationReport
    from .identification import identify as identify
    from .identification import verify as verify
    from .identity import Identity as Identity
    from .pictures import residual_picture as residual_picture
    from .reading import find_faces as find_faces
    from .reading import open_faces as open_faces
    from .recognizer import FaceRecognizer as FaceRecognizer
    from .settings import FaceClustering as FaceClustering
    from .settings import FaceEvaluation as FaceEvaluation
    from .settings import FaceIdentification as FaceIdentification
    from .settings import FaceReading as FaceReading
    from .settings import FaceTraining as FaceTraining
    from .settings import ShadowRemoval as ShadowRemoval
    from .shadows import ShadowRemovalReport as ShadowRemovalReport
    from .shadows import remove_shadows as remove_shadows
    from .shadows import unshadow as unshadow
    from .store import FaceModel as FaceModel
    from .store import load as load
    from .store import save as save
    from .training import AddedPersonReport as AddedPersonReport
    from .training import FaceTrainingReport as FaceTrainingReport
    from .training import add_person as add_person
    from .training import train as train

_LAZY = {
    name: module
    for module, names in {
        "visionnmf.apps.drawing": ("components_picture",),
        "visionnmf.metrics": ("clustering_accuracy", "clustering_information"),
        ".cleaning": ("Decomposition",),
        ".clustering": ("FaceClustersReport", "cluster", "cluster_faces"),
        ".evaluation": ("FaceComparisonReport", "evaluate"),
        ".identification": ("IdentificationReport", "Identifier", "VerificationReport", "identify", "verify"),
        ".identity": ("Identity",),
        ".pictures": ("residual_picture",),
        ".reading": ("find_faces", "open_faces"),
        ".recognizer": ("FaceRecognizer",),
        ".settings": (
            "FaceClustering", "FaceEvaluation", "FaceIdentification", "FaceReading", "FaceTraining", "ShadowRemoval",
        ),
        ".shadows": ("ShadowRemovalReport", "remove_shadows", "unshadow"),
        ".store": ("FaceModel", "load", "save"),
        ".training": ("AddedPersonReport", "FaceTrainingReport", "add_person", "train"),
    }.items()
    for name in names
}  # fmt: skip

__all__ = list(_LAZY)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name], __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
