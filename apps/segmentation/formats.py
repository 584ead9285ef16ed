"""A segmentation in the formats of other programs; :data:`.settings.FORMATS` lists the files.

Outlines run along the sides of pixels. They are exact, so outlines of neighbours share their vertices.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import find_objects

from visionnmf._checks import check_result, shown
from visionnmf.exceptions import ParameterError

from .overlays import hexadecimal, to_eight_bits
from .segmenter import SegmentationResult

Ring = NDArray[np.int64]


def to_coco(pictures: Iterable[tuple[str, SegmentationResult]], *, polygons: bool = False) -> dict[str, Any]:
    """Describe segmentations in COCO's format for object detection.

    Parameters
    ----------
    pictures : iterable of (str, SegmentationResult)
        The file name and the segments of each image.
    polygons : bool, default=False
        Write polygons in place of run lengths. Both are exact. COCO's polygons have no holes, so a segment around
        another one is cut vertically into several.

    Returns
    -------
    dict
        Plain numbers, strings, lists and dicts, for ``json.dump``. Images and annotations count from 1. Categories are
        the `marker_names` and, for segments without one, ``segment``; each annotation has its ``label`` besides.

    References
    ----------
    T.-Y. Lin et al., "Microsoft COCO: common objects in context", ECCV 2014; the format is at cocodataset.org.

    Examples
    --------
    >>> from visionnmf.apps.segmentation import segment, to_coco
    >>> from visionnmf.datasets import make_mosaic
    >>> len(to_coco([("mosaic.png", segment(make_mosaic(48, 64).image, 3))])["annotations"])
    3
    """
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    categories: dict[str, int] = {}
    image_id = 0
    for image_id, (name, result) in enumerate(_pairs(pictures), start=1):
        height, width = result.labels.shape
        names = dict(enumerate(result.marker_names))
        images.append({"id": image_id, "file_name": name, "width": width, "height": height})
        for label, (mask, corner) in enumerate(label_masks(result.labels, len(result.sizes))):
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image_id,
                    "category_id": categories.setdefault(names.get(label, "segment"), len(categories) + 1),
                    "segmentation": [(ring + corner).ravel().tolist() for ring in find_simple_outlines(mask)]
                    if polygons
                    else {"size": [height, width], "counts": _run_lengths(mask, corner, (height, width))},
                    "area": int(result.sizes[label]),
                    "bbox": [int(corner[0]), int(corner[1]), mask.shape[1], mask.shape[0]],
                    "iscrowd": 0,
                    "label": label,
                }
            )
    if image_id == 0:
        raise ParameterError("pictures must hold at least one picture; got none")
    return {
        "info": {"description": "segments found by visionnmf"},
        "licenses": [],
        "images": images,
        "annotations": annotations,
        "categories": [{"id": number, "name": name, "supercategory": "segment"} for name, number in categories.items()],
    }


def _checked(result: Any) -> SegmentationResult:
    """Return the result of `segment`, or raise ParameterError for anything else, such as labels."""
    found: SegmentationResult = check_result(result, "result", "segment(image)", "labels", "sizes", "properties")
    return found


def _pairs(pictures: Any) -> Iterator[tuple[str, SegmentationResult]]:
    """Yield names and results; raise ParameterError for anything else."""
    for pair in pictures if isinstance(pictures, Iterable) and not hasattr(pictures, "dtype") else [pictures]:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ParameterError(f"pictures must be pairs of a file name and a result; got {shown(pair)}")
        yield pair[0], _checked(pair[1])


def _run_lengths(mask: NDArray[np.bool_], corner: NDArray[np.int64], shape: tuple[int, int]) -> list[int]:
    """Return a segment as COCO's run lengths: how many pixels in turn are outside and inside of it."""
    # pixels are counted down the columns of the whole picture, and the first number is of pixels outside
    padded = np.zeros((mask.shape[1], mask.shape[0] + 1), np.int8)  # a zero below each column ends its last run
    padded[:, :-1] = mask.T
    column, row = np.divmod(np.flatnonzero(np.diff(padded.ravel(), prepend=0)), mask.shape[0] + 1)
    # Changes mark where runs start and end, in turn. Runs are joined where one ends at the last row of the picture and
    # the next begins at the first row.
    places = (column + corner[0]) * shape[0] + row + corner[1]
    starts, ends = places[::2], places[1::2]
    joined = starts[1:] == ends[:-1]
    starts, ends = starts[np.append(True, ~joined)], ends[np.append(~joined, True)]
    counts = np.diff(np.stack([starts, ends], axis=1).ravel(), prepend=0).tolist()
    rest = shape[0] * shape[1] - int(ends[-1])
    return [*counts, rest] if rest else counts


