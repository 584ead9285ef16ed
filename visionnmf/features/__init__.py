"""From images to what a model can factorise: extractors with one signature, and the checking of images.

An extractor is a scikit-learn transformer: after ``fit(images)``, ``transform(images)`` returns one row of
non-negative float32 for each image. `images` is a list of arrays or files of any sizes, grey or colour. :data:`KINDS`
is the table of extractors, :func:`make_extractor` makes one of them, and :class:`FeatureExtraction` uses several side
by side and knows which columns belong to which.

Images become 8-bit RGB. An image of more than `max_pixels` is first averaged down to so many pixels.

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
