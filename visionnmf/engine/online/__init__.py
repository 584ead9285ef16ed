"""Online methods, which improve the components with each batch of a stream and keep a state of bounded size.

Each method is one :class:`Method` record. Everything that lists methods derives from :data:`METHODS`.
"""

from . import manhattan, or_nmf, surrogate
from .record import Batch, Method, OnlineOptions, State

__all__ = ["METHODS", "Batch", "Method", "OnlineOptions", "State"]

METHODS: dict[str, Method] = {method.name: method for method in (manhattan.METHOD, surrogate.METHOD, *or_nmf.METHODS)}
