"""The work of ``visionnmf segment``: read an image, segment it, write what was found."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices, io
from visionnmf._checks import check_choice
from visionnmf.apps.report import Report
from visionnmf.exceptions import PASS_FORCE, OutputExistsError, UnsupportedError

from .draw import draw_beside, paint
from .formats import cut_out, to_coco, to_csv, to_geojson, to_svg
from .model import SegmentationResult, segment

__all__ = [
    "PaperReport",
    "SegmentationReport",
    "join_coco",
    "joined_files",
    "process_image",
    "process_paper",
    "read_markers",
]


PAPER_SEGMENTS = 5
JOINED = ("coco", "coco-polygons")  # formats of which a file may hold many images
WORKING = 40  # bytes a pixel beside the picture, as measured at 99 megapixels
MOST_COLOURS = 101  # of a picture of markers, its ground among them


@dataclass(frozen=True)
class SegmentationReport(Report):
    """What :func:`process_image` did; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    shape : tuple of int
        Height and width in pixels.
    sizes : list of int
        Pixels of segment 0, 1, ...
    scale : float
        Where the tree of regions was cut, 0 to 1.
    n_regions : int
        Regions of which the tree is made.
    seconds : float
        Time from reading to the last file.
    """

    shape: tuple[int, int]
    sizes: list[int]
    scale: float
    n_regions: int
    seconds: float

    def _figures(self) -> dict[str, Any]:
        return {
            "input": self.inputs[0],
            "shape": list(self.shape),
            "segments": [{"label": label, "pixels": pixels} for label, pixels in enumerate(self.sizes)],
            "scale": round(self.scale, 4),
            "regions": self.n_regions,
            "seconds": round(self.seconds, 3),
            "files": self.outputs,
        }

    def summary(self) -> str:
        """Return the report for a person.

        Returns
        -------
        str
            One line.
        """
        height, width = self.shape
        shares = ", ".join(f"{100 * size / (height * width):.0f}" for size in self.sizes[:10])
        more = ", ..." if len(self.sizes) > 10 else ""
        plural = "" if len(self.sizes) == 1 else "s"
        first, rest = self.outputs[:4], self.outputs[4:]
        return (
            f"{self.inputs[0]}: {width} x {height} pixels, {len(self.sizes)} segment{plural} ({shares}{more} %), "
            f"{self.seconds:.1f} s -> {' '.join(first)}" + (f" and {len(rest)} more" if rest else "")
        )


@dataclass(frozen=True)
class PaperReport(Report):
    """What :func:`process_paper` did; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    shape : tuple of int
        Height and width in pixels.
    sizes : dict of str to list of int
        Pixels of segment 0, 1, ... of each method.
    seconds : float
        Time from reading to the last file.
    """

    shape: tuple[int, int]
    sizes: dict[str, list[int]]
    seconds: float

    def _figures(self) -> dict[str, Any]:
        return {
            "input": self.inputs[0],
            "shape": list(self.shape),
            "methods": self.sizes,
            "seconds": round(self.seconds, 3),
            "files": self.outputs,
        }

    def summary(self) -> str:
        """Return the report for a person.

        Returns
        -------
        str
            One line.
        """
        height, width = self.shape
        counts = ", ".join(f"{name} {len(sizes)} segments" for name, sizes in self.sizes.items())
        return (
            f"{self.inputs[0]}: {width} x {height} pixels, {counts}, {self.seconds:.1f} s -> {' '.join(self.outputs)}"
        )


FORMATS: dict[str, tuple[str, Callable[[str, SegmentationResult], str]]] = {
    "coco": ("coco.json", lambda name, result: json.dumps(to_coco([(name, result)]))),
    "coco-polygons": ("coco_polygons.json", lambda name, result: json.dumps(to_coco([(name, result)], polygons=True))),
    "geojson": ("segments.geojson", lambda _, result: json.dumps(to_geojson(result))),
    "svg": ("segments.svg", lambda _, result: to_svg(result)),
    "csv": ("segments.csv", lambda _, result: to_csv(result)),
    "json": ("segments.json", lambda name, result: json.dumps(_table(name, result), indent=1)),
}
"""By name, as :data:`visionnmf.choices.SEGMENT_FORMATS` lists them: how a file's name ends, and its content."""


