"""The exceptions of visionnmf, as one tree.

::

    VisionNMFError
    ├── ParameterError (also ValueError)      an argument has a value that is not allowed
    └── MediaError                            a file cannot be used
        ├── UnreadableError                   missing, empty, damaged, or not an image or a video
        ├── UnsupportedError                  readable, but of a kind that we refuse (NaN, float video, ...)
        ├── TooLargeError                     larger than the limits that protect the process
        └── OutputExistsError (also FileExistsError)   the output exists and overwriting was not asked for
            └── OutdatedError                 it was not made from this input with these settings
"""

__all__ = [
    "PASS_FORCE",
    "SET_BITS",
    "MediaError",
    "OutdatedError",
    "OutputExistsError",
    "ParameterError",
    "TooLargeError",
    "UnreadableError",
    "UnsupportedError",
    "VisionNMFError",
    "installed_by",
]


PASS_FORCE = "pass force=True to replace it"  # how messages of OutputExistsError end where that helps
SET_BITS = "set VISIONNMF_BITS, such as 12, in the environment"  # likewise for --bits


def installed_by(extra: str) -> str:
    """Return how messages about a missing optional library end; `extra` is a name of pyproject.toml.

    Examples
    --------
    >>> from visionnmf.exceptions import installed_by
    >>> installed_by("plots")
    '`sh setup.sh plots` installs it'
    """
    return f"`sh setup.sh {extra}` installs it"


class VisionNMFError(Exception):
    """Base of all exceptions that visionnmf raises on purpose. The message is one line for a person."""


class ParameterError(VisionNMFError, ValueError):
    """An argument has a value that is not allowed."""


class MediaError(VisionNMFError):
    """A file cannot be used as input or output."""


class UnreadableError(MediaError):
    """The file is missing, empty, damaged, or of a kind that cannot be read."""


class UnsupportedError(MediaError):
    """The file was read, but content of this kind is refused."""


class TooLargeError(MediaError):
    """The file is larger than the limits that protect the process."""


class OutputExistsError(MediaError, FileExistsError):
    """The output exists already, and overwriting was not asked for."""


class OutdatedError(OutputExistsError):
    """The output that exists was not made from this input with these settings."""
