"""Video background and foreground masks, for a camera that stands still.

==============================  ====================================================================
:class:`BackgroundModel`        learn a background from frames (`fit`), separate frames by it (`apply`)
:class:`OnlineBackgroundModel`  the same for a stream, frame by frame
:func:`make_separator`          the same by the method of the MahNMF paper, to compare with
:func:`process_video`           read a video file; write background, masks and preview; return a report
:func:`follow_source`           read any source of frames; write a mask for each frame as it comes
==============================  ====================================================================

The settings of :func:`process_video` and :func:`follow_source` are the records of :mod:`.settings`. Importing this
package loads no numerical library; each name is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