def process_image(
    source: str | Path,
    *,
    n_segments: int | None = None,
    scale: float | None = None,
    markers: str | Path | None = None,
    correct: bool = False,
    formats: Sequence[str] = (),
    cutouts: bool = False,
    out: str | Path = ".",
    force: bool = False,
) -> SegmentationReport:
    """Segment a file; write ``<stem>_labels.png``, ``_segments``, ``_overlay`` and ``_boundaries``, all or none.

    Parameters
    ----------
    source : str or Path
        A picture, or ``sample:NAME``.
    n_segments : int, optional
    scale : float, optional
        As in :func:`.segment`.
    markers : str or Path, optional
        A picture of the image's size on which pixels are marked: its most frequent colour is where nothing is, each
        other one a marker. They are numbered by red, then green, then blue.
    correct : bool, default=False
        Whether markers correct the segments at the default scale; so they do wherever `n_segments` or `scale` is given.
        Else all of the image is divided among them.
    formats : sequence of str, default=()
        What is written besides: some of "coco" (run lengths), "coco-polygons", "geojson", "svg", "csv" and "json".
    cutouts : bool, default=False
        Whether each segment is written as a picture of its own, ``<stem>_cutouts/<stem>_<label>.png``.
    out : str or Path, default="."
        Folder for the results; made if missing.
    force : bool, default=False
        Overwrite results that exist already; cut-outs of before are removed.

    Returns
    -------
    SegmentationReport
        What was found and written.

    Raises
    ------
    MediaError
        If the picture cannot be read, or the results cannot or may not be written.
    ParameterError
        As in :func:`.segment`, or if a format is not known.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io import write_image
    >>> write_image("photo.png", np.full((8, 9, 3), 200, np.uint8), force=True)
    >>> from visionnmf.apps.segmentation import process_image
    >>> process_image("photo.png", n_segments=1, force=True).outputs[0]
    'photo_labels.png'
    """
    begin = time.perf_counter()
    name, stem = str(source), _stem(source)
    wanted = list(dict.fromkeys(check_choice(entry, "formats", choices.SEGMENT_FORMATS) for entry in formats))
    folder = Path(out)
    pictures = [folder / f"{stem}_{kind}.png" for kind in ("labels", "segments", "overlay", "boundaries")]
    texts = [folder / f"{stem}_{FORMATS[entry][0]}" for entry in wanted]
    io.check_outputs([*pictures, *texts], force, inputs=[source, *([] if markers is None else [markers])])
    before = _cutouts_before(folder, stem, force) if cutouts else []
    image = io.read_image(source)
    io.check_memory(name, WORKING * image.shape[0] * image.shape[1])
    marked = None if markers is None else read_markers(markers)
    by_itself = correct and n_segments is None and scale is None
    result = segment(image, n_segments, scale=scale, markers=None if by_itself else marked)
    if by_itself and marked is not None:
        result = result.recut(scale=result.scale, markers=marked)
    io.output_folder(folder)
    with io.transaction():
        for file, picture in zip(pictures, _pictures(result), strict=True):
            io.write_image(file, picture, force=force)
        for file, entry in zip(texts, wanted, strict=True):
            _write(file, FORMATS[entry][1](Path(name).name, result), force)
        alone = _write_cutouts(folder, stem, result, force) if cutouts else []
    for file in set(before) - set(alone):
        file.unlink(missing_ok=True)
    return SegmentationReport(
        shape=result.labels.shape,
        sizes=result.sizes.tolist(),
        scale=result.scale,
        n_regions=result.hierarchy.n_regions,
        seconds=time.perf_counter() - begin,
        inputs=[name],
        outputs=[str(file) for file in (*pictures, *texts, *alone)],
    )