def to_geojson(result: SegmentationResult) -> dict[str, Any]:
    """Describe segments as GeoJSON (RFC 7946).

    Parameters
    ----------
    result : SegmentationResult

    Returns
    -------
    dict
        A FeatureCollection: for each segment a Polygon or MultiPolygon, with the columns of :func:`to_csv` as
        properties. x is the column and y the negative row of a corner of pixels, which is where QGIS and GDAL draw a
        picture without georeference. Neighbours share vertices.

    Examples
    --------
    >>> from visionnmf.apps.segmentation import segment, to_geojson
    >>> from visionnmf.datasets import make_mosaic
    >>> len(to_geojson(segment(make_mosaic(48, 64).image, 3))["features"])
    3
    """
    features = []
    outlines = label_outlines(_checked(result).labels, len(result.sizes))
    for row, polygons in zip(_rows(result), outlines, strict=True):
        coordinates = [  # rings are closed by their first corner, and y is made negative
            [(np.vstack([ring, ring[:1]]) * (1, -1)).tolist() for ring in (polygon.exterior, *polygon.holes)]
            for polygon in polygons
        ]
        one = len(coordinates) == 1
        geometry = {"type": "Polygon" if one else "MultiPolygon", "coordinates": coordinates[0] if one else coordinates}
        features.append({"type": "Feature", "id": row["label"], "geometry": geometry, "properties": row})
    return {"type": "FeatureCollection", "features": features}


def to_svg(result: SegmentationResult) -> str:
    """Draw the outlines of segments as SVG.

    Parameters
    ----------
    result : SegmentationResult

    Returns
    -------
    str
        A document of the picture's size in pixels, with a half-transparent path for each segment, ``id="segment-0"``
        and so on, in the colour that the segment has in :meth:`.SegmentationResult.overlay`.

    Examples
    --------
    >>> from visionnmf.apps.segmentation import segment, to_svg
    >>> from visionnmf.datasets import make_mosaic
    >>> to_svg(segment(make_mosaic(48, 64).image, 3))[:4]
    '<svg'
    """
    height, width = _checked(result).labels.shape
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f'<g fill-opacity="0.4" fill-rule="evenodd" stroke="#000" stroke-width="{max(1, max(height, width) / 500):g}">',
    ]
    outlines = label_outlines(result.labels, len(result.sizes))
    for label, (colour, polygons) in enumerate(zip(result.colours, outlines, strict=True)):
        rings = [ring for polygon in polygons for ring in (polygon.exterior, *polygon.holes)]
        path = "".join("M" + "L".join(f"{x} {y}" for x, y in ring.tolist()) + "Z" for ring in rings)
        lines.append(
            f'<path id="segment-{label}" fill="{hexadecimal(colour)}" d="{path}"><title>{label}</title></path>'
        )
    return "\n".join([*lines, "</g>", "</svg>", ""])


def to_csv(result: SegmentationResult) -> str:
    """Return the properties of segments as a table.

    Parameters
    ----------
    result : SegmentationResult

    Returns
    -------
    str
        A header and a row for each segment: ``label``, ``area`` (pixels), ``share`` (of all segments), ``red``,
        ``green`` and ``blue`` (or ``band_1`` and so on), ``row`` and ``column`` of the centre, ``top``, ``left``,
        ``bottom`` and ``right`` of the box, ``neighbours`` (labels with spaces between), and ``marker`` (its number or
        colour) if there are any.

    Examples
    --------
    >>> from visionnmf.apps.segmentation import segment, to_csv
    >>> from visionnmf.datasets import make_mosaic
    >>> len(to_csv(segment(make_mosaic(48, 64).image, 3)).splitlines())
    4
    """
    text = io.StringIO()
    rows = list(_rows(_checked(result)))
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _rows(result: SegmentationResult) -> Iterator[dict[str, Any]]:
    """Yield the row of each segment in a table, whose columns :func:`to_csv` describes."""
    total, markers = int(result.sizes.sum()), dict(enumerate(result.marker_names))
    for found in result.properties():
        colour = found["colour"]
        names = ("red", "green", "blue") if len(colour) == 3 else [f"band_{k}" for k in range(1, len(colour) + 1)]
        yield {
            "label": found["label"],
            "area": found["area"],
            "share": round(found["area"] / total, 6),
            **{name: round(value, 6) for name, value in zip(names, colour, strict=True)},
            **{name: round(value, 3) for name, value in zip(("row", "column"), found["centre"], strict=True)},
            **dict(zip(("top", "left", "bottom", "right"), found["box"], strict=True)),
            "neighbours": " ".join(map(str, found["neighbours"])),
            **({"marker": markers.get(found["label"], "")} if markers else {}),
        }


def cut_out(result: SegmentationResult) -> Iterator[NDArray[Any]]:
    """Yield each segment as a picture of its own.

    Parameters
    ----------
    result : SegmentationResult

    Yields
    ------
    ndarray [shape=(box_height, box_width, 4), uint8 or uint16]
        RGBA, as large as the segment's box in :meth:`.SegmentationResult.properties`, and transparent where other
        segments are.

    Examples
    --------
    >>> from visionnmf.apps.segmentation import cut_out, segment
    >>> from visionnmf.datasets import make_mosaic
    >>> [picture.shape[2] for picture in cut_out(segment(make_mosaic(48, 64).image, 3))]
    [4, 4, 4]
    """
    picture = result.image if _checked(result).image.dtype == np.uint16 else to_eight_bits(result.image)
    opaque = np.iinfo(picture.dtype).max
    for mask, (left, top) in label_masks(result.labels, len(result.sizes)):
        height, width = mask.shape
        alone = np.zeros((height, width, 4), picture.dtype)
        alone[mask, :3] = picture[top : top + height, left : left + width][mask]
        alone[mask, 3] = opaque
        yield alone


