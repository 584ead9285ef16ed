"""Image segmentation: an ultrametric tree of regions from learnt borders, and segments by symmetric NMF.

=======================  ==========================================================================
:func:`segment`          divides an image, given as an array, into segments; also returns the tree
:class:`Hierarchy`       the tree
:func:`overlay`          draws segments over their picture
:func:`to_coco`          segments as COCO's JSON; likewise :func:`to_geojson`, :func:`to_svg`, :func:`to_csv`
:func:`cut_out`          each segment as a picture of its own, transparent around it
:func:`paper_segments`   the MahNMF paper's method, recursive normalised cuts and spectral clustering, to compare with
:func:`process_image`    segments an image file, writes the results and returns a report
=======================  ==========================================================================

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
