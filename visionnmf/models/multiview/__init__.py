"""NMF of several views of the same samples.

``views`` turns what a user gives into one :class:`~.views.Views` record, which all other modules take. ``fitting``
finds components and codes, ``scales`` how much each view counts, ``outliers`` the views that do not belong to their
samples, ``imputation`` what missing views probably hold, and ``usage`` which view uses which component. They are pure
functions; only :class:`MultiviewNMF` in ``estimator`` keeps a state.
"""

from .estimator import MultiviewNMF

__all__ = ["MultiviewNMF"]
