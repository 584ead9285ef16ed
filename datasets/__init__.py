"""Data sets: generated ones with known truth, faces, and readers for research data on this machine.

Functions ``make_*`` generate data from a seed. Functions ``fetch_*`` download a research data set on their first call
and keep it in :func:`cache_folder`.

========================================  ====================================================================
:func:`make_corrupted_low_rank`           a non-negative low-rank matrix, clean and corrupted
:func:`make_surveillance`                 a clip of a fixed camera, its background and its masks
:func:`iter_surveillance`                 the same clip frame by frame, for clips larger than memory
:func:`make_mosaic`                       an image of textured regions and its segmentation
:func:`make_views`                        views of the same samples with shared and private parts
:func:`corrupt`                           images with blocks, noise or dead lines; `CORRUPTIONS` lists the kinds
:func:`load_faces`                        faces from a folder, a .npz or a .mat file, as :class:`Faces`
:func:`fetch_orl`                         the ORL faces
:func:`fetch_yale`                        the Yale faces
:func:`fetch_yaleb`                       the Extended Yale B faces
========================================  ====================================================================

Importing this package loads no numerical library; each name is loaded when first used.
"""

if __name__ != "visionnmf.datasets":
    raise ImportError("import this package as visionnmf.datasets, not by the name of its folder")

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
