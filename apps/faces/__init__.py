"""Faces: recognition, clustering and reconstruction with corrupted training sets.

====================================  ==================================================================================
:class:`FaceRecognizer`               learn people from corrupted images, name them on new ones, reject strangers
:func:`cluster_faces`                 group images by person, without names
:func:`remove_shadows`                images of one person under different light: the face, and what the shadows hide
:func:`train`, :func:`identify`       a folder of images in, a model file out; a model file and an image in, a name out
:func:`verify`, :func:`add_person`    two images: one person?; a further person in a model file
:func:`cluster`                       a folder in, groups out
:func:`unshadow`                      a folder in, the images without shadows out
:func:`evaluate`, :func:`compare`     methods on splits of a data set: parallel, resumable, CSV, curves
:func:`save`, :func:`load`            model files: arrays in ``.npz`` with a JSON header, never pickle
:func:`find_faces`, :func:`find_face` the faces on a photograph, or the largest
:func:`residual_picture`, ...         what was judged corrupted; components; shadows; accuracy against rank
====================================  ==================================================================================

Images are rows, grey, from 0 to 255 or from 0 to 1. The application is that of Guan, Tao, Luo, Shawe-Taylor, "MahNMF:
Manhattan Non-negative Matrix Factorization", arXiv:1207.3438, 2012, section 5; their rules of classification are
among :class:`FaceRecognizer`'s. ``docs/faces.md`` has the figures.
"""

from __future__ import annotations

from visionnmf.apps.drawing import components_picture
from visionnmf.metrics import clustering_accuracy, clustering_information

from .classifiers import ClassResidual, Nearest
from .clustering import Clustered, cluster
from .clusters import cluster_faces
from .comparison import Comparison, compare
from .detect import crop_face, find_face, find_faces, read_face, read_faces
from .draw import curves_picture, residual_picture, shadows_picture
from .evaluation import evaluate
from .identification import Identified, Identifier, identify
from .identity import Decomposition, Identity
from .model import FaceRecognizer
from .plan import Plan, parse_corruption, parse_ranks
from .shadows import Unshadowed, remove_shadows, unshadow
from .sources import open_faces
from .store import FaceModel, load, save
from .training import Trained, train
from .verification import Added, Verified, add_person, verify

__all__ = [
    "Added",
    "ClassResidual",
    "Clustered",
    "Comparison",
    "Decomposition",
    "FaceModel",
    "FaceRecognizer",
    "Identified",
    "Identifier",
    "Identity",
    "Nearest",
    "Plan",
    "Trained",
    "Unshadowed",
    "Verified",
    "add_person",
    "cluster",
    "cluster_faces",
    "clustering_accuracy",
    "clustering_information",
    "compare",
    "components_picture",
    "crop_face",
    "curves_picture",
    "evaluate",
    "find_face",
    "find_faces",
    "identify",
    "load",
    "open_faces",
    "parse_corruption",
    "parse_ranks",
    "read_face",
    "read_faces",
    "remove_shadows",
    "residual_picture",
    "save",
    "shadows_picture",
    "train",
    "unshadow",
    "verify",
]
