"""Words for photographs: learn from images that have words, and give words to others.

:func:`train` learns from a folder or a table of features and writes a model. :func:`annotate` gives words with scores,
and names the training images behind each word.
:class:`ImageAnnotator` is the model itself, for arrays.

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
