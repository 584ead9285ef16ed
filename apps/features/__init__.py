"""Features of images as a table: :func:`extract_features`, the command ``visionnmf features``.

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
