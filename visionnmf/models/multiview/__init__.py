"""NMF of several views of the same samples.

``views`` turns what a user gives into one :class:`~.views.Views` record, which all other modules take. ``components``
finds components and codes, ``outlying_views`` finds views that do not belong to their samples, ``missing_views``
predicts those that samples lack, and ``view_weights`` chooses how much each view counts. They are pure functions; only
:class:`MultiviewNMF` keeps a state.
"""

from .estimator import MultiviewNMF

__all__ = ["MultiviewNMF"]
