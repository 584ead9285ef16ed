"""Several views of the same samples: fit a model, find codes, fill in missing views.

========================  ==========================================================================
:func:`fit_views`         files of views in; a model file and a report out
:func:`transform_views`   a model file and views of new samples in; their codes out
:func:`impute_views`      likewise; all views out, with what was missing filled in
========================  ==========================================================================

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
