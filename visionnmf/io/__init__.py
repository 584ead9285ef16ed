"""Images and video in and out: the one place where files are opened.

==========================================  ================================================================
:func:`read_image`, :func:`write_image`     one picture as an array (height, width, 3), uint8 or uint16, RGB
:class:`VideoReader`, :class:`VideoWriter`  frames (height, width, 3), uint8, RGB, one at a time
:func:`sample_frames`                       evenly spaced frames of a clip of unknown length, in one pass
:func:`expand_inputs`                       files, patterns and ``sample:`` names of a command line
:func:`check_outputs`, :func:`output_file`  outputs are written whole or not at all, and never over an input
==========================================  ================================================================

Files come from strangers. What cannot be used raises a :class:`~visionnmf.exceptions.MediaError` of one line; sizes are
checked before pixels are decoded; nothing is returned that was only partly decoded without saying so.
"""

from .images import read_image, sample_names, write_image
from .inputs import check_outputs, expand_inputs, output_file
from .video import VideoReader, sample_frames
from .video_writer import VideoWriter

__all__ = [
    "VideoReader",
    "VideoWriter",
    "check_outputs",
    "expand_inputs",
    "output_file",
    "read_image",
    "sample_frames",
    "sample_names",
    "write_image",
]
