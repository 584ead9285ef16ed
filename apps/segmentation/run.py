"""The work of ``visionnmf segment``: read an image, segment it, write labels, overlay and boundaries."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import io
from visionnmf.apps.report import Report

from .model import segment

__all__ = ["SegmentationReport", "process_image"]


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
        return (
            f"{self.inputs[0]}: {width} x {height} pixels, {len(self.sizes)} segment{plural} ({shares}{more} %), "
            f"{self.seconds:.1f} s -> {' '.join(self.outputs)}"
        )


def process_image(
    source: str | Path,
    *,
    n_segments: int | None = None,
    scale: float | None = None,
    out: str | Path = ".",
    force: bool = False,
) -> SegmentationReport:
    """Segment a file; write ``<stem>_labels.png``, ``_overlay.png`` and ``_boundaries.png``, all or none.

    Parameters
    ----------
    source : str or Path
        A picture, or ``sample:NAME``.
    n_segments : int, optional
    scale : float, optional
        As in :func:`.segment`.
    out : str or Path, default="."
        Folder for the results; made if missing.
    force : bool, default=False
        Overwrite results that exist already.

    Returns
    -------
    SegmentationReport
        What was found and written.

    Raises
    ------
    MediaError
        If the picture cannot be read, or the results cannot or may not be written.
    ParameterError
        As in :func:`.segment`.
    """
    begin = time.perf_counter()
    name = str(source)
    stem = name.removeprefix("sample:") if name.startswith("sample:") else Path(name).stem
    folder = Path(out)
    files = [folder / f"{stem}_{kind}.png" for kind in ("labels", "overlay", "boundaries")]
    io.check_outputs(files, force, inputs=[source])
    image = io.read_image(source)
    result = segment(image, n_segments, scale=scale)
    pictures: tuple[NDArray[Any], ...] = (
        result.labels,
        result.overlay(),
        np.rint(result.boundaries * 65535).astype(np.uint16),
    )
    io.output_folder(folder)
    with io.transaction():
        for file, picture in zip(files, pictures, strict=True):
            io.write_image(file, picture, force=force)
    return SegmentationReport(
        shape=result.labels.shape,
        sizes=result.sizes.tolist(),
        scale=result.scale,
        n_regions=result.hierarchy.n_regions,
        seconds=time.perf_counter() - begin,
        inputs=[name],
        outputs=[str(file) for file in files],
    )
