"""Learn components from a stream: a folder of images, a video, a file larger than memory, or standard input.

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
