"""Faces: recognition, clustering and shadow removal, also with corrupted training images.

====================================  ==================================================================================
:class:`FaceRecognizer`               learn people from corrupted images, identify them on new ones, reject unknown ones
:func:`cluster_faces`                 group images by person, without names
:func:`remove_shadows`                images of one person under different light: the face, and its shadows
:func:`train`, :func:`add_person`     from a folder of images to a model file; a further person in a model file
:func:`identify`                      who is on an image
:func:`cluster`, :func:`unshadow`     a folder of images in groups; the images of a folder without shadows
:func:`save`, :func:`load`            model files: arrays with a JSON header, never pickle
====================================  ==================================================================================

Images are rows of grey values, from 0 to 255 or from 0 to 1. The application is that of Guan, Tao, Luo, Shawe-Taylor,
"MahNMF: Manhattan Non-negative Matrix Factorization", arXiv:1207.3438, 2012, section 5. The guide is ``docs/faces.md``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
