"""The former module of what commands share."""

from .console import say
from .console import set_verbosity as talk
from .input_paths import Input, expanded, make_folder
from .run import Run, running

__all__ = ["Input", "Run", "expanded", "make_folder", "running", "say", "talk"]
