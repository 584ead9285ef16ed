"""The work of ``visionnmf segment`` on a file: read an image, segment it, and write what was found."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices, io
from visionnmf._text import counted, sized
from visionnmf.apps.made import traceable
from visionnmf.apps.report import Report
from visionnmf.apps.settings import takes_records
from visionnmf.exceptions import PASS_FORCE, OutputExistsError, ParameterError, UnsupportedError
from visionnmf.io.inputs import stem_of

from .hierarchy import count_labels
from .overlays import OUTSIDE, draw_beside, draw_memberships, hexadecimal
from .segmenter import SegmentationResult, fewer_segments, segment
from .settings import FORMATS, Outputs, WantedSegments

PAPER_SEGMENTS = 5
LISTED = 12  # markers in a note
MOST_MIXED = 2000  # colours of a layer with smooth lines
SOFT = 3  # colours at smooth edges of lines, from which on a layer is refused
EDGE_SHARE = 0.9  # of a colour's pixels lie between a line and the background, if it is a smooth edge
MAX_COLOURS = 101  # in a picture of markers, its background included

Content = str | bytes | dict[str, Any] | NDArray[Any]


def _sixteen_bits(boundaries: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return values from 0 to 1 in 16 bits; they are changed in place, because pictures can be large."""
    boundaries *= 65535
    return np.rint(boundaries, out=boundaries).astype(np.uint16)


FOLDERS = ("cutouts", "memberships")  # outputs in a folder, with one picture for each segment

PICTURES: dict[str, Callable[[SegmentationResult], Content]] = {
    "labels": lambda result: result.labels.astype(np.uint16),
    "segments": lambda result: result.colours[result.labels],
    "overlay": lambda result: result.overlay(),
    "boundaries": lambda result: _sixteen_bits(result.hierarchy.boundary_map()),
}
"""The pictures that are always written, as ``<stem>_<name>.png``."""


