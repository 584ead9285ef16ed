"""Open any source of frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visionnmf._text import without_password
from visionnmf.exceptions import ParameterError
from visionnmf.io.inputs import is_live, pictures_of

from .reader import PictureSequence, VideoReader

if TYPE_CHECKING:
    from .live import LiveReader


def open_video(
    source: str | Path,
    *,
    frame_rate: float | None = None,
    size: tuple[int, int] | None = None,
    pixel_format: str | None = None,
    until: Callable[[], bool] | None = None,
    **options: Any,
) -> VideoReader | PictureSequence | LiveReader:
    """Open a source of frames with the reader for its kind.

    Parameters
    ----------
    source : str or Path
        A video file; a folder or a pattern of pictures; ``"-"`` for standard input; a ``http(s)`` or ``rtsp(s)`` URL; a
        camera, ``"camera:0"`` or ``"/dev/video0"``.
    frame_rate : float, optional
        Frames per second of pictures and raw frames.
    size, pixel_format, until : (int, int), str, callable, optional
        As of :class:`.LiveReader`; the first two are for raw frames on standard input.
    **options
        `every`, `max_frames`, `scale`, `start` and `end`, as of :class:`.VideoReader`.

    Returns
    -------
    VideoReader, PictureSequence or LiveReader

    Raises
    ------
    MediaError
        If the source cannot be used.
    ParameterError
        If an argument is out of its range or does not apply to this kind of source.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from visionnmf.io import open_video, write_image
    >>> Path("frames").mkdir(exist_ok=True)
    >>> for number in (9, 10):
    ...     write_image(f"frames/{number}.png", np.full((8, 9, 3), number, np.uint8), force=True)
    >>> open_video("frames/*.png", frame_rate=5).declared_frames
    2
    """
    for name, value in {"size": size, "pixel_format": pixel_format}.items():
        if value is not None and source != "-":
            raise ParameterError(
                f"{name} must be None for {without_password(source)}; got {value}; it is of raw standard input"
            )
    if is_live(source):
        options |= {"size": size, "frame_rate": frame_rate, "pixel_format": pixel_format, "until": until}
        from .live import LiveReader  # not needed for files

        return LiveReader(str(source), **options)
    if pictures_of(source):
        return PictureSequence(source, frame_rate=frame_rate, **options)
    if frame_rate is not None:
        raise ParameterError(f"frame_rate must be None for {source}, which has its own; got {frame_rate:g}")
    return VideoReader(source, **options)
