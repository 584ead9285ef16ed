"""From images to a table of their features."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from visionnmf import choices
from visionnmf.apps.report import Report
from visionnmf.exceptions import MediaError
from visionnmf.features import Extractor, FeatureExtraction, load_extraction, save_extraction
from visionnmf.io import check_outputs, expand_images, transaction

from .table import FeatureTable, check_format, check_table_size, write_table

__all__ = ["FeaturesReport", "extract_features"]

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, kw_only=True)
class FeaturesReport(Report):
    """What :func:`extract_features` did; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    images : int
        Described.
    features : dict of str to int
        How many each view has.
    seconds, images_per_second : float
        Learning of dictionaries included.
    """

    images: int
    features: dict[str, int]
    seconds: float
    images_per_second: float

    def summary(self) -> str:
        """Return the report as text for a person.

        Returns
        -------
        str
            A few lines.
        """
        views = ", ".join(f"{view} {count}" for view, count in self.features.items())
        first = (
            f"{self.images} images, {sum(self.features.values())} features ({views}), {self.seconds:.1f} s "
            f"({self.images_per_second:.0f} images/s)"
        )
        return "\n".join([first, *(f"  {line}" for line in self._ending())])


def extract_features(
    sources: Sequence[str | Path],
    out: str | Path,
    *,
    kinds: Sequence[str | Extractor] = choices.FEATURE_KINDS,
    use: str | Path | None = None,
    save: str | Path | None = None,
    n_jobs: int | None = None,
    cache: str | Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> FeaturesReport:
    """Describe images, and write a table of their features.

    Parameters
    ----------
    sources : sequence of str or Path
        Images, patterns, and folders, of which all images are taken, also those of the folders below.
    out : str or Path
        The table: ``.npz``, ``.csv`` or ``.parquet``; see :func:`~visionnmf.apps.features.read_table`.
    kinds : sequence of str or Extractor, default=("gist", "dense-hue", "dense-sift", "lab")
        See :data:`visionnmf.features.KINDS`. Dictionaries are learnt from the images.
    use : str or Path, optional
        Extractors that `save` has written: new images get features that can be compared with those of before. Takes
        the place of `kinds`.
    save : str or Path, optional
        Where to write the fitted extractors.
    n_jobs : int or None, default=None
        Processes; -1 takes as many as there are processors.
    cache : str or Path, optional
        A file that keeps features between runs; see :class:`.FeatureExtraction`.
    force : bool, default=False
        Whether existing outputs may be replaced.
    progress : callable, optional
        Called with ("extracting", images done, images in all).

    Returns
    -------
    FeaturesReport
        Images that cannot be read are in `skipped`.

    Raises
    ------
    MediaError
        If no image can be read, an output exists, or cannot be written, or would be larger than can be read.
    ParameterError
        If an argument is not allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io import write_image
    >>> write_image("photo.png", np.full((8, 9, 3), 200, np.uint8), force=True)
    >>> from visionnmf.apps.features import extract_features
    >>> extract_features(["photo.png"], "features.npz", kinds=["lab"], force=True).outputs
    ['features.npz']
    """
    check_format(out)
    outputs = [Path(path) for path in (out, save) if path is not None]
    images = expand_images([str(source) for source in sources])
    inputs = [*images, *([use] if use is not None else [])]
    check_outputs(outputs, force, inputs=inputs)
    if cache is not None:  # which may exist already
        check_outputs([*outputs, cache], True, inputs=inputs)
    for path in outputs:
        if not path.parent.is_dir():
            raise MediaError(f"{path}: there is no folder {path.parent}; create it first")
    extraction = FeatureExtraction(kinds) if use is None else load_extraction(use)
    extraction.set_params(n_jobs=n_jobs, cache=cache)
    start = time.perf_counter()

    def described(stage: str, done: int, total: int | None) -> None:
        if done == 1:  # what was learnt says how many features there will be
            check_table_size(Path(out), 4 * extraction.n_features_out_ * len(images))
        if progress is not None:
            progress(stage, done, total)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of transparency, once an image
        found = extraction.extract(images, fit=use is None, progress=described)
    table = FeatureTable(
        found.X,
        [images[i] for i in found.readable],
        extraction.get_feature_names_out().tolist(),
        extraction.groups_,
        list(extraction.views_),
    )
    with transaction():
        write_table(table, out, force=force)
        if save is not None:
            save_extraction(extraction, save, force=force)
    seconds = time.perf_counter() - start
    return FeaturesReport(
        images=len(found.X),
        features={view: columns.stop - columns.start for view, columns in extraction.views_.items()},
        seconds=seconds,
        images_per_second=len(found.X) / seconds,
        inputs=[str(source) for source in sources],
        outputs=[str(path) for path in outputs],
        skipped=found.skipped,
    )
