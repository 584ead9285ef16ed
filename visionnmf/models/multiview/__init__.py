"""NMF of several views of the same samples.

``views`` turns what a user gives into one :class:`~.views.Views` record, which all other modules take. ``components``
finds components and codes, and ``view_measures`` says how large views are, which are noise, and how well the model
explains them. The fit of plain arrays needs no more. The other modules are entered if they are asked for:
``missing_views`` predicts views that samples lack, and ``frames`` and ``dask_views`` take data frames and Dask arrays.
All modules hold pure functions; only :class:`MultiviewNMF` and :class:`~.classifier.ViewClassifier`, which predicts
classes from views and codes, keep a state.
"""

from .estimator import MultiviewNMF

__all__ = ["MultiviewNMF"]
