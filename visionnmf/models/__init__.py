"""Thin scikit-learn estimators: they check the input, make a start, call the engine, and keep the result."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
