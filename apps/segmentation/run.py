"""The work of ``visionnmf segment``: read an image, segment it, write labels and overlay."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visionnmf import choices, io
from visionnmf.apps.report import Report

from .draw import overlay
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
    n_superpixels : int
        Superpixels that the model saw.
    objective : float
        The model's misfit, as a share of that of no model.
    seconds : float
        Time from reading to the last file.
    """

    shape: tuple[int, int]
    sizes: list[int]
    n_superpixels: int
    objective: float
    seconds: float

    def _figures(self) -> dict[str, Any]:
        return {
            "input": self.inputs[0],
            "shape": list(self.shape),
            "segments": [{"label": label, "pixels": pixels} for label, pixels in enumerate(self.sizes)],
            "superpixels": self.n_superpixels,
            "objective": round(self.objective, 6),
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
    n_segments: int = choices.SEGMENTS,
    n_components: int = choices.SEGMENT_COMPONENTS,
    n_superpixels: int = choices.SUPERPIXELS,
    random_state: int = choices.RANDOM_STATE,
    out: str | Path = ".",
    force: bool = False,
) -> SegmentationReport:
    """Segment a file; write ``<stem>_labels.png`` and ``<stem>_overlay.png``, both or neither.

    Parameters
    ----------
    source : str or Path
        An image, or ``sample:NAME``.
    n_segments, n_components, n_superpixels, random_state : int
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
        If the image cannot be read, or the results cannot or may not be written.
    ParameterError
        As in :func:`.segment`.
    """
    begin = time.perf_counter()
    name = str(source)
    stem = name.removeprefix("sample:") if name.startswith("sample:") else Path(name).stem
    folder = Path(out)
    labels_file, overlay_file = folder / f"{stem}_labels.png", folder / f"{stem}_overlay.png"
    io.check_outputs([labels_file, overlay_file], force, inputs=[source])
    image = io.read_image(source)
    result = segment(
        image, n_segments, n_components=n_components, n_superpixels=n_superpixels, random_state=random_state
    )
    picture = overlay(image, result.labels)
    io.output_folder(folder)
    with io.transaction():
        io.write_image(labels_file, result.labels, force=force)
        io.write_image(overlay_file, picture, force=force)
    return SegmentationReport(
        shape=result.labels.shape,
        sizes=result.sizes.tolist(),
        n_superpixels=result.n_superpixels,
        objective=result.objective,
        seconds=time.perf_counter() - begin,
        inputs=[name],
        outputs=[str(labels_file), str(overlay_file)],
    )
