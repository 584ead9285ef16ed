"""The names of the results of a run, and whether they may be written where they are asked for."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path

from visionnmf.apps.background.frame_arrays import Separated
from visionnmf.apps.background.settings import OutputSettings
from visionnmf.exceptions import PASS_FORCE, MediaError, OutputExistsError, ParameterError
from visionnmf.io import check_outputs, is_live, output_folder, pictures_of, write_image
from visionnmf.io.inputs import stem_of

from .event_table import EventTable

__all__ = ["MaskFolder", "ResultFiles"]


class ResultFiles:
    """The paths of the results of one run.

    The names begin with that of the source, ``NAME``. Where a live run resumes after `first_frame` frames, its tables
    and videos begin with ``NAME_from000120`` instead. `first_frame` is None for a batch.

    Attributes
    ----------
    background : Path
        The picture of the background.
    model : Path or None
        The model, where it is kept.
    videos : dict of str to Path
        The videos that are wanted: "background", "foreground", "preview", "overlay".
    masks : MaskFolder or None
        The folder of masks, where these are written as pictures.
    stem : Path
        What the names of the other files of this run begin with.
    """

    def __init__(
        self,
        source: str | Path,
        out: Path,
        outputs: OutputSettings,
        *,
        first_frame: int | None = None,
        keep_model: bool = False,
    ) -> None:
        self._source, self._out, self._outputs = source, out, outputs
        live, resumed = first_frame is not None, bool(first_frame)
        name = stem_of(source)
        self.stem = out / (f"{name}_from{first_frame:06d}" if resumed else name)
        self.background = out / f"{name}_background.png"
        self.model = out / f"{name}_model.npz" if keep_model else None
        self._replaces_background = outputs.force or resumed
        masks = outputs.masks or (None if live else "ffv1")
        if not (live or outputs.videos):
            masks = None
        names = {"background": "mp4", "preview": "mp4"} if outputs.videos and not live else {}
        if masks in ("ffv1", "h264"):
            names["foreground"] = "mkv" if masks == "ffv1" else "mp4"
        if outputs.overlay:
            names["overlay"] = "mp4"
        self.videos = {kind: self._named(f"{kind}.{suffix}") for kind, suffix in names.items()}
        self.masks = None
        if masks == "png":
            self.masks = MaskFolder(out / f"{name}_masks", force=self._replaces_background)
        self.frame_table = self._named(f"frames.{outputs.frame_table}") if outputs.frame_table else None
        self.coco = self._named("coco.json") if outputs.coco else None

    def _named(self, ending: str) -> Path:
        return self.stem.with_name(f"{self.stem.name}_{ending}")

    def check(self, written: Sequence[Path] | None = None) -> None:
        """Refuse to overwrite the input or, unless that is allowed, other files.

        `written` replaces the names of tables and events by what was written, when the check is repeated.
        """
        tables = written
        if tables is None:
            tables = EventTable.paths(self.stem) if self._outputs.finds_events else []
            tables = [*tables, *(path for path in (self.frame_table, self.coco) if path is not None)]
        inputs = _input_files(self._source, self._out, numbered=self.masks is not None)
        check_outputs([self.background], self._replaces_background, inputs=inputs)
        models = [] if self.model is None else [self.model]
        check_outputs([*models, *self.videos.values(), *tables], self._outputs.force, inputs=inputs)

    def listed(self, written: Sequence[Path]) -> list[str]:
        """Return all results as a report lists them; `written` are the tables and events."""
        folder = None if self.masks is None else self.masks.folder
        found = [self.background, self.model, *self.videos.values(), folder, *written]
        return [str(path) for path in found if path is not None]


class MaskFolder:
    """Masks as pictures, ``000000.png`` and so on, by the numbers of their frames.

    Raises OutputExistsError if there are files in the folder and `force` is false, and MediaError if it is a file.
    """

    def __init__(self, folder: Path, *, force: bool) -> None:
        self.folder, self._force = folder, force
        if os.path.lexists(folder) and not folder.is_dir():
            raise MediaError(f"{folder}: is not a folder; move it, or give another output folder")
        if not force and folder.is_dir() and any(folder.iterdir()):
            raise OutputExistsError(f"{folder}: holds files already; {PASS_FORCE}")

    def write(self, part: Separated) -> None:
        """Write the mask of a frame."""
        output_folder(self.folder)
        write_image(self.folder / f"{part.index:06d}.png", part.mask, force=self._force)

    def clear(self, first: int) -> None:
        """Remove the masks of an earlier run from number `first` on."""
        found = self.folder.iterdir() if self.folder.is_dir() else ()
        for path in list(found):
            if re.fullmatch(r"[0-9]{6,}\.png", path.name) and int(path.stem) >= first:
                path.unlink(missing_ok=True)


def _input_files(source: str | Path, out: Path, *, numbered: bool) -> list[str]:
    """Return the files of a source; refuse an `out` where results would be among its pictures the next time."""
    pictures = [] if is_live(source) else pictures_of(source)
    folders = {os.path.realpath(os.path.dirname(picture)) for picture in pictures}
    if pictures and (os.path.realpath(out) in folders or _would_match(str(source), out, numbered)):
        raise ParameterError(
            f"out must not be a folder of the pictures of {source}, where results would be frames the next time; "
            f"got {out}; give another"
        )
    return pictures or [str(source)]


def _would_match(pattern: str, out: Path, numbered: bool) -> bool:
    """Whether a pattern (``**`` for any number of folders) would find pictures in a folder that may not exist yet."""
    if not glob.has_magic(pattern) or os.path.isdir(pattern):
        return False
    parts = Path(os.path.abspath(pattern)).parts
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    folder = Path(os.path.realpath(Path(*parts[:fixed])))
    names = [f"{stem_of(pattern)}_background.png"]
    if numbered:
        is_found = re.compile(fnmatch.translate(parts[-1].lower())).match
        masks = (f"{number:06d}.png" for number in range(1_000_000))
        names += [f"{stem_of(pattern)}_masks/{name}" for name in [next(filter(is_found, masks), None)] if name]
    found = (Path(os.path.realpath(out), name) for name in names)
    return any(path.is_relative_to(folder) and _match(path.relative_to(folder).parts, parts[fixed:]) for path in found)


def _match(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether the parts of a path match the parts of a pattern."""
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_match(parts[start:], patterns[1:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatch(parts[0].lower(), patterns[0].lower()) and _match(parts[1:], patterns[1:])
