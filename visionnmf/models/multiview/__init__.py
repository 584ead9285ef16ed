"""NMF of several views of the same samples.

``views`` turns what a user gives into one :class:`~.views.Views` record, which all other modules take. ``fitting``
finds components and codes, also of views that samples lack or that do not belong to them, and ``view_weights`` chooses
how much each view counts. They are pure functions; only :class:`MultiviewNMF` keeps a state.
"""

from .estimator import MultiviewNMF

__all__ = ["MultiviewNMF"]
