"""What can go wrong, as one tree.

::

    VisionNMFError
    ├── ParameterError (also ValueError)      an argument has a value that is not allowed
    └── MediaError                            a file cannot be used
        ├── UnreadableError                   missing, empty, damaged, or not an image or a video
        ├── UnsupportedError                  readable, but of a kind that we refuse (NaN, float video, ...)
        ├── TooLargeError                     larger than the limits that protect the process
        └── OutputExistsError (also FileExistsError)   would overwrite, and was not told to
"""

__all__ = [
    "MediaError",
    "OutputExistsError",
    "ParameterError",
    "TooLargeError",
    "UnreadableError",
    "UnsupportedError",
    "VisionNMFError",
]


class VisionNMFError(Exception):
    """Base of every error that visionnmf raises on purpose; its message is one line for a person."""


class ParameterError(VisionNMFError, ValueError):
    """An argument has a value that is not allowed."""


class MediaError(VisionNMFError):
    """A file cannot be used as input or output."""


class UnreadableError(MediaError):
    """The file is missing, empty, damaged or not of a kind that can be read."""


class UnsupportedError(MediaError):
    """The file was read, but its content is of a kind that is refused."""


class TooLargeError(MediaError):
    """The file is larger than the limits that protect the process."""


class OutputExistsError(MediaError, FileExistsError):
    """The output exists already and overwriting was not asked for."""
