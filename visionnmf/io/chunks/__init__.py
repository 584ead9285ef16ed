"""Data by chunks: what does not fit into memory, or never ends, as rows that come one chunk after the other.

=====================  ===============================================================================================
source                 what its samples are
=====================  ===============================================================================================
array                  rows; NumPy, memory map, SciPy sparse, pandas, Dask, ``h5py.Dataset``, ``zarr.Array``
``*.npy``              rows of the array; memory-mapped a chunk at a time
``*.h5``, ``*.hdf5``   rows of a dataset (``pip install 'visionnmf[hdf5]'``)
``*.zarr``             rows of an array (``pip install 'visionnmf[zarr]'``)
folder                 its images and the frames of its videos, grey, 0 to 1
video file             its frames, grey, 0 to 1
``*.csv``, ``*.txt``   lines of numbers between commas, semicolons or blanks
``"-"``                the same on standard input
iterable               rows of its items, which are arrays
=====================  ===============================================================================================

Of an array with more than two axes the first counts the samples, the others are features: a stack of images is
(n_images, height, width).

:func:`open_chunks` makes one of the classes below of any of them. Memory holds one chunk, however long the source.
"""

from .base import Chunks, Indexed, Sequential
from .opening import open_chunks

__all__ = ["Chunks", "Indexed", "Sequential", "open_chunks"]
