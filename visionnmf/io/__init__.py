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

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
