"""Plots of models and results, in scikit-learn's form: a Display is made from what was found and draws itself.

Each class has a method `from_estimator`, `from_predictions` or `from_result`, which draws at once, and a method `plot`,
which draws into given axes. All return the display, whose attributes are the artists of matplotlib. Needs the extra
``plots``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
