"""Online methods: the components improve with each batch of a stream, and what is kept of the past does not grow.

A method is one :class:`Method` in a file of its own, with all that is known about it; whatever lists methods follows
from :data:`METHODS`.
"""

from . import incremental, manhattan, onmf, onmf_is, or_nmf, surrogate
from .record import Method, Options, State

__all__ = ["METHODS", "Method", "Options", "State"]

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        manhattan.METHOD,
        *surrogate.METHODS,
        or_nmf.METHOD,
        *incremental.METHODS,
        onmf.METHOD,
        onmf_is.METHOD,
    )
}
