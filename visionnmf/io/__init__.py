"""Open files; all reading and writing of visionnmf happens in this package.

===========================  =========================================================================================
:func:`read_image`           one upright picture as RGB (height, width, 3), uint8 or uint16
:func:`write_image`          write a picture (height, width[, 3 or 4]), uint8 or uint16, as PNG
:func:`sample_names`         the names of ``sample:NAME``
:class:`VideoReader`         the frames of a video file, (height, width, 3), uint8, RGB, one at a time
:class:`PictureSequence`     the pictures of a folder or a pattern as frames
:class:`LiveReader`          frames from standard input, a URL or a camera, which can be read once
:func:`open_video`           the one of these three readers that suits a source
:class:`VideoWriter`         write frames as H.264 or lossless
:func:`cut_video`            copy parts of a video without encoding again
:func:`read_mat`             matrices, cells and structures by name from a MATLAB file of versions 4 to 7
:func:`write_csv`            write a table that spreadsheets can open without running formulas
:func:`read_keywords`        the keywords of a photograph from IPTC, XMP and sidecars
:func:`write_sidecar`        write keywords as an XMP sidecar
===========================  =========================================================================================

Files can come from anybody. A file that cannot be used raises a :class:`~visionnmf.exceptions.MediaError` of one line,
and what was only partly decoded is never returned without saying so. The command line decodes in a child process with
limits (:mod:`.decoding`); functions called from Python decode where they are called.

The other names are tools of visionnmf's own applications. Importing this package loads no numerical library; each name
is loaded when it is first used.
"""

import lazy_loader

_TOOLS = {
    *("check_outputs", "check_outside", "check_parents", "clean_words", "decode_image"),
    *("expand_images", "expand_inputs", "find_files", "is_live", "output_file", "output_folder", "pictures_of"),
    *("place_results", "read_arrays", "read_photograph", "regular_file", "resize_grey", "sidecar_of", "stem_of"),
    *("takes_files", "to_grey8", "together", "write_arrays"),
}
__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = [name for name in _names if name not in _TOOLS]