@takes_records
@traceable
def process_image(
    source: str | Path,
    *,
    wanted: WantedSegments = WantedSegments(),
    outputs: Outputs = Outputs(),
    out: str | Path = ".",
    force: bool = False,
) -> Report:
    """Segment a file; write ``<stem>_labels.png``, ``_segments``, ``_overlay`` and ``_boundaries``, all or none.

    Parameters
    ----------
    source : str or Path
        A picture, or ``sample:NAME``.
    wanted : WantedSegments, optional
        Which segments are wanted, and by which method; as many as the picture has, when not given. The method "paper"
        is refused here; see :func:`.paper_segments`. Markers are read from a picture of the image's size: its most
        frequent colour, or 65535 in 16 bits of grey, is the background, each other colour a marker. Markers are
        numbered by red, then green, then blue. Without a number or a scale the whole image is divided among them; with
        one, or with "auto", they correct the segments found there.
    outputs : Outputs, optional
        What is written besides the four pictures.
    out : str or Path, default="."
        Folder for the results; made if missing.
    force : bool, default=False
        Overwrite results that exist already, and remove the cut-outs of an earlier run.

    Returns
    -------
    Report
        Its figures are ``shape`` (height and width in pixels), ``sizes`` (pixels of segment 0, 1, ...), ``scale`` (the
        strength of the last border that was removed, 0 to 1, at most the scale asked for; None if no tree was cut),
        ``n_regions`` (of which the tree is made) and ``seconds``.

    Raises
    ------
    MediaError
        If the picture cannot be read, or the results cannot or may not be written.
    ParameterError
        As in :func:`.segment`.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io import write_image
    >>> write_image("photo.png", np.full((8, 9, 3), 200, np.uint8), force=True)
    >>> from visionnmf.apps.segmentation import WantedSegments, process_image
    >>> process_image("photo.png", wanted=WantedSegments(n_segments=1), force=True).outputs[0]
    'photo_labels.png'
    """
    begin = time.perf_counter()
    name, stem, folder = str(source), stem_of(source), Path(out)
    if outputs.memberships and wanted.method != "nmf":  # only that gives memberships
        raise ParameterError(f"memberships must be left out with the method {wanted.method}; use the method nmf")
    files = {folder / f"{stem}_{ending}": make for ending, make in _contents(Path(name).name, outputs).items()}
    io.check_outputs([*files], force, inputs=[source, *([] if wanted.markers is None else [wanted.markers])])
    # Each of these has a folder with one picture for each segment. Pictures of an earlier run that this one does not
    # replace are removed at the end.
    folders = [folder / f"{stem}_{kind}" for kind in FOLDERS if getattr(outputs, kind)]
    earlier = [file for own in folders for file in _earlier_numbered(own, stem, force)]
    image = io.read_photograph(source)
    drawn = None if wanted.markers is None else read_markers(wanted.markers)
    if drawn is not None and drawn.numbers.shape != image.shape[:2]:
        raise UnsupportedError(
            f"{wanted.markers}: {sized(drawn.numbers.shape)}, and the image has {sized(image.shape)}; draw on a layer "
            "of its size"
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\d+ segments? in place of")  # a note says so
        result = segment(image, wanted.n_segments, method=wanted.method, loss=wanted.loss, scale=wanted.scale)
    markers: list[dict[str, Any]] = []
    notes = []
    if drawn is not None:
        result, markers = _corrected(result, drawn, wanted)
        notes = _marker_notes(markers)
    io.output_folder(folder)
    labels = np.asarray(PICTURES["labels"](result))
    with io.together():
        for file, make in files.items():
            write_content(file, labels if make is PICTURES["labels"] else make(result), force)
        each = [file for own in folders for file in _write_numbered(own, stem, result, force)]
    for file in set(earlier) - set(each):
        file.unlink(missing_ok=True)
    figures = {
        "shape": labels.shape,
        "sizes": count_labels(labels, len(result.sizes)).tolist(),
        "scale": result.scale,
        "n_regions": result.hierarchy.n_regions,
        "markers": markers,
        "seconds": time.perf_counter() - begin,
    }
    stale = [path for path in _all_results(folder, stem) if path not in files and path not in folders and path.exists()]
    earlier_notes = [f"of an earlier run: {', '.join(path.name for path in stale)}"] if stale else []
    fewer = fewer_segments(wanted, len(result.sizes))
    n, shares = len(result.sizes), [f"{100 * part:.0f}" for part in result.sizes[:10] / result.sizes.sum()]
    shares = ["<1" if share == "0" else share for share in shares]
    found = f"{counted(n, 'segment')} ({', '.join(shares)}{', ...' * (n > 10)} %)"
    return Report(
        figures=figures,
        lines=[_line(name, figures, found)],
        inputs=[name],
        outputs=[str(file) for file in (*files, *each)],
        notes=[*filter(None, [fewer]), *notes, *earlier_notes],
    )


def _all_results(folder: Path, stem: str) -> list[Path]:
    """Name the files and folders that a run with all outputs writes for a picture."""
    every = Outputs(formats=[*FORMATS], memberships=True)
    return [folder / f"{stem}_{ending}" for ending in (*_contents("", every), *FOLDERS)]


def _line(name: str, figures: dict[str, Any], found: str) -> str:
    """Return what was found in a picture, in words."""
    height, width = figures["shape"]
    return f"{name}: {width} x {height} pixels, {found}, {figures['seconds']:.1f} s"


def _corrected(
    found: SegmentationResult, drawn: DrawnMarkers, wanted: WantedSegments
) -> tuple[SegmentationResult, list[dict[str, Any]]]:
    """Return the segments divided by markers or corrected by them, and what the report says of each marker."""
    given = wanted.n_segments is not None or wanted.scale is not None  # otherwise markers divide the whole picture
    count = wanted.n_segments if isinstance(wanted.n_segments, int) else None
    scale = found.scale if given and count is None else None
    names = tuple(name.removeprefix("label ") for name in drawn.names)
    result = found.recut(n_segments=count, scale=scale, markers=drawn.numbers)
    result = replace(result, drawn=drawn.colours, marker_names=names)
    rows = []
    for place, name in enumerate(drawn.names):
        under = np.unique(found.labels[drawn.numbers == place + 1]).tolist()
        rows.append({"colour": name, "segment": place, "joined": under if given and len(under) > 1 else []})
    return result, rows


def _marker_notes(markers: list[dict[str, Any]]) -> list[str]:
    """Return a sentence about the segments of all colours, and one for each that joined some."""
    listed = ", ".join(f"{row['colour']} is segment {row['segment']}" for row in markers[:LISTED])
    listed += f", ... ({len(markers)} markers)" * (len(markers) > LISTED)
    joined = [f"{row['colour']} joined {len(row['joined'])} segments" for row in markers if row["joined"]]
    return [f"markers: {listed}", *joined]


@traceable
def process_paper(
    source: str | Path, *, n_segments: int | str | None = None, out: str | Path = ".", force: bool = False
) -> Report:
    """Segment a file by the method of the MahNMF paper and by the methods that it is compared with.

    Each makes `n_segments` segments, or 5 for None and "auto". Writes to the folder `out` ``<stem>_paper.png``, the
    picture and the segments of each method side by side, and the labels of each as ``<stem>_paper_<method>.png``, all
    or none.
    """
    begin = time.perf_counter()
    name, stem, folder = str(source), stem_of(source), Path(out)
    files = [folder / f"{stem}_paper{kind}.png" for kind in ("", *(f"_{method}" for method in choices.PAPER_METHODS))]
    io.check_outputs(files, force, inputs=[source])
    from .paper_method import paper_segments  # imports scikit-learn, which other runs do not need

    image = io.read_photograph(source)
    wanted = PAPER_SEGMENTS if n_segments is None or isinstance(n_segments, str) else n_segments
    labels = {method: paper_segments(image, wanted, method=method) for method in choices.PAPER_METHODS}
    io.output_folder(folder)
    with io.together():
        io.write_image(files[0], draw_beside(image, labels), force=force)
        for file, found in zip(files[1:], labels.values(), strict=True):
            io.write_image(file, found.astype(np.uint16), force=force)
    sizes = {method: count_labels(found, int(found.max()) + 1).tolist() for method, found in labels.items()}
    figures = {"shape": image.shape[:2], "sizes": sizes, "seconds": time.perf_counter() - begin}
    counts = ", ".join(f"{method} {counted(len(own), 'segment')}" for method, own in sizes.items())
    lines = [_line(name, figures, counts)]
    return Report(figures=figures, lines=lines, inputs=[name], outputs=[str(file) for file in files])


class DrawnMarkers(NamedTuple):
    """Markers in a picture: a number from 1 at each marked pixel, else 0; the name and the RGB of each one's colour."""

    numbers: NDArray[np.int64]
    names: list[str]
    colours: NDArray[np.uint8] | None  # None if they are the same in 8 bits, as in a label map of 16 bits


def read_markers(file: str | Path) -> DrawnMarkers:
    """Read marked pixels from a picture, as :func:`process_image` describes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a transparent picture with lines on it is expected here
        image = io.read_image(file)
    picture = image.astype(np.int64)
    # each colour as one number, red first; 2**16 exceeds every value of 8 or 16 bits
    names, index, counts = np.unique(picture @ [2**32, 2**16, 1], return_inverse=True, return_counts=True)
    index = index.reshape(picture.shape[:2])
    unmarked = OUTSIDE * (2**32 + 2**16 + 1)  # as 16 bits of grey have it in labels, where 0 is the first marker
    grey = image.dtype == np.uint16 and not (image != image[..., :1]).any()
    background = len(names) - 1 if grey and names[-1] == unmarked else int(counts.argmax())
    codes = names.astype(np.int64)
    channels = np.stack([codes >> 32, codes >> 16, codes], axis=1) & 0xFFFF
    pencil = "draw with a hard pencil on an empty layer, not on a copy of the image, and save the layer as PNG"
    n_soft = _n_mixtures(index, channels - channels[background], background)
    if n_soft >= SOFT:
        raise UnsupportedError(
            f"{file}: {n_soft} of {len(names)} colours are smooth edges of lines, and each would be a marker; {pencil}"
        )
    if not 1 < len(names) <= MAX_COLOURS:
        raise UnsupportedError(
            f"{file}: {counted(len(names), 'different colour')}; markers are 1 to {MAX_COLOURS - 1} colours on an even "
            f"background; {pencil}"
        )
    others = np.delete(np.arange(len(names)), background)
    # 0 for the background, 1, 2, ... for the other colours in ascending order
    numbers = np.zeros(len(names), np.int64)
    numbers[others] = np.arange(1, len(others) + 1)
    drawn = channels[others]
    colours = (drawn >> 8 if image.dtype == np.uint16 else drawn).astype(np.uint8)
    different = len(np.unique(colours, axis=0)) == len(colours)
    if grey:  # named by the labels that napari shows, which are 1 more than in our files
        listed = [f"label {label}" for label in (drawn[:, 0] + (names[-1] == unmarked)).tolist()]
    else:
        listed = [*map(hexadecimal, colours)] if different else [str(tuple(own)) for own in drawn.tolist()]
    return DrawnMarkers(numbers[index], listed, colours if different else None)


def _n_mixtures(index: NDArray[Any], ways: NDArray[Any], background: int) -> int:
    """Return how many colours are smooth edges of others: between these and the background, in colour and in place."""
    if len(ways) == 1 or len(ways) > MOST_MIXED:  # nothing drawn; a copy of the image
        return 0
    if not np.ptp(ways, axis=1).any() and np.ptp(np.delete(ways, background, axis=0)) < MAX_COLOURS:
        return 0  # close levels of grey are the numbers of a label map
    places = np.flatnonzero(ways.any(axis=1))
    coloured = ways[places]
    between = np.zeros((len(ways), len(ways)), bool)  # whether the first colour lies on the way to the second one
    for number, way in enumerate(ways):
        share = coloured @ way / (coloured**2).sum(axis=1)
        off = np.abs(share[:, None] * coloured - way).max(axis=1)
        between[number, places] = (share > 0) & (share < 1) & (off <= 2)  # levels, by which mixtures are rounded
    rows, columns = np.nonzero(np.asarray(between.any(axis=1))[index])
    own, around, alike = index[rows, columns], np.pad(index, 2, mode="edge"), between | between.T
    beside = np.zeros((2, len(rows)), bool)  # the background; another colour of the same line
    for down, right in product(range(5), repeat=2):
        other = around[rows + down, columns + right]
        beside |= other == background, alike[own, other]
    counts, edges = (np.bincount(own, weights, len(ways)) for weights in (None, beside.all(axis=0)))
    return int(np.count_nonzero((counts > 0) & (edges >= EDGE_SHARE * counts)))


def joined_files(formats: Sequence[str], out: Path) -> list[Path]:
    """Name the files of :func:`join_coco` in a folder, for the formats in which one file may hold many images."""
    return [out / FORMATS[name].ending for name in ("coco", "coco-polygons") if name in formats]


def holds_only(target: Path, placed: Sequence[tuple[str, str]]) -> bool:
    """Return whether a joined file, if there is one, holds no images but these, so that nothing is lost with it."""
    if not target.exists():
        return True
    try:
        names = [Path(image["file_name"]).name for image in json.loads(target.read_text("utf-8"))["images"]]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return {*names} <= {os.path.basename(source) for source, _ in placed}


def join_coco(placed: Sequence[tuple[str, str]], target: Path, *, force: bool = False) -> bool:
    """Join the COCO files of several images into one of :func:`joined_files`; programs take one file for a folder.

    `placed` has each image and the folder of its results, where the COCO file's name ends with that of `target`. Images
    without such a file are left out. Those of several folders are named by their paths from the folder that holds all.
    Images and annotations are renumbered from 1, behind those of the files before; none has markers, so categories are
    the same. Returns whether there were two files at least; otherwise nothing is written.
    """
    files = [(Path(folder) / f"{stem_of(source)}_{target.name}", os.path.abspath(source)) for source, folder in placed]
    found = [(json.loads(file.read_text("utf-8")), source) for file, source in files if file.is_file()]
    if len(found) < 2:
        return False
    folders = {os.path.dirname(source) for _, source in found if not os.path.basename(source).startswith("sample:")}
    for document, source in found:
        document.pop("visionnmf", None)  # how this one was made
        if len(folders) > 1 and os.path.dirname(source) in folders:  # pictures of several folders may have one name
            name = Path(source).relative_to(os.path.commonpath(folders))
            document["images"][0]["file_name"] = name.as_posix()
    documents = [document for document, _ in found]
    joined, *documents = documents  # the first one is extended by the others
    for document in documents:
        n_images, n_annotations = len(joined["images"]), len(joined["annotations"])
        for image in document["images"]:
            joined["images"].append(image | {"id": image["id"] + n_images})
        for entry in document["annotations"]:
            ids = {"id": entry["id"] + n_annotations, "image_id": entry["image_id"] + n_images}
            joined["annotations"].append(entry | ids)
    write_content(target, joined, force)
    return True


def _contents(name: str, outputs: Outputs) -> dict[str, Callable[[SegmentationResult], Content]]:
    """Return what makes the content of each file, by the ending of its name; `name` is that of the picture."""
    contents = {f"{kind}.png": draw for kind, draw in PICTURES.items()}
    contents |= {FORMATS[entry].ending: partial(formatted, entry, name) for entry in outputs.names}
    if outputs.memberships:
        contents["memberships.png"] = lambda result: draw_memberships(np.asarray(result.memberships))
    return contents


def formatted(entry: str, name: str, result: SegmentationResult) -> Content:
    """Return the segments of the picture `name` in one of the FORMATS."""
    from . import formats  # imports SciPy, which runs without formats do not need

    content: Content = FORMATS[entry].make(formats, name, result)
    return content


def write_content(file: Path, content: Content, force: bool) -> None:
    """Write a picture, text as UTF-8, bytes, or a dict as JSON, completely or not at all; `force` replaces a file."""
    if isinstance(content, np.ndarray):
        return io.write_image(file, content, force=force)
    text = json.dumps(content) if isinstance(content, dict) else content
    with io.output_file(file, force=force) as temporary:
        temporary.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)


def _earlier_numbered(folder: Path, stem: str, force: bool) -> list[Path]:
    """List the pictures of single segments, ``<stem>_<label>.png``, that an earlier run left in a folder."""
    found = [file for file in folder.glob("*.png") if file.stem.removeprefix(f"{stem}_").isdecimal()]
    if found and not force:
        raise OutputExistsError(f"{folder}: holds pictures of segments already; {PASS_FORCE}")
    return found


def _write_numbered(folder: Path, stem: str, result: SegmentationResult, force: bool) -> list[Path]:
    """Write a picture of each segment as ``<stem>_<label>.png``, and return the files."""
    if folder.name.endswith("_memberships") and result.memberships is not None:
        pictures: Iterable[NDArray[Any]] = (np.rint(255 * part).astype(np.uint8) for part in result.memberships)
    else:
        from .formats import cut_out

        pictures = cut_out(result)
    io.output_folder(folder)
    files = [folder / f"{stem}_{label}.png" for label in range(len(result.sizes))]
    for file, picture in zip(files, pictures, strict=True):
        io.write_image(file, picture, force=force)
    return files
