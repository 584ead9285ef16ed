"""Read samples in chunks, for data that do not fit into memory or never end.

=====================  ===============================================================================================
source                 samples
=====================  ===============================================================================================
array                  rows; NumPy, memory map, SciPy sparse, pandas, Dask; also anything with a shape that
                       returns rows when it is sliced, such as ``h5py.Dataset`` and ``zarr.Array``
``*.npy``              rows of the array; a chunk at a time is mapped into memory
folder                 its images and the frames of its videos, grey, 0 to 1
video file             its frames, grey, 0 to 1
``*.csv``, ``*.txt``   lines of numbers, separated by commas, semicolons or blanks
``"-"``                the same from standard input
iterable               rows of its items, which are arrays
=====================  ===============================================================================================

The first axis of an array with more than two axes counts the samples, the other axes are features: a stack of images
has the shape (n_images, height, width). :func:`open_chunks` opens any of these sources. Memory holds one chunk,
however long the source is.
"""

from .base import Chunks
from .opening import open_chunks

__all__ = ["Chunks", "open_chunks"]