def process_paper(
    source: str | Path, *, n_segments: int | None = None, out: str | Path = ".", force: bool = False
) -> PaperReport:
    """Segment a file as the paper of MahNMF does, and as the methods it is compared with do.

    Writes ``<stem>_paper.png``, the picture and the segments of each method side by side, and their labels as
    ``<stem>_paper_<method>.png``, all or none.

    Parameters
    ----------
    source : str or Path
        A picture, or ``sample:NAME``.
    n_segments : int, optional
        5 when not given.
    out : str or Path, default="."
        Folder for the results; made if missing.
    force : bool, default=False
        Overwrite results that exist already.

    Returns
    -------
    PaperReport

    Raises
    ------
    MediaError
        If the picture cannot be read, or the results cannot or may not be written.
    ParameterError
        As in :func:`.paper_segments`.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io import write_image
    >>> write_image("photo.png", np.full((8, 9, 3), 200, np.uint8), force=True)
    >>> from visionnmf.apps.segmentation import process_paper
    >>> write_image("noise.png", np.random.default_rng(0).integers(0, 255, (12, 12, 3), np.uint8), force=True)
    >>> len(process_paper("noise.png", n_segments=2, force=True).outputs) > 2
    True
    """
    begin = time.perf_counter()
    name, stem, folder = str(source), _stem(source), Path(out)
    files = [folder / f"{stem}_paper{kind}.png" for kind in ("", *(f"_{method}" for method in choices.PAPER_METHODS))]
    io.check_outputs(files, force, inputs=[source])
    from .paper import paper_segments  # loads scikit-learn, which segments alone do not need

    image = io.read_image(source)
    wanted = PAPER_SEGMENTS if n_segments is None else n_segments
    labels = {method: paper_segments(image, wanted, method=method) for method in choices.PAPER_METHODS}
    io.output_folder(folder)
    with io.transaction():
        io.write_image(files[0], draw_beside(image, labels), force=force)
        for file, found in zip(files[1:], labels.values(), strict=True):
            io.write_image(file, found.astype(np.uint16), force=force)
    return PaperReport(
        shape=image.shape[:2],
        sizes={method: np.bincount(found.ravel()).tolist() for method, found in labels.items()},
        seconds=time.perf_counter() - begin,
        inputs=[name],
        outputs=[str(file) for file in files],
    )


def _stem(source: str | Path) -> str:
    name = str(source)
    return name.removeprefix("sample:") if name.startswith("sample:") else Path(name).stem


