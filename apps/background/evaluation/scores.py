"""The work of ``visionnmf background evaluate``: methods compared on clips with true masks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import check_choice
from visionnmf._text import printable
from visionnmf.apps.report import Report
from visionnmf.apps.runner import RESULTS, run_jobs, settings_key
from visionnmf.exceptions import MediaError
from visionnmf.io import output_folder, write_image

from .baselines import make_separator
from .metrics import BACKGROUND_ERRORS, CDNET_METRICS, Confusion, background_errors
from .true_masks import TrueClip, find_clips, read_clip

__all__ = ["BASELINES", "COLUMNS", "BackgroundScoresReport", "evaluate", "score_clip"]

FrameArray = NDArray[np.uint8]
Rows = list[dict[str, Any]]

BASELINES = ("median", "mog2", "knn")  # compared with every other method
COUNTS = ("tp", "fp", "fn", "tn")
COSTS = ("seconds_a_frame", "frames_per_second", "peak_mib")
COLUMNS = ("clip", "category", "method", "frames", "masks", *COUNTS, *CDNET_METRICS, *BACKGROUND_ERRORS, *COSTS)


@dataclass(frozen=True)
class BackgroundScoresReport(Report):
    """How well methods agree with true masks; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    clips : list of dict
        For each clip and method the values that :data:`COLUMNS` names.
    methods : list of dict
        For each method the means over clips and, as ``f_measure_of_categories``, the mean over categories of the means
        of their clips, as CDnet has it. Clips for which a value is not defined do not count for it.
    """

    clips: Rows
    methods: Rows

    def summary(self) -> str:
        """Return two tables: F of each clip with a column for each method, and the means of each method.

        Returns
        -------
        str
        """
        names = [row["method"] for row in self.methods]
        by_clip: dict[str, dict[str, Any]] = {}
        for row in self.clips:
            by_clip.setdefault(row["clip"], {})[row["method"]] = row["f_measure"]
        by_clip = {printable(clip): row for clip, row in by_clip.items()}  # names of folders come from outside
        width = max(len(name) for name in (*by_clip, "F-measure"))
        lines = [f"{'F-measure':{width}} " + " ".join(f"{name:>7}" for name in names)]
        lines += [
            f"{clip:{width}} " + " ".join(_cell(row.get(name)) for name in names) for clip, row in by_clip.items()
        ]
        head = ("F", "precis.", "recall", "spec.", "PWC", "AGE", "pEPs", "MS-SSIM", "ms/fr.", "fr./s", "MiB")
        keys = ("f_measure", "precision", "recall", "specificity", "pwc", "age", "peps", "ms_ssim")
        lines += ["", f"{'means':{width}} " + " ".join(f"{word:>7}" for word in head)]
        for row in self.methods:
            cells = [_cell(row[key]) for key in keys]
            milliseconds = 1000 * row["seconds_a_frame"]
            memory = "      -" if row["peak_mib"] is None else f"{row['peak_mib']:7.0f}"
            cells += [f"{milliseconds:7.2f}", f"{row['frames_per_second']:7.0f}", memory]
            lines.append(f"{row['method']:{width}} " + " ".join(cells))
        return "\n".join([*lines, *self._ending()])


def evaluate(
    clips: Sequence[str],
    *,
    methods: Sequence[str] = ("ours",),
    out: str | Path | None = None,
    masks: bool = False,
    jobs: int = 1,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> BackgroundScoresReport:
    """Compare methods on clips with true masks.

    Parameters
    ----------
    clips : sequence of str
        Folders with `input` and `groundtruth` as changedetection.net has them, folders of such, or names of
        :data:`visionnmf.datasets.local.MASKED_VIDEOS`.
    methods : sequence of str, default=("ours",)
        Of `choices.BACKGROUND_METHODS`; the baselines "median", "mog2" and "knn" are always compared with them.
    out : str or Path, optional
        Folder for the table ``results.csv``, a row for each clip and method. An interrupted run resumes.
    masks : bool, default=False
        Also write the masks of all frames to ``METHOD/CATEGORY/CLIP/bin000001.png`` in `out`, as the tools of CDnet
        expect them.
    jobs : int, default=1
        Number of processes; several disturb each other's frames per second.
    force : bool, default=False
        Whether other results in `out` may be replaced.
    progress : callable, optional
        Called as ``progress(done, total)``.

    Returns
    -------
    BackgroundScoresReport

    Raises
    ------
    ParameterError
        If a method is not known.
    UnreadableError
        If there is no clip with true masks.
    OutputExistsError
        If `out` holds other results, and `force` is false.

    Examples
    --------
    >>> from pathlib import Path
    >>> from visionnmf.apps.background import evaluate
    >>> from visionnmf.datasets import make_surveillance
    >>> from visionnmf.io import write_image
    >>> clip = make_surveillance(12, 24, 32, random_state=0)
    >>> for i, (frame, mask) in enumerate(zip(clip.frames, clip.masks, strict=True), 1):
    ...     for folder, array in (("input/in", frame), ("groundtruth/gt", mask * 255)):
    ...         Path("street", folder).parent.mkdir(parents=True, exist_ok=True)
    ...         write_image(f"street/{folder}{i:06}.png", array.astype("uint8"), force=True)
    >>> len(evaluate(["street"]).inputs)
    1
    """
    names = list(dict.fromkeys([*methods, *BASELINES]))
    for name in names:
        check_choice(name, "methods", choices.BACKGROUND_METHODS)
    found = list(dict.fromkeys(clip for argument in clips for clip in find_clips(argument)))
    folder = str(out) if masks and out is not None else None
    work = {
        f"{number:03d}_{Path(clip).name}_{method}": (clip, method, folder)
        for number, clip in enumerate(found, start=1)
        for method in names
    }
    key = settings_key({"clips": found, "masks": masks})
    rows = run_jobs(
        work, _work, (*COLUMNS, "problem"), key=key, out=out, processes=jobs, force=force, progress=progress
    )
    scored = [row for row in rows if row["problem"] is None]
    return BackgroundScoresReport(
        clips=[{name: row[name] for name in COLUMNS} for row in scored],
        methods=[_means(name, [row for row in scored if row["method"] == name]) for name in names if scored],
        inputs=list(clips),
        outputs=[] if out is None else [str(Path(out) / RESULTS)],
        skipped=list(dict.fromkeys(row["problem"] for row in rows if row["problem"] is not None)),
    )


def _work(source: str, method: str, folder: str | None) -> Rows:
    empty = dict.fromkeys((*COLUMNS, "problem"))
    try:
        clip = read_clip(source)
        return [empty | score_clip(clip, method, folder)]
    except MediaError as error:
        return [empty | {"clip": source, "method": method, "problem": str(error)}]


def score_clip(clip: TrueClip, method: str, folder: str | None = None) -> dict[str, Any]:
    """Run a method over a clip and return the values that :data:`COLUMNS` names; `folder` also gets the masks.

    The seconds are those of the processor without reading the frames. The memory is what the work took beyond what the
    process held before, None where the system does not say.
    """
    reading = _Stopwatch()
    held = _reset_peak()
    start, began = time.process_time(), time.perf_counter()
    separator = make_separator(method).fit(reading.around(clip.frames()))
    counts, scoring = Confusion(), _Stopwatch()
    with closing(separator.apply(reading.around(clip.frames()))) as parts:
        for part in parts:
            with scoring:
                if part.index in clip.masks:
                    counts.add(part.mask, clip.masks[part.index]())
                if folder is not None:
                    _write_mask(Path(folder) / method / clip.category / clip.name, clip.numbers[part.index], part.mask)
    used = time.process_time() - start - reading.seconds - scoring.seconds
    elapsed = time.perf_counter() - began - reading.elapsed - scoring.elapsed
    peak = _status("VmHWM")
    errors = dict.fromkeys(BACKGROUND_ERRORS, None)
    if clip.background is not None:
        errors |= background_errors(separator.background_, clip.background)
    return {
        "clip": clip.name,
        "category": clip.category,
        "method": method,
        "frames": len(clip.numbers),
        "masks": counts.masks,
        **{name: getattr(counts, name) for name in COUNTS},
        **counts.metrics(),
        **errors,
        "seconds_a_frame": used / len(clip.numbers),
        "frames_per_second": len(clip.numbers) / elapsed,
        "peak_mib": None if held is None or peak is None else (peak - held) / 1024,
    }


def _write_mask(folder: Path, number: int, mask: FrameArray) -> None:
    output_folder(folder)
    write_image(folder / f"bin{number:06d}.png", mask, force=True)


class _Stopwatch:
    """Time of this thread that does not belong to the method."""

    def __init__(self) -> None:
        self.seconds = self.elapsed = 0.0

    def __enter__(self) -> None:
        self._start, self._began = time.thread_time(), time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.seconds += time.thread_time() - self._start
        self.elapsed += time.perf_counter() - self._began

    def around(self, frames: Iterator[FrameArray]) -> Iterator[FrameArray]:
        """Pass frames on, and measure how long reading them takes."""
        while True:
            with self:
                frame = next(frames, None)
            if frame is None:
                return
            yield frame


def _reset_peak() -> int | None:
    """Reset the peak of memory; return what is held now, in KiB, or None where the system does not say."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int | None:
    """Return a figure of this process in KiB, or None where the system does not say."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    return None


def _means(method: str, rows: Rows) -> dict[str, Any]:
    """Return the means of a method over clips."""
    names = (*CDNET_METRICS, *BACKGROUND_ERRORS, *COSTS)
    means: dict[str, Any] = {"method": method, "clips": len(rows)} | {name: _mean(rows, name) for name in names}
    categories = dict.fromkeys(row["category"] for row in rows)
    of_each = [{"f": _mean([row for row in rows if row["category"] == one], "f_measure")} for one in categories]
    return means | {"f_measure_of_categories": _mean(of_each, "f")}


def _mean(rows: Rows, name: str) -> float | None:
    values = [row[name] for row in rows if row[name] is not None]
    return float(np.mean(values)) if values else None


def _cell(value: float | None) -> str:
    return f"{'-':>7}" if value is None else f"{value:7.3f}"