# --- outlines ---------------------------------------------------------------------------------------------------------


class Polygon(NamedTuple):
    """A piece of a segment: its exterior ring, and the rings of its holes.

    A ring (n, 2) has the corners (x, y), x to the right and y downwards, with (0, 0) the picture's corner; its last
    corner is joined to the first. As it is seen, the exterior runs counter-clockwise and holes run clockwise.
    """

    exterior: Ring
    holes: list[Ring]


def label_outlines(labels: NDArray[Any], count: int) -> Iterator[list[Polygon]]:
    """Yield for each segment, 0 to count - 1, the polygons of its pieces, in the coordinates (x, y) of the picture."""
    for mask, corner in label_masks(labels, count):
        yield [Polygon(p.exterior + corner, [hole + corner for hole in p.holes]) for p in find_outlines(mask)]


def label_masks(labels: NDArray[Any], count: int) -> Iterator[tuple[NDArray[np.bool_], Ring]]:
    """Yield each segment, 0 to count - 1, as a mask of its bounding box, and the box's upper left corner (x, y)."""
    # + 1, because `find_objects` takes 0 for the background
    boxes = find_objects(labels.astype(np.int32) + 1, count)
    for label, box in enumerate(boxes):
        yield labels[box] == label, np.array([box[1].start, box[0].start])


def find_outlines(mask: NDArray[np.bool_]) -> list[Polygon]:
    """Return a polygon, with its holes, for each piece of a mask; two rings share single points at most."""
    return [_trace(piece, corner) for piece, corner in _pieces(mask)]


def find_simple_outlines(mask: NDArray[np.bool_]) -> list[Ring]:
    """Trace a mask as rings (n, 2) of corners (x, y) that do not overlap and have no holes."""
    # a piece with holes is cut vertically through one of them, until no hole is left
    rings = []
    waiting = list(_pieces(mask))
    while waiting:
        piece, corner = waiting.pop()
        polygon = _trace(piece, corner)
        if not polygon.holes:
            rings.append(polygon.exterior)
            continue
        # cutting at the middle column of the median hole divides the holes most evenly, so the fewest cuts are needed
        middles = sorted((int(hole[:, 0].min()) + int(hole[:, 0].max())) // 2 for hole in polygon.holes)
        column = middles[len(middles) // 2] - int(corner[0])
        waiting += [(part, corner + place) for part, place in _pieces(piece[:, :column])]
        waiting += [(part, corner + np.array([column, 0]) + place) for part, place in _pieces(piece[:, column:])]
    return rings


def _pieces(mask: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.bool_], Ring]]:
    """Yield the pieces of a mask, whose pixels touch along their sides."""
    count, names, boxes, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=4)
    for name in range(1, count):
        x, y, width, height = boxes[name, :4].tolist()
        yield names[y : y + height, x : x + width] == name, np.array([x, y])


def _trace(piece: NDArray[np.bool_], corner: Ring) -> Polygon:
    """Return the outlines of one piece, a mask of its box with no other pixels set, and of its holes."""
    around = np.pad(~piece, 1, constant_values=True)
    # 4-connected areas of what is not the piece; the one in the corner is the outside, the others are holes
    count, areas, boxes, _ = cv2.connectedComponentsWithStats(around.astype(np.uint8), connectivity=4)
    holes = []
    for area in range(1, count):
        if area == areas[0, 0]:
            continue
        x, y, width, height = boxes[area, :4].tolist()
        hole = areas[y : y + height, x : x + width] == area
        # reversed, because holes run the other way round; -1 for the frame that was padded
        holes.append(_ring(hole)[::-1] + corner + (x - 1, y - 1))
    return Polygon(_ring(piece) + corner, holes)


def _ring(piece: NDArray[np.bool_]) -> Ring:
    """Return the corners (n, 2), as x and y, of the outer border of an area whose pixels touch along their sides."""
    # OpenCV's contours go through the centres of pixels. Here each pixel is made four, so the outermost of them lie on
    # known sides of the lines between pixels, and half their coordinates, rounded up, are the corners.
    fine = piece.astype(np.uint8).repeat(2, axis=0).repeat(2, axis=1)
    # a single contour, because the area is one piece; item 1 of what OpenCV returns would be what lies in what
    (contour,) = cv2.findContours(fine, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0]
    ring = (contour[:, 0].astype(np.int64) + 1) // 2
    # two points of the contour that gave the same corner are one
    ring = ring[(ring != np.roll(ring, 1, axis=0)).any(axis=1)]
    # a corner lies on a straight line if it shares x, or y, with both its neighbours
    straight = (np.roll(ring, 1, axis=0) == ring) & (ring == np.roll(ring, -1, axis=0))
    return ring[~straight.any(axis=1)]
