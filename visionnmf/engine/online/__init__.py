"""Online methods: the components improve with each batch of a stream, and what is kept of the past does not grow.

A method is one :class:`Method` in a file of its own, with all that is known about it; whatever lists methods follows
from :data:`METHODS`.
"""

from . import manhattan, surrogate
from .record import Method, Options, State

__all__ = ["METHODS", "Method", "Options", "State"]

METHODS: dict[str, Method] = {method.name: method for method in (manhattan.METHOD, surrogate.METHOD)}
