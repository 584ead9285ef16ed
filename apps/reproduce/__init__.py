"""The tables and figures of the papers, repeated: :func:`reproduce`, the command ``visionnmf reproduce``.

=====================  ==========================================================================
:func:`reproduce`      runs tables and figures, and compares them with the papers'
:func:`list_items`     all tables and figures, and which of them can be repeated here
:class:`Experiment`    one table or figure; :mod:`.registry` says how one is added
=====================  ==========================================================================

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
