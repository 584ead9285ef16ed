"""Open files; all reading and writing of visionnmf happens in this package.

===========================  =========================================================================================
:func:`read_image`           one upright picture as RGB (height, width, 3), uint8 or uint16
:func:`decode_image`         the same from bytes
:func:`write_image`          write a picture (height, width[, 3 or 4]), uint8 or uint16, as PNG
:func:`sample_names`         the names of ``sample:NAME``
:func:`to_grey8`             a picture as grey (height, width), uint8
:func:`resize_grey`          a grey picture in another size
:class:`VideoReader`         the frames of a video file, (height, width, 3), uint8, RGB, one at a time
:class:`PictureSequence`     the pictures of a folder or a pattern as frames
:class:`LiveReader`          frames from standard input, a URL or a camera, which can be read once
:func:`open_video`           the one of these three readers that suits a source
:class:`VideoWriter`         write frames as H.264 or lossless
:func:`cut_video`            copy parts of a video without encoding again
:func:`sample_frames`        evenly spaced frames (n, height, width, 3) of a clip of unknown length, in one pass
:func:`read_arrays`          arrays by name from an ``.npz`` file
:func:`write_arrays`         write arrays by name
:func:`write_csv`            write a table that spreadsheets can open without running formulas
:class:`CsvWriter`           the same row by row, into an open file
:func:`read_mat`             matrices, cells and structures by name from a MATLAB file of versions 5 to 7
:func:`read_keywords`        the keywords of a photograph from IPTC, XMP and sidecars
:func:`write_sidecar`        write keywords as an XMP sidecar
:func:`expand_inputs`        the files, patterns and ``sample:`` names of a command line
:func:`find_files`           the files of a folder with certain suffixes
:func:`is_live`              whether a source can be read only once
:func:`pictures_of`          the pictures of a folder or a pattern in natural order
:func:`place_results`        a folder for the results of each input, so that no two have the same path
:func:`stem_of`              the beginning of the names of an input's results
:func:`regular_file`         check that a path is a readable file
:func:`check_memory`         refuse what the free memory cannot hold
:func:`check_outputs`        refuse to overwrite files, before any work
:func:`check_outside`        refuse to write results among the inputs
:func:`output_file`          write one file, whole or not at all
:func:`transaction`          write several files, all or none
:func:`output_folder`        create a folder for outputs
===========================  =========================================================================================

Files can come from anybody. A file that cannot be used raises a :class:`~visionnmf.exceptions.MediaError` of one line,
sizes are checked before anything is decoded, and what was only partly decoded is never returned without saying so.

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from visionnmf._lazy import lazy_names

if TYPE_CHECKING:
    from .archive import read_arrays as read_arrays
    from .archive import write_arrays as write_arrays
    from .images import decode_image as decode_image
    from .images import read_image as read_image
    from .images import sample_names as sample_names
    from .images import write_image as write_image
    from .inputs import check_memory as check_memory
    from .inputs import expand_images as expand_images
    from .inputs import expand_inputs as expand_inputs
    from .inputs import find_files as find_files
    from .inputs import is_live as is_live
    from .inputs import pictures_of as pictures_of
    from .inputs import place_results as place_results
    from .inputs import regular_file as regular_file
    from .inputs import stem_of as stem_of
    from .keywords import clean_words as clean_words
    from .keywords import read_keywords as read_keywords
    from .keywords import sidecar_of as sidecar_of
    from .keywords import write_sidecar as write_sidecar
    from .matlab_files import read_mat as read_mat
    from .outputs import check_outputs as check_outputs
    from .outputs import check_outside as check_outside
    from .outputs import output_file as output_file
    from .outputs import output_folder as output_folder
    from .outputs import transaction as transaction
    from .pixel_conversion import resize_grey as resize_grey
    from .pixel_conversion import to_grey8 as to_grey8
    from .tables import CsvWriter as CsvWriter
    from .tables import write_csv as write_csv
    from .video.cutting import Cut as Cut
    from .video.cutting import cut_video as cut_video
    from .video.live import LiveReader as LiveReader
    from .video.opening import open_video as open_video
    from .video.picture_sequence import PictureSequence as PictureSequence
    from .video.reader import VideoReader as VideoReader
    from .video.reader import sample_frames as sample_frames
    from .video.writer import VideoWriter as VideoWriter

_MODULES = {
    "archive": ["read_arrays", "write_arrays"],
    "images": ["decode_image", "read_image", "sample_names", "write_image"],
    "inputs": [
        "check_memory",
        "expand_images",
        "expand_inputs",
        "find_files",
        "is_live",
        "pictures_of",
        "place_results",
        "regular_file",
        "stem_of",
    ],
    "keywords": ["clean_words", "read_keywords", "sidecar_of", "write_sidecar"],
    "matlab_files": ["read_mat"],
    "outputs": ["check_outputs", "check_outside", "output_file", "output_folder", "transaction"],
    "pixel_conversion": ["resize_grey", "to_grey8"],
    "tables": ["CsvWriter", "write_csv"],
    "video.cutting": ["Cut", "cut_video"],
    "video.live": ["LiveReader"],
    "video.opening": ["open_video"],
    "video.picture_sequence": ["PictureSequence"],
    "video.reader": ["VideoReader", "sample_frames"],
    "video.writer": ["VideoWriter"],
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES)
