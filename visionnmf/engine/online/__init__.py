"""Online methods, which improve the components with each batch of a stream and keep a state of bounded size.

Each method is one :class:`Method` record in its own file. Everything that lists methods derives from :data:`METHODS`.
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