def read_markers(file: str | Path) -> NDArray[np.int64]:
    """Read marked pixels from a picture.

    Parameters
    ----------
    file : str or Path
        As in :func:`process_image`.

    Returns
    -------
    ndarray of int64 [shape=(height, width), >= 0]
        0 where nothing is marked; markers count from 1.

    Raises
    ------
    MediaError
        If it cannot be read, has one colour only, or so many that its lines are smooth.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a transparent picture with lines on it is meant
        picture = io.read_image(file).astype(np.int64)
    names, index, counts = np.unique(picture @ [2**32, 2**16, 1], return_inverse=True, return_counts=True)
    if not 1 < len(names) <= MOST_COLOURS:
        raise UnsupportedError(
            f"{file}: {len(names)} different colours; markers are 1 to {MOST_COLOURS - 1} colours on an even ground; "
            "draw with a hard pencil, and save as PNG"
        )
    ground = counts.argmax()
    numbers = np.insert(np.arange(1, len(names)), ground, 0)
    return np.asarray(numbers[index].reshape(picture.shape[:2]), np.int64)


def joined_files(formats: Sequence[str], out: str | Path) -> list[Path]:
    """Name the files that :func:`join_coco` writes.

    Parameters
    ----------
    formats : sequence of str
    out : str or Path
        As in :func:`process_image`.

    Returns
    -------
    list of Path
        ``coco.json`` and ``coco_polygons.json``, of those that are wanted.

    Examples
    --------
    >>> from visionnmf.apps.segmentation import joined_files
    >>> [path.name for path in joined_files(["coco"], ".")]
    ['coco.json']
    """
    return [Path(out) / FORMATS[entry][0] for entry in JOINED if entry in formats]


def join_coco(
    reports: Sequence[SegmentationReport], formats: Sequence[str], out: str | Path, *, force: bool = False
) -> list[Path]:
    """Join the COCO files of several images: programs take one for a folder.

    Parameters
    ----------
    reports : sequence of SegmentationReport
        Of :func:`process_image`.
    formats : sequence of str
        With which it was called.
    out : str or Path
        Folder for the results.
    force : bool, default=False
        Overwrite them.

    Returns
    -------
    list of Path
        The files written, none for less than two images.

    Raises
    ------
    MediaError
        If they cannot or may not be written.

    Examples
    --------
    >>> from visionnmf.apps.segmentation import join_coco, process_image
    >>> from visionnmf.io import write_image
    >>> import numpy as np
    >>> for name in ("a", "b"):
    ...     write_image(f"{name}.png", np.full((8, 9, 3), 200, np.uint8), force=True)
    >>> reports = [process_image(f"{name}.png", n_segments=1, formats=["coco"], force=True) for name in ("a", "b")]
    >>> [path.name for path in join_coco(reports, ["coco"], ".", force=True)]
    ['coco.json']
    """
    if len(reports) < 2:
        return []
    written = joined_files(formats, out)
    for target in written:
        names = [Path(file) for report in reports for file in report.outputs if file.endswith(f"_{target.name}")]
        joined, *documents = (json.loads(name.read_text("utf-8")) for name in names)
        for document in documents:
            n_images, n_annotations = len(joined["images"]), len(joined["annotations"])
            for image in document["images"]:
                joined["images"].append(image | {"id": image["id"] + n_images})
            for entry in document["annotations"]:
                ids = {"id": entry["id"] + n_annotations, "image_id": entry["image_id"] + n_images}
                joined["annotations"].append(entry | ids)
        _write(target, json.dumps(joined), force)
    return written


def _pictures(result: SegmentationResult) -> tuple[NDArray[Any], ...]:
    return (
        result.labels.astype(np.uint16),
        paint(result.labels, len(result.sizes)),
        result.overlay(),
        np.rint(result.boundaries * 65535).astype(np.uint16),
    )


def _write(file: Path, text: str, force: bool) -> None:
    with io.output_file(file, force=force) as temporary:
        temporary.write_text(text, "utf-8")


def _table(name: str, result: SegmentationResult) -> dict[str, Any]:
    return {
        "image": name,
        "shape": list(result.labels.shape),
        "scale": result.scale,
        "segments": result.properties(),
        "adjacency": result.adjacency.tolist(),
    }


def _cutouts_before(out: Path, stem: str, force: bool) -> list[Path]:
    """List the cut-outs of an earlier run; refuse them unless they may be replaced."""
    folder = out / f"{stem}_cutouts"
    found = [file for file in folder.glob("*.png") if file.stem.removeprefix(f"{stem}_").isdecimal()]
    if found and not force:
        raise OutputExistsError(f"{folder}: holds cut-outs already; {PASS_FORCE}")
    return found


def _write_cutouts(out: Path, stem: str, result: SegmentationResult, force: bool) -> list[Path]:
    folder = io.output_folder(out / f"{stem}_cutouts")
    files = [folder / f"{stem}_{label}.png" for label in range(len(result.sizes))]
    for file, picture in zip(files, cut_out(result), strict=True):
        io.write_image(file, picture, force=force)
    return files
